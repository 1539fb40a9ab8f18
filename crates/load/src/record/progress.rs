//! How far a client is: stored by its roles, looked at now and then by others.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// Counts of one client. Each has one writer, for which a store is enough and no locked instruction needed; each role's
/// are on a cache line of their own, so that roles on two CPUs do not disturb each other.
#[derive(Debug, Default)]
pub struct Progress {
    send: Send,
    receive: Receive,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Send {
    sent: AtomicU64,
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
    /// The send role sent a request.
    #[inline]
    pub fn add_sent(&self) {
        add(&self.send.sent, 1);
    }

    /// The send role will send no more.
    pub fn set_done(&self) {
        // After this everything that was sent is seen.
        self.send.done.store(true, Release);
    }

    /// The receive role completed responses.
    #[inline]
    pub fn add_completed(&self, count: u64) {
        add(&self.receive.completed, count);
    }

    /// The receive role knows of requests that will not be answered.
    pub fn add_lost(&self, count: u64) {
        add(&self.receive.lost, count);
    }

    /// Bytes of streams came or went.
    #[inline]
    pub fn add_bytes(&self, count: u64) {
        add(&self.receive.bytes, count);
    }

    /// Bytes of streams.
    pub fn bytes(&self) -> u64 {
        self.receive.bytes.load(Relaxed)
    }

    /// Requests sent.
    pub fn sent(&self) -> u64 {
        self.send.sent.load(Relaxed)
    }

    /// Responses completed.
    pub fn completed(&self) -> u64 {
        self.receive.completed.load(Relaxed)
    }

    /// Whether responses may still come: there is more to send, or something that was sent is neither answered nor lost.
    /// A request that is sent in the very moment at which its connection ends may be taken for outstanding.
    pub fn is_outstanding(&self) -> bool {
        !self.send.done.load(Acquire) || self.sent() > self.completed() + self.receive.lost.load(Relaxed)
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The receive role does not go while a request is unanswered that it has not heard of yet.
    #[test]
    fn nothing_is_settled_before_all_is_sent() {
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
            assert!(progress.is_outstanding(), "one of two is answered");
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
    fn outstanding_until_all_is_sent_and_settled() {
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
