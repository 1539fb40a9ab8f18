//! The queues between stages. The reader takes the whole queue under one lock (voras2009's lock coalescing).

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::PoisonError;
use std::time::Duration;

use waker::Waker;

use crate::metrics::workers::{Counters, Syscall};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::{Condvar, Mutex, MutexGuard, wait_timeout};

#[cfg(all(test, loom))]
mod interleavings;
#[cfg_attr(loom, path = "queue/loom_waker.rs")]
mod waker;

/// Locks a mutex even after a panic: the locked values are always consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of a thread that waits in a mechanism. The mechanism watches the queue's descriptor.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    queue: Mutex<Vec<T>>,
    waker: Waker,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { queue: Mutex::new(Vec::new()), waker: Waker::new()? })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.waker.descriptor()
    }

    /// Adds an item; wakes the reader if the queue was empty.
    pub(super) fn send(&self, item: T, counters: &Counters) {
        let mut queue = lock(&self.queue);
        let was_empty = queue.is_empty();
        queue.push(item);
        drop(queue);
        if was_empty {
            counters.syscall(Syscall::Wake);
            self.waker.wake();
        }
    }

    /// Waits like a mechanism that watches only this queue.
    #[cfg(all(test, loom))]
    pub(super) fn wait(&self, trigger: crate::readiness::Trigger) {
        self.waker.wait(trigger);
    }

    /// Whether there is nothing to take. A reader over `spin` checks this, because `spin` always reports the mailbox as ready.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.queue).is_empty()
    }

    /// Swaps the queue with `taken`, which must be empty. Clears the waker first, so that a later item wakes the reader again.
    pub(super) fn take(&self, taken: &mut Vec<T>, counters: &Counters) {
        debug_assert!(taken.is_empty(), "`taken` has unhandled items");
        counters.syscall(Syscall::Wake);
        self.waker.clear();
        mem::swap(&mut *lock(&self.queue), taken);
    }
}

/// The queue of one or more threads that wait for nothing else.
#[derive(Debug)]
pub(super) struct Jobs<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    closed: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    /// Threads that wait and for which no notification is on its way.
    waiting: usize,
    /// Notifications on their way. One may miss a thread whose time has just passed, so the next thread that ends its wait takes it.
    notified: usize,
}

/// The result of a wait for jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitResult {
    Jobs,
    /// No job came in the longest time to wait.
    Nothing,
    /// The queue is closed.
    Closed,
}

impl<T> Jobs<T> {
    pub(super) fn new() -> Self {
        let state = State { queue: VecDeque::new(), waiting: 0, notified: 0 };
        Self { state: Mutex::new(state), arrived: Condvar::new(), closed: AtomicBool::new(false) }
    }

    pub(super) fn send(&self, item: T, counters: &Counters) {
        self.change(|queue| queue.push_back(item), counters);
    }

    /// Adds all items under one lock, and leaves `items` empty.
    pub(super) fn send_all(&self, items: &mut Vec<T>, counters: &Counters) {
        if !items.is_empty() {
            self.change(|queue| queue.extend(items.drain(..)), counters);
        }
    }

    /// Wakes as many waiting threads as there are new items.
    fn change(&self, add: impl FnOnce(&mut VecDeque<T>), counters: &Counters) {
        let mut state = lock(&self.state);
        let before = state.queue.len();
        add(&mut state.queue);
        let woken = state.waiting.min(state.queue.len() - before);
        state.waiting -= woken;
        state.notified += woken;
        drop(state);
        for _ in 0..woken {
            counters.syscall(Syscall::Wake);
            self.arrived.notify_one();
        }
    }

    /// Waits for items, at most for `idle` if given, and moves at most `count` of them (0: all) to `taken`, which must be empty.
    pub(super) fn take(
        &self,
        taken: &mut VecDeque<T>,
        count: usize,
        idle: Option<Duration>,
        counters: &Counters,
    ) -> WaitResult {
        debug_assert!(taken.is_empty(), "`taken` has unhandled items");
        let mut state = lock(&self.state);
        while state.queue.is_empty() && !self.is_closed() {
            state.waiting += 1;
            counters.syscall(Syscall::Wait);
            let is_late;
            (state, is_late) = match idle {
                None => (self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner), false),
                Some(idle) => wait_timeout(&self.arrived, &self.state, state, idle),
            };
            match state.notified {
                0 => state.waiting -= 1,
                _ => state.notified -= 1,
            }
            // An item may have come at the same moment.
            if is_late && state.queue.is_empty() && !self.is_closed() {
                return WaitResult::Nothing;
            }
        }
        if count == 0 || count >= state.queue.len() {
            mem::swap(&mut state.queue, taken);
        } else {
            taken.extend(state.queue.drain(..count));
        }
        if self.is_closed() { WaitResult::Closed } else { WaitResult::Jobs }
    }

    /// The number of items that no thread has taken.
    pub(super) fn len(&self) -> usize {
        lock(&self.state).queue.len()
    }

    pub(super) fn close(&self) {
        let state = lock(&self.state);
        self.closed.store(true, Relaxed);
        drop(state);
        self.arrived.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rustix::event::{PollFd, PollFlags};

    use super::*;

    const MANY: u32 = 20_000;

    #[test]
    fn mailbox_items_arrive_in_order_and_wake_a_polling_reader() {
        let mailbox = Mailbox::new().unwrap();
        let (sends, takes) = (Counters::default(), Counters::default());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..MANY).for_each(|item| mailbox.send(item, &sends)));
            let (mut all, mut taken) = (Vec::new(), Vec::new());
            while all.len() < MANY as usize {
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(mailbox.descriptor(), PollFlags::IN)], None)
                    .unwrap();
                mailbox.take(&mut taken, &takes);
                all.append(&mut taken);
            }
            assert!(all.into_iter().eq(0..MANY));
        });
        assert!(mailbox.queue.lock().unwrap().is_empty());
    }

    #[test]
    fn jobs_arrive_in_order_until_the_queue_is_closed() {
        let (jobs, count) = (Jobs::new(), std::sync::atomic::AtomicUsize::new(0));
        let (sends, takes) = (Counters::default(), Counters::default());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut all, mut taken) = (Vec::new(), VecDeque::new());
                while jobs.take(&mut taken, 0, None, &takes) == WaitResult::Jobs {
                    all.extend(taken.drain(..));
                    count.store(all.len(), Relaxed);
                }
                all
            });
            (0..MANY / 2).for_each(|item| jobs.send(item, &sends));
            let mut rest: Vec<u32> = (MANY / 2..MANY).collect();
            jobs.send_all(&mut rest, &sends);
            assert!(rest.is_empty());
            while count.load(Relaxed) < MANY as usize {
                std::thread::yield_now();
            }
            jobs.close();
            assert!(reader.join().unwrap().into_iter().eq(0..MANY));
        });
    }

    #[test]
    fn several_readers_share_a_queue_and_take_few_items_at_once() {
        let (jobs, count) = (Jobs::new(), std::sync::atomic::AtomicUsize::new(0));
        let sends = Counters::default();
        std::thread::scope(|scope| {
            let read = || {
                let (mut all, mut taken, takes) = (Vec::new(), VecDeque::new(), Counters::default());
                loop {
                    match jobs.take(&mut taken, 3, Some(Duration::from_micros(50)), &takes) {
                        WaitResult::Jobs => assert!((1..=3).contains(&taken.len())),
                        WaitResult::Nothing => assert!(taken.is_empty()),
                        WaitResult::Closed => return all,
                    }
                    count.fetch_add(taken.len(), Relaxed);
                    all.extend(taken.drain(..));
                }
            };
            let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
            (0..MANY).for_each(|item| jobs.send(item, &sends));
            while count.load(Relaxed) < MANY as usize {
                std::thread::yield_now();
            }
            jobs.close();
            let mut all: Vec<u32> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..MANY));
        });
    }

    #[test]
    fn idle_reader_gets_nothing_after_its_time() {
        let (jobs, counters) = (Jobs::<u32>::new(), Counters::default());
        let taken = jobs.take(&mut VecDeque::new(), 1, Some(Duration::from_millis(1)), &counters);
        assert_eq!((taken, lock(&jobs.state).waiting), (WaitResult::Nothing, 0));
    }
}
