//! Checks that the windows of open loops have enough requests for a verdict.

use load::config::Schedule;

use super::Plan;
use crate::record::{Check, Trial};

/// A random number of requests hardly ever differs from its mean by more than these standard deviations.
const DEVIATIONS: f64 = 3.0;

/// The smallest mean number of sessions in a window with a chance of a verdict.
const SESSIONS_MIN: f64 = 0.05;

impl Plan {
    /// Marks trials as infeasible if their windows have too few requests for a verdict, and warns if they may have too few. Only
    /// for strategies that keep the planned windows: a search lengthens those of its probes.
    pub fn check_windows(&mut self) {
        let mut fewest = f64::INFINITY;
        for trial in self.trials.iter_mut().filter(|trial| trial.infeasible.is_empty()) {
            let Some((mean, deviation)) = requests(trial) else { continue };
            if mean < SESSIONS_MIN * requests_of_session(trial) {
                trial.infeasible.push(format!(
                    "phases.measure: a session of {} requests hardly ever begins in the window, which has time for about {mean:.0} \
                     requests; lengthen the window, raise the rate, or lower workload.requests-per-connection",
                    requests_of_session(trial)
                ));
            } else if mean + deviation < Check::REQUESTS_MIN {
                trial.infeasible.push(reason(trial, mean));
            } else if mean - deviation < Check::REQUESTS_MIN {
                fewest = fewest.min(mean);
            }
        }
        if fewest.is_finite() {
            self.warnings.push(format!(
                "a window with about {fewest:.0} requests may have fewer than the {} that a verdict needs; raise the rate, or \
                 lengthen the window",
                Check::REQUESTS_MIN
            ));
        }
    }
}

/// Returns the mean number of requests in the window of an open loop, and the largest likely deviation; `None` for a closed loop.
fn requests(trial: &Trial) -> Option<(f64, f64)> {
    let workload = &trial.workload;
    if let Some(trace) = workload.trace() {
        return Some((trace.requests as f64, 0.0));
    }
    let mean = workload.rate_per_s()? * workload.phases.measure_ns as f64 / 1e9;
    let session = requests_of_session(trial);
    let sessions = match workload.schedule() {
        Some(Schedule::Poisson) => DEVIATIONS * (mean / session).sqrt(),
        // The window may begin within a slot of each client.
        _ => f64::from(trial.client.all_clients()),
    };
    Some((mean, sessions * session))
}

/// Returns the number of requests that are planned together: those of a session, otherwise 1.
fn requests_of_session(trial: &Trial) -> f64 {
    f64::from(trial.workload.requests_per_connection().unwrap_or(1))
}

fn reason(trial: &Trial, mean: f64) -> String {
    let (key, what, remedy) = match trial.workload.trace() {
        Some(_) => ("trace", "arrivals", "replay a longer part"),
        None => ("rate", "requests in the window", "raise the rate, or lengthen the window"),
    };
    let least = Check::REQUESTS_MIN;
    format!("workload.{key}: about {mean:.0} {what} are too few for a verdict, which needs {least}; {remedy}")
}

#[cfg(test)]
mod tests {
    use crate::host::Host;
    use crate::plan::plan;
    use crate::spec::Experiment;

    #[test]
    fn windows_with_too_few_requests_are_infeasible_or_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.csv");
        let found = |workload: &str| {
            let text =
                format!("architectures = \"epoll\"\nrepeats = 1\n[workload]\n{workload}\n[phases]\nmeasure = \"1s\"\n");
            let experiment = Experiment::of(&text);
            let mut plan = plan(&experiment, &Host::made_up()).unwrap();
            let count = plan.warnings.len();
            plan.check_windows();
            (plan.trials[0].infeasible.join("\n"), plan.warnings[count..].join("\n"))
        };
        for (workload, is_refused, is_warned) in [
            ("rate = 18", true, false),
            ("rate = 20", false, true),
            ("rate = 21", false, false),
            ("rate = 7\nschedule = \"poisson\"", true, false),
            ("rate = 18\nschedule = \"poisson\"", false, true),
            ("rate = 50\nschedule = \"poisson\"", false, false),
            ("rate-profile = \"ramp:0..30:1s\"", true, false),
            ("rate = 60\nrequests-per-connection = 45", false, true),
            ("rate = 60\nrequests-per-connection = 3", false, false),
            ("schedule = \"closed\"", false, false),
        ] {
            let (refused, warned) = found(workload);
            assert_eq!(
                refused.contains("requests in the window are too few for a verdict"),
                is_refused,
                "{workload}: {refused}"
            );
            assert_eq!(
                warned.contains("may have fewer than the 20 that a verdict needs"),
                is_warned,
                "{workload}: {warned}"
            );
        }
        let (refused, _) = found("rate = 60\nrequests-per-connection = 1300");
        assert!(refused.contains("a session of 1300 requests hardly ever begins in the window"), "{refused}");
        for (arrivals, is_refused) in [(8, true), (19, true), (20, false)] {
            let times: String = (0..arrivals).map(|at| format!("{at}\n")).collect();
            std::fs::write(&trace, format!("time_ms\n{times}")).unwrap();
            let (refused, warned) = found(&format!("trace = {{ file = {trace:?} }}"));
            let words = format!("workload.trace: about {arrivals} arrivals are too few for a verdict");
            assert_eq!((refused.contains(&words), warned.as_str()), (is_refused, ""), "{refused}");
        }
    }
}
