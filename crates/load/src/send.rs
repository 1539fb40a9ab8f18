//! The send role: each planned request at its time, on its connection. No allocation, no lock.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use crate::class::Class;
use crate::clock::Clock;
use crate::config::{LoadConfig, Transport};
use crate::progress::Progress;
use crate::record::{Link, Record, Tail};

/// Pause between two tries to write what a full socket did not take, in nanoseconds.
const RETRY_NS: f64 = 50_000.0;

/// Sends one client's requests.
pub struct Sender<'a> {
    clock: Clock,
    records: &'a [Record],
    links: &'a [Link],
    request_bytes: u64,
    /// What requests are cut from: one, or the beginning of a long one.
    fill: Vec<u8>,
    connections: Vec<Connection>,
    /// Connections with unsent bytes, oldest first. Room for all is set aside.
    blocked: VecDeque<u32>,
    /// Most bytes offered to a later write.
    later_bytes_max: u64,
    retry_at: u64,
    retry_ticks: u64,
    next: usize,
    progress: &'a Progress,
}

/// Most bytes of a request offered to the first write: what a socket's buffer may take at once.
const FIRST_WRITE_BYTES_MAX: u32 = 1 << 20;
/// Most bytes offered to a later write on a stream, which must not keep a due request waiting for long.
const LATER_WRITE_BYTES_MAX: u64 = 64 << 10;

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
        config: &LoadConfig,
        progress: &'a Progress,
    ) -> Self {
        let (request_bytes, _) = config.fixed();
        Self {
            clock,
            records,
            links,
            request_bytes: request_bytes.into(),
            fill: vec![0x5a; request_bytes.min(FIRST_WRITE_BYTES_MAX) as usize],
            connections: vec![Connection::default(); links.len()],
            blocked: VecDeque::with_capacity(links.len()),
            later_bytes_max: match config.transport() {
                Transport::Tcp | Transport::Unix => LATER_WRITE_BYTES_MAX,
                Transport::Udp => request_bytes.into(),
            },
            retry_at: 0,
            retry_ticks: clock.ticks(RETRY_NS),
            next: 0,
            progress,
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

    /// When to try again to write what a full socket did not take, in ticks; `None` when there is nothing.
    #[inline]
    pub fn retry_at(&self) -> Option<u64> {
        self.has_unsent().then_some(self.retry_at)
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
            connection.unsent_bytes += self.request_bytes;
        } else {
            match rustix::io::write(&link.io, &self.fill) {
                Ok(count) if count as u64 == self.request_bytes => {}
                Ok(count) => self.block(record.connection, self.request_bytes - count as u64),
                Err(Errno::AGAIN | Errno::INTR) => self.block(record.connection, self.request_bytes),
                Err(error) => link.fail(Class::of(&error.into())),
            }
        }
        self.progress.add_sent();
    }

    #[cold]
    fn block(&mut self, connection: u32, unsent_bytes: u64) {
        self.connections[connection as usize].unsent_bytes = unsent_bytes;
        self.blocked.push_back(connection);
    }

    /// Tries to write some of what a full socket did not take, if it is time for that. To be called when nothing is due.
    #[inline]
    pub fn retry(&mut self, now: u64) {
        if !self.blocked.is_empty() && now >= self.retry_at {
            self.retry_one(now);
        }
    }

    #[cold]
    fn retry_one(&mut self, now: u64) {
        let Some(&at) = self.blocked.front() else { return };
        let link = &self.links[at as usize];
        let connection = &mut self.connections[at as usize];
        // Where in a request the stream stands does not matter: all bytes are alike.
        let length = connection.unsent_bytes.min(self.fill.len() as u64).min(self.later_bytes_max) as usize;
        match rustix::io::write(&link.io, &self.fill[..length]) {
            Ok(count) => connection.unsent_bytes -= count as u64,
            Err(Errno::AGAIN | Errno::INTR) => {
                // Another's turn, so that each is tried once in the pause.
                self.blocked.rotate_left(1);
                self.retry_at = now + self.retry_ticks / self.blocked.len() as u64;
            }
            Err(error) => {
                link.fail(Class::of(&error.into()));
                connection.unsent_bytes = 0;
            }
        }
        if connection.unsent_bytes == 0 {
            self.blocked.pop_front();
        }
    }
}
