//! Two runs side by side, for a reader.

use harness::model::VerdictKind;
use load::config::Phases;

use super::medium::Medium;
use super::table::{self, Column};
use crate::format;
use crate::model::run_diff::{Change, NotValid, Pair, Planned, RunDiff, Side, SideFigures};
use crate::model::stream;
use crate::model::workload::title;

/// In order from left to right.
const COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A p50 µs", rank: 1, text: |pair| us(pair.a.service_p50_ns) },
    Column { heading: "B p50 µs", rank: 1, text: |pair| us(pair.b.service_p50_ns) },
    Column { heading: "p50 B/A", rank: 0, text: |pair| ratio(pair.service_p50) },
    Column { heading: "p50 finding", rank: 0, text: |pair| change_words(pair.service_p50) },
    Column { heading: "A p99 µs", rank: 3, text: |pair| us(pair.a.service_p99_ns) },
    Column { heading: "B p99 µs", rank: 3, text: |pair| us(pair.b.service_p99_ns) },
    Column { heading: "p99 B/A", rank: 2, text: |pair| ratio(pair.service_p99) },
    Column { heading: "p99 finding", rank: 4, text: |pair| change_words(pair.service_p99) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

/// The same of a closed loop.
const CLOSED_COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A trans/s", rank: 1, text: |pair| per_s(pair.a.rate_per_s) },
    Column { heading: "B trans/s", rank: 1, text: |pair| per_s(pair.b.rate_per_s) },
    Column { heading: "trans/s B/A", rank: 0, text: |pair| ratio(pair.rate) },
    Column { heading: "finding", rank: 0, text: |pair| change_words(pair.rate) },
    Column { heading: "A p99 µs", rank: 3, text: |pair| us(pair.a.service_p99_ns) },
    Column { heading: "B p99 µs", rank: 3, text: |pair| us(pair.b.service_p99_ns) },
    Column { heading: "p99 B/A", rank: 2, text: |pair| ratio(pair.service_p99) },
    Column { heading: "p99 finding", rank: 4, text: |pair| change_words(pair.service_p99) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

/// The same of streams.
const STREAM_COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A MB/s", rank: 1, text: |pair| megabytes_per_s(pair, &pair.a) },
    Column { heading: "B MB/s", rank: 1, text: |pair| megabytes_per_s(pair, &pair.b) },
    Column { heading: "MB/s B/A", rank: 0, text: |pair| ratio(pair.rate) },
    Column { heading: "finding", rank: 0, text: |pair| change_words(pair.rate) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

fn megabytes_per_s(pair: &Pair, figures: &SideFigures) -> String {
    per_s(figures.rate_per_s.and_then(|rate_per_s| stream::megabytes_per_s(&pair.workload, rate_per_s)))
}

fn per_s(rate: Option<f64>) -> String {
    rate.map_or("-".into(), format::digits)
}

fn us(ns: Option<f64>) -> String {
    ns.map_or("-".into(), format::us)
}

pub(crate) fn ratio(against: Option<Change>) -> String {
    let Some(Change { ratio, .. }) = against else { return "-".into() };
    match ratio.interval {
        None => format!("{:.2}", ratio.ratio),
        Some(interval) => format!("{:.2} ({:.2}-{:.2})", ratio.ratio, interval.low, interval.high),
    }
}

pub(crate) fn change_words(against: Option<Change>) -> String {
    against.map_or("not compared", |against| against.finding.words()).into()
}

/// The comparison as text.
pub fn render(versus: &RunDiff, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let prose = |line: String| medium.prose(&line);
    let mut lines: Vec<String> = Vec::new();
    for (letter, Side { name, muxbench, command, started_at, seed, .. }) in [("A", &versus.a), ("B", &versus.b)] {
        let command = command.join(" ");
        lines.push(prose(format!("{letter}: {name}, muxbench {muxbench}, began {started_at}, seed {seed}: {command}")));
    }
    lines.push(String::new());

    for pairs in by_workload(&versus.pairs) {
        let (workload, phases_b) = (&pairs[0].workload, &pairs[0].phases_b);
        lines.push(medium.heading(&title(workload)));
        if let Some(phases_b) = phases_b {
            lines.push(prose(format!("The phases differ: A {}; B {}.", phases(&workload.phases), phases(phases_b))));
        }
        let columns = match workload.is_closed() {
            true if workload.service.stream().is_some() => STREAM_COLUMNS,
            true => CLOSED_COLUMNS,
            false => COLUMNS,
        };
        let (table, dropped) = table::of(columns, pairs.iter().copied(), medium);
        lines.push(table);
        if !dropped.is_empty() {
            lines.push(prose(format!("(too narrow for: {}; see --json)", dropped.join(", "))));
        }
        for pair in pairs {
            for (letter, figures) in [("A", &pair.a), ("B", &pair.b)] {
                let told = not_compared(figures).map(|why| format!("{} in {letter}: {why}", pair.architecture));
                lines.extend(told.map(prose));
            }
        }
        lines.push(String::new());
    }

    for (letter, only) in [("A", &versus.only_a), ("B", &versus.only_b)] {
        if !only.is_empty() {
            let one = |it: &Planned| format!("{} at {}", it.architecture, title(&it.workload));
            lines.push(prose(format!("Only in {letter}: {}.", only.iter().map(one).collect::<Vec<_>>().join("; "))));
        }
    }
    lines.push(prose(versus.sentence.clone()));
    lines.push(String::new());

    if versus.host_differences.is_empty() {
        lines.push(prose("The hosts do not differ in any fact that is recorded.".into()));
    } else {
        lines.push(prose("The hosts differ:".into()));
        let told = versus.host_differences.iter().map(|it| format!("{}: A {}; B {}", it.fact, it.a, it.b));
        lines.extend(told.map(prose));
    }
    if versus.a.client != versus.b.client {
        lines.push(prose(format!("The client differs: A {}; B {}.", versus.a.client, versus.b.client)));
    }
    if versus.a.accept != versus.b.accept {
        let words = |side: &Side| if side.accept.is_empty() { "as usual".into() } else { side.accept.join(", ") };
        lines.push(prose(format!("Pools accept differently: A {}; B {}.", words(&versus.a), words(&versus.b))));
    }
    if versus.a.read_budget != versus.b.read_budget {
        let words = |side: &Side| side.read_budget.join(", ");
        lines.push(prose(format!("The read budget differs: A {}; B {}.", words(&versus.a), words(&versus.b))));
    }
    if versus.a.placement != versus.b.placement {
        lines.push(prose(format!("Placement differs: A {}; B {}.", versus.a.placement, versus.b.placement)));
    }
    if versus.a.muxbench != versus.b.muxbench {
        let (a, b) = (&versus.a.muxbench, &versus.b.muxbench);
        lines.push(prose(format!("muxbench differs: A {a}, B {b}; CHANGELOG.md says what changes measurements.")));
    }
    lines.push(prose(format!(
        "{} are medians over valid repeats; \"B/A\" is B's against A's, with {}{}; within {:.0} % it makes no \
         practical difference.",
        if versus.pairs.iter().any(|pair| pair.rate.is_some()) { "Figures" } else { "Service times" },
        versus.interval_method,
        format::coverage(versus.interval_coverage),
        versus.margin * 100.0
    )));
    medium.finished(lines.join("\n") + "\n")
}

/// Pairs of one workload, and of one difference in phases, together.
fn by_workload(pairs: &[Pair]) -> Vec<Vec<&Pair>> {
    let mut groups: Vec<Vec<&Pair>> = Vec::new();
    for pair in pairs {
        let is_same =
            |group: &&mut Vec<&Pair>| group[0].workload == pair.workload && group[0].phases_b == pair.phases_b;
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    groups
}

/// Which repeats of one side are not compared, and why.
fn not_compared(figures: &SideFigures) -> impl Iterator<Item = String> + '_ {
    // The same of several repeats is said once.
    let mut told: Vec<(VerdictKind, &str, Vec<String>)> = Vec::new();
    for NotValid { repeat, verdict, reason } in &figures.not_valid {
        match told.iter_mut().find(|(kind, why, _)| kind == verdict && why == reason) {
            Some((_, _, repeats)) => repeats.push(repeat.to_string()),
            None => told.push((*verdict, reason, vec![repeat.to_string()])),
        }
    }
    let told = told.into_iter().map(|(verdict, reason, repeats)| {
        let word = if repeats.len() == 1 { "repeat" } else { "repeats" };
        format!("{word} {} {}: {reason}", repeats.join(", "), format::verdict(verdict))
    });
    told.chain(figures.missing.iter().cloned())
}

fn phases(phases: &Phases) -> String {
    let named = [
        ("ramp", phases.ramp_ns),
        ("hold", phases.hold_ns),
        ("measure", phases.measure_ns),
        ("drain", phases.drain_ns),
    ];
    named.map(|(name, ns)| format!("{name} {}", format::time(ns as f64))).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::model::run_diff::ChangeKind;

    #[test]
    fn two_runs_in_full() {
        insta::assert_snapshot!(render(&RunDiff::of(&fixtures::run(), &fixtures::other_run()), 160));
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let text = render(&RunDiff::of(&fixtures::run(), &fixtures::other_run()), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn closed_loops_are_compared_by_what_they_do() {
        let (a, mut b) = (fixtures::closed_run(), fixtures::closed_run());
        for record in b.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "epoll") {
            record.load.as_mut().unwrap().rate_achieved_per_s *= 1.3;
        }
        let versus = RunDiff::of(&a, &b);
        let (epoll, other): (Vec<&Pair>, Vec<&Pair>) =
            versus.pairs.iter().filter(|pair| pair.rate.is_some()).partition(|pair| pair.architecture == "epoll");
        assert!(epoll.iter().all(|pair| pair.rate.unwrap().finding == ChangeKind::More));
        assert!(other.iter().all(|pair| pair.rate.unwrap().finding == ChangeKind::NoPracticalDifference));
        assert!(RunDiff::of(&b, &a).sentence.contains("3 less"), "{}", RunDiff::of(&b, &a).sentence);
        insta::assert_snapshot!(render(&versus, 160));
    }

    #[test]
    fn a_run_is_as_long_as_itself() {
        let run = fixtures::run();
        let versus = RunDiff::of(&run, &run);
        assert!(versus.only_a.is_empty() && versus.only_b.is_empty() && versus.host_differences.is_empty());
        assert_eq!(versus.pairs.len(), 8);
        for pair in &versus.pairs {
            assert_eq!(pair.phases_b, None);
            assert_eq!(pair.service_p50.is_some(), pair.a.repeats_valid > 0);
            for against in [pair.service_p50, pair.service_p99].into_iter().flatten() {
                assert_eq!(against.ratio.ratio, 1.0);
                assert_eq!(against.finding, ChangeKind::NoPracticalDifference);
            }
        }
    }

    #[test]
    fn one_valid_repeat_gives_a_ratio_and_no_finding() {
        let mut run = fixtures::run();
        run.records.retain(|record| record.trial.repeat == 0);
        let versus = RunDiff::of(&fixtures::run(), &run);
        let against = versus.pairs[0].service_p50.unwrap();
        assert_eq!((against.ratio.interval, against.finding), (None, ChangeKind::NoInterval));
        run.records.clear();
        let versus = RunDiff::of(&fixtures::run(), &run);
        assert!(versus.sentence.contains("Nothing can be compared"), "{}", versus.sentence);
    }

    #[test]
    fn traffic_that_differs_in_more_than_its_phases_is_not_lined_up() {
        let (a, mut b) = (fixtures::run(), fixtures::run());
        for trial in &mut b.header.trials {
            trial.workload.rate_per_s = trial.workload.rate_per_s.map(|rate_per_s| rate_per_s + 1.0);
        }
        let versus = RunDiff::of(&a, &b);
        assert_eq!((versus.pairs.len(), versus.only_a.len(), versus.only_b.len()), (0, 8, 8));
    }

    #[test]
    fn facts_that_differ() {
        let facts = |facts: &[(&str, &str)]| facts.iter().map(|&(name, it)| (name.into(), it.into())).collect();
        let a = facts(&[("cpu", "x"), ("kernel", "6.1"), ("load average", "1"), ("smt", "on")]);
        let b = facts(&[("cpu", "x"), ("kernel", "6.12"), ("load average", "2"), ("boost", "1")]);
        let told = |name: &str, a: &str, b: &str| (name.to_owned(), a.to_owned(), b.to_owned());
        let expected = [told("boost", "absent", "1"), told("kernel", "6.1", "6.12"), told("smt", "on", "absent")];
        assert_eq!(harness::host::differences(&a, &b), expected);
    }
}
