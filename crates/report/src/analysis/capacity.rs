//! The highest rate, or the most connections, at which each architecture meets the limits of a search.

use harness::record::{ProbeResult, Run, SearchGoal, Strategy, Varied, Workload};
use harness::strategy;
use harness::strategy::search::{CapacityBound, RateSearch, SearchEnd, searches};
use load::LoadResult;
use load::result::LateSends;
use schemars::JsonSchema;
use serde::Serialize;
use stats::Interval;

use super::client_tail;
use super::summary::merged;
use crate::format;
use crate::list::distinct;

/// The results of all searches of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Capacities {
    pub(crate) question: SearchGoal,
    /// One search for each architecture and traffic, the highest result first.
    pub(crate) rows: Vec<Search>,
}

/// The result of one search.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Search {
    pub(crate) architecture: String,
    pub(crate) workload: Workload,
    /// The highest rate, or the most connections, with its interval, or a lower bound; `None` if both are unknown.
    pub(crate) answer: Option<CapacityBound>,
    /// For each limit, the response time in nanoseconds at its quantile. It covers the probes in the interval of `answer` that
    /// met the limits; if there is none, the nearest such probe below. `None` without such probes or without `answer`.
    pub(crate) there_ns: Vec<Option<u64>>,
    pub(crate) there_late: LateSends,
    pub(crate) probes: Probes,
    /// The number of probes that shared a window with other servers.
    pub(crate) interleaved: usize,
    /// The reason why the search ended; `None` if it was interrupted.
    pub(crate) ended: Option<SearchEnd>,
    pub(crate) infeasible: Vec<String>,
    pub(crate) failure: Option<String>,
}

/// Counts of probes by result.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Probes {
    pub(crate) met: usize,
    pub(crate) unmet: usize,
    pub(crate) unmet_by_the_client: usize,
    pub(crate) disturbed: usize,
    pub(crate) failed: usize,
}

impl Probes {
    fn of(search: &RateSearch<'_>) -> Self {
        let count = |result: ProbeResult| search.probes.iter().filter(|(_, probe)| *probe == result).count();
        Self {
            met: count(ProbeResult::Met),
            unmet: count(ProbeResult::Unmet),
            unmet_by_the_client: count(ProbeResult::UnmetByTheClient),
            disturbed: count(ProbeResult::Disturbed),
            failed: count(ProbeResult::Failed),
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.met + self.unmet + self.unmet_by_the_client + self.disturbed + self.failed
    }
}

impl Capacities {
    /// Returns the conclusion for each traffic.
    pub fn sentence(&self) -> String {
        let of = |workload: &Workload| {
            sentence(&self.rows.iter().filter(|row| row.workload == *workload).collect::<Vec<_>>(), self.unit())
        };
        self.workloads().into_iter().map(of).collect::<Vec<_>>().join(" ")
    }

    /// Summarises a run of searches; `None` for other runs.
    pub fn of(run: &Run) -> Option<Self> {
        let Strategy::Capacity(question) = &run.header.strategy else { return None };
        let outcomes = strategy::outcomes(run);
        let mut rows: Vec<Search> =
            searches(&run.header, question, &outcomes).iter().map(|search| row(run, question, search)).collect();
        rows.sort_by(|a, b| most(b).total_cmp(&most(a)).then_with(|| a.architecture.cmp(&b.architecture)));
        Some(Self { question: question.clone(), rows })
    }

    /// Tests whether the run found what it was for: the capacity of any server or a bound, or with `strict` a precise one of each.
    pub(crate) fn is_found(&self, strict: bool) -> bool {
        let is_precise = |row: &Search| {
            matches!(row.answer, Some(CapacityBound::Server { .. })) && row.ended == Some(SearchEnd::Precise)
        };
        if strict { self.rows.iter().all(is_precise) } else { self.rows.iter().any(|row| row.answer.is_some()) }
    }

    /// Returns the unit of the results.
    pub(crate) fn unit(&self) -> &'static str {
        match self.question.varied {
            Varied::Rate => "requests/s",
            Varied::Connections => "connections",
        }
    }

    pub(crate) fn workloads(&self) -> Vec<&Workload> {
        let mut workloads = distinct(self.rows.iter().map(|row| &row.workload));
        workloads.sort_by(|a, b| crate::analysis::workload::order(a, b));
        workloads
    }
}

/// Returns the result that orders rows; 0 if unknown.
fn most(row: &Search) -> f64 {
    match row.answer {
        Some(CapacityBound::Server { most, .. } | CapacityBound::AtLeast { most, .. }) => most,
        None => 0.0,
    }
}

fn row(run: &Run, question: &SearchGoal, search: &RateSearch<'_>) -> Search {
    let first = search.first;
    let searches = run.header.trials.len() as u32;
    let records = || run.records.iter().filter(|record| record.trial.index % searches == first.index);
    let answer = search.answer();
    let interval = match answer {
        Some(CapacityBound::Server { interval, .. }) => interval,
        Some(CapacityBound::AtLeast { most, .. }) => Interval { low: most, high: most },
        None => Interval { low: f64::INFINITY, high: 0.0 },
    };
    let met = || {
        let met = records().filter(|record| question.probe(record).is_met());
        met.filter_map(|record| Some((question.value(&record.trial.workload)?, record.load.as_ref()?)))
    };
    let within = met().filter(|(value, _)| interval.low <= *value && *value <= interval.high);
    let mut there: Vec<&LoadResult> = within.map(|(_, load)| load).collect();
    if there.is_empty() {
        let below = met().filter(|(value, _)| *value <= interval.high);
        there.extend(below.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, load)| load));
    }
    let response = merged(there.iter().map(|load| &load.response));
    let limits = question.limits.iter();
    let mut failed = records().filter(|record| record.load.is_none());
    Search {
        architecture: first.label(),
        workload: first.workload.clone().with(|it| {
            if question.varied == Varied::Rate {
                it.set_rate(None)
            }
        }),
        answer,
        there_ns: limits.map(|limit| (response.count() > 0).then(|| response.quantile(limit.quantile))).collect(),
        there_late: client_tail::late(there.into_iter()),
        probes: Probes::of(search),
        interleaved: records().filter(|record| record.trial.client.slices.is_some()).count(),
        ended: search.ended,
        infeasible: first.infeasible.clone(),
        failure: failed.next_back().map(|record| record.verdict.reason.clone()),
    }
}

/// Names the architecture with the highest capacity, in `unit`, and architectures that may have a higher one.
pub(crate) fn sentence(rows: &[&Search], unit: &str) -> String {
    let known = rows.iter().filter_map(|row| match row.answer {
        Some(CapacityBound::Server { most, interval, holds }) => Some((*row, [most, holds], interval)),
        _ => None,
    });
    let known: Vec<(&Search, [f64; 2], Interval)> = known.collect();
    let highest = known.first().map_or(f64::INFINITY, |(_, [most, _], _)| *most);
    let beyond = rows.iter().filter(|row| matches!(row.answer, Some(CapacityBound::AtLeast { .. })));
    let (more, others): (Vec<&Search>, Vec<&Search>) = beyond.copied().partition(|row| most(row) > highest);
    let names = |rows: &[&Search]| rows.iter().map(|row| row.architecture.as_str()).collect::<Vec<_>>().join(", ");
    let handles =
        |row: &&Search| format!(" {} handles at least {}, which is more.", row.architecture, format::digits(most(row)));
    let Some((best, most, interval)) = known.first() else {
        return bounds_sentence(&others, unit);
    };
    let mut unknown: String = more.iter().map(handles).collect();
    if !others.is_empty() {
        unknown += &format!(" For {}, only a lower bound is known.", names(&others));
    }
    let near: Vec<&str> =
        known[1..].iter().filter(|it| it.2.high >= interval.low).map(|it| it.0.architecture.as_str()).collect();
    let [most, holds] = most.map(format::digits);
    let most = format!("{most} {unit} (half of the probes succeed; at {holds} 95 % do)");
    let among_known = if more.is_empty() { "" } else { "Among the known capacities, " };
    let highest = match (known.len(), near.as_slice()) {
        (1, _) => format!("{}: {most}.", best.architecture),
        (_, []) => format!("{among_known}{} has the highest capacity, {most}.", best.architecture),
        (_, near) => format!(
            "{among_known}{} has the highest capacity, {most}, not significantly different from {}.",
            best.architecture,
            near.join(", ")
        ),
    };
    highest + &unknown
}

/// Names the lower bounds of searches that found no capacity, in `unit`.
fn bounds_sentence(bounds: &[&Search], unit: &str) -> String {
    let is_early = |row: &&Search| {
        let is_client_limit = matches!(row.answer, Some(CapacityBound::AtLeast { client: true, .. }));
        !is_client_limit && matches!(row.ended, None | Some(SearchEnd::Time | SearchEnd::Failed))
    };
    let reason = match bounds {
        [] => return "No capacity was found.".into(),
        [bound] if is_early(bound) => "The search ended early",
        bounds if bounds.iter().all(is_early) => "The searches ended early",
        _ => "No capacity was found",
    };
    let handles = |row: &&Search| format!("{} handles at least {} {unit}", row.architecture, format::digits(most(row)));
    format!("{reason}: {}.", format::listed(&bounds.iter().map(handles).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_names_lower_bounds_above_the_highest_capacity() {
        let row = Capacities::of(&testkit::capacity_run()).unwrap().rows.swap_remove(0);
        let row = |name: &str, answer: CapacityBound| Search {
            architecture: name.into(),
            answer: Some(answer),
            ..row.clone()
        };
        let found = |name: &str, most: f64| {
            let interval = Interval { low: most * 0.98, high: most * 1.02 };
            row(name, CapacityBound::Server { most, interval, holds: most * 0.9 })
        };
        let at_least = |name: &str, most: f64| row(name, CapacityBound::AtLeast { most, client: true });
        let sentence = |rows: &[Search]| super::sentence(&rows.iter().collect::<Vec<_>>(), "requests/s");
        let (epoll, poll) = (found("epoll", 8_000.0), found("poll", 5_000.0));
        assert_eq!(
            sentence(&[at_least("mt", 20_000.0), epoll.clone(), poll.clone(), at_least("mp", 1_000.0)]),
            "Among the known capacities, epoll has the highest capacity, 8000 requests/s (half of the probes succeed; at 7200 95 % \
             do). mt handles at least 20000, which is \
             more. For mp, only a lower bound is known."
        );
        assert_eq!(
            sentence(&[epoll, at_least("mt", 6_000.0), poll]),
            "epoll has the highest capacity, 8000 requests/s (half of the probes succeed; at 7200 95 % do). For mt, only a lower bound is known."
        );
    }

    #[test]
    fn sentence_without_capacity_states_lower_bounds() {
        let row = Capacities::of(&testkit::capacity_run()).unwrap().rows.swap_remove(0);
        let at_least = |name: &str, most: f64, ended: SearchEnd| Search {
            architecture: name.into(),
            answer: Some(CapacityBound::AtLeast { most, client: false }),
            ended: Some(ended),
            ..row.clone()
        };
        let sentence = |rows: &[Search]| super::sentence(&rows.iter().collect::<Vec<_>>(), "requests/s");
        let epoll = at_least("epoll", 1_000.0, SearchEnd::Time);
        assert_eq!(
            sentence(std::slice::from_ref(&epoll)),
            "The search ended early: epoll handles at least 1000 requests/s."
        );
        assert_eq!(
            sentence(&[epoll.clone(), at_least("mt", 500.0, SearchEnd::Time)]),
            "The searches ended early: epoll handles at least 1000 requests/s and mt handles at least 500 requests/s."
        );
        let by_client =
            Search { answer: Some(CapacityBound::AtLeast { most: 1_000.0, client: true }), ..epoll.clone() };
        for bound in [by_client, at_least("epoll", 1_000.0, SearchEnd::AllMet)] {
            assert_eq!(sentence(&[bound]), "No capacity was found: epoll handles at least 1000 requests/s.");
        }
        let unknown = Search { answer: None, ..epoll };
        assert_eq!(sentence(&[unknown]), "No capacity was found.");
    }
}
