//! Progress of a run. A terminal shows one line, which is redrawn. A file or a pipe gets a line for each trial; if the run has a
//! single trial, also a line for each of its phases, or for each second of a stream.

use std::time::Duration;

use harness::exec::event::RunEvent;
use harness::plan::duration_ns;
use harness::record::{RunHeader, Strategy, Trial, TrialOutcome, TrialRecord};
use harness::spec::units::Share;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use report::format;
use report::text::tail_mark;

use crate::output;

/// Shows a run's progress on standard error until dropped.
pub struct Progress {
    /// Counts finished trials. Its length is the number of trials to run; a search, a gate and a race have no length.
    bar: ProgressBar,
    current: String,
    strategy: Strategy,
    /// The planned duration of the remaining trials; of a search, a gate and a race, the rest of their time limit.
    left_ns: u64,
    /// The actual and the planned time of finished trials. Their quotient corrects the plan: servers may need a longer warm-up.
    took_ns: [u64; 2],
    /// The rest of the time limit of a run with `--until`, whose planned trials may take longer.
    budget_ns: u64,
    pace: Pace,
    /// The last phase that was printed, and the progress of a stream when it was printed.
    printed: (String, Pace),
    last: String,
}

/// Progress of a client at its last event.
#[derive(Default)]
struct Pace {
    elapsed_ns: u64,
    completed: u64,
    bytes: u64,
}

impl Pace {
    /// Formats the rate since the last event: the bandwidth of streams, or responses per second. Empty if no time has passed.
    fn advance(&mut self, elapsed_ns: u64, completed: u64, bytes: u64) -> String {
        let seconds = elapsed_ns.saturating_sub(self.elapsed_ns) as f64 / 1e9;
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let (responses, moved) = (since(completed, self.completed), since(bytes, self.bytes));
        *self = Self { elapsed_ns, completed, bytes };
        match bytes {
            _ if seconds == 0.0 => String::new(),
            0 => format!(", {} responses/s", format::digits(responses)),
            _ => format!(", {}", format::bandwidth(moved)),
        }
    }
}

impl Progress {
    pub fn new(header: &RunHeader, outcomes: &[TrialOutcome]) -> Self {
        let rest = header.strategy.rest(header, outcomes);
        let template =
            if rest.trials.is_some() { "{pos}/{len} [{wide_bar}] {msg}" } else { "{prefix} {pos}: {wide_msg}" };
        let bar = ProgressBar::with_draw_target(rest.trials, ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        bar.set_style(style.progress_chars("=> "));
        Self {
            bar,
            current: String::new(),
            strategy: header.strategy.clone(),
            left_ns: rest.planned_ns,
            took_ns: [0; 2],
            budget_ns: rest.limit_ns,
            pace: Pace::default(),
            printed: Default::default(),
            last: String::new(),
        }
    }

    pub fn on(&mut self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Started(trial) => {
                self.current = brief(trial);
                self.bar.set_prefix(if self.strategy.is_probe(trial) { "probe" } else { "trial" });
                self.pace = Pace::default();
                self.show("starting");
            }
            RunEvent::Load(load::Event::Connecting { done, total }) => self.show(&format!("{done}/{total} connected")),
            RunEvent::Load(load::Event::Preparing { done, total }) => {
                self.show(&format!("preparing: {done}/{total} requests answered"))
            }
            RunEvent::Load(load::Event::Progress { phase, elapsed_ns, sent, completed, bytes }) => {
                if self.bar.is_hidden() && self.bar.length() == Some(1) {
                    self.print(phase, *elapsed_ns, [*sent, *completed], *bytes);
                }
                let rate = self.pace.advance(*elapsed_ns, *completed, *bytes);
                self.show(&format!("{phase}{rate}"));
            }
            RunEvent::Load(_) => {}
            RunEvent::Finished(record) => self.finish(record),
            RunEvent::Pruned(trial) => {
                self.left_ns = self.left_ns.saturating_sub(duration_ns(trial));
                self.bar.dec_length(1);
            }
        }
    }

    /// Prints the requests at the beginning of a phase, or the bandwidth of streams once per second. Progress arrives twice per
    /// second, sometimes slightly early.
    fn print(&mut self, phase: &str, elapsed_ns: u64, [sent, completed]: [u64; 2], bytes: u64) {
        let (shown, pace) = &mut self.printed;
        if bytes > 0 {
            if elapsed_ns >= pace.elapsed_ns + 900_000_000 {
                let [from_s, to_s] = [pace.elapsed_ns, elapsed_ns].map(|ns| ns as f64 / 1e9);
                let bandwidth = pace.advance(elapsed_ns, completed, bytes);
                output::tell(format_args!("{from_s:5.1} to {to_s:5.1} s{bandwidth}, {phase}"));
            }
        } else if phase != shown {
            output::tell(format_args!("{phase}: {sent} sent, {completed} completed so far"));
            phase.clone_into(shown);
        }
    }

    fn show(&self, phase: &str) {
        self.bar.set_message(format!("{}: {phase}; {}{}", self.current, self.left(), self.last));
    }

    fn left(&self) -> String {
        let most = if self.bar.length().is_none() { "at most " } else { "" };
        let [actual_ns, planned_ns] = self.took_ns;
        let pace = if planned_ns > 0 { actual_ns as f64 / planned_ns as f64 } else { 1.0 };
        let left_ns = ((self.left_ns as f64 * pace) as u64).min(self.budget_ns).saturating_sub(self.pace.elapsed_ns);
        format!("{most}{} left", short(Duration::from_nanos(left_ns)))
    }

    fn finish(&mut self, record: &TrialRecord) {
        let total = self.bar.length();
        let contestants = record.trial.client.slices.map_or(1, |slices| slices.contestants);
        let elapsed_ns = record.elapsed_ns / u64::from(contestants);
        let took_ns = if total.is_some() { duration_ns(&record.trial) } else { elapsed_ns };
        self.took_ns = [self.took_ns[0] + elapsed_ns, self.took_ns[1] + took_ns];
        self.left_ns = self.left_ns.saturating_sub(took_ns);
        self.budget_ns = self.budget_ns.saturating_sub(elapsed_ns);
        self.pace = Pace::default();
        let result = brief_result(record);
        self.last = format!("; last {}{result}", record.trial.architecture);
        self.bar.inc(1);
        if self.bar.is_hidden() {
            let verdict = format::verdict(record.verdict.kind);
            let total = total.map_or(String::new(), |total| format!("/{total}"));
            let (finished, trial, left) = (self.bar.position(), brief(&record.trial), self.left());
            output::tell(format_args!("{finished}{total} {trial}: {verdict}{result}; {left}"));
        }
    }
}

/// Formats the architecture and the load of a trial in brief.
fn brief(trial: &Trial) -> String {
    let workload = &trial.workload;
    let active = match workload.active() {
        1.0 => String::new(),
        active => format!(" {} active", Share(active)),
    };
    let rate = format::rate(workload.rate_per_s()) + workload.rate_per_s().map_or("", |_| " req/s");
    let unit = if workload.service.ports().is_some() { "ports" } else { "conn" };
    format!("{} {} {unit}{active} {rate}", trial.architecture, workload.connections)
}

/// Formats the result of a trial in brief: its bandwidth, or percentiles of its service time; `-` without a response.
fn brief_result(record: &TrialRecord) -> String {
    let Some(load) = &record.load else { return String::new() };
    if let Some(bytes_per_s) = record.stream_bytes_per_s() {
        return format!(", {}", format::bandwidth(bytes_per_s));
    }
    let service = &load.service.distribution;
    if service.count == 0 {
        return ", p50 -, p99 -".into();
    }
    let p99 = tail_mark::mark(format::time(service.p99_ns as f64), &load.disturbed(), 0.99);
    format!(", p50 {}, p99 {p99}", format::time(service.p50_ns as f64))
}

/// Formats a duration in seconds, or in minutes from two minutes on.
fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use harness::record::UntilGoal;

    use super::*;

    #[test]
    fn pace_is_the_rate_since_the_last_event() {
        let mut pace = Pace::default();
        assert_eq!(pace.advance(0, 0, 0), "");
        assert_eq!(pace.advance(500_000_000, 1_000, 0), ", 2000 responses/s");
        assert_eq!(pace.advance(1_000_000_000, 1_100, 0), ", 200 responses/s");
        assert_eq!(pace.advance(2_000_000_000, 1_100, 3_000_000), ", 3.00 MB/s");
    }

    #[test]
    fn brief_result_is_percentiles_or_bandwidth() {
        assert_eq!(brief_result(&testkit::run().records[0]), ", p50 40.0 µs, p99 43.9 µs~");
        assert_eq!(brief_result(&testkit::bandwidth_run().records[0]), ", 2.40 GB/s");
        let mut record = testkit::run().records.remove(0);
        record.load.as_mut().unwrap().service = Default::default();
        assert_eq!(brief_result(&record), ", p50 -, p99 -");
        record.load = None;
        assert_eq!(brief_result(&record), "");
    }

    #[test]
    fn time_left_decreases_within_a_trial() {
        let run = testkit::run();
        let mut progress = Progress::new(&run.header, &[]);
        let whole = progress.left_ns;
        progress.on(&RunEvent::Started(&run.header.trials[0]));
        let progress_event = |completed| load::Event::Progress {
            phase: "measure".into(),
            elapsed_ns: 500_000_000,
            sent: completed,
            completed,
            bytes: 0,
        };
        let before = progress.left();
        progress.left_ns = 100_000_000_000;
        progress.on(&RunEvent::Load(&progress_event(1_000)));
        assert_ne!(progress.left(), before);
        assert_eq!(progress.left(), "99 s left");
        progress.left_ns = whole;
        progress.on(&RunEvent::Finished(&run.records[0]));
        assert!(progress.left_ns < whole && progress.last.starts_with("; last epoll, p50"), "{}", progress.last);
    }

    #[test]
    fn time_left_follows_the_pace_of_finished_trials() {
        let run = testkit::run();
        let mut progress = Progress::new(&run.header, &[]);
        let planned_ns = duration_ns(&run.records[0].trial);
        let mut record = run.records[0].clone();
        record.elapsed_ns = 4 * planned_ns;
        progress.on(&RunEvent::Finished(&record));
        let left_s = 4 * progress.left_ns / 1_000_000_000;
        assert_eq!(progress.left(), format!("{} left", short(Duration::from_secs(left_s))));
        record.elapsed_ns = planned_ns;
        for _ in 0..2 {
            progress.on(&RunEvent::Finished(&record));
        }
        let left_s = 2 * progress.left_ns / 1_000_000_000;
        assert_eq!(progress.left(), format!("{} left", short(Duration::from_secs(left_s))), "as slow as their mean");
    }

    #[test]
    fn time_left_is_within_the_budget() {
        let mut run = testkit::run();
        let is_first = |trial: &&Trial| trial.repeat == 0 && trial.infeasible.is_empty();
        let first_ns: u64 = run.header.trials.iter().filter(is_first).map(duration_ns).sum();
        run.header.strategy = Strategy::Until(UntilGoal { margin: 0.02, time_max_ns: 1 });
        assert_eq!(Progress::new(&run.header, &[]).budget_ns, first_ns, "the first repeat always runs");
        run.header.strategy = Strategy::Until(UntilGoal { margin: 0.02, time_max_ns: 27_000_000_000 });
        let mut progress = Progress::new(&run.header, &[]);
        assert!(progress.left_ns > 27_000_000_000, "the plan takes longer: {}", progress.left_ns);
        assert_eq!(progress.left(), "27 s left");
        // The record took two seconds.
        progress.on(&RunEvent::Finished(&run.records[0]));
        assert_eq!(progress.left(), "25 s left");
    }
}
