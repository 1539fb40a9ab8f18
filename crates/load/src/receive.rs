//! The receive role: reads what came, and notes when a response is whole. No allocation, no lock.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::error::LoadError;
use crate::record::{Head, Link, Record};
use crate::report::Errors;

/// Most bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
/// Most events taken by one wait.
const EVENTS_MAX: usize = 256;

/// Which connections are ready. It stays in the thread that waits.
pub struct Events(Vec<Event>);

impl Events {
    /// Room for one wait's.
    pub fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    /// The connections, by number.
    #[inline]
    pub fn connections(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|event| event.data.u64() as usize)
    }
}

/// Receives one client's responses.
pub struct Receiver<'a> {
    clock: Clock,
    records: &'a [Record],
    links: &'a [Link],
    response_bytes: u64,
    connections: Vec<Connection>,
    epoll: OwnedFd,
    inbox: Vec<u8>,
    alive: usize,
    /// Responses completed, for whoever watches.
    completed: &'a AtomicU64,
    /// What went wrong.
    pub errors: Errors,
}

/// What the receive role keeps of a connection.
#[derive(Clone, Default)]
struct Connection {
    head: Head,
    /// Bytes of a response that is not whole yet.
    received_bytes: u64,
}

/// Bytes of user memory that the receive role needs for each connection.
pub const BYTES_PER_CONNECTION: usize = size_of::<Connection>();

impl<'a> Receiver<'a> {
    /// Watches all connections.
    ///
    /// # Errors
    /// What epoll says.
    pub fn new(
        clock: Clock,
        records: &'a [Record],
        links: &'a [Link],
        response_bytes: u32,
        completed: &'a AtomicU64,
    ) -> Result<Self, LoadError> {
        let failed = |error: Errno| LoadError::System { what: "epoll of the client", error: error.into() };
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        for (at, link) in links.iter().enumerate() {
            epoll::add(&epoll, &link.io, EventData::new_u64(at as u64), EventFlags::IN).map_err(failed)?;
        }
        Ok(Self {
            clock,
            records,
            links,
            response_bytes: response_bytes.into(),
            connections: vec![Connection::default(); links.len()],
            epoll,
            inbox: Vec::with_capacity(READ_BYTES),
            alive: links.len(),
            completed,
            errors: Errors::default(),
        })
    }

    /// Connections that are still of use.
    pub fn alive(&self) -> usize {
        self.alive
    }

    /// Waits for responses; `events` then holds the connections to pass to [`Receiver::handle`].
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: &Timespec) {
        events.0.clear();
        // Nothing is ready after a signal; no other error is possible with a valid descriptor.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut events.0), Some(timeout));
    }

    /// Reads from a connection that is ready.
    #[inline]
    pub fn handle(&mut self, index: usize) {
        let link = &self.links[index];
        self.inbox.clear();
        match rustix::io::read(&link.io, spare_capacity(&mut self.inbox)) {
            Ok(0) => self.end(index, None),
            Ok(count) => {
                // t3: right after the read that may complete a response.
                let now = self.clock.now();
                let connection = &mut self.connections[index];
                connection.received_bytes += count as u64;
                let mut completed = 0;
                while connection.received_bytes >= self.response_bytes {
                    let Some(record) = connection.head.take(link, self.records) else {
                        return self.unasked(index);
                    };
                    record.complete.store(now, Relaxed);
                    connection.received_bytes -= self.response_bytes;
                    completed += 1;
                }
                if connection.received_bytes > 0 && !connection.head.is_owed(link, self.records) {
                    return self.unasked(index);
                }
                self.completed.store(self.completed.load(Relaxed) + completed, Relaxed);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.end(index, Some(error)),
        }
    }

    /// More came than was asked for.
    fn unasked(&mut self, index: usize) {
        self.errors.wrong += 1;
        self.forget(index);
    }

    /// The peer closed, or an error befell the connection.
    fn end(&mut self, index: usize, error: Option<Errno>) {
        // The send role may have counted it already.
        if !self.links[index].is_dead() {
            match error {
                Some(error) => self.errors.count(&io::Error::from(error)),
                None => self.errors.short += 1,
            }
        }
        self.forget(index);
    }

    fn forget(&mut self, index: usize) {
        self.links[index].kill();
        self.alive -= 1;
        // It stays open, so that its number is not used again; it only must not be reported for ever.
        let _ = epoll::delete(&self.epoll, self.links[index].io.as_fd());
    }
}
