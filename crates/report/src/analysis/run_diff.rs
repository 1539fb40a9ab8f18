//! A comparison of two runs: the trials that both runs have, B against the baseline A.

use std::collections::BTreeMap;

use harness::record::figures::RunFigures;
use harness::record::{Figure, FigureMap, Run, RunHeader, Trial, TrialRecord, VerdictKind, Workload};
use load::config::Phases;
use schemars::JsonSchema;
use serde::Serialize;
use stats::{Estimate, Ratio, Repeat, family, ratio};

use super::FORMAT;
use super::setting::{self, Settings};
use super::summary::{MARGIN, Pruned, estimated, missing, pruned, repeats};
use super::workload::{is_same_traffic, order};
use crate::list::grouped;

/// Two runs, compared.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunDiff {
    /// [`FORMAT`].
    pub(crate) format: u32,
    pub(crate) interval_method: &'static str,
    pub(crate) margin: f64,
    pub(crate) a: Side,
    pub(crate) b: Side,
    /// Facts that differ between the hosts, except facts that vary on an unchanged host.
    pub(crate) host_differences: Vec<Difference>,
    pub(crate) sentence: String,
    /// Trials that both runs have, sorted by workload, then by architecture.
    pub(crate) pairs: Vec<Pair>,
    pub(crate) only_a: Vec<Planned>,
    pub(crate) only_b: Vec<Planned>,
}

/// A run's identity.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) muxbench: String,
    pub(crate) command: Vec<String>,
    /// RFC 3339 in UTC.
    pub(crate) started_at: String,
    pub(crate) seed: u64,
    pub(crate) placement: String,
}

/// A fact that differs between the hosts, or a setting that differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Difference {
    pub(crate) fact: String,
    /// The value of A; `absent` if A has none, or if it is unknown.
    pub(crate) a: String,
    /// The value of B; `absent` if B has none, or if it is unknown.
    pub(crate) b: String,
}

impl Difference {
    /// Compares the facts about two hosts, or the settings of two trials.
    pub(crate) fn all(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<Self> {
        harness::host::differences(a, b).into_iter().map(|(fact, a, b)| Self { fact, a, b }).collect()
    }
}

/// An architecture under a workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Planned {
    pub(crate) architecture: String,
    pub(crate) workload: Workload,
}

/// An architecture under the same workload in both runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Pair {
    pub(crate) architecture: String,
    pub(crate) workload: Workload,
    /// B's phases if they differ from A's; the rest of the workload is equal.
    pub(crate) phases_b: Option<Phases>,
    /// Settings of the server and the client that differ.
    pub(crate) setting_differences: Vec<Difference>,
    pub(crate) a: SideFigures,
    pub(crate) b: SideFigures,
    /// The figures, B against A, that both runs have. An open loop sets its rate, which is therefore not compared.
    pub(crate) changes: FigureMap<Change>,
}

/// The results of one run for a pair.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SideFigures {
    /// Number of finished repeats. Estimates of a valid row also use repeats that the server may have made unsteady.
    pub(crate) repeats: usize,
    pub(crate) repeats_valid: usize,
    pub(crate) not_valid: Vec<NotValid>,
    /// Reasons for missing repeats: the run's host could not run them, the sweep skipped their rate, or they have not
    /// been run yet.
    pub(crate) missing: Vec<String>,
    pub(crate) figures: FigureMap<f64>,
}

/// A finished repeat whose verdict is not valid.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NotValid {
    pub(crate) repeat: u32,
    pub(crate) verdict: VerdictKind,
    pub(crate) reason: String,
}

/// A change of a figure from A to B.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    /// The ratio over the repeats that estimates use, B to A, with its interval.
    #[serde(flatten)]
    pub(crate) ratio: Ratio,
    pub(crate) finding: ChangeKind,
    #[serde(skip)]
    more_is_better: bool,
}

/// The meaning of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeKind {
    /// B is worse: its time is longer, or its rate is lower.
    Slower,
    /// B is better.
    Faster,
    /// The whole interval is within the margin.
    NoPracticalDifference,
    /// Not significant. With the correction for the number of pairs, the interval may exclude 1.
    NotSignificant,
    /// At least one run has fewer than three repeats that estimates use.
    NoInterval,
}

impl Change {
    /// Compares the repeats of a figure in both runs. `more_is_better` means that more is better.
    pub(crate) fn of(a: &[Repeat], b: &[Repeat], more_is_better: bool) -> Option<Self> {
        let ratio = Ratio::unpaired(b, a)?;
        Some(Self { ratio, finding: ChangeKind::of(&ratio, more_is_better), more_is_better })
    }

    /// Corrects the findings of several changes of a figure: the more there are, the more would differ by chance.
    pub(crate) fn correct<'a>(changes: impl Iterator<Item = &'a mut Self>) {
        let mut changes: Vec<&mut Self> = changes.collect();
        family::adjust(changes.iter_mut().map(|change| &mut change.ratio));
        changes.iter_mut().for_each(|change| change.finding = ChangeKind::of(&change.ratio, change.more_is_better));
    }
}

impl ChangeKind {
    fn of(ratio: &Ratio, more_is_better: bool) -> Self {
        match ratio {
            _ if ratio.interval.is_none() => Self::NoInterval,
            _ if ratio.is_practically_one(MARGIN) => Self::NoPracticalDifference,
            _ if !ratio.differs_from_one() => Self::NotSignificant,
            _ if (ratio.ratio > 1.0) == more_is_better => Self::Faster,
            _ => Self::Slower,
        }
    }

    /// Counts findings in words. `slower` and `faster` are the words for those that differ.
    pub(crate) fn counted(changes: &[Option<&Change>], [slower, faster]: [&str; 2]) -> String {
        let kinds = [
            (Some(Self::Slower), slower),
            (Some(Self::Faster), faster),
            (Some(Self::NoPracticalDifference), "without practical difference"),
            (Some(Self::NotSignificant), "not significantly different"),
            (Some(Self::NoInterval), "without interval (see --repeats)"),
            (None, "not compared"),
        ];
        let count = |kind| changes.iter().filter(|change| change.map(|it| it.finding) == kind).count();
        let counts = kinds.iter().map(|(kind, words)| (count(*kind), words)).filter(|(count, _)| *count > 0);
        counts.map(|(count, words)| format!("{count} {words}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Slower => "B slower",
            Self::Faster => "B faster",
            Self::NoPracticalDifference => "no practical difference",
            Self::NotSignificant => "not significantly different",
            Self::NoInterval => "no interval",
        }
    }
}

impl RunDiff {
    /// Returns the rows of CSV: what both runs have, and what only one of them has.
    pub fn rows(&self) -> impl Iterator<Item = serde_json::Value> {
        let both = self.pairs.iter().map(|pair| serde_json::json!({ "runs": "both", "pair": pair }));
        let only = [("a", &self.only_a), ("b", &self.only_b)].into_iter().flat_map(|(runs, planned)| {
            planned.iter().map(move |planned| serde_json::json!({ "runs": runs, "pair": planned }))
        });
        both.chain(only)
    }

    /// Compares two runs, finished or not. Trials match if their architectures, options and workloads are equal. The
    /// remaining trials match if their architectures are equal and their workloads differ only in their phases, and then also
    /// if their options differ.
    pub fn of(a: &Run, b: &Run) -> Self {
        let (mut rest_a, mut rest_b) = (groups(a), groups(b));
        let mut pairs: Vec<Pair> = Vec::new();
        let is_equal: fn(&Workload, &Workload) -> bool = |a, b| a == b;
        // A run may have an architecture with several options: then those with equal options match first.
        for (needs_options, is_same) in
            [(true, is_equal), (true, is_same_traffic), (false, is_equal), (false, is_same_traffic)]
        {
            let is_match = |a: &Trial, b: &Trial| {
                let has_options = !needs_options || a.serve.options() == b.serve.options();
                a.architecture == b.architecture && has_options && is_same(&a.workload, &b.workload)
            };
            rest_a.retain(|group| {
                let found = rest_b.iter().position(|other| is_match(group.first, other.first));
                pairs.extend(found.map(|at| pair(group, rest_b.remove(at))));
                found.is_none()
            });
        }
        pairs.sort_by(|x, y| order(&x.workload, &y.workload).then(x.architecture.cmp(&y.architecture)));
        for figure in Figure::all() {
            Change::correct(pairs.iter_mut().filter_map(|pair| pair.changes[figure].as_mut()));
        }
        Self {
            format: FORMAT,
            interval_method: ratio::METHOD_UNPAIRED,
            margin: MARGIN,
            a: side(&a.header),
            b: side(&b.header),
            host_differences: Difference::all(&a.header.host, &b.header.host),
            sentence: sentence_of(&pairs),
            pairs,
            only_a: planned(&rest_a),
            only_b: planned(&rest_b),
        }
    }
}

/// The repeats of one architecture under one workload.
struct Group<'a> {
    first: &'a Trial,
    settings: Settings,
    figures: SideFigures,
    /// The figures, by repeat.
    repeats: FigureMap<Vec<Repeat>>,
}

fn groups(run: &Run) -> Vec<Group<'_>> {
    let pruned = pruned(run);
    let is_alike = |a: &&Trial, b: &&Trial| {
        a.architecture == b.architecture && a.serve.options() == b.serve.options() && a.workload == b.workload
    };
    // A placebo and references serve comparisons within their own run.
    let trials = run.header.trials.iter().filter(|trial| !trial.is_placebo && !trial.is_reference);
    let figures = RunFigures::new(&run.records);
    grouped(trials, is_alike).into_iter().map(|trials| group(run, &figures, &trials, &pruned)).collect()
}

fn group<'a>(run: &Run, figures: &RunFigures<'_>, trials: &[&'a Trial], pruned: &Pruned) -> Group<'a> {
    let is_one = |record: &&TrialRecord| trials.iter().any(|trial| trial.index == record.trial.index);
    let records: Vec<&TrialRecord> = run.records.iter().filter(is_one).collect();
    let estimated = estimated(&records);
    let of_figures = FigureMap::of(|figure| Some(repeats(figures, &estimated, figure)));
    let not_valid = records.iter().filter(|record| record.verdict.kind != VerdictKind::Valid).map(|record| NotValid {
        repeat: record.trial.repeat,
        verdict: record.verdict.kind,
        reason: record.verdict.reason.clone(),
    });
    let not_valid: Vec<NotValid> = not_valid.collect();
    let figures_of_side = SideFigures {
        repeats: records.len(),
        repeats_valid: records.len() - not_valid.len(),
        not_valid,
        missing: missing(trials, &records, pruned),
        figures: FigureMap::of(|figure| Some(Estimate::of(of_figures[figure].as_ref()?)?.value)),
    };
    let ran: Vec<&Trial> = records.iter().map(|record| &record.trial).collect();
    let settings = setting::of(&run.header, if ran.is_empty() { trials } else { &ran });
    Group { first: trials[0], settings, figures: figures_of_side, repeats: of_figures }
}

fn planned(groups: &[Group<'_>]) -> Vec<Planned> {
    let one =
        |Group { first, .. }: &Group<'_>| Planned { architecture: first.label(), workload: first.workload.clone() };
    let mut planned: Vec<Planned> = groups.iter().map(one).collect();
    planned.sort_by(|x, y| order(&x.workload, &y.workload).then(x.architecture.cmp(&y.architecture)));
    planned
}

fn pair(a: &Group<'_>, b: Group<'_>) -> Pair {
    let (workload, phases_b) = (&a.first.workload, b.first.workload.phases);
    let is_same_server = a.first.serve.options() == b.first.serve.options();
    let change = |figure: Figure| {
        let change = Change::of(a.repeats[figure].as_ref()?, b.repeats[figure].as_ref()?, figure.more_is_better());
        change.filter(|_| figure != Figure::Rate || workload.is_closed())
    };
    Pair {
        architecture: if is_same_server { a.first.label() } else { a.first.architecture.to_string() },
        workload: workload.clone(),
        phases_b: Some(phases_b).filter(|phases| *phases != workload.phases),
        setting_differences: Difference::all(&a.settings, &b.settings),
        changes: FigureMap::of(change),
        a: a.figures.clone(),
        b: b.figures,
    }
}

fn side(header: &RunHeader) -> Side {
    Side {
        name: header.name.clone(),
        muxbench: header.muxbench.clone(),
        command: header.command.clone(),
        started_at: header.started_at.clone(),
        seed: header.seed,
        placement: header.placement.clone(),
    }
}

fn sentence_of(pairs: &[Pair]) -> String {
    if pairs.is_empty() {
        return "The runs cannot be compared: they have no architecture under the same workload.".into();
    }
    // If bursts outlast the window, streams have only a rate.
    if pairs.iter().all(|pair| pair.changes.iter().next().is_none()) {
        return "The runs cannot be compared: no trial is valid in both.".into();
    }
    let (closed, open): (Vec<&Pair>, Vec<&Pair>) = pairs.iter().partition(|pair| pair.workload.is_closed());
    let (streams, closed): (Vec<&Pair>, Vec<&Pair>) =
        closed.into_iter().partition(|pair| pair.workload.service.stream().is_some());
    let figures = [
        (open, "Median service time", Figure::P50),
        (closed, "Transactions per second", Figure::Rate),
        (streams, "Bandwidth", Figure::Rate),
    ];
    let figures = figures.into_iter().filter(|(pairs, ..)| !pairs.is_empty());
    figures.map(|(pairs, name, figure)| counted(&pairs, name, figure)).collect::<Vec<_>>().join(" ")
}

/// Counts the pairs by the change of one figure.
fn counted(pairs: &[&Pair], name: &str, figure: Figure) -> String {
    let changes: Vec<Option<&Change>> = pairs.iter().map(|pair| pair.changes[figure].as_ref()).collect();
    let counts = ChangeKind::counted(&changes, ["slower", "faster"]);
    format!("{name} of B against A, {} pairs: {}.", pairs.len(), counts)
}
