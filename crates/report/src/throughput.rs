//! Throughput against connections: each architecture's transactions a second, where closed loops differ in their connections
//! and in nothing else; of streams bandwidth, and also where they differ in their idle connections.

use comfy_table::{Cell, Table, presets};
use lab::record::Workload;

use crate::summary::{Comparison, Row, Summary};
use crate::table::{align, trim};
use crate::terminal::wrap;
use crate::{format, stream};

/// What differs within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Connections,
    Idle,
}

impl Axis {
    fn at(self, workload: &Workload) -> u32 {
        match self {
            Self::Connections => workload.connections,
            Self::Idle => workload.idle,
        }
    }

    /// The workload without it.
    fn apart_from(self, workload: &Workload) -> Workload {
        match self {
            Self::Connections => Workload { connections: 0, ..workload.clone() },
            Self::Idle => Workload { idle: 0, ..workload.clone() },
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Idle => "idle connections",
        }
    }
}

/// A table for each group of closed loops of two or more numbers of connections, and of streams of two or more numbers of idle
/// ones.
pub(crate) fn tables(summary: &Summary, width: usize) -> Vec<String> {
    let closed = || summary.comparisons.iter().filter(|comparison| comparison.workload.is_closed());
    let streams = closed().filter(|comparison| comparison.workload.service.stream().is_some());
    let by_connections = groups(closed(), Axis::Connections).into_iter().map(|group| (Axis::Connections, group));
    let by_idle = groups(streams, Axis::Idle).into_iter().map(|group| (Axis::Idle, group));
    let groups = by_connections.chain(by_idle).filter(|(_, group)| group.len() > 1);
    groups.map(|(axis, group)| table(axis, &group, width)).collect()
}

fn groups<'a>(comparisons: impl Iterator<Item = &'a Comparison>, axis: Axis) -> Vec<Vec<&'a Comparison>> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    for comparison in comparisons {
        let rest = axis.apart_from(&comparison.workload);
        match groups.iter_mut().find(|group| axis.apart_from(&group[0].workload) == rest) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups
}

/// Architectures by their peaks, best first; the best of each number of connections is marked.
fn table(axis: Axis, group: &[&Comparison], width: usize) -> String {
    let mut architectures: Vec<String> = Vec::new();
    for row in group.iter().flat_map(|comparison| &comparison.rows) {
        if !architectures.contains(&row.label()) {
            architectures.push(row.label());
        }
    }
    let row = |comparison: &Comparison, name: &str| -> Option<Row> {
        comparison.rows.iter().find(|row| row.label() == name).cloned()
    };
    let workload = &group[0].workload;
    let shown = |rate: f64| format::digits(stream::megabytes_per_s(workload, rate).unwrap_or(rate));
    let rate = |comparison: &Comparison, name: &str| {
        row(comparison, name).filter(Row::is_ranked).and_then(|row| Some(row.rate_per_s?.value))
    };
    // (transactions a second, connections or idle ones)
    let peak = |name: &str| {
        let rates = group.iter().filter_map(|it| Some((rate(it, name)?, axis.at(&it.workload))));
        rates.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let height = |name: &str| peak(name).map_or(0.0, |(rate, _)| rate);
    architectures.sort_by(|a, b| height(b).total_cmp(&height(a)).then(a.cmp(b)));

    let mut table = Table::new();
    let connections = group.iter().map(|comparison| axis.at(&comparison.workload).to_string());
    let headings = [axis.words().to_owned()].into_iter().chain(connections).chain(["peak".to_owned()]);
    table.load_style(presets::NOTHING).set_header(headings);
    for name in &architectures {
        let cells = group.iter().map(|comparison| {
            let best = comparison.rows.first().filter(|row| row.is_ranked()).map(Row::label);
            match (row(comparison, name), rate(comparison, name)) {
                (_, Some(rate)) if best.as_ref() == Some(name) => format!("*{}", shown(rate)),
                (_, Some(rate)) => shown(rate),
                // Shown and not ranked, as everywhere.
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
    let figure = if workload.service.stream().is_some() { "Bandwidth in MB/s" } else { "Transactions a second" };
    let heading = format!("{figure} against {} (*: the most; in brackets: not valid, and not ranked)", axis.words());
    format!("{}\n{}", wrap(&heading, width), trim(&table))
}
