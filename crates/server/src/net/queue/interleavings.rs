//! Interleavings of the queues. In every order of threads with few preemptions, no item is lost, and no reader sleeps while an
//! item is queued. Loom reports a lost wake-up as a deadlock.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::readiness::Trigger;

/// Tries every order with a bounded number of switches away from runnable threads; all orders would take too long.
fn every_order(interleaving: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(interleaving);
}

/// One thread sends two items, another sends one, and the reader waits in a mechanism.
fn mailbox(trigger: Trigger) {
    every_order(move || {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let sender = |items: &'static [u32]| {
            let mailbox = mailbox.clone();
            thread::spawn(move || items.iter().for_each(|&item| mailbox.send(item, &Counters::default())))
        };
        let senders = [sender(&[1, 2]), sender(&[3])];
        let (mut all, mut taken) = (Vec::new(), Vec::new());
        while all.len() < 3 {
            mailbox.wait(trigger);
            mailbox.take(&mut taken, &Counters::default());
            all.append(&mut taken);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(all.iter().filter(|&&item| item != 3).eq(&[1, 2]), "{all:?}");
        assert!(mailbox.is_empty());
    });
}

#[test]
fn mailbox_wakes_level_triggered_reader() {
    mailbox(Trigger::Level);
}

#[test]
fn mailbox_wakes_edge_triggered_reader() {
    mailbox(Trigger::Edge);
}

#[test]
fn jobs_wake_a_thread_that_waits() {
    every_order(|| {
        let jobs = Arc::new(Jobs::new());
        let sender = |items: &'static [u32]| {
            let jobs = jobs.clone();
            thread::spawn(move || items.iter().for_each(|&item| jobs.send(item, &Counters::default())))
        };
        let senders = [sender(&[1, 2]), sender(&[3])];
        let (mut all, mut taken) = (Vec::new(), VecDeque::new());
        while all.len() < 3 {
            let outcome = jobs.take(&mut taken, 0, None, &Counters::default());
            assert_eq!(outcome, WaitResult::Jobs, "the queue stays open");
            all.extend(taken.drain(..));
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(all.iter().filter(|&&item| item != 3).eq(&[1, 2]), "{all:?}");
    });
}

#[test]
fn shared_queue_wakes_enough_threads() {
    every_order(|| {
        let jobs = Arc::new(Jobs::new());
        let readers = [0; 2].map(|_| {
            let jobs = jobs.clone();
            thread::spawn(move || {
                let (mut all, mut taken) = (Vec::new(), VecDeque::new());
                while jobs.take(&mut taken, 1, None, &Counters::default()) == WaitResult::Jobs {
                    all.extend(taken.drain(..));
                }
                all
            })
        });
        jobs.send_all(&mut vec![1, 2], &Counters::default());
        while jobs.len() > 0 {
            thread::yield_now();
        }
        jobs.close();
        let mut all: Vec<u32> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        all.sort_unstable();
        assert!(all.len() <= 2 && all.iter().all(|item| [1, 2].contains(item)), "{all:?}");
    });
}

/// A thread whose wait times out while an item arrives takes no notification from a thread that still waits.
#[test]
fn timed_out_wait_leaves_other_threads_woken() {
    every_order(|| {
        let jobs = Arc::new(Jobs::new());
        let impatient = {
            let jobs = jobs.clone();
            thread::spawn(move || {
                let (mut taken, idle) = (VecDeque::new(), Some(Duration::ZERO));
                jobs.take(&mut taken, 1, idle, &Counters::default());
                taken.len()
            })
        };
        let sender = {
            let jobs = jobs.clone();
            thread::spawn(move || (1..=3).for_each(|item| jobs.send(item, &Counters::default())))
        };
        let (mut count, mut taken) = (0, VecDeque::new());
        // The impatient thread takes at most one of the items.
        while count < 2 {
            assert_eq!(jobs.take(&mut taken, 1, None, &Counters::default()), WaitResult::Jobs);
            count += taken.drain(..).count();
        }
        sender.join().unwrap();
        let taken = impatient.join().unwrap();
        assert_eq!(taken + count + jobs.len(), 3);
    });
}

#[test]
fn closed_queue_ends_its_thread() {
    every_order(|| {
        let jobs = Arc::new(Jobs::new());
        let reader = {
            let jobs = jobs.clone();
            thread::spawn(move || {
                let mut taken = VecDeque::new();
                while jobs.take(&mut taken, 0, None, &Counters::default()) == WaitResult::Jobs {
                    taken.clear();
                }
            })
        };
        let sender = {
            let jobs = jobs.clone();
            thread::spawn(move || jobs.send(1, &Counters::default()))
        };
        jobs.close();
        reader.join().unwrap();
        sender.join().unwrap();
        assert!(jobs.is_closed());
    });
}
