//! Search for the highest rate, or the most connections, at which a service meets limits of its response time: the next probe, and
//! its result.
//!
//! Each pair of architecture and workload has its own search. The probes of all searches take turns or share a window, so
//! disturbances of the machine affect all alike. The algorithm is in [`stats::search`].

use load::config::Slices;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::search::{Bounds, Capacity, End};
use stats::{Interval, Search};

use super::sweep::keeps_up;
use super::{Rest, Rules, elapsed_ns};
use crate::judge::LOST_SHARE_MAX;
use crate::plan;
use crate::record::{
    LatencyLimit, ProbeResult, RunHeader, SearchGoal, Trial, TrialOutcome, TrialRecord, Varied, VerdictKind, Workload,
};

/// The minimum number of requests slower than a quantile.
const SLOWER_MIN: f64 = 10.0;
/// The factor by which a probe may extend its window to get enough requests.
const MEASURE_FACTOR_MAX: u64 = 10;
/// The minimum number of requests of a probe. The search does not try rates with fewer.
const REQUESTS_MIN: f64 = 50.0;
/// The number of consecutive failed trials that ends a search.
const FAILURES_MAX: usize = 3;
/// The number of consecutive doubtful probes after which they count: the client, or the other programs of this host, are then no
/// exception but the conditions of the search.
const DOUBTFUL_MIN: u32 = 3;
/// The length of a slice, as a multiple of the longest limit. A queue with such response times settles within the guard.
const SLICE_LIMITS: u64 = 100;
const SLICE_NS_MIN: u64 = 100_000_000;
/// Probes at up to this multiple of the capacity determine whether the server or the client is the limit.
const EDGE_FACTOR: f64 = 2.0;

impl SearchGoal {
    /// Returns the value of the quantity that the search varies.
    pub fn value(&self, workload: &Workload) -> Option<f64> {
        match self.varied {
            Varied::Rate => workload.rate_per_s(),
            Varied::Connections => Some(workload.connections.into()),
        }
    }

    /// Returns the result of a probe.
    pub fn probe(&self, record: &TrialRecord) -> ProbeResult {
        let Some(load) = &record.load else {
            return match self.varied {
                Varied::Rate => ProbeResult::Failed,
                // A client ends before the window if the server refuses some of its connections.
                Varied::Connections => ProbeResult::Unmet,
            };
        };
        // A few lost datagrams are acceptable, as in verdicts.
        let unanswered_max = load.datagrams.as_ref().map_or(0.0, |_| LOST_SHARE_MAX * load.planned as f64);
        let unanswered = load.planned.saturating_sub(load.completed) as f64;
        let answered = load.completed > 0 && unanswered <= unanswered_max && load.errors.total() == 0;
        let is_slow = |limit: &&LatencyLimit| load.response.histogram.quantile(limit.quantile) > limit.max_ns;
        let is_client_tail = |limit: &LatencyLimit| load.is_client_tail(limit.quantile);
        let mut slow = self.limits.iter().filter(is_slow).peekable();
        let (is_quick, keeps_up, kind) = (slow.peek().is_none(), keeps_up(load) && answered, record.verdict.kind);
        let is_overloaded = matches!(kind, VerdictKind::Saturated | VerdictKind::Failed);
        let met = keeps_up && is_quick && !is_overloaded;
        let is_of_machine = kind == VerdictKind::Unsteady && record.verdict.is_blameless_for_server();
        // The doubt must not depend on the result. So one late tail is enough, even if the limit of another tail is exceeded.
        let is_doubtful = kind == VerdictKind::ClientLimited || is_of_machine || self.limits.iter().any(is_client_tail);
        let client =
            kind == VerdictKind::ClientLimited || keeps_up && !is_quick && !is_overloaded && slow.all(is_client_tail);
        match met {
            _ if kind == VerdictKind::Failed && record.verdict.has_too_few_requests() => ProbeResult::Disturbed,
            met if is_doubtful => ProbeResult::Doubtful { met, client },
            true => ProbeResult::Met,
            false => ProbeResult::Unmet,
        }
    }

    /// Returns the window of a probe in nanoseconds. It extends `window_ns` if the quantiles or a verdict need more
    /// requests.
    fn measure_ns(&self, window_ns: u64, rate_per_s: f64) -> u64 {
        let rarest = self.limits.iter().map(|limit| 1.0 - limit.quantile).fold(1.0, f64::min);
        let needed_ns = ((SLOWER_MIN / rarest).max(REQUESTS_MIN) / rate_per_s * 1e9) as u64;
        needed_ns.clamp(window_ns, window_ns * MEASURE_FACTOR_MAX)
    }

    /// Returns the length of slices in which probes with these limits show the queue of a longer window, in nanoseconds.
    pub fn slice_ns(limits: &[LatencyLimit]) -> u64 {
        let longest_ns = limits.iter().map(|limit| limit.max_ns).max().unwrap_or(0);
        SLICE_NS_MIN.max(longest_ns.saturating_mul(SLICE_LIMITS))
    }

    /// Returns the lowest rate to try, in requests per second, with a configured window of `window_ns`.
    pub fn min_rate_per_s(window_ns: u64) -> f64 {
        REQUESTS_MIN / (window_ns * MEASURE_FACTOR_MAX) as f64 * 1e9
    }

    fn bounds(&self, first: &Trial) -> Bounds {
        let least = match self.varied {
            Varied::Rate => Self::min_rate_per_s(first.workload.phases.measure_ns),
            // Each client has a connection.
            Varied::Connections => f64::from(first.client.clients * first.client.processes),
        };
        Bounds { from: self.from, least, most: self.most, precision: self.precision }
    }
}

/// A search with its probes so far.
#[derive(Clone, Debug)]
pub struct RateSearch<'a> {
    /// The first trial, as planned.
    pub first: &'a Trial,
    /// The values and results of the probes, in order.
    pub probes: Vec<(f64, ProbeResult)>,
    search: Search,
    /// The reason for the end. `None` while the search continues.
    pub ended: Option<SearchEnd>,
}

/// The reason for the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// The interval has the requested precision.
    Precise,
    /// The time limit was reached.
    Time,
    /// The highest value met the limits.
    AllMet,
    /// The lowest value did not meet the limits.
    NoneMet,
    /// Several consecutive trials failed.
    Failed,
    /// The trial is infeasible on this host.
    Impossible,
}

/// The result of a search, and the cause of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityBound {
    /// The server is the limit.
    Server {
        /// The highest rate in requests per second, or the most connections.
        most: f64,
        /// The interval that covers it with a probability of 95 %.
        interval: Interval,
        /// The value at which 95 % of undisturbed probes succeed. At `most` half of them do.
        holds: f64,
    },
    /// A lower bound: the client was the limit, or the search found no value at which the server misses the goal.
    AtLeast {
        /// The rate in requests per second, or the number of connections.
        most: f64,
        /// Whether the client is the limit.
        client: bool,
    },
}

impl RateSearch<'_> {
    /// Returns the result so far. `None` if there is neither a bracket nor a probe that met the limits.
    pub fn answer(&self) -> Option<CapacityBound> {
        let met = self.probes.iter().filter(|(_, probe)| *probe == ProbeResult::Met).map(|(rate, _)| *rate);
        let highest_met = met.reduce(f64::max);
        let Some((Capacity { rate, interval }, holds)) = self.search.capacity().zip(self.search.holds()) else {
            let client = self.blames_the_client(highest_met.unwrap_or(0.0)..f64::INFINITY);
            return highest_met.map(|most| CapacityBound::AtLeast { most, client });
        };
        if self.blames_the_client(interval.low..EDGE_FACTOR * rate) {
            return Some(CapacityBound::AtLeast { most: interval.low, client: true });
        }
        Some(CapacityBound::Server { most: rate, interval, holds })
    }

    /// Tests whether the client is the cause of most unmet probes at these rates.
    fn blames_the_client(&self, rates: std::ops::Range<f64>) -> bool {
        let is_counted = |result, (rate, probe): &(f64, ProbeResult)| *probe == result && rates.contains(rate);
        let count = |result| self.probes.iter().filter(|probe| is_counted(result, probe)).count();
        count(ProbeResult::UnmetByTheClient) > count(ProbeResult::Unmet)
    }

    /// Returns the next probe. It shares its window if it cannot overrun its slices, and needs no longer window than others: a
    /// server that keeps up with the highest rate that met the limits answers the requests of a slice before the next guard ends.
    fn next(&self, header: &RunHeader, goal: &SearchGoal) -> Option<Trial> {
        let value = self.search.next()?;
        let (rate_per_s, connections) = match goal.varied {
            Varied::Rate => (value, self.first.workload.connections),
            Varied::Connections => (self.first.workload.rate_per_s()?, value.round() as u32),
        };
        let (round, searches) = (self.probes.len() as u32, header.trials.len() as u32);
        let window_ns = self.first.workload.phases.measure_ns;
        let measure_ns = goal.measure_ns(window_ns, rate_per_s);
        let index = round * searches + self.first.index;
        let mut probe = plan::probe(self.first, header.seed, (index, round), (rate_per_s, connections), measure_ns);
        let met = self.probes.iter().filter(|(_, probe)| *probe == ProbeResult::Met).map(|(rate, _)| *rate);
        let highest_met = met.fold(0.0, f64::max);
        let can_share = |slices: &Slices| {
            let is_long_enough = goal.measure_ns(window_ns, rate_per_s * slices.measured_share()) == window_ns;
            is_long_enough && rate_per_s <= highest_met * slices.overload_max()
        };
        let of_round = |slices: Slices| Slices { heat: round * searches + slices.heat, ..slices };
        probe.client.slices = probe.client.slices.filter(can_share).map(of_round);
        Some(probe)
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

/// Settles doubtful probes. They count as disturbed, and so are repeated, unless [`DOUBTFUL_MIN`] follow each other: a pause of the
/// host delays the client once, and a client at its limit is late each time.
fn settle_doubts(probes: &mut [(f64, ProbeResult)]) {
    let mut doubtful = 0;
    for (_, probe) in probes {
        match *probe {
            ProbeResult::Doubtful { met, client } => {
                doubtful += 1;
                *probe = match met {
                    _ if doubtful < DOUBTFUL_MIN => ProbeResult::Disturbed,
                    true => ProbeResult::Met,
                    false if client => ProbeResult::UnmetByTheClient,
                    false => ProbeResult::Unmet,
                };
            }
            ProbeResult::Disturbed => {}
            ProbeResult::Met | ProbeResult::Unmet | ProbeResult::UnmetByTheClient | ProbeResult::Failed => doubtful = 0,
        }
    }
}

/// Returns all searches of a run in their present state.
pub fn searches<'a>(header: &'a RunHeader, goal: &SearchGoal, outcomes: &[TrialOutcome]) -> Vec<RateSearch<'a>> {
    let searches = header.trials.len() as u32;
    let is_time_over = elapsed_ns(outcomes) >= goal.time_max_ns;
    let of = |first: &'a Trial| {
        let mut search = Search::new(goal.bounds(first));
        let mut outcomes: Vec<_> = outcomes.iter().filter(|outcome| outcome.index % searches == first.index).collect();
        outcomes.sort_by_key(|outcome| outcome.index);
        let mut probes: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.probe).collect();
        settle_doubts(&mut probes);
        for (value, probe) in &probes {
            match probe {
                ProbeResult::Met => search.add(*value, true),
                ProbeResult::Unmet | ProbeResult::UnmetByTheClient => search.add(*value, false),
                ProbeResult::Doubtful { .. } | ProbeResult::Disturbed | ProbeResult::Failed => {}
            }
        }
        let search = RateSearch { first, probes, search, ended: None };
        RateSearch { ended: search.end(is_time_over), ..search }
    };
    header.trials.iter().map(of).collect()
}

impl Rules for SearchGoal {
    fn observe(&self, record: &TrialRecord, outcome: &mut TrialOutcome) {
        outcome.probe = self.value(&record.trial.workload).zip(Some(self.probe(record)));
    }

    /// The next probes of the searches with the fewest probes, in an order that is drawn for each round. The index of a probe modulo
    /// the number of searches identifies its search.
    fn due(&self, header: &RunHeader, outcomes: &[TrialOutcome]) -> Vec<Trial> {
        let mut open: Vec<_> = searches(header, self, outcomes);
        open.retain(|search| search.ended.is_none());
        let round = open.iter().map(|search| search.probes.len()).min().unwrap_or(0);
        let mut order = Xoshiro256PlusPlus::seed_from_u64(header.seed.wrapping_add(round as u64));
        open.shuffle(&mut order);
        open.retain(|search| search.probes.len() == round);
        open.iter().filter_map(|search| search.next(header, self)).collect()
    }

    fn rest(&self, _: &RunHeader, outcomes: &[TrialOutcome]) -> Rest {
        Rest::of_time(self.time_max_ns, outcomes)
    }

    fn is_search(&self) -> bool {
        true
    }

    fn is_open_ended(&self) -> bool {
        true
    }

    fn is_probe(&self, _: &Trial) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
