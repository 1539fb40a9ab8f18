//! The thread-pool controller of SEDA (Welsh, Culler and Brewer, SOSP 2001, section 4): a pool grows by one thread while its queue
//! is long, and a thread that stays idle ends.

use std::time::Duration;

use crate::spec::controllers::PoolControl;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The size of one pool. The controller's thread adds threads; an idle thread removes itself.
#[derive(Debug)]
pub(crate) struct Pool {
    control: PoolControl,
    threads_min: u32,
    threads: AtomicU32,
}

impl Pool {
    /// Describes a pool that has `threads`, and never fewer.
    pub(crate) fn new(control: PoolControl, threads: u32) -> Self {
        Self { control, threads_min: threads, threads: AtomicU32::new(threads) }
    }

    /// The time without a job after which a thread may end.
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_nanos(self.control.idle_ns)
    }

    /// Adds a thread to the count if a sample of the queue's length requires one; returns whether to start it.
    pub(crate) fn grow(&self, queue: usize) -> bool {
        let is_long = queue >= self.control.queue as usize;
        let grown = |threads: u32| (is_long && threads < self.control.threads_max).then_some(threads + 1);
        self.threads.fetch_update(Relaxed, Relaxed, grown).is_ok()
    }

    /// Removes an idle thread from the count, unless the pool has its fewest threads; returns whether the thread must end.
    pub(crate) fn shrink(&self) -> bool {
        let shrunk = |threads: u32| (threads > self.threads_min).then_some(threads - 1);
        self.threads.fetch_update(Relaxed, Relaxed, shrunk).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pool_grows_with_its_queue_and_shrinks_to_its_first_size() {
        let pool = Pool::new(PoolControl { threads_max: 4, queue: 10, ..PoolControl::default() }, 2);
        assert!(!pool.grow(9), "the queue is short");
        assert!(pool.grow(10) && pool.grow(1_000));
        assert!(!pool.grow(1_000), "the pool has its most threads");
        assert!(pool.shrink() && pool.shrink());
        assert!(!pool.shrink(), "the pool has its fewest threads");
        assert!(pool.grow(10), "a pool grows again");
    }
}
