//! The queues between stages. The reader takes the whole queue under one lock (voras2009's lock coalescing).

use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::PoisonError;

use waker::Waker;

use crate::metrics::workers::{Counters, Syscall};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::{Condvar, Mutex, MutexGuard};

#[cfg(all(test, loom))]
mod models;
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

/// The queue of a thread that waits for nothing else.
#[derive(Debug)]
pub(super) struct Jobs<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    closed: AtomicBool,
}

#[derive(Debug)]
struct State<T> {
    queue: Vec<T>,
    waits: bool,
}

impl<T> Jobs<T> {
    pub(super) fn new() -> Self {
        let state = State { queue: Vec::new(), waits: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), closed: AtomicBool::new(false) }
    }

    pub(super) fn send(&self, item: T, counters: &Counters) {
        self.change(|queue| queue.push(item), counters);
    }

    /// Adds all items under one lock, and leaves `items` empty.
    pub(super) fn send_all(&self, items: &mut Vec<T>, counters: &Counters) {
        if !items.is_empty() {
            self.change(|queue| queue.append(items), counters);
        }
    }

    fn change(&self, add: impl FnOnce(&mut Vec<T>), counters: &Counters) {
        let mut state = lock(&self.state);
        add(&mut state.queue);
        let waits = mem::take(&mut state.waits);
        drop(state);
        if waits {
            counters.syscall(Syscall::Wake);
            self.arrived.notify_one();
        }
    }

    /// Waits for items, and swaps the queue with `taken`, which must be empty. Returns `false` once the queue is closed.
    pub(super) fn take(&self, taken: &mut Vec<T>, counters: &Counters) -> bool {
        debug_assert!(taken.is_empty(), "`taken` has unhandled items");
        let mut state = lock(&self.state);
        while state.queue.is_empty() && !self.is_closed() {
            state.waits = true;
            counters.syscall(Syscall::Wait);
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(&mut state.queue, taken);
        !self.is_closed()
    }

    pub(super) fn close(&self) {
        let state = lock(&self.state);
        self.closed.store(true, Relaxed);
        drop(state);
        self.arrived.notify_one();
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
                let (mut all, mut taken) = (Vec::new(), Vec::new());
                while jobs.take(&mut taken, &takes) {
                    all.append(&mut taken);
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
}
