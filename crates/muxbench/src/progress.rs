//! What is seen while a run runs: one line that is drawn anew on a terminal; a line for each trial elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::capacity::Question;
use lab::course::Finding;
use lab::plan::duration_ns;
use lab::record::{Trial, TrialRecord};
use lab::runner::Event;
use lab::units::Share;

/// Shows a run's progress on standard error.
pub struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    /// How many there are to be; a search does not know.
    total: Option<usize>,
    finished: usize,
    current: String,
    /// What the trials that are still to be run will take, in nanoseconds; of a search, at most.
    left_ns: u64,
}

impl Progress {
    /// For these trials, which are all to be run.
    pub fn new(trials: &[&Trial]) -> Self {
        let left_ns = trials.iter().map(|trial| duration_ns(trial)).sum();
        Self::of(Some(trials.len()), left_ns)
    }

    /// For a search, after these findings.
    pub fn of_search(question: &Question, findings: &[Finding]) -> Self {
        let elapsed_ns = findings.iter().map(|finding| finding.elapsed_ns).sum();
        Self::of(None, question.time_max_ns.saturating_sub(elapsed_ns))
    }

    fn of(total: Option<usize>, left_ns: u64) -> Self {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let target = if is_terminal { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total.map(|total| total as u64), target);
        let template = if total.is_some() { "{pos}/{len} [{wide_bar}] {msg}" } else { "probe {pos}: {wide_msg}" };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        bar.set_style(style.progress_chars("=> "));
        Self { bar, is_terminal, total, finished: 0, current: String::new(), left_ns }
    }

    /// Takes notice of an event.
    pub fn on(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { trial } => {
                let workload = &trial.workload;
                let active = match workload.active {
                    1.0 => String::new(),
                    active => format!(" {} active", Share(active)),
                };
                let rate = workload.rate_per_s.map_or("closed".into(), |rate| format!("{rate} req/s"));
                self.current = format!("{} {} conn{active} {rate}", trial.architecture, workload.connections);
                self.show("starting");
            }
            Event::Load(load::Event::Connecting { done, total }) => self.show(&format!("connected {done}/{total}")),
            Event::Load(load::Event::Preparing { done, total }) => self.show(&format!("stored {done}/{total}")),
            Event::Load(load::Event::Progress { phase, sent, .. }) => self.show(&format!("{phase}, {sent} sent")),
            Event::Load(_) => {}
            Event::Finished { record } => self.finished(record),
            Event::LeftOut { trial } => {
                self.total = self.total.map(|total| total - 1);
                self.left_ns = self.left_ns.saturating_sub(duration_ns(trial));
                self.bar.set_length(self.total.unwrap_or_default() as u64);
            }
        }
    }

    fn show(&self, what: &str) {
        self.bar.set_message(format!("{}: {what}; {}", self.current, self.left()));
    }

    fn left(&self) -> String {
        let most = if self.total.is_none() { "at most " } else { "" };
        format!("{most}{} left", humane(Duration::from_nanos(self.left_ns)))
    }

    fn finished(&mut self, record: &TrialRecord) {
        self.finished += 1;
        let took_ns = if self.total.is_some() { duration_ns(&record.trial) } else { record.elapsed_ns };
        self.left_ns = self.left_ns.saturating_sub(took_ns);
        self.bar.inc(1);
        if !self.is_terminal {
            let verdict = report::sentence::name(record.verdict.kind);
            let total = self.total.map_or(String::new(), |total| format!("/{total}"));
            anstream::eprintln!("{}{total} {}: {verdict}; {}", self.finished, self.current, self.left());
        }
    }

    /// Takes the line away.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// Whole seconds, or minutes from two on.
fn humane(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
