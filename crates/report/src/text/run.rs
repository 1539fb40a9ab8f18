//! A run's ranking, for a reader.

use harness::model::{Run, Workload};
use load::interface::Hardware;
use stats::Distribution;

use super::host::host;
use super::medium::Medium;
use super::table::{self, Column};
use super::{boxplot, response, tail_mark, throughput};
use crate::format;
use crate::model::client_tail::{P1, P25, P50, P75, P90, P95, P99, Quantile};
use crate::model::conclusion;
use crate::model::stream::Streams;
use crate::model::summary::{Churn, Comparison, Datagrams, Kernel, Row, Summary};

/// In order from left to right.
const COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column { heading: "vs best", rank: 0, text: versus_best },
    Column { heading: "p1 µs", rank: 4, text: |row| service(row, P1) },
    Column { heading: "p25 µs", rank: 4, text: |row| service(row, P25) },
    Column { heading: "p50 µs", rank: 0, text: |row| service(row, P50) },
    Column { heading: "p75 µs", rank: 4, text: |row| service(row, P75) },
    Column { heading: "p90 µs", rank: 5, text: |row| service(row, P90) },
    Column { heading: "p95 µs", rank: 5, text: |row| service(row, P95) },
    Column { heading: "p99 µs", rank: 0, text: |row| service(row, P99) },
    Column { heading: "resp p99", rank: 0, text: |row| response(row, P99) },
    Column { heading: "lag p99 µs", rank: 2, text: |row| row.lag.map_or(none(), |lag| format::us(lag.p99_ns as f64)) },
    Column { heading: "req/s", rank: 2, text: |row| row.rate_achieved_per_s.map_or(none(), format::digits) },
    Column { heading: "CPU µs/req", rank: 1, text: |row| cost(row, |c| format::us(c.cpu_ns_per_request)) },
    Column { heading: "switches/req", rank: 3, text: |row| cost(row, |c| format::digits(c.switches_per_request)) },
    Column { heading: "user+kernel/conn", rank: 2, text: memory },
    Column { heading: "verdict", rank: 0, text: verdict },
];

/// The same of a closed loop: how much was done comes before how long it took.
const CLOSED_COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column { heading: "vs best", rank: 0, text: versus_best },
    Column { heading: "trans/s", rank: 0, text: |row| row.rate_achieved_per_s.map_or(none(), format::digits) },
    Column { heading: "p1 µs", rank: 4, text: |row| service(row, P1) },
    Column { heading: "p25 µs", rank: 4, text: |row| service(row, P25) },
    Column { heading: "p50 µs", rank: 1, text: |row| service(row, P50) },
    Column { heading: "p75 µs", rank: 4, text: |row| service(row, P75) },
    Column { heading: "p90 µs", rank: 5, text: |row| service(row, P90) },
    Column { heading: "p95 µs", rank: 5, text: |row| service(row, P95) },
    Column { heading: "p99 µs", rank: 0, text: |row| service(row, P99) },
    Column { heading: "client CPU", rank: 2, text: |row| row.client_busy_share.map_or(none(), whole_percent) },
    Column { heading: "CPU µs/trans", rank: 1, text: |row| cost(row, |c| format::us(c.cpu_ns_per_request)) },
    Column { heading: "switches/trans", rank: 3, text: |row| cost(row, |c| format::digits(c.switches_per_request)) },
    Column { heading: "user+kernel/conn", rank: 2, text: memory },
    Column { heading: "verdict", rank: 0, text: verdict },
];

/// The same of datagrams: how many were lost goes before what they cost.
const DATAGRAM_COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column { heading: "vs best", rank: 0, text: versus_best },
    Column { heading: "p1 µs", rank: 4, text: |row| service(row, P1) },
    Column { heading: "p25 µs", rank: 4, text: |row| service(row, P25) },
    Column { heading: "p50 µs", rank: 0, text: |row| service(row, P50) },
    Column { heading: "p75 µs", rank: 4, text: |row| service(row, P75) },
    Column { heading: "p90 µs", rank: 5, text: |row| service(row, P90) },
    Column { heading: "p95 µs", rank: 5, text: |row| service(row, P95) },
    Column { heading: "p99 µs", rank: 0, text: |row| service(row, P99) },
    Column { heading: "resp p99", rank: 1, text: |row| response(row, P99) },
    Column { heading: "lag p99 µs", rank: 3, text: |row| row.lag.map_or(none(), |lag| format::us(lag.p99_ns as f64)) },
    Column { heading: "lost", rank: 0, text: |row| lost(row).unwrap_or_else(none) },
    Column { heading: "dup", rank: 2, text: |row| datagrams(row, |it| it.duplicates) },
    Column { heading: "reordered", rank: 2, text: |row| datagrams(row, |it| it.reordered) },
    Column { heading: "req/s", rank: 3, text: |row| row.rate_achieved_per_s.map_or(none(), format::digits) },
    Column { heading: "CPU µs/req", rank: 2, text: |row| cost(row, |c| format::us(c.cpu_ns_per_request)) },
    Column { heading: "switches/req", rank: 3, text: |row| cost(row, |c| format::digits(c.switches_per_request)) },
    Column { heading: "user+kernel/port", rank: 2, text: memory },
    Column { heading: "verdict", rank: 0, text: verdict },
];

/// The same of streams: bytes, and what they cost.
const STREAM_COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column { heading: "vs best", rank: 0, text: versus_best },
    Column { heading: "MB/s", rank: 0, text: |row| stream(row, |it| Some(it.bytes_per_s / 1e6)) },
    Column { heading: "client's MB/s", rank: 4, text: |row| stream(row, |it| Some(it.client_bytes_per_s / 1e6)) },
    Column { heading: "server's MB/s", rank: 4, text: |row| stream(row, |it| Some(it.server_bytes_per_s? / 1e6)) },
    Column { heading: "fairness", rank: 1, text: |row| row.stream.map_or(none(), |it| format!("{:.3}", it.fairness)) },
    Column { heading: "CPU s/GB", rank: 0, text: |row| stream(row, |it| Some(it.cpu_ns_per_gigabyte? / 1e9)) },
    Column { heading: "KiB/call", rank: 2, text: |row| stream(row, |it| Some(it.bytes_per_call? / 1024.0)) },
    Column { heading: "calls/wait", rank: 2, text: |row| stream(row, |it| it.calls_per_wait) },
    Column { heading: "client CPU", rank: 1, text: |row| row.client_busy_share.map_or(none(), whole_percent) },
    Column { heading: "user+kernel/conn", rank: 3, text: memory },
    Column { heading: "verdict", rank: 0, text: verdict },
];

fn stream(row: &Row, figure: fn(&Streams) -> Option<f64>) -> String {
    row.stream.as_ref().and_then(figure).map_or(none(), format::digits)
}

/// The share of requests that were lost.
fn lost(row: &Row) -> Option<String> {
    let datagrams = row.datagrams?;
    Some(format::percent(datagrams.lost as f64 / datagrams.planned.max(1) as f64))
}

fn datagrams(row: &Row, figure: fn(&Datagrams) -> u64) -> String {
    row.datagrams.as_ref().map_or(none(), |datagrams| figure(datagrams).to_string())
}

/// Those that suit a workload.
pub(crate) fn columns(workload: &Workload) -> &'static [Column<Row>] {
    match (workload.is_closed(), workload.service.ports()) {
        (true, _) if workload.service.stream().is_some() => STREAM_COLUMNS,
        (true, _) => CLOSED_COLUMNS,
        (false, Some(_)) => DATAGRAM_COLUMNS,
        (false, None) => COLUMNS,
    }
}

fn whole_percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn memory(row: &Row) -> String {
    cost(row, |c| {
        let known = |bytes: Option<f64>| bytes.map_or("?".into(), format::bytes);
        let (user, kernel) = (c.memory_user_bytes_per_connection, c.memory_kernel_bytes_per_connection);
        format!("{} + {}", known(user), known(kernel))
    })
}

fn none() -> String {
    "-".into()
}

fn service(row: &Row, quantile: Quantile) -> String {
    row.service.as_ref().map_or(none(), |service| tail_mark::us(service, &row.late, quantile))
}

fn response(row: &Row, quantile: Quantile) -> String {
    row.response.as_ref().map_or(none(), |response| tail_mark::us(response, &row.late, quantile))
}

fn cost(row: &Row, figure: fn(&crate::model::summary::Cost) -> String) -> String {
    row.cost.as_ref().map_or(none(), figure)
}

fn versus_best(row: &Row) -> String {
    match row.ratio {
        None => none(),
        Some(ratio) => match ratio.interval {
            None => format!("{:.2}", ratio.ratio),
            Some(interval) => format!("{:.2} ({:.2}-{:.2})", ratio.ratio, interval.low, interval.high),
        },
    }
}

fn verdict(row: &Row) -> String {
    match row.repeats {
        0 => "not run".into(),
        repeats => format!("{} {}/{repeats}", format::verdict(row.verdict), row.repeats_valid),
    }
}

/// What the columns of memory are of.
pub(crate) const NOTES_OF_MEMORY: &str = "Memory: the server's user memory, and the host's kernel memory for both ends of a \
                                          connection (?: hidden by what else the host did).";

/// The whole report.
pub fn render(run: &Run, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let summary = Summary::of(run);
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for comparison in &summary.comparisons {
        let Comparison { title, network, rows, .. } = comparison;
        line(&medium.heading(title));
        network.iter().for_each(|network| line(&medium.prose(network)));
        let (table, dropped) = table::of(columns(&comparison.workload), rows, medium);
        line(&table);
        if !dropped.is_empty() {
            line(&medium.prose(&format!("(too narrow for: {}; see --json)", dropped.join(", "))));
        }
        tail_mark::note(rows).iter().for_each(|note| line(&medium.prose(note)));
        if let Some(marks) = boxplot::of(comparison, medium) {
            line(&marks);
        }
        churn(rows, medium).iter().for_each(|text| line(text));
        kernel(rows, medium).iter().for_each(|text| line(text));
        for row in rows.iter().filter(|row| row.unsampled > 0) {
            let text = "transactions are in all figures and not among the samples, whose memory was full";
            line(&medium.prose(&format!("{}: the last {} {text}", row.label(), row.unsampled)));
        }
        for row in rows {
            for reason in &row.reasons {
                line(&medium.prose(&format!("{} {reason}", row.architecture)));
            }
            for reason in &row.missing {
                line(&medium.prose(&format!("{}: {reason}", row.architecture)));
            }
        }
        line(&medium.prose(&conclusion::of(comparison)));
        line("");
    }
    for table in throughput::tables(&summary, medium).into_iter().chain(response::tables(&summary, medium)) {
        line(&table);
        line("");
    }
    line(&medium.prose(&conclusion::overall(&summary)));
    line("");
    line(&medium.prose(&about(run, &summary)));
    medium.finished(text)
}

/// The columns of [`churn`], as those of [`COLUMNS`].
const CHURN_COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column {
        heading: "conn/s",
        rank: 0,
        text: |row| row.churn.as_ref().map_or(none(), |it| format::digits(it.opened_per_s)),
    },
    Column { heading: "established p50 µs", rank: 0, text: |row| churn_us(row, |it| &it.connect, P50) },
    Column { heading: "p99", rank: 1, text: |row| churn_us(row, |it| &it.connect, P99) },
    Column { heading: "first byte p50 µs", rank: 0, text: |row| churn_us(row, |it| &it.first_byte, P50) },
    Column { heading: "p99", rank: 1, text: |row| churn_us(row, |it| &it.first_byte, P99) },
    Column { heading: "response p50 µs", rank: 2, text: |row| response(row, P50) },
    Column { heading: "p99", rank: 2, text: |row| response(row, P99) },
    Column { heading: "waited", rank: 3, text: |row| row.churn.as_ref().map_or(none(), |it| it.waited.to_string()) },
];

fn churn_us(row: &Row, time: fn(&Churn) -> &Distribution, quantile: Quantile) -> String {
    row.churn.as_ref().map_or(none(), |churn| tail_mark::us(time(churn), &row.late, quantile))
}

/// How long connecting took, where connections come and go; nothing where they stay.
fn churn(rows: &[Row], medium: Medium) -> Vec<String> {
    if rows.iter().all(|row| row.churn.is_none()) {
        return Vec::new();
    }
    vec![
        medium.prose(
            "New connections: from the SYN to established and to the first byte; response time has the connecting in it:",
        ),
        table::of(CHURN_COLUMNS, rows, medium).0,
    ]
}

/// The columns of [`kernel`], as those of [`COLUMNS`].
const KERNEL_COLUMNS: &[Column<Row>] = &[
    Column { heading: "architecture", rank: 0, text: Row::label },
    Column { heading: "t2k-t2 p50 µs", rank: 0, text: |row| kernel_us(row, |k| k.to_driver.p50_ns) },
    Column { heading: "p99", rank: 2, text: |row| kernel_us(row, |k| k.to_driver.p99_ns) },
    Column { heading: "t3-t3k p50 µs", rank: 0, text: |row| kernel_us(row, |k| k.from_arrival.p50_ns) },
    Column { heading: "p99", rank: 2, text: |row| kernel_us(row, |k| k.from_arrival.p99_ns) },
    Column { heading: "client p50 µs", rank: 1, text: |row| service(row, P50) },
    Column { heading: "kernel p50 µs", rank: 1, text: |row| kernel_us(row, |k| k.service.p50_ns) },
    Column {
        heading: "hardware",
        rank: 3,
        text: |row| match row.kernel.as_ref().and_then(|kernel| kernel.hardware_service) {
            Some(hardware) => format::us(hardware.p50_ns as f64),
            None => none(),
        },
    },
    Column {
        heading: "no stamp",
        rank: 3,
        text: |row| row.kernel.as_ref().map_or(none(), |kernel| format!("{:.2} %", 100.0 * kernel.unstamped)),
    },
];

fn kernel_us(row: &Row, figure: fn(&Kernel) -> u64) -> String {
    row.kernel.as_ref().map_or(none(), |kernel| format::us(figure(kernel) as f64))
}

/// What the kernel's timestamps say, next to the client's service time; nothing when they were not asked for.
fn kernel(rows: &[Row], medium: Medium) -> Vec<String> {
    let Some(first) = rows.iter().find_map(|row| row.kernel.as_ref()) else { return Vec::new() };
    let hardware = match first.hardware {
        Hardware::None => "has no hardware timestamps",
        Hardware::Off => "has hardware timestamps, which are switched off (hwstamp_ctl -t 1 -r 1)",
        Hardware::On => "takes hardware timestamps",
    };
    let mut lines = vec![
        medium.prose(&format!("As the kernel saw it, on the interface {}, which {hardware}:", first.interface)),
        table::of(KERNEL_COLUMNS, rows, medium).0,
    ];
    let kernels = || rows.iter().filter_map(|row| row.kernel.as_ref());
    if kernels().any(|kernel| kernel.wall_clock_stepped) {
        lines.push(medium.prose(
            "The wall clock, which the kernel's stamps are of, was set during some trials, whose stamps are left out; stop \
             what sets it (chronyd, systemd-timesyncd) while measuring.",
        ));
    }
    let out_of_order: u64 = kernels().map(|kernel| kernel.out_of_order).sum();
    if out_of_order > 0 {
        lines.push(medium.prose(&format!("{out_of_order} requests have stamps out of their order: clocks that part.")));
    }
    lines
}

/// How the figures came to be.
fn about(run: &Run, summary: &Summary) -> String {
    let coverage = format::coverage(summary.interval_coverage);
    format!(
        "Service time runs from the request's write to the last byte of its response; \"vs best\" is {}, with {}{coverage}; \
         p1 to p99 are of all repeats together. Response time (resp p99, in µs) runs from when the request was due.\n\
         {NOTES_OF_MEMORY}\n{}",
        summary.comparisons.first().map_or(summary.metric, |comparison| comparison.metric),
        summary.interval_method,
        host(run)
    )
}

#[cfg(test)]
mod tests;
