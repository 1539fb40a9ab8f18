//! The result of a gate: whether the new build of a server is slower than the old one, and by how much.

use harness::record::{Figure, GateGoal, Run, Strategy, Trial, TrialOutcome, TrialRecord, Unit, VerdictKind, commands};
use harness::spec::units::Time;
use harness::strategy;
use harness::strategy::elapsed_ns;
use harness::strategy::gate::{self, GateFinding, GateOutcome};
use schemars::JsonSchema;
use serde::Serialize;
use stats::excess::{self, Excess, REPEATS_MIN};
use stats::{Interval, interval};

use super::summary::merged;
use super::workload::title;
use super::{FORMAT, warm_up};
use crate::format;
use crate::list::distinct;

/// The shortest and the longest budget that an undecided gate suggests, in minutes.
const MINUTES: (f64, f64) = (2.0, 60.0);

/// The result of a gate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateReport {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The outcome, which is the exit code: not slower 0, slower 1, undecided 4.
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
    /// Complete repeats.
    pub(crate) repeats: u32,
    /// The figures, workload by workload.
    pub figures: Vec<GateRow>,
    /// Reasons for trials that are not valid, each once.
    pub(crate) problems: Vec<String>,
    /// The warm-ups of external servers.
    pub(crate) warm_ups: Vec<String>,
}

/// A figure of both builds under a workload. Times are in nanoseconds, memory is in bytes, and errors are a share.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GateRow {
    /// The workload in words.
    pub workload: String,
    /// The figure.
    pub figure: Figure,
    /// The value of the old build: of a percentile, that of the requests of all repeats; of errors, the mean of the repeats; otherwise
    /// their median.
    pub old: Option<f64>,
    /// The value of the new build.
    pub new: Option<f64>,
    /// The time that the new build adds, in nanoseconds: the trimmed mean over pairs; `None` for other figures than times.
    pub added_ns: Option<f64>,
    /// The change from the old to the new build as a share; of errors, the difference. The trimmed mean over pairs.
    pub change: Option<f64>,
    /// The interval of the change that decides: the figure is beyond its tolerance if all of the interval is, and within it if all of the
    /// interval is.
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
        let not_valid = run.records.iter().filter(|it| it.verdict.kind != VerdictKind::Valid);
        let figures: Vec<GateRow> = findings.iter().map(|finding| GateRow::of(finding, run, goal)).collect();
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
            repeats: gate::repeats(&run.header, &outcomes),
            figures,
            problems: distinct(not_valid.map(problem)),
            warm_ups: warm_up::sentences(run),
        };
        Some(Self { sentence: report.words(goal, &Repeats::of(run, goal, &outcomes)), ..report })
    }

    /// Returns the outcome in words.
    fn words(&self, goal: &GateGoal, repeats: &Repeats) -> String {
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
                format!("{new} is {} than {old}: {}.{rest}", comparative(&beyond), listed(&beyond, GateRow::words))
            }
            GateOutcome::NotSlower => {
                let within = with(Excess::Within);
                let names = listed(&within, |row| row.figure.name().to_owned());
                let verb = if within.len() == 1 { "is" } else { "are" };
                format!("{new} is not {} than {old}: {names} {verb} within tolerance.", comparative(&within))
            }
            GateOutcome::Undecided => {
                let (measured, lacking): (Vec<&GateRow>, Vec<&GateRow>) =
                    with(Excess::Open).into_iter().partition(|row| row.pairs.len() >= REPEATS_MIN as usize);
                let after = format::time(self.elapsed_s * 1e9);
                let open: Vec<&GateRow> = measured.iter().chain(&lacking).copied().collect();
                let word = comparative(&open);
                let mut text = format!("It is undecided after {after} whether {new} is {word} than {old}");
                if !measured.is_empty() {
                    text += &format!(": {}", listed(&measured, GateRow::words));
                }
                // With few repeats all figures lack values.
                if !lacking.is_empty() && repeats.complete >= REPEATS_MIN {
                    let names = listed(&lacking, |row| row.figure.name().to_owned());
                    text += &format!("; too few values of {names}");
                }
                let causes: String = repeats.causes.iter().map(|cause| format!(" {cause}.")).collect();
                format!("{text}.{causes} {}", self.remedy(&measured, &lacking, goal, repeats))
            }
        }
    }

    /// Returns what decides an undecided gate: with `measured` figures that need more repeats or a larger tolerance, and `lacking`
    /// figures that have too few values.
    fn remedy(&self, measured: &[&GateRow], lacking: &[&GateRow], goal: &GateGoal, repeats: &Repeats) -> String {
        const CORRECT: &str = "Correct the cause, and run the gate again.";
        if let Some(command) = &repeats.resume {
            return format!("The gate was stopped: continue with `{command}`.");
        }
        if repeats.complete < REPEATS_MIN {
            return match repeats.complete {
                _ if repeats.has_failure => CORRECT.into(),
                0 => "No repeat finished: use a longer --budget.".into(),
                1 => "One repeat decides nothing: use a longer --budget.".into(),
                count => format!("{count} repeats decide nothing: use a longer --budget."),
            };
        }
        // A larger tolerance of errors would hide that trials fail.
        let is_tolerable = |row: &&GateRow| repeats.causes.is_empty() || row.figure != Figure::Errors;
        let open: Vec<&GateRow> = measured.iter().copied().filter(is_tolerable).collect();
        if open.is_empty() {
            let limits = distinct(lacking.iter().map(|row| format!("{}=off", row.figure.name())));
            return match limits.as_slice() {
                _ if !repeats.causes.is_empty() => CORRECT.into(),
                [] => "See the verdicts of the trials with `muxbench report FOLDER`.".into(),
                [limit] => format!("Leave the figure out with --limit {limit}."),
                limits => format!("Leave the figures out with --limit {}.", limits.join(",")),
            };
        }
        // The width of an interval falls with the square root of the time, and later looks spend less of the error.
        let times = |row: &GateRow| {
            let (figure, interval) = (row.figure, row.interval?);
            let [low, high] = [interval.low, interval.high];
            let limit = figure.change(figure.limit(row.tolerance));
            let half_width = (high - low) / 2.0;
            Some(1.2 * (half_width / (f64::midpoint(low, high) - limit).abs()).powi(2))
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

/// The repeats of a gate, which explain why it is undecided.
struct Repeats {
    /// The number of complete repeats.
    complete: u32,
    /// The command that continues the gate; `None` if it has ended.
    resume: Option<String>,
    /// The first problem of each build, if problems leave fewer than [`REPEATS_MIN`] repeats.
    causes: Vec<String>,
    /// Whether a trial failed.
    has_failure: bool,
}

impl Repeats {
    fn of(run: &Run, goal: &GateGoal, outcomes: &[TrialOutcome]) -> Self {
        let complete = gate::repeats(&run.header, outcomes);
        let has_problem = |record: &&TrialRecord| {
            let verdict = &record.verdict;
            !verdict.belongs_in_estimates() && verdict.kind != VerdictKind::Saturated
        };
        let records: Vec<&TrialRecord> = run.records.iter().filter(has_problem).collect();
        let is_clean = |repeat: &u32| records.iter().all(|record| record.trial.repeat != *repeat);
        let clean = (0..complete).filter(is_clean).count();
        let cause = |is_old: bool| {
            let own = records.iter().filter(|record| goal.is_old(&record.trial) == is_old);
            // A failure explains more than a trial that the client or other programs disturbed.
            let first = own.min_by_key(|record| record.verdict.kind != VerdictKind::Failed)?;
            // Further lines are the output of a server; the problems of the report have them.
            let text = problem(first);
            Some(text.lines().next().unwrap_or_default().trim_end_matches('.').to_owned())
        };
        let causes: Vec<String> = [false, true].into_iter().filter_map(cause).collect();
        let is_open = !run.header.strategy.due(&run.header, outcomes).is_empty();
        let allow_exec = if commands(&run.header.trials).is_empty() { "" } else { " --allow-exec" };
        Self {
            complete,
            resume: is_open.then(|| format!("muxbench gate --resume FOLDER{allow_exec}")),
            has_failure: records.iter().any(|record| record.verdict.kind == VerdictKind::Failed),
            causes: if clean < REPEATS_MIN as usize { causes } else { Vec::new() },
        }
    }
}

/// Returns the build, the verdict and the reason of a trial that is not valid.
fn problem(record: &TrialRecord) -> String {
    format!("{} {}: {}", record.trial.label(), format::verdict(record.verdict.kind), record.verdict.reason)
}

impl GateRow {
    fn of(finding: &GateFinding<'_>, run: &Run, goal: &GateGoal) -> Self {
        let figure = finding.limit.figure;
        let value = |side: usize| {
            let values: Vec<f64> = finding.pairs.iter().map(|pair| pair[side]).collect();
            match figure {
                _ if let (Some((q, _)), false) = (figure.quantile(), values.is_empty()) => {
                    let records = run.records.iter().filter(|record| {
                        let Trial { workload, is_reference, .. } = &record.trial;
                        workload == finding.workload && !is_reference && goal.is_old(&record.trial) == (side == 0)
                    });
                    let usable = records.filter(|record| gate::value(figure, record).is_some());
                    let times = merged(usable.filter_map(|record| record.load.as_ref()).map(|load| &load.service));
                    Some(times.quantile(q) as f64)
                }
                // The median of rare failures is 0.
                Figure::Errors => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
                _ => interval::median(&values),
            }
        };
        let added: Vec<f64> = finding.pairs.iter().map(|[old, new]| new - old).collect();
        let change = finding.estimate.map(|it| it.value).or_else(|| excess::centre(&finding.differences()));
        let interval = finding.estimate.and_then(|it| it.interval).map(|it| {
            let limit = if figure == Figure::Errors { 1.0 } else { f64::INFINITY };
            let ends = [it.low, it.high].map(|end| figure.change(end).clamp(-limit, limit));
            Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
        });
        Self {
            workload: title(finding.workload),
            figure,
            old: value(0),
            new: value(1),
            added_ns: (figure.unit() == Unit::Time).then(|| excess::centre(&added)).flatten(),
            change: change.map(|it| figure.change(it)),
            interval,
            tolerance: finding.limit.tolerance,
            excess: (!finding.is_left_out()).then_some(finding.excess),
            pairs: finding.pairs.clone(),
        }
    }

    /// Formats the change and its interval.
    pub(crate) fn words(&self) -> String {
        let change = self.change.map_or_else(|| "unknown".into(), signed);
        let interval = self.interval.map_or_else(String::new, |it| format!("{}, ", range(it)));
        let added = self.added_ns.map_or_else(String::new, |it| format!("{} µs, ", format::signed_us(it)));
        format!("{} {added}{change} ({interval}tolerance {})", self.figure.name(), percent(self.tolerance))
    }

    /// Returns the knowledge about the figure in words.
    pub(crate) fn finding(&self) -> &'static str {
        match self.excess {
            None => "not measured",
            Some(Excess::Beyond) => match self.figure {
                Figure::Rate => "lower",
                Figure::Cpu => "more CPU",
                Figure::Memory => "more memory",
                Figure::Errors => "more errors",
                _ => "slower",
            },
            Some(Excess::Within) => "within",
            Some(Excess::Open) => "undecided",
        }
    }
}

/// Formats a share with two decimals at most.
pub(crate) fn percent(share: f64) -> String {
    format::percent((share * 1e4).round() / 1e4)
}

/// Formats an interval of a change as in `+4.2 to +5.1 %`.
pub(crate) fn range(interval: Interval) -> String {
    format!("{} to {}", signed(interval.low).trim_end_matches(" %"), signed(interval.high))
}

/// Says what a build is with these figures: slower, or only worse.
fn comparative(rows: &[&GateRow]) -> &'static str {
    let is_speed = |row: &&GateRow| !matches!(row.figure, Figure::Cpu | Figure::Memory | Figure::Errors);
    if rows.iter().any(is_speed) { "slower" } else { "worse" }
}

/// Formats a change as in `+4.2 %`.
pub(crate) fn signed(change: f64) -> String {
    // Adding 0 makes -0 positive.
    let percent = (1_000.0 * change).round() / 10.0 + 0.0;
    format!("{percent:+.1} %")
}

#[cfg(test)]
mod tests {
    use harness::record::Verdict;

    use super::*;

    /// A gate of `mt` against `epoll` with these limits of required figures, which ended after its trials.
    fn ended(percent: u64, trials: usize, required: &[Figure]) -> Run {
        let mut run = testkit::gate_run(percent);
        let Strategy::Gate(goal) = &mut run.header.strategy else { panic!("{:?}", run.header.strategy) };
        goal.time_max_ns = 1;
        goal.limits.iter_mut().for_each(|limit| limit.is_required = required.contains(&limit.figure));
        run.records.truncate(trials);
        run
    }

    /// Lets each trial of the new build fail, with or without a report of the client.
    fn fail(run: &mut Run, has_report: bool) {
        for record in run.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "mt") {
            record.verdict = Verdict::failed("the server ended: signal: 11.\nlast words");
            record.load = record.load.take().filter(|_| has_report);
        }
    }

    fn sentence(run: &Run) -> String {
        let report = GateReport::of(run).unwrap();
        assert_eq!(report.outcome, GateOutcome::Undecided, "{}", report.sentence);
        let text = report.sentence.replace("mt is worse", "mt is slower");
        text.split_once("whether mt is slower than epoll").unwrap().1.to_owned()
    }

    #[test]
    fn few_repeats_decide_nothing() {
        assert_eq!(sentence(&ended(0, 2, &[])), ". One repeat decides nothing: use a longer --budget.");
        assert_eq!(
            sentence(&ended(0, 4, &[])),
            ". mt client-limited: made up. 2 repeats decide nothing: use a longer --budget."
        );
        assert_eq!(
            sentence(&ended(0, 1, &[])),
            ". The gate was stopped: continue with `muxbench gate --resume FOLDER`."
        );
        assert_eq!(GateReport::of(&ended(0, 3, &[])).unwrap().repeats, 1, "the second repeat is not complete");
        let mut failed = ended(0, 2, &[Figure::P50]);
        fail(&mut failed, false);
        assert_eq!(
            sentence(&failed),
            ". mt failed: the server ended: signal: 11. Correct the cause, and run the gate again."
        );
    }

    #[test]
    fn build_whose_trials_all_fail_is_slower() {
        for has_report in [false, true] {
            let mut run = ended(3, 6, &[Figure::P50]);
            fail(&mut run, has_report);
            let report = GateReport::of(&run).unwrap();
            assert!(report.sentence.starts_with("mt is worse than epoll: errors +100.0 %"), "{}", report.sentence);
            assert_eq!(report.problems, ["mt failed: the server ended: signal: 11.\nlast words"]);
        }
    }

    #[test]
    fn words_fit_the_figure_that_decides() {
        let mut run = ended(0, usize::MAX, &[]);
        for record in run.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "mt") {
            let server = record.server.as_mut().unwrap();
            server.memory_user_bytes_per_connection = Some(1e6);
        }
        let report = GateReport::of(&run).unwrap();
        assert!(report.sentence.starts_with("mt is worse than epoll: memory +"), "{}", report.sentence);
        let found: Vec<&str> = report.figures.iter().map(GateRow::finding).collect();
        assert!(found.contains(&"more memory") && found.contains(&"within") && !found.contains(&"slower"), "{found:?}");
    }

    #[test]
    fn printed_interval_decides() {
        for percent in [0, 1, 2, 3, 4, 20] {
            let mut run = testkit::gate_run(percent);
            for trials in [6, 10, 16, 24, 36] {
                run.records.truncate(trials);
                for row in GateReport::of(&run).unwrap().figures {
                    let Some(Interval { low, high }) = row.interval else {
                        assert!(row.pairs.len() < 3 && row.excess == Some(Excess::Open), "{}", row.words());
                        continue;
                    };
                    let limit = row.figure.change(row.figure.limit(row.tolerance));
                    let (best, worst) = if row.figure == Figure::Rate { (-high, -low) } else { (low, high) };
                    let found = match limit.abs() {
                        limit if limit < best => Excess::Beyond,
                        limit if limit > worst => Excess::Within,
                        _ => Excess::Open,
                    };
                    assert_eq!(row.excess, Some(found), "{percent} %, {trials} trials: {}", row.words());
                }
                run = testkit::gate_run(percent);
            }
        }
    }

    #[test]
    fn errors_of_one_repeat_have_means() {
        let mut run = ended(3, 6, &[]);
        let is_new = |record: &&mut TrialRecord| record.trial.architecture.to_string() == "mt";
        let failed = run.records.iter_mut().find(is_new).unwrap();
        failed.verdict = Verdict::failed("the server ended");
        let rows = GateReport::of(&run).unwrap().figures;
        let errors = rows.iter().find(|row| row.figure == Figure::Errors).unwrap();
        let third = |value: Option<f64>| (value.unwrap() - 1.0 / 3.0).abs() < 1e-9;
        assert!(errors.old == Some(0.0) && third(errors.new) && third(errors.change), "{errors:?}");
        let Interval { low, high } = errors.interval.unwrap();
        assert!(low >= -1.0 && high == 1.0, "{low} to {high}");
    }

    #[test]
    fn errors_are_a_share_of_the_whole_trial() {
        let mut run = ended(3, 6, &[]);
        for record in run.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "mt") {
            let load = record.load.as_mut().unwrap();
            // As many requests before the window as in it, of which half failed.
            (load.planned, load.trial_requests, load.errors.timeout) = (200, 400, 100);
        }
        let rows = GateReport::of(&run).unwrap().figures;
        let errors = rows.iter().find(|row| row.figure == Figure::Errors).unwrap();
        assert_eq!((errors.old, errors.new), (Some(0.0), Some(0.25)));
    }

    /// Lets each trial of the new build fail by a check, without errors.
    fn fail_check(run: &mut Run) {
        fail(run, true);
        let failed = run.records.iter_mut().filter(|record| record.verdict.kind == VerdictKind::Failed);
        failed.for_each(|record| record.verdict.checks = testkit::verdict_with(VerdictKind::Failed, "made up").checks);
    }

    #[test]
    fn failures_without_errors_are_named() {
        let mut run = ended(3, 16, &[]);
        fail_check(&mut run);
        assert_eq!(
            sentence(&run),
            ". mt failed: the server ended: signal: 11. Correct the cause, and run the gate again."
        );
        let mut run = ended(3, 16, &[Figure::Cpu]);
        fail_check(&mut run);
        assert!(sentence(&run).starts_with("; too few values of cpu. mt failed: "), "{}", sentence(&run));
    }

    #[test]
    fn remedy_leaves_out_figures_without_values() {
        let mut run = ended(0, usize::MAX, &[Figure::Cpu, Figure::Memory]);
        run.records.iter_mut().for_each(|record| record.server = None);
        assert_eq!(
            sentence(&run),
            "; too few values of cpu and memory. Leave the figures out with --limit cpu=off,memory=off."
        );
    }
}
