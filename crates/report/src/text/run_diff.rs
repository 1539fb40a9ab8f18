//! Two runs side by side as text.

use harness::record::{Figure, Unit, Workload};
use load::config::Phases;

use super::medium::Medium;
use super::table::{self, Column, column};
use crate::analysis::run_diff::{Change, Difference, Pair, Planned, RunDiff, Side, SideFigures};
use crate::analysis::stream;
use crate::analysis::workload::title;
use crate::format;
use crate::list::{distinct, grouped};

/// The columns for a workload, in order from left to right.
fn columns(workload: &Workload) -> Vec<Column<Pair>> {
    let mut columns = vec![column("architecture", 0, |pair: &Pair| pair.architecture.clone())];
    let is_stream = workload.service.stream().is_some();
    let mut compare = |figure: Figure, name: &str, unit: &str, finding: &str, [values, ratios, findings]: [u8; 3]| {
        for (letter, side) in [("A", (|pair| &pair.a) as fn(&Pair) -> &SideFigures), ("B", |pair| &pair.b)] {
            columns.push(column(format!("{letter} {name}{unit}"), values, move |pair: &Pair| {
                shown(pair, side(pair), figure)
            }));
        }
        columns.push(column(format!("{name} B/A"), ratios, move |pair: &Pair| ratio(pair.changes[figure])));
        columns.push(column(finding, findings, move |pair: &Pair| change_words(pair.changes[figure])));
    };
    match workload.is_closed() {
        true if is_stream => compare(Figure::Rate, "MB/s", "", "finding", [1, 0, 0]),
        true => compare(Figure::Rate, "trans/s", "", "finding", [1, 0, 0]),
        false => compare(Figure::P50, "p50", " µs", "p50 finding", [1, 0, 0]),
    }
    if !is_stream {
        compare(Figure::P90, "p90", " µs", "p90 finding", [6, 5, 7]);
        compare(Figure::P95, "p95", " µs", "p95 finding", [6, 5, 7]);
        compare(Figure::P99, "p99", " µs", "p99 finding", [3, 2, 4]);
    }
    columns.extend([
        column("A valid", 2, |pair: &Pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats)),
        column("B valid", 2, |pair: &Pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats)),
    ]);
    columns
}

/// Formats a figure of one run: times in microseconds, and rates of streams in megabytes per second.
fn shown(pair: &Pair, figures: &SideFigures, figure: Figure) -> String {
    let Some(value) = figures.figures[figure] else { return "-".into() };
    match figure.unit() {
        Unit::Time => format::us(value),
        _ => format::digits(stream::megabytes_per_s(&pair.workload, value).unwrap_or(value)),
    }
}

pub(crate) fn ratio(change: Option<Change>) -> String {
    format::ratio(change.map(|change| change.ratio))
}

pub(crate) fn change_words(change: Option<Change>) -> String {
    change.map_or("not compared", |change| change.finding.words()).into()
}

/// Renders both runs side by side.
pub fn render(diff: &RunDiff, medium: Medium) -> String {
    let prose = |line: String| medium.prose(&line);
    let mut lines: Vec<String> = Vec::new();
    for (letter, Side { name, muxbench, command, started_at, seed, .. }) in [("A", &diff.a), ("B", &diff.b)] {
        let command = format::command(command);
        lines.push(prose(format!("{letter}: {name}, muxbench {muxbench}, began {started_at}, seed {seed}: {command}")));
    }
    lines.push(String::new());

    for pairs in by_workload(&diff.pairs) {
        let (workload, phases_b) = (&pairs[0].workload, &pairs[0].phases_b);
        lines.push(medium.heading(&title(workload)));
        if let Some(phases_b) = phases_b {
            lines.push(prose(format!("The phases differ: A {}; B {}.", phases(&workload.phases), phases(phases_b))));
        }
        lines.push(table::with_dropped(&columns(workload), pairs.iter().copied(), medium));
        for pair in pairs {
            for (letter, figures) in [("A", &pair.a), ("B", &pair.b)] {
                let reasons = not_compared(figures).map(|why| format!("{} in {letter}: {why}", pair.architecture));
                lines.extend(reasons.map(prose));
            }
        }
        lines.push(String::new());
    }

    for (letter, only) in [("A", &diff.only_a), ("B", &diff.only_b)] {
        if !only.is_empty() {
            let one = |it: &Planned| format!("{} at {}", it.architecture, title(&it.workload));
            lines.push(prose(format!("Only in {letter}: {}.", only.iter().map(one).collect::<Vec<_>>().join("; "))));
        }
    }
    lines.push(prose(diff.sentence.clone()));
    lines.push(String::new());

    if diff.host_differences.is_empty() {
        lines.push(prose("The recorded facts of the hosts are the same.".into()));
    } else {
        lines.push(prose("The hosts differ:".into()));
        lines.extend(diff.host_differences.iter().map(difference).map(prose));
    }
    let settings = distinct(diff.pairs.iter().flat_map(|pair| &pair.setting_differences));
    if !settings.is_empty() {
        lines.push(prose("The settings differ:".into()));
        lines.extend(settings.into_iter().map(|it| prose(difference(it) + &whose(it, &diff.pairs))));
    }
    let (a, b) = (&diff.a.placement, &diff.b.placement);
    if a != b {
        lines.push(prose(format!("The placement differs: A {a}; B {b}.")));
    }
    let (a, b) = (&diff.a.muxbench, &diff.b.muxbench);
    if a != b {
        let note = "CHANGELOG.md lists the changes that affect measurements.";
        lines.push(prose(format!("muxbench differs: A {a}; B {b}. {note}")));
    }
    lines.extend(medium.legend(&format!(
        "All values are geometric means over repeats. \"B/A\" is their ratio; its interval: {}. Fewer than three repeats give no \
         interval. A finding holds for all ratios of a figure together (5 %, corrected by Holm). A difference within {:.0} % \
         has no practical effect.",
        diff.interval_method,
        diff.margin * 100.0
    )));
    medium.finished(lines.join("\n") + "\n")
}

/// Names the architectures that have a difference, unless all have it.
fn whose(difference: &Difference, pairs: &[Pair]) -> String {
    let (with, without): (Vec<&Pair>, Vec<&Pair>) =
        pairs.iter().partition(|pair| pair.setting_differences.contains(difference));
    let names = distinct(with.iter().map(|pair| pair.architecture.as_str()));
    if without.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn difference(Difference { fact, a, b }: &Difference) -> String {
    format!("{fact}: A {a}; B {b}")
}

/// Groups pairs by workload and by phases.
fn by_workload(pairs: &[Pair]) -> Vec<Vec<&Pair>> {
    grouped(pairs, |a, b| a.workload == b.workload && a.phases_b == b.phases_b)
}

/// Lists the invalid and the missing repeats of one side, with their reasons.
fn not_compared(figures: &SideFigures) -> impl Iterator<Item = String> + '_ {
    // Several repeats with the same reason share a line.
    let groups = grouped(&figures.not_valid, |a, b| a.verdict == b.verdict && a.reason == b.reason);
    let lines = groups.into_iter().map(|group| {
        let repeats: Vec<String> = group.iter().map(|it| it.repeat.to_string()).collect();
        let word = if repeats.len() == 1 { "repeat" } else { "repeats" };
        format!("{word} {} {}: {}", repeats.join(", "), format::verdict(group[0].verdict), group[0].reason)
    });
    lines.chain(figures.missing.iter().cloned())
}

fn phases(phases: &Phases) -> String {
    let named = [
        ("ramp", phases.ramp_ns),
        ("warm-up", phases.warm_up_ns),
        ("measure", phases.measure_ns),
        ("cool-down", phases.cool_down_ns),
    ];
    named.map(|(name, ns)| format!("{name} {}", format::time(ns as f64))).join(", ")
}

#[cfg(test)]
mod tests {
    use harness::spec::ServerSpec;
    use server::TargetConfig;

    use super::*;
    use crate::analysis::run_diff::ChangeKind;

    #[test]
    fn run_diff_is_rendered_in_full() {
        insta::assert_snapshot!(render(&RunDiff::of(&testkit::run(), &testkit::other_run()), 160.into()));
    }

    #[test]
    fn narrow_terminal_gets_fewer_columns() {
        let text = render(&RunDiff::of(&testkit::run(), &testkit::other_run()), 80.into());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn closed_loops_are_compared_by_throughput() {
        let (a, mut b) = (testkit::closed_run(), testkit::closed_run());
        for record in b.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "epoll") {
            record.load.as_mut().unwrap().rate_achieved_per_s *= 1.3;
        }
        let diff = RunDiff::of(&a, &b);
        let (epoll, other): (Vec<&Pair>, Vec<&Pair>) = diff
            .pairs
            .iter()
            .filter(|pair| pair.changes[Figure::Rate].is_some())
            .partition(|pair| pair.architecture == "epoll");
        assert!(epoll.iter().all(|pair| pair.changes[Figure::Rate].unwrap().finding == ChangeKind::Faster));
        assert!(
            other.iter().all(|pair| pair.changes[Figure::Rate].unwrap().finding == ChangeKind::NoPracticalDifference)
        );
        assert!(RunDiff::of(&b, &a).sentence.contains("3 slower"), "{}", RunDiff::of(&b, &a).sentence);
        insta::assert_snapshot!(render(&diff, 160.into()));
    }

    #[test]
    fn streams_without_times_are_compared_by_bandwidth() {
        let mut run = testkit::bandwidth_run();
        for load in run.records.iter_mut().filter_map(|record| record.load.as_mut()) {
            load.service = load::result::Measured::default();
        }
        let diff = RunDiff::of(&run, &run);
        assert!(diff.pairs.iter().all(|pair| pair.changes[Figure::P50].is_none()));
        assert!(diff.sentence.starts_with("Bandwidth of B against A, 18 pairs: "), "{}", diff.sentence);
    }

    #[test]
    fn differing_settings_and_options_are_listed_once() {
        let (a, mut b) = (testkit::run(), testkit::run());
        for trial in b.header.trials.iter_mut().chain(b.records.iter_mut().map(|record| &mut record.trial)) {
            trial.client.processes = 2;
            let ServerSpec::Ours(serve) = &mut trial.serve else { panic!("{:?}", trial.serve) };
            serve.count_syscalls = true;
            serve.stall = Some(server::Stall { every_ns: 1_000_000_000, for_ns: 200_000_000 });
        }
        let diff = RunDiff::of(&a, &b);
        let text = render(&diff, 160.into());
        for line in [
            "The settings differ:",
            "client processes: A 1; B 2",
            "server count syscalls: A false; B true",
            "server options: A default; B stall every=1s,for=200ms",
        ] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}: {text}");
        }
        assert!(diff.pairs.iter().all(|pair| pair.setting_differences.len() == 3), "{:#?}", diff.pairs);
    }

    #[test]
    fn difference_of_some_servers_names_them() {
        let (a, mut b) = (testkit::run(), testkit::run());
        b.header.placement = "elsewhere".to_owned();
        for trial in b.records.iter_mut().map(|record| &mut record.trial) {
            if trial.architecture.to_string() == "epoll" {
                trial.client.clients = 3;
            }
        }
        let text = render(&RunDiff::of(&a, &b), 160.into());
        let placement = format!("The placement differs: A {}; B elsewhere.", a.header.placement);
        for line in ["client clients: A 1; B 3 (epoll)", placement.as_str()] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }

    #[test]
    fn url_of_a_named_target_is_listed() {
        let run_of = |port: u16| {
            let mut run = testkit::run();
            for trial in run.header.trials.iter_mut().chain(run.records.iter_mut().map(|record| &mut record.trial)) {
                if trial.architecture.to_string() == "epoll" {
                    trial.architecture = "target:mine".parse().unwrap();
                    trial.serve = ServerSpec::Target(TargetConfig {
                        url: format!("tcp://127.0.0.1:{port}"),
                        address: ([127, 0, 0, 1], port).into(),
                        others: Vec::new(),
                        ports: None,
                        pid: None,
                        cpus: Vec::new(),
                    });
                }
            }
            run
        };
        let text = render(&RunDiff::of(&run_of(7_001), &run_of(7_002)), 160.into());
        assert!(text.contains("server url: A tcp://127.0.0.1:7001; B tcp://127.0.0.1:7002"), "{text}");
    }

    #[test]
    fn run_does_not_differ_from_itself() {
        let run = testkit::run();
        let diff = RunDiff::of(&run, &run);
        assert!(diff.only_a.is_empty() && diff.only_b.is_empty() && diff.host_differences.is_empty());
        assert_eq!(diff.pairs.len(), 8);
        for pair in &diff.pairs {
            assert_eq!(pair.phases_b, None);
            assert_eq!(pair.changes[Figure::P50].is_some(), pair.a.repeats_valid > 0);
            for (_, change) in pair.changes.iter() {
                assert_eq!(change.ratio.ratio, 1.0);
                assert_eq!(change.finding, ChangeKind::NoPracticalDifference);
            }
        }
    }

    #[test]
    fn one_valid_repeat_gives_a_ratio_without_interval() {
        let mut run = testkit::run();
        run.records.retain(|record| record.trial.repeat == 0);
        let diff = RunDiff::of(&testkit::run(), &run);
        let change = diff.pairs[0].changes[Figure::P50].unwrap();
        assert_eq!((change.ratio.interval, change.finding), (None, ChangeKind::NoInterval));
        run.records.clear();
        let diff = RunDiff::of(&testkit::run(), &run);
        assert!(diff.sentence.contains("cannot be compared"), "{}", diff.sentence);
        let mut other = testkit::run();
        let trials = other.header.trials.iter_mut().chain(other.records.iter_mut().map(|record| &mut record.trial));
        trials.for_each(|trial| trial.workload.connections += 1);
        let diff = RunDiff::of(&testkit::run(), &other);
        assert!(diff.sentence.contains("they have no architecture under the same workload"), "{}", diff.sentence);
    }

    #[test]
    fn workloads_that_differ_beyond_phases_form_no_pair() {
        let (a, mut b) = (testkit::run(), testkit::run());
        for trial in &mut b.header.trials {
            trial.workload.set_rate(Some(201.0));
        }
        let diff = RunDiff::of(&a, &b);
        assert_eq!((diff.pairs.len(), diff.only_a.len(), diff.only_b.len()), (0, 8, 8));
    }
}
