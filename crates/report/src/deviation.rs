//! How even the sends of each trial were, as kawai2006 measures it: [`stats::deviation`] over the raw samples.

use std::collections::BTreeMap;

use comfy_table::{Cell, Table, presets};
use harness::record::{Run, TrialRecord, VerdictKind, Workload};
use harness::units::Share;
use load::config::Schedule;
use serde::Serialize;
use stats::{Deviation, deviation};

use crate::summary::order;
use crate::table::{Column, align, fit};
use crate::{Medium, format, json, sentence};

/// Gives when the requests of a trial were sent, in nanoseconds, in any order, without those that never were; or why that
/// is not known. Here only what it says is looked at: where samples are stored is the caller's business.
pub type SendsOf<'a> = dyn FnMut(u32) -> anyhow::Result<Vec<i64>> + 'a;

/// Gives the deviations of a finished trial.
pub type DeviationOf<'a> = dyn FnMut(&TrialRecord) -> TrialDeviation + 'a;

/// The deviations that follow from sends. A trial's samples are read once, however often it is asked for.
pub fn kept<'a>(sends_of: &'a mut SendsOf<'_>) -> impl FnMut(&TrialRecord) -> TrialDeviation + 'a {
    let mut known: BTreeMap<u32, TrialDeviation> = BTreeMap::new();
    move |record| {
        let of_trial = known.entry(record.trial.index);
        of_trial.or_insert_with(|| TrialDeviation::of(record, sends_of)).clone()
    }
}

/// The shares of the sends whose deviations are shown.
pub const SHARES: [f64; 9] = [0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999];

/// Points of the cumulative distribution: every percent.
const POINTS: usize = 101;

/// What deviations are from.
const DEFINITION: &str = "Each send against an even sequence of 1/rate that fits all of them best (kawai2006 section 5.2): \
                          positive is late, and the mean is 0.";

/// The deviations of all finished trials.
#[derive(Clone, Debug, Serialize)]
pub struct Deviations {
    /// As [`json::FORMAT`].
    pub format: u32,
    /// The run's name.
    pub run: String,
    /// What a deviation is.
    pub definition: &'static str,
    /// By connections, active share, rate and architecture.
    pub trials: Vec<TrialDeviation>,
}

/// The deviations of one trial.
#[derive(Clone, Debug, Serialize)]
pub struct TrialDeviation {
    /// Its index in the plan.
    pub trial: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The server's architecture.
    pub architecture: String,
    /// The traffic. Only of the schedule `constant` are deviations the client's alone.
    pub workload: Workload,
    /// Time between two sends at the rate asked, in nanoseconds.
    pub interval_ns: Option<f64>,
    /// What may be believed of the trial.
    pub verdict: VerdictKind,
    /// Requests that were planned and never sent: each makes those after it seem late by one interval.
    pub unsent: u64,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// The figures; `None` when nothing is known to have been sent.
    pub figures: Option<Deviation>,
    /// The deviations at [`SHARES`].
    pub tails: Vec<Point>,
    /// The cumulative distribution at every percent.
    pub cdf: Vec<Point>,
}

/// A point of a cumulative distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Share of the sends that deviate by at most this.
    pub share: f64,
    /// The deviation in nanoseconds.
    pub deviation_ns: f64,
}

impl TrialDeviation {
    /// Of one finished trial.
    pub fn of(record: &TrialRecord, sends_of: &mut SendsOf<'_>) -> Self {
        let trial = &record.trial;
        let interval_ns = trial.workload.rate_per_s.map(|rate_per_s| 1e9 / rate_per_s);
        let (sent_ns, missing) = match sends_of(trial.index) {
            _ if interval_ns.is_none() => (Vec::new(), Some("a closed loop has no intervals".to_owned())),
            Ok(sent_ns) if sent_ns.is_empty() => (sent_ns, Some("nothing was sent".to_owned())),
            Ok(sent_ns) => (sent_ns, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let deviations_ns = deviation::deviations_ns(&sent_ns, interval_ns.unwrap_or_default());
        let points = |points: usize| {
            let cdf = deviation::cdf(&deviations_ns, points).into_iter();
            cdf.map(|(deviation_ns, share)| Point { share, deviation_ns }).collect::<Vec<_>>()
        };
        // At every thousandth, the finest of the shares.
        let fine = points(1_001);
        let planned = record.load.as_ref().filter(|_| missing.is_none()).map_or(0, |load| load.planned);
        Self {
            trial: trial.index,
            repeat: trial.repeat,
            architecture: trial.architecture.to_string(),
            workload: trial.workload.clone(),
            interval_ns,
            verdict: record.verdict.kind,
            unsent: planned.saturating_sub(sent_ns.len() as u64),
            missing,
            figures: Deviation::of(&deviations_ns),
            tails: SHARES.iter().filter_map(|share| fine.get((share * 1_000.0).round() as usize).copied()).collect(),
            cdf: points(POINTS),
        }
    }
}

impl Deviations {
    /// Of all finished trials of a run.
    pub fn of(run: &Run, sends_of: &mut SendsOf<'_>) -> Self {
        let mut trials: Vec<TrialDeviation> =
            run.records.iter().map(|record| TrialDeviation::of(record, sends_of)).collect();
        trials.sort_by(|a, b| {
            order(&a.workload, &b.workload).then(a.architecture.cmp(&b.architecture)).then(a.trial.cmp(&b.trial))
        });
        Self { format: json::FORMAT, run: run.header.name.clone(), definition: DEFINITION, trials }
    }
}

/// In order from left to right; [`TAILS`] follow.
const COLUMNS: &[Column<TrialDeviation>] = &[
    Column { heading: "architecture", rank: 0, text: |trial| trial.architecture.clone() },
    Column { heading: "trial", rank: 1, text: |trial| trial.trial.to_string() },
    Column { heading: "connections", rank: 0, text: |trial| trial.workload.connections.to_string() },
    Column { heading: "active", rank: 1, text: |trial| Share(trial.workload.active).to_string() },
    Column { heading: "req/s", rank: 0, text: |trial| format::rate(trial.workload.rate_per_s) },
    Column { heading: "sends", rank: 5, text: |trial| trial.figures.map_or(none(), |it| it.count.to_string()) },
    Column { heading: "stddev µs", rank: 0, text: |trial| figure(trial, |it| it.stddev_ns / 1e3) },
    Column { heading: "median µs", rank: 0, text: |trial| figure(trial, |it| it.median_ns / 1e3) },
    Column { heading: "max µs", rank: 0, text: |trial| figure(trial, |it| it.max_ns / 1e3) },
    Column { heading: "min µs", rank: 1, text: |trial| figure(trial, |it| it.min_ns / 1e3) },
    Column { heading: "±1 µs %", rank: 1, text: |trial| figure(trial, |it| it.within_1us_of_median * 100.0) },
    Column { heading: "schedule", rank: 5, text: |trial| format::name(&trial.workload.schedule) },
    Column { heading: "verdict", rank: 1, text: |trial| sentence::name(trial.verdict).into() },
];

/// Which of [`SHARES`] are columns, and how important each is. The median is among the figures.
const TAILS: &[(usize, u8)] = &[(0, 4), (1, 2), (2, 3), (3, 4), (5, 4), (6, 3), (7, 2), (8, 4)];

fn none() -> String {
    "-".into()
}

fn figure(trial: &TrialDeviation, figure: fn(&Deviation) -> f64) -> String {
    trial.figures.as_ref().map_or(none(), |figures| format::significant(figure(figures)))
}

fn table(trials: &[TrialDeviation], medium: Medium) -> String {
    let build = |rank_max: u8| {
        let shown = || COLUMNS.iter().filter(|column| column.rank <= rank_max);
        let tails = || TAILS.iter().filter(|(_, rank)| *rank <= rank_max).map(|(at, _)| *at);
        let mut table = Table::new();
        let headings = shown().map(|column| column.heading.to_owned());
        table.load_style(presets::NOTHING).set_header(headings.chain(tails().map(|at| percent(SHARES[at]))));
        for trial in trials {
            let tail =
                |at| trial.tails.get(at).map_or(none(), |point: &Point| format::significant(point.deviation_ns / 1e3));
            table.add_row(shown().map(|column| (column.text)(trial)).chain(tails().map(tail)).map(Cell::new));
        }
        align(&mut table);
        table
    };
    fit(medium, build).0
}

/// A share as a heading.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1_000.0).round() / 10.0)
}

/// As text.
pub fn render(deviations: &Deviations, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut lines = vec![medium.heading("Send deviation"), table(&deviations.trials, medium)];
    for trial in &deviations.trials {
        if let Some(why) = &trial.missing {
            lines.push(medium.prose(&format!("trial {}, {}: {why}", trial.trial, trial.architecture)));
        } else if trial.unsent > 0 {
            let what = format!(
                "trial {}, {}: {} requests were never sent, so those after each seem late by an interval",
                trial.trial, trial.architecture, trial.unsent
            );
            lines.push(medium.prose(&what));
        }
    }
    lines.push(String::new());
    let percents = "A column headed by a share: so many of the sends deviate by at most this, in µs. \"±1 µs %\": the share \
                    at most 1 µs from the median.";
    lines.push(medium.prose(&format!("{DEFINITION} {percents}")));
    let uneven = deviations.trials.iter().filter(|trial| trial.workload.schedule != Schedule::Constant).count();
    if uneven > 0 {
        let what = format!(
            "The definition presumes constant intervals: of {uneven} trials the schedule is another, so that their \
             deviations are its own and say nothing of the client; its lag does (`muxbench report`). For constant \
             intervals: --schedule constant."
        );
        lines.push(medium.prose(&what));
    }
    medium.finished(lines.join("\n") + "\n")
}

/// As CSV: a row a trial.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(deviations: &Deviations) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = "trial,repeat,architecture,connections,active,rate_asked_per_s,schedule,verdict,missing,sends,unsent,\
                 stddev_ns,median_ns,max_ns,min_ns,within_1us_of_median";
    let tails = SHARES.iter().map(|share| format!("p{}_ns", (share * 1_000.0).round() / 10.0));
    writer.write_record(fixed.split(',').map(str::to_owned).chain(tails))?;
    for trial in &deviations.trials {
        let figure = |figure: fn(&Deviation) -> f64| {
            trial.figures.as_ref().map_or(String::new(), |figures| figure(figures).to_string())
        };
        let mut fields = vec![
            trial.trial.to_string(),
            trial.repeat.to_string(),
            trial.architecture.clone(),
            trial.workload.connections.to_string(),
            trial.workload.active.to_string(),
            format::rate(trial.workload.rate_per_s),
            format::name(&trial.workload.schedule),
            sentence::name(trial.verdict).into(),
            trial.missing.clone().unwrap_or_default(),
            figure(|it| it.count as f64),
            trial.unsent.to_string(),
            figure(|it| it.stddev_ns),
            figure(|it| it.median_ns),
            figure(|it| it.max_ns),
            figure(|it| it.min_ns),
            figure(|it| it.within_1us_of_median),
        ];
        let tail = |at| trial.tails.get(at).map_or(String::new(), |point: &Point| point.deviation_ns.to_string());
        fields.extend((0..SHARES.len()).map(tail));
        writer.write_record(fields)?;
    }
    crate::csv::finished(writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn deviations_in_full_and_what_is_missing_is_named() {
        let run = fixtures::kawai2006_run();
        let deviations = Deviations::of(&run, &mut fixtures::sends_of(&run));
        insta::assert_snapshot!(render(&deviations, 180));
        let narrow = render(&deviations, 80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        for trial in &deviations.trials {
            assert_eq!(trial.figures.is_some(), trial.missing.is_none());
            assert_eq!(trial.cdf.len(), if trial.figures.is_some() { POINTS } else { 0 });
        }
        assert!(deviations.trials.iter().any(|trial| trial.missing.is_some()));
        assert_eq!(csv(&deviations).unwrap().lines().count(), 1 + deviations.trials.len());
    }

    #[test]
    fn another_schedule_is_shown_with_a_warning() {
        let run = fixtures::run();
        let text = render(&Deviations::of(&run, &mut fixtures::sends_of(&run)), 100);
        assert!(text.contains("presumes constant intervals"), "{text}");
    }
}
