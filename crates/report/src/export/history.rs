//! Many runs as CSV.

use super::csv::{CsvRow, of_rows};
use crate::format;
use crate::model::history::{History, Trend, TrendPoint};

/// Returns CSV with a row for each point of each trend.
pub fn csv(history: &History) -> String {
    let rows = history.trends.iter().flat_map(|trend| trend.points.iter().map(|point| row(history, trend, point)));
    of_rows(rows)
}

fn row(history: &History, trend: &Trend, point: &TrendPoint) -> CsvRow {
    let run = &history.runs[point.run];
    let mut row = CsvRow::default();
    row.put("architecture", &trend.architecture);
    row.put("traffic", &trend.title);
    row.put("host", &history.hosts[trend.host].letter);
    row.put("run", &run.name);
    row.put("folder", &run.folder);
    row.put("started_at", &run.started_at);
    row.put("muxbench", &run.muxbench);
    row.put("verdict", format::verdict(point.verdict));
    row.put("repeats", point.repeats);
    row.put("repeats_valid", point.repeats_valid);
    let estimates = [
        ("service_p50", "_ns", point.service_p50_ns),
        ("service_p90", "_ns", point.service_p90_ns),
        ("service_p95", "_ns", point.service_p95_ns),
        ("service_p99", "_ns", point.service_p99_ns),
        ("rate", "_per_s", point.rate_per_s),
    ];
    for (name, unit, estimate) in estimates {
        let interval = estimate.and_then(|it| it.interval);
        row.put(format!("{name}{unit}"), estimate.map(|it| it.value));
        row.put(format!("{name}_low{unit}"), interval.map(|it| it.low));
        row.put(format!("{name}_high{unit}"), interval.map(|it| it.high));
    }
    row.put("clients_from", point.clients_from);
    row
}
