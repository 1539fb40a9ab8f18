//! Two runs side by side, as CSV.

use serde::Serialize;

use super::csv::finished;
use crate::model::run_diff::{Change, ChangeKind, Pair, RunDiff};
use crate::model::workload::title;
use harness::model::Workload;

#[derive(Serialize)]
struct CsvRow {
    runs: &'static str,
    architecture: String,
    traffic: String,
    phases_differ: bool,
    repeats_a: Option<usize>,
    repeats_valid_a: Option<usize>,
    repeats_b: Option<usize>,
    repeats_valid_b: Option<usize>,
    service_p50_a_ns: Option<f64>,
    service_p50_b_ns: Option<f64>,
    service_p50_ratio: Option<f64>,
    service_p50_ratio_low: Option<f64>,
    service_p50_ratio_high: Option<f64>,
    service_p50_finding: Option<ChangeKind>,
    service_p99_a_ns: Option<f64>,
    service_p99_b_ns: Option<f64>,
    service_p99_ratio: Option<f64>,
    service_p99_ratio_low: Option<f64>,
    service_p99_ratio_high: Option<f64>,
    service_p99_finding: Option<ChangeKind>,
    rate_a_per_s: Option<f64>,
    rate_b_per_s: Option<f64>,
    rate_ratio: Option<f64>,
    rate_ratio_low: Option<f64>,
    rate_ratio_high: Option<f64>,
    rate_finding: Option<ChangeKind>,
    workload: String,
}

impl CsvRow {
    fn new(runs: &'static str, architecture: &str, workload: &Workload, pair: Option<&Pair>) -> anyhow::Result<Self> {
        let (a, b) = (pair.map(|pair| &pair.a), pair.map(|pair| &pair.b));
        let p50 = pair.and_then(|pair| pair.service_p50);
        let p99 = pair.and_then(|pair| pair.service_p99);
        let rate = pair.and_then(|pair| pair.rate);
        let low = |against: Option<Change>| Some(against?.ratio.interval?.low);
        let high = |against: Option<Change>| Some(against?.ratio.interval?.high);
        Ok(Self {
            runs,
            architecture: architecture.to_owned(),
            traffic: title(workload),
            phases_differ: pair.is_some_and(|pair| pair.phases_b.is_some()),
            repeats_a: a.map(|a| a.repeats),
            repeats_valid_a: a.map(|a| a.repeats_valid),
            repeats_b: b.map(|b| b.repeats),
            repeats_valid_b: b.map(|b| b.repeats_valid),
            service_p50_a_ns: a.and_then(|a| a.service_p50_ns),
            service_p50_b_ns: b.and_then(|b| b.service_p50_ns),
            service_p50_ratio: p50.map(|p50| p50.ratio.ratio),
            service_p50_ratio_low: low(p50),
            service_p50_ratio_high: high(p50),
            service_p50_finding: p50.map(|p50| p50.finding),
            service_p99_a_ns: a.and_then(|a| a.service_p99_ns),
            service_p99_b_ns: b.and_then(|b| b.service_p99_ns),
            service_p99_ratio: p99.map(|p99| p99.ratio.ratio),
            service_p99_ratio_low: low(p99),
            service_p99_ratio_high: high(p99),
            service_p99_finding: p99.map(|p99| p99.finding),
            rate_a_per_s: a.and_then(|a| a.rate_per_s),
            rate_b_per_s: b.and_then(|b| b.rate_per_s),
            rate_ratio: rate.map(|rate| rate.ratio.ratio),
            rate_ratio_low: low(rate),
            rate_ratio_high: high(rate),
            rate_finding: rate.map(|rate| rate.finding),
            workload: serde_json::to_string(workload)?,
        })
    }
}

/// The comparison as CSV: a row for each architecture under each workload, in `both` runs or only in `a` or `b`.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(versus: &RunDiff) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for pair in &versus.pairs {
        writer.serialize(CsvRow::new("both", &pair.architecture, &pair.workload, Some(pair))?)?;
    }
    for (runs, only) in [("a", &versus.only_a), ("b", &versus.only_b)] {
        for planned in only {
            writer.serialize(CsvRow::new(runs, &planned.architecture, &planned.workload, None)?)?;
        }
    }
    finished(writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn two_runs_as_csv() {
        insta::assert_snapshot!(csv(&RunDiff::of(&fixtures::run(), &fixtures::other_run())).unwrap());
    }
}
