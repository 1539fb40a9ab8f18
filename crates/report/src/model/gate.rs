//! The result of a gate: whether the new build of a server is slower than the old one, and by how much.

use harness::model::{GateFigure, GateGoal, Run, Strategy, TrialRecord, VerdictKind};
use harness::spec::units::Time;
use harness::strategy;
use harness::strategy::gate::{self, GateFinding, GateOutcome};
use harness::strategy::until::elapsed_ns;
use schemars::JsonSchema;
use serde::Serialize;
use stats::excess::{self, Excess};
use stats::{Interval, interval};

use super::FORMAT;
use super::workload::title;
use crate::format;
use crate::list::distinct;

/// The shortest and the longest budget that an undecided gate suggests, in minutes.
const MINUTES: (f64, f64) = (2.0, 60.0);

/// The result of a gate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateReport {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The outcome, which is the exit code: not slower 0, slower 1, undecided 2.
    pub outcome: GateOutcome,
    /// The outcome in words, with the figures that decide it.
    pub sentence: String,
    /// The label of the old build.
    pub old: String,
    /// The label of the new build.
    pub new: String,
    /// The name of the run.
    pub run: String,
    /// RFC 3339 in UTC.
    pub started_at: String,
    /// Total time of the trials, in seconds.
    pub(crate) elapsed_s: f64,
    /// The time within which repeats end, in seconds.
    pub(crate) budget_s: f64,
    /// Finished trials of the old build.
    pub(crate) repeats: usize,
    /// The figures, workload by workload.
    pub figures: Vec<GateRow>,
    /// Reasons for trials that are not valid, each once.
    pub(crate) problems: Vec<String>,
}

/// A figure of both builds under a workload. Times are in nanoseconds, memory is in bytes, and errors are a share.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateRow {
    /// The workload in words.
    pub workload: String,
    /// The figure.
    pub figure: GateFigure,
    /// The value of the old build: the median of its repeats.
    pub old: Option<f64>,
    /// The value of the new build.
    pub new: Option<f64>,
    /// The change from the old to the new build as a share; of errors, the difference. The trimmed mean over pairs.
    pub change: Option<f64>,
    /// The 95 % interval of the change in a single look.
    pub interval: Option<Interval>,
    /// The change for the worse that is tolerated.
    pub tolerance: f64,
    /// The knowledge about the figure; `None` if it was not measured and is left out.
    pub excess: Option<Excess>,
    /// The values of the old and the new build in each repeat.
    pub(crate) pairs: Vec<[f64; 2]>,
}

impl GateReport {
    /// Reports on a gate; `None` for other runs.
    pub fn of(run: &Run) -> Option<Self> {
        let Strategy::Gate(goal) = &run.header.strategy else { return None };
        let outcomes = strategy::outcomes(run);
        let findings = gate::findings(&run.header, &outcomes, goal);
        let label = |is_old: bool| {
            let trial = run.header.trials.iter().find(|trial| goal.is_old(trial) == is_old && !trial.is_reference);
            trial.map_or_else(String::new, |trial| trial.label())
        };
        let problem = |it: &TrialRecord| {
            let is_shown = !matches!(it.verdict.kind, VerdictKind::Valid);
            is_shown
                .then(|| format!("{} {}: {}", it.trial.label(), format::verdict(it.verdict.kind), it.verdict.reason))
        };
        let figures: Vec<GateRow> = findings.iter().map(GateRow::of).collect();
        let report = Self {
            format: FORMAT,
            outcome: gate::outcome(&findings),
            sentence: String::new(),
            old: label(true),
            new: label(false),
            run: run.header.name.clone(),
            started_at: run.header.started_at.clone(),
            elapsed_s: elapsed_ns(&outcomes) as f64 / 1e9,
            budget_s: goal.time_max_ns as f64 / 1e9,
            repeats: run.records.iter().filter(|it| goal.is_old(&it.trial)).count(),
            figures,
            problems: distinct(run.records.iter().filter_map(problem)),
        };
        Some(Self { sentence: report.words(goal), ..report })
    }

    /// Returns the outcome in words.
    fn words(&self, goal: &GateGoal) -> String {
        let Self { old, new, .. } = self;
        let with = |excess| self.figures.iter().filter(move |row| row.excess == Some(excess)).collect::<Vec<_>>();
        let several = distinct(self.figures.iter().map(|row| &row.workload)).len() > 1;
        let listed = |rows: &[&GateRow], text: fn(&GateRow) -> String| {
            let place = |row: &GateRow| if several { format!(" at {}", row.workload) } else { String::new() };
            format::listed(&rows.iter().map(|row| text(row) + &place(row)).collect::<Vec<_>>())
        };
        match self.outcome {
            GateOutcome::Slower => {
                let (beyond, open) = (with(Excess::Beyond), with(Excess::Open));
                let rest =
                    if open.is_empty() { "" } else { " Other figures may be worse too: the gate stopped early." };
                format!("{new} is slower than {old}: {}.{rest}", listed(&beyond, GateRow::words))
            }
            GateOutcome::NotSlower => {
                let names = listed(&with(Excess::Within), |row| row.figure.name().to_owned());
                let verb = if with(Excess::Within).len() == 1 { "is" } else { "are" };
                format!("{new} is not slower than {old}: {names} {verb} within tolerance.")
            }
            GateOutcome::Undecided => {
                let open = with(Excess::Open);
                let (measured, missing): (Vec<&GateRow>, Vec<&GateRow>) =
                    open.into_iter().partition(|row| row.pairs.len() > 1);
                let after = format::time(self.elapsed_s * 1e9);
                let mut text = format!("It is undecided after {after} whether {new} is slower than {old}");
                if !measured.is_empty() {
                    text += &format!(": {}", listed(&measured, GateRow::words));
                }
                if !missing.is_empty() {
                    let names = listed(&missing, |row| row.figure.name().to_owned());
                    text += &format!("; no values of {names}");
                }
                text + ". " + &self.remedy(&measured, goal)
            }
        }
    }

    /// Returns what decides an undecided gate.
    fn remedy(&self, open: &[&GateRow], goal: &GateGoal) -> String {
        if open.is_empty() {
            return "See the problems of the trials, or remove the figure with --limit NAME=off.".into();
        }
        // The width of an interval falls with the square root of the time, and a decision needs more than one look.
        let times = |row: &GateRow| {
            let (figure, interval) = (row.figure, row.interval?);
            let [low, high] = [interval.low, interval.high];
            let limit = figure.change(figure.limit(row.tolerance));
            let half_width = (high - low) / 2.0;
            Some(2.0 * (half_width / (f64::midpoint(low, high) - limit).abs()).powi(2))
        };
        let most = open.iter().filter_map(|row| times(row)).fold(1.0, f64::max);
        let minutes = (most * self.elapsed_s.max(self.budget_s) / 60.0).ceil().max(MINUTES.0);
        let names = format::listed(&distinct(open.iter().map(|row| row.figure.name())));
        if minutes <= MINUTES.1 && minutes * 60e9 > goal.time_max_ns as f64 {
            return format!(
                "Try --budget {}, or a larger tolerance (--limit) of {names}.",
                Time(minutes as u64 * 60_000_000_000)
            );
        }
        format!("The change is close to the tolerance, or too noisy: try a larger tolerance (--limit) of {names}.")
    }
}

impl GateRow {
    fn of(finding: &GateFinding<'_>) -> Self {
        let figure = finding.limit.figure;
        let value = |side: usize| {
            let values: Vec<f64> = finding.pairs.iter().map(|pair| pair[side]).collect();
            interval::median(&values)
        };
        let excess = excess::estimate(&finding.differences());
        let interval = excess.and_then(|it| it.interval).map(|it| {
            let ends = [it.low, it.high].map(|end| figure.change(end));
            Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
        });
        Self {
            workload: title(finding.workload),
            figure,
            old: value(0),
            new: value(1),
            change: excess.map(|it| figure.change(it.value)),
            interval,
            tolerance: finding.limit.tolerance,
            excess: (!finding.is_left_out()).then_some(finding.excess),
            pairs: finding.pairs.clone(),
        }
    }

    /// Formats a value of the figure.
    pub(crate) fn value(&self, value: f64) -> String {
        shown(self.figure, value)
    }

    /// Formats the change and its interval.
    pub(crate) fn words(&self) -> String {
        let change = self.change.map_or_else(|| "unknown".into(), signed);
        let interval =
            self.interval.map_or_else(String::new, |it| format!("{} to {}, ", signed(it.low), signed(it.high)));
        format!("{} {change} ({interval}tolerance {})", self.figure.name(), percent(self.tolerance))
    }

    /// Returns the knowledge about the figure in words.
    pub(crate) fn finding(&self) -> &'static str {
        match self.excess {
            None => "not measured",
            Some(Excess::Beyond) => "slower",
            Some(Excess::Within) => "within tolerance",
            Some(Excess::Open) => "undecided",
        }
    }
}

/// Formats a value of a figure.
pub(crate) fn shown(figure: GateFigure, value: f64) -> String {
    match figure {
        GateFigure::P50 | GateFigure::P90 | GateFigure::P95 | GateFigure::P99 | GateFigure::Cpu => format::time(value),
        GateFigure::Rate => format!("{}/s", format::digits(value)),
        GateFigure::Memory => format::bytes(value),
        GateFigure::Errors => percent(value),
    }
}

/// Formats a share with two decimals at most.
pub(crate) fn percent(share: f64) -> String {
    format::percent((share * 1e4).round() / 1e4)
}

/// Formats a change as in `+4.2 %`.
pub(crate) fn signed(change: f64) -> String {
    let sign = if change >= 0.0 { "+" } else { "" };
    format!("{sign}{:.1} %", 100.0 * change)
}
