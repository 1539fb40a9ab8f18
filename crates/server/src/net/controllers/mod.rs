//! The controllers of a payload stage: SEDA's thread-pool controller, batching controller and admission control. Each file has
//! one controller as a state without clock and threads; this file has the thread that samples for the first two.

mod admission;
mod batch;
mod pool;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

pub(super) use admission::Admission;
pub(super) use pool::Pool;

use crate::metrics::workers::Gauges;
use crate::spec::controllers::Controllers;
use crate::sync::atomic::Ordering::Relaxed;
use batch::Batching;

/// The controllers as one payload thread sees them.
#[derive(Clone, Copy, Default)]
pub(super) struct ThreadControl<'a> {
    /// The pool of the thread, if its size changes.
    pub(super) pool: Option<&'a Pool>,
    /// The gauge with the batching factor; `None` to take the whole queue.
    pub(super) gauges: Option<&'a Gauges>,
    pub(super) admission: Option<&'a Admission<'a>>,
}

impl ThreadControl<'_> {
    /// The most jobs to take at once; 0 for all.
    pub(super) fn jobs_max(&self) -> usize {
        self.gauges.map_or(0, |gauges| gauges.batch_jobs.load(Relaxed) as usize)
    }

    /// The longest wait for a job.
    pub(super) fn idle(&self) -> Option<Duration> {
        self.pool.map(Pool::idle)
    }
}

/// The first batching factor; 0 to take the whole queue. A shared queue without a batching controller gives one job at a time,
/// because a thread that took all jobs would leave none for the others.
pub(super) fn first_batch_jobs(controllers: &Controllers) -> u64 {
    let without = u64::from(controllers.shares_queues());
    controllers.batch.map_or(without, |batch| batch.jobs_max.into())
}

/// A task of the controllers' thread.
struct Periodic {
    interval: Duration,
    last: Instant,
}

impl Periodic {
    fn every(interval_ns: u64) -> Self {
        Self { interval: Duration::from_nanos(interval_ns), last: Instant::now() }
    }

    fn left(&self) -> Duration {
        self.interval.saturating_sub(self.last.elapsed())
    }

    /// Returns the time since the task was last due, if it is due again.
    fn due(&mut self) -> Option<Duration> {
        let elapsed = self.last.elapsed();
        (elapsed >= self.interval).then(|| {
            self.last = Instant::now();
            elapsed
        })
    }
}

/// Samples the queues and the throughput until the sender of `running` is dropped. `queues` gives the length of each pool's queue,
/// `requests` the completed requests; `start` starts a thread of a pool.
pub(super) fn run(
    controllers: &Controllers,
    pools: &[Pool],
    gauges: &Gauges,
    running: &Receiver<()>,
    queue: impl Fn(usize) -> usize,
    requests: impl Fn() -> u64,
    mut start: impl FnMut(usize) -> std::io::Result<()>,
) {
    let mut sampling = controllers.pool.map(|pool| Periodic::every(pool.interval_ns));
    let mut batching = controllers.batch.map(|batch| (Periodic::every(batch.interval_ns), Batching::new(batch)));
    let mut before = requests();
    loop {
        let tasks = sampling.iter().chain(batching.iter().map(|(task, _)| task));
        let Some(left) = tasks.map(Periodic::left).min() else { return };
        if running.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        if sampling.as_mut().is_some_and(|task| task.due().is_some()) {
            for (number, pool) in pools.iter().enumerate() {
                // Without resources for another thread the pool keeps its size.
                if pool.grow(queue(number)) && start(number).is_err() {
                    pool.shrink();
                }
            }
        }
        if let Some((task, batching)) = &mut batching
            && let Some(elapsed) = task.due()
        {
            let now = requests();
            let jobs = batching.sample((now - before) as f64 / elapsed.as_secs_f64());
            gauges.batch_jobs.store(jobs.into(), Relaxed);
            before = now;
        }
    }
}
