//! Simulated work, added to each request: CPU time, or a wait, as for a disk.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::udp::{ID_BYTES, Udp};
use wire::{Service, ServiceSpec};

use super::forward::forward;
use crate::{platform, random};

/// The simulated work of each request, done by the thread that makes its response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// The kind of work.
    pub kind: Kind,
    /// The time in nanoseconds; the mean if `exponential`.
    pub time_ns: u64,
    /// Whether times are drawn from an exponential distribution instead of being constant.
    pub exponential: bool,
    /// The share of the connections whose requests take the work, above 0 and at most 1; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<f64>,
}

/// The kind of simulated work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CPU time: a loop whose speed is measured once. Preemption makes it longer, like real work.
    Cpu,
    /// CPU time by the clock: a loop that ends when the time has passed, however fast the CPU is. Preemption counts.
    Busy,
    /// A wait that leaves the CPU free, like a read from a disk.
    Sleep,
}

impl Work {
    /// Checks whether the connections of `service` can differ in their work: datagrams have no connections.
    pub fn check(&self, service: &ServiceSpec) -> Result<(), String> {
        match (self.connections, service.ports()) {
            (Some(_), Some(_)) => {
                Err(format!("`{}` has no connections that differ in their work; remove `connections=`", service.name()))
            }
            _ => Ok(()),
        }
    }

    /// Draws whether the requests of a connection take the work.
    fn draw(&self) -> bool {
        self.connections.is_none_or(|share| uniform() < share)
    }

    /// Performs the work of `requests` requests, or less if the server stops.
    fn perform(&self, requests: u64, stopping: &AtomicBool) {
        for _ in 0..requests {
            if stopping.load(Relaxed) {
                return;
            }
            let time_ns = if self.exponential { self.time_ns as f64 * exponential() } else { self.time_ns as f64 };
            match self.kind {
                Kind::Cpu => spin(time_ns * rounds_per_ns()),
                Kind::Busy => keep_busy(Duration::from_nanos(time_ns as u64)),
                Kind::Sleep => std::thread::sleep(Duration::from_nanos(time_ns as u64)),
            }
        }
    }
}

/// A service with work for each request. Without work it costs one predictable branch.
pub struct WithWork<S> {
    service: S,
    work: Option<Work>,
    /// Whether the server is stopping, which ends the work.
    stopping: Arc<AtomicBool>,
}

impl<S> WithWork<S> {
    /// Adds `work` to each request of `service` until `stopping` is set. The accept thread must call this before it starts
    /// threads, because they inherit its precise sleep.
    pub fn new(service: S, work: Option<Work>, stopping: Arc<AtomicBool>) -> Self {
        match work.map(|work| work.kind) {
            // Measure the speed now, so that the first request does not wait for it.
            Some(Kind::Cpu) => _ = rounds_per_ns(),
            Some(Kind::Sleep) => platform::set_precise_sleep(),
            Some(Kind::Busy) | None => {}
        }
        Self { service, work, stopping }
    }
}

impl WithWork<Udp> {
    /// Returns [`Udp::request_id`] after the request's work.
    #[inline]
    pub fn request_id(&self, datagram: &[u8], bytes: usize) -> Option<[u8; ID_BYTES]> {
        let perform = || self.work.iter().for_each(|work| work.perform(1, &self.stopping));
        self.service.request_id(datagram, bytes).inspect(|_| perform())
    }

    /// A response without its id.
    pub fn response(&self) -> Vec<u8> {
        self.service.response()
    }

    /// Returns [`Udp::request_bytes`].
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only batches of datagrams use it"))]
    pub fn request_bytes(&self) -> usize {
        self.service.request_bytes()
    }
}

impl<S: Service> Service for WithWork<S> {
    type Conn = S::Conn;

    #[inline]
    fn receive(&self, conn: &mut S::Conn, input: &[u8]) -> u64 {
        self.service.receive(conn, input)
    }

    fn reject(&self, conn: &mut S::Conn, input: &[u8]) -> Option<u64> {
        self.service.reject(conn, input)
    }

    #[inline]
    fn sent(&self, conn: &mut S::Conn, count: usize) -> u64 {
        self.service.sent(conn, count)
    }

    #[inline]
    fn work(&self, _conn: &S::Conn, requests: u64, works: &mut Option<bool>) {
        if let Some(work) = &self.work
            && *works.get_or_insert_with(|| work.draw())
        {
            work.perform(requests, &self.stopping);
        }
    }

    forward!(service, |conn| *conn; unsent unsent_tail is_over is_cut_short is_idle check_interval checks_max is_overdue);
}

/// Keeps a CPU busy. Never inlined, so that it has the speed that [`rounds_per_ns`] measures.
#[inline(never)]
fn spin(rounds: f64) {
    let mut at = 1u64;
    for _ in 0..rounds as u64 {
        at = black_box(at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(at);
}

/// Keeps a CPU busy until the time has passed.
fn keep_busy(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {}
}

/// The speed of [`spin`], measured at the first call. Uses the fastest of many short runs, which contains no interrupt.
fn rounds_per_ns() -> f64 {
    static SPEED: OnceLock<f64> = OnceLock::new();
    *SPEED.get_or_init(|| {
        const ROUNDS: f64 = 20_000.0;
        let quickest = (0..100).map(|_| {
            let started = Instant::now();
            spin(ROUNDS);
            started.elapsed()
        });
        ROUNDS / quickest.min().unwrap_or_default().as_nanos().max(1) as f64
    })
}

/// Draws an exponentially distributed number with mean 1.
fn exponential() -> f64 {
    -(1.0 - uniform()).ln()
}

/// Draws a number of at least 0 and below 1.
fn uniform() -> f64 {
    (random::bits() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use wire::fixed::{Fixed, FixedConn};

    use super::*;

    fn took(work: Work, requests: u64) -> Duration {
        let started = Instant::now();
        work.perform(requests, &AtomicBool::new(false));
        started.elapsed()
    }

    #[test]
    fn work_takes_at_least_its_time() {
        let work = |kind| Work { kind, time_ns: 1_000_000, exponential: false, connections: None };
        assert!(took(work(Kind::Sleep), 3) >= Duration::from_millis(3));
        assert!(took(work(Kind::Busy), 3) >= Duration::from_millis(3));
        // Expect half: the CPU may have become faster since the measurement, but not twice as fast.
        assert!(took(work(Kind::Cpu), 5) >= Duration::from_micros(2_500));
    }

    #[test]
    fn stopping_server_does_no_more_work() {
        let work = Work { kind: Kind::Sleep, time_ns: 3_600_000_000_000, exponential: false, connections: None };
        work.perform(1_000, &AtomicBool::new(true));
    }

    #[test]
    fn some_connections_work_in_all_their_requests() {
        let time_ns = 1_000_000;
        let work = Work { kind: Kind::Sleep, time_ns, exponential: false, connections: Some(0.25) };
        let service = WithWork::new(Fixed::new(1, 1), Some(work), Arc::default());
        let draws: Vec<Option<bool>> = (0..400)
            .map(|_| {
                let mut works = None;
                // No request takes no time, and draws all the same.
                service.work(&FixedConn::default(), 0, &mut works);
                works
            })
            .collect();
        let working = draws.iter().filter(|works| **works == Some(true)).count();
        assert!(
            (50..150).contains(&working) && draws.iter().all(Option::is_some),
            "{working} of 400 with a share of 1/4"
        );
        let took = |mut works| {
            let started = Instant::now();
            (0..20).for_each(|_| service.work(&FixedConn::default(), 1, &mut works));
            started.elapsed()
        };
        assert!(took(Some(true)) >= Duration::from_nanos(20 * time_ns));
        // All of 20 requests would take 20 ms.
        assert!((0..20).map(|_| took(Some(false))).min() < Some(Duration::from_nanos(20 * time_ns)));
        let udp = ServiceSpec::Udp { ports: 1, request_bytes: 16, response_bytes: 16 };
        assert!(work.check(&udp).unwrap_err().contains("remove `connections=`"));
        assert_eq!(Work { connections: None, ..work }.check(&udp), Ok(()));
    }

    #[test]
    fn threads_draw_different_numbers() {
        let first = |_| std::thread::spawn(exponential).join().unwrap();
        let draws: Vec<f64> = (0..1_000).map(first).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.15, "{mean}");
        let beyond = draws.iter().filter(|draw| **draw > 1.0).count() as f64 / draws.len() as f64;
        assert!((beyond - (-1.0f64).exp()).abs() < 0.08, "{beyond}");
    }

    #[test]
    fn exponential_draws_have_mean_one() {
        let draws: Vec<f64> = (0..100_000).map(|_| exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        let beyond = draws.iter().filter(|draw| **draw > 3.0).count() as f64 / draws.len() as f64;
        assert!((beyond - (-3.0f64).exp()).abs() < 0.01, "{beyond}");
    }
}
