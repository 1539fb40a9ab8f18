//! The progress of a client: written by its roles, and read occasionally by other threads.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Counts of one client. Each counter has one writer, so a plain store is enough. Each role has its own cache line.
#[derive(Debug, Default)]
pub struct Progress {
    send: Send,
    receive: Receive,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Send {
    sent: AtomicU64,
    queued: AtomicU64,
    done: AtomicBool,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Receive {
    completed: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    #[inline]
    pub fn add_sent(&self) {
        add(&self.send.sent, 1);
    }

    /// Counts a request of the window that found its connection, or all connections, busy.
    pub fn add_queued(&self) {
        add(&self.send.queued, 1);
    }

    /// Marks the send role as done: it will send no more requests.
    pub fn set_done(&self) {
        // The release makes all counts of sent requests visible.
        self.send.done.store(true, Release);
    }

    /// Whether the send role is done. If so, all requests that it has sent are visible.
    pub fn is_done(&self) -> bool {
        self.send.done.load(Acquire)
    }

    #[inline]
    pub fn add_completed(&self, count: u64) {
        add(&self.receive.completed, count);
    }

    pub fn add_lost(&self, count: u64) {
        add(&self.receive.lost, count);
    }

    /// Counts bytes of streams, in either direction.
    #[inline]
    pub fn add_bytes(&self, count: u64) {
        add(&self.receive.bytes, count);
    }

    pub fn queued(&self) -> u64 {
        self.send.queued.load(Relaxed)
    }

    pub fn lost(&self) -> u64 {
        self.receive.lost.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.receive.bytes.load(Relaxed)
    }

    pub fn sent(&self) -> u64 {
        self.send.sent.load(Relaxed)
    }

    pub fn completed(&self) -> u64 {
        self.receive.completed.load(Relaxed)
    }

    /// Whether responses may still arrive: the send role is not done, or a sent request is neither answered nor lost.
    pub fn is_outstanding(&self) -> bool {
        !self.is_done() || self.sent() > self.completed() + self.lost()
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}

#[cfg(all(test, loom))]
mod interleavings {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The receive role must not end while a sent request is unanswered, even one that it has not seen yet.
    #[test]
    fn requests_stay_outstanding_until_all_are_sent() {
        loom::model(|| {
            let progress = Arc::new(Progress::default());
            let sender = {
                let progress = progress.clone();
                thread::spawn(move || {
                    progress.add_sent();
                    progress.add_sent();
                    progress.set_done();
                })
            };
            progress.add_completed(1);
            assert!(progress.is_outstanding(), "one of two requests is unanswered");
            progress.add_completed(1);
            sender.join().unwrap();
            assert!(!progress.is_outstanding());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn requests_are_outstanding_until_sent_and_settled() {
        let progress = Progress::default();
        assert!(progress.is_outstanding());
        (0..3).for_each(|_| progress.add_sent());
        progress.set_done();
        assert!(progress.is_outstanding());
        progress.add_completed(2);
        assert!(progress.is_outstanding());
        progress.add_lost(1);
        assert!(!progress.is_outstanding());
        assert_eq!((progress.sent(), progress.completed()), (3, 2));
    }
}
