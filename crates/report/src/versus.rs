//! Two runs side by side, of two kernels or two versions say: the same trials of both, B against A.

use std::collections::BTreeSet;

use harness::contender::Contender;
use harness::record::{Run, RunHeader, Trial, TrialRecord, VerdictKind, Workload};
use harness::units::Budget;
use load::LoadConfig;
use load::config::Phases;
use serde::Serialize;
use server::Accept;
use stats::{Ratio, interval};

use crate::summary::{MARGIN, estimated, left_out, missing, order, title};
use crate::table::{self, Column};
use crate::{Medium, format, json, sentence, stream, tails};

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Versus {
    /// As [`json::FORMAT`].
    pub format: u32,
    /// How intervals are found.
    pub interval_method: &'static str,
    /// In what share of cases an interval from as few repeats as the fewest really holds the truth; `None` without intervals.
    pub interval_coverage: Option<f64>,
    /// The margin of "no practical difference".
    pub margin: f64,
    /// The run that is compared with.
    pub a: Side,
    /// The run that is compared.
    pub b: Side,
    /// What differs between the hosts, but for what differs from one moment to the next.
    pub host_differences: Vec<Difference>,
    /// The findings in a sentence.
    pub sentence: String,
    /// Trials that both have, by connections, rate and architecture.
    pub pairs: Vec<Pair>,
    /// Trials that only A has.
    pub only_a: Vec<Planned>,
    /// Trials that only B has.
    pub only_b: Vec<Planned>,
}

/// Which run it is, and how it came to be.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The run's name.
    pub name: String,
    /// The version of muxbench that ran it.
    pub muxbench: String,
    /// The command that reproduces it.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Where the server and the client were placed.
    pub placement: String,
    /// How the client was built, which is the same in all trials of a run.
    pub client: String,
    /// Accept strategies of its trials where they are not their models' usual ones.
    pub accept: Vec<String>,
    /// Read budgets of its trials.
    pub read_budget: Vec<String>,
}

/// A fact that is not the same on both hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name.
    pub fact: String,
    /// On A's host; `absent` if nothing is known.
    pub a: String,
    /// On B's host, likewise.
    pub b: String,
}

/// An architecture under a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// The architecture's name.
    pub architecture: String,
    /// The traffic.
    pub workload: Workload,
}

/// An architecture under the same workload in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The architecture's name.
    pub architecture: String,
    /// The traffic, in A.
    pub workload: Workload,
    /// B's phases, where they are not A's; all else of the workload is the same.
    pub phases_b: Option<Phases>,
    /// What A found.
    pub a: Figures,
    /// What B found.
    pub b: Figures,
    /// Median service time, B against A; `None` unless both have a valid repeat.
    pub service_p50: Option<Against>,
    /// 99th percentile of service time, likewise; `None` as well where most repeats' may be the client's doing.
    pub service_p99: Option<Against>,
    /// Transactions a second of a closed loop, likewise; `None` in an open one, whose rate is asked for.
    pub rate: Option<Against>,
}

/// What one run found for a pair.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Repeats that are finished. Only the valid ones are compared.
    pub repeats: usize,
    /// How many of them are valid.
    pub repeats_valid: usize,
    /// The others.
    pub not_valid: Vec<NotValid>,
    /// Why there are not more repeats: they cannot be run there, or have not been yet.
    pub missing: Vec<String>,
    /// Median service time, the median over valid repeats, in nanoseconds.
    pub service_p50_ns: Option<f64>,
    /// 99th percentile of service time, likewise, of the repeats whose is the server's; `None` unless most are.
    pub service_p99_ns: Option<f64>,
    /// Requests a second that were answered, likewise.
    pub rate_per_s: Option<f64>,
}

/// A finished repeat that is not compared.
#[derive(Clone, Debug, Serialize)]
pub struct NotValid {
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Its verdict.
    pub verdict: VerdictKind,
    /// Why.
    pub reason: String,
}

/// How much larger a figure is in B than in A.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Against {
    /// The ratio of medians over valid repeats, B against A, and its interval.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// What that means.
    pub finding: Finding,
}

/// What a ratio means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// B takes longer: the interval is above 1.
    Longer,
    /// B takes less: the interval is below 1.
    Shorter,
    /// B does more a second: the interval is above 1.
    More,
    /// B does less a second: the interval is below 1.
    Less,
    /// The whole interval is within the margin.
    NoPracticalDifference,
    /// The interval includes 1.
    NotToldApart,
    /// One of the two has fewer than two valid repeats.
    NoInterval,
}

impl Finding {
    pub(crate) fn of(ratio: &Ratio) -> Self {
        match ratio.interval {
            None => Self::NoInterval,
            Some(_) if ratio.is_practically_one(MARGIN) => Self::NoPracticalDifference,
            Some(_) if !ratio.differs_from_one() => Self::NotToldApart,
            Some(interval) if interval.low > 1.0 => Self::Longer,
            Some(_) => Self::Shorter,
        }
    }

    /// The same of a rate.
    pub(crate) fn of_rate(ratio: &Ratio) -> Self {
        match Self::of(ratio) {
            Self::Longer => Self::More,
            Self::Shorter => Self::Less,
            other => other,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Longer => "B longer",
            Self::Shorter => "B shorter",
            Self::More => "B more",
            Self::Less => "B less",
            Self::NoPracticalDifference => "no practical difference",
            Self::NotToldApart => "not told apart",
            Self::NoInterval => "no interval",
        }
    }
}

impl Versus {
    /// Lines up two runs, finished or not. Trials are the same when architecture and workload are, or all of the workload
    /// but its phases.
    pub fn of(a: &Run, b: &Run) -> Self {
        let (mut rest_a, mut rest_b) = (groups(a), groups(b));
        let mut pairs: Vec<Pair> = Vec::new();
        let is_same: [fn(&Workload, &Workload) -> bool; 2] =
            [|a, b| a == b, |a, b| *a == Workload { phases: a.phases, ..b.clone() }];
        for is_same in is_same {
            rest_a.retain(|of_a| {
                let matches =
                    |of_b: &Group<'_>| of_a.architecture == of_b.architecture && is_same(of_a.workload, of_b.workload);
                let found = rest_b.iter().position(matches);
                pairs.extend(found.map(|at| pair(a, b, of_a, &rest_b.remove(at))));
                found.is_none()
            });
        }
        pairs.sort_by(|x, y| order(&x.workload, &y.workload).then(x.architecture.cmp(&y.architecture)));
        let host_differences = harness::host::differences(&a.header.host, &b.header.host).into_iter();
        Self {
            format: json::FORMAT,
            interval_method: interval::METHOD,
            interval_coverage: pairs
                .iter()
                .map(|pair| pair.a.repeats_valid.min(pair.b.repeats_valid))
                .filter(|&repeats| repeats >= 2)
                .min()
                .map(interval::coverage),
            margin: MARGIN,
            a: side(&a.header),
            b: side(&b.header),
            host_differences: host_differences.map(|(fact, a, b)| Difference { fact, a, b }).collect(),
            sentence: sentence_of(&pairs),
            pairs,
            only_a: planned(&rest_a),
            only_b: planned(&rest_b),
        }
    }
}

/// The repeats of one architecture under one workload.
struct Group<'a> {
    architecture: Contender,
    workload: &'a Workload,
    trials: Vec<&'a Trial>,
}

fn groups(run: &Run) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trial in &run.header.trials {
        let (architecture, workload) = (&trial.architecture, &trial.workload);
        match groups.iter_mut().find(|group| group.architecture == *architecture && group.workload == workload) {
            Some(group) => group.trials.push(trial),
            None => groups.push(Group { architecture: architecture.clone(), workload, trials: vec![trial] }),
        }
    }
    groups
}

fn planned(groups: &[Group<'_>]) -> Vec<Planned> {
    let one =
        |group: &Group<'_>| Planned { architecture: group.architecture.to_string(), workload: group.workload.clone() };
    let mut planned: Vec<Planned> = groups.iter().map(one).collect();
    planned.sort_by(|x, y| order(&x.workload, &y.workload).then(x.architecture.cmp(&y.architecture)));
    planned
}

fn side(header: &RunHeader) -> Side {
    Side {
        name: header.name.clone(),
        muxbench: header.muxbench.clone(),
        command: header.command.clone(),
        started_at: header.started_at.clone(),
        seed: header.seed,
        placement: header.placement.clone(),
        client: header.trials.first().map(|trial| client(&trial.load)).unwrap_or_default(),
        accept: accept(&header.trials),
        read_budget: read_budgets(&header.trials),
    }
}

/// Accept strategies of trials where they are not their models' usual ones, each once.
fn accept(trials: &[Trial]) -> Vec<String> {
    let ours = trials.iter().filter_map(|trial| trial.serve.ours());
    let unusual = ours.filter(|serve| serve.accept != Accept::default_of(serve.architecture.model));
    let unusual = unusual.map(|serve| serve.accept.to_string());
    unusual.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Read budgets of trials, each once.
fn read_budgets(trials: &[Trial]) -> Vec<String> {
    let ours = trials.iter().filter_map(|trial| trial.serve.ours());
    let budgets: BTreeSet<_> = ours.map(|serve| serve.read_budget_bytes).collect();
    budgets.into_iter().map(|budget| Budget(budget).to_string()).collect()
}

/// The client's settings in words.
fn client(load: &LoadConfig) -> String {
    let LoadConfig { pacing, roles, clients, clock, timestamps, .. } = load;
    format!(
        "pacing {}, roles {}, clients {clients}, clock {}, timestamps {}",
        format::name(pacing),
        format::name(roles),
        format::name(clock),
        format::name(timestamps)
    )
}

fn pair(a: &Run, b: &Run, of_a: &Group<'_>, of_b: &Group<'_>) -> Pair {
    let (records_a, records_b) = (records(a, of_a), records(b, of_b));
    let ratio_of = |a_s: &[f64], b_s: &[f64], finding: fn(&Ratio) -> Finding| {
        let ratio = Ratio::of(b_s, a_s, a.header.seed)?;
        Some(Against { ratio, finding: finding(&ratio) })
    };
    let against = |figure: fn(&TrialRecord) -> Option<f64>, finding: fn(&Ratio) -> Finding| {
        ratio_of(&valid(&records_a, figure), &valid(&records_b, figure), finding)
    };
    Pair {
        architecture: of_a.architecture.to_string(),
        workload: of_a.workload.clone(),
        phases_b: Some(of_b.workload.phases).filter(|phases| *phases != of_a.workload.phases),
        a: figures(a, of_a, &records_a),
        b: figures(b, of_b, &records_b),
        service_p50: against(p50_ns, Finding::of),
        service_p99: ratio_of(&p99s_ns(&records_a), &p99s_ns(&records_b), Finding::of),
        rate: if of_a.workload.is_closed() {
            against(TrialRecord::rate_achieved_per_s, Finding::of_rate)
        } else {
            None
        },
    }
}

fn records<'a>(run: &'a Run, group: &Group<'_>) -> Vec<&'a TrialRecord> {
    let is_of_group = |record: &&TrialRecord| group.trials.iter().any(|trial| trial.index == record.trial.index);
    run.records.iter().filter(is_of_group).collect()
}

/// A figure of each repeat that estimates are made of.
fn valid(records: &[&TrialRecord], figure: fn(&TrialRecord) -> Option<f64>) -> Vec<f64> {
    estimated(records).into_iter().filter_map(figure).collect()
}

fn p50_ns(record: &TrialRecord) -> Option<f64> {
    Some(record.load.as_ref()?.service.distribution.p50_ns as f64)
}

/// The 99th percentile of each of these repeats whose is the server's.
fn p99s_ns(records: &[&TrialRecord]) -> Vec<f64> {
    let estimated = estimated(records);
    let servers = tails::servers(estimated.iter().filter_map(|record| record.load.as_ref()), 0.99);
    servers.into_iter().map(|load| load.service.distribution.p99_ns as f64).collect()
}

fn figures(run: &Run, group: &Group<'_>, records: &[&TrialRecord]) -> Figures {
    let not_valid = records.iter().filter(|record| record.verdict.kind != VerdictKind::Valid);
    let not_valid: Vec<NotValid> = not_valid
        .map(|record| NotValid {
            repeat: record.trial.repeat,
            verdict: record.verdict.kind,
            reason: record.verdict.reason.clone(),
        })
        .collect();
    Figures {
        repeats: records.len(),
        repeats_valid: records.len() - not_valid.len(),
        not_valid,
        missing: missing(group.trials.iter().copied(), records, &left_out(run)),
        service_p50_ns: interval::median(&valid(records, p50_ns)),
        service_p99_ns: interval::median(&p99s_ns(records)),
        rate_per_s: interval::median(&valid(records, TrialRecord::rate_achieved_per_s)),
    }
}

fn sentence_of(pairs: &[Pair]) -> String {
    if pairs.iter().all(|pair| pair.service_p50.is_none()) {
        return "Nothing can be compared: no trial is valid in both runs.".into();
    }
    let (closed, open): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| pair.workload.is_closed());
    let told = [
        (open, "Median service time", (|pair| pair.service_p50) as fn(&Pair) -> Option<Against>),
        (closed, "Transactions a second", |pair| pair.rate),
    ];
    let told = told.into_iter().filter(|(pairs, ..)| !pairs.is_empty());
    told.map(|(pairs, what, against)| counted(&pairs, what, against)).collect::<Vec<_>>().join(" ")
}

/// How many pairs differ which way in a figure.
fn counted(pairs: &[&Pair], what: &str, against: fn(&Pair) -> Option<Against>) -> String {
    let found =
        |finding| pairs.iter().filter(|pair| against(pair).is_some_and(|against| against.finding == finding)).count();
    let compared = pairs.iter().filter(|pair| against(pair).is_some()).count();
    let counts = [
        (found(Finding::More), "more"),
        (found(Finding::Less), "less"),
        (found(Finding::Longer), "longer"),
        (found(Finding::Shorter), "shorter"),
        (found(Finding::NoPracticalDifference), "without practical difference"),
        (found(Finding::NotToldApart), "not told apart"),
        (found(Finding::NoInterval), "without interval (see --repeats)"),
        (pairs.len() - compared, "not compared"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    format!("{what} of B against A, of {} in both: {}.", pairs.len(), counts.join(", "))
}

/// In order from left to right.
const COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A p50 µs", rank: 1, text: |pair| us(pair.a.service_p50_ns) },
    Column { heading: "B p50 µs", rank: 1, text: |pair| us(pair.b.service_p50_ns) },
    Column { heading: "p50 B/A", rank: 0, text: |pair| ratio(pair.service_p50) },
    Column { heading: "p50 finding", rank: 0, text: |pair| finding(pair.service_p50) },
    Column { heading: "A p99 µs", rank: 3, text: |pair| us(pair.a.service_p99_ns) },
    Column { heading: "B p99 µs", rank: 3, text: |pair| us(pair.b.service_p99_ns) },
    Column { heading: "p99 B/A", rank: 2, text: |pair| ratio(pair.service_p99) },
    Column { heading: "p99 finding", rank: 4, text: |pair| finding(pair.service_p99) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

/// The same of a closed loop.
const CLOSED_COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A trans/s", rank: 1, text: |pair| per_s(pair.a.rate_per_s) },
    Column { heading: "B trans/s", rank: 1, text: |pair| per_s(pair.b.rate_per_s) },
    Column { heading: "trans/s B/A", rank: 0, text: |pair| ratio(pair.rate) },
    Column { heading: "finding", rank: 0, text: |pair| finding(pair.rate) },
    Column { heading: "A p99 µs", rank: 3, text: |pair| us(pair.a.service_p99_ns) },
    Column { heading: "B p99 µs", rank: 3, text: |pair| us(pair.b.service_p99_ns) },
    Column { heading: "p99 B/A", rank: 2, text: |pair| ratio(pair.service_p99) },
    Column { heading: "p99 finding", rank: 4, text: |pair| finding(pair.service_p99) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

/// The same of streams.
const STREAM_COLUMNS: &[Column<Pair>] = &[
    Column { heading: "architecture", rank: 0, text: |pair| pair.architecture.clone() },
    Column { heading: "A MB/s", rank: 1, text: |pair| megabytes_per_s(pair, &pair.a) },
    Column { heading: "B MB/s", rank: 1, text: |pair| megabytes_per_s(pair, &pair.b) },
    Column { heading: "MB/s B/A", rank: 0, text: |pair| ratio(pair.rate) },
    Column { heading: "finding", rank: 0, text: |pair| finding(pair.rate) },
    Column { heading: "A valid", rank: 2, text: |pair| format!("{}/{}", pair.a.repeats_valid, pair.a.repeats) },
    Column { heading: "B valid", rank: 2, text: |pair| format!("{}/{}", pair.b.repeats_valid, pair.b.repeats) },
];

fn megabytes_per_s(pair: &Pair, figures: &Figures) -> String {
    per_s(figures.rate_per_s.and_then(|rate_per_s| stream::megabytes_per_s(&pair.workload, rate_per_s)))
}

fn per_s(rate: Option<f64>) -> String {
    rate.map_or("-".into(), format::digits)
}

fn us(ns: Option<f64>) -> String {
    ns.map_or("-".into(), format::us)
}

pub(crate) fn ratio(against: Option<Against>) -> String {
    let Some(Against { ratio, .. }) = against else { return "-".into() };
    match ratio.interval {
        None => format!("{:.2}", ratio.ratio),
        Some(interval) => format!("{:.2} ({:.2}-{:.2})", ratio.ratio, interval.low, interval.high),
    }
}

pub(crate) fn finding(against: Option<Against>) -> String {
    against.map_or("not compared", |against| against.finding.words()).into()
}

/// The comparison as text.
pub fn render(versus: &Versus, medium: impl Into<Medium>) -> String {
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
fn not_compared(figures: &Figures) -> impl Iterator<Item = String> + '_ {
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
        format!("{word} {} {}: {reason}", repeats.join(", "), sentence::name(verdict))
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

#[derive(Serialize)]
struct CsvRow {
    runs: &'static str,
    architecture: String,
    traffic: String,
    phases_differ: bool,
    repeats_a: Option<usize>,
    repeats_valid_a: Option<usize>,
    repeats_b: Option<usize>,
    repeats_valid_b: Option<usize>,
    service_p50_a_ns: Option<f64>,
    service_p50_b_ns: Option<f64>,
    service_p50_ratio: Option<f64>,
    service_p50_ratio_low: Option<f64>,
    service_p50_ratio_high: Option<f64>,
    service_p50_finding: Option<Finding>,
    service_p99_a_ns: Option<f64>,
    service_p99_b_ns: Option<f64>,
    service_p99_ratio: Option<f64>,
    service_p99_ratio_low: Option<f64>,
    service_p99_ratio_high: Option<f64>,
    service_p99_finding: Option<Finding>,
    rate_a_per_s: Option<f64>,
    rate_b_per_s: Option<f64>,
    rate_ratio: Option<f64>,
    rate_ratio_low: Option<f64>,
    rate_ratio_high: Option<f64>,
    rate_finding: Option<Finding>,
    workload: String,
}

impl CsvRow {
    fn new(runs: &'static str, architecture: &str, workload: &Workload, pair: Option<&Pair>) -> anyhow::Result<Self> {
        let (a, b) = (pair.map(|pair| &pair.a), pair.map(|pair| &pair.b));
        let p50 = pair.and_then(|pair| pair.service_p50);
        let p99 = pair.and_then(|pair| pair.service_p99);
        let rate = pair.and_then(|pair| pair.rate);
        let low = |against: Option<Against>| Some(against?.ratio.interval?.low);
        let high = |against: Option<Against>| Some(against?.ratio.interval?.high);
        Ok(Self {
            runs,
            architecture: architecture.to_owned(),
            traffic: title(workload),
            phases_differ: pair.is_some_and(|pair| pair.phases_b.is_some()),
            repeats_a: a.map(|a| a.repeats),
            repeats_valid_a: a.map(|a| a.repeats_valid),
            repeats_b: b.map(|b| b.repeats),
            repeats_valid_b: b.map(|b| b.repeats_valid),
            service_p50_a_ns: a.and_then(|a| a.service_p50_ns),
            service_p50_b_ns: b.and_then(|b| b.service_p50_ns),
            service_p50_ratio: p50.map(|p50| p50.ratio.ratio),
            service_p50_ratio_low: low(p50),
            service_p50_ratio_high: high(p50),
            service_p50_finding: p50.map(|p50| p50.finding),
            service_p99_a_ns: a.and_then(|a| a.service_p99_ns),
            service_p99_b_ns: b.and_then(|b| b.service_p99_ns),
            service_p99_ratio: p99.map(|p99| p99.ratio.ratio),
            service_p99_ratio_low: low(p99),
            service_p99_ratio_high: high(p99),
            service_p99_finding: p99.map(|p99| p99.finding),
            rate_a_per_s: a.and_then(|a| a.rate_per_s),
            rate_b_per_s: b.and_then(|b| b.rate_per_s),
            rate_ratio: rate.map(|rate| rate.ratio.ratio),
            rate_ratio_low: low(rate),
            rate_ratio_high: high(rate),
            rate_finding: rate.map(|rate| rate.finding),
            workload: serde_json::to_string(workload)?,
        })
    }
}

/// The comparison as CSV: a row for each architecture under each workload, in `both` runs or only in `a` or `b`.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(versus: &Versus) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for pair in &versus.pairs {
        writer.serialize(CsvRow::new("both", &pair.architecture, &pair.workload, Some(pair))?)?;
    }
    for (runs, only) in [("a", &versus.only_a), ("b", &versus.only_b)] {
        for planned in only {
            writer.serialize(CsvRow::new(runs, &planned.architecture, &planned.workload, None)?)?;
        }
    }
    crate::csv::finished(writer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn two_runs_in_full() {
        insta::assert_snapshot!(render(&Versus::of(&fixtures::run(), &fixtures::other_run()), 160));
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let text = render(&Versus::of(&fixtures::run(), &fixtures::other_run()), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn closed_loops_are_compared_by_what_they_do() {
        let (a, mut b) = (fixtures::closed_run(), fixtures::closed_run());
        for record in b.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "epoll") {
            record.load.as_mut().unwrap().rate_achieved_per_s *= 1.3;
        }
        let versus = Versus::of(&a, &b);
        let (epoll, other): (Vec<&Pair>, Vec<&Pair>) =
            versus.pairs.iter().filter(|pair| pair.rate.is_some()).partition(|pair| pair.architecture == "epoll");
        assert!(epoll.iter().all(|pair| pair.rate.unwrap().finding == Finding::More));
        assert!(other.iter().all(|pair| pair.rate.unwrap().finding == Finding::NoPracticalDifference));
        assert!(Versus::of(&b, &a).sentence.contains("3 less"), "{}", Versus::of(&b, &a).sentence);
        insta::assert_snapshot!(render(&versus, 160));
    }

    #[test]
    fn two_runs_as_csv() {
        insta::assert_snapshot!(csv(&Versus::of(&fixtures::run(), &fixtures::other_run())).unwrap());
    }

    #[test]
    fn a_run_is_as_long_as_itself() {
        let run = fixtures::run();
        let versus = Versus::of(&run, &run);
        assert!(versus.only_a.is_empty() && versus.only_b.is_empty() && versus.host_differences.is_empty());
        assert_eq!(versus.pairs.len(), 8);
        for pair in &versus.pairs {
            assert_eq!(pair.phases_b, None);
            assert_eq!(pair.service_p50.is_some(), pair.a.repeats_valid > 0);
            for against in [pair.service_p50, pair.service_p99].into_iter().flatten() {
                assert_eq!(against.ratio.ratio, 1.0);
                assert_eq!(against.finding, Finding::NoPracticalDifference);
            }
        }
    }

    #[test]
    fn one_valid_repeat_gives_a_ratio_and_no_finding() {
        let mut run = fixtures::run();
        run.records.retain(|record| record.trial.repeat == 0);
        let versus = Versus::of(&fixtures::run(), &run);
        let against = versus.pairs[0].service_p50.unwrap();
        assert_eq!((against.ratio.interval, against.finding), (None, Finding::NoInterval));
        run.records.clear();
        let versus = Versus::of(&fixtures::run(), &run);
        assert!(versus.sentence.contains("Nothing can be compared"), "{}", versus.sentence);
    }

    #[test]
    fn traffic_that_differs_in_more_than_its_phases_is_not_lined_up() {
        let (a, mut b) = (fixtures::run(), fixtures::run());
        for trial in &mut b.header.trials {
            trial.workload.rate_per_s = trial.workload.rate_per_s.map(|rate_per_s| rate_per_s + 1.0);
        }
        let versus = Versus::of(&a, &b);
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
