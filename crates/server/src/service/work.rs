//! What a request costs the server besides its I/O: time of a CPU, or a wait such as a disk would make.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wire::Service;
use wire::udp::{ID_BYTES, Udp};

use crate::platform;

/// Work that is done for each request, in the thread that works out its response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// What it takes.
    pub kind: Kind,
    /// How much of it, in nanoseconds; the mean where it is random.
    pub time_ns: u64,
    /// Whether each request's time is drawn from an exponential distribution, instead of being the same for all.
    #[serde(default)]
    pub exponential: bool,
}

/// What work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Time of a CPU: a loop whose speed is measured once. Being preempted makes it longer, as it does real work.
    Cpu,
    /// A wait in which the thread does nothing and the CPU is free: what reading from a disk would be.
    Sleep,
}

impl Work {
    /// Does the work of so many requests, or of as many as come before the server stops.
    fn perform(&self, requests: u64, stopping: &AtomicBool) {
        for _ in 0..requests {
            if stopping.load(Relaxed) {
                return;
            }
            let time_ns = if self.exponential { self.time_ns as f64 * exponential() } else { self.time_ns as f64 };
            match self.kind {
                Kind::Cpu => spin(time_ns * rounds_per_ns()),
                Kind::Sleep => std::thread::sleep(Duration::from_nanos(time_ns as u64)),
            }
        }
    }
}

/// A service whose requests are work. Without any, this is one branch that is always foreseen.
#[derive(Debug)]
pub struct Worked<S> {
    service: S,
    work: Option<Work>,
    /// Whether the server stops: what is left undone then stays so.
    stopping: Arc<AtomicBool>,
}

impl<S> Worked<S> {
    /// `service`, with `work` for each of its requests until `stopping` is set. By the accept thread, before it makes
    /// others.
    pub fn new(service: S, work: Option<Work>, stopping: Arc<AtomicBool>) -> Self {
        match work.map(|work| work.kind) {
            // Before the first request, which would have to wait for it.
            Some(Kind::Cpu) => {
                rounds_per_ns();
            }
            Some(Kind::Sleep) => platform::wake_in_time(),
            None => {}
        }
        Self { service, work, stopping }
    }

    /// So many requests, with their work.
    #[inline]
    fn worked(&self, requests: u64) -> u64 {
        if let Some(work) = &self.work {
            work.perform(requests, &self.stopping);
        }
        requests
    }
}

impl Worked<Udp> {
    /// As [`Udp::asked`], with the request's work.
    #[inline]
    pub fn asked(&self, datagram: &[u8], bytes: usize) -> Option<[u8; ID_BYTES]> {
        self.service.asked(datagram, bytes).inspect(|_| {
            self.worked(1);
        })
    }

    /// A response without its id.
    pub fn response(&self) -> Vec<u8> {
        self.service.response()
    }
}

impl<S: Service> Service for Worked<S> {
    type Conn = S::Conn;

    #[inline]
    fn receive(&self, conn: &mut S::Conn, input: &[u8]) -> u64 {
        self.worked(self.service.receive(conn, input))
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a S::Conn) -> &'a [u8] {
        self.service.unsent(conn)
    }

    #[inline]
    fn sent(&self, conn: &mut S::Conn, count: usize) -> u64 {
        self.worked(self.service.sent(conn, count))
    }

    #[inline]
    fn is_over(&self, conn: &S::Conn) -> bool {
        self.service.is_over(conn)
    }

    #[inline]
    fn is_cut_short(&self, conn: &S::Conn) -> bool {
        self.service.is_cut_short(conn)
    }

    #[inline]
    fn is_idle(&self, conn: &S::Conn) -> bool {
        self.service.is_idle(conn)
    }

    #[inline]
    fn looks_every(&self) -> Option<Duration> {
        self.service.looks_every()
    }

    fn looks_max(&self) -> u32 {
        self.service.looks_max()
    }

    #[inline]
    fn is_overdue(&self, conn: &mut S::Conn) -> bool {
        self.service.is_overdue(conn)
    }
}

/// Keeps a CPU busy. Never inlined, so that it is as quick wherever it is called as where its speed is measured.
#[inline(never)]
fn spin(rounds: f64) {
    let mut at = 1u64;
    for _ in 0..rounds as u64 {
        at = black_box(at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(at);
}

/// The speed of [`spin`], measured at the first call: the quickest of many short runs, which nobody interrupted.
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

/// Generators begun so far, by threads of this process and, before they were forked, by those of its parent.
static STREAMS: AtomicU64 = AtomicU64::new(0);

/// Makes a process that is about to be forked draw other numbers than its parent and its siblings.
pub(crate) fn next_stream() {
    STREAMS.fetch_add(1, Relaxed);
}

/// A draw with mean 1, from a generator that each thread has for itself.
fn exponential() -> f64 {
    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    // splitmix64 (Steele, Lea, Flood 2014): one addition is all its state. Threads begin at mixed numbers, far apart.
    let state =
        STATE.get().unwrap_or_else(|| mix(STREAMS.fetch_add(1, Relaxed) + 1)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(Some(state));
    let uniform = (mix(state) >> 11) as f64 / (1u64 << 53) as f64;
    -(1.0 - uniform).ln()
}

/// The finaliser of splitmix64.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(work: Work, requests: u64) -> Duration {
        let started = Instant::now();
        work.perform(requests, &AtomicBool::new(false));
        started.elapsed()
    }

    #[test]
    fn work_takes_at_least_its_time() {
        let work = |kind| Work { kind, time_ns: 1_000_000, exponential: false };
        assert!(took(work(Kind::Sleep), 3) >= Duration::from_millis(3));
        // Half of it at least: a CPU may have become quicker since its speed was measured, but not twice as quick.
        assert!(took(work(Kind::Cpu), 5) >= Duration::from_micros(2_500));
    }

    #[test]
    fn a_server_that_stops_does_not_work_on() {
        let work = Work { kind: Kind::Sleep, time_ns: 3_600_000_000_000, exponential: false };
        work.perform(1_000, &AtomicBool::new(true));
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
    fn random_work_has_its_mean() {
        let draws: Vec<f64> = (0..100_000).map(|_| exponential()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        let beyond = draws.iter().filter(|draw| **draw > 3.0).count() as f64 / draws.len() as f64;
        assert!((beyond - (-3.0f64).exp()).abs() < 0.01, "{beyond}");
    }
}
