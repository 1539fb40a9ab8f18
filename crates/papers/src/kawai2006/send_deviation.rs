//! Table 5: deviations of sends from even intervals.

use std::collections::BTreeMap;

use harness::record::{Run, TrialRecord, VerdictKind};
use harness::spec::units::Share;
use load::config::Schedule;
use report::analysis::deviation::{DeviationOf, TrialDeviation};
use report::format;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Deviation, interval};

use super::service_time::{ARCHITECTURES, is_of_matrix, published_service_time};
use crate::grid::GridRow;
use crate::queue;

pub(super) const SEND_DEVIATION: &str = include_str!("send-deviation.csv");

/// A column of Table 5.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Worst {
    pub(super) architecture: &'static str,
    /// The printed values by the name of the statistic: `stddev_us`, `median_us`, `max_us`.
    pub(super) published: BTreeMap<String, f64>,
    /// The trial with the largest standard deviation; `None` when no trial counts.
    pub(super) here: Option<TrialDeviation>,
    /// Statistics of all trials that count, because a single pause of the host may decide which trial is the worst.
    all: All,
}

/// Statistics of the trials of an architecture that count for Table 5.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct All {
    trials: usize,
    /// The median of the standard deviations of these trials.
    stddev_us_median: Option<f64>,
    /// The median of the shares of sends that are within 1 µs of their trial's median.
    within_1us_of_median_median: Option<f64>,
}

/// Returns each statistic of Table 5 with its values, in the order of [`ARCHITECTURES`].
pub(super) fn published_send_deviation() -> Vec<(String, [f64; 5])> {
    let mut reader = csv::Reader::from_reader(SEND_DEVIATION.as_bytes());
    reader.deserialize().map(|row| row.expect("a test reads every row")).collect()
}

/// The trials of a run that count for Table 5 and Figure 2.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sends {
    /// The columns of Table 5, in the order of [`ARCHITECTURES`].
    pub(super) send_deviation: Vec<Worst>,
    /// The number of trials that count (valid, constant intervals, readable samples) and of all trials in the matrix.
    deviation_trials: (usize, usize),
    /// Reasons why samples cannot be read.
    samples_missing: Vec<String>,
}

impl Sends {
    pub(super) fn of(run: &Run, deviation_of: &mut DeviationOf<'_>) -> Self {
        let published = published_service_time();
        let of_matrix = run.header.trials.iter().filter(|trial| is_of_matrix(&published, &trial.workload)).count();
        let table_5 = published_send_deviation();
        let mut worst: [Worst; 5] = std::array::from_fn(|at| Worst {
            architecture: ARCHITECTURES[at],
            published: table_5.iter().map(|(statistic, values)| (statistic.clone(), values[at])).collect(),
            here: None,
            all: All::default(),
        });
        let counts = |record: &&TrialRecord| {
            let TrialRecord { trial, verdict, .. } = record;
            let is_even = trial.workload.schedule() == Some(Schedule::Constant);
            is_even && verdict.kind == VerdictKind::Valid && is_of_matrix(&published, &trial.workload)
        };
        let (mut counted, mut samples_missing) = (Vec::new(), Vec::new());
        for record in run.records.iter().filter(counts) {
            let architecture = record.trial.architecture.to_string();
            let Some(worst) = worst.iter_mut().find(|worst| queue::is(&architecture, worst.architecture)) else {
                continue;
            };
            let deviation = deviation_of(record);
            if let Some(why) = &deviation.missing {
                samples_missing.push(format!("trial {}, {architecture}: {why}", deviation.trial));
                continue;
            }
            counted.extend(deviation.figures.map(|figures| (worst.architecture, figures)));
            let stddev_ns = |it: &TrialDeviation| it.figures.map_or(0.0, |figures| figures.stddev_ns);
            if worst.here.as_ref().is_none_or(|here| stddev_ns(&deviation) > stddev_ns(here)) {
                worst.here = Some(deviation);
            }
        }
        for Worst { architecture, all, .. } in &mut worst {
            let these: Vec<_> = counted.iter().filter(|(of, _)| of == architecture).map(|(_, it)| it).collect();
            let median = |figure: fn(&Deviation) -> f64| {
                interval::median(&these.iter().map(|it| figure(it)).collect::<Vec<_>>())
            };
            *all = All {
                trials: these.len(),
                stddev_us_median: median(|figures| figures.stddev_ns / 1e3),
                within_1us_of_median_median: median(|figures| figures.within_1us_of_median),
            };
        }
        Self { send_deviation: worst.into(), deviation_trials: (counted.len(), of_matrix), samples_missing }
    }

    /// Returns the notes below Table 5.
    pub(super) fn notes(&self) -> Vec<String> {
        let (counted, of_matrix) = self.deviation_trials;
        let mut notes = vec![
            format!(
                "Only valid trials at constant intervals count: {counted} of this run's {of_matrix} trials in the paper's matrix. \
                 A single pause of the host may determine which trial is the worst, but not the medians over all trials."
            ),
            "In the paper (section 5.2) more than 90 % of the sends of select and poll are within ±1 µs, and so are most sends \
             of the other architectures."
                .into(),
        ];
        notes.extend(self.samples_missing.iter().cloned());
        notes
    }

    fn row(&self, name: &str, whose: &str, text: impl Fn(&Worst) -> Option<String>) -> GridRow {
        GridRow {
            lead: vec![name.into(), whose.into()],
            cells: self.send_deviation.iter().map(|worst| text(worst).unwrap_or("-".into())).collect(),
        }
    }

    fn here_row(&self, name: &str, text: fn(&TrialDeviation) -> Option<String>) -> GridRow {
        self.row(name, "here", |worst| text(worst.here.as_ref()?))
    }

    /// Returns the rows of Table 5, and further statistics of its trials.
    pub(super) fn rows(&self) -> Vec<GridRow> {
        let mut rows = Vec::new();
        for Statistic { name, key, here_us } in STATISTICS {
            let here = |worst: &Worst| here_us(worst.here.as_ref()?).map(format::significant);
            let paper = |worst: &Worst| worst.published.get(*key).copied().map(format::significant);
            rows.push(self.row(name, "here", here));
            rows.push(self.row("", "paper", paper));
        }
        let within = |it: &TrialDeviation| Some(format::significant(it.figures?.within_1us_of_median * 100.0));
        rows.extend([
            self.here_row("within ±1 µs of the median, %", within),
            self.here_row("trial", |it| Some(it.trial.to_string())),
            self.here_row("  connections", |it| Some(it.workload.connections.to_string())),
            self.here_row("  active share", |it| Some(Share(it.workload.active()).to_string())),
            self.here_row("  requests/s", |it| Some(format::rate(it.workload.rate_per_s()))),
            self.row("trials counted", "here", |worst| (worst.all.trials > 0).then(|| worst.all.trials.to_string())),
            self.row("  median standard deviation", "here", |worst| {
                worst.all.stddev_us_median.map(format::significant)
            }),
            self.row("  median share within ±1 µs, %", "here", |worst| {
                worst.all.within_1us_of_median_median.map(|share| format::significant(share * 100.0))
            }),
        ]);
        rows
    }
}

/// A statistic of Table 5.
pub(super) struct Statistic {
    name: &'static str,
    /// The name in the published values.
    pub(super) key: &'static str,
    pub(super) here_us: fn(&TrialDeviation) -> Option<f64>,
}

/// The statistics, in the order of Table 5.
pub(super) const STATISTICS: &[Statistic] = &[
    Statistic { name: "standard deviation", key: "stddev_us", here_us: |it| Some(it.figures?.stddev_ns / 1e3) },
    Statistic { name: "median", key: "median_us", here_us: |it| Some(it.figures?.median_ns / 1e3) },
    Statistic { name: "max", key: "max_us", here_us: |it| Some(it.figures?.max_ns / 1e3) },
];
