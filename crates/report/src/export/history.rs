//! Many runs as CSV.

use super::csv::{CsvRow, of_rows_under};
use crate::analysis::history::{History, Trend, TrendPoint};
use crate::format;

/// Returns CSV with a row for each point of each trend.
pub fn csv(history: &History) -> String {
    let points = history.trends.iter().flat_map(|trend| trend.points.iter().map(move |point| (trend, point)));
    of_rows_under(row(history, None), points.map(|point| row(history, Some(point))))
}

fn row(history: &History, point: Option<(&Trend, &TrendPoint)>) -> CsvRow {
    let (trend, point) = point.unzip();
    let run = point.map(|point| &history.runs[point.run]);
    let mut row = CsvRow::default();
    row.put("architecture", trend.map(|trend| &trend.architecture));
    row.put("traffic", trend.map(|trend| &trend.title));
    row.put("host", trend.map(|trend| &history.hosts[trend.host].letter));
    row.put("run", run.map(|run| &run.name));
    row.put("folder", run.map(|run| &run.folder));
    row.put("started_at", run.map(|run| &run.started_at));
    row.put("muxbench", run.map(|run| &run.muxbench));
    row.put("verdict", point.map(|point| format::verdict(point.verdict)));
    row.put("repeats", point.map(|point| point.repeats));
    row.put("repeats_valid", point.map(|point| point.repeats_valid));
    let estimates = [
        ("service_p50", "_ns", point.and_then(|point| point.service_p50_ns)),
        ("service_p90", "_ns", point.and_then(|point| point.service_p90_ns)),
        ("service_p95", "_ns", point.and_then(|point| point.service_p95_ns)),
        ("service_p99", "_ns", point.and_then(|point| point.service_p99_ns)),
        ("rate", "_per_s", point.and_then(|point| point.rate_per_s)),
    ];
    for (name, unit, estimate) in estimates {
        let interval = estimate.and_then(|it| it.interval);
        row.put(format!("{name}{unit}"), estimate.map(|it| it.value));
        row.put(format!("{name}_low{unit}"), interval.map(|it| it.low));
        row.put(format!("{name}_high{unit}"), interval.map(|it| it.high));
    }
    row.put("clients_from", point.and_then(|point| point.clients_from));
    row
}
