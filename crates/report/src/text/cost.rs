//! Reasons why one architecture wins: the cost of a request by the servers' counters, and each architecture's largest
//! difference from the best.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use server::metrics::{OTHER, Syscall, comparable_kinds};

use super::medium::Medium;
use super::table::align;
use crate::format;
use crate::model::cost::{CostBreakdown, CountDifference, SAME_PER_REQUEST, SAME_SHARE};
use crate::model::summary::{Comparison, Row, Summary};

/// A cost by which two architectures may differ.
struct Cost {
    name: &'static str,
    of: fn(&CostBreakdown) -> Option<f64>,
    /// The smallest difference that is mentioned.
    difference_min: f64,
    shown: fn(f64) -> String,
}

const COSTS: &[Cost] = &[
    Cost::new("CPU time per request", |it| Some(it.cpu_ns()), 1_000.0, format::time),
    Cost::new("system calls per request", CostBreakdown::syscalls, 0.3, format::digits),
    Cost::new("events per wait", |it| it.events_per_wait, 1.0, format::digits),
    Cost::new("wake-ups per request", |it| Some(it.voluntary_switches_per_request), 0.2, format::digits),
    Cost::new("involuntary switches per request", |it| Some(it.involuntary_switches_per_request), 0.1, format::digits),
];

impl Cost {
    const fn new(
        name: &'static str,
        of: fn(&CostBreakdown) -> Option<f64>,
        difference_min: f64,
        shown: fn(f64) -> String,
    ) -> Self {
        Self { name, of, difference_min, shown }
    }
}

/// Returns the cost with the largest ratio to the best architecture's; `None` without a notable difference.
fn main_difference(row: &Row, best: &Row) -> Option<String> {
    let (breakdown, best) = (row.breakdown.as_ref()?, best.breakdown.as_ref()?);
    let differences = COSTS.iter().filter_map(|cost| {
        let (ours, its) = ((cost.of)(breakdown)?, (cost.of)(best)?);
        // Bound the ratio to a value near 0.
        let floor = cost.difference_min / 30.0;
        let ratio = (ours.max(floor) / its.max(floor)).ln().abs();
        ((ours - its).abs() >= cost.difference_min).then_some((ratio, cost, ours, its))
    });
    let (_, cost, ours, its) = differences.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{}: {} against {}", cost.name, (cost.shown)(ours), (cost.shown)(its)))
}

/// Describes the main difference of an architecture from the best.
fn sentence_of(row: &Row, best: &Row) -> String {
    let name = &row.architecture;
    let standing = match (row.ratio, row.is_ranked()) {
        (Some(ratio), true) => format!("{:.2} times the median service time", ratio.ratio),
        _ => format::verdict(row.verdict).to_owned(),
    };
    match main_difference(row, best) {
        Some(difference) => format!("{name} ({standing}) differs most from {} in {difference}.", best.architecture),
        None => format!("{name} ({standing}) costs about the same as {}.", best.architecture),
    }
}

/// Renders a table for each workload, and a sentence for each architecture but the best.
pub fn render(summary: &Summary, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut text = String::new();
    for Comparison { title, rows, .. } in &summary.comparisons {
        text += &(medium.heading(&format!("Cost of a request by the servers' counters: {title}")) + "\n");
        text += &(medium.table(&table(rows)) + "\n");
        text += &about_delays(rows, medium);
        text += &two_counts(rows, medium);
        if let Some(best) = rows.first().filter(|row| row.is_ranked()) {
            for row in rows.iter().skip(1).filter(|row| row.breakdown.is_some()) {
                text += &(medium.prose(&sentence_of(row, best)) + "\n");
            }
        }
        text.push('\n');
    }
    medium.finished(text)
}

/// The heading of the time that runnable threads waited for a CPU.
const WAITED: &str = "run delay µs";
/// The heading of the wait's share of the tail.
const TAIL: &str = "of tail";

/// The meaning of these two columns; empty without them.
fn about_delays(rows: &[Row], medium: Medium) -> String {
    if breakdowns(rows).all(|(_, it)| it.run_delay_ns_per_request.is_none()) {
        return String::new();
    }
    let text = format!(
        "\"{WAITED}\" is the time for each request in which runnable threads of the server waited for a CPU. \"{TAIL}\" is its \
         share of the difference between mean and median service time. All waiting threads count; requests that queue inside a \
         single loop behind one waiting thread do not."
    );
    medium.prose(&text) + "\n"
}

/// The rows with counters of the server.
fn breakdowns(rows: &[Row]) -> impl Iterator<Item = (&Row, &CostBreakdown)> {
    rows.iter().filter_map(|row| Some((row, row.breakdown.as_ref()?)))
}

fn table(rows: &[Row]) -> Table {
    let has_interrupts = breakdowns(rows).any(|(_, it)| it.interrupts_ns_per_request.is_some());
    let has_delays = breakdowns(rows).any(|(_, it)| it.run_delay_ns_per_request.is_some());
    let headings = [
        "architecture",
        "CPU µs: user",
        "kernel",
        "unsplit",
        "interrupts",
        "wake-ups",
        "preempted",
        WAITED,
        TAIL,
        "events/wait",
        "bytes/read",
        "system calls | kernel operations",
    ];
    let mut table = Table::new();
    let is_shown = |heading: &str| match heading {
        "interrupts" => has_interrupts,
        WAITED | TAIL => has_delays,
        _ => true,
    };
    table.load_style(presets::NOTHING).set_header(headings.into_iter().filter(|heading| is_shown(heading)));
    for (row, breakdown) in breakdowns(rows) {
        let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::digits);
        let kinds = |kinds: &BTreeMap<String, f64>| {
            // Smaller counts round to 0.00.
            let shown = kinds.iter().filter(|(_, count)| **count >= 0.005);
            shown.map(|(kind, count)| format!("{kind} {count:.2}")).collect::<Vec<_>>().join(" ")
        };
        let mut calls = kinds(breakdown.syscalls_by_kind());
        if !breakdown.operations_per_request.is_empty() {
            calls += &format!(" | {}", kinds(&breakdown.operations_per_request));
        }
        if calls.is_empty() {
            calls = "-".into();
        }
        let cells = [
            row.label(),
            format::us(breakdown.cpu_user_ns_per_request),
            format::us(breakdown.cpu_system_ns_per_request),
            if breakdown.cpu_children_ns_per_request > 0.0 {
                format::us(breakdown.cpu_children_ns_per_request)
            } else {
                "-".into()
            },
            breakdown.interrupts_ns_per_request.map_or_else(|| "-".to_owned(), format::us),
            format::digits(breakdown.voluntary_switches_per_request),
            format::digits(breakdown.involuntary_switches_per_request),
            breakdown.run_delay_ns_per_request.map_or_else(|| "-".to_owned(), format::us),
            breakdown.run_delay_share_of_tail.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
            optional(breakdown.events_per_wait),
            optional(breakdown.bytes_per_read),
            calls,
        ];
        let shown = headings.iter().zip(cells).filter(|(heading, _)| is_shown(heading));
        table.add_row(shown.map(|(_, cell)| cell));
    }
    align(&mut table);
    table
}

/// Compares the servers' counts of system calls with the kernel's; empty without `--count-syscalls`.
fn two_counts(rows: &[Row], medium: Medium) -> String {
    let counted: Vec<(&Row, &CostBreakdown)> =
        breakdowns(rows).filter(|(_, breakdown)| !breakdown.syscalls_outside_per_request.is_empty()).collect();
    if counted.is_empty() {
        return String::new();
    }
    let shown = |counts: &BTreeMap<String, f64>, kind: &str| counts.get(kind).is_some_and(|count| *count >= 0.005);
    let kinds = Syscall::ALL.iter().map(|(_, name)| *name).chain([OTHER]).filter(|kind| {
        let either = |breakdown: &CostBreakdown| {
            [&breakdown.syscalls_per_request, &breakdown.syscalls_outside_per_request].map(|it| shown(it, kind))
        };
        counted.iter().any(|(_, breakdown)| either(breakdown).contains(&true))
    });
    let kinds: Vec<&str> = kinds.collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["architecture"].into_iter().chain(kinds.iter().copied()).chain(["all"]));
    for (row, breakdown) in &counted {
        let (inside, outside) = (&breakdown.syscalls_per_request, &breakdown.syscalls_outside_per_request);
        let cell = |of: &dyn Fn(&BTreeMap<String, f64>) -> f64| {
            let inside = if inside.is_empty() { "-".into() } else { format!("{:.2}", of(inside)) };
            format!("{inside} / {:.2}", of(outside))
        };
        let cells = kinds.iter().map(|kind| cell(&|counts| counts.get(*kind).copied().unwrap_or(0.0)));
        let cells: Vec<String> = cells.chain([cell(&|counts| counts.values().sum())]).collect();
        table.add_row([row.label()].into_iter().chain(cells));
    }
    align(&mut table);
    let about = "System calls per request by the server's count / by the kernel's count, which makes each call slower:";
    let mut text = medium.prose(about) + "\n" + &medium.table(&table) + "\n";
    let both = counted.iter().filter(|(_, breakdown)| !breakdown.syscalls_per_request.is_empty());
    for (row, breakdown) in both.clone() {
        for CountDifference { kinds, inside, outside } in &breakdown.syscalls_differ {
            let name = &row.architecture;
            let line = format!(
                "The two counts of {name} differ: {kinds} {inside:.3} in the server, {outside:.3} in the kernel."
            );
            text += &(medium.prose(&line) + "\n");
        }
    }
    if both.clone().next().is_some() && both.clone().all(|(_, it)| it.syscalls_differ.is_empty()) {
        let line = format!(
            "Where both counts exist, they agree within {} %, or {SAME_PER_REQUEST} per request. The kernel cannot distinguish \
             {}, nor {} where threads wake each other.",
            100.0 * SAME_SHARE,
            comparable_kinds(false).join(", "),
            comparable_kinds(true).join(", ")
        );
        text += &(medium.prose(&line) + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use server::ServerCounters;

    use super::*;
    use crate::model::cost::{differences, share_of_tail};

    #[test]
    fn why_in_full() {
        let mut run = testkit::run();
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
    fn two_counts_beside_each_other() {
        let render = |change: fn(&mut server::metrics::counters::Totals, &str)| {
            let mut run = testkit::run();
            for record in &mut run.records {
                let Some(server) = &mut record.server else { continue };
                let totals = &mut server.totals;
                totals.syscalls_outside = totals.syscalls.clone();
                totals.syscalls_outside.insert(OTHER.into(), 0);
                change(totals, record.trial.architecture.ours().unwrap().model.name);
            }
            let text = super::render(&Summary::of(&run), 120);
            let lines = text.lines().skip_while(|line| !line.starts_with("System calls per request"));
            let to_the_sentences =
                lines.take_while(|line| !line.contains(" differs ") && !line.contains("costs about"));
            to_the_sentences.collect::<Vec<_>>().join("\n")
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
    fn counts_that_are_as_good_as_equal_do_not_differ() {
        let counts = |read: f64, other: f64| BTreeMap::from([("read".to_owned(), read), (OTHER.to_owned(), other)]);
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.0099, 0.0099)), []);
        assert_eq!(differences(&counts(600.0, 0.0), &counts(605.0, 0.0)), []);
        let differ = [CountDifference { kinds: "read".into(), inside: 1.0, outside: 1.02 }];
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.02, 0.0)), differ);
        assert_eq!(differences(&counts(1.0, 0.0), &counts(1.0, 0.02)).len(), 1);
        assert_eq!(differences(&BTreeMap::new(), &counts(1.0, 0.0)), [], "there is nothing to compare");
    }

    #[test]
    fn interrupts_charged_to_nobody_are_in_cpu_time_a_request() {
        let mut counters = ServerCounters::default();
        counters.totals.cpu_user_ns = 3_000;
        let why = |counters: &[&ServerCounters]| CostBreakdown::of(counters, 10.0).unwrap();
        assert_eq!((why(&[&counters]).interrupts_ns_per_request, why(&[&counters]).cpu_ns()), (None, 300.0));
        let with = ServerCounters { interrupts_ns: Some(1_000), ..counters.clone() };
        assert_eq!((why(&[&with]).interrupts_ns_per_request, why(&[&with]).cpu_ns()), (Some(100.0), 400.0));
        assert_eq!(why(&[&with, &counters]).interrupts_ns_per_request, None, "of one it is not known");
        let mut run = testkit::run();
        assert!(!render(&Summary::of(&run), 120).contains("interrupts"));
        for server in run.records.iter_mut().filter_map(|record| record.server.as_mut()) {
            server.interrupts_ns = Some(500_000);
        }
        let text = render(&Summary::of(&run), 120);
        let heading = text.lines().find(|line| line.contains("CPU µs: user")).unwrap();
        assert!(heading.contains("interrupts") && text.contains(" 2.50 "), "{text}");
    }

    #[test]
    fn run_delay_is_told_with_its_share_of_the_tail() {
        let mut run = testkit::run();
        assert!(!render(&Summary::of(&run), 160).contains(WAITED), "no server of an old run says it");
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
        let share = |run: &harness::model::Run| {
            let breakdown = Summary::of(run).comparisons[0].rows[0].breakdown.clone().unwrap();
            (breakdown.run_delay_ns_per_request, breakdown.run_delay_share_of_tail)
        };
        for load in late.records.iter_mut().filter_map(|record| record.load.as_mut()) {
            load.late = Some(load::report::LateSends { count: 9, sent: 200, ..load::report::LateSends::default() });
        }
        assert_eq!(share(&late), (Some(3_500.0), None), "the client's tail is not the server's");
        let text = render(&summary, 160);
        assert!(
            text.contains(WAITED) && text.contains(" 3.50 ") && text.contains("queue inside a single loop"),
            "{text}"
        );
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["comparisons"][0]["rows"][0]["why"]["run_delay_ns_per_request"], 3_500.0);
    }

    #[test]
    fn share_of_tail_claims_no_more_than_all_of_it() {
        assert_eq!(share_of_tail(8_000.0, 71_000.0, 51_000.0), Some(0.4));
        assert_eq!(share_of_tail(90_000.0, 71_000.0, 51_000.0), Some(1.0));
        assert_eq!(share_of_tail(8_000.0, 50_000.0, 51_000.0), None, "there is no tail");
        assert_eq!(share_of_tail(0.0, 71_000.0, 51_000.0), Some(0.0));
    }

    #[test]
    fn run_delay_of_one_repeat_unknown_is_absent() {
        let counters = |run_delay_ns| {
            let mut counters = ServerCounters::default();
            counters.totals.run_delay_ns = run_delay_ns;
            counters
        };
        let (known, unknown) = (counters(Some(10)), counters(None));
        assert_eq!(CostBreakdown::of(&[&known, &unknown], 10.0).unwrap().run_delay_ns_per_request, None);
        assert_eq!(CostBreakdown::of(&[&known, &known], 10.0).unwrap().run_delay_ns_per_request, Some(2.0));
        let text = serde_json::to_string(&unknown).unwrap();
        assert!(!text.contains("run_delay"), "a run stored before it was counted reads the same");
        assert_eq!(serde_json::from_str::<ServerCounters>(&text).unwrap(), unknown);
    }

    #[test]
    fn a_server_that_served_nothing_has_no_reasons() {
        assert_eq!(CostBreakdown::of(&[&ServerCounters::default()], 0.0), None);
        assert_eq!(CostBreakdown::of(&[], 0.0), None);
    }
}
