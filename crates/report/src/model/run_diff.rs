//! Two runs side by side, of two kernels or two versions for example: the same trials of both, B against A.

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
    /// As [`FORMAT`].
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
    /// Facts that differ between the hosts, except those that change all the time.
    pub host_differences: Vec<HostDifference>,
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
pub struct HostDifference {
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
    /// The results in A.
    pub a: SideFigures,
    /// The results in B.
    pub b: SideFigures,
    /// Median service time, B against A; `None` unless both have a valid repeat.
    pub service_p50: Option<Change>,
    /// 99th percentile of service time, likewise; `None` as well where most repeats' may be the client's doing.
    pub service_p99: Option<Change>,
    /// Transactions a second of a closed loop, likewise; `None` in an open one, whose rate is asked for.
    pub rate: Option<Change>,
}

/// The results of one run for a pair.
#[derive(Clone, Debug, Serialize)]
pub struct SideFigures {
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
pub struct Change {
    /// The ratio of medians over valid repeats, B against A, and its interval.
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
    /// B does more a second: the interval is above 1.
    More,
    /// B does less a second: the interval is below 1.
    Less,
    /// The whole interval is within the margin.
    NoPracticalDifference,
    /// The interval includes 1.
    #[serde(rename = "not-told-apart")]
    NotSignificant,
    /// One of the two has fewer than two valid repeats.
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

    /// The same of a rate.
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

/// How many pairs differ which way in a figure.
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
