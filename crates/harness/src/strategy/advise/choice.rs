//! The winner of a race, and how a tie is broken.

use stats::race::Fit;
use stats::repeats::ALPHA_OF_SIDE;

use super::part::Out;
use super::race::{MARGIN, State};
use crate::record::{AdviseGoal, Figure, Trial};
use crate::spec::Candidate;

/// The contestants that race under changed traffic: the winner and the next best ones.
const FINALISTS: usize = 4;

/// The step of the rule that breaks a tie. First, only those count whose probability is at least half the highest one. Of these, the
/// cheapest wins, and of those within the margin of the cheapest the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// Only the winner is probable enough.
    Probability,
    /// The winner needs less CPU time for a request, as measured; less memory for a connection if CPU time is the objective.
    Figure(Figure),
    /// The winner comes first: external servers, which exist already, then architectures in the order of the tables. `None` if a cost is
    /// unknown, so that none counted.
    Order(Option<Figure>),
}

/// The winner of a race.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The winner.
    pub winner: usize,
    /// The contestants that differ from the best by at most the margin as measured, or not significantly; with the winner. Empty if
    /// there are no others.
    pub tied: Vec<usize>,
    /// The reason that broke the tie.
    pub tie_break: Option<TieBreak>,
    /// All other contestants with scores, those that may be the best first, then by their scores.
    pub others: Vec<usize>,
    /// The probability of each contestant that may be the best that no other is better by more than the margin; `None` if the noise is
    /// unknown.
    pub probabilities: Option<Vec<(usize, f64)>>,
}

impl Choice {
    /// Returns the contestants that race under changed traffic, the winner first.
    pub fn finalists(&self) -> Vec<usize> {
        [self.winner].into_iter().chain(self.others.iter().copied()).take(FINALISTS).collect()
    }

    /// Returns the probability that no other contestant is better than the winner by more than the margin.
    pub fn probability(&self) -> Option<f64> {
        self.probabilities.as_ref()?.iter().find(|(it, _)| *it == self.winner).map(|(_, it)| *it)
    }
}

/// Chooses the winner. `None` if no contestant that may be the best has scores and meets the limits.
pub(super) fn choose(
    state: &State,
    goal: &AdviseGoal,
    figures: &[(Figure, Fit)],
    templates: &[Trial],
) -> Option<Choice> {
    let effect = |it: usize| state.fit.effect(it);
    let by_effect = |a: &usize, b: &usize| effect(*a).unwrap_or(f64::MAX).total_cmp(&effect(*b).unwrap_or(f64::MAX));
    let meets = |&it: &usize| state.limits.iter().all(|limit| limit.fit.effect(it).is_some_and(|it| it <= limit.max));
    let can_win: Vec<usize> =
        (0..templates.len()).filter(|&it| state.out[it].is_none() && effect(it).is_some()).filter(meets).collect();
    // A contestant that is measured alone has not won against the others.
    let is_unmeasured = |it: usize| state.out[it].is_none() && effect(it).is_none();
    let measured = (0..templates.len()).filter(|&it| effect(it).is_some()).count();
    if measured < 2 && (0..templates.len()).any(is_unmeasured) {
        return None;
    }
    let leader = *can_win.iter().min_by(|a, b| by_effect(a, b))?;
    // One test at the end, beside the looks: a tie must not hide a difference that the looks are too careful to see. It is
    // two-sided, as the intervals beside the answer are.
    let alpha = ALPHA_OF_SIDE / can_win.len().saturating_sub(1).max(1) as f64;
    let leads = |it: usize| {
        let is_far = effect(it).zip(effect(leader)).is_some_and(|(it, leader)| it - leader > MARGIN.ln_1p());
        is_far && state.fit.is_worse(it, leader, 0.0, alpha)
    };
    let mut tied: Vec<usize> = can_win.iter().copied().filter(|&it| !leads(it)).collect();
    tied.sort_by(by_effect);
    let probabilities: Option<Vec<(usize, f64)>> =
        state.fit.probabilities(&can_win, MARGIN.ln_1p()).map(|all| can_win.iter().copied().zip(all).collect());
    let (winner, tie_break) = break_tie(&tied, probabilities.as_deref(), goal, figures, templates);
    let is_other = |it: &usize| *it != winner && effect(*it).is_some() && state.out[*it] != Some(Out::CannotKeepUp);
    let mut others: Vec<usize> = (0..templates.len()).filter(is_other).collect();
    others.sort_by(|a, b| (!can_win.contains(a)).cmp(&!can_win.contains(b)).then(by_effect(a, b)));
    Some(Choice { winner, tied: if tied.len() > 1 { tied } else { Vec::new() }, tie_break, others, probabilities })
}

/// Returns the winner of a tie, and what makes it win. The first of `tied` is the leader.
fn break_tie(
    tied: &[usize],
    probabilities: Option<&[(usize, f64)]>,
    goal: &AdviseGoal,
    figures: &[(Figure, Fit)],
    templates: &[Trial],
) -> (usize, Option<TieBreak>) {
    if let [winner] = *tied {
        return (winner, None);
    }
    let probability = |it: usize| probabilities?.iter().find(|(of, _)| *of == it).map(|(_, it)| *it);
    let highest = tied.iter().filter_map(|&it| probability(it)).fold(0.0, f64::max);
    let is_probable = |it: &usize| probability(*it).is_none_or(|it| it >= highest / 2.0);
    let probable: Vec<usize> = tied.iter().copied().filter(is_probable).collect();
    if let [winner] = probable[..] {
        return (winner, Some(TieBreak::Probability));
    }
    let figure = if goal.only_figure() == Some(Figure::Cpu) { Figure::Memory } else { Figure::Cpu };
    let cost = |it: usize| figures.iter().find(|(of, _)| *of == figure)?.1.effect(it);
    let costs: Option<Vec<f64>> = probable.iter().map(|&it| cost(it)).collect();
    let cheapest = costs.map(|costs| costs.into_iter().fold(f64::INFINITY, f64::min));
    // A contestant of unknown cost is neither cheaper nor more expensive than the others.
    let is_cheap = |it: &usize| cheapest.zip(cost(*it)).is_none_or(|(least, it)| it - least <= MARGIN.ln_1p());
    let cheap: Vec<usize> = probable.into_iter().filter(is_cheap).collect();
    let order = |it: &usize| (rank(&templates[*it].architecture), *it);
    match cheap[..] {
        [winner] => (winner, Some(TieBreak::Figure(figure))),
        _ => {
            let winner = cheap.into_iter().min_by_key(order).unwrap_or(tied[0]);
            (winner, Some(TieBreak::Order(cheapest.map(|_| figure))))
        }
    }
}

/// Returns the place of a server: external servers exist already, and the tables begin with the simplest models.
fn rank(candidate: &Candidate) -> usize {
    let Some(ours) = candidate.ours() else { return 0 };
    let is_alike = |other: &server::Architecture| {
        let mechanism = |it: &server::Architecture| it.mechanism.map(|it| it.name);
        other.model.name == ours.model.name && mechanism(other) == mechanism(&ours)
    };
    1 + server::Architecture::every().iter().position(is_alike).unwrap_or(usize::MAX - 1)
}
