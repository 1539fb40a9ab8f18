//! Why one architecture wins: the cost of a request by the servers' counters, and the cost in which each architecture
//! differs most from the best one.

use std::collections::BTreeMap;

use server::metrics::{OTHER, Syscall, comparable_kinds};

use super::balance;
use super::medium::Medium;
use super::table::{self, of_parts};
use crate::analysis::cost::{CostBreakdown, CountDifference, SAME_PER_REQUEST, SAME_SHARE};
use crate::analysis::summary::{Comparison, Row, Summary};
use crate::analysis::tail;
use crate::format;

/// Describes the main difference of an architecture from the best.
fn sentence_of(row: &Row, best: &Row) -> String {
    let name = &row.label;
    let standing = match (row.ratio, row.is_ranked()) {
        (Some(ratio), true) => format!("vs best {:.2}", ratio.ratio),
        _ => format::verdict(row.verdict).to_owned(),
    };
    let difference =
        row.breakdown.as_ref().zip(best.breakdown.as_ref()).and_then(|(it, best)| it.main_difference(best));
    match difference {
        Some(difference) => format!("{name} ({standing}) differs most from {} in {difference}.", best.label),
        None => format!("{name} ({standing}) costs about the same as {}.", best.label),
    }
}

/// Renders a table for each workload, and a sentence for each architecture but the best.
pub fn render(summary: &Summary, medium: Medium) -> String {
    let mut lines = Vec::new();
    for comparison in &summary.comparisons {
        let Comparison { title, rows, .. } = comparison;
        lines.push(medium.heading(&format!("Cost of a request by the servers' counters: {title}")));
        lines.push(if breakdowns(rows).next().is_some() { table(rows, medium) } else { medium.prose(UNCOUNTED) });
        lines.extend(about_delays(rows).map(|text| medium.prose(&text)));
        lines.extend(balance::render(rows, medium));
        lines.extend(two_counts(rows, medium));
        if let Some(best) = comparison.ranked().next() {
            let others = rows.iter().skip(1).filter(|row| row.breakdown.is_some() && !row.is_placebo);
            lines.extend(others.map(|row| medium.prose(&sentence_of(row, best))));
        }
        lines.extend(tail::of(comparison).iter().map(|tail| medium.prose(&tail.sentence())));
        lines.push(String::new());
    }
    medium.finished(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// The text in place of a table without rows.
const UNCOUNTED: &str = "There are no counters: none of these servers ran, or muxbench does not know their processes.";

/// The heading of the time that runnable threads waited for a CPU.
const WAITED: &str = "run delay µs";
/// The heading of the share of the tail that these waits explain.
const TAIL: &str = "of tail";

/// Explains the columns [`WAITED`] and [`TAIL`]; `None` without them.
fn about_delays(rows: &[Row]) -> Option<String> {
    breakdowns(rows).find_map(|(_, it)| it.run_delay_ns_per_request)?;
    Some(format!(
        "\"{WAITED}\" is the time per request in which runnable threads of the server waited for a CPU. \"{TAIL}\" is its \
         share of the difference between mean and median service time, if the waits are no longer than that. The wait of each \
         thread counts once, even if several requests queue behind that thread. Servers that took turns have these figures for \
         their measured parts, if they have few threads."
    ))
}

/// Returns the rows that have counters of the server.
fn breakdowns(rows: &[Row]) -> impl Iterator<Item = (&Row, &CostBreakdown)> {
    rows.iter().filter_map(|row| Some((row, row.breakdown.as_ref()?)))
}

fn table(rows: &[Row], medium: Medium) -> String {
    let rows: Vec<_> = breakdowns(rows).map(|(row, breakdown)| (row.label.as_str(), breakdown)).collect();
    table::of_known(&rows, COLUMNS, medium)
}

/// The columns after the architecture: the heading and the cell, if the figure is known.
const COLUMNS: &[(&str, fn(&CostBreakdown) -> Option<String>)] = &[
    ("CPU µs: user", |it| Some(format::us(it.cpu_user_ns_per_request))),
    ("kernel", |it| Some(format::us(it.cpu_system_ns_per_request))),
    ("unsplit", |it| Some(it.cpu_children_ns_per_request).filter(|&ns| ns > 0.0).map(format::us)),
    ("interrupts", |it| it.interrupts_ns_per_request.map(format::us)),
    ("wake-ups", |it| Some(format::digits(it.voluntary_switches_per_request))),
    ("preempted", |it| Some(format::digits(it.involuntary_switches_per_request))),
    (WAITED, |it| it.run_delay_ns_per_request.map(format::us)),
    (TAIL, |it| it.run_delay_share_of_tail.map(|share| format!("{:.0} %", 100.0 * share))),
    ("events/wait", |it| it.events_per_wait.map(format::digits)),
    ("bytes/read", |it| it.bytes_per_read.map(format::digits)),
    ("datagrams/read", |it| it.datagrams_per_read.map(format::digits)),
    ("datagrams/write", |it| it.datagrams_per_write.map(format::digits)),
    ("system calls | kernel operations", calls),
];

fn calls(breakdown: &CostBreakdown) -> Option<String> {
    let kinds = |kinds: &BTreeMap<String, f64>| {
        // Smaller counts round to 0.00.
        let shown = kinds.iter().filter(|(_, count)| **count >= 0.005);
        shown.map(|(kind, count)| format!("{kind} {count:.2}")).collect::<Vec<_>>().join(" ")
    };
    let mut calls = kinds(breakdown.syscalls_by_kind());
    if !breakdown.operations_per_request.is_empty() {
        calls += &format!(" | {}", kinds(&breakdown.operations_per_request));
    }
    Some(calls).filter(|calls| !calls.is_empty())
}

/// Compares the servers' counts of system calls with the kernel's; empty without `--count-syscalls`.
fn two_counts(rows: &[Row], medium: Medium) -> Vec<String> {
    let counted: Vec<(&Row, &CostBreakdown)> =
        breakdowns(rows).filter(|(_, it)| !it.syscalls_outside_per_request.is_empty()).collect();
    if counted.is_empty() {
        return Vec::new();
    }
    let kinds = Syscall::ALL.iter().map(|(_, name)| *name).chain([OTHER]).filter(|kind| {
        let is_shown = |counts: &BTreeMap<String, f64>| counts.get(*kind).is_some_and(|count| *count >= 0.005);
        counted.iter().any(|(_, it)| is_shown(&it.syscalls_per_request) || is_shown(&it.syscalls_outside_per_request))
    });
    let kinds: Vec<&str> = kinds.collect();
    let cells = |(row, breakdown): &(&Row, &CostBreakdown)| {
        let (inside, outside) = (&breakdown.syscalls_per_request, &breakdown.syscalls_outside_per_request);
        let cell = |of: &dyn Fn(&BTreeMap<String, f64>) -> f64| {
            let inside = if inside.is_empty() { "-".into() } else { format!("{:.2}", of(inside)) };
            format!("{inside} / {:.2}", of(outside))
        };
        let cells = kinds.iter().map(|kind| cell(&|counts| counts.get(*kind).copied().unwrap_or(0.0)));
        [row.label()].into_iter().chain(cells).chain([cell(&|counts| counts.values().sum())]).collect()
    };
    let headings = ["architecture"].into_iter().chain(kinds.iter().copied()).chain(["all"]);
    let about = "System calls per request by the server's count / by the kernel's count, which makes each call slower:";
    let mut lines = vec![medium.prose(about), of_parts(1, headings, counted.iter().map(cells), medium)];
    let both = counted.iter().filter(|(_, breakdown)| !breakdown.syscalls_per_request.is_empty());
    for (row, breakdown) in both.clone() {
        for CountDifference { kinds, inside, outside } in &breakdown.syscalls_differ {
            let name = &row.label;
            lines.push(medium.prose(&format!(
                "The two counts of {name} differ: {kinds} {inside:.3} in the server, {outside:.3} in the kernel."
            )));
        }
    }
    if both.clone().next().is_some() && both.clone().all(|(_, it)| it.syscalls_differ.is_empty()) {
        lines.push(medium.prose(&format!(
            "Where both counts exist, they agree within {} %, or {SAME_PER_REQUEST} per request. The kernel cannot distinguish \
             {}, nor {} where threads wake each other.",
            100.0 * SAME_SHARE,
            comparable_kinds(false).join(", "),
            comparable_kinds(true).join(", ")
        )));
    }
    lines
}

#[cfg(test)]
mod tests {
    use server::ServerCounters;

    use super::*;
    use crate::analysis::cost::{differences, share_of_tail};

    #[test]
    fn costs_are_rendered_in_full() {
        let mut run = testkit::run();
        for record in &mut run.records {
            let Some(server) = &mut record.server else { continue };
            server.totals.events = Some(200);
            if record.trial.architecture.to_string() == "poll" {
                server.totals.cpu_system_ns *= 20;
                server.totals.events = Some(600);
            }
        }
        insta::assert_snapshot!(render(&Summary::of(&run), 120.into()));
    }

    #[test]
    fn servers_without_counters_have_a_sentence_and_no_table() {
        let mut run = testkit::run();
        run.records.iter_mut().for_each(|record| record.server = None);
        let text = render(&Summary::of(&run), 80.into());
        assert_eq!(text.matches("There are no counters").count(), 2, "one for each workload: {text}");
        assert!(!text.contains("architecture"), "{text}");
    }

    #[test]
    fn counts_of_server_and_kernel_are_compared() {
        let render = |change: fn(&mut server::metrics::counters::Totals, &str)| {
            let mut run = testkit::run();
            for record in &mut run.records {
                let Some(server) = &mut record.server else { continue };
                let totals = &mut server.totals;
                totals.syscalls_outside = totals.syscalls.clone();
                totals.syscalls_outside.insert(OTHER.into(), 0);
                change(totals, record.trial.architecture.ours().unwrap().model.name);
            }
            let text = super::render(&Summary::of(&run), 120.into());
            let lines = text.lines().skip_while(|line| !line.starts_with("System calls per request"));
            let lines = lines.take_while(|line| !line.contains(" differs ") && !line.contains("costs about"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let agree = render(|totals, model| {
            // A rescan of all descriptors uses the same system call as a wait.
            totals.syscalls.insert("rescan".into(), 40);
            *totals.syscalls_outside.entry("wait".into()).or_default() += 40;
            if model == "mt" {
                totals.syscalls.clear();
            }
        });
        insta::assert_snapshot!("two_counts_that_agree", agree);
        let differ = render(|totals, model| {
            if model == "mt" {
                *totals.syscalls_outside.get_mut("read").unwrap() += 30;
                totals.syscalls_outside.insert(OTHER.into(), 20);
            }
        });
        insta::assert_snapshot!("two_counts_that_differ", differ);
    }

    #[test]
    fn counts_within_tolerance_do_not_differ() {
        let counts = |read: f64, other: f64| BTreeMap::from([("read".to_owned(), read), (OTHER.to_owned(), other)]);
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.0099, 0.0099)), []);
        assert_eq!(differences(&counts(600.0, 0.0), &counts(605.0, 0.0)), []);
        let differ = [CountDifference { kinds: "read".into(), inside: 1.0, outside: 1.02 }];
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.02, 0.0)), differ);
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.0, 0.02)).len(), 1);
        assert_eq!(differences(&BTreeMap::new(), &counts(1.0, 0.0)), [], "one count is missing");
    }

    #[test]
    fn cpu_time_per_request_includes_uncharged_interrupts() {
        let mut counters = ServerCounters::default();
        counters.totals.cpu_user_ns = 3_000;
        let breakdown = |counters: &[&ServerCounters]| CostBreakdown::of(counters, 10.0).unwrap();
        assert_eq!(
            (breakdown(&[&counters]).interrupts_ns_per_request, breakdown(&[&counters]).cpu_ns()),
            (None, 300.0)
        );
        let with = ServerCounters { interrupts_ns: Some(1_000), ..counters.clone() };
        assert_eq!((breakdown(&[&with]).interrupts_ns_per_request, breakdown(&[&with]).cpu_ns()), (Some(100.0), 400.0));
        assert_eq!(breakdown(&[&with, &counters]).interrupts_ns_per_request, None, "one repeat lacks the figure");
        let mut run = testkit::run();
        assert!(!render(&Summary::of(&run), 120.into()).contains("interrupts"));
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            server.interrupts_ns = Some(500_000);
        }
        let text = render(&Summary::of(&run), 120.into());
        let heading = text.lines().find(|line| line.contains("CPU µs: user")).unwrap();
        assert!(heading.contains("interrupts") && text.contains(" 2.50 "), "{text}");
    }

    #[test]
    fn run_delay_is_shown_with_its_share_of_the_tail() {
        let mut run = testkit::run();
        assert!(!render(&Summary::of(&run), 160.into()).contains(WAITED), "the run has no run delay");
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            server.totals.run_delay_ns = Some(700_000);
        }
        for load in run.records.iter_mut().filter_map(|record| record.load.as_mut()) {
            load.service.histogram.merge(&[3_000_000; 2].into_iter().collect());
        }
        let summary = Summary::of(&run);
        let row = &summary.comparisons[0].rows[0];
        let (breakdown, service) = (row.breakdown.as_ref().unwrap(), row.service.as_ref().unwrap());
        assert_eq!(breakdown.run_delay_ns_per_request, Some(3_500.0));
        let tail_ns = service.mean_ns - service.p50_ns as f64;
        assert!(tail_ns > 3_500.0, "{tail_ns}");
        assert_eq!(breakdown.run_delay_share_of_tail, Some(3_500.0 / tail_ns));
        let mut late = run.clone();
        let share = |run: &harness::record::Run| {
            let breakdown = Summary::of(run).comparisons[0].rows[0].breakdown.clone().unwrap();
            (breakdown.run_delay_ns_per_request, breakdown.run_delay_share_of_tail)
        };
        for load in late.records.iter_mut().filter_map(|record| record.load.as_mut()) {
            load.late = load::result::LateSends { count: 9, sent: 200, ..load::result::LateSends::default() };
        }
        assert_eq!(share(&late), (Some(3_500.0), None), "the client may have caused the tail");
        let text = render(&summary, 160.into());
        assert!(
            text.contains(WAITED) && text.contains(" 3.50 ") && text.contains("queue behind that thread"),
            "{text}"
        );
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["comparisons"][0]["rows"][0]["breakdown"]["run_delay_ns_per_request"], 3_500.0);
    }

    #[test]
    fn waits_longer_than_the_tail_have_no_share_of_it() {
        assert_eq!(share_of_tail(8_000.0, 71_000.0, 51_000.0), Some(0.4));
        assert_eq!(share_of_tail(20_000.0, 71_000.0, 51_000.0), Some(1.0));
        assert_eq!(share_of_tail(20_001.0, 71_000.0, 51_000.0), None);
        assert_eq!(share_of_tail(8_000.0, 50_000.0, 51_000.0), None, "the mean is below the median");
        assert_eq!(share_of_tail(0.0, 71_000.0, 51_000.0), Some(0.0));
    }

    #[test]
    fn run_delay_unknown_in_one_repeat_is_absent() {
        let counters = |run_delay_ns| {
            let mut counters = ServerCounters::default();
            counters.totals.run_delay_ns = run_delay_ns;
            counters
        };
        let (known, unknown) = (counters(Some(10)), counters(None));
        assert_eq!(CostBreakdown::of(&[&known, &unknown], 10.0).unwrap().run_delay_ns_per_request, None);
        assert_eq!(CostBreakdown::of(&[&known, &known], 10.0).unwrap().run_delay_ns_per_request, Some(2.0));
        let text = serde_json::to_string(&unknown).unwrap();
        assert!(!text.contains("run_delay"), "runs without this counter stay readable");
        assert_eq!(serde_json::from_str::<ServerCounters>(&text).unwrap(), unknown);
    }

    #[test]
    fn server_without_requests_has_no_costs() {
        assert_eq!(CostBreakdown::of(&[&ServerCounters::default()], 0.0), None);
        assert_eq!(CostBreakdown::of(&[], 0.0), None);
    }
}
