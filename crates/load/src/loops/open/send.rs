//! The send role: writes each request at its planned time, on its connection. It neither allocates nor locks.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use crate::config::{LoadConfig, Transport};
use crate::protocol::ClientProtocol;
use crate::record::request::{Shared, Tail};

/// The pause between two attempts to write to a full socket, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;

pub struct Sender<'a, P: ClientProtocol> {
    shared: Shared<'a, P>,
    /// A buffer for requests that differ from each other.
    scratch: Vec<u8>,
    connections: Vec<Connection>,
    /// Connections with unsent bytes, oldest first. It has room for all connections.
    blocked: VecDeque<u32>,
    /// The byte limits of a request's first write and of later writes.
    bytes_max: (usize, usize),
    retry_at: u64,
    retry_ticks: u64,
    next: usize,
}

/// The byte limit of a request's first write on a stream: about what a socket's buffer accepts at once.
const FIRST_WRITE_BYTES_MAX: usize = 1 << 20;
/// The byte limit of later writes on a stream, which must not delay a due request for long.
const LATER_WRITE_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Default)]
struct Connection {
    tail: Tail,
    /// The oldest request that a full socket has not accepted completely. Later requests in the chain wait behind it.
    blocked: Option<NonZeroU32>,
    /// The bytes of the request `blocked` that the socket has accepted.
    written: u32,
}

pub const BYTES_PER_CONNECTION: usize = size_of::<Connection>() + size_of::<u32>();

impl<'a, P: ClientProtocol> Sender<'a, P> {
    pub fn new(shared: Shared<'a, P>, config: &LoadConfig) -> Self {
        Self {
            scratch: Vec::with_capacity(shared.protocol.encoded_bytes_max()),
            connections: vec![Connection::default(); shared.links.len()],
            blocked: VecDeque::with_capacity(shared.links.len()),
            bytes_max: match config.transport() {
                Transport::Tcp | Transport::Unix => (FIRST_WRITE_BYTES_MAX, LATER_WRITE_BYTES_MAX),
                // A datagram takes one write.
                Transport::Udp => (usize::MAX, usize::MAX),
            },
            retry_at: 0,
            retry_ticks: shared.clock.ticks(RETRY_NS),
            next: 0,
            shared,
        }
    }

    /// The planned time of the next request, in ticks; `None` after the last.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.shared.records.get(self.next).map(|record| record.planned)
    }

    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    pub fn has_unsent(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// The time of the next attempt to write to a full socket, in ticks; `None` if no bytes wait.
    #[inline]
    pub fn retry_at(&self) -> Option<u64> {
        self.has_unsent().then_some(self.retry_at)
    }

    #[inline]
    pub fn send(&mut self) {
        let index = self.next;
        self.next += 1;
        let Shared { clock, protocol, records, links, progress, .. } = self.shared;
        let record = &records[index];
        let link = &links[record.connection as usize];
        if link.is_dead() {
            return;
        }
        let connection = &mut self.connections[record.connection as usize];
        connection.tail.push(link, records, index);
        if connection.blocked.is_some() {
            // The request waits behind earlier bytes.
            record.sent.store(clock.now(), Relaxed);
        } else {
            let request = protocol.encode(self.shared.request(index), &mut self.scratch);
            let offered = &request[..request.len().min(self.bytes_max.0)];
            link.io.encrypt(offered);
            // t2: only the write is between this reading and the kernel.
            record.sent.store(clock.now(), Relaxed);
            match link.io.write(offered) {
                Ok(count) if count == request.len() => {}
                Ok(count) => self.block(record.connection, index, count),
                Err(Errno::AGAIN | Errno::INTR) => self.block(record.connection, index, 0),
                Err(error) => link.fail_to_send(error),
            }
        }
        progress.add_sent();
    }

    #[cold]
    fn block(&mut self, at: u32, index: usize, written: usize) {
        let connection = &mut self.connections[at as usize];
        (connection.blocked, connection.written) = (NonZeroU32::new(index as u32 + 1), written as u32);
        self.blocked.push_back(at);
    }

    /// Writes some of the bytes delayed by a full socket, if the pause is over. Call it while no request is due.
    #[inline]
    pub fn retry(&mut self, now: u64) {
        if !self.blocked.is_empty() && now >= self.retry_at {
            self.retry_one(now);
        }
    }

    #[cold]
    fn retry_one(&mut self, now: u64) {
        let Some(&at) = self.blocked.front() else { return };
        let Shared { protocol, records, links, .. } = self.shared;
        let (link, connection) = (&links[at as usize], &mut self.connections[at as usize]);
        // Every connection in this queue has a blocked request.
        let Some(blocked) = connection.blocked else { return };
        let index = blocked.get() as usize - 1;
        let request = protocol.encode(self.shared.request(index), &mut self.scratch);
        let rest = &request[connection.written as usize..];
        match link.io.write(&rest[..rest.len().min(self.bytes_max.1)]) {
            Ok(count) if count == rest.len() => {
                connection.blocked = records[index].next().and_then(|next| NonZeroU32::new(next as u32 + 1));
                connection.written = 0;
            }
            Ok(count) => connection.written += count as u32,
            Err(Errno::AGAIN | Errno::INTR) => {
                // Try each connection once per pause.
                self.blocked.rotate_left(1);
                self.retry_at = now + self.retry_ticks / self.blocked.len() as u64;
            }
            Err(error) => {
                link.fail_to_send(error);
                connection.blocked = None;
            }
        }
        if connection.blocked.is_none() {
            self.blocked.pop_front();
        }
    }
}
