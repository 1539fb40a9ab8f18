//! Servers beyond their capacity: goodput before, during and after a pulse of load, and the time to recover.

use harness::record::{OverloadGoal, Run, Strategy, TrialRecord, VerdictKind, Workload};
use harness::spec::units::Time;
use harness::strategy;
use harness::strategy::overload::{OverloadState, contestants};
use harness::strategy::search::{CapacityBound, RateSearch};
use load::LoadResult;
use load::result::{Errors, GoodputBin, GoodputResult};
use schemars::JsonSchema;
use serde::Serialize;

use super::FORMAT;
use super::recovery::{Recovery, recovery};
use super::workload::{order, title};
use crate::format;
use crate::list::{distinct, grouped};

/// The results of a run of overloads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Overloads {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The conclusion for each workload.
    pub sentence: String,
    pub(crate) goal: OverloadGoal,
    /// A row for each server and workload. Of each workload, the server that recovered first has the first row.
    pub rows: Vec<Overload>,
}

/// The result of one server under one workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Overload {
    /// The label of the server.
    pub architecture: String,
    /// The workload in words, without its rate.
    pub workload: String,
    /// The capacity in requests per second; `None` if it is unknown.
    pub capacity_per_s: Option<f64>,
    /// Whether the capacity is only a lower bound, because the client, the range of rates or the time limited the search.
    pub is_lower_bound: bool,
    /// The figures of the trial with the pulse; `None` without a report of the client.
    pub pulse: Option<PulseFigures>,
    /// Reasons for missing or doubtful figures.
    pub problems: Vec<String>,
}

/// The figures of a trial with a pulse.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PulseFigures {
    /// Before, during and after the pulse.
    pub phases: Phases,
    /// Requests that failed in the whole trial, by class.
    pub errors: Errors,
    /// Attempts of the whole trial that were not answered in time.
    pub timeouts: u64,
    /// Attempts of the whole trial after the first.
    pub retries: u64,
    /// The recovery; `None` if the trial has no time before or after the pulse.
    pub recovery: Option<Recovery>,
    /// Whether the client may have caused the figures.
    pub is_client_limited: bool,
    /// The length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// The bins of the window.
    pub bins: Vec<GoodputBin>,
}

/// The phases of a pulse.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "they are phases")]
pub struct Phases {
    pub before: PhaseGoodput,
    pub pulse: PhaseGoodput,
    pub after: PhaseGoodput,
}

/// The mean rates of a phase, in requests per second.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PhaseGoodput {
    /// Planned requests.
    pub offered_per_s: f64,
    /// Requests answered in time.
    pub goodput_per_s: f64,
}

impl Overloads {
    /// Summarises a run of overloads; `None` for other runs.
    pub fn of(run: &Run) -> Option<Self> {
        let Strategy::Overload(goal) = &run.header.strategy else { return None };
        let outcomes = strategy::outcomes(run);
        let all = contestants(&run.header, goal, &outcomes);
        let mut rows: Vec<(&Workload, Overload)> =
            all.iter().map(|it| (&it.first.workload, row(run, goal, it))).collect();
        rows.sort_by(|(a, first), (b, second)| {
            order(a, b)
                .then_with(|| first.rank().cmp(&second.rank()))
                .then(first.architecture.cmp(&second.architecture))
        });
        let rows: Vec<Overload> = rows.into_iter().map(|(_, row)| row).collect();
        let workloads = grouped(&rows, |a, b| a.workload == b.workload);
        let several = workloads.len() > 1;
        let conclusion = |rows: &Vec<&Overload>| {
            let place = if several { format!("At {}: ", rows[0].workload) } else { String::new() };
            place + &sentence(rows)
        };
        let sentence = workloads.iter().map(conclusion).collect::<Vec<_>>().join(" ");
        Some(Self { format: FORMAT, sentence, goal: goal.clone(), rows })
    }

    /// Describes the rates over time, and the client's reaction to late responses.
    pub fn conditions(&self) -> String {
        let (pulse, limit) = (&self.goal.pulse, &self.goal.request_timeout);
        let [before, length, after] = [pulse.before_ns, pulse.length_ns, pulse.after_ns].map(Time);
        let retries = match limit.retries {
            0 => "is not sent again".to_owned(),
            retries => {
                let times = if retries == 1 { "once".to_owned() } else { format!("up to {retries} times") };
                let budget = limit.retry_budget.map(|it| format!(" (at most {} of the requests)", format::percent(it)));
                format!("is sent again {times}{}", budget.unwrap_or_default())
            }
        };
        let given = if self.goal.search().is_none() { "given " } else { "" };
        format!(
            "Rates: {} of the {given}capacity for {before}, {} for {length} (the pulse), {} for {after}. A request times out \
             after {} and {retries}.",
            format::times(pulse.base),
            format::times(pulse.peak),
            format::times(pulse.base),
            Time(limit.timeout_ns)
        )
    }

    /// Returns the rows of each workload.
    pub fn workloads(&self) -> Vec<Vec<&Overload>> {
        grouped(&self.rows, |a, b| a.workload == b.workload)
    }

    /// Tests whether the run found what it was for: the recovery of any server, or with `strict` of all, without doubts.
    pub fn is_found(&self, strict: bool) -> bool {
        let is_known = |row: &Overload| matches!(row.recovery(), Some(Recovery::After { .. } | Recovery::Never));
        match strict {
            true => self.rows.iter().all(|row| is_known(row) && row.problems.is_empty()),
            false => self.rows.iter().any(is_known),
        }
    }
}

impl Overload {
    /// Returns the recovery; `None` if it is unknown.
    pub fn recovery(&self) -> Option<Recovery> {
        self.pulse.as_ref()?.recovery
    }

    /// Returns whether the client may have caused the figures.
    pub(crate) fn is_client_limited(&self) -> bool {
        self.pulse.as_ref().is_some_and(|it| it.is_client_limited)
    }

    /// Returns the order of rows: by recovery.
    fn rank(&self) -> (u8, u64) {
        match self.recovery() {
            Some(Recovery::After { ns }) => (0, ns),
            Some(Recovery::Never) => (1, 0),
            Some(Recovery::UnhealthyBefore) => (2, 0),
            None => (3, 0),
        }
    }
}

/// Names the server that recovered first, and those that never did, apart if the client may be the cause.
fn sentence(rows: &[&Overload]) -> String {
    let recovered = rows.iter().filter_map(|row| match row.recovery() {
        Some(Recovery::After { ns }) => Some((row.architecture.as_str(), ns)),
        _ => None,
    });
    let recovered: Vec<(&str, u64)> = recovered.collect();
    let never = |by_client: bool| {
        let is_one = |row: &&&Overload| row.recovery() == Some(Recovery::Never) && row.is_client_limited() == by_client;
        let names: Vec<&str> = rows.iter().filter(is_one).map(|row| row.architecture.as_str()).collect();
        (!names.is_empty()).then(|| format::listed(&names))
    };
    let after =
        |ns: u64| if ns == 0 { "at once".to_owned() } else { format!("{} after the pulse", format::time(ns as f64)) };
    let first = recovered.first().map(|(_, least)| {
        let same: Vec<&str> = recovered.iter().filter(|(_, ns)| ns == least).map(|(name, _)| *name).collect();
        let first = if same.len() < recovered.len() { " first" } else { "" };
        format!("{} recovered{first} {}", format::listed(&same), after(*least))
    });
    let last = recovered.last().filter(|last| recovered[0].1 < last.1);
    let last = last.map(|(name, ns)| format!("{name} last, {}", after(*ns)));
    let server = never(false).map(|names| format!("{names} never recovered"));
    let client = never(true).map(|names| format!("{names} did not recover, but the client may be the cause"));
    let parts: Vec<String> = first.into_iter().chain(last).chain(server).chain(client).collect();
    if parts.is_empty() { "No recovery is known.".to_owned() } else { parts.join("; ") + "." }
}

fn row(run: &Run, goal: &OverloadGoal, contestant: &OverloadState<'_>) -> Overload {
    let OverloadState { first, search, capacity_per_s, .. } = contestant;
    let count = run.header.trials.len() as u32;
    let is_pulse =
        |it: &&TrialRecord| it.trial.index % count == first.index && it.trial.workload.rate_profile().is_some();
    let record = run.records.iter().find(is_pulse);
    let pulse = record.and_then(|record| figures(goal, record));
    let mut problems = first.infeasible.clone();
    problems.extend(match (record, &pulse, capacity_per_s) {
        _ if !first.infeasible.is_empty() => None,
        (None, _, None) if search.as_ref().is_some_and(|it| it.ended.is_some()) => Some(
            "no capacity was found, so there was no pulse; raise the limits or --time-max, or give the --capacity"
                .to_owned(),
        ),
        (None, ..) => Some("not run yet".to_owned()),
        (Some(record), None, _) => Some(record.verdict.reason.clone()),
        (Some(_), Some(pulse), _) if pulse.recovery == Some(Recovery::UnhealthyBefore) => {
            let before = pulse.phases.before;
            let share = before.goodput_per_s / before.offered_per_s;
            Some(format!(
                "answered only {:.0} % of the requests in time before the pulse; lower --base or --capacity",
                100.0 * share
            ))
        }
        _ => None,
    });
    let remedy = match search.as_ref().and_then(RateSearch::answer) {
        Some(CapacityBound::AtLeast { client: true, .. }) => {
            Some("give the client more CPUs (--client-cpus), or each request more work (--simulated-work)")
        }
        Some(CapacityBound::AtLeast { client: false, .. }) => Some("raise --to or --time-max"),
        Some(CapacityBound::Server { .. }) | None => None,
    };
    problems.extend(
        remedy
            .filter(|_| pulse.is_some())
            .map(|remedy| format!("the capacity is only a lower bound, so the pulse may not exceed it; {remedy}")),
    );
    if let (Some(record), true) = (record, pulse.as_ref().is_some_and(|it| it.is_client_limited)) {
        let failed = record.verdict.checks.iter().filter(|it| !it.passed && it.decides == VerdictKind::ClientLimited);
        let names: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
        problems.push(format!("the client may be a cause: {}", names.join("; ")));
    }
    Overload {
        architecture: first.label(),
        workload: title(&first.workload.clone().with(|it| it.set_rate(None))),
        capacity_per_s: *capacity_per_s,
        is_lower_bound: remedy.is_some(),
        pulse,
        problems,
    }
}

/// Returns the figures of a finished trial; `None` without a report of goodput.
fn figures(goal: &OverloadGoal, record: &TrialRecord) -> Option<PulseFigures> {
    let load: &LoadResult = record.load.as_ref()?;
    let GoodputResult { timeouts, retries, bin_ns, bins, .. } = load.goodput.clone()?;
    let pulse = goal.pulse.range_ns();
    let [from, to] = [pulse.start, pulse.end].map(|ns| ((ns / bin_ns.max(1)) as usize).min(bins.len()));
    let phase = |bins: &[GoodputBin]| {
        let seconds = bins.len().max(1) as f64 * bin_ns as f64 / 1e9;
        let per_s = |count: fn(&GoodputBin) -> u64| bins.iter().map(count).sum::<u64>() as f64 / seconds;
        PhaseGoodput { offered_per_s: per_s(|it| it.planned), goodput_per_s: per_s(|it| it.in_time) }
    };
    let checks = &record.verdict.checks;
    Some(PulseFigures {
        phases: Phases { before: phase(&bins[..from]), pulse: phase(&bins[from..to]), after: phase(&bins[to..]) },
        errors: load.errors,
        timeouts,
        retries,
        recovery: recovery(&bins, bin_ns, from..to),
        is_client_limited: checks.iter().any(|it| !it.passed && it.decides == VerdictKind::ClientLimited),
        bin_ns,
        bins,
    })
}

/// Returns the classes of errors besides timeouts.
pub(crate) fn other_errors(errors: &Errors) -> u64 {
    errors.total().saturating_sub(errors.timeout)
}

/// Returns the labels of all servers of a run of searches.
pub(crate) fn labels(run: &Run) -> Vec<String> {
    distinct(run.header.trials.iter().map(|trial| trial.label()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_has_goodput_of_each_phase_and_recovery() {
        let overloads = Overloads::of(&testkit::overload_run()).unwrap();
        let names: Vec<&str> = overloads.rows.iter().map(|row| row.architecture.as_str()).collect();
        assert_eq!(names, ["epoll", "mt", "mp"], "by recovery");
        let epoll = overloads.rows[0].pulse.as_ref().unwrap();
        let capacity = overloads.rows[0].capacity_per_s.unwrap();
        let Phases { before, pulse, after } = epoll.phases;
        for (phase, share) in [(before, 0.7), (pulse, 1.5), (after, 0.7)] {
            assert!((phase.offered_per_s / capacity / share - 1.0).abs() < 0.02, "{phase:?} of {capacity}");
        }
        assert!(before.goodput_per_s == before.offered_per_s);
        assert!(pulse.goodput_per_s < 0.6 * pulse.offered_per_s);
        assert_eq!(epoll.recovery, Some(Recovery::After { ns: 1_200_000_000 }));
        assert_eq!(overloads.rows[1].recovery(), Some(Recovery::Never));
        assert_eq!(overloads.sentence, "epoll recovered 1.20 s after the pulse; mt never recovered.");
        assert_eq!((overloads.is_found(false), overloads.is_found(true)), (true, false));
        assert!(Overloads::of(&testkit::run()).is_none());
    }

    #[test]
    fn missing_pulse_has_a_reason() {
        let problems = |run: &Run| Overloads::of(run).unwrap().rows[0].problems.join("; ");
        let mut run = testkit::overload_run();
        run.header.trials.retain(|trial| trial.infeasible.is_empty());
        run.header.trials.truncate(1);
        run.records.retain(|record| record.trial.index % 3 == 0);
        run.records.iter_mut().for_each(|record| record.trial.index /= 3);
        assert_eq!(problems(&run), "");
        let pulse = run.records.last_mut().unwrap();
        pulse.load = None;
        assert_eq!(problems(&run), "made up", "the verdict of a failed trial");
        run.records.pop();
        assert_eq!(problems(&run), "not run yet");
        run.records.truncate(3);
        run.records.iter_mut().for_each(|record| record.load = None);
        assert!(problems(&run).starts_with("no capacity was found"), "{}", problems(&run));
    }

    #[test]
    fn sentence_names_first_last_and_never() {
        let rows = Overloads::of(&testkit::overload_run()).unwrap().rows;
        let row = |name: &str, recovery| {
            let mut row = rows[0].clone();
            row.architecture = name.into();
            row.pulse.as_mut().unwrap().recovery = recovery;
            row
        };
        let after = |ns| Some(Recovery::After { ns });
        let rows =
            [row("a", after(0)), row("b", after(0)), row("c", after(2_000_000_000)), row("d", Some(Recovery::Never))];
        let sentence = |rows: &[Overload]| super::sentence(&rows.iter().collect::<Vec<_>>());
        assert_eq!(
            sentence(&rows),
            "a and b recovered first at once; c last, 2.00 s after the pulse; d never recovered."
        );
        assert_eq!(sentence(&rows[..2]), "a and b recovered at once.");
        let mut limited = rows[3].clone();
        limited.pulse.as_mut().unwrap().is_client_limited = true;
        assert_eq!(sentence(&[limited]), "d did not recover, but the client may be the cause.");
        assert_eq!(sentence(&[row("a", None)]), "No recovery is known.");
    }
}
