//! The send role: each planned request at its time, on its connection. No allocation, no lock.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use crate::clock::Clock;
use crate::record::{Link, Record, Tail};
use crate::report::Errors;

/// Pause between two tries to write what a full socket did not take, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;

/// Sends one client's requests.
pub struct Sender<'a> {
    clock: Clock,
    records: &'a [Record],
    links: &'a [Link],
    /// One request's bytes.
    request: Vec<u8>,
    connections: Vec<Connection>,
    /// Connections with unsent bytes, oldest first. Room for all is set aside.
    blocked: VecDeque<u32>,
    retry_at: u64,
    retry_ticks: u64,
    next: usize,
    /// Requests sent, for whoever watches.
    sent: &'a AtomicU64,
    /// What went wrong.
    pub errors: Errors,
}

/// What the send role keeps of a connection.
#[derive(Clone, Default)]
struct Connection {
    tail: Tail,
    /// Bytes of requests that a full socket did not take.
    unsent_bytes: u64,
}

/// Bytes of user memory that the send role needs for each connection.
pub const BYTES_PER_CONNECTION: usize = size_of::<Connection>() + size_of::<u32>();

impl<'a> Sender<'a> {
    /// Room for everything that will be needed.
    pub fn new(
        clock: Clock,
        records: &'a [Record],
        links: &'a [Link],
        request_bytes: u32,
        sent: &'a AtomicU64,
    ) -> Self {
        Self {
            clock,
            records,
            links,
            request: vec![0x5a; request_bytes as usize],
            connections: vec![Connection::default(); links.len()],
            blocked: VecDeque::with_capacity(links.len()),
            retry_at: 0,
            retry_ticks: clock.ticks(RETRY_NS),
            next: 0,
            sent,
            errors: Errors::default(),
        }
    }

    /// When the next request is planned, in ticks; `None` when all are sent.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        self.records.get(self.next).map(|record| record.planned)
    }

    /// Whether a request is due at `now`.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        self.due().is_some_and(|due| now >= due)
    }

    /// Whether full sockets still have to take something.
    pub fn has_unsent(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Sends the next request.
    #[inline]
    pub fn send(&mut self) {
        let index = self.next;
        self.next += 1;
        let record = &self.records[index];
        let link = &self.links[record.connection as usize];
        if link.is_dead() {
            return;
        }
        let connection = &mut self.connections[record.connection as usize];
        connection.tail.push(link, self.records, index);
        // t2: nothing but the write is between here and the kernel.
        record.sent.store(self.clock.now(), Relaxed);
        if connection.unsent_bytes > 0 {
            // Behind bytes that are waiting already.
            connection.unsent_bytes += self.request.len() as u64;
        } else {
            match rustix::io::write(&link.io, &self.request) {
                Ok(count) if count == self.request.len() => {}
                Ok(count) => self.block(record.connection, self.request.len() - count),
                Err(Errno::AGAIN | Errno::INTR) => self.block(record.connection, self.request.len()),
                Err(error) => self.give_up(record.connection, error),
            }
        }
        self.sent.store(self.sent.load(Relaxed) + 1, Relaxed);
    }

    fn block(&mut self, connection: u32, unsent_bytes: usize) {
        self.connections[connection as usize].unsent_bytes = unsent_bytes as u64;
        self.blocked.push_back(connection);
    }

    fn give_up(&mut self, connection: u32, error: Errno) {
        if self.links[connection as usize].kill() {
            self.errors.count(&io::Error::from(error));
        }
    }

    /// Tries to write what one full socket did not take, if it is time for that. To be called when nothing is due.
    #[inline]
    pub fn retry(&mut self, now: u64) {
        if !self.blocked.is_empty() && now >= self.retry_at {
            self.retry_one();
            self.retry_at = now + self.retry_ticks / self.blocked.len().max(1) as u64;
        }
    }

    fn retry_one(&mut self) {
        let Some(at) = self.blocked.pop_front() else { return };
        let link = &self.links[at as usize];
        let connection = &mut self.connections[at as usize];
        // The stream's position within a request does not matter: all bytes are alike.
        while connection.unsent_bytes > 0 && !link.is_dead() {
            let length = (self.request.len() as u64).min(connection.unsent_bytes) as usize;
            match rustix::io::write(&link.io, &self.request[..length]) {
                Ok(count) => connection.unsent_bytes -= count as u64,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.blocked.push_back(at),
                Err(error) => return self.give_up(at, error),
            }
        }
    }
}
