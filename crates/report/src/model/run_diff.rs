//! Two runs side by side, for example with two kernels or two versions: the trials that both have, B against A.

use std::collections::BTreeSet;

use harness::model::{Run, RunHeader, Trial, TrialRecord, VerdictKind, Workload};
use harness::spec::Candidate;
use harness::spec::units::Budget;
use load::LoadConfig;
use load::config::Phases;
use serde::Serialize;
use server::Accept;
use stats::{Ratio, interval};

use super::summary::{MARGIN, estimated, missing, pruned};
use super::workload::order;
use super::{FORMAT, client_tail};
use crate::format;

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct RunDiff {
    /// The version of the JSON format: [`FORMAT`].
    pub format: u32,
    /// The method that computes intervals.
    pub interval_method: &'static str,
    /// The simulated probability that the interval from the smallest number of repeats holds the true value; `None`
    /// without intervals.
    pub interval_coverage: Option<f64>,
    /// The margin of "no practical difference".
    pub margin: f64,
    /// The baseline run.
    pub a: Side,
    /// The run compared with the baseline.
    pub b: Side,
    /// Facts that differ between the hosts, except those that always change.
    pub host_differences: Vec<HostDifference>,
    /// The findings in a sentence.
    pub sentence: String,
    /// Trials that both runs have, by connections, rate and architecture.
    pub pairs: Vec<Pair>,
    /// Trials that only A has.
    pub only_a: Vec<Planned>,
    /// Trials that only B has.
    pub only_b: Vec<Planned>,
}

/// A run's identity and settings.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The run's name.
    pub name: String,
    /// The version of muxbench that ran it.
    pub muxbench: String,
    /// The command that reproduces it.
    pub command: Vec<String>,
    /// Start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The placement of the server and the client.
    pub placement: String,
    /// The client's settings, which all trials of a run share.
    pub client: String,
    /// Accept strategies that differ from their model's default.
    pub accept: Vec<String>,
    /// Read budgets of the trials.
    pub read_budget: Vec<String>,
}

/// A fact that differs between the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostDifference {
    /// The fact's name.
    pub fact: String,
    /// The value on A's host; `absent` if unknown.
    pub a: String,
    /// The value on B's host; `absent` if unknown.
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
    /// The traffic in A.
    pub workload: Workload,
    /// B's phases if they differ from A's; the rest of the workload is equal.
    pub phases_b: Option<Phases>,
    /// The results in A.
    pub a: SideFigures,
    /// The results in B.
    pub b: SideFigures,
    /// Median service time, B against A; `None` unless both have a valid repeat.
    pub service_p50: Option<Change>,
    /// 99th percentile of service time, B against A; also `None` if the client may have caused it in most repeats.
    pub service_p99: Option<Change>,
    /// Transactions per second of a closed loop, B against A; `None` in an open loop, which sets the rate.
    pub rate: Option<Change>,
}

/// The results of one run for a pair.
#[derive(Clone, Debug, Serialize)]
pub struct SideFigures {
    /// Number of finished repeats. Only valid repeats are compared.
    pub repeats: usize,
    /// Number of valid repeats.
    pub repeats_valid: usize,
    /// The finished repeats that are not valid.
    pub not_valid: Vec<NotValid>,
    /// Reasons for missing repeats: this host cannot run them, or they have not been run yet.
    pub missing: Vec<String>,
    /// Median service time in nanoseconds: the median over valid repeats.
    pub service_p50_ns: Option<f64>,
    /// 99th percentile of service time in nanoseconds: the median over repeats whose tail belongs to the server;
    /// `None` unless these are the majority.
    pub service_p99_ns: Option<f64>,
    /// Answered requests per second: the median over valid repeats.
    pub rate_per_s: Option<f64>,
}

/// A finished repeat that is not compared.
#[derive(Clone, Debug, Serialize)]
pub struct NotValid {
    /// The repeat's number, from 0.
    pub repeat: u32,
    /// The repeat's verdict.
    pub verdict: VerdictKind,
    /// The reason for the verdict.
    pub reason: String,
}

/// A change of a figure from A to B.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Change {
    /// The ratio of medians over valid repeats, B to A, with its interval.
    #[serde(flatten)]
    pub ratio: Ratio,
    /// The meaning of the ratio.
    pub finding: ChangeKind,
}

/// The meaning of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// B takes longer: the interval is above 1.
    Longer,
    /// B takes less: the interval is below 1.
    Shorter,
    /// B does more per second: the interval is above 1.
    More,
    /// B does less per second: the interval is below 1.
    Less,
    /// The whole interval is within the margin.
    NoPracticalDifference,
    /// The interval includes 1.
    #[serde(rename = "not-told-apart")]
    NotSignificant,
    /// One run has fewer than two valid repeats.
    NoInterval,
}

impl ChangeKind {
    pub(crate) fn of(ratio: &Ratio) -> Self {
        match ratio.interval {
            None => Self::NoInterval,
            Some(_) if ratio.is_practically_one(MARGIN) => Self::NoPracticalDifference,
            Some(_) if !ratio.differs_from_one() => Self::NotSignificant,
            Some(interval) if interval.low > 1.0 => Self::Longer,
            Some(_) => Self::Shorter,
        }
    }

    /// Interprets the ratio of a rate.
    pub(crate) fn of_rate(ratio: &Ratio) -> Self {
        match Self::of(ratio) {
            Self::Longer => Self::More,
            Self::Shorter => Self::Less,
            other => other,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Longer => "B longer",
            Self::Shorter => "B shorter",
            Self::More => "B more",
            Self::Less => "B less",
            Self::NoPracticalDifference => "no practical difference",
            Self::NotSignificant => "not significantly different",
            Self::NoInterval => "no interval",
        }
    }
}

impl RunDiff {
    /// Compares two runs, finished or not. Trials match if they have the same architecture and the same workload,
    /// phases aside.
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
            format: FORMAT,
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
            host_differences: host_differences.map(|(fact, a, b)| HostDifference { fact, a, b }).collect(),
            sentence: sentence_of(&pairs),
            pairs,
            only_a: planned(&rest_a),
            only_b: planned(&rest_b),
        }
    }
}

/// The repeats of one architecture under one workload.
struct Group<'a> {
    architecture: Candidate,
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

/// Returns the accept strategies that differ from their model's default, each once.
fn accept(trials: &[Trial]) -> Vec<String> {
    let ours = trials.iter().filter_map(|trial| trial.serve.ours());
    let unusual = ours.filter(|serve| serve.accept != Accept::default_of(serve.architecture.model));
    let unusual = unusual.map(|serve| serve.accept.to_string());
    unusual.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the read budgets of trials, each once.
fn read_budgets(trials: &[Trial]) -> Vec<String> {
    let ours = trials.iter().filter_map(|trial| trial.serve.ours());
    let budgets: BTreeSet<_> = ours.map(|serve| serve.read_budget_bytes).collect();
    budgets.into_iter().map(|budget| Budget(budget).to_string()).collect()
}

/// Returns the client's settings in words.
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
    let ratio_of = |a_s: &[f64], b_s: &[f64], finding: fn(&Ratio) -> ChangeKind| {
        let ratio = Ratio::of(b_s, a_s, a.header.seed)?;
        Some(Change { ratio, finding: finding(&ratio) })
    };
    let against = |figure: fn(&TrialRecord) -> Option<f64>, finding: fn(&Ratio) -> ChangeKind| {
        ratio_of(&valid(&records_a, figure), &valid(&records_b, figure), finding)
    };
    Pair {
        architecture: of_a.architecture.to_string(),
        workload: of_a.workload.clone(),
        phases_b: Some(of_b.workload.phases).filter(|phases| *phases != of_a.workload.phases),
        a: figures(a, of_a, &records_a),
        b: figures(b, of_b, &records_b),
        service_p50: against(p50_ns, ChangeKind::of),
        service_p99: ratio_of(&p99s_ns(&records_a), &p99s_ns(&records_b), ChangeKind::of),
        rate: if of_a.workload.is_closed() {
            against(TrialRecord::rate_achieved_per_s, ChangeKind::of_rate)
        } else {
            None
        },
    }
}

fn records<'a>(run: &'a Run, group: &Group<'_>) -> Vec<&'a TrialRecord> {
    let is_of_group = |record: &&TrialRecord| group.trials.iter().any(|trial| trial.index == record.trial.index);
    run.records.iter().filter(is_of_group).collect()
}

/// Returns a figure of each repeat that estimates use.
fn valid(records: &[&TrialRecord], figure: fn(&TrialRecord) -> Option<f64>) -> Vec<f64> {
    estimated(records).into_iter().filter_map(figure).collect()
}

fn p50_ns(record: &TrialRecord) -> Option<f64> {
    Some(record.load.as_ref()?.service.distribution.p50_ns as f64)
}

/// Returns the 99th percentile of each repeat whose tail belongs to the server.
fn p99s_ns(records: &[&TrialRecord]) -> Vec<f64> {
    let estimated = estimated(records);
    let servers = client_tail::servers(estimated.iter().filter_map(|record| record.load.as_ref()), 0.99);
    servers.into_iter().map(|load| load.service.distribution.p99_ns as f64).collect()
}

fn figures(run: &Run, group: &Group<'_>, records: &[&TrialRecord]) -> SideFigures {
    let not_valid = records.iter().filter(|record| record.verdict.kind != VerdictKind::Valid);
    let not_valid: Vec<NotValid> = not_valid
        .map(|record| NotValid {
            repeat: record.trial.repeat,
            verdict: record.verdict.kind,
            reason: record.verdict.reason.clone(),
        })
        .collect();
    SideFigures {
        repeats: records.len(),
        repeats_valid: records.len() - not_valid.len(),
        not_valid,
        missing: missing(group.trials.iter().copied(), records, &pruned(run)),
        service_p50_ns: interval::median(&valid(records, p50_ns)),
        service_p99_ns: interval::median(&p99s_ns(records)),
        rate_per_s: interval::median(&valid(records, TrialRecord::rate_achieved_per_s)),
    }
}

fn sentence_of(pairs: &[Pair]) -> String {
    if pairs.iter().all(|pair| pair.service_p50.is_none()) {
        return "The runs cannot be compared: no trial is valid in both.".into();
    }
    let (closed, open): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| pair.workload.is_closed());
    let told = [
        (open, "Median service time", (|pair| pair.service_p50) as fn(&Pair) -> Option<Change>),
        (closed, "Transactions a second", |pair| pair.rate),
    ];
    let told = told.into_iter().filter(|(pairs, ..)| !pairs.is_empty());
    told.map(|(pairs, what, against)| counted(&pairs, what, against)).collect::<Vec<_>>().join(" ")
}

/// Returns how many pairs differ in each direction in a figure.
fn counted(pairs: &[&Pair], what: &str, against: fn(&Pair) -> Option<Change>) -> String {
    let found =
        |finding| pairs.iter().filter(|pair| against(pair).is_some_and(|against| against.finding == finding)).count();
    let compared = pairs.iter().filter(|pair| against(pair).is_some()).count();
    let counts = [
        (found(ChangeKind::More), "more"),
        (found(ChangeKind::Less), "less"),
        (found(ChangeKind::Longer), "longer"),
        (found(ChangeKind::Shorter), "shorter"),
        (found(ChangeKind::NoPracticalDifference), "without practical difference"),
        (found(ChangeKind::NotSignificant), "not significantly different"),
        (found(ChangeKind::NoInterval), "without interval (see --repeats)"),
        (pairs.len() - compared, "not compared"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    format!("{what} of B against A, {} pairs: {}.", pairs.len(), counts.join(", "))
}
