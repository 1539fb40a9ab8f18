//! Tables along a dimension: the throughput of closed loops, and the median response time of open loops (maharjan2012,
//! Figures 5.3 and 5.4).

use harness::record::Figure;

use super::medium::Medium;
use super::table::of_parts;
use crate::analysis::dimension::{Dimension, apart};
use crate::analysis::stream;
use crate::analysis::summary::{Comparison, Row, Summary};
use crate::format;
use crate::list::distinct;

/// Returns a table for each group of workloads that differ only in the number of connections, idle connections or ports.
pub(crate) fn tables(summary: &Summary, medium: Medium) -> Vec<String> {
    let groups = |dimension: Dimension, is_closed: bool| {
        dimension.groups(summary.comparisons.iter().filter(|it| it.workload.is_closed() == is_closed))
    };
    let mut tables = Vec::new();
    for dimension in [Dimension::Connections, Dimension::Idle] {
        let groups = groups(dimension, true);
        let titles = apart(&groups, Some(dimension));
        let several = groups.iter().zip(titles).filter(|(group, _)| group.len() > 1);
        tables.extend(several.map(|(group, title)| throughput(dimension, group, &title, medium)));
    }
    for dimension in [Dimension::Ports, Dimension::Idle] {
        // Workloads without ports are all at position 0.
        let at = |comparison: &Comparison| dimension.at(&comparison.workload);
        let differ = |group: &Vec<&Comparison>| at(group[0]) != at(group[group.len() - 1]);
        let groups = groups(dimension, false);
        tables.extend(groups.iter().filter(|group| differ(group)).map(|group| response_time(dimension, group, medium)));
    }
    tables
}

fn architectures(group: &[&Comparison]) -> Vec<String> {
    distinct(group.iter().flat_map(|comparison| &comparison.rows).map(Row::label))
}

fn row<'a>(comparison: &'a Comparison, name: &str) -> Option<&'a Row> {
    comparison.rows.iter().find(|row| row.label() == name)
}

/// Returns a table of rates. Its rows are ordered by their peak, best first. A `*` marks the best rate of each column.
fn throughput(along: Dimension, group: &[&Comparison], title: &str, medium: Medium) -> String {
    let workload = &group[0].workload;
    let shown = |rate: f64| format::digits(stream::megabytes_per_s(workload, rate).unwrap_or(rate));
    let peak = |name: &str| {
        let rate = |it: &Comparison| Some(row(it, name).filter(|row| row.is_ranked())?.estimate(Figure::Rate)?.value);
        let rates = group.iter().filter_map(|it| Some((rate(it)?, along.at(&it.workload))));
        rates.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let height = |name: &str| peak(name).map_or(0.0, |(rate, _)| rate);
    let mut names = architectures(group);
    names.sort_by(|a, b| height(b).total_cmp(&height(a)).then(a.cmp(b)));
    let cell = |comparison: &Comparison, row: &Row| match row.estimate(Figure::Rate).filter(|_| row.is_ranked()) {
        Some(rate) if comparison.rows[0].label() == row.label() => Some(format!("*{}", shown(rate.value))),
        Some(rate) => Some(shown(rate.value)),
        None => Some(format!("({})", shown(row.rate_achieved_per_s?))),
    };
    let peak = |name: &str| peak(name).map_or("-".into(), |(rate, at)| format!("{} at {at}", shown(rate)));
    let figure = if workload.service.stream().is_some() { "Bandwidth in MB/s" } else { "Transactions per second" };
    let title = if title.is_empty() { String::new() } else { format!(", {title}") };
    let heading = format!("{figure} against {}{title} (*: best; in parentheses: not valid)", along.label());
    table(along, group, &heading, &names, &cell, Some(&peak), medium)
}

/// Returns a table of response times, ordered by the last column. Architectures that this column does not rank come last.
fn response_time(along: Dimension, group: &[&Comparison], medium: Medium) -> String {
    let last = group[group.len() - 1];
    let at_the_end = |name: &String| {
        let response = row(last, name).filter(|row| row.is_ranked()).and_then(|row| row.response);
        (response.map_or(u64::MAX, |response| response.p50_ns), name.clone())
    };
    let mut names = architectures(group);
    names.sort_by_key(at_the_end);
    let cell = |_: &Comparison, row: &Row| {
        let us = format::us(row.response?.p50_ns as f64);
        Some(if row.is_ranked() { us } else { format!("({us})") })
    };
    let (rate, label) = (format::rate(last.workload.rate_per_s()), along.label());
    let heading =
        format!("Median response time in µs against {label}, at {rate} requests/s (in parentheses: not valid)");
    table(along, group, &heading, &names, &cell, None, medium)
}

/// Returns a table with a row for each name and a column for each workload and, if wanted, for the peak.
fn table(
    along: Dimension,
    group: &[&Comparison],
    heading: &str,
    names: &[String],
    cell: &dyn Fn(&Comparison, &Row) -> Option<String>,
    peak: Option<&dyn Fn(&str) -> String>,
    medium: Medium,
) -> String {
    let places = group.iter().map(|comparison| along.at(&comparison.workload).to_string());
    let headings = [along.label().to_owned()].into_iter().chain(places).chain(peak.map(|_| "peak".to_owned()));
    let rows = names.iter().map(|name| {
        let cells = group.iter().map(|comparison| {
            let row = row(comparison, name).filter(|row| row.repeats > 0);
            row.and_then(|row| cell(comparison, row)).unwrap_or_else(|| "-".into())
        });
        [name.clone()].into_iter().chain(cells).chain(peak.map(|peak| peak(name))).collect()
    });
    format!("{}\n{}", medium.prose(heading), of_parts(1, headings, rows, medium))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_have_a_table_for_each_rate() {
        let summary = Summary::of(&testkit::datagram_run());
        insta::assert_snapshot!(tables(&summary, 120.into()).join("\n\n"));
    }
}
