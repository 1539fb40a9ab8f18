//! Changed traffic, under which the winner of a race may lose: the changes of an experiment, and their short races.

use std::num::NonZeroU32;

use server::service::work::Times;
use stats::Ratio;
use stats::race::Fit;
use stats::sequential::level;

use super::part::Part;
use crate::host::Host;
use crate::plan::{self, Plan};
use crate::record::{AdviseGoal, AdvisePart, Figure, RunHeader, Strategy, Trial, TrialOutcome};
use crate::spec::units::{Rate, Share, Size, Sizes, Work};
use crate::spec::{Experiment, OneOrMany, Schedule, Service};

/// The share of the winner's capacity at which the contestants race.
const CAPACITY_SHARE: f64 = 0.8;
/// Rates within this ratio of the given one change nothing.
const RATE_RATIO_MIN: f64 = 1.1;
/// The most repeats under one change.
const REPEATS_MAX: u32 = 3;
const FACTOR: u32 = 10;
/// The added wait, as for a database: much longer than the CPU time of a request.
const WAIT_NS: u64 = 10_000_000;
/// The share of its time that a connection may wait. Beyond it, requests queue in their connections in every architecture.
const BUSY_MAX: f64 = 0.5;
/// The reason of parts whose turn did not come.
const NO_TIME: &str = "the time was over; try a longer --budget";

/// How the answer changes with the traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The winner is better than all other contestants of this part.
    Stays,
    /// Another contestant is better than the winner.
    Flips {
        /// The best contestant.
        to: usize,
        /// The ratio of the winner's objective to its; `None` if the winner cannot keep up.
        ratio: Option<Ratio>,
    },
    /// Neither is known.
    Open,
    /// No contestant was measured, for this reason.
    NotMeasured(String),
}

/// The finding of a part.
#[derive(Clone, Debug)]
pub struct Variation {
    /// The change in words.
    pub name: String,
    /// The changed traffic in words.
    pub about: String,
    /// The complete repeats.
    pub repeats: u32,
    /// The finding.
    pub change: Change,
    /// The contestant with the best score, if any has one.
    pub best: Option<usize>,
    /// The ratio of the next best contestant to it.
    pub lead: Option<Ratio>,
    /// The capacity of the winner in responses per second, if the part measured it.
    pub capacity_per_s: Option<f64>,
    is_over: bool,
}

/// Changes an experiment. Returns the changed traffic in words, or why the change is impossible.
type Apply = fn(&mut Experiment) -> Result<String, String>;

const CHANGES: [(&str, Apply); 6] = [
    ("connections x2", |it| connections(it, 2)),
    ("connections x5", |it| connections(it, 5)),
    ("active share / 4", active),
    ("work x10", work),
    ("waits of 10 ms", waits),
    ("size x10", size),
];
const CAPACITY: &str = "rate 0.8 of capacity";

/// Sorts the trials of an experiment with one workload by its servers: the plan of a race without changed traffic. Returns the number
/// of contestants too.
pub fn unchanged(mut plan: Plan, experiment: &Experiment) -> (Plan, u32) {
    plan.trials = templates(experiment, &plan);
    (0..).zip(&mut plan.trials).for_each(|(index, trial)| trial.index = index);
    let count = plan.trials.len() as u32;
    (plan, count)
}

/// Adds the parts with changed traffic to the plan of an experiment with one workload. Returns the number of contestants too.
pub fn planned(plan: Plan, experiment: &Experiment, host: &Host) -> (Plan, u32, Vec<AdvisePart>) {
    let (mut plan, count) = unchanged(plan, experiment);
    let base = plan.trials.clone();
    let mut parts = Vec::new();
    let mut add = |name: &str, about: String, found: Result<Vec<Trial>, String>, trials: &mut Vec<Trial>| {
        let first = found.map(|found| {
            let first = trials.len() as u32;
            trials.extend(found);
            first
        });
        parts.push(AdvisePart { name: name.to_owned(), about, first, finds_capacity: name == CAPACITY });
    };
    let found = |experiment: &Experiment| {
        experiment.check()?;
        let found = templates(experiment, &plan::plan(experiment, host)?);
        let can_run = found.iter().filter(|trial| trial.infeasible.is_empty()).count();
        match found.first() {
            Some(first) if can_run < 2 => Err(first.infeasible.join("; ")),
            _ if found.len() == base.len() => Ok(found),
            _ => Err("the plan has other servers".to_owned()),
        }
    };
    for (name, apply) in CHANGES {
        let mut changed = experiment.clone();
        let (about, trials) = match apply(&mut changed) {
            Ok(about) => (about, found(&changed)),
            Err(reason) => (String::new(), Err(reason)),
        };
        add(name, about, trials, &mut plan.trials);
        if name == CHANGES[2].0 {
            let both = closed(experiment).and_then(|closed| Ok([found(&closed)?, base.clone()].concat()));
            add(CAPACITY, String::new(), both, &mut plan.trials);
        }
    }
    (0..).zip(&mut plan.trials).for_each(|(index, trial)| trial.index = index);
    (plan, count, parts)
}

/// Returns the trials of a plan in the order of the experiment's servers.
fn templates(experiment: &Experiment, plan: &Plan) -> Vec<Trial> {
    let of = |server: &_| plan.trials.iter().find(|it| it.architecture == *server && !it.is_reference).cloned();
    experiment.architectures.0.iter().filter_map(of).collect()
}

fn connections(experiment: &mut Experiment, factor: u32) -> Result<String, String> {
    let (list, noun) = match experiment.workload.service {
        Service::Udp => (&mut experiment.workload.ports, "ports"),
        _ => (&mut experiment.workload.connections, "connections"),
    };
    list.0.iter_mut().for_each(|it| *it = it.saturating_mul(NonZeroU32::new(factor).unwrap_or(NonZeroU32::MIN)));
    Ok(format!("{} {noun}", list.0.first().map_or(0, |it| it.get())))
}

fn active(experiment: &mut Experiment) -> Result<String, String> {
    let workload = &mut experiment.workload;
    let share = workload.active.0.first().map_or(1.0, |it| it.0) / 4.0;
    let connections = workload.targets().first().map_or(0, |it| it.get());
    if share * f64::from(connections) < 1.0 {
        return Err(format!("a quarter of the active ones of {connections} connections is less than one"));
    }
    workload.active = OneOrMany(vec![Share(share)]);
    Ok(format!("{} of the connections active", Share(share)))
}

fn work(experiment: &mut Experiment) -> Result<String, String> {
    check_built_in(experiment)?;
    let work = experiment.workload.simulated_work.as_mut();
    let work = work.ok_or("the traffic has no simulated work; try --simulated-work")?;
    let Work(server::Work { cpu, busy, sleep, wait, .. }) = work;
    [cpu, busy, sleep, wait].into_iter().flatten().for_each(|times| times.scale(FACTOR));
    Ok(format!("work {work}"))
}

/// Adds waits, if they leave connections time for their requests, which wait one after the other.
fn waits(experiment: &mut Experiment) -> Result<String, String> {
    check_built_in(experiment)?;
    let workload = &mut experiment.workload;
    let work = &mut workload.simulated_work.get_or_insert_with(|| Work(server::Work::default())).0;
    if work.wait.is_some() {
        return Err("the traffic has waits".to_owned());
    }
    work.wait = Some(Times::Constant { time_ns: WAIT_NS });
    let share = workload.active.0.first().map_or(1.0, |it| it.0);
    let active = share * workload.connections.0.first().map_or(0.0, |it| f64::from(it.get()));
    let rate_per_s = workload.rate.as_ref().and_then(|rates| rates.0.first()).map_or(0.0, |rate| rate.0);
    let busy = rate_per_s * WAIT_NS as f64 / 1e9 / active;
    if busy > BUSY_MAX {
        return Err(format!(
            "{active} active connections are too few for {rate_per_s} requests/s that wait 10 ms one after the other; try more"
        ));
    }
    Ok("waits of 10 ms".to_owned())
}

fn size(experiment: &mut Experiment) -> Result<String, String> {
    check_built_in(experiment)?;
    let larger = |size: Size| size.0.checked_mul(FACTOR).map(Size).ok_or(format!("{size} x10 is too large"));
    let workload = &mut experiment.workload;
    match workload.service {
        Service::Kv | Service::Redis => {
            let sizes = &mut workload.kv.get_or_insert_default().value_size;
            *sizes = Sizes { least: larger(sizes.least)?, most: larger(sizes.most)? };
            return Ok(format!("values of {sizes}"));
        }
        Service::Stream => return Err("bursts have no size to change".to_owned()),
        Service::Http if workload.response.is_none() => {
            return Err("the requests determine the size of the responses".to_owned());
        }
        Service::Fixed | Service::Udp | Service::Http => {}
    }
    for size in [&mut workload.request, &mut workload.response].into_iter().flatten() {
        *size = larger(*size)?;
    }
    let shown = |size: Option<Size>| size.map(|it| it.to_string());
    let sizes: Vec<String> = [workload.request, workload.response].into_iter().filter_map(shown).collect();
    Ok(sizes.join(" -> "))
}

/// Checks that all servers are built in, and so follow the experiment.
fn check_built_in(experiment: &Experiment) -> Result<(), String> {
    let external = experiment.architectures.0.iter().find(|it| it.ours().is_none());
    external.map_or(Ok(()), |it| Err(format!("{it} determines it")))
}

/// Returns the experiment as a closed loop, whose rate is the capacity.
fn closed(experiment: &Experiment) -> Result<Experiment, String> {
    let mut closed = experiment.clone();
    let workload = &mut closed.workload;
    if workload.is_closed() {
        return Err("a closed loop is at capacity already".to_owned());
    }
    if workload.trace.is_some() {
        return Err("a trace has its own rate".to_owned());
    }
    workload.schedule = OneOrMany(vec![Schedule::Closed]);
    (workload.rate, workload.rate_profile) = (None, None);
    Ok(closed)
}

impl Variation {
    /// Returns the finding of a part after these outcomes. The noise of the race counts too, because a part has few repeats.
    pub(super) fn of(
        part: &AdvisePart,
        header: &RunHeader,
        goal: &AdviseGoal,
        outcomes: &[TrialOutcome],
        finalists: &[usize],
        race: &Fit,
    ) -> Self {
        let mut variation = Self {
            name: part.name.clone(),
            about: part.about.clone(),
            repeats: 0,
            change: Change::Open,
            best: None,
            lead: None,
            capacity_per_s: None,
            is_over: true,
        };
        let Ok(first) = &part.first else {
            let reason = part.first.as_ref().err().cloned().unwrap_or_default();
            return Self { change: Change::NotMeasured(reason), ..variation };
        };
        let mut first = *first;
        if part.finds_capacity {
            let closed = Part::new(header, outcomes, first);
            let Some(outcome) = closed.first_of(finalists[0]) else {
                return Self { change: Change::NotMeasured(NO_TIME.to_owned()), is_over: false, ..variation };
            };
            let rate = Figure::Rate.score_of(&outcome.values).map(|score| Figure::Rate.value(score));
            variation.capacity_per_s = rate;
            let given_per_s = header.trials[first as usize + goal.contestants as usize].workload.rate_per_s();
            let reason = match (rate, given_per_s) {
                (None, _) => Some("the capacity is unknown: the closed loop gave no usable result".to_owned()),
                (Some(rate), Some(given)) if is_near(CAPACITY_SHARE * rate / given) => {
                    Some("the given rate is close to it".to_owned())
                }
                (Some(rate), _) => {
                    variation.about = format!("{} requests/s", Rate(rounded(CAPACITY_SHARE * rate)));
                    None
                }
            };
            if let Some(reason) = reason {
                return Self { change: Change::NotMeasured(reason), ..variation };
            }
            first += goal.contestants;
        }
        let part = Part::new(header, outcomes, first);
        let among: Vec<usize> = can_run(&part, finalists);
        let is_complete = |repeat: &u32| among.iter().all(|&it| part.is_done(it, *repeat));
        variation.repeats = (0..REPEATS_MAX).take_while(is_complete).count() as u32;
        if !among.contains(&finalists[0]) {
            let reason = part.templates[finalists[0]].infeasible.join("; ");
            return Self { change: Change::NotMeasured(reason), ..variation };
        }
        variation.judge(&part, goal, &among, race);
        variation.is_over =
            variation.repeats == REPEATS_MAX || variation.repeats > 0 && variation.change != Change::Open;
        if variation.repeats == 0 {
            variation.change = Change::NotMeasured(NO_TIME.to_owned());
        }
        variation
    }

    /// Judges the complete repeats.
    fn judge(&mut self, part: &Part<'_>, goal: &AdviseGoal, among: &[usize], race: &Fit) {
        let winner = among[0];
        let scores = part.scores(self.repeats, |outcome| goal.score(&outcome.values));
        let has_score = |it: &usize| scores.iter().any(|score| score.contestant == *it);
        let fit = Fit::of(&scores, race.noise());
        let mut usable: Vec<usize> = among.iter().copied().filter(|&it| has_score(&it) && !part.is_past(it)).collect();
        usable.sort_by(|a, b| fit.effect(*a).unwrap_or(f64::MAX).total_cmp(&fit.effect(*b).unwrap_or(f64::MAX)));
        // One failure may be the host's, so the change stays open after the first one.
        let is_first = self.repeats < 2;
        let Some(&best) = usable.first() else {
            let is_past = among.iter().all(|&it| part.is_past(it));
            if self.repeats > 0 && !(is_past && is_first) {
                let reason = if is_past { "no contestant keeps up" } else { "no usable result" };
                self.change = Change::NotMeasured(reason.to_owned());
            }
            return;
        };
        self.best = Some(best);
        self.lead = usable.get(1).and_then(|&next| fit.ratio(next, best));
        // Each repeat is a look.
        let alpha = level(self.repeats.max(1)) / usable.len().saturating_sub(1).max(1) as f64;
        let is_led = |it: usize| fit.is_worse(it, best, 0.0, alpha);
        self.change = if part.is_past(winner) && is_first {
            Change::Open
        } else if part.is_past(winner) {
            Change::Flips { to: best, ratio: None }
        } else if best == winner && usable[1..].iter().all(|&it| is_led(it)) {
            Change::Stays
        } else if best != winner && is_led(winner) {
            Change::Flips { to: best, ratio: fit.ratio(winner, best) }
        } else {
            Change::Open
        };
    }

    /// Returns the next repeat of a part that is not over.
    pub(super) fn next_repeat(&self) -> Option<u32> {
        (!self.is_over).then_some(self.repeats)
    }
}

/// Returns the next heats of a part: the closed loop of the winner, or a repeat of the finalists.
pub(super) fn heats(
    part: &AdvisePart,
    variation: &Variation,
    header: &RunHeader,
    outcomes: &[TrialOutcome],
    finalists: &[usize],
) -> Vec<Vec<Trial>> {
    let (Ok(first), Strategy::Advise(goal)) = (&part.first, &header.strategy) else { return Vec::new() };
    if !part.finds_capacity {
        let part = Part::new(header, outcomes, *first);
        return part.heats(variation.repeats, &can_run(&part, finalists));
    }
    let Some(capacity_per_s) = variation.capacity_per_s else {
        return Part::new(header, outcomes, *first).heats(0, &finalists[..1]);
    };
    let part = Part::new(header, outcomes, first + goal.contestants);
    let rate_per_s = rounded(CAPACITY_SHARE * capacity_per_s);
    part.heats_of(variation.repeats, &can_run(&part, finalists), |trial, place| {
        let Trial { workload, .. } = trial;
        plan::probe(trial, header.seed, place, (rate_per_s, workload.connections), workload.phases.measure_ns)
    })
}

fn can_run(part: &Part<'_>, finalists: &[usize]) -> Vec<usize> {
    finalists.iter().copied().filter(|&it| part.templates[it].infeasible.is_empty()).collect()
}

fn is_near(ratio: f64) -> bool {
    (1.0 / RATE_RATIO_MIN..=RATE_RATIO_MIN).contains(&ratio)
}

/// Rounds a rate to two digits.
fn rounded(rate_per_s: f64) -> f64 {
    let unit = 10f64.powf(rate_per_s.log10().floor() - 1.0);
    (rate_per_s / unit).round() * unit
}
