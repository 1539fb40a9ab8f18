//! The receive role: reads what came, and notes when a response is whole. No allocation, no lock.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::class::Class;
use crate::clock::Clock;
use crate::error::LoadError;
use crate::progress::Progress;
use crate::record::{Head, Link, Record};
use crate::stamps::Stamper;
use crate::waiter::{Events, Flags, Waiter};

/// Most bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
/// Most events taken by one wait.
pub const EVENTS_MAX: usize = 256;

/// Receives one client's responses.
pub struct Receiver<'a> {
    clock: Clock,
    records: &'a [Record],
    links: &'a [Link],
    response_bytes: u64,
    connections: Vec<Connection>,
    waiter: Waiter,
    inbox: Vec<u8>,
    alive: usize,
    progress: &'a Progress,
    /// Where the kernel's timestamps are asked for.
    stamper: Option<Stamper<'a>>,
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
    /// What the system says of waiting for them.
    pub fn new(
        clock: Clock,
        records: &'a [Record],
        links: &'a [Link],
        response_bytes: u32,
        progress: &'a Progress,
        stamper: Option<Stamper<'a>>,
    ) -> Result<Self, LoadError> {
        let failed = |error: Errno| LoadError::System { what: "waiting for responses", error: error.into() };
        let waiter = Waiter::new().map_err(failed)?;
        for (at, link) in links.iter().enumerate() {
            waiter.add(link.io.as_fd(), at).map_err(failed)?;
        }
        Ok(Self {
            clock,
            records,
            links,
            response_bytes: response_bytes.into(),
            connections: vec![Connection::default(); links.len()],
            waiter,
            inbox: Vec::with_capacity(READ_BYTES),
            alive: links.len(),
            progress,
            stamper,
        })
    }

    /// Connections that are still of use.
    pub fn alive(&self) -> usize {
        self.alive
    }

    /// Takes what is ready, after having waited for it at most so many milliseconds; `events` then holds the
    /// connections to pass to [`Receiver::handle`].
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ms: u64) {
        // No error is possible with a valid descriptor.
        let _ = self.waiter.wait(events, Duration::from_millis(timeout_ms));
    }

    /// Sleeps until something is ready, at most so many nanoseconds (less than a second).
    pub fn doze(&self, timeout_ns: i64) {
        self.waiter.doze(timeout_ns);
    }

    /// Reads from a connection that is ready.
    #[inline]
    pub fn handle(&mut self, (index, flags): (usize, Flags)) {
        self.inbox.clear();
        let link = &self.links[index];
        let read = match &mut self.stamper {
            None => rustix::io::read(&link.io, spare_capacity(&mut self.inbox)),
            Some(stamper) => {
                if stamper.is_all(flags, link.io.as_fd(), index, link, self.records) {
                    return;
                }
                stamper.read(link.io.as_fd(), &mut self.inbox)
            }
        };
        match read {
            // t3: right after the read that may complete a response.
            Ok(count) if count > 0 => self.received(index, count as u64, self.clock.now()),
            Ok(_) => {
                let connection = &self.connections[index];
                let owed = connection.received_bytes > 0 || connection.head.is_owed(&self.links[index], self.records);
                self.end(index, if owed { Class::Short } else { Class::Reset });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.end(index, Class::of(&error.into())),
        }
    }

    #[inline]
    fn received(&mut self, index: usize, count: u64, now: u64) {
        let (link, connection) = (&self.links[index], &mut self.connections[index]);
        connection.received_bytes += count;
        let mut completed = 0;
        let mut last = None;
        while connection.received_bytes >= self.response_bytes
            && let Some(record) = connection.head.take(link, self.records)
        {
            self.records[record].complete.store(now, Relaxed);
            connection.received_bytes -= self.response_bytes;
            completed += 1;
            last = Some(record);
        }
        // The kernel's stamp is of the last packet that was read: of a response's end only if that is where the read ended,
        // and if it was the only one.
        if let (Some(stamper), Some(record), 1, 0) = (&self.stamper, last, completed, connection.received_bytes) {
            stamper.arrived(record);
        }
        let unasked = connection.received_bytes > 0 && !connection.head.is_owed(link, self.records);
        self.progress.add_completed(completed);
        if unasked {
            self.end(index, Class::Wrong);
        }
    }

    /// The connection is of no use any more; its outstanding requests will not be answered.
    #[cold]
    fn end(&mut self, index: usize, class: Class) {
        let link = &self.links[index];
        link.fail(class);
        self.alive -= 1;
        let mut lost = 0;
        while self.connections[index].head.take(link, self.records).is_some() {
            lost += 1;
        }
        self.progress.add_lost(lost);
        // It stays open, so that its number is not used again; it only must not be reported for ever.
        self.waiter.forget(link.io.as_fd());
    }
}
