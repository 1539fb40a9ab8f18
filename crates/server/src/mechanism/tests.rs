//! What every mechanism must do, checked for each.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::epoll::Epoll;
use super::poll::Poll;
use super::select::Select;
use super::*;

/// Those of the other family, which have tests of their own.
const COMPLETION: [&str; 4] = ["io_uring", "io_uring-sqpoll", "io_uring-oneshot", "io_uring-zc"];

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Runs one check for every mechanism; the names are compared with the table, so that none is forgotten.
macro_rules! for_every_mechanism {
    ($check:ident) => {{
        let checked: &[(&str, fn())] =
            &[("select", $check::<Select>), ("poll", $check::<Poll>), ("epoll", $check::<Epoll>)];
        let names = MECHANISMS.iter().map(|row| row.name).filter(|name| !COMPLETION.contains(name));
        assert!(checked.iter().map(|(name, _)| *name).eq(names));
        for (name, check) in checked {
            println!("{name}");
            check();
        }
    }};
}

fn wait<M: Readiness>(mechanism: &mut M) -> Vec<(u32, Interest)> {
    let mut ready = Vec::with_capacity(64);
    mechanism.wait(&mut ready, AT_ONCE).unwrap();
    let mut ready: Vec<_> = ready.iter().map(|ready| (ready.token.slot(), ready.interest)).collect();
    ready.sort_by_key(|&(slot, _)| slot);
    ready
}

#[test]
fn reports_only_what_is_ready() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let pairs: Vec<_> = (0..10).map(|_| UnixStream::pair().unwrap()).collect();
        for (at, (ours, _)) in pairs.iter().enumerate() {
            mechanism.add(ours.as_raw_fd(), Token::new(at as u32, 0), Interest::Read).unwrap();
        }
        assert_eq!(wait(&mut mechanism), []);
        (&pairs[3].1).write_all(b"x").unwrap();
        (&pairs[7].1).write_all(b"x").unwrap();
        let both = [(3, Interest::Read), (7, Interest::Read)];
        assert_eq!(wait(&mut mechanism), both);
        assert_eq!(wait(&mut mechanism), both, "level-triggered: unread bytes are reported again");
        (&pairs[3].0).read_exact(&mut [0]).unwrap();
        assert_eq!(wait(&mut mechanism), [(7, Interest::Read)]);
    }
    for_every_mechanism!(check);
}

#[test]
fn interest_turns_and_ends() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (other, other_theirs) = UnixStream::pair().unwrap();
        mechanism.add(ours.as_raw_fd(), Token::new(1, 5), Interest::Read).unwrap();
        mechanism.add(other.as_raw_fd(), Token::new(2, 0), Interest::Read).unwrap();
        mechanism.modify(ours.as_raw_fd(), Token::new(1, 5), Interest::Write).unwrap();
        assert_eq!(wait(&mut mechanism), [(1, Interest::Write)], "there is room to write");
        (&theirs).write_all(b"x").unwrap();
        mechanism.modify(ours.as_raw_fd(), Token::new(1, 5), Interest::Read).unwrap();
        assert_eq!(wait(&mut mechanism), [(1, Interest::Read)]);
        mechanism.remove(ours.as_raw_fd()).unwrap();
        drop(ours);
        assert_eq!(wait(&mut mechanism), []);
        (&other_theirs).write_all(b"x").unwrap();
        assert_eq!(wait(&mut mechanism), [(2, Interest::Read)], "the other one is still watched");
    }
    for_every_mechanism!(check);
}

#[test]
fn a_hang_up_is_reported() {
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
fn timeouts_round_up() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(4096).unwrap();
        let mut ready = Vec::with_capacity(1);
        for timeout in [Duration::from_nanos(1), Duration::from_micros(1_001), Duration::from_micros(2_500)] {
            let started = Instant::now();
            mechanism.wait(&mut ready, Some(timeout)).unwrap();
            assert!(started.elapsed() >= timeout, "{:?} is short of {timeout:?}", started.elapsed());
        }
    }
    for_every_mechanism!(check);
}

#[test]
fn a_descriptor_beyond_the_room_is_refused_not_lost() {
    fn check<M: Readiness>() {
        let mut mechanism = M::new(1).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(mechanism.add(ours.as_raw_fd(), Token::new(0, 0), Interest::Read).is_err());
    }
    // epoll has no such limit.
    check::<Select>();
    check::<Poll>();
}

#[test]
fn names_are_unique_and_documented() {
    for (at, row) in MECHANISMS.iter().enumerate() {
        assert!(!row.about.is_empty());
        assert!(MECHANISMS[..at].iter().all(|earlier| earlier.name != row.name));
    }
}

#[test]
fn tokens_of_the_loop_are_no_connection_s() {
    let mut generation = u32::MAX - 2;
    for _ in 0..4 {
        generation = Token::next_generation(generation);
        assert_ne!(Token::new(u32::MAX, generation), Token::LISTENER);
        assert_ne!(Token::new(u32::MAX - 1, generation), Token::STOP);
    }
}
