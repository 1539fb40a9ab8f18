//! Two runs side by side as CSV.

use harness::record::Workload;

use super::csv::{CsvRow, of_rows};
use crate::analysis::run_diff::{Change, Pair, RunDiff, SideFigures};
use crate::analysis::workload::title;

/// Returns CSV with a row for each architecture and workload. The first column names the runs: `both`, `a` or `b`.
pub fn csv(diff: &RunDiff) -> String {
    let both = diff.pairs.iter().map(|pair| row("both", &pair.architecture, &pair.workload, Some(pair)));
    let only = [("a", &diff.only_a), ("b", &diff.only_b)].into_iter();
    let only =
        only.flat_map(|(run, planned)| planned.iter().map(move |it| row(run, &it.architecture, &it.workload, None)));
    of_rows(both.chain(only))
}

type Figure = fn(&SideFigures) -> Option<f64>;

fn row(runs: &str, architecture: &str, workload: &Workload, pair: Option<&Pair>) -> CsvRow {
    let mut row = CsvRow::default();
    row.put("runs", runs);
    row.put("architecture", architecture);
    row.put("traffic", title(workload));
    row.put("phases_differ", pair.is_some_and(|pair| pair.phases_b.is_some()));
    let (a, b) = (pair.map(|pair| &pair.a), pair.map(|pair| &pair.b));
    for (letter, side) in [("a", a), ("b", b)] {
        row.put(format!("repeats_{letter}"), side.map(|side| side.repeats));
        row.put(format!("repeats_valid_{letter}"), side.map(|side| side.repeats_valid));
    }
    let changes: [(&str, &str, Figure, fn(&Pair) -> Option<Change>); 5] = [
        ("service_p50", "_ns", |side| side.service_p50_ns, |pair| pair.service_p50),
        ("service_p90", "_ns", |side| side.service_p90_ns, |pair| pair.service_p90),
        ("service_p95", "_ns", |side| side.service_p95_ns, |pair| pair.service_p95),
        ("service_p99", "_ns", |side| side.service_p99_ns, |pair| pair.service_p99),
        ("rate", "_per_s", |side| side.rate_per_s, |pair| pair.rate),
    ];
    for (name, unit, figure, change) in changes {
        row.put(format!("{name}_a{unit}"), a.and_then(figure));
        row.put(format!("{name}_b{unit}"), b.and_then(figure));
        let change = pair.and_then(change);
        let interval = change.and_then(|change| change.ratio.interval);
        row.put(format!("{name}_ratio"), change.map(|change| change.ratio.ratio));
        row.put(format!("{name}_ratio_low"), interval.map(|it| it.low));
        row.put(format!("{name}_ratio_high"), interval.map(|it| it.high));
        row.put(format!("{name}_finding"), change.map(|change| change.finding));
    }
    row.put("workload", serde_json::to_string(workload).unwrap_or_default());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_row_for_each_pair() {
        insta::assert_snapshot!(csv(&RunDiff::of(&testkit::run(), &testkit::other_run())));
    }
}
