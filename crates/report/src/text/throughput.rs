//! Transactions per second, or bandwidth, of closed loops that differ only in the number of connections or of idle
//! connections.

use comfy_table::{Cell, Table, presets};

use crate::format;
use crate::model::axis::{Axis, apart};
use crate::model::stream;
use crate::model::summary::{Comparison, Row, Summary};
use crate::text::Medium;
use crate::text::table::align;

/// A table for each group of closed loops with two or more numbers of connections or of idle connections.
pub(crate) fn tables(summary: &Summary, medium: Medium) -> Vec<String> {
    let closed = || summary.comparisons.iter().filter(|comparison| comparison.workload.is_closed());
    let along = |axis: Axis| {
        let groups = axis.groups(closed());
        let titles = apart(&groups, Some(axis));
        groups.into_iter().zip(titles).map(move |(group, title)| (axis, group, title))
    };
    let groups = along(Axis::Connections).chain(along(Axis::Idle)).filter(|(_, group, _)| group.len() > 1);
    groups.map(|(axis, group, title)| table(axis, &group, &title, medium)).collect()
}

/// Orders rows by their peak, best first. A `*` marks the best of each column.
fn table(along: Axis, group: &[&Comparison], title: &str, medium: Medium) -> String {
    let mut architectures: Vec<String> = Vec::new();
    for row in group.iter().flat_map(|comparison| &comparison.rows) {
        if !architectures.contains(&row.label()) {
            architectures.push(row.label());
        }
    }
    let row = |comparison: &Comparison, name: &str| -> Option<Row> {
        comparison.rows.iter().find(|row| row.label() == name).cloned()
    };
    let rate = |comparison: &Comparison, name: &str| {
        row(comparison, name).filter(Row::is_ranked).and_then(|row| Some(row.rate_per_s?.value))
    };
    let workload = &group[0].workload;
    let shown = |rate: f64| format::digits(stream::megabytes_per_s(workload, rate).unwrap_or(rate));
    let peak = |name: &str| {
        let rates = group.iter().filter_map(|it| Some((rate(it, name)?, along.at(&it.workload))));
        rates.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let height = |name: &str| peak(name).map_or(0.0, |(rate, _)| rate);
    architectures.sort_by(|a, b| height(b).total_cmp(&height(a)).then(a.cmp(b)));

    let mut table = Table::new();
    let places = group.iter().map(|comparison| along.at(&comparison.workload).to_string());
    let headings = [along.label().to_owned()].into_iter().chain(places).chain(["peak".to_owned()]);
    table.load_style(presets::NOTHING).set_header(headings);
    for name in &architectures {
        let cells = group.iter().map(|comparison| {
            let best = comparison.rows.first().filter(|row| row.is_ranked()).map(Row::label);
            match (row(comparison, name), rate(comparison, name)) {
                (_, Some(rate)) if best.as_ref() == Some(name) => format!("*{}", shown(rate)),
                (_, Some(rate)) => shown(rate),
                (Some(row), None) if row.repeats > 0 => {
                    row.rate_achieved_per_s.map_or("-".into(), |rate| format!("({})", shown(rate)))
                }
                _ => "-".into(),
            }
        });
        let peak = peak(name).map_or("-".into(), |(rate, at)| format!("{} at {at}", shown(rate)));
        table.add_row([name.clone()].into_iter().chain(cells).chain([peak]).map(Cell::new));
    }
    align(&mut table);
    let label = along.label();
    let figure = if workload.service.stream().is_some() { "Bandwidth in MB/s" } else { "Transactions a second" };
    let title = if title.is_empty() { String::new() } else { format!(", {title}") };
    let heading = format!("{figure} against {label}{title} (*: highest; in brackets: not valid)");
    format!("{}\n{}", medium.prose(&heading), medium.table(&table))
}
