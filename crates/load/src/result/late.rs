//! Requests that the client sent late, and the quantiles of a trial that these requests may have raised.
//!
//! A stalled client sends everything that became due during the stall in one burst. The burst queues at the server, so service
//! times include the client's delay. In a test, three stalls of 60 ms raised a p99 from 105 us to 1.4 ms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Histogram;

/// The smallest delay of a late send, in nanoseconds: five times the p99 of kawai2008's send delays (section 5.3).
const DELAY_NS_MIN: u64 = 100_000;

/// A tail belongs to the server only if it has at least this many requests per late request.
///
/// A late request makes up to 6 requests slow: itself, one in flight when the client stopped, and 4 behind the burst. If the
/// server is busy for a share u of its time, u/(1-u) wait behind it: 4 with u = 0.8. So 4 of 10 requests remain unaffected.
const TAIL_TO_LATE_MIN: f64 = 10.0;

/// The largest share of late requests in a valid trial. Above it the client may have caused even the median.
pub const LATE_SHARE_MAX: f64 = 0.5 / TAIL_TO_LATE_MIN;

/// The number of requests that the client sent late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LateSends {
    /// The longest send delay of a request that is not late, in nanoseconds: the interquartile range of the service time, but
    /// at least 0.1 ms. A burst after a shorter delay adds less than service times vary anyway.
    pub bound_ns: u64,
    /// Requests with a longer send delay.
    pub count: u64,
    /// Further requests whose responses may have waited for a stalled client: the stalls' share of `sent`, less `count`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stalled: u64,
    /// Requests that arrived while memory monitors of the host's kernel ran: the share of the time in which they ran, of `sent`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub monitored: u64,
    /// Requests whose send delay is known.
    pub sent: u64,
    /// p99 of the service time of requests sent on time, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_p99_ns: Option<u64>,
    /// p99.9 of the service time of requests sent on time, in nanoseconds; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_time_p999_ns: Option<u64>,
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LateSends {
    /// Counts late sends, given the histograms of send delay and service time.
    pub fn of(delay: &Histogram, service: &Histogram) -> Self {
        let spread_ns = service.quantile(0.75).saturating_sub(service.quantile(0.25));
        let bound_ns = spread_ns.max(DELAY_NS_MIN);
        Self { bound_ns, count: delay.count_above(bound_ns), sent: delay.count(), ..Self::default() }
    }

    /// Adds the quantiles of requests sent on time. `requests` holds each request's send delay and service time, in ns.
    pub fn with_on_time(self, requests: impl Iterator<Item = (Option<i64>, Option<i64>)>) -> Self {
        let is_on_time = |delay_ns: i64| delay_ns <= self.bound_ns as i64;
        let on_time = requests.filter(|(delay_ns, _)| delay_ns.is_some_and(is_on_time));
        let service: Histogram = on_time.filter_map(|(_, service_ns)| Some(service_ns?.max(0) as u64)).collect();
        let quantile = |q: f64| (service.count() > 0).then(|| service.quantile(q));
        Self { on_time_p99_ns: quantile(0.99), on_time_p999_ns: quantile(0.999), ..self }
    }

    /// Sets `stalled`, given the share of the window in which the client was stalled.
    pub fn with_stalled(self, share: f64) -> Self {
        let stalled = (share * self.sent as f64).ceil() as u64;
        Self { stalled: stalled.saturating_sub(self.count), ..self }
    }

    /// Sets `monitored`, given the share of the window in which the monitors ran.
    pub fn with_monitored(self, share: f64) -> Self {
        Self { monitored: (share * self.sent as f64).round() as u64, ..self }
    }

    /// Adds another client or trial. Keeps the higher quantile, which is an upper bound of the combined quantile.
    pub fn and(self, other: Self) -> Self {
        Self {
            bound_ns: self.bound_ns.max(other.bound_ns),
            count: self.count + other.count,
            stalled: self.stalled + other.stalled,
            monitored: self.monitored + other.monitored,
            sent: self.sent + other.sent,
            on_time_p99_ns: self.on_time_p99_ns.max(other.on_time_p99_ns),
            on_time_p999_ns: self.on_time_p999_ns.max(other.on_time_p999_ns),
        }
    }

    /// The number of requests that the client may have made slow.
    pub fn total(&self) -> u64 {
        self.count + self.stalled
    }

    /// The share of requests that the client may have made slow.
    pub fn share(&self) -> f64 {
        self.total() as f64 / self.sent.max(1) as f64
    }

    /// Whether the client, or the monitors, may have caused the quantile `q` of service or response time.
    pub fn reaches(&self, q: f64) -> bool {
        // Allow for half a request of rounding.
        (self.total() + self.monitored) as f64 * TAIL_TO_LATE_MIN > (1.0 - q) * self.sent as f64 + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadResult;

    /// 10 000 requests of 50 us, of which `count` are 60 ms late.
    fn late(count: usize) -> LateSends {
        let delay: Histogram = (0..10_000).map(|at| if at < count { 60_000_000 } else { 1_000 }).collect();
        LateSends::of(&delay, &[50_000; 10].into_iter().collect())
    }

    #[test]
    fn late_sends_reach_quantiles_with_too_small_a_tail() {
        let reached = |count: usize| [0.5, 0.9, 0.99, 0.999].map(|q| late(count).reaches(q));
        assert_eq!(reached(0), [false; 4]);
        assert_eq!(reached(1), [false, false, false, false]);
        assert_eq!(reached(10), [false, false, false, true]);
        assert_eq!(reached(11), [false, false, true, true]);
        assert_eq!(reached(101), [false, true, true, true]);
        assert_eq!(reached(501), [true; 4]);
        assert!(late(500).share() <= LATE_SHARE_MAX && late(501).share() > LATE_SHARE_MAX);
        assert!(!LateSends::default().reaches(1.0), "without requests, no request is late");
    }

    #[test]
    fn send_is_late_beyond_the_spread_of_service_times() {
        let of = |service_ns: [u64; 4], delay_ns: u64| {
            LateSends::of(&[delay_ns].into_iter().collect(), &service_ns.into_iter().collect()).count
        };
        assert_eq!([of([50_000; 4], 90_000), of([50_000; 4], 110_000)], [0, 1]);
        let varied = [100_000, 100_000, 600_000, 600_000];
        assert_eq!([of(varied, 480_000), of(varied, 520_000)], [0, 1]);
        assert_eq!(of([50_000_000; 4], 45_000_000), 1, "a long service time does not raise the bound");
    }

    #[test]
    fn stalled_client_reaches_quantiles_without_late_sends() {
        let reached = |count: usize, share: f64| [0.9, 0.99, 0.999].map(|q| late(count).with_stalled(share).reaches(q));
        assert_eq!(reached(0, 0.0), [false; 3]);
        assert_eq!(reached(0, 0.001), [false, false, true]);
        assert_eq!(reached(0, 0.002), [false, true, true]);
        assert_eq!(reached(0, 0.1), [true; 3]);
        // A stall that send delays show counts only once.
        assert_eq!(late(20).with_stalled(0.002).total(), 20);
        let both = late(20).with_stalled(0.002).and(late(0).with_stalled(0.01));
        assert_eq!((both.count, both.stalled, both.share()), (20, 100, 120.0 / 20_000.0));
    }

    #[test]
    fn bursts_of_monitors_reach_quantiles_of_clients_on_time() {
        let monitored = late(0).with_monitored(0.004);
        assert_eq!((monitored.monitored, monitored.total()), (40, 0), "the client is not late");
        assert_eq!([0.5, 0.95, 0.99].map(|q| monitored.reaches(q)), [false, false, true]);
        assert_eq!(monitored.and(monitored).monitored, 80);
        let report = |share| LoadResult { late: late(0), monitor_share: share, ..LoadResult::default() };
        assert!(report(Some(0.004)).is_foreign_tail(0.99) && !report(Some(0.004)).is_client_tail(0.99));
        assert!(!report(None).is_foreign_tail(0.99) && !report(Some(0.0)).is_foreign_tail(0.999));
    }

    #[test]
    fn late_sends_do_not_change_on_time_quantiles() {
        let request =
            |at: i64| if at % 20 == 0 { (Some(9_000_000), Some(5_000_000)) } else { (Some(10), Some(40_000)) };
        let found = late(0).with_on_time((0..1_000).map(request).chain([(None, None), (Some(1), None)]));
        assert!(found.on_time_p999_ns.unwrap() < 41_000, "{found:?}");
        assert_eq!(late(0).with_on_time(std::iter::empty()).on_time_p99_ns, None);
    }
}
