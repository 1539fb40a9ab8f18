//! Interleavings of a network thread and payload threads that serve one connection over a real socket. In every order
//! with few preemptions, all requests are answered, and the connection ends once, after its client has finished.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use loom::thread;
use rustix::net::sockopt;
use wire::fixed::Fixed;

use super::*;
use crate::net::connection::Connect;
use crate::readiness::Trigger;

const REQUEST_BYTES: u32 = 2;

/// A client sends `pieces` and finishes. Payload threads answer; when one finds the socket full, the client reads.
/// `preemptions` bounds the switches away from runnable threads, and thus the time and memory.
fn every_order(pieces: &'static [&'static [u8]], response_bytes: u32, payloads: usize, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        // Threads of an interleaving cannot borrow; each run leaks some hundred bytes.
        let home: &'static Mailbox<Message> = Box::leak(Box::new(Mailbox::new().unwrap()));
        let queues: Vec<Jobs<Job<'static>>> = (0..payloads).map(|_| Jobs::new()).collect();
        let queues: &'static [_] = queues.leak();
        let service: &'static Fixed = Box::leak(Box::new(Fixed::new(REQUEST_BYTES, response_bytes)));
        let threads: Vec<_> = queues.iter().map(|queue| thread::spawn(|| serve_all(queue))).collect();
        let hand_off = HandOff::new(queues, home, ReadBudget::default());
        let sent_bytes = serve_one(pieces, service, hand_off, home);
        queues.iter().for_each(Jobs::close);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(home.is_empty(), "a message arrived after the connection ended");
        let requested: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert_eq!(sent_bytes, requested / REQUEST_BYTES as usize * response_bytes as usize);
    });
}

fn serve_all(queue: &Jobs<Job<'static>>) {
    assert_eq!(work(queue, ThreadControl::default(), &Counters::default()), Ended::Stopped);
}

/// Acts as the network thread: reads and handles messages until the connection ends. Returns the number of bytes that the
/// client received.
fn serve_one(
    pieces: &[&[u8]],
    service: &'static Fixed,
    mut hand_off: HandOff<'_, 'static>,
    home: &Mailbox<Message>,
) -> usize {
    let (mut client, ours) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    client.set_nonblocking(true).unwrap();
    sockopt::set_socket_send_buffer_size(&ours, 1).unwrap();
    let (mut buffer, counters) = (ReadBuffer::new(ReadBudget::default()), Counters::default());
    let token = Token::LISTENER;
    let mut tenant = hand_off.admit(ours.into(), token, service.connect());
    let (mut pieces, mut sent_bytes, mut action) = (pieces.iter(), 0, Action::Watch(Some(Interest::Read)));
    let mut messages: Vec<Message> = Vec::new();
    while action != Action::End {
        action = match action {
            Action::Watch(Some(Interest::Read)) => {
                match pieces.next() {
                    Some(piece) => client.write_all(piece).unwrap(),
                    None => client.shutdown(std::net::Shutdown::Write).unwrap(),
                }
                hand_off.on_readable(&mut tenant, &mut buffer, &counters)
            }
            Action::Watch(Some(Interest::Write)) | Action::WriteOn => {
                sent_bytes += read(&mut client);
                hand_off.on_writable(&mut tenant, &counters)
            }
            _ => {
                home.wait(Trigger::Level);
                action
            }
        };
        // Handle messages as the loop does.
        if !home.is_empty() {
            home.take(&mut messages, &counters);
        }
        for message in messages.drain(..) {
            assert_ne!(action, Action::End, "{message:?} of a connection that is over");
            action = match message {
                Message::Blocked(_) => Action::Watch(Some(Interest::Write)),
                Message::End(_) => Action::End,
                other => unreachable!("{other:?} does not occur without a full buffer or limits"),
            };
        }
    }
    drop(tenant);
    sent_bytes + read(&mut client)
}

/// Reads all bytes that the client has received.
fn read(client: &mut UnixStream) -> usize {
    let mut received = Vec::new();
    match client.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
    received.len()
}

#[test]
fn requests_that_arrive_during_service_are_answered() {
    every_order(&[b"ab", b"c", b"d"], 1, 1, 3);
}

#[test]
fn connection_moves_between_payload_threads() {
    every_order(&[b"ab", b"cd"], 1, 2, 2);
}

#[test]
fn network_thread_sends_the_rest_of_a_response() {
    every_order(&[b"ab", b"cd"], 20_000, 1, 2);
}
