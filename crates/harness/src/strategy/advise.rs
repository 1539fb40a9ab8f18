//! Races: repeats of all architectures, of which each look eliminates those that are known to be worse. Then short races of the best
//! ones under changed traffic, which show where the answer changes.
//!
//! The plan has a part for the given traffic and parts for changed traffic. A part has a trial for each contestant. Each repeat runs
//! these trials again, for the contestants that are still in.

mod choice;
mod confirm;
mod part;
mod race;
pub mod variations;

use std::borrow::Cow;

use stats::Ratio;
use stats::race::Fit;

pub use choice::{Choice, TieBreak};
pub use part::Out;
use part::{Part, planned_ns};
pub use race::MARGIN;
use race::{REPEATS_MIN, State};
pub use variations::{Change, Variation};

use super::{Rest, Rules, elapsed_ns, gate};
use crate::plan::duration_ns;
use crate::record::{AdviseGoal, Figure, Run, RunHeader, Strategy, Trial, TrialOutcome, TrialRecord, VerdictKind};
use crate::spec::Experiment;

/// The knowledge about a race.
#[derive(Clone, Debug)]
pub struct Advice<'a> {
    /// The trials of the first repeat, one for each contestant.
    pub contestants: &'a [Trial],
    /// Why each contestant is out; `None` if it may be the best.
    pub out: Vec<Option<Out>>,
    /// The complete repeats.
    pub repeats: u32,
    /// The repeats that each contestant ran.
    pub repeats_of: Vec<u32>,
    /// Whether the race has ended. Its answer may be a tie.
    pub is_ended: bool,
    /// The scores of the objective.
    pub fit: Fit,
    /// The winner; `None` before the third repeat, or if no contestant is usable.
    pub choice: Option<Choice>,
    /// The findings under changed traffic.
    pub variations: Vec<Variation>,
    figures: Vec<(Figure, Fit)>,
}

impl Advice<'_> {
    /// Returns the ratio of a contestant's objective to another's. `None` without scores.
    pub fn ratio(&self, of: usize, to: usize) -> Option<Ratio> {
        self.fit.ratio(of, to)
    }

    /// Returns the mean value of a figure; `None` if it is unknown.
    pub fn value(&self, figure: Figure, contestant: usize) -> Option<f64> {
        let (_, fit) = self.figures.iter().find(|(of, _)| *of == figure)?;
        Some(figure.value(fit.effect(contestant)?))
    }
}

/// Returns the knowledge after these outcomes. `None` for other runs.
pub fn advice<'a>(header: &'a RunHeader, outcomes: &[TrialOutcome]) -> Option<Advice<'a>> {
    let Strategy::Advise(goal) = &header.strategy else { return None };
    let race = Part::new(header, outcomes, 0);
    let state = State::of(&race, goal);
    let figures: Vec<(Figure, Fit)> = Figure::limited().map(|figure| (figure, race.fit_of(figure))).collect();
    let choice =
        (state.repeats >= REPEATS_MIN).then(|| choice::choose(&state, goal, &figures, race.templates)).flatten();
    let variations = choice.as_ref().filter(|_| state.is_ended).map_or_else(Vec::new, |choice| {
        let finalists = choice.finalists();
        goal.variations.iter().map(|part| Variation::of(part, header, goal, outcomes, &finalists, &state.fit)).collect()
    });
    Some(Advice {
        contestants: race.templates,
        repeats_of: (0..race.templates.len()).map(|it| race.repeats_of(it)).collect(),
        out: state.out,
        repeats: state.repeats,
        is_ended: state.is_ended,
        fit: state.fit,
        choice,
        variations,
        figures,
    })
}

/// Returns the estimated time of a race that ends as soon as it may, in nanoseconds. 0 if fewer than two contestants can run.
pub fn shortest_ns(contestants: &[Trial]) -> u64 {
    let can_run: Vec<&Trial> = contestants.iter().filter(|trial| trial.infeasible.is_empty()).collect();
    if can_run.len() < 2 {
        return 0;
    }
    u64::from(REPEATS_MIN) * can_run.into_iter().map(duration_ns).sum::<u64>()
}

/// Returns the experiment that compares the winner with the next best contestants. `None` without a winner.
pub fn confirmation(header: &RunHeader, advice: &Advice<'_>) -> Option<Experiment> {
    let Strategy::Advise(goal) = &header.strategy else { return None };
    confirm::experiment(goal, advice.choice.as_ref()?, advice.contestants)
}

impl Rules for AdviseGoal {
    /// A race blames a server only for its own faults.
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        outcome.is_past = matches!(record.verdict.kind, VerdictKind::Saturated | VerdictKind::Failed);
        for figure in Figure::limited() {
            outcome.values[figure] = gate::value(figure, record);
        }
        outcome.times = record.load.as_ref().map(|load| load.service.histogram.clone());
    }

    /// The heats of the current repeat of the race, or of a repeat under changed traffic.
    fn due(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<Trial> {
        let race = Part::new(header, outcomes, 0);
        let state = State::of(&race, self);
        if !state.is_ended {
            return race.heats(state.repeats, &state.among).concat();
        }
        let Some(advice) = advice(header, outcomes) else { return Vec::new() };
        let Some(finalists) = advice.choice.as_ref().map(Choice::finalists) else { return Vec::new() };
        let elapsed_ns = elapsed_ns(outcomes);
        let mut open: Vec<(u32, usize)> = Vec::new();
        for (at, variation) in advice.variations.iter().enumerate() {
            open.extend(variation.next_repeat().map(|repeat| (repeat, at)));
        }
        open.sort_unstable();
        open.into_iter()
            .map(|(_, at)| {
                variations::heats(&self.variations[at], &advice.variations[at], header, outcomes, &finalists)
            })
            .find(|heats| !heats.is_empty() && elapsed_ns + planned_ns(heats) <= self.time_max_ns)
            .unwrap_or_default()
            .concat()
    }

    fn rest(&self, _: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        Rest::of_time(self.time_max_ns, outcomes)
    }

    fn is_open_ended(&self) -> bool {
        true
    }

    fn command(&self) -> &'static str {
        "advise"
    }
}

/// Returns a race as if its trials had been planned, for reports that compare planned trials. Other runs stay as they are.
pub fn as_planned(run: &Run) -> Cow<'_, Run> {
    if !matches!(run.header.strategy, Strategy::Advise(_)) {
        return Cow::Borrowed(run);
    }
    let mut run = run.clone();
    run.header.strategy = Strategy::Whole;
    run.header.trials = run.records.iter().map(|record| record.trial.clone()).collect();
    Cow::Owned(run)
}

#[cfg(test)]
mod tests;
