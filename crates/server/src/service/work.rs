//! Simulated work, added to each request: CPU time, blocking, or a wait for another service.

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

/// The simulated work of each request, in this order. The thread that makes its response does all but the wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// CPU time: a loop whose speed is measured once. Preemption makes it longer, like real work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Times>,
    /// CPU time by the clock: a loop that ends when the time has passed, however fast the CPU is. Preemption counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Times>,
    /// A sleep that blocks the thread in every architecture, like a read from a disk or a synchronous driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Times>,
    /// The time until the response is ready, as if another service made it. The thread may serve others meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Times>,
    /// The share of the connections whose requests take the work, above 0 and at most 1; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<f64>,
}

/// The law of the times of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Times {
    /// The same time for each.
    Constant {
        /// The time in nanoseconds.
        time_ns: u64,
    },
    /// Times from an exponential distribution.
    Exponential {
        /// The mean in nanoseconds.
        mean_ns: u64,
    },
    /// One of several times for each.
    Shares(Vec<TimeShare>),
}

/// A time that some requests take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeShare {
    /// The time in nanoseconds.
    pub time_ns: u64,
    /// The share of the requests; all shares together are 1.
    pub share: f64,
}

/// The longest step of a sleep, after which it checks whether the server stops.
const STEP: Duration = Duration::from_millis(100);

impl Work {
    /// Checks whether the connections of `service` can differ in their work, and whether its responses can wait.
    pub fn check(&self, service: &ServiceSpec) -> Result<(), String> {
        let name = service.name();
        if self.connections.is_some() && service.ports().is_some() {
            return Err(format!("`{name}` has no connections that differ in their work; remove `connections=`"));
        }
        match self.wait {
            Some(_) if service.ports().is_some() || service.stream().is_some() => Err(format!(
                "`{name}` cannot wait before a response: only the services whose connections have requests and responses can; choose \
                 `sleep=`, which blocks the thread, or another service"
            )),
            _ => Ok(()),
        }
    }

    /// The mean time in nanoseconds that a thread spends on a request, and the mean time of its wait.
    pub fn mean_ns(&self) -> (f64, f64) {
        let mean_ns = |times: &Option<Times>| times.as_ref().map_or(0.0, Times::mean_ns);
        ([&self.cpu, &self.busy, &self.sleep].map(mean_ns).iter().sum(), mean_ns(&self.wait))
    }

    /// Prepares this thread and those that it will start, which inherit its precise sleep.
    pub(super) fn prepare(&self) {
        if self.cpu.is_some() {
            // Measure the speed now, so that the first request does not wait for it.
            rounds_per_ns();
        }
        if self.sleep.is_some() || self.wait.is_some() {
            platform::set_precise_sleep();
        }
    }

    /// Draws whether the requests of a connection take the work.
    pub(super) fn draw(&self) -> bool {
        self.connections.is_none_or(|share| uniform() < share)
    }

    /// Performs the work of `requests` requests without the wait, or less if the server stops.
    pub(super) fn perform(&self, requests: u64, stopping: &AtomicBool) {
        for _ in 0..requests {
            if stopping.load(Relaxed) {
                return;
            }
            if let Some(times) = &self.cpu {
                spin(times.draw_ns() as f64 * rounds_per_ns());
            }
            if let Some(times) = &self.busy {
                keep_busy(Duration::from_nanos(times.draw_ns()));
            }
            if let Some(times) = &self.sleep {
                sleep_until(Instant::now() + Duration::from_nanos(times.draw_ns()), || stopping.load(Relaxed));
            }
        }
    }
}

impl Times {
    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Self::Constant { time_ns: ns } | Self::Exponential { mean_ns: ns } => *ns as f64,
            Self::Shares(list) => list.iter().map(|it| it.time_ns as f64 * it.share).sum(),
        }
    }

    /// The longest time in nanoseconds; `None` without a limit.
    pub fn longest_ns(&self) -> Option<u64> {
        match self {
            Self::Constant { time_ns } => Some(*time_ns),
            Self::Exponential { .. } => None,
            Self::Shares(list) => list.iter().map(|it| it.time_ns).max(),
        }
    }

    /// Multiplies all times.
    pub fn scale(&mut self, factor: u32) {
        let scale = |ns: &mut u64| *ns = ns.saturating_mul(factor.into());
        match self {
            Self::Constant { time_ns: ns } | Self::Exponential { mean_ns: ns } => scale(ns),
            Self::Shares(list) => list.iter_mut().for_each(|it| scale(&mut it.time_ns)),
        }
    }

    /// Draws the time of a request.
    pub(super) fn draw_ns(&self) -> u64 {
        match self {
            Self::Constant { time_ns } => *time_ns,
            Self::Exponential { mean_ns } => (*mean_ns as f64 * exponential()) as u64,
            Self::Shares(list) => {
                let mut left = uniform();
                let mut within = list.iter().skip_while(|it| {
                    left -= it.share;
                    left >= 0.0
                });
                // The shares may add up to slightly less than 1.
                within.next().or(list.last()).map_or(0, |it| it.time_ns)
            }
        }
    }
}

/// Sleeps until `until`; returns false if the server stops before.
pub(crate) fn sleep_until(until: Instant, is_stopping: impl Fn() -> bool) -> bool {
    while !is_stopping() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STEP));
    }
    false
}

/// A service with work for each request, except waits. Without work it costs one predictable branch.
pub struct WithWork<S> {
    service: S,
    work: Option<Work>,
    /// Whether the server is stopping, which ends the work.
    stopping: Arc<AtomicBool>,
}

impl<S> WithWork<S> {
    /// Adds `work` to each request of `service` until `stopping` is set. The accept thread must call this before it starts threads.
    pub fn new(service: S, work: Option<Work>, stopping: Arc<AtomicBool>) -> Self {
        work.iter().for_each(Work::prepare);
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

    forward!(service, |conn| *conn;
        unsent unsent_tail wait block resume is_over is_cut_short is_idle check_interval checks_max is_overdue);
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

    static NOBODY_STOPS: AtomicBool = AtomicBool::new(false);

    fn took(work: &Work, requests: u64) -> Duration {
        let started = Instant::now();
        work.perform(requests, &NOBODY_STOPS);
        started.elapsed()
    }

    fn constant(time_ns: u64) -> Option<Times> {
        Some(Times::Constant { time_ns })
    }

    #[test]
    fn work_takes_at_least_its_time() {
        let (busy, sleep) = (constant(1_000_000), constant(1_000_000));
        assert!(took(&Work { busy, sleep, ..Work::default() }, 3) >= Duration::from_millis(6));
        // Expect half: the CPU may have become faster since the measurement, but not twice as fast.
        assert!(took(&Work { cpu: constant(1_000_000), ..Work::default() }, 5) >= Duration::from_micros(2_500));
    }

    #[test]
    fn stopping_server_does_no_more_work() {
        let work = Work { sleep: constant(3_600_000_000_000), ..Work::default() };
        work.perform(1_000, &AtomicBool::new(true));
        let stops = Arc::new(AtomicBool::new(false));
        let working = {
            let stops = stops.clone();
            std::thread::spawn(move || work.perform(1_000, &stops))
        };
        std::thread::sleep(Duration::from_millis(5));
        stops.store(true, Relaxed);
        working.join().unwrap();
    }

    #[test]
    fn some_connections_work_in_all_their_requests() {
        let time_ns = 1_000_000;
        let work = Work { sleep: constant(time_ns), connections: Some(0.25), ..Work::default() };
        let service = WithWork::new(Fixed::new(1, 1), Some(work.clone()), Arc::default());
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
    }

    #[test]
    fn services_that_cannot_do_the_work_are_refused() {
        let udp = ServiceSpec::Udp { ports: 1, request_bytes: 16, response_bytes: 16 };
        let stream = ServiceSpec::Stream(wire::stream::Stream::default());
        let [some, wait, sleep] = [
            Work { cpu: constant(1), connections: Some(0.5), ..Work::default() },
            Work { wait: constant(1), ..Work::default() },
            Work { sleep: constant(1), ..Work::default() },
        ];
        assert!(some.check(&udp).unwrap_err().contains("remove `connections=`"));
        assert!(wait.check(&udp).unwrap_err().starts_with("`udp` cannot wait before a response"));
        assert!(wait.check(&stream).unwrap_err().contains("choose `sleep=`"));
        assert_eq!(sleep.check(&udp).and(sleep.check(&stream)).and(some.check(&stream)), Ok(()));
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
