//! The behaviour that every variant of io_uring must have.

use std::io::{Read, Write};
use std::mem;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use wire::fixed::Fixed;

use super::features::*;
use super::*;
use crate::completion::Datagrams;
use crate::metrics::workers::Workers;
use crate::net::ACCEPTS;
use crate::net::completion_loop::run_service;
use crate::net::testkit::{
    Echo, Fixture, check_flood_leaves_others_served, check_large_response_leaves_others_served, wait_until,
};
use crate::skipped::skipped;

/// Runs one check for some variants; reports a skipped test for each that the host cannot run.
macro_rules! for_variants {
    ($check:ident: $($features:ty)*) => { $(if_runnable::<$features>($check::<IoUring<$features>>);)* };
}

macro_rules! for_every_variant {
    ($check:ident) => {
        for_variants!($check: Multishot Interrupting Cooperative Sqpoll Oneshot Bundles MinimumWait RegisteredFiles ZeroCopy RegisteredBuffers);
    };
}

fn if_runnable<F: Features>(check: impl FnOnce()) {
    match IoUring::<F>::can_run() {
        Ok(()) => check(),
        Err(reason) => skipped(&format!("{}: {reason}", std::any::type_name::<F>())),
    }
}

/// A send of one byte.
const X: Unsent<'static> = Unsent { first: b"x", second: b"" };

fn counters() -> &'static Counters {
    Workers::new(0).unwrap().accept()
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, theirs)
}

/// Waits until `enough` returns true for the completions so far.
fn wait_for<M: Completion>(mechanism: &mut M, enough: impl Fn(&[Done]) -> bool) -> Vec<Done> {
    let (mut all, mut done) = (Vec::new(), Vec::with_capacity(M::DONE_MAX));
    while !enough(&all) {
        mechanism.wait(&mut done, None).unwrap();
        all.append(&mut done);
    }
    all
}

fn bytes<M: Completion>(mechanism: &M, received: &Received) -> Vec<u8> {
    mechanism.parts(received).flatten().copied().collect()
}

fn received(done: Done) -> Received {
    match done.event {
        CompletionEvent::Received(received) => received,
        other => panic!("{other:?}"),
    }
}

#[test]
fn operation_and_token_read_back_from_tag() {
    for (kind, _) in Operation::ALL {
        if kind != Operation::Watch {
            let token = Token::new(KIND_ONE as u32 - 1, u32::MAX - 1);
            assert_eq!(untag(tag(kind, token)), (kind, token));
        }
    }
    for token in [Token::STOP, Token::MAILBOX] {
        assert_eq!(untag(tag(Operation::Watch, token)), (Operation::Watch, token));
    }
}

#[test]
fn kernel_without_either_zero_copy_send_is_refused() {
    let without = |missing: u8| has_zero_copy(move |code| code != missing);
    for missing in [opcode::SendZc::CODE, opcode::SendMsgZc::CODE] {
        assert!(without(missing).unwrap_err().contains("Linux 6.1"));
    }
    assert_eq!(has_zero_copy(|_| true), Ok(()));
}

#[test]
fn kernel_without_bundles_or_minimum_waits_is_refused() {
    assert!(has_features::<Bundles>(false, true).unwrap_err().contains("Linux 6.10"));
    assert!(has_features::<MinimumWait>(true, false).unwrap_err().contains("Linux 6.12"));
    assert_eq!(has_features::<Bundles>(true, false), Ok(()));
    assert_eq!(has_features::<MinimumWait>(false, true), Ok(()));
    assert_eq!(has_features::<Multishot>(false, false), Ok(()));
}

#[test]
fn bundle_has_all_bytes_in_order() {
    const SENDS: usize = 200;
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let (ours, theirs) = pair();
        let token = Token::new(0, 0);
        let bytes: Vec<u8> = (0..10_000u32).map(|at| (at / 7) as u8).collect();
        let mut largest = 0;
        mechanism.receive(ours.as_raw_fd(), token, false).unwrap();
        for _ in 0..SENDS {
            (&theirs).write_all(&bytes).unwrap();
            let mut all = Vec::new();
            while all.len() < bytes.len() {
                for done in wait_for(&mut mechanism, |all| !all.is_empty()) {
                    let received = received(done);
                    largest = largest.max(mechanism.parts(&received).count());
                    mechanism.parts(&received).for_each(|part| all.extend_from_slice(part));
                    if !received.more {
                        mechanism.receive(ours.as_raw_fd(), token, false).unwrap();
                    }
                    mechanism.give_back(received);
                }
            }
            assert!(all == bytes);
        }
        assert!(largest > 1, "no completion had several buffers");
    }
    for_variants!(check: Bundles);
}

#[test]
fn receive_without_a_buffer_fails_and_loses_nothing() {
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let pairs: Vec<_> = (0..BUFFERS.start() + 4).map(|_| pair()).collect();
        for (at, (ours, theirs)) in pairs.iter().enumerate() {
            (&*theirs).write_all(&[at as u8]).unwrap();
            mechanism.receive(ours.as_raw_fd(), Token::new(at as u32, 0), false).unwrap();
        }
        let first = wait_for(&mut mechanism, |all| all.len() >= pairs.len());
        let mut seen = Vec::new();
        let mut without = Vec::new();
        let mut keep = Vec::new();
        for done in first {
            let token = done.token;
            let received = received(done);
            match received.result {
                Ok(1) => {
                    assert_eq!(bytes(&mechanism, &received), [token.slot() as u8]);
                    seen.push(token.slot());
                    keep.push(received);
                }
                other => {
                    assert_eq!(other, Err(Errno::NOBUFS));
                    assert!(!received.more, "a failed receive must be requested again");
                    without.push(token);
                }
            }
        }
        assert_eq!(seen.len(), *BUFFERS.start());
        keep.into_iter().for_each(|received| mechanism.give_back(received));
        for &token in &without {
            mechanism.receive(pairs[token.slot() as usize].0.as_raw_fd(), token, false).unwrap();
        }
        for done in wait_for(&mut mechanism, |all| all.len() >= without.len()) {
            seen.push(done.token.slot());
            assert_eq!(bytes(&mechanism, &received(done)).len(), 1);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..pairs.len() as u32));
    }
    // Bundles have more buffers, and a table of files has no place for more connections than `new` was told.
    for_variants!(check: Multishot Interrupting Cooperative Sqpoll Oneshot MinimumWait ZeroCopy);
}

#[test]
fn cancelled_receive_reports_its_end_and_leaves_later_bytes() {
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let (ours, theirs) = pair();
        let token = Token::new(0, 7);
        mechanism.open(ours.as_raw_fd(), token).unwrap();
        mechanism.receive(ours.as_raw_fd(), token, false).unwrap();
        mechanism.cancel_receive(Token::new(0, 6)).unwrap();
        (&theirs).write_all(b"x").unwrap();
        let mut done = wait_for(&mut mechanism, |all| !all.is_empty());
        assert_eq!(done[0].token, token, "the cancel of another generation has no effect");
        let first = received(done.pop().unwrap());
        assert_eq!(bytes(&mechanism, &first), b"x");
        let repeats = first.more;
        mechanism.give_back(first);
        if !repeats {
            mechanism.receive(ours.as_raw_fd(), token, false).unwrap();
        }
        mechanism.cancel_receive(token).unwrap();
        let last = received(wait_for(&mut mechanism, |all| !all.is_empty()).pop().unwrap());
        assert_eq!((last.result, last.more), (Err(Errno::CANCELED), false));
        (&theirs).write_all(b"y").unwrap();
        let mut one = [0];
        (&ours).read_exact(&mut one).unwrap();
        assert_eq!(&one, b"y");
    }
    for_every_variant!(check);
}

#[test]
fn completions_beyond_the_queue_capacity_are_not_lost() {
    const SENDS: usize = COMPLETIONS_MAX as usize + 1_000;
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let (ours, theirs) = pair();
        for _ in 0..SENDS {
            // SAFETY: the bytes are a constant.
            unsafe { mechanism.send(ours.as_raw_fd(), Token::new(0, 0), X).unwrap() };
        }
        let all = wait_for(&mut mechanism, |all| all.len() >= SENDS);
        assert!(all.iter().all(|done| matches!(done.event, CompletionEvent::Sent(Ok(1)))));
        (&theirs).read_exact(&mut vec![0; SENDS]).unwrap();
    }
    // Zero-copy sends complete one at a time.
    for_variants!(check: Multishot Sqpoll);
}

#[test]
fn send_is_reported_once() {
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let (ours, theirs) = pair();
        mechanism.open(ours.as_raw_fd(), Token::new(0, 0)).unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        for _ in 0..20 {
            let reader = std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let mut all = vec![0; bytes.len()];
                    (&theirs).read_exact(&mut all).unwrap();
                    all
                });
                let mut sent = 0;
                while sent < bytes.len() {
                    // The first half, if it is unsent, and the second half are two parts of a send.
                    let (first, second) = bytes[sent..].split_at((bytes.len() / 2).saturating_sub(sent));
                    let unsent =
                        if first.is_empty() { Unsent { first: second, second: &[] } } else { Unsent { first, second } };
                    // SAFETY: the bytes outlive the mechanism's use of them.
                    unsafe { mechanism.send(ours.as_raw_fd(), Token::new(0, 0), unsent).unwrap() };
                    let done = wait_for(&mut mechanism, |all| !all.is_empty());
                    assert_eq!(done.len(), 1);
                    let CompletionEvent::Sent(Ok(count)) = done[0].event else { panic!("{done:?}") };
                    sent += count;
                }
                reader.join().unwrap()
            });
            assert!(reader == bytes);
        }
        drop(theirs);
        // A failing send is also reported once.
        let mut result = Ok(1);
        while result.is_ok() {
            // SAFETY: the bytes are a constant.
            unsafe { mechanism.send(ours.as_raw_fd(), Token::new(0, 0), X).unwrap() };
            let done = wait_for(&mut mechanism, |all| !all.is_empty());
            let CompletionEvent::Sent(sent) = done[0].event else { panic!("{done:?}") };
            result = sent;
        }
    }
    for_every_variant!(check);
}

#[test]
fn dropped_ring_receives_nothing_more() {
    fn check<M: Completion>() {
        let (ours, theirs) = pair();
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        mechanism.open(ours.as_raw_fd(), Token::new(0, 0)).unwrap();
        mechanism.receive(ours.as_raw_fd(), Token::new(0, 0), false).unwrap();
        (&theirs).write_all(b"x").unwrap();
        wait_for(&mut mechanism, |all| !all.is_empty());
        drop(mechanism);
        (&theirs).write_all(b"y").unwrap();
        let mut one = [0];
        (&ours).read_exact(&mut one).unwrap();
        assert_eq!(&one, b"y");
    }
    for_every_variant!(check);
}

#[test]
fn datagram_without_room_is_not_sent() {
    fn check<M: Datagrams>() {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        let mut bytes = [7; 40];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: all fields are numbers or pointers, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        let mut sends = 0;
        loop {
            // SAFETY: the memory is valid until `wait_for` returns with the completed send.
            unsafe { mechanism.send_datagram(ours.as_raw_fd(), Token::new(0, 0), &raw const message) }.unwrap();
            sends += 1;
            let done = wait_for(&mut mechanism, |all| !all.is_empty());
            match done[0].event {
                CompletionEvent::Sent(Ok(40)) => assert!(sends < 1_000_000, "the socket's buffer never fills up"),
                CompletionEvent::Sent(Err(Errno::AGAIN)) => break,
                ref other => panic!("{other:?}"),
            }
        }
    }
    // Use Unix sockets, which buffer few datagrams. Zero-copy sends do not support them.
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for_variants!(check: Multishot Interrupting Cooperative Sqpoll Oneshot MinimumWait);
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|error| {
        assert!(error == RecvTimeoutError::Disconnected, "a send to a full socket fails at once");
        thread.join().unwrap();
    });
}

fn cancels(fixture: &Fixture) -> u64 {
    fixture.workers.totals().operations.get("cancel").copied().unwrap_or_default()
}

#[test]
fn input_behind_unsent_responses_cancels_a_receive() {
    fn check<M: Completion>() {
        let fixture = Fixture::new();
        let server = fixture.start("sped", None, |context| run_service::<M>(context, &Fixed::new(1, 1 << 10)));
        let client = fixture.connect();
        // The client reads nothing, and the responses exceed the buffers of its connection. The last send is taken in part, or waits.
        (&client).write_all(&[0; 64 << 10]).unwrap();
        wait_until("the receive is cancelled", || {
            (&client).write_all(&[0]).unwrap();
            cancels(fixture) > 0
        });
        drop(client);
        server.stop().unwrap();
    }
    for_variants!(check: Multishot Bundles);
}

#[test]
fn partial_send_cancels_a_receive_and_full_sends_do_not() {
    fn check<M: Completion>() {
        let fixture = Fixture::new();
        let server = fixture.start("sped", None, |context| run_service::<M>(context, &Fixed::new(1, 1 << 10)));
        let mut client = fixture.connect();
        for _ in 0..3 {
            // The responses take several sends.
            client.write_all(&[0; 16]).unwrap();
            client.read_exact(&mut [0; 16 << 10]).unwrap();
        }
        assert_eq!(cancels(fixture), 0);
        drop(client);
        server.stop().unwrap();
        // The client reads nothing, and the response exceeds the buffers of its connection.
        let fixture = Fixture::new();
        let server = fixture.start("sped", None, |context| run_service::<M>(context, &Fixed::new(1, 64 << 20)));
        let mut client = fixture.connect();
        client.write_all(&[0]).unwrap();
        wait_until("the receive is cancelled", || cancels(fixture) > 0);
        drop(client);
        server.stop().unwrap();
    }
    for_variants!(check: Multishot Bundles);
}

#[test]
fn flood_of_connects_leaves_others_served() {
    fn check<M: Completion>(accepts_max: u64) {
        check_flood_leaves_others_served("sped", None, accepts_max, |context, record| {
            run_service::<M>(context, &Echo(record))
        });
    }
    let accepts_max = 2 * ACCEPTS as u64;
    if_runnable::<Multishot>(|| check::<IoUring<Multishot>>(accepts_max));
    if_runnable::<Oneshot>(|| check::<IoUring<Oneshot>>(accepts_max));
    if_runnable::<Bundles>(|| check::<IoUring<Bundles>>(accepts_max));
    if_runnable::<RegisteredFiles>(|| check::<IoUring<RegisteredFiles>>(accepts_max));
    if_runnable::<ZeroCopy>(|| check::<IoUring<ZeroCopy>>(accepts_max));
    // The kernel's thread, or an interrupt of the server's, may begin to receive after any number of accepts.
    if_runnable::<Sqpoll>(|| check::<IoUring<Sqpoll>>(u64::MAX));
    if_runnable::<Interrupting>(|| check::<IoUring<Interrupting>>(u64::MAX));
}

#[test]
fn large_response_leaves_others_served() {
    fn check<M: Completion>() {
        check_large_response_leaves_others_served("sped", None, |context, service| {
            run_service::<M>(context, &*service)
        });
    }
    // A zero-copy send over loopback ends only when its client has read it.
    for_variants!(check: Multishot Interrupting Cooperative Sqpoll Oneshot Bundles MinimumWait RegisteredFiles);
}

#[test]
fn ended_connections_leave_the_table_of_files() {
    fn check<M: Completion>() {
        let mut mechanism = M::new(1, 64 << 10, counters()).unwrap();
        for generation in 0..3 {
            let (ours, theirs) = pair();
            let token = Token::new(0, generation);
            mechanism.open(ours.as_raw_fd(), token).unwrap();
            mechanism.receive(ours.as_raw_fd(), token, false).unwrap();
            (&theirs).write_all(&[generation as u8]).unwrap();
            let first = received(wait_for(&mut mechanism, |all| !all.is_empty()).pop().unwrap());
            assert_eq!(bytes(&mechanism, &first), [generation as u8]);
            mechanism.give_back(first);
            mechanism.cancel_receive(token).unwrap();
            wait_for(&mut mechanism, |all| !all.is_empty());
            mechanism.close(token).unwrap();
            drop(ours);
            mechanism.wait(&mut Vec::with_capacity(M::DONE_MAX), Some(std::time::Duration::ZERO)).unwrap();
            theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!((&theirs).read_to_end(&mut Vec::new()).unwrap(), 0, "the socket is closed");
        }
    }
    for_variants!(check: RegisteredFiles);
}
