//! The work on one connection, shared by every architecture. If the kernel does the I/O, this code only interprets bytes.
//!
//! Loops and runtimes know neither service nor protocol: a vtable leads to [`Connection`]. So they are compiled once for all
//! services, and an event costs one indirect call, whose callees are inlined.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;
use wire::Service;

use crate::metrics::workers::{Counters, Syscall};
use crate::socket;
use crate::spec::read_budget::ReadBudget;

/// Makes the connections of a service.
pub trait Connect: Send + Sync {
    /// Makes the state of a new connection.
    fn connect(&self) -> Box<dyn Connection + '_>;

    /// Returns [`Service::check_interval`].
    fn check_interval(&self) -> Option<Duration>;

    /// Returns [`Service::checks_max`].
    #[cfg_attr(
        not(any(feature = "compio", feature = "monoio")),
        allow(dead_code, reason = "only their connections call it")
    )]
    fn checks_max(&self) -> u32;
}

impl<S: Service<Conn: Send> + Send + Sync> Connect for S {
    fn connect(&self) -> Box<dyn Connection + '_> {
        Box::new(Served::new(self))
    }

    fn check_interval(&self) -> Option<Duration> {
        Service::check_interval(self)
    }

    fn checks_max(&self) -> u32 {
        Service::checks_max(self)
    }
}

/// The state of one connection. Only one thread uses it at a time.
pub trait Connection: Send {
    /// Reads once and answers the completed requests. On a blocking socket it waits for bytes and writes the whole response.
    fn on_readable(&mut self, io: BorrowedFd<'_>, buffer: &mut ReadBuffer, counters: &Counters) -> Next;

    /// Writes until everything is sent or the socket is full.
    fn on_writable(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> Next;

    /// Handles the bytes of a read; an empty read ends the stream. Returns [`Next::Write`] if there is something to send.
    fn on_read(&mut self, bytes: &[u8], io: BorrowedFd<'_>, counters: &Counters) -> Next;

    /// Passes received bytes to the service.
    fn receive(&mut self, bytes: &[u8], counters: &Counters);

    /// Answers the requests in received bytes with errors and sends these. Resets the connection if the protocol has no such
    /// response.
    fn reject(&mut self, bytes: &[u8], io: BorrowedFd<'_>, counters: &Counters) -> Next;

    /// Notes that the peer has finished sending.
    fn finish(&mut self);

    /// Returns the next bytes to send. They neither move nor change until [`Connection::sent`] or the end of the connection.
    fn unsent(&self) -> &[u8];

    /// Marks `count` bytes as sent.
    fn sent(&mut self, count: usize, counters: &Counters);

    /// Returns the event to wait for. If the service ends a connection whose peer may still be sending, shuts this side down.
    fn next(&mut self, io: BorrowedFd<'_>) -> Next;

    /// Returns whether the connection must end because the peer exceeded a limit. The close then discards unsent bytes.
    fn is_overdue(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> bool;
}

struct Served<'s, S: Service> {
    service: &'s S,
    conn: S::Conn,
    /// The peer has finished sending; pending requests are still answered.
    finished: bool,
    /// This side is shut down, and later input is discarded.
    lingers: bool,
    /// Whether the requests of this connection take simulated work, once that is drawn.
    works: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Read,
    /// Wait for room to send the rest of a response. Nothing is read until then, which bounds the memory of one client.
    Write,
    /// The connection is over.
    End,
}

/// The memory for reads of one thread. It stays uninitialised: pages that no read reaches cost nothing.
#[derive(Debug)]
pub struct ReadBuffer {
    room: Box<[MaybeUninit<u8>]>,
    length: usize,
}

impl ReadBuffer {
    pub fn new(budget: ReadBudget) -> Self {
        Self { room: Box::new_uninit_slice(budget.bytes()), length: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn is_full(&self) -> bool {
        self.length == self.room.len()
    }

    #[inline]
    pub fn read(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> Result<&[u8], Errno> {
        self.length = 0;
        counters.syscall(Syscall::Read);
        let (bytes, _) = rustix::io::read(io, &mut self.room[..])?;
        self.length = bytes.len();
        Ok(bytes)
    }
}

impl<'s, S: Service> Served<'s, S> {
    fn new(service: &'s S) -> Self {
        Self { service, conn: S::Conn::default(), finished: false, lingers: false, works: None }
    }

    #[inline]
    fn count_received(&mut self, bytes: &[u8], counters: &Counters) {
        counters.bytes_in.add(self.service.content_bytes(&mut self.conn, bytes.len()) as u64);
        if self.service.has_just_failed(&mut self.conn) {
            counters.tls_failed.add(1);
        }
    }

    #[inline]
    fn complete(&mut self, requests: u64, counters: &Counters) {
        if requests > 0 {
            self.service.work(&self.conn, requests, &mut self.works);
            counters.requests.add(requests);
        }
    }
}

impl<S: Service<Conn: Send> + Sync> Connection for Served<'_, S> {
    #[inline]
    fn on_readable(&mut self, io: BorrowedFd<'_>, buffer: &mut ReadBuffer, counters: &Counters) -> Next {
        match buffer.read(io, counters) {
            Ok(bytes) => match self.on_read(bytes, io, counters) {
                Next::Write => self.on_writable(io, counters),
                next => next,
            },
            Err(Errno::AGAIN | Errno::INTR) => Next::Read,
            // An error such as a reset ends only this connection.
            Err(_) => Next::End,
        }
    }

    #[inline]
    fn on_writable(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> Next {
        loop {
            let unsent = self.unsent();
            if unsent.is_empty() {
                return self.next(io);
            }
            counters.syscall(Syscall::Write);
            match rustix::io::write(io, unsent) {
                Ok(count) => self.sent(count, counters),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Write,
                Err(_) => return Next::End,
            }
        }
    }

    #[inline]
    fn on_read(&mut self, bytes: &[u8], io: BorrowedFd<'_>, counters: &Counters) -> Next {
        if bytes.is_empty() {
            self.finish();
        } else {
            self.receive(bytes, counters);
        }
        self.next(io)
    }

    #[inline]
    fn receive(&mut self, bytes: &[u8], counters: &Counters) {
        let requests = self.service.receive(&mut self.conn, bytes);
        self.count_received(bytes, counters);
        self.complete(requests, counters);
    }

    fn reject(&mut self, bytes: &[u8], io: BorrowedFd<'_>, counters: &Counters) -> Next {
        let requests = self.service.reject(&mut self.conn, bytes);
        self.count_received(bytes, counters);
        let Some(requests) = requests else {
            counters.rejected.add(1);
            socket::reset(io);
            return Next::End;
        };
        counters.rejected.add(requests);
        self.on_writable(io, counters)
    }

    #[inline]
    fn finish(&mut self) {
        self.finished = true;
    }

    #[inline]
    fn unsent(&self) -> &[u8] {
        self.service.unsent(&self.conn)
    }

    #[inline]
    fn sent(&mut self, count: usize, counters: &Counters) {
        let requests = self.service.sent(&mut self.conn, count);
        counters.bytes_out.add(self.service.content_bytes(&mut self.conn, count) as u64);
        self.complete(requests, counters);
    }

    #[inline]
    fn next(&mut self, io: BorrowedFd<'_>) -> Next {
        let is_over = self.service.is_over(&self.conn);
        match (self.unsent().is_empty(), self.finished || is_over) {
            (true, true) if is_over && !self.finished && self.service.is_cut_short(&self.conn) => {
                if !self.lingers {
                    self.lingers = true;
                    let _ = rustix::net::shutdown(io, Shutdown::Write);
                }
                Next::Read
            }
            (true, true) => Next::End,
            (true, false) => Next::Read,
            (false, _) => Next::Write,
        }
    }

    #[inline]
    fn is_overdue(&mut self, io: BorrowedFd<'_>, counters: &Counters) -> bool {
        let is_overdue = self.service.is_overdue(&mut self.conn);
        if is_overdue {
            counters.timed_out.add(1);
            if !self.unsent().is_empty() {
                socket::reset(io);
            }
        }
        is_overdue
    }
}

#[cfg(test)]
mod tests {
    use wire::fixed::Fixed;

    use super::*;

    #[test]
    fn state_of_a_connection_takes_at_most_32_bytes() {
        const { assert!(size_of::<Served<'_, Fixed>>() <= 32) };
    }
}
