//! The work on one connection, shared by every architecture. If the kernel does the I/O, this code only interprets bytes.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::Shutdown;
use wire::Service;

use crate::metrics::workers::{Counters, Syscall};
use crate::socket;
use crate::spec::read_budget::ReadBudget;

#[derive(Debug, Default)]
pub struct Connection<C> {
    service: C,
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

impl<C> Connection<C> {
    /// Reads once and answers the completed requests. On a blocking socket it waits for bytes and writes the whole response.
    #[inline]
    pub fn on_readable(
        &mut self,
        io: BorrowedFd<'_>,
        service: &impl Service<Conn = C>,
        buffer: &mut ReadBuffer,
        counters: &Counters,
    ) -> Next {
        match buffer.read(io, counters) {
            Ok(bytes) => match self.on_read(bytes, io, service, counters) {
                Next::Write => self.on_writable(io, service, counters),
                next => next,
            },
            Err(Errno::AGAIN | Errno::INTR) => Next::Read,
            // An error such as a reset ends only this connection.
            Err(_) => Next::End,
        }
    }

    /// Writes until everything is sent or the socket is full.
    #[inline]
    pub fn on_writable(&mut self, io: BorrowedFd<'_>, service: &impl Service<Conn = C>, counters: &Counters) -> Next {
        loop {
            let unsent = self.unsent(service);
            if unsent.is_empty() {
                return self.next(io, service);
            }
            counters.syscall(Syscall::Write);
            match rustix::io::write(io, unsent) {
                Ok(count) => self.sent(count, service, counters),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Write,
                Err(_) => return Next::End,
            }
        }
    }

    /// Handles the bytes of a read; an empty read ends the stream. Returns [`Next::Write`] if there is something to send.
    #[inline]
    pub fn on_read<S>(&mut self, bytes: &[u8], io: BorrowedFd<'_>, service: &S, counters: &Counters) -> Next
    where
        S: Service<Conn = C>,
    {
        if bytes.is_empty() {
            self.finish();
        } else {
            self.receive(bytes, service, counters);
        }
        self.next(io, service)
    }

    /// Passes received bytes to the service.
    #[inline]
    pub fn receive<S: Service<Conn = C>>(&mut self, bytes: &[u8], service: &S, counters: &Counters) {
        let requests = service.receive(&mut self.service, bytes);
        self.count_received(bytes, service, counters);
        self.complete(requests, service, counters);
    }

    /// Answers the requests in received bytes with errors and sends these. Resets the connection if the protocol has no such
    /// response.
    pub fn reject(
        &mut self,
        bytes: &[u8],
        io: BorrowedFd<'_>,
        service: &impl Service<Conn = C>,
        counters: &Counters,
    ) -> Next {
        let requests = service.reject(&mut self.service, bytes);
        self.count_received(bytes, service, counters);
        let Some(requests) = requests else {
            counters.rejected.add(1);
            socket::reset(io);
            return Next::End;
        };
        counters.rejected.add(requests);
        self.on_writable(io, service, counters)
    }

    #[inline]
    fn count_received<S: Service<Conn = C>>(&mut self, bytes: &[u8], service: &S, counters: &Counters) {
        counters.bytes_in.add(service.content_bytes(&mut self.service, bytes.len()) as u64);
        if service.has_just_failed(&mut self.service) {
            counters.tls_failed.add(1);
        }
    }

    pub fn finish(&mut self) {
        self.finished = true;
    }

    pub fn unsent<'a, S: Service<Conn = C>>(&'a self, service: &'a S) -> &'a [u8] {
        service.unsent(&self.service)
    }

    #[inline]
    pub fn sent<S: Service<Conn = C>>(&mut self, count: usize, service: &S, counters: &Counters) {
        let requests = service.sent(&mut self.service, count);
        counters.bytes_out.add(service.content_bytes(&mut self.service, count) as u64);
        self.complete(requests, service, counters);
    }

    #[inline]
    fn complete<S: Service<Conn = C>>(&mut self, requests: u64, service: &S, counters: &Counters) {
        if requests > 0 {
            service.work(&self.service, requests, &mut self.works);
            counters.requests.add(requests);
        }
    }

    /// Returns the event to wait for. If the service ends a connection whose peer may still be sending, shuts this side down.
    #[inline]
    pub fn next<S: Service<Conn = C>>(&mut self, io: BorrowedFd<'_>, service: &S) -> Next {
        let is_over = service.is_over(&self.service);
        match (self.unsent(service).is_empty(), self.finished || is_over) {
            (true, true) if is_over && !self.finished && service.is_cut_short(&self.service) => {
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

    /// Returns whether the connection must end because the peer exceeded a limit. The close then discards unsent bytes.
    #[inline]
    pub fn is_overdue(&mut self, io: BorrowedFd<'_>, service: &impl Service<Conn = C>, counters: &Counters) -> bool {
        let is_overdue = service.is_overdue(&mut self.service);
        if is_overdue {
            counters.timed_out.add(1);
            if !self.unsent(service).is_empty() {
                socket::reset(io);
            }
        }
        is_overdue
    }
}
