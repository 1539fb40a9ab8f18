//! Send deviations as CSV.

use stats::Deviation;

use super::csv::{CsvRow, of_rows};
use crate::format;
use crate::model::deviation::{Deviations, SHARES, TrialDeviation};

/// Returns CSV with a row for each trial.
pub fn csv(deviations: &Deviations) -> String {
    of_rows(deviations.trials.iter().map(row))
}

fn row(trial: &TrialDeviation) -> CsvRow {
    let figure = |figure: fn(&Deviation) -> f64| trial.figures.as_ref().map(|figures| figure(figures).to_string());
    let mut row = CsvRow::default();
    row.put("trial", trial.trial);
    row.put("repeat", trial.repeat);
    row.put("architecture", &trial.architecture);
    row.put("connections", trial.workload.connections);
    row.put("active", trial.workload.active.to_string());
    row.put("rate_asked_per_s", format::rate(trial.workload.rate_per_s));
    row.put("schedule", trial.workload.schedule);
    row.put("verdict", format::verdict(trial.verdict));
    row.put("missing", &trial.missing);
    row.put("sends", trial.figures.map(|figures| figures.count));
    row.put("unsent", trial.unsent);
    row.put("stddev_ns", figure(|it| it.stddev_ns));
    row.put("median_ns", figure(|it| it.median_ns));
    row.put("max_ns", figure(|it| it.max_ns));
    row.put("min_ns", figure(|it| it.min_ns));
    row.put("within_1us_of_median", figure(|it| it.within_1us_of_median));
    for (at, share) in SHARES.iter().enumerate() {
        let deviation_ns = trial.tails.get(at).map(|point| point.deviation_ns.to_string());
        row.put(format!("p{}_ns", (share * 1_000.0).round() / 10.0), deviation_ns);
    }
    row
}
