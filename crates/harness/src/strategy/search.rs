//! Search for the highest rate at which a service meets limits of its response time: the next probe, and its result.
//!
//! Each pair of architecture and workload has its own search. The probes of all searches take turns, so disturbances of
//! the machine affect all alike. The algorithm is in [`stats::search`].

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use stats::search::{Bounds, Capacity, End};
use stats::{Interval, Search};

use super::sweep::keeps_up;
use crate::judge::LOST_SHARE_MAX;
use crate::model::{ProbeResult, RunHeader, SearchGoal, Trial, TrialOutcome, TrialRecord, VerdictKind};
use crate::plan;

/// The minimum number of requests slower than a quantile.
const SLOWER_MIN: f64 = 10.0;
/// The factor by which a probe may extend its window to reach this number.
const MEASURE_FACTOR_MAX: u64 = 10;
/// The minimum number of requests of a probe. The search does not try rates with fewer.
const REQUESTS_MIN: f64 = 50.0;
/// The number of consecutive failed trials that ends a search.
const FAILURES_MAX: usize = 3;
/// The probes up to this multiple of the rate found determine whether the server or the client is the limit.
const EDGE_FACTOR: f64 = 2.0;

impl SearchGoal {
    /// Returns the result of a probe.
    pub fn probe(&self, record: &TrialRecord) -> ProbeResult {
        let Some(load) = &record.load else { return ProbeResult::Failed };
        // A few lost datagrams are acceptable, as in verdicts.
        let unanswered_max = load.datagrams.as_ref().map_or(0.0, |_| LOST_SHARE_MAX * load.planned as f64);
        let unanswered = load.planned.saturating_sub(load.completed) as f64;
        let answered = load.completed > 0 && unanswered <= unanswered_max && load.errors.total() == 0;
        let slow = self.limits.iter().filter(|limit| load.response.histogram.quantile(limit.quantile) > limit.max_ns);
        let slow: Vec<f64> = slow.map(|limit| limit.quantile).collect();
        let quick = slow.is_empty();
        // The client may be the cause of all exceeded quantiles. The search then treats it as the limit and continues.
        let is_client_slow = !quick && slow.iter().all(|quantile| load.is_client_tail(*quantile));
        match record.verdict.kind {
            VerdictKind::Failed if record.verdict.has_too_few_requests() => ProbeResult::Spoilt,
            VerdictKind::Saturated | VerdictKind::Failed => ProbeResult::Unmet,
            _ if keeps_up(load) && answered && quick => ProbeResult::Met,
            VerdictKind::ClientLimited => ProbeResult::UnmetByTheClient,
            VerdictKind::Unsteady if record.verdict.is_the_machine_s() => ProbeResult::Spoilt,
            VerdictKind::Valid | VerdictKind::Unsteady if keeps_up(load) && answered && is_client_slow => {
                ProbeResult::UnmetByTheClient
            }
            VerdictKind::Valid | VerdictKind::Unsteady => ProbeResult::Unmet,
        }
    }

    /// Returns the window of a probe in nanoseconds. It extends `asked_ns` if the quantiles or a verdict need more
    /// requests.
    fn measure_ns(&self, asked_ns: u64, rate_per_s: f64) -> u64 {
        let rarest = self.limits.iter().map(|limit| 1.0 - limit.quantile).fold(1.0, f64::min);
        let needed_ns = ((SLOWER_MIN / rarest).max(REQUESTS_MIN) / rate_per_s * 1e9) as u64;
        needed_ns.clamp(asked_ns, asked_ns * MEASURE_FACTOR_MAX)
    }

    /// Returns the lowest rate to try, in requests per second, with a configured window of `asked_ns`.
    pub fn least_per_s(asked_ns: u64) -> f64 {
        REQUESTS_MIN / (asked_ns * MEASURE_FACTOR_MAX) as f64 * 1e9
    }

    fn bounds(&self, first: &Trial) -> Bounds {
        Bounds {
            from: self.from_per_s,
            least: Self::least_per_s(first.workload.phases.measure_ns),
            most: self.most_per_s,
            precision: self.precision,
        }
    }
}

/// A search with its probes so far.
#[derive(Clone, Debug)]
pub struct RateSearch<'a> {
    /// The first trial, as planned.
    pub first: &'a Trial,
    /// The rates and results of the probes, in order.
    pub probes: Vec<(f64, ProbeResult)>,
    search: Search,
    /// The reason for the end. `None` while the search continues.
    pub ended: Option<SearchEnd>,
}

/// The reason for the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// The interval has the requested precision.
    Precise,
    /// The time limit was reached.
    Time,
    /// The highest rate met the limits.
    AllMet,
    /// The lowest rate did not meet the limits.
    NoneMet,
    /// Several consecutive trials failed.
    Failed,
    /// The trial is infeasible on this host.
    Impossible,
}

/// The result of a search, and the cause of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityBound {
    /// The server is the limit.
    Server {
        /// The highest rate, in requests per second.
        rate_per_s: f64,
        /// The interval that covers the rate with a probability of 95 %.
        interval: Interval,
    },
    /// The limit is the client or the highest rate to try. The server can handle at least this rate.
    AtLeast {
        /// The rate in requests per second.
        rate_per_s: f64,
        /// Whether the client is the limit.
        client: bool,
    },
}

impl RateSearch<'_> {
    /// Returns the result so far. `None` without a bracket and without a probe that met the limits.
    pub fn answer(&self) -> Option<CapacityBound> {
        let met = self.probes.iter().filter(|(_, probe)| *probe == ProbeResult::Met).map(|(rate, _)| *rate);
        let highest_met = met.fold(None, |highest: Option<f64>, rate| Some(highest.map_or(rate, |it| it.max(rate))));
        let Some(Capacity { rate, interval }) = self.search.capacity() else {
            let client = self.blames_the_client(highest_met.unwrap_or(0.0)..f64::INFINITY);
            return highest_met.map(|rate_per_s| CapacityBound::AtLeast { rate_per_s, client });
        };
        if self.blames_the_client(interval.low..EDGE_FACTOR * rate) {
            return Some(CapacityBound::AtLeast { rate_per_s: interval.low, client: true });
        }
        Some(CapacityBound::Server { rate_per_s: rate, interval })
    }

    /// Tests whether the client is the cause of most unmet probes at these rates.
    fn blames_the_client(&self, rates: std::ops::Range<f64>) -> bool {
        let count = |what: ProbeResult| {
            self.probes.iter().filter(|(rate, probe)| *probe == what && rates.contains(rate)).count()
        };
        count(ProbeResult::UnmetByTheClient) > count(ProbeResult::Unmet)
    }

    fn end(&self, is_time_over: bool) -> Option<SearchEnd> {
        let failed = self.probes.iter().rev().take_while(|(_, probe)| *probe == ProbeResult::Failed).count();
        match self.search.end() {
            _ if !self.first.infeasible.is_empty() => Some(SearchEnd::Impossible),
            Some(End::AllMet) => Some(SearchEnd::AllMet),
            Some(End::NoneMet) => Some(SearchEnd::NoneMet),
            None if failed >= FAILURES_MAX => Some(SearchEnd::Failed),
            None if self.search.is_precise() => Some(SearchEnd::Precise),
            None => is_time_over.then_some(SearchEnd::Time),
        }
    }
}

/// Returns all searches of a run in their present state.
pub fn searches<'a>(header: &'a RunHeader, question: &SearchGoal, outcomes: &[TrialOutcome]) -> Vec<RateSearch<'a>> {
    let searches = header.trials.len() as u32;
    let is_time_over = outcomes.iter().map(|outcome| outcome.elapsed_ns).sum::<u64>() >= question.time_max_ns;
    let of = |first: &'a Trial| {
        let mut search = Search::new(question.bounds(first));
        let mut these: Vec<&TrialOutcome> =
            outcomes.iter().filter(|outcome| outcome.index % searches == first.index).collect();
        these.sort_by_key(|outcome| outcome.index);
        let probes: Vec<(f64, ProbeResult)> =
            these.into_iter().filter_map(|outcome| outcome.rate_per_s.zip(outcome.probe)).collect();
        for (rate, probe) in &probes {
            match probe {
                ProbeResult::Met => search.add(*rate, true),
                ProbeResult::Unmet | ProbeResult::UnmetByTheClient => search.add(*rate, false),
                ProbeResult::Spoilt | ProbeResult::Failed => {}
            }
        }
        let search = RateSearch { first, probes, search, ended: None };
        RateSearch { ended: search.end(is_time_over), ..search }
    };
    header.trials.iter().map(of).collect()
}

/// Returns the next probe. It belongs to the search with the fewest probes; a seeded shuffle chooses among several. The
/// index of a probe modulo the number of searches identifies its search.
pub fn next(header: &RunHeader, question: &SearchGoal, outcomes: &[TrialOutcome]) -> Option<Trial> {
    let mut open: Vec<_> = searches(header, question, outcomes);
    open.retain(|search| search.ended.is_none());
    let round = open.iter().map(|search| search.probes.len()).min()?;
    let mut order = Xoshiro256PlusPlus::seed_from_u64(header.seed.wrapping_add(round as u64));
    open.shuffle(&mut order);
    let search = open.into_iter().find(|search| search.probes.len() == round)?;
    let rate_per_s = search.search.next()?;
    let measure_ns = question.measure_ns(search.first.workload.phases.measure_ns, rate_per_s);
    let index = round as u32 * header.trials.len() as u32 + search.first.index;
    Some(plan::probe(search.first, header.seed, index, round as u32, rate_per_s, measure_ns))
}

#[cfg(test)]
mod tests {
    use load::LoadReport;
    use load::late::LateSends;
    use load::report::DatagramReport;

    use super::*;
    use crate::judge;
    use crate::model::{LatencyLimit, Strategy};
    use crate::spec::OneOrMany;
    use crate::spec::units::Rate;

    fn question() -> SearchGoal {
        SearchGoal {
            limits: vec![
                LatencyLimit { quantile: 0.99, max_ns: 1_000_000 },
                LatencyLimit { quantile: 0.999, max_ns: 5_000_000 },
            ],
            from_per_s: 1_000.0,
            most_per_s: 1e6,
            precision: 0.05,
            time_max_ns: 3_600_000_000_000,
        }
    }

    fn header(question: SearchGoal) -> RunHeader {
        let mut experiment = crate::spec::presets::find("smoke").unwrap().experiment();
        experiment.architectures.0 = ["epoll", "mt", "poll"].map(|name| name.parse().unwrap()).to_vec();
        experiment.workload.connections.0.truncate(1);
        experiment.workload.rate = Some(OneOrMany(vec![Rate(question.from_per_s)]));
        experiment.repeats = std::num::NonZeroU32::MIN;
        let plan = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap();
        RunHeader { strategy: Strategy::Capacity(question), ..RunHeader::made_up(plan) }
    }

    /// Probes a healthy trial after `change`, with a limit for the median alone.
    fn probe(change: impl FnOnce(&mut LoadReport)) -> ProbeResult {
        probe_of(SearchGoal { limits: vec![LatencyLimit { quantile: 0.5, max_ns: 1_000_000 }], ..question() }, change)
    }

    /// Probes a healthy trial after `change`, with any goal.
    fn probe_of(question: SearchGoal, change: impl FnOnce(&mut LoadReport)) -> ProbeResult {
        let mut load = judge::tests::healthy();
        change(&mut load);
        let verdict = judge::judge(&load, None);
        let trial = header(question.clone()).trials.swap_remove(0);
        let record = TrialRecord {
            trial,
            started_at: "2026-01-01T00:00:00Z".into(),
            elapsed_ns: 1,
            load: Some(load),
            server: None,
            idle: None,
            network: None,
            cpu_taken_by_others: None,
            verdict,
        };
        question.probe(&record)
    }

    #[test]
    fn a_poisson_process_that_brings_less_is_answered_all_the_same() {
        let of = |planned: u64, achieved_per_s: f64| {
            probe(|load| {
                (load.planned, load.sent, load.completed) = (planned, planned, planned);
                (load.rate_sent_per_s, load.rate_achieved_per_s) = (planned as f64, achieved_per_s);
            })
        };
        assert_eq!(of(1_000, 999.0), ProbeResult::Met);
        assert_eq!(of(900, 899.0), ProbeResult::Met, "all that came");
        assert_eq!(of(1_000, 900.0), ProbeResult::Unmet);
    }

    #[test]
    fn a_window_with_too_few_requests_says_nothing() {
        let few = |load: &mut LoadReport| (load.planned, load.sent, load.completed) = (15, 15, 15);
        assert_eq!(probe(few), ProbeResult::Spoilt);
        let and_an_error = |load: &mut LoadReport| {
            few(load);
            load.errors.reset = 1;
        };
        assert_eq!(probe(and_an_error), ProbeResult::Unmet, "that is the server's");
    }

    #[test]
    fn a_datagram_in_a_hundred_may_be_lost_and_a_request_of_a_stream_may_not() {
        let lost = |lost: u64| {
            move |load: &mut LoadReport| {
                load.completed -= lost;
                load.datagrams = Some(DatagramReport { ports: 10, lost, duplicates: 0, reordered: 0, dropped: None });
            }
        };
        assert_eq!(probe(lost(10)), ProbeResult::Met);
        assert_eq!(probe(lost(11)), ProbeResult::Unmet);
        let and_an_error = |load: &mut LoadReport| {
            lost(10)(load);
            load.errors.timeout = 1;
        };
        assert_eq!(probe(and_an_error), ProbeResult::Unmet);
        assert_eq!(probe(|load| load.completed -= 1), ProbeResult::Unmet);
    }

    #[test]
    fn tail_that_the_client_made_is_not_the_server_s_limit() {
        let of = |late: u64| {
            let question =
                SearchGoal { limits: vec![LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }], ..question() };
            probe_of(question, |load| {
                load.response.histogram = (0..1_000).map(|at| if at < 20 { 5_000_000 } else { 50_000 }).collect();
                load.late = Some(LateSends { bound_ns: 100_000, count: late, sent: 1_000, ..LateSends::default() });
            })
        };
        assert_eq!(of(0), ProbeResult::Unmet);
        assert_eq!(of(9), ProbeResult::UnmetByTheClient);
    }

    /// Searches until the end, where `probe` decides by (architecture, rate). Each trial takes a second.
    fn search(header: &RunHeader, probe: impl Fn(&str, f64) -> ProbeResult) -> Vec<TrialOutcome> {
        let mut outcomes: Vec<TrialOutcome> = Vec::new();
        while let Some(trial) = crate::strategy::next(header, &outcomes) {
            assert!(outcomes.len() < 1_000, "it does not end");
            assert!(outcomes.iter().all(|outcome| outcome.index != trial.index), "a number is given once");
            let rate_per_s = trial.workload.rate_per_s;
            assert_eq!(trial.load.rate_per_s, rate_per_s);
            let probe = probe(&trial.architecture.to_string(), rate_per_s.unwrap());
            outcomes.push(TrialOutcome {
                index: trial.index,
                rate_per_s,
                elapsed_ns: 1_000_000_000,
                is_past: false,
                probe: Some(probe),
            });
        }
        outcomes
    }

    fn of<'a>(searches: &'a [RateSearch<'a>], name: &str) -> &'a RateSearch<'a> {
        searches.iter().find(|search| search.first.architecture.to_string() == name).unwrap()
    }

    #[test]
    fn each_architecture_s_capacity_is_found_and_they_take_turns() {
        let header = header(question());
        let outcomes = search(&header, |name, rate| {
            if rate <= if name == "epoll" { 40_000.0 } else { 700.0 } { ProbeResult::Met } else { ProbeResult::Unmet }
        });
        let searches = searches(&header, &question(), &outcomes);
        for (name, capacity) in [("epoll", 40_000.0), ("mt", 700.0), ("poll", 700.0)] {
            let search = of(&searches, name);
            assert_eq!(search.ended, Some(SearchEnd::Precise));
            let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
            assert!(interval.low <= capacity && capacity <= interval.high, "{name}: {interval:?}");
        }
        for (round, three) in outcomes.chunks(3).take(8).enumerate() {
            let mut of_round: Vec<u32> = three.iter().map(|outcome| outcome.index).collect();
            of_round.sort_unstable();
            let first = 3 * round as u32;
            assert_eq!(of_round, [first, first + 1, first + 2], "each once in a round");
        }
        let order = |round: usize| outcomes[3 * round..3 * round + 3].iter().map(|it| it.index % 3).collect::<Vec<_>>();
        assert!((1..8).any(|round| order(round) != order(0)), "in changing order");
    }

    #[test]
    fn what_is_next_depends_on_what_is_finished_alone() {
        let header = header(question());
        let outcomes = search(&header, |_, rate| if rate <= 5_000.0 { ProbeResult::Met } else { ProbeResult::Unmet });
        for (at, outcome) in outcomes.iter().enumerate() {
            let mut stored = outcomes[..at].to_vec();
            // The store returns trials in the order of their indices.
            stored.sort_by_key(|outcome| outcome.index);
            let next = crate::strategy::next(&header, &stored).unwrap();
            assert_eq!((next.index, next.workload.rate_per_s), (outcome.index, outcome.rate_per_s), "{at}");
        }
    }

    #[test]
    fn a_client_that_gives_out_bounds_what_is_known() {
        let header = header(question());
        let outcomes = search(&header, |name, rate| match name {
            _ if rate <= 9_000.0 => ProbeResult::Met,
            "mt" => ProbeResult::UnmetByTheClient,
            _ => ProbeResult::Unmet,
        });
        let searches = searches(&header, &question(), &outcomes);
        let Some(CapacityBound::AtLeast { rate_per_s, client: true }) = of(&searches, "mt").answer() else {
            panic!("{:?}", of(&searches, "mt").answer())
        };
        assert!((8_000.0..=9_000.0).contains(&rate_per_s), "{rate_per_s}");
        assert!(matches!(of(&searches, "epoll").answer(), Some(CapacityBound::Server { .. })));
    }

    #[test]
    fn searches_end_when_time_is_over_or_nothing_comes_of_them() {
        let short = SearchGoal { time_max_ns: 10_000_000_000, ..question() };
        let header = header(short.clone());
        let outcomes = search(&header, |name, _| if name == "mt" { ProbeResult::Failed } else { ProbeResult::Met });
        assert_eq!(outcomes.len(), 10, "of a second each");
        let searches = searches(&header, &short, &outcomes);
        assert_eq!(of(&searches, "mt").ended, Some(SearchEnd::Failed));
        assert_eq!(of(&searches, "mt").answer(), None);
        assert_eq!(of(&searches, "epoll").ended, Some(SearchEnd::Time));
        let Some(CapacityBound::AtLeast { rate_per_s, client: false }) = of(&searches, "epoll").answer() else {
            panic!("{:?}", of(&searches, "epoll").answer())
        };
        assert!(rate_per_s >= 4_000.0, "what it met");
    }

    #[test]
    fn a_spoilt_probe_is_made_again() {
        let header = header(question());
        let count = std::cell::Cell::new(0);
        let outcomes = search(&header, |_, rate| {
            count.set(count.get() + 1);
            match count.get() % 3 {
                0 => ProbeResult::Spoilt,
                _ if rate <= 5_000.0 => ProbeResult::Met,
                _ => ProbeResult::Unmet,
            }
        });
        for search in searches(&header, &question(), &outcomes) {
            let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
            assert!(interval.low <= 5_000.0 && 5_000.0 <= interval.high, "{interval:?}");
        }
    }

    #[test]
    fn a_probe_measures_long_enough_for_its_quantiles() {
        let second = 1_000_000_000;
        let p99 = SearchGoal { limits: vec![question().limits[0]], ..question() };
        assert_eq!(p99.measure_ns(second, 10_000.0), second);
        let half = p99.measure_ns(second, 500.0).abs_diff(2 * second);
        assert!(half < 1_000, "1000 requests, ten of them slower");
        assert_eq!(p99.measure_ns(second, 10.0), 10 * second, "but no longer than that");
        let p50 = SearchGoal { limits: vec![LatencyLimit { quantile: 0.5, max_ns: 1 }], ..question() };
        assert_eq!(p50.measure_ns(second, 10.0), 5 * second, "50 requests, though a median asks for 20");
        assert_eq!(question().limits.iter().map(LatencyLimit::name).collect::<Vec<_>>(), ["p99", "p99.9"]);
        assert_eq!(question().limits[0].to_string(), "p99 <= 1ms");
    }
}
