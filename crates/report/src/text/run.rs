//! A run's ranking as text.

use std::collections::{BTreeMap, BTreeSet};

use harness::record::{Figure, Run, Workload};
use load::result::{Hardware, HttpResult, LateSends};
use stats::{Distribution, Estimate, Ratio};

use super::host::conditions;
use super::medium::Medium;
use super::style::Style;
use super::table::{self, Column, column};
use super::{along, boxplot, load_result, profile, tail_mark};
use crate::analysis::conclusion;
use crate::analysis::stream::Streams;
use crate::analysis::summary::{Churn, Comparison, Cost, Datagrams, Kernel, Row, Summary, Tls, missing_by_reason};
use crate::analysis::undecided;
use crate::format;

/// The columns for a workload, in order from left to right.
pub(crate) fn columns(workload: &Workload) -> Vec<Column<Row>> {
    let service_time = |p50_rank: u8, p99_rank: u8| {
        let shown = Figure::quantiles().filter(|it| *it != Figure::P999);
        shown.map(move |figure| {
            let rank = match figure {
                Figure::P50 => p50_rank,
                Figure::P90 | Figure::P95 => 1,
                Figure::P99 => p99_rank,
                _ => 5,
            };
            let unit = if figure == Figure::P50 { " µs" } else { "" };
            column(format!("{}{unit}", figure.name()), rank, move |row: &Row| service(row, figure))
        })
    };
    let client_cpu = |rank: u8| {
        column("client CPU", rank, |row: &Row| {
            row.client_busy_share.map_or(none(), |share| format!("{:.0} %", 100.0 * share))
        })
    };
    let cpu = |heading: &'static str, rank: u8| {
        column(heading, rank, |row: &Row| cost(row, |it| format::us(it.cpu_ns_per_request)))
    };
    let switches =
        |heading: &'static str| column(heading, 3, |row: &Row| cost(row, |it| format::digits(it.switches_per_request)));
    let response_time = |rank: u8| column("resp p99", rank, |row: &Row| response(row, Figure::P99));
    let send_delay = |rank: u8| {
        column("send delay p99", rank, |row: &Row| row.send_delay.map_or(none(), |it| format::us(it.p99_ns as f64)))
    };
    let best = |row: &Row| row.is_best().then_some(Style::Best);
    let mut columns = vec![column("architecture", 0, Row::label).styled(best)];
    if !workload.is_closed() {
        columns.push(column("added µs", 0, |row: &Row| format::added_us(row.added_ns)));
    }
    columns.extend([
        column("vs best", 0, |row: &Row| format::ratio(row.ratio)),
        column("range", 7, |row: &Row| row.ratio.and_then(|it| it.range).map_or(none(), format::range)),
    ]);
    if workload.service.stream().is_some() {
        columns.extend([
            column("MB/s", 0, |row: &Row| stream(row, |it| Some(it.bytes_per_s / 1e6))),
            column("client's MB/s", 4, |row: &Row| stream(row, |it| Some(it.client_bytes_per_s / 1e6))),
            column("server's MB/s", 4, |row: &Row| stream(row, |it| Some(it.server_bytes_per_s? / 1e6))),
            column("fairness", 1, |row: &Row| row.stream.map_or(none(), |it| format!("{:.3}", it.fairness))),
            column("CPU s/GB", 0, |row: &Row| stream(row, |it| Some(it.cpu_ns_per_gigabyte? / 1e9))),
            column("KiB/call", 2, |row: &Row| stream(row, |it| Some(it.bytes_per_call? / 1024.0))),
            column("calls/wait", 2, |row: &Row| stream(row, |it| it.calls_per_wait)),
            client_cpu(1),
            column("user+kernel/conn", 3, memory),
        ]);
    } else if workload.is_closed() {
        columns.push(column("trans/s", 0, rate));
        columns.extend(service_time(1, 0));
        columns.extend([client_cpu(2), cpu("CPU µs/trans", 2), switches("switches/trans")]);
        columns.push(column("user+kernel/conn", 2, memory));
    } else if workload.service.ports().is_some() {
        columns.extend(service_time(0, 1));
        columns.extend([
            response_time(1),
            send_delay(3),
            column("lost", 0, |row: &Row| {
                datagrams(row, |it| format::percent(it.lost as f64 / it.planned.max(1) as f64))
            }),
            column("dup", 2, |row: &Row| datagrams(row, |it| it.duplicates.to_string())),
            column("reordered", 2, |row: &Row| datagrams(row, |it| it.reordered.to_string())),
            column("req/s", 3, rate),
            cpu("CPU µs/req", 2),
            switches("switches/req"),
            column("user+kernel/port", 2, memory),
        ]);
    } else {
        columns.extend(service_time(0, 0));
        columns.extend([
            response_time(1),
            send_delay(2),
            column("req/s", 2, rate),
            cpu("CPU µs/req", 2),
            switches("switches/req"),
            column("user+kernel/conn", 2, memory),
        ]);
    }
    let style = |row: &Row| (row.repeats > 0).then(|| Style::of(row.verdict));
    columns.push(column("verdict", 0, verdict).styled(style));
    columns
}

fn stream(row: &Row, value: fn(&Streams) -> Option<f64>) -> String {
    row.stream.as_ref().and_then(value).map_or(none(), format::digits)
}

fn datagrams(row: &Row, text: fn(&Datagrams) -> String) -> String {
    row.datagrams.as_ref().map_or(none(), text)
}

fn rate(row: &Row) -> String {
    row.rate_achieved_per_s.map_or(none(), format::digits)
}

fn memory(row: &Row) -> String {
    cost(row, |c| {
        let known = |bytes: Option<f64>| bytes.map_or(none(), format::bytes);
        match (c.memory_user_bytes_per_connection, c.memory_kernel_bytes_per_connection) {
            (None, None) => none(),
            (user, kernel) => format!("{} + {}", known(user), known(kernel)),
        }
    })
}

fn none() -> String {
    "-".into()
}

fn service(row: &Row, quantile: Figure) -> String {
    row.service.as_ref().map_or(none(), |service| tail_mark::us(service, &row.late, quantile))
}

fn response(row: &Row, quantile: Figure) -> String {
    row.response.as_ref().map_or(none(), |response| tail_mark::us(response, &row.late, quantile))
}

fn cost(row: &Row, figure: fn(&Cost) -> String) -> String {
    row.cost.as_ref().map_or(none(), figure)
}

fn verdict(row: &Row) -> String {
    match row.repeats {
        0 => "not run".into(),
        repeats => format!("{} {}/{repeats}", format::verdict(row.verdict), row.repeats_valid),
    }
}

/// The statistics behind the columns.
pub(crate) const NOTES_OF_STATISTICS: &str = "Fewer than three repeats give no interval. An interval speaks for the speeds that the host had during the run. Differences are significant if their p value is at most 5 %, corrected for all \
     pairs of a table. Percentiles are those of the requests of all repeats together. \"range\" has the lowest and the highest ratio \
     of a repeat.";

/// The meaning of the memory columns.
pub(crate) const NOTES_OF_MEMORY: &str = "Memory: user memory of the server, and kernel memory of the host for both ends of a \
                                          connection.";

/// Renders the rankings, the conclusion and the conditions of a run.
pub fn render(run: &Run, medium: Medium) -> String {
    render_versus(run, None, medium)
}

/// Renders them with ratios to the row with a label, in place of those to the best.
pub fn render_versus(run: &Run, versus: Option<&str>, medium: Medium) -> String {
    let summary = Summary::of(run);
    let mut lines = Vec::new();
    let (mut has_cpu, mut has_monitors) = (false, false);
    for comparison in &summary.comparisons {
        let Comparison { title, network, interleaving, state, rows, .. } = comparison;
        lines.push(medium.heading(title));
        let conditions: Vec<&str> = network.iter().chain(interleaving).chain(state).map(String::as_str).collect();
        lines.extend((!conditions.is_empty()).then(|| medium.prose(&conditions.join(" "))));
        let mut columns = columns(&comparison.workload);
        let missing = versus.and_then(|name| set_base(&mut columns, comparison, name));
        let (table, dropped) = table::of(&columns, rows, medium);
        has_cpu |= !dropped.iter().any(|heading| heading.starts_with("CPU"));
        lines.push(table);
        lines.extend((!dropped.is_empty()).then(|| medium.prose(&table::too_narrow(&dropped))));
        lines.extend(missing.map(|text| medium.prose(&text)));
        lines.extend(tail_mark::notes(rows).iter().map(|note| medium.prose(note)));
        has_monitors |= tail_mark::names_monitors(rows);
        lines.extend(boxplot::of(comparison, medium));
        lines.extend(churn(rows, medium));
        lines.extend(http(rows, medium));
        lines.extend(closed_by_server(rows, medium));
        lines.extend(queued(comparison, medium));
        lines.extend(tls(rows, medium));
        lines.extend(kernel(rows, medium));
        lines.extend(profile::render(comparison, medium));
        for row in rows {
            if row.unsampled > 0 {
                let text =
                    "transactions have no stored samples, because the memory was full; all statistics include them";
                lines.push(medium.prose(&format!("{}: the last {} {text}", row.label(), row.unsampled)));
            }
            let name = &row.label;
            lines.extend(row.reasons.iter().map(|reason| medium.prose(&format!("{name} {reason}"))));
        }
        lines.extend(missing_by_reason(rows).iter().map(|missing| medium.prose(missing)));
        lines.extend(conclusion::sentences(comparison).iter().map(|sentence| medium.prose(sentence)));
        lines.push(String::new());
    }
    lines.extend(along::tables(&summary, medium).into_iter().map(|table| table + "\n"));
    lines.push(medium.prose(&conclusion::overall(&summary)));
    lines.extend(to_decide(&summary, medium));
    lines.push(String::new());
    lines.extend(medium.legend(&legend(&summary)));
    lines.push(medium.prose(&conditions(run, has_cpu, !has_monitors)));
    medium.finished(lines.join("\n") + "\n")
}

/// Lets columns show ratios to, and times added to, the row with a label. Returns a sentence if that row has none.
fn set_base(columns: &mut Vec<Column<Row>>, comparison: &Comparison, base: &str) -> Option<String> {
    if !comparison.rows.iter().any(|row| row.is_ranked() && row.label == base) {
        return Some(format!("{base} is not ranked here, so the ratios are those to the best."));
    }
    let differences: BTreeMap<String, (Ratio, Option<Estimate>)> = comparison
        .rows
        .iter()
        .filter_map(|row| match comparison.pair(&row.label, base) {
            _ if row.label == base => Some((row.label(), (Ratio::ONE, None))),
            Some(pair) if pair.base == base => Some((row.label(), (pair.ratio, pair.added_ns))),
            Some(pair) => Some((row.label(), (pair.ratio.inverse(), pair.added_ns.map(Estimate::reversed)))),
            None => None,
        })
        .collect();
    columns.retain(|column| column.heading != "range");
    for column in columns {
        let differences = differences.clone();
        match column.heading.as_str() {
            "vs best" => {
                column.heading = format!("vs {base}");
                column.text = Box::new(move |row| format::ratio(differences.get(&row.label).map(|(ratio, _)| *ratio)));
            }
            "added µs" => {
                column.text = Box::new(move |row| format::added_us(differences.get(&row.label).and_then(|it| it.1)));
            }
            _ => {}
        }
    }
    None
}

/// Returns the lines with the command that decides open pairs.
fn to_decide(summary: &Summary, medium: Medium) -> Vec<String> {
    let Some(command) = &summary.to_decide else { return Vec::new() };
    vec![medium.prose(undecided::REMARK), medium.verbatim(&format!("  {}", format::command(command)))]
}

/// Returns columns of the percentiles of a time. A narrow terminal drops p90 and p95 first.
fn percentiles(
    name: &str,
    [p50_rank, p99_rank]: [u8; 2],
    text: impl Fn(&Row, Figure) -> String + Copy + 'static,
) -> impl Iterator<Item = Column<Row>> {
    let ranks = [(Figure::P50, p50_rank), (Figure::P90, 3), (Figure::P95, 3), (Figure::P99, p99_rank)];
    let name = format!("{name} p50 µs");
    ranks.into_iter().map(move |(figure, rank)| {
        let heading = if figure == Figure::P50 { name.trim() } else { figure.name() };
        column(heading, rank, move |row: &Row| text(row, figure))
    })
}

fn churn_columns() -> Vec<Column<Row>> {
    let churn = |row: &Row, text: &dyn Fn(&Churn) -> String| row.churn.as_ref().map_or(none(), text);
    let mut columns = vec![
        column("architecture", 0, Row::label),
        column("conn/s", 0, move |row: &Row| churn(row, &|it| format::digits(it.opened_per_s))),
    ];
    columns.extend(percentiles("established", [0, 1], move |row, figure| {
        churn(row, &|it| tail_mark::us(&it.connect, &row.late, figure))
    }));
    columns.extend(percentiles("first byte", [0, 1], move |row, figure| {
        churn(row, &|it| tail_mark::us(&it.first_byte, &row.late, figure))
    }));
    columns.extend(percentiles("response", [2, 2], response));
    columns.push(column("waited", 4, move |row: &Row| churn(row, &|it| it.waited.to_string())));
    columns
}

/// Renders the times to connect of short-lived connections; empty for connections that stay open.
fn churn(rows: &[Row], medium: Medium) -> Vec<String> {
    if rows.iter().all(|row| row.churn.is_none()) {
        return Vec::new();
    }
    vec![
        medium.prose(
            "New connections: time from the SYN to the established connection and to the first byte. The response time \
             includes connecting:",
        ),
        table::of(&churn_columns(), rows, medium).0,
    ]
}

fn http_columns() -> Vec<Column<Row>> {
    let mut columns = vec![column("architecture", 0, Row::label)];
    columns.extend(percentiles("first byte", [0, 1], |row, figure| {
        row.http.as_ref().map_or(none(), |http| tail_mark::us(&http.first_byte, &row.late, figure))
    }));
    columns.push(column("responses by status", 0, |row: &Row| {
        row.http.as_ref().map_or(none(), |http| HttpResult::breakdown(&http.statuses))
    }));
    columns
}

/// Renders statuses and times to the first byte; empty for services other than `http`.
fn http(rows: &[Row], medium: Medium) -> Vec<String> {
    if rows.iter().all(|row| row.http.is_none()) {
        return Vec::new();
    }
    let statuses: BTreeSet<u16> =
        rows.iter().filter_map(|row| row.http.as_ref()).flat_map(|http| http.statuses.keys().copied()).collect();
    match statuses.first() {
        Some(status) if statuses.len() == 1 && medium.is_brief() => {
            vec![medium.prose(&format!("All responses had status {status}. --wide shows the times to their first bytes."))]
        }
        _ => vec![
            medium.prose(
                "Responses of the whole trials by status, and the time from the request to the first byte of its response:",
            ),
            table::of(&http_columns(), rows, medium).0,
        ],
    }
}

/// Names the servers that closed lasting connections; `None` without any.
fn closed_by_server(rows: &[Row], medium: Medium) -> Option<String> {
    let closed = rows.iter().filter(|row| row.closed_by_server > 0);
    let each: Vec<String> = closed.map(|row| format!("{} {}", row.label(), row.closed_by_server)).collect();
    let each = each.join(", ");
    (!each.is_empty()).then(|| medium.prose(&format!("Connections closed by the server, and opened again: {each}.")))
}

/// Returns the shares of requests that queued for their connections, or for a free one.
fn queued(comparison: &Comparison, medium: Medium) -> Option<String> {
    let no_overlap = comparison.workload.no_overlap();
    let each = comparison.rows.iter();
    let each = each.filter_map(|row| load_result::queued(&format!("{} ", row.label()), row.queued_share, no_overlap));
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| medium.prose(&load_result::about_queued(&each, no_overlap)))
}

fn tls_columns() -> Vec<Column<Row>> {
    let tls = |row: &Row, text: &dyn Fn(&Tls) -> String| row.tls.as_ref().map_or(none(), text);
    let mut columns = vec![column("architecture", 0, Row::label)];
    let times: [(&str, fn(&Tls) -> &Distribution); 2] =
        [("full handshakes", |it| &it.full), ("resumed", |it| &it.resumed)];
    for (name, time) in times {
        columns.push(column(name, 0, move |row: &Row| tls(row, &|it| time(it).count.to_string())));
        columns.extend(percentiles("", [0, 1], move |row, figure| tls(row, &|it| own_us(time(it), figure))));
    }
    columns.push(column("cipher suite", 2, move |row: &Row| tls(row, &|it| it.cipher.clone())));
    columns
}

/// Formats a quantile that late sends cannot falsify.
fn own_us(times: &Distribution, figure: Figure) -> String {
    tail_mark::us(times, &LateSends::default(), figure)
}

/// Renders the times of TLS handshakes; empty without TLS.
fn tls(rows: &[Row], medium: Medium) -> Vec<String> {
    if rows.iter().all(|row| row.tls.is_none()) {
        return Vec::new();
    }
    vec![medium.prose("TLS: full and resumed handshakes:"), table::of(&tls_columns(), rows, medium).0]
}

fn kernel_columns() -> Vec<Column<Row>> {
    let us = |row: &Row, figure: Figure, time: fn(&Kernel) -> Option<&Distribution>| {
        row.kernel.as_ref().and_then(time).map_or(none(), |time| own_us(time, figure))
    };
    let mut columns = vec![column("architecture", 0, Row::label)];
    columns.extend(percentiles("t2k-t2", [0, 2], move |row, figure| us(row, figure, |it| Some(&it.to_driver))));
    columns.extend(percentiles("t3-t3k", [0, 2], move |row, figure| us(row, figure, |it| Some(&it.from_arrival))));
    columns.extend([
        column("client p50 µs", 1, |row: &Row| service(row, Figure::P50)),
        column("kernel p50 µs", 1, move |row: &Row| us(row, Figure::P50, |it| Some(&it.service))),
        column("hardware", 2, move |row: &Row| us(row, Figure::P50, |it| it.hardware_service.as_ref())),
        column("no stamp", 2, |row: &Row| {
            row.kernel.as_ref().map_or(none(), |it| format!("{:.2} %", 100.0 * it.unstamped))
        }),
    ]);
    columns
}

/// Renders times by the kernel's timestamps, next to the client's service time; empty without such timestamps.
fn kernel(rows: &[Row], medium: Medium) -> Vec<String> {
    let Some(first) = rows.iter().find_map(|row| row.kernel.as_ref()) else { return Vec::new() };
    let hardware = match first.hardware {
        Hardware::None => "has no hardware timestamps",
        Hardware::Off => "has hardware timestamps that are switched off (hwstamp_ctl -t 1 -r 1)",
        Hardware::On => "takes hardware timestamps",
    };
    let mut lines = vec![
        medium.prose(&format!("Kernel timestamps on the interface {}, which {hardware}:", first.interface)),
        table::of(&kernel_columns(), rows, medium).0,
    ];
    let kernels = || rows.iter().filter_map(|row| row.kernel.as_ref());
    if kernels().any(|kernel| kernel.wall_clock_stepped) {
        lines.push(medium.prose(
            "The wall clock, which the kernel's timestamps use, was set during some trials; their timestamps are left out. \
             Stop the time service (chronyd, systemd-timesyncd) while measuring.",
        ));
    }
    let out_of_order: u64 = kernels().map(|kernel| kernel.out_of_order).sum();
    if out_of_order > 0 {
        let text = format!("{out_of_order} requests have timestamps in the wrong order: the clocks drift apart.");
        lines.push(medium.prose(&text));
    }
    lines
}

/// Defines the columns.
fn legend(summary: &Summary) -> String {
    format!(
        "Service time (p1 to p99, in µs) runs from the request's write to the last byte of its response. \
         Response time (resp p99, in µs) starts at the planned send instead; the send delay (in µs) is the difference. \
         \"vs best\" is the ratio to the best by the {}, and \"added\" the difference; their intervals: {}. {NOTES_OF_STATISTICS}\n\
         {NOTES_OF_MEMORY}\n",
        summary.comparisons.first().map_or(summary.metric, |comparison| comparison.metric),
        summary.interval_method
    )
}

#[cfg(test)]
mod tests;
