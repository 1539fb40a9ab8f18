//! Response time against ports (maharjan2012 Figures 5.3 and 5.4): each architecture's median, where workloads of datagrams
//! differ in their ports and in nothing else.

use comfy_table::{Cell, Table, presets};
use lab::record::Workload;
use wire::ServiceSpec;

use crate::format;
use crate::summary::{Comparison, Row, Summary};
use crate::table::{align, trim};
use crate::terminal::wrap;

/// A table for each group of workloads of two or more numbers of ports.
pub(crate) fn tables(summary: &Summary, width: usize) -> Vec<String> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    for comparison in summary.comparisons.iter().filter(|comparison| comparison.workload.service.ports().is_some()) {
        let alike = |other: &Workload| without_ports(other) == without_ports(&comparison.workload);
        match groups.iter_mut().find(|group| alike(&group[0].workload)) {
            Some(group) => group.push(comparison),
            None => groups.push(vec![comparison]),
        }
    }
    groups.iter().filter(|group| group.len() > 1).map(|group| table(group, width)).collect()
}

fn without_ports(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    workload.connections = 0;
    if let ServiceSpec::Udp { ports, .. } = &mut workload.service {
        *ports = 0;
    }
    workload
}

/// Architectures by what they take at the most ports; those that were not ranked there come last.
fn table(group: &[&Comparison], width: usize) -> String {
    let row = |comparison: &Comparison, name: &str| comparison.rows.iter().find(|row| row.label() == name).cloned();
    let p50_ns = |row: &Row| row.response.map(|response| response.p50_ns);
    let mut architectures: Vec<String> = Vec::new();
    for row in group.iter().flat_map(|comparison| &comparison.rows) {
        if !architectures.contains(&row.label()) {
            architectures.push(row.label());
        }
    }
    let most = group.last().expect("a group has two or more");
    let at_most_ports = |name: &str| {
        let row = row(most, name).filter(Row::is_ranked);
        row.and_then(|row| p50_ns(&row)).unwrap_or(u64::MAX)
    };
    architectures.sort_by_key(|name| (at_most_ports(name), name.clone()));

    let mut table = Table::new();
    let ports = group.iter().map(|comparison| comparison.workload.connections.to_string());
    table.load_style(presets::NOTHING).set_header(["ports".to_owned()].into_iter().chain(ports));
    for name in &architectures {
        let cells = group.iter().map(|comparison| {
            let row = row(comparison, name).filter(|row| row.repeats > 0);
            match row.as_ref().and_then(|row| Some((row, format::us(p50_ns(row)? as f64)))) {
                Some((row, us)) if row.is_ranked() => us,
                // Shown and not ranked, as everywhere.
                Some((_, us)) => format!("({us})"),
                None => "-".into(),
            }
        });
        table.add_row([name.clone()].into_iter().chain(cells).map(Cell::new));
    }
    align(&mut table);
    let rate = format::rate(most.workload.rate_per_s);
    let heading = format!(
        "Median response time in µs against ports, at {rate} requests/s (in brackets: not valid, and not ranked)"
    );
    format!("{}\n{}", wrap(&heading, width), trim(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_for_each_rate() {
        let summary = Summary::of(&crate::made_up::datagram_run());
        insta::assert_snapshot!(tables(&summary, 120).join("\n\n"));
    }
}
