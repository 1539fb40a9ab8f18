//! The race under the given traffic, repeat by repeat.

use stats::race::{Fit, Limit, Noise, Race};
use stats::repeats;

use super::part::{Out, Part, planned_ns};
use crate::record::{AdviseGoal, AdviseLimit, TrialOutcome};

/// Contestants whose ratio is known to be within this distance of 1 are equal in practice.
pub const MARGIN: f64 = 0.02;
/// The repeats after which a race looks at its contestants. The distances grow, so that each look sees much that is new.
const LOOKS: [u32; 9] = [REPEATS_MIN, 4, 6, 9, 13, 19, 28, 41, REPEATS_MAX];
const REPEATS_MAX: u32 = 60;
/// The repeats before a decision.
pub(super) const REPEATS_MIN: u32 = repeats::REPEATS_MIN as u32;
/// The share of the time for the race, if other parts follow.
const RACE_SHARE: f64 = 0.6;

/// The state of the race under the given traffic.
pub(super) struct State {
    pub(super) out: Vec<Option<Out>>,
    /// The contestants of the next repeat.
    pub(super) among: Vec<usize>,
    pub(super) repeats: u32,
    pub(super) is_ended: bool,
    pub(super) fit: Fit,
    pub(super) limits: Vec<Limit>,
    /// The probability of an error in each test of the last look.
    alpha: f64,
}

impl State {
    /// Replays the race repeat by repeat.
    pub(super) fn of(part: &Part<'_>, goal: &AdviseGoal) -> Self {
        let count = part.templates.len();
        let mut race = Race::new(count, MARGIN.ln_1p());
        let time_max_ns = match goal.variations.iter().any(|it| it.first.is_ok()) {
            true => (goal.time_max_ns as f64 * RACE_SHARE) as u64,
            false => goal.time_max_ns,
        };
        let mut state = Self {
            out: vec![None; count],
            among: Vec::new(),
            repeats: 0,
            is_ended: false,
            fit: Fit::of(&[], Noise::default()),
            limits: Vec::new(),
            alpha: 0.0,
        };
        loop {
            state.out = part.out(&race, goal, state.repeats);
            state.among = (0..count).filter(|&it| state.out[it].is_none()).collect();
            let next = || part.heats(state.repeats, &state.among);
            let is_time_over = || part.elapsed_ns(state.repeats) + planned_ns(&next()) > time_max_ns;
            let is_last = state.repeats == REPEATS_MAX
                || state.among.len() < 2
                || state.repeats >= REPEATS_MIN
                    && (LOOKS.contains(&state.repeats) && state.are_equal() || is_time_over());
            if is_last {
                if state.repeats >= REPEATS_MIN && !LOOKS.contains(&state.repeats) {
                    state.look(&mut race, part, goal);
                    state.out = part.out(&race, goal, state.repeats);
                }
                state.is_ended = true;
                return state;
            }
            if !state.among.iter().all(|&it| part.is_done(it, state.repeats)) {
                state.look_without_decision(part, goal);
                return state;
            }
            state.repeats += 1;
            if LOOKS.contains(&state.repeats) {
                state.look(&mut race, part, goal);
            }
        }
    }

    /// Fits the scores of the complete repeats.
    fn look_without_decision(&mut self, part: &Part<'_>, goal: &AdviseGoal) {
        let fit =
            |score: &dyn Fn(&TrialOutcome) -> Option<f64>| Fit::of(&part.scores(self.repeats, score), Noise::default());
        self.fit = fit(&|outcome| goal.score(&outcome.values));
        let limit = |it: &AdviseLimit| Limit {
            fit: fit(&|outcome| it.figure.score_of(&outcome.values)),
            max: it.figure.score(it.value),
        };
        self.limits = goal.limits.iter().map(limit).collect();
    }

    fn look(&mut self, race: &mut Race, part: &Part<'_>, goal: &AdviseGoal) {
        self.look_without_decision(part, goal);
        race.look(&self.fit, &self.limits);
        self.alpha = race.alpha(self.limits.len());
    }

    /// Tests whether all contestants are known to be equal in practice.
    fn are_equal(&self) -> bool {
        let margin = MARGIN.ln_1p();
        let mut pairs = self
            .among
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.among[at + 1..].iter().map(move |other| (*one, *other)));
        pairs.all(|(one, other)| self.fit.are_within(one, other, margin, self.alpha))
    }
}
