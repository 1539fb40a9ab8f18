//! Accepts the other workers at the first worker.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use harness::deadline_stream::DeadlineStream;

use super::super::channel::{Channel, Session};
use super::super::client::Timeouts;
use super::super::handshake::{self, Authenticated};
use super::super::launcher::Membership;
use super::super::message::HandshakeMessage;
use super::super::pending::PendingHandshakes;
use super::super::secret::Side;
use super::connected::ConnectedWorker;

/// The interval of checks for new connections.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum number of refusals that an error lists. The error only counts the rest.
const REFUSALS_MAX: usize = 8;

/// Listens on all addresses of this host, as the other workers may reach only some of them.
pub(super) fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Waits until all workers have joined. Returns them in the order of their numbers.
pub(super) fn accept_all(
    listener: &TcpListener,
    membership: &Membership,
    timeouts: Timeouts,
) -> anyhow::Result<Vec<ConnectedWorker>> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + timeouts.joining;
    let mut joined: BTreeMap<u32, ConnectedWorker> = BTreeMap::new();
    let mut refusals = Refusals::default();
    // Each handshake has a thread, so that a slow peer does not delay other peers.
    let (sender, finished) = mpsc::channel();
    let mut handshakes = PendingHandshakes::default();
    while joined.len() as u32 + 1 < membership.ranks {
        if Instant::now() >= deadline {
            let missing = (1..membership.ranks).filter(|rank| !joined.contains_key(rank));
            bail!(
                "no connection to port {} within {} s from worker {} (this job has {} workers, numbered from 0){refusals}",
                membership.port,
                timeouts.joining.as_secs(),
                missing.map(|rank| rank.to_string()).collect::<Vec<_>>().join(", "),
                membership.ranks
            );
        }
        let connection = if handshakes.has_room() { listener.accept().ok() } else { None };
        let pause = if connection.is_some() { Duration::ZERO } else { POLL_INTERVAL };
        if let Some((stream, peer)) = connection {
            let stream = Arc::new(stream);
            let number = handshakes.begin(peer.ip(), stream.clone());
            let (membership, sender) = (membership.clone(), sender.clone());
            let handshake = move || {
                let outcome = handshake::accept(&stream, &membership, timeouts.handshake);
                let _ = sender.send((number, peer, outcome.map(|authenticated| (stream, authenticated))));
            };
            if let Err(error) = thread::Builder::new().name("handshake".into()).spawn(handshake) {
                handshakes.end(number);
                refusals.push(format!("{}: cannot start a thread for its handshake: {error}", peer.ip()));
            }
        }
        let Ok((number, peer, outcome)) = finished.recv_timeout(pause) else { continue };
        // Drops the other reference to the stream, so that `into_inner` succeeds.
        handshakes.end(number);
        let admitted = outcome.and_then(|(stream, authenticated)| {
            let stream = Arc::into_inner(stream).context("its connection is still in use")?;
            admit(stream, authenticated, membership, &joined, timeouts.handshake)
        });
        match admitted {
            Ok(worker) => drop(joined.insert(worker.hello.rank, worker)),
            Err(error) => refusals.push(format!("{}: {error:#}", peer.ip())),
        }
    }
    Ok(joined.into_values().collect())
}

/// Admits an authenticated peer if it is a missing worker. A worker that lost its connection may join again.
fn admit(
    stream: TcpStream,
    Authenticated { hello, proof, key }: Authenticated,
    membership: &Membership,
    joined: &BTreeMap<u32, ConnectedWorker>,
    timeout: Duration,
) -> anyhow::Result<ConnectedWorker> {
    let mut timed = DeadlineStream::within(&stream, timeout);
    let is_connected = joined.get(&hello.rank).is_some_and(|worker| worker.channel.is_connected());
    let reason = match hello.rank {
        _ if hello.ranks != membership.ranks => {
            format!(
                "worker {} belongs to a job of {} workers, but the first worker's job has {}",
                hello.rank, hello.ranks, membership.ranks
            )
        }
        rank if rank == 0 || rank >= membership.ranks => {
            format!("invalid worker number {rank}: expected 1 to {}", membership.ranks - 1)
        }
        rank if is_connected => format!("worker {rank} has already joined"),
        _ => {
            HandshakeMessage::Welcome { proof }.send(&mut timed)?;
            let ours = stream.local_addr()?.ip().to_canonical();
            let theirs = stream.peer_addr()?.ip().to_canonical();
            let channel = Channel::new(Session { stream, key, side: Side::First })?;
            return Ok(ConnectedWorker::new(hello, channel, ours, theirs));
        }
    };
    HandshakeMessage::Refused { reason: reason.clone() }.send(&mut timed)?;
    bail!(reason)
}

#[derive(Default)]
struct Refusals {
    listed: Vec<String>,
    more: u64,
}

impl Refusals {
    fn push(&mut self, reason: String) {
        if self.listed.contains(&reason) {
            return;
        }
        if self.listed.len() < REFUSALS_MAX { self.listed.push(reason) } else { self.more += 1 }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listed.iter().try_for_each(|reason| write!(f, "; refused: {reason}"))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; refused: {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_refusals_are_listed_and_the_rest_counted() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.to_string(), "");
        for number in [1, 1, 2] {
            refusals.push(format!("a{number}"));
        }
        assert_eq!(refusals.to_string(), "; refused: a1; refused: a2");
        (0..100).for_each(|number| refusals.push(format!("b{number}")));
        let text = refusals.to_string();
        assert!(text.ends_with("; refused: b5; refused: 94 more"), "{text}");
    }
}
