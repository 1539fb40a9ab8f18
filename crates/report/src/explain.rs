//! Why one architecture wins: what the servers counted of themselves, a request, and what sets each most apart from the best.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use serde::Serialize;
use server::ServerCounters;

use crate::summary::{Comparison, Row, Summary};
use crate::table::{align, trim};
use crate::terminal::wrap;
use crate::{format, sentence};

/// What a request took, by the server's own count over the repeats that a row stands on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Why {
    /// System calls a request, by kind; kinds that were not called are left out.
    pub syscalls_per_request: BTreeMap<String, f64>,
    /// Operations a request that the kernel was asked to do by itself, by kind; empty where the server does the I/O.
    pub operations_per_request: BTreeMap<String, f64>,
    /// Events that a wait reported, on average; `None` without waits.
    pub events_per_wait: Option<f64>,
    /// Bytes that a read, or a receive that the kernel completed, brought; `None` where they are not counted.
    pub bytes_per_read: Option<f64>,
    /// Voluntary context switches a request: the server had nothing to do, and had to be woken.
    pub voluntary_switches_per_request: f64,
    /// Involuntary context switches a request: something else was to run.
    pub involuntary_switches_per_request: f64,
    /// CPU time a request in user mode, in nanoseconds.
    pub cpu_user_ns_per_request: f64,
    /// CPU time a request in the kernel, in nanoseconds.
    pub cpu_system_ns_per_request: f64,
    /// CPU time a request that the kernel does not split: that of the processes of connections, in nanoseconds.
    pub cpu_children_ns_per_request: f64,
}

impl Why {
    /// From the counters of some repeats, which answered so many requests; `None` when that is none.
    pub(crate) fn of(counters: &[&ServerCounters], requests: f64) -> Option<Self> {
        let sum = |figure: fn(&server::counters::Totals) -> u64| -> f64 {
            counters.iter().map(|counters| figure(&counters.totals)).sum::<u64>() as f64
        };
        let by_kind = |figure: fn(&server::counters::Totals) -> &BTreeMap<String, u64>| {
            let mut sums = BTreeMap::<String, f64>::new();
            for (kind, count) in counters.iter().flat_map(|counters| figure(&counters.totals)).filter(|(_, n)| **n > 0)
            {
                *sums.entry(kind.clone()).or_default() += *count as f64;
            }
            sums
        };
        if requests == 0.0 {
            return None;
        }
        let each =
            |sums: &BTreeMap<String, f64>| sums.iter().map(|(kind, sum)| (kind.clone(), sum / requests)).collect();
        let (syscalls, operations) = (by_kind(|totals| &totals.syscalls), by_kind(|totals| &totals.operations));
        let reads = syscalls.get("read").or(by_kind(|totals| &totals.completions).get("receive")).copied();
        Some(Self {
            syscalls_per_request: each(&syscalls),
            operations_per_request: each(&operations),
            events_per_wait: syscalls.get("wait").map(|waits| sum(|totals| totals.events.unwrap_or(0)) / waits),
            bytes_per_read: reads.map(|reads| sum(|totals| totals.bytes_in.unwrap_or(0)) / reads),
            voluntary_switches_per_request: sum(|totals| totals.voluntary_switches) / requests,
            involuntary_switches_per_request: sum(|totals| totals.involuntary_switches) / requests,
            cpu_user_ns_per_request: sum(|totals| totals.cpu_user_ns) / requests,
            cpu_system_ns_per_request: sum(|totals| totals.cpu_system_ns) / requests,
            cpu_children_ns_per_request: sum(|totals| totals.cpu_children_ns) / requests,
        })
    }

    fn cpu_ns(&self) -> f64 {
        self.cpu_user_ns_per_request + self.cpu_system_ns_per_request + self.cpu_children_ns_per_request
    }

    /// `None` where they are not counted.
    fn syscalls(&self) -> Option<f64> {
        (!self.syscalls_per_request.is_empty()).then(|| self.syscalls_per_request.values().sum())
    }
}

/// A figure in which two architectures may differ.
struct Figure {
    /// What it is, as in `X takes ... a request`.
    name: &'static str,
    of: fn(&Why) -> Option<f64>,
    /// Less of a difference is not worth a word.
    least: f64,
    shown: fn(f64) -> String,
}

const FIGURES: &[Figure] = &[
    Figure { name: "CPU time a request", of: |why| Some(why.cpu_ns()), least: 1_000.0, shown: format::time },
    Figure { name: "system calls a request", of: Why::syscalls, least: 0.3, shown: format::digits },
    Figure { name: "events a wait", of: |why| why.events_per_wait, least: 1.0, shown: format::digits },
    Figure {
        name: "wake-ups a request",
        of: |why| Some(why.voluntary_switches_per_request),
        least: 0.2,
        shown: format::digits,
    },
    Figure {
        name: "involuntary switches a request",
        of: |why| Some(why.involuntary_switches_per_request),
        least: 0.1,
        shown: format::digits,
    },
];

/// In which figure an architecture is, by its ratio, farthest from the best; `None` where no difference is worth a word.
fn main_difference(row: &Row, best: &Row) -> Option<String> {
    let (why, best_why) = (row.why.as_ref()?, best.why.as_ref()?);
    let differences = FIGURES.iter().filter_map(|figure| {
        let (ours, its) = ((figure.of)(why)?, (figure.of)(best_why)?);
        // What is nearly nothing on one side is as far as a hundredth of a call, switch or microsecond away.
        let floor = figure.least / 30.0;
        let ratio = (ours.max(floor) / its.max(floor)).ln().abs();
        ((ours - its).abs() >= figure.least).then_some((ratio, figure, ours, its))
    });
    let (_, figure, ours, its) = differences.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{}: {} against {}", figure.name, (figure.shown)(ours), (figure.shown)(its)))
}

/// One sentence for an architecture that is not the best.
fn sentence_of(row: &Row, best: &Row) -> String {
    let name = &row.architecture;
    let standing = match (row.ratio, row.is_ranked()) {
        (Some(ratio), true) => format!("{:.2} times the median service time", ratio.ratio),
        _ => sentence::name(row.verdict).to_owned(),
    };
    match main_difference(row, best) {
        Some(difference) => format!("{name} ({standing}) differs most from {} in {difference}.", best.architecture),
        None => format!("{name} ({standing}) counts much the same as {}.", best.architecture),
    }
}

/// For each workload a table of what a request took, and a sentence for each architecture but the best.
pub fn render(summary: &Summary, width: usize) -> String {
    let mut text = String::new();
    for Comparison { title, rows, .. } in &summary.comparisons {
        text += &format!("Why, by what the servers counted a request: {title}\n");
        text += &table(rows);
        if let Some(best) = rows.first().filter(|row| row.is_ranked()) {
            for row in rows.iter().skip(1).filter(|row| row.why.is_some()) {
                text += &(wrap(&sentence_of(row, best), width) + "\n");
            }
        }
        text.push('\n');
    }
    text
}

fn table(rows: &[Row]) -> String {
    let headings = [
        "architecture",
        "CPU µs: user",
        "kernel",
        "unsplit",
        "wake-ups",
        "preempted",
        "events/wait",
        "bytes/read",
        "system calls, and operations of the kernel's",
    ];
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings);
    for (row, why) in rows.iter().filter_map(|row| Some((row, row.why.as_ref()?))) {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::digits);
        let kinds = |kinds: &BTreeMap<String, f64>| {
            // A hundredth of a call a request is told apart from none; less is not.
            let shown = kinds.iter().filter(|(_, count)| **count >= 0.005);
            shown.map(|(kind, count)| format!("{kind} {count:.2}")).collect::<Vec<_>>().join(" ")
        };
        let mut calls = kinds(&why.syscalls_per_request);
        if !why.operations_per_request.is_empty() {
            calls += &format!(" | {}", kinds(&why.operations_per_request));
        }
        if calls.is_empty() {
            calls = "-".into();
        }
        table.add_row(vec![
            row.architecture.clone(),
            format::us(why.cpu_user_ns_per_request),
            format::us(why.cpu_system_ns_per_request),
            if why.cpu_children_ns_per_request > 0.0 {
                format::us(why.cpu_children_ns_per_request)
            } else {
                "-".into()
            },
            format::digits(why.voluntary_switches_per_request),
            format::digits(why.involuntary_switches_per_request),
            optional(why.events_per_wait),
            optional(why.bytes_per_read),
            calls,
        ]);
    }
    align(&mut table);
    trim(&table) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    #[test]
    fn why_in_full() {
        let mut run = made_up::run();
        for record in &mut run.records {
            let Some(server) = &mut record.server else { continue };
            server.totals.events = Some(200);
            if record.trial.architecture.to_string() == "poll" {
                server.totals.cpu_system_ns *= 20;
                server.totals.events = Some(600);
            }
        }
        insta::assert_snapshot!(render(&Summary::of(&run), 120));
    }

    #[test]
    fn a_server_that_served_nothing_has_no_reasons() {
        assert_eq!(Why::of(&[&ServerCounters::default()], 0.0), None);
        assert_eq!(Why::of(&[], 0.0), None);
    }
}
