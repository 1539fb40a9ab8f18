//! Send deviations as CSV.

use stats::Deviation;

use super::csv::{CsvRow, of_rows_under};
use crate::analysis::deviation::{Deviations, SHARES, TrialDeviation};
use crate::format;

/// Returns CSV with a row for each trial.
pub fn csv(deviations: &Deviations) -> String {
    of_rows_under(row(None), deviations.trials.iter().map(|trial| row(Some(trial))))
}

fn row(trial: Option<&TrialDeviation>) -> CsvRow {
    let workload = trial.map(|trial| &trial.workload);
    let figures = trial.and_then(|trial| trial.figures.as_ref());
    let figure = |figure: fn(&Deviation) -> f64| figures.map(|figures| figure(figures).to_string());
    let mut row = CsvRow::default();
    row.put("trial", trial.map(|trial| trial.trial));
    row.put("repeat", trial.map(|trial| trial.repeat));
    row.put("architecture", trial.map(|trial| &trial.architecture));
    row.put("connections", workload.map(|workload| workload.connections));
    row.put("active", workload.map(|workload| workload.active.to_string()));
    row.put("rate_asked_per_s", workload.map(|workload| format::rate(workload.rate_per_s)));
    row.put("schedule", workload.map(|workload| workload.schedule));
    row.put("verdict", trial.map(|trial| format::verdict(trial.verdict)));
    row.put("missing", trial.and_then(|trial| trial.missing.as_ref()));
    row.put("sends", figures.map(|figures| figures.count));
    row.put("unsent", trial.map(|trial| trial.unsent));
    row.put("stddev_ns", figure(|it| it.stddev_ns));
    row.put("median_ns", figure(|it| it.median_ns));
    row.put("max_ns", figure(|it| it.max_ns));
    row.put("min_ns", figure(|it| it.min_ns));
    row.put("within_1us_of_median", figure(|it| it.within_1us_of_median));
    for (at, share) in SHARES.iter().enumerate() {
        let point = trial.and_then(|trial| trial.tails.get(at));
        let deviation_ns = point.map(|point| point.deviation_ns.to_string());
        row.put(format!("p{}_ns", (share * 1_000.0).round() / 10.0), deviation_ns);
    }
    row
}
