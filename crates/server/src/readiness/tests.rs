//! The behaviour that every readiness mechanism must have.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[cfg(target_os = "illumos")]
use super::dev_poll::DevPoll;
#[cfg(target_os = "linux")]
use super::epoll::Epoll;
#[cfg(target_os = "illumos")]
use super::event_ports::EventPorts;
#[cfg(target_os = "linux")]
use super::io_uring_epoll::IoUringEpoll;
#[cfg(target_os = "linux")]
use super::io_uring_poll::IoUringPoll;
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
use super::kqueue::Kqueue;
use super::poll::Poll;
#[cfg(target_os = "linux")]
use super::rt_signal::RtSignal;
use super::select::Select;
use super::shuffled::Shuffled;
use super::skeleton::Skeleton;
use super::spin::Spin;
use super::*;
use crate::net::ACCEPTS;
use crate::net::ready_loop::run_service;
use crate::net::testkit::{Echo, check_flood_leaves_others_served, check_large_response_leaves_others_served};
use crate::registry::{MECHANISMS, find_mechanism};
use crate::skipped::skipped;
use crate::spec::mechanism::Family;
use crate::spec::model::Threads;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Runs one check for every mechanism that this host supports. The list must have all readiness mechanisms of the registry.
macro_rules! for_every_mechanism {
    ($check:ident) => {{
        let checked: &[(&str, fn())] = &[
            ("select", $check::<Select>),
            ("poll", $check::<Poll>),
            ("select-shuffled", $check::<Shuffled<Select>>),
            ("poll-shuffled", $check::<Shuffled<Poll>>),
            #[cfg(target_os = "linux")]
            ("epoll", $check::<Epoll<false>>),
            #[cfg(target_os = "linux")]
            ("epoll-et", $check::<Epoll<true>>),
            #[cfg(any(target_os = "freebsd", target_os = "macos"))]
            ("kqueue", $check::<Kqueue>),
            #[cfg(target_os = "illumos")]
            ("event-ports", $check::<EventPorts>),
            #[cfg(target_os = "illumos")]
            ("dev-poll", $check::<DevPoll>),
            ("spin", $check::<Spin>),
            #[cfg(target_os = "linux")]
            ("rt-signal", $check::<RtSignal>),
            #[cfg(target_os = "linux")]
            ("io_uring-poll", $check::<IoUringPoll>),
            #[cfg(target_os = "linux")]
            ("io_uring-epoll", $check::<IoUringEpoll>),
            // The skeleton has no row, but new mechanisms are copied from it.
            ("skeleton", $check::<Skeleton>),
        ];
        let names =
            MECHANISMS.iter().filter(|row| row.family == Family::Readiness).map(|row| row.name).chain(["skeleton"]);
        assert!(checked.iter().map(|(name, _)| *name).eq(names));
        for (name, check) in checked {
            match find_mechanism(name).map_or(Ok(()), |row| (row.can_run)()) {
                Ok(()) => println!("{name}"),
                Err(reason) => {
                    skipped(&format!("{name}: {reason}"));
                    continue;
                }
            }
            check();
        }
    }};
}

/// Returns the reported slots with their interests. An edge-triggered mechanism reports both directions, perhaps in several
/// waits. In this case, repeats the wait until nothing is reported, and returns only the slots to read.
fn wait<M: Readiness>(mechanism: &mut M) -> Vec<(u32, Interest)> {
    let mut ready = Vec::with_capacity(64);
    let mut all = Vec::new();
    loop {
        mechanism.wait(&mut ready, AT_ONCE).unwrap();
        all.extend(ready.iter().map(|ready| (ready.token.slot(), ready.interest)));
        if M::TRIGGER == Trigger::Level || ready.is_empty() {
            break;
        }
    }
    if M::TRIGGER == Trigger::Edge {
        all.retain(|&(_, interest)| interest == Interest::Read);
    }
    all.sort_by_key(|&(slot, _)| slot);
    all.dedup();
    all
}

#[test]
fn only_ready_sockets_are_reported() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let pairs: Vec<_> = (0..10).map(|_| UnixStream::pair().unwrap()).collect();
        for (at, (ours, _)) in pairs.iter().enumerate() {
            mechanism.add(ours.as_raw_fd(), Token::new(at as u32, 0), Interest::Read).unwrap();
        }
        if M::REPORTS_ALL {
            // Such a mechanism reports all sockets at once.
            assert_eq!(wait(&mut mechanism), (0..10).map(|slot| (slot, Interest::Read)).collect::<Vec<_>>());
            return;
        }
        assert_eq!(wait(&mut mechanism), []);
        (&pairs[3].1).write_all(b"x").unwrap();
        (&pairs[7].1).write_all(b"x").unwrap();
        let both = [(3, Interest::Read), (7, Interest::Read)];
        assert_eq!(wait(&mut mechanism), both);
        match M::TRIGGER {
            Trigger::Level => assert_eq!(wait(&mut mechanism), both, "unread bytes are reported again"),
            Trigger::Edge => {
                assert_eq!(wait(&mut mechanism), [], "unread bytes are reported once");
                (&pairs[7].1).write_all(b"x").unwrap();
            }
        }
        (&pairs[3].0).read_exact(&mut [0]).unwrap();
        assert_eq!(wait(&mut mechanism), [(7, Interest::Read)]);
    }
    for_every_mechanism!(check);
}

#[test]
fn socket_ready_when_added_is_reported() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        (&theirs).write_all(b"x").unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
        assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
    }
    for_every_mechanism!(check);
}

#[test]
fn changed_or_removed_interest_takes_effect() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (other, other_theirs) = UnixStream::pair().unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 5), Interest::Read).unwrap();
        mechanism.add(other.as_raw_fd(), Token::new(2, 0), Interest::Read).unwrap();
        mechanism.modify(ours.as_raw_fd(), Token::new(1, 5), Interest::Write).unwrap();
        if M::TRIGGER == Trigger::Level {
            assert!(wait(&mut mechanism).contains(&(1, Interest::Write)), "an empty socket is writable");
        }
        (&theirs).write_all(b"x").unwrap();
        mechanism.modify(ours.as_raw_fd(), Token::new(1, 5), Interest::Read).unwrap();
        assert!(wait(&mut mechanism).contains(&(1, Interest::Read)));
        mechanism.remove(ours.as_raw_fd()).unwrap();
        drop(ours);
        assert!(wait(&mut mechanism).iter().all(|&(slot, _)| slot != 1));
        (&other_theirs).write_all(b"x").unwrap();
        assert_eq!(wait(&mut mechanism), [(2, Interest::Read)], "the other socket is still watched");
    }
    for_every_mechanism!(check);
}

#[test]
fn unwatched_socket_is_reported_only_after_it_is_added_again() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
        (&theirs).write_all(b"x").unwrap();
        assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
        mechanism.unwatch(ours.as_raw_fd()).unwrap();
        (&theirs).write_all(b"x").unwrap();
        drop(theirs);
        // A cancelled poll request of io_uring ends only at the next wait, so it may report once more.
        assert!(wait(&mut mechanism).iter().all(|_| M::TRIGGER == Trigger::Edge));
        assert_eq!(wait(&mut mechanism), []);
        mechanism.add(ours.as_raw_fd(), Token::new(1, 1), Interest::Read).unwrap();
        assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
        mechanism.unwatch(ours.as_raw_fd()).unwrap();
        drop(ours);
        assert_eq!(wait(&mut mechanism), []);
    }
    for_every_mechanism!(check);
}

/// If one event reports the last bytes and the end of the stream, the loop must read again after the short read of these bytes.
#[test]
fn end_of_stream_behind_bytes_is_reported() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
        wait(&mut mechanism);
        (&theirs).write_all(b"x").unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut ready = Vec::with_capacity(64);
        mechanism.wait(&mut ready, AT_ONCE).unwrap();
        let first = ready.first().copied().expect("the bytes are reported");
        assert_eq!(first.interest, Interest::Read);
        (&ours).read_exact(&mut [0]).unwrap();
        let drains = ready.iter().any(|event| event.drain);
        assert!(drains || wait(&mut mechanism) == [(1, Interest::Read)], "the end of the stream is reported");
    }
    for_every_mechanism!(check);
}

/// Waits for an event that fulfils `condition`; fails after 100 waits.
fn until<M: Readiness>(mechanism: &mut M, condition: impl Fn(&Ready) -> bool) {
    let mut ready = Vec::with_capacity(64);
    for _ in 0..100 {
        mechanism.wait(&mut ready, Some(Duration::from_millis(10))).unwrap();
        if ready.iter().any(&condition) {
            return;
        }
    }
    panic!("the event was not reported");
}

#[test]
fn writable_socket_is_reported() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
        while (&ours).write(&[0; 4096]).is_ok() {}
        mechanism.modify(ours.as_raw_fd(), Token::new(1, 0), Interest::Write).unwrap();
        if !M::REPORTS_ALL {
            let mut ready = Vec::with_capacity(64);
            // Discard the events from before the socket was full.
            mechanism.wait(&mut ready, AT_ONCE).unwrap();
            mechanism.wait(&mut ready, AT_ONCE).unwrap();
            assert_eq!(ready, [], "a full socket is not writable");
        }
        while (&theirs).read(&mut [0; 4096]).is_ok() {}
        until(&mut mechanism, |ready| ready.token.slot() == 1 && ready.interest == Interest::Write);
    }
    for_every_mechanism!(check);
}

#[test]
fn hang_up_is_reported() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
        drop(theirs);
        assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
    }
    for_every_mechanism!(check);
}

#[test]
fn wait_lasts_at_least_its_timeout() {
    fn check<M: Readiness>() {
        if M::REPORTS_ALL {
            // Such a mechanism never waits.
            return;
        }
        let mut mechanism = M::new(4096).unwrap();
        let mut ready = Vec::with_capacity(1);
        for timeout in [Duration::from_nanos(1), Duration::from_micros(1_001), Duration::from_micros(2_500)] {
            let started = Instant::now();
            mechanism.wait(&mut ready, Some(timeout)).unwrap();
            assert!(started.elapsed() >= timeout, "{:?} is below the timeout of {timeout:?}", started.elapsed());
        }
    }
    for_every_mechanism!(check);
}

#[test]
fn descriptor_beyond_the_capacity_is_refused() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(1).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(mechanism.add(ours.as_raw_fd(), Token::new(0, 0), Interest::Read).is_err());
    }
    // epoll, also below io_uring, and kqueue have no such limit.
    check::<Select>();
    check::<Poll>();
    check::<Spin>();
    #[cfg(target_os = "linux")]
    check::<RtSignal>();
    #[cfg(target_os = "linux")]
    match IoUringPoll::can_run() {
        Ok(()) => check::<IoUringPoll>(),
        Err(reason) => skipped(&format!("io_uring-poll: {reason}")),
    }
}

/// A signal reaches the thread that added the descriptor, even if another thread causes the event.
#[cfg(target_os = "linux")]
#[test]
fn signal_reaches_only_the_watching_thread() {
    let mut mechanism = RtSignal::new(4096).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
    std::thread::spawn(move || (&theirs).write_all(b"x").unwrap()).join().unwrap();
    assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
}

#[cfg(target_os = "linux")]
#[test]
fn signal_of_a_removed_descriptor_is_ignored() {
    let mut mechanism = RtSignal::new(4096).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    mechanism.add(ours.as_raw_fd(), Token::new(1, 0), Interest::Read).unwrap();
    (&theirs).write_all(b"x").unwrap();
    mechanism.remove(ours.as_raw_fd()).unwrap();
    assert_eq!(wait(&mut mechanism), []);
}

/// A late completion does not reach the next connection with the same descriptor. A poll request does not keep a closed socket
/// open.
#[cfg(target_os = "linux")]
#[test]
fn late_completions_never_reach_the_next_connection() {
    if let Err(reason) = IoUringPoll::can_run() {
        skipped(&format!("io_uring-poll: {reason}"));
        return;
    }
    let mut mechanism = IoUringPoll::new(4096).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    // Choose a descriptor that no other test uses.
    let first = rustix::io::fcntl_dupfd_cloexec(&ours, 900).unwrap();
    let number = first.as_raw_fd();
    drop(ours);
    mechanism.add(number, Token::new(1, 0), Interest::Read).unwrap();
    wait(&mut mechanism);
    (&theirs).write_all(b"x").unwrap();
    mechanism.remove(number).unwrap();
    drop(first);
    let (next, next_theirs) = UnixStream::pair().unwrap();
    let second = rustix::io::fcntl_dupfd_cloexec(&next, 900).unwrap();
    assert_eq!(second.as_raw_fd(), number);
    mechanism.add(number, Token::new(2, 0), Interest::Read).unwrap();
    assert_eq!(wait(&mut mechanism), [], "the bytes belong to the earlier connection");
    theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Closing a socket with unread bytes resets it.
    let end = (&theirs).read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset), "the earlier connection is closed");
    (&next_theirs).write_all(b"x").unwrap();
    assert_eq!(wait(&mut mechanism), [(2, Interest::Read)]);
}

/// If the completion ring overflows, no event is lost, and requests that end are renewed.
#[cfg(target_os = "linux")]
#[test]
fn overflow_of_completion_ring_loses_no_event() {
    if let Err(reason) = IoUringPoll::can_run() {
        skipped(&format!("io_uring-poll: {reason}"));
        return;
    }
    const ROUNDS: usize = 600;
    let mut mechanism = IoUringPoll::new(4096).unwrap();
    let pairs: Vec<_> = (0..10).map(|_| UnixStream::pair().unwrap()).collect();
    for (at, (ours, _)) in pairs.iter().enumerate() {
        mechanism.add(ours.as_raw_fd(), Token::new(at as u32, 0), Interest::Read).unwrap();
    }
    wait(&mut mechanism);
    let all_slots: Vec<_> = (0..10).map(|slot| (slot, Interest::Read)).collect();
    let mut overflowed = false;
    for _ in 0..ROUNDS {
        for (ours, theirs) in &pairs {
            (&*theirs).write_all(b"x").unwrap();
            (&*ours).read_exact(&mut [0]).unwrap();
        }
        overflowed |= mechanism.leave_completions();
    }
    assert!(overflowed, "the completion ring overflows");
    for (_, theirs) in &pairs {
        (&*theirs).write_all(b"x").unwrap();
    }
    assert_eq!(wait(&mut mechanism), all_slots);
    for (ours, theirs) in &pairs {
        (&*ours).read_exact(&mut [0]).unwrap();
        (&*theirs).write_all(b"x").unwrap();
    }
    assert_eq!(wait(&mut mechanism), all_slots, "all sockets are still watched");
}

#[test]
fn flood_of_connects_leaves_others_served() {
    fn check<M: Readiness>() {
        // A level-triggered mechanism reports the first connection only in the wait after its accept, perhaps behind the
        // listener. So the loop may accept `ACCEPTS` connections twice before it serves the first one.
        let accepts_max = 2 * ACCEPTS as u64;
        check_flood_leaves_others_served("sped", None, accepts_max, |context, record| {
            run_service::<M>(context, &Echo(record))
        });
    }
    for_every_mechanism!(check);
}

#[test]
fn large_response_leaves_others_served() {
    fn check<M: Readiness>() {
        check_large_response_leaves_others_served("sped", None, |context, service| {
            run_service::<M>(context, &*service)
        });
        let threads = Some(Threads { payload: Some(1), ..Threads::all(1) });
        check_large_response_leaves_others_served("seda", threads, |context, service| {
            run_service::<M>(context, &*service)
        });
    }
    for_every_mechanism!(check);
}

#[cfg(target_os = "linux")]
#[test]
fn mechanisms_that_can_poll_an_interface_ask_the_kernel() {
    use std::os::fd::AsFd;

    use crate::platform::busy_poll::{can_busy_poll, of_epoll};

    let poll = BusyPoll { time_us: 70, budget: BusyPoll::BUDGET, is_preferred: true, suspend_ns: None };
    for (kind, ask) in [
        (BusyPolls::Epoll, Epoll::<false>::polling(8, Some(poll)).map(|it| of_epoll(it.epoll.as_fd()).unwrap())),
        (BusyPolls::Epoll, Epoll::<true>::polling(8, Some(poll)).map(|it| of_epoll(it.epoll.as_fd()).unwrap())),
        (BusyPolls::Ring, IoUringPoll::polling(8, Some(poll)).map(|_| (70, 8, true))),
    ] {
        match can_busy_poll(kind, poll) {
            Ok(()) => assert_eq!(ask.unwrap(), (70, 8, true), "{kind:?}"),
            Err(reason) => skipped(&reason),
        }
    }
    assert_eq!(of_epoll(Epoll::<true>::polling(8, None).unwrap().epoll.as_fd()).unwrap_or_default().0, 0);
    Poll::polling(8, Some(poll)).unwrap();
}
