//! A part of a race's plan: a trial for each contestant under one workload, which each repeat runs again.

use load::config::{ClientConfig, Slices};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use stats::Histogram;
use stats::race::{Fit, Noise, Race, Score, Standing};

use crate::plan::{self, duration_ns};
use crate::record::figures::repeats_of_times;
use crate::record::{AdviseGoal, Figure, RunHeader, Strategy, Trial, TrialOutcome};
use crate::strategy::{elapsed_ns, must_stay_separate};

/// Separate trials of a repeat have this heat, plus the number of the repeat.
const SEPARATE: u32 = 1 << 31;

/// The trials past saturation, or failed, after which a contestant is out.
const PAST_MAX: usize = 2;

/// Why a contestant is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// This host cannot run it.
    CannotRun,
    /// Its trials failed or were past saturation.
    CannotKeepUp,
    /// It exceeds the limit of this figure.
    Exceeds(Figure),
    /// It is worse than another contestant by more than the margin.
    Worse,
}

/// Returns the estimated time of heats in nanoseconds.
pub(super) fn planned_ns(heats: &[Vec<Trial>]) -> u64 {
    heats.iter().flatten().map(duration_ns).sum()
}

/// Replaces the percentiles of a contestant's repeats by their contributions to those of its merged requests, so that their geometric
/// mean is the percentile of all requests. The mean of percentiles is not: a stall in one repeat may hold the slowest requests of all.
fn merge_times(outcomes: &mut [(usize, u32, TrialOutcome)], contestant: usize) {
    for figure in Figure::quantiles() {
        let Some((q, _)) = figure.quantile() else { continue };
        let mut own: Vec<(&Histogram, &mut Option<f64>)> = Vec::new();
        for (of, _, outcome) in outcomes.iter_mut() {
            let value = Some(&mut outcome.values[figure]).filter(|it| *of == contestant && it.is_some());
            own.extend(outcome.times.as_ref().zip(value));
        }
        let (times, values): (Vec<&Histogram>, Vec<&mut Option<f64>>) = own.into_iter().unzip();
        let places: Vec<u32> = (0..times.len() as u32).collect();
        for (value, repeat) in values.into_iter().zip(repeats_of_times(&places, &times, q)) {
            *value = Some(repeat.log.exp());
        }
    }
}

/// The trials and outcomes of a part.
pub(super) struct Part<'a> {
    /// The trials of the first repeat, in the order of the contestants.
    pub(super) templates: &'a [Trial],
    /// The contestant and the repeat of each outcome.
    outcomes: Vec<(usize, u32, TrialOutcome)>,
    seed: u64,
    /// The index of the first trial, and the number of trials in all parts.
    first: u32,
    stride: u32,
}

impl<'a> Part<'a> {
    /// Returns the part whose first trial has the index `first`.
    pub(super) fn new(header: &'a RunHeader, outcomes: &[TrialOutcome], first: u32) -> Self {
        let Strategy::Advise(goal) = &header.strategy else { unreachable!("only races have parts") };
        let (stride, count) = (header.trials.len() as u32, goal.contestants);
        let of_part = |outcome: &TrialOutcome| {
            let contestant = (outcome.index % stride).checked_sub(first).filter(|it| *it < count)?;
            Some((contestant as usize, outcome.index / stride, outcome.clone()))
        };
        let mut outcomes: Vec<_> = outcomes.iter().filter_map(of_part).collect();
        (0..count as usize).for_each(|contestant| merge_times(&mut outcomes, contestant));
        let templates = &header.trials[first as usize..(first + count) as usize];
        Self { templates, outcomes, seed: header.seed, first, stride }
    }

    fn of(&self, contestant: usize) -> impl Iterator<Item = &(usize, u32, TrialOutcome)> {
        self.outcomes.iter().filter(move |it| it.0 == contestant)
    }

    pub(super) fn is_done(&self, contestant: usize, repeat: u32) -> bool {
        self.of(contestant).any(|it| it.1 == repeat)
    }

    /// Returns the repeats that a contestant ran.
    pub(super) fn repeats_of(&self, contestant: usize) -> u32 {
        self.of(contestant).count() as u32
    }

    /// Returns the first outcome of a contestant.
    pub(super) fn first_of(&self, contestant: usize) -> Option<&TrialOutcome> {
        self.of(contestant).map(|it| &it.2).next()
    }

    /// Tests whether all trials of a contestant failed or were past saturation.
    pub(super) fn is_past(&self, contestant: usize) -> bool {
        self.of(contestant).count() > 0 && self.of(contestant).all(|it| it.2.is_past)
    }

    /// Returns the time of the trials before a repeat, in nanoseconds.
    pub(super) fn elapsed_ns(&self, before: u32) -> u64 {
        elapsed_ns(&self.outcomes.iter().filter(|it| it.1 < before).map(|it| it.2.clone()).collect::<Vec<_>>())
    }

    /// Returns why each contestant is out before a repeat.
    pub(super) fn out(&self, race: &Race, goal: &AdviseGoal, repeat: u32) -> Vec<Option<Out>> {
        let out = |(contestant, template): (usize, &Trial)| {
            let past = self.of(contestant).filter(|it| it.1 < repeat && it.2.is_past).count();
            match race.standings()[contestant] {
                _ if !template.infeasible.is_empty() => Some(Out::CannotRun),
                _ if past >= PAST_MAX => Some(Out::CannotKeepUp),
                Standing::In => None,
                Standing::Worse => Some(Out::Worse),
                Standing::Exceeds(limit) => Some(Out::Exceeds(goal.limits[limit].figure)),
            }
        };
        self.templates.iter().enumerate().map(out).collect()
    }

    /// Returns the scores of the repeats before `repeats`.
    pub(super) fn scores(&self, repeats: u32, score: impl Fn(&TrialOutcome) -> Option<f64>) -> Vec<Score> {
        let score = |(contestant, repeat, outcome): &(usize, u32, TrialOutcome)| {
            // Separate trials of a repeat are neighbours in time.
            let heat = if outcome.is_alone { SEPARATE | repeat } else { outcome.heat };
            Some(Score { contestant: *contestant, heat, value: score(outcome)? })
        };
        self.outcomes.iter().filter(|it| it.1 < repeats).filter_map(score).collect()
    }

    /// Fits the scores of a figure.
    pub(super) fn fit_of(&self, figure: Figure) -> Fit {
        Fit::of(&self.scores(u32::MAX, |outcome| figure.score_of(&outcome.values)), Noise::default())
    }

    /// Returns the heats of a repeat under the traffic of the templates.
    pub(super) fn heats(&self, repeat: u32, among: &[usize]) -> Vec<Vec<Trial>> {
        self.heats_of(repeat, among, |template, place| plan::repeated(template, self.seed, place))
    }

    /// Returns the heats of a repeat whose trials are not done. Groups of contestants are drawn for each repeat, so that all meet in some
    /// heat. A contestant that [`must_stay_separate`] runs separately again. `trial` makes a trial from its template,
    /// its index and its repeat.
    pub(super) fn heats_of(
        &self,
        repeat: u32,
        among: &[usize],
        trial: impl Fn(&Trial, (u32, u32)) -> Trial,
    ) -> Vec<Vec<Trial>> {
        let index = |contestant: usize| repeat * self.stride + self.first + contestant as u32;
        let mut order = among.to_vec();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(self.seed.wrapping_add(index(0).into())));
        let can_share = |contestant: &usize| {
            let separated = self.of(*contestant).filter(|it| it.1 < repeat && it.2.is_separated);
            let had_to = must_stay_separate(repeat, separated.map(|it| it.1));
            self.templates[*contestant].client.slices.is_some() && !had_to
        };
        let (sharing, alone): (Vec<usize>, Vec<usize>) = order.into_iter().partition(can_share);
        let size_of = |contestant: &usize| self.templates[*contestant].client.slices.map(|it| it.contestants as usize);
        let size_max = sharing.iter().filter_map(size_of).max().unwrap_or(1);
        let groups = sharing.len().div_ceil(size_max).max(1);
        let group = |at: usize| sharing[sharing.len() * at / groups..sharing.len() * (at + 1) / groups].to_vec();
        let heats = (0..groups).map(group).chain(alone.into_iter().map(|it| vec![it]));
        let heat = |group: Vec<usize>| -> Vec<Trial> {
            let Some(heat) = group.first().map(|&it| index(it)) else { return Vec::new() };
            let open: Vec<usize> = group.into_iter().filter(|&it| !self.is_done(it, repeat)).collect();
            let contestants = open.len() as u32;
            let trial = |(contestant, it): (u32, &usize)| {
                let trial = trial(&self.templates[*it], (index(*it), repeat));
                let shared = trial.client.slices.filter(|_| contestants > 1 && can_share(it));
                let Some(slices) = shared else { return trial.alone() };
                let slices = Slices { heat, contestants, contestant, seed: trial.client.seed, ..slices };
                Trial { client: ClientConfig { slices: Some(slices), ..trial.client }, ..trial }
            };
            (0..).zip(&open).map(trial).collect()
        };
        heats.map(heat).filter(|heat| !heat.is_empty()).collect()
    }
}
