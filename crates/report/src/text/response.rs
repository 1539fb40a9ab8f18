//! Median response time of open loops that differ only in the number of ports or of idle connections (maharjan2012,
//! Figures 5.3 and 5.4).

use comfy_table::{Cell, Table, presets};

use crate::format;
use crate::model::axis::Axis;
use crate::model::summary::{Comparison, Row, Summary};
use crate::text::Medium;
use crate::text::table::align;

/// A table for each group of open loops with two or more numbers of ports or of idle connections.
pub(crate) fn tables(summary: &Summary, medium: Medium) -> Vec<String> {
    let open = || summary.comparisons.iter().filter(|comparison| !comparison.workload.is_closed());
    let along = |axis: Axis| axis.groups(open()).into_iter().map(move |group| (axis, group));
    // Workloads without ports are all at position 0.
    let is_one = |(axis, group): &(Axis, Vec<&Comparison>)| {
        axis.at(&group[0].workload) != axis.at(&group[group.len() - 1].workload)
    };
    let groups = along(Axis::Ports).chain(along(Axis::Idle)).filter(is_one);
    groups.map(|(axis, group)| table(axis, &group, medium)).collect()
}

/// Orders rows by the response time in the last column; architectures without a rank there come last.
fn table(along: Axis, group: &[&Comparison], medium: Medium) -> String {
    let row = |comparison: &Comparison, name: &str| comparison.rows.iter().find(|row| row.label() == name).cloned();
    let p50_ns = |row: &Row| row.response.map(|response| response.p50_ns);
    let mut architectures: Vec<String> = Vec::new();
    for row in group.iter().flat_map(|comparison| &comparison.rows) {
        if !architectures.contains(&row.label()) {
            architectures.push(row.label());
        }
    }
    let most = group.last().expect("a group has two or more");
    let at_the_most = |name: &str| {
        let row = row(most, name).filter(Row::is_ranked);
        row.and_then(|row| p50_ns(&row)).unwrap_or(u64::MAX)
    };
    architectures.sort_by_key(|name| (at_the_most(name), name.clone()));

    let mut table = Table::new();
    let places = group.iter().map(|comparison| along.at(&comparison.workload).to_string());
    table.load_style(presets::NOTHING).set_header([along.label().to_owned()].into_iter().chain(places));
    for name in &architectures {
        let cells = group.iter().map(|comparison| {
            let row = row(comparison, name).filter(|row| row.repeats > 0);
            match row.as_ref().and_then(|row| Some((row, format::us(p50_ns(row)? as f64)))) {
                Some((row, us)) if row.is_ranked() => us,
                Some((_, us)) => format!("({us})"),
                None => "-".into(),
            }
        });
        table.add_row([name.clone()].into_iter().chain(cells).map(Cell::new));
    }
    align(&mut table);
    let (rate, label) = (format::rate(most.workload.rate_per_s), along.label());
    let heading = format!("Median response time in µs against {label}, at {rate} requests/s (in brackets: not valid)");
    format!("{}\n{}", medium.prose(&heading), medium.table(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_for_each_rate() {
        let summary = Summary::of(&testkit::datagram_run());
        insta::assert_snapshot!(tables(&summary, 120.into()).join("\n\n"));
    }
}
