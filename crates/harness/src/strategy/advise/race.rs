//! The race under the given traffic, round by round.

use stats::race::{Fit, Limit, Noise, Race};
use stats::sequential::level;

use super::part::{Out, Part, planned_ns};
use crate::model::{AdviseGoal, AdviseLimit, TrialOutcome};

/// Contestants whose ratio is known to be within this distance of 1 are equal in practice.
pub const MARGIN: f64 = 0.02;
/// The rounds after which a race looks at its contestants. The distances grow, so that each look sees much that is new.
const LOOKS: [u32; 10] = [2, 3, 4, 6, 9, 13, 19, 28, 41, ROUNDS_MAX];
const ROUNDS_MAX: u32 = 60;
/// The rounds before a decision: noise is unknown after a single one.
pub(super) const ROUNDS_MIN: u32 = 2;
/// The share of the time for the race, if other parts follow.
const RACE_SHARE: f64 = 0.6;

/// The state of the race under the given traffic.
pub(super) struct State {
    pub(super) out: Vec<Option<Out>>,
    /// The contestants of the next round.
    pub(super) among: Vec<usize>,
    pub(super) rounds: u32,
    pub(super) is_ended: bool,
    pub(super) fit: Fit,
    pub(super) limits: Vec<Limit>,
}

impl State {
    /// Replays the race round by round.
    pub(super) fn of(part: &Part<'_>, goal: &AdviseGoal) -> Self {
        let count = part.templates.len();
        let mut race = Race::new(count, MARGIN.ln_1p());
        let mut looks = 0;
        let time_max_ns = match goal.variations.iter().any(|it| it.first.is_ok()) {
            true => (goal.time_max_ns as f64 * RACE_SHARE) as u64,
            false => goal.time_max_ns,
        };
        let mut state = Self {
            out: vec![None; count],
            among: Vec::new(),
            rounds: 0,
            is_ended: false,
            fit: Fit::of(&[], Noise::default()),
            limits: Vec::new(),
        };
        loop {
            state.out = part.out(&race, goal, state.rounds);
            state.among = (0..count).filter(|&it| state.out[it].is_none()).collect();
            let alpha = level(looks.max(1)) / count.saturating_sub(1).max(1) as f64;
            let next = || part.heats(state.rounds, &state.among, |trial, place| part.again(trial, place));
            let is_time_over = || part.elapsed_ns(state.rounds) + planned_ns(&next()) > time_max_ns;
            let is_last = state.rounds == ROUNDS_MAX
                || state.among.len() < 2
                || state.rounds >= ROUNDS_MIN
                    && (LOOKS.contains(&state.rounds) && state.are_equal(alpha) || is_time_over());
            if is_last {
                if state.rounds >= ROUNDS_MIN && !LOOKS.contains(&state.rounds) {
                    state.look(&mut race, part, goal);
                    state.out = part.out(&race, goal, state.rounds);
                }
                state.is_ended = true;
                return state;
            }
            if !state.among.iter().all(|&it| part.is_done(it, state.rounds)) {
                state.look_without_decision(part, goal);
                return state;
            }
            state.rounds += 1;
            if LOOKS.contains(&state.rounds) {
                state.look(&mut race, part, goal);
                looks += 1;
            }
        }
    }

    /// Fits the scores of the complete rounds.
    fn look_without_decision(&mut self, part: &Part<'_>, goal: &AdviseGoal) {
        let fit =
            |score: &dyn Fn(&TrialOutcome) -> Option<f64>| Fit::of(&part.scores(self.rounds, score), Noise::default());
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
    }

    /// Tests whether all contestants are known to be equal in practice.
    fn are_equal(&self, alpha: f64) -> bool {
        let margin = MARGIN.ln_1p();
        let mut pairs = self
            .among
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.among[at + 1..].iter().map(move |other| (*one, *other)));
        pairs.all(|(one, other)| self.fit.are_within(one, other, margin, alpha))
    }
}
