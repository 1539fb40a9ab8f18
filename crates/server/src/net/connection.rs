//! The work on one connection, shared by every architecture. If the kernel does the I/O, this code only interprets bytes.
//!
//! Loops and runtimes know neither service nor protocol: a vtable leads to [`Connection`]. So they are compiled once for all
//! services, and an event costs one indirect call, whose callees are inlined.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;
use wire::{Service, Wait};

use crate::metrics::workers::{Counters, Syscall};
use crate::socket;
use crate::spec::read_budget::ReadBudget;

/// The write budget: the most bytes that a connection sends in a turn. A loop then also serves other ready connections, which wait
/// about 0.1 ms for a full turn.
pub const WRITE_BUDGET_BYTES: usize = 256 << 10;

/// Makes the connections of a service.
pub trait Connect: Send + Sync {
    /// Makes the state of a new connection.
    fn connect(&self) -> Box<dyn Connection + '_>;

    /// Calls [`Service::block`].
    fn block(&self);

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

    fn block(&self) {
        Service::block(self);
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
    /// Reads once, answers the completed requests and writes like [`Connection::on_writable`]. On a blocking socket it waits for
    /// bytes.
    fn on_readable(&mut self, io: BorrowedFd<'_>, buffer: &mut ReadBuffer, counters: &Counters) -> Next;

    /// Writes until everything is sent, the socket is full, or the write budget is spent.
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

    /// Returns the next bytes to send, at most a write budget. They neither move nor change until [`Connection::sent`] or the end
    /// of the connection.
    fn unsent(&self) -> Unsent<'_>;

    /// Marks `count` bytes as sent.
    fn sent(&mut self, count: usize, counters: &Counters);

    /// The wait that [`Next::Wait`] and [`Next::Hold`] announce.
    fn wait(&self) -> Option<Wait>;

    /// Ends the wait, after which there may be something to send.
    fn resume(&mut self, counters: &Counters);

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
    /// The write budget is spent: send the rest of a response in the next turn. The socket may have room already.
    WriteOn,
    /// The response is ready after [`Connection::wait`]: resume the connection then. Read on, to learn of its end; only the first
    /// input is stored.
    Wait,
    /// Like `Wait`, but read nothing, which bounds the memory of one client.
    Hold,
    /// The connection is over.
    End,
}

/// Bytes to send, which may be in two places of memory. The first part is empty only if both are.
#[derive(Clone, Copy, Debug)]
pub struct Unsent<'a> {
    pub first: &'a [u8],
    pub second: &'a [u8],
}

impl<'a> Unsent<'a> {
    #[inline]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    #[inline]
    pub fn slices(&self) -> [IoSlice<'a>; 2] {
        [self.first, self.second].map(IoSlice::new)
    }

    /// Returns the first `bytes_max` bytes, or all.
    #[inline]
    fn within(self, bytes_max: usize) -> Self {
        let first = &self.first[..self.first.len().min(bytes_max)];
        let second = &self.second[..self.second.len().min(bytes_max - first.len())];
        Self { first, second }
    }
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

impl Next {
    /// Whether the response is not ready.
    pub fn is_wait(self) -> bool {
        matches!(self, Self::Wait | Self::Hold)
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
        let mut left_bytes = WRITE_BUDGET_BYTES;
        loop {
            let unsent = self.unsent().within(left_bytes);
            if unsent.is_empty() {
                // If bytes are left, the budget is spent.
                return match self.next(io) {
                    Next::Write => Next::WriteOn,
                    next => next,
                };
            }
            counters.syscall(Syscall::Write);
            let written = match unsent.second {
                [] => rustix::io::write(io, unsent.first),
                _ => rustix::io::writev(io, &unsent.slices()),
            };
            match written {
                Ok(count) => {
                    left_bytes -= count;
                    self.sent(count, counters);
                }
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
    fn unsent(&self) -> Unsent<'_> {
        let (first, second) = (self.service.unsent(&self.conn), self.service.unsent_tail(&self.conn));
        Unsent { first, second }.within(WRITE_BUDGET_BYTES)
    }

    #[inline]
    fn sent(&mut self, count: usize, counters: &Counters) {
        let requests = self.service.sent(&mut self.conn, count);
        counters.bytes_out.add(self.service.content_bytes(&mut self.conn, count) as u64);
        self.complete(requests, counters);
    }

    #[inline]
    fn wait(&self) -> Option<Wait> {
        self.service.wait(&self.conn)
    }

    fn resume(&mut self, counters: &Counters) {
        let requests = self.service.resume(&mut self.conn);
        self.complete(requests, counters);
    }

    #[inline]
    fn next(&mut self, io: BorrowedFd<'_>) -> Next {
        if let Some(wait) = self.service.wait(&self.conn)
            && self.unsent().is_empty()
        {
            return if self.finished || wait.has_input { Next::Hold } else { Next::Wait };
        }
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
