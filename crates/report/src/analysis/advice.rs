//! The answer of a race: the best architecture for an objective, why it wins, and the traffic under which it does not.

use harness::record::figures::RunFigures;
use harness::record::{AdviseGoal, Figure, FigureMap, Run, Strategy, Trial, TrialRecord, VerdictKind};
use harness::strategy;
use harness::strategy::advise::{self, Advice, Change, Choice, Out, TieBreak, Variation};
use harness::strategy::elapsed_ns;
use schemars::JsonSchema;
use serde::Serialize;
use server::ServerCounters;
use stats::repeats::REPEATS_MIN;
use stats::{Estimate, Ratio, Repeat, ratio};

use super::cost::CostBreakdown;
use super::workload::title;
use super::{FORMAT, warm_up};
use crate::format;
use crate::list::grouped;

/// The answer of a race.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceReport {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The name of the run.
    pub(crate) run: String,
    /// RFC 3339 in UTC.
    pub(crate) started_at: String,
    /// The figures to optimise, with their weights.
    pub objective: String,
    /// The limits that the winner must meet.
    pub limits: Vec<String>,
    /// The traffic in words.
    pub workload: String,
    /// The complete repeats of the race.
    pub repeats: u32,
    /// Total time of the trials, in seconds.
    pub(crate) elapsed_s: f64,
    /// The time within which repeats end, in seconds.
    pub(crate) budget_s: f64,
    /// Whether the race has ended.
    pub is_ended: bool,
    /// The label of the winner; `None` if no contestant is usable.
    pub winner: Option<String>,
    /// The probability that no other contestant is better than the winner by more than 2 %.
    pub probability: Option<f64>,
    /// The label of the next best contestant.
    pub runner_up: Option<String>,
    /// The ratio of its objective to the winner's.
    pub lead: Option<Ratio>,
    /// The contestants of a tie, with the winner.
    pub tied: Vec<String>,
    /// The answer in words.
    pub sentences: Vec<String>,
    /// All contestants, the winner first.
    pub contestants: Vec<AdviceRow>,
    /// The answer under changed traffic.
    pub changes: Vec<AdviceChange>,
    /// Reasons why contestants are out.
    pub(crate) problems: Vec<String>,
    /// The warm-ups of external servers.
    pub(crate) warm_ups: Vec<String>,
}

/// A contestant. Times are in nanoseconds, memory is in bytes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceRow {
    /// The label.
    pub architecture: String,
    /// The ratio of its objective to the winner's; above 1 is worse.
    pub ratio: Option<Ratio>,
    /// The median service time less the winner's, in nanoseconds; `None` for the winner, and in a closed loop.
    pub added_ns: Option<Estimate>,
    /// The probability that no other is better by more than 2 %; `None` if it is out.
    pub probability: Option<f64>,
    /// The figures that the race measured.
    pub figures: FigureMap<f64>,
    /// The repeats that it ran.
    pub repeats: u32,
    /// The finding in words.
    pub finding: String,
    /// Whether it wins the race.
    #[serde(skip)]
    pub(crate) is_winner: bool,
    /// The verdict of the finding: valid for the winner and a tie; `None` for a contestant that is only behind.
    #[serde(skip)]
    pub(crate) verdict: Option<VerdictKind>,
}

/// The answer under changed traffic.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceChange {
    /// The change.
    pub change: String,
    /// The changed traffic; empty if unknown.
    pub traffic: String,
    /// Whether another contestant wins; `None` if this is not known.
    pub flips: Option<bool>,
    /// The best contestant under this traffic.
    pub best: Option<String>,
    /// The complete repeats.
    pub repeats: u32,
    /// The finding in words.
    pub sentence: String,
}

impl AdviceReport {
    /// Reports on a race; `None` for other runs.
    pub fn of(run: &Run) -> Option<Self> {
        let Strategy::Advise(goal) = &run.header.strategy else { return None };
        let outcomes = strategy::outcomes(run);
        let advice = advise::advice(&run.header, &outcomes)?;
        let label = |it: usize| advice.contestants[it].label();
        let choice = advice.choice.as_ref();
        let runner_up = choice.and_then(|choice| choice.others.first().copied());
        let order: Vec<usize> = match choice {
            Some(choice) => [choice.winner].into_iter().chain(choice.others.iter().copied()).collect(),
            None => Vec::new(),
        };
        let rest = (0..advice.contestants.len()).filter(|it| !order.contains(it));
        let rows = order.iter().copied().chain(rest).map(|it| row(&advice, run, it)).collect();
        Some(Self {
            format: FORMAT,
            run: run.header.name.clone(),
            started_at: run.header.started_at.clone(),
            objective: objective(goal),
            limits: goal.limits.iter().map(|it| limit(it.figure, it.value)).collect(),
            workload: advice.contestants.first().map(|trial| title(&trial.workload)).unwrap_or_default(),
            repeats: advice.repeats,
            elapsed_s: elapsed_ns(&outcomes) as f64 / 1e9,
            budget_s: goal.time_max_ns as f64 / 1e9,
            is_ended: advice.is_ended,
            winner: choice.map(|choice| label(choice.winner)),
            probability: choice.and_then(Choice::probability),
            runner_up: runner_up.map(label),
            lead: choice.zip(runner_up).and_then(|(choice, it)| advice.ratio(it, choice.winner)),
            tied: choice.map(|choice| choice.tied.iter().map(|&it| label(it)).collect()).unwrap_or_default(),
            sentences: sentences(run, goal, &advice, runner_up),
            contestants: rows,
            changes: advice.variations.iter().map(|it| change(it, &advice)).collect(),
            problems: problems(run, &advice),
            warm_ups: warm_up::sentences(run),
        })
    }
}

fn objective(goal: &AdviseGoal) -> String {
    let word = |it: &harness::record::AdviseWeight| match it.weight {
        1.0 => it.figure.name().to_owned(),
        weight => format!("{}*{weight}", it.figure.name()),
    };
    goal.objective.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Formats a limit, as in `p99 at most 2.00 ms`.
fn limit(figure: Figure, value: f64) -> String {
    let bound = if figure == Figure::Rate { "at least" } else { "at most" };
    format!("{} {bound} {}", figure.name(), format::figure(figure, value))
}

/// Returns the median service time of a contestant under the given traffic, by repeat.
fn medians(advice: &Advice<'_>, run: &Run, it: usize) -> Vec<Repeat> {
    let records = of_contestant(run, &advice.contestants[it]).filter(|it| it.verdict.belongs_in_estimates());
    RunFigures::new(&run.records).of(&records.collect::<Vec<_>>(), Figure::P50)
}

fn row(advice: &Advice<'_>, run: &Run, it: usize) -> AdviceRow {
    let choice = advice.choice.as_ref();
    let others =
        choice.map(|choice| choice.winner).filter(|winner| *winner != it && !run.header.trials[0].workload.is_closed());
    let added_ns = others.and_then(|winner| ratio::added(&medians(advice, run, it), &medians(advice, run, winner)));
    let probabilities = choice.and_then(|choice| choice.probabilities.as_ref());
    AdviceRow {
        architecture: advice.contestants[it].label(),
        ratio: choice.and_then(|choice| match it == choice.winner {
            true => Some(Ratio::ONE),
            false => advice.ratio(it, choice.winner),
        }),
        added_ns,
        probability: probabilities.and_then(|all| all.iter().find(|(of, _)| *of == it).map(|(_, it)| *it)),
        figures: FigureMap::of(|figure| advice.value(figure, it)),
        repeats: advice.repeats_of[it],
        finding: finding(advice, run, it),
        is_winner: choice.is_some_and(|choice| choice.winner == it),
        verdict: verdict(advice, run, it),
    }
}

fn verdict(advice: &Advice<'_>, run: &Run, it: usize) -> Option<VerdictKind> {
    match advice.out[it] {
        Some(Out::CannotKeepUp) => {
            let last = of_contestant(run, &advice.contestants[it]).next_back();
            Some(last.map_or(VerdictKind::Failed, |record| record.verdict.kind))
        }
        Some(_) => None,
        None => {
            let choice = advice.choice.as_ref()?;
            (it == choice.winner || choice.tied.contains(&it)).then_some(VerdictKind::Valid)
        }
    }
}

fn finding(advice: &Advice<'_>, run: &Run, it: usize) -> String {
    let choice = match (advice.out[it], &advice.choice) {
        (Some(out), _) => return out_words(out, run, advice, it),
        (None, None) if advice.fit.effect(it).is_none() => return "not measured".to_owned(),
        (None, None) => return "-".to_owned(),
        (None, Some(choice)) => choice,
    };
    let may_win = choice.probabilities.as_ref().is_none_or(|all| all.iter().any(|(of, _)| *of == it));
    let is_measured = advice.fit.effect(it).is_some();
    match is_measured {
        true if it == choice.winner && choice.tied.is_empty() => "winner",
        true if it == choice.winner => "winner of the tie",
        true if choice.tied.contains(&it) => "tied",
        true if may_win => "behind",
        true => "not within the limits",
        false => "not measured",
    }
    .to_owned()
}

fn out_words(out: Out, run: &Run, advice: &Advice<'_>, it: usize) -> String {
    match out {
        Out::CannotRun => "cannot run here".to_owned(),
        Out::CannotKeepUp => format::verdict(verdict(advice, run, it).unwrap_or(VerdictKind::Failed)).to_owned(),
        Out::Exceeds(Figure::Rate) => "below the rate's limit".to_owned(),
        Out::Exceeds(figure) => format!("exceeds the limit of {}", figure.name()),
        Out::Worse => "worse".to_owned(),
    }
}

/// Returns the records of a contestant under the given traffic.
fn of_contestant<'a>(run: &'a Run, contestant: &'a Trial) -> impl DoubleEndedIterator<Item = &'a TrialRecord> {
    run.records.iter().filter(|record| record.trial.is_repeat_of(contestant))
}

/// Returns why contestants have no score, failed or cannot run: a line for each kind of reason.
fn problems(run: &Run, advice: &Advice<'_>) -> Vec<String> {
    let problem = |(it, trial): (usize, &Trial)| match advice.out[it] {
        Some(Out::CannotRun) => Some((trial.label(), "cannot run", trial.infeasible.join("; "))),
        Some(Out::Worse | Out::Exceeds(_)) => None,
        None if advice.fit.effect(it).is_some() => None,
        Some(Out::CannotKeepUp) | None => {
            let TrialRecord { verdict, .. } = of_contestant(run, trial).next_back()?;
            Some((trial.label(), format::verdict(verdict.kind), verdict.reason.clone()))
        }
    };
    let problems = advice.contestants.iter().enumerate().filter_map(problem);
    let line = |alike: Vec<(String, &str, String)>| {
        let (first, kind, reason) = &alike[0];
        let others: Vec<&str> = alike[1..].iter().map(|it| it.0.as_str()).collect();
        let too =
            if others.is_empty() { String::new() } else { format!(" (also {kind}: {})", format::listed(&others)) };
        format!("{first} {kind}: {reason}{too}")
    };
    grouped(problems, |a, b| a.1 == b.1).into_iter().map(line).collect()
}

/// Returns the answer in words: the winner or the tie, its lead, its cost, and why it wins.
fn sentences(run: &Run, goal: &AdviseGoal, advice: &Advice<'_>, runner_up: Option<usize>) -> Vec<String> {
    let Some(choice) = &advice.choice else {
        return vec![match advice.repeats {
            ..3 => "There is no answer before the third repeat.".to_owned(),
            _ if goal.limits.is_empty() => {
                let workload = run.header.trials.first().map(|trial| &trial.workload);
                let other_load = match workload {
                    Some(it) if it.is_closed() => "",
                    Some(it) if it.service.ports().is_some() => " or a lower --rate",
                    _ => ", a lower --rate, or --schedule closed",
                };
                format!("Fewer than two contestants gave usable results, for the reasons below. Try a quiet machine{other_load}.")
            }
            _ => "Fewer than two contestants are usable, or none is within the limits. Try wider limits, other servers, or a quiet machine.".to_owned(),
        }];
    };
    let label = |it: usize| advice.contestants[it].label();
    let winner = label(choice.winner);
    let mut sentences = Vec::new();
    if !advice.is_ended {
        sentences.push("The race has not ended.".to_owned());
    }
    sentences.push(match choice.tied.is_empty() {
        true => format!("{winner} is the best{}.", leads(advice, choice, runner_up)),
        false => tie(advice, choice),
    });
    let is_unmeasured = |it: &usize| advice.out[*it].is_none() && advice.fit.effect(*it).is_none();
    let unmeasured: Vec<String> = (0..advice.contestants.len()).filter(is_unmeasured).map(label).collect();
    if !unmeasured.is_empty() {
        sentences.push(format!("Not measured, and possibly better: {}.", format::listed(&unmeasured)));
    }
    sentences.extend(choice.probability().map(|it| {
        format!(
            "The probability that no other is better by more than {} is {}.",
            format::percent(advise::MARGIN),
            probability(it)
        )
    }));
    let cost = [(Figure::Cpu, "of CPU time a request"), (Figure::Memory, "of memory a connection")];
    let costs: Vec<String> = cost
        .into_iter()
        .filter_map(|(figure, unit)| {
            Some(format!("{} {unit}", format::figure(figure, advice.value(figure, choice.winner)?)))
        })
        .collect();
    if !costs.is_empty() {
        sentences.push(format!("It costs {}.", format::listed(&costs)));
    }
    sentences.extend(runner_up.and_then(|it| why(run, advice, choice.winner, it)));
    sentences
}

/// Returns the lead of the winner over the next best contestant.
fn leads(advice: &Advice<'_>, choice: &Choice, runner_up: Option<usize>) -> String {
    let ratio = runner_up.and_then(|it| Some((it, advice.ratio(it, choice.winner)?)));
    ratio.map_or_else(String::new, |(it, ratio)| format!(": {} is {}", advice.contestants[it].label(), worse(ratio)))
}

/// Formats a ratio, as in `1.06x (1.03 to 1.09) worse`.
fn worse(ratio: Ratio) -> String {
    let Ratio { ratio, interval, .. } = ratio;
    let interval = interval.map_or_else(String::new, |it| format!(" ({:.2} to {:.2})", it.low, it.high));
    format!("{ratio:.2}x{interval} worse")
}

/// Formats a probability. Draws cannot show that an event is certain or impossible.
pub(crate) fn probability(probability: f64) -> String {
    match 100.0 * probability {
        high if high > 99.0 => "above 99 %".to_owned(),
        low if low < 1.0 => "below 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

fn tie(advice: &Advice<'_>, choice: &Choice) -> String {
    let label = |it: &usize| advice.contestants[*it].label();
    let names: Vec<String> = choice.tied.iter().map(label).collect();
    let winner = label(&choice.winner);
    let margin = format::percent(advise::MARGIN);
    let probable = format!("of those with at least half the highest probability, {winner}");
    let cost = |figure: Figure| if figure == Figure::Memory { "memory" } else { "CPU time" };
    let reason = match choice.tie_break {
        Some(TieBreak::Probability) | None => format!("{winner} is more than twice as probable as any other"),
        Some(TieBreak::Figure(figure)) => format!("{probable} needs the least {}", cost(figure)),
        Some(TieBreak::Order(Some(figure))) => {
            format!(
                "{probable} needs at most {margin} more {} than any other, and is the first of `muxbench list`",
                cost(figure)
            )
        }
        Some(TieBreak::Order(None)) => {
            format!("{probable} is the first of `muxbench list`, because not all their costs are known")
        }
    };
    format!("It is a tie between {}. {winner} wins it: {reason}.", format::listed(&names))
}

/// Returns the cost in which the next best contestant differs most from the winner.
fn why(run: &Run, advice: &Advice<'_>, winner: usize, other: usize) -> Option<String> {
    let breakdown = |it: usize| {
        let records: Vec<&TrialRecord> = of_contestant(run, &advice.contestants[it])
            .filter(|record| record.verdict.belongs_in_estimates())
            .collect();
        let counters: Vec<&ServerCounters> = records.iter().filter_map(|record| record.server.as_ref()).collect();
        CostBreakdown::of(&counters, records.iter().filter_map(|record| record.requests_answered()).sum())
    };
    let (best, next) = (breakdown(winner)?, breakdown(other)?);
    let [winner, other] = [winner, other].map(|it| advice.contestants[it].label());
    Some(match next.main_difference(&best) {
        Some(difference) => format!("{other} differs most from {winner} in {difference}."),
        None => format!("{other} costs about the same as {winner}."),
    })
}

/// Returns the finding under changed traffic.
fn change(variation: &Variation, advice: &Advice<'_>) -> AdviceChange {
    let label = |it: usize| advice.contestants[it].label();
    let winner = advice.choice.as_ref().map_or_else(String::new, |choice| label(choice.winner));
    let best = variation.best.map(label);
    // The noise of the race decides, but is no interval of this traffic.
    let few = variation.repeats < REPEATS_MIN as u32;
    let after = format!(" (after {})", format::counted(variation.repeats as usize, "repeat", "repeats"));
    let worse = |ratio: Ratio| {
        let interval = ratio.interval.filter(|_| !few);
        worse(Ratio { interval, ..ratio }) + if few { &after } else { "" }
    };
    let (flips, sentence) = match &variation.change {
        Change::Stays => {
            let lead = variation.lead.map_or_else(String::new, |ratio| format!("; the next one is {}", worse(ratio)));
            (Some(false), format!("{winner} stays the best{lead}"))
        }
        Change::Flips { to, ratio: Some(ratio) } => {
            (Some(true), format!("{} wins; {winner} is {}", label(*to), worse(*ratio)))
        }
        Change::Flips { to, ratio: None } => (Some(true), format!("{} wins; {winner} cannot keep up", label(*to))),
        Change::Open => {
            let ahead =
                best.as_ref().map_or_else(String::new, |best| format!(": {best} is ahead, but not for certain"));
            (None, format!("undecided{ahead}"))
        }
        Change::NotMeasured(reason) => (None, format!("not measured: {reason}")),
    };
    AdviceChange {
        change: variation.name.clone(),
        traffic: variation.about.clone(),
        flips,
        best,
        repeats: variation.repeats,
        sentence,
    }
}
