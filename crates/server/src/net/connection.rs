//! What one connection does with its socket. Every architecture runs this code and no other; where the kernel does the
//! I/O, the parts of it that say what the bytes mean.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::Shutdown;
use wire::Service;

use crate::metrics::workers::{Counters, Syscall};
use crate::socket;
use crate::spec::read_budget::ReadBudget;

/// A connection: what the service keeps of it, and whether the peer has finished sending.
#[derive(Debug, Default)]
pub struct Connection<C> {
    service: C,
    /// The peer will send no more; what it asked for is still answered.
    finished: bool,
    /// The peer was told that nothing more is said, and what it sends is thrown away.
    lingers: bool,
}

/// What a connection waits for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More requests.
    Read,
    /// Room to write the rest of a response. Until then nothing is read, which bounds what one client can pile up.
    Write,
    /// Nothing: it is over.
    End,
}

/// Memory to read into, one for each thread. It is never filled in beforehand: pages that no read reaches cost nothing.
#[derive(Debug)]
pub struct ReadBuffer {
    room: Box<[MaybeUninit<u8>]>,
    /// Bytes of the last read.
    length: usize,
}

impl ReadBuffer {
    /// Room for exactly one read budget.
    pub fn new(budget: ReadBudget) -> Self {
        Self { room: Box::new_uninit_slice(budget.bytes()), length: 0 }
    }

    /// Whether the last read found nothing.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether the last read took all that there was room for, and may have left something.
    pub fn is_full(&self) -> bool {
        self.length == self.room.len()
    }

    /// One read, of one read budget at most.
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
    /// One read, and the answers to what it completes.
    ///
    /// On a blocking socket it waits for bytes, and writes all that it has to say.
    #[inline]
    pub fn on_readable<S>(
        &mut self,
        io: BorrowedFd<'_>,
        service: &S,
        buffer: &mut ReadBuffer,
        counters: &Counters,
    ) -> Next
    where
        S: Service<Conn = C>,
    {
        match buffer.read(io, counters) {
            Ok(bytes) => match self.on_read(bytes, io, service, counters) {
                Next::Write => self.on_writable(io, service, counters),
                next => next,
            },
            Err(Errno::AGAIN | Errno::INTR) => Next::Read,
            // Reset, or whatever else befell this one connection: the others go on.
            Err(_) => Next::End,
        }
    }

    /// Writes until everything is said or the socket is full.
    #[inline]
    pub fn on_writable<S>(&mut self, io: BorrowedFd<'_>, service: &S, counters: &Counters) -> Next
    where
        S: Service<Conn = C>,
    {
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

    /// What a read by whomever means: nothing is the end of the stream. [`Next::Write`] is that there is something to say.
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

    /// ThreadSpec in what arrived; how many requests it completed.
    #[inline]
    pub fn receive<S: Service<Conn = C>>(&mut self, bytes: &[u8], service: &S, counters: &Counters) -> u64 {
        counters.bytes_in.add(bytes.len() as u64);
        completed(service.receive(&mut self.service, bytes), counters)
    }

    /// Says that the peer will send no more.
    #[inline]
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The next bytes to send; see [`Service::unsent`].
    #[inline]
    pub fn unsent<'a, S: Service<Conn = C>>(&'a self, service: &'a S) -> &'a [u8] {
        service.unsent(&self.service)
    }

    /// Says that so many of [`Connection::unsent`] are sent.
    #[inline]
    pub fn sent<S: Service<Conn = C>>(&mut self, count: usize, service: &S, counters: &Counters) {
        counters.bytes_out.add(count as u64);
        completed(service.sent(&mut self.service, count), counters);
    }

    /// What it waits for. A peer that may still be sending when it is over is told that nothing more is said, and heard.
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

    /// Whether the peer has taken too long, and the connection is to end. What it has not taken the kernel forgets with it.
    #[inline]
    pub fn is_overdue<S>(&mut self, io: BorrowedFd<'_>, service: &S, counters: &Counters) -> bool
    where
        S: Service<Conn = C>,
    {
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

/// Counts requests, of which most often there are none or one.
#[inline]
fn completed(requests: u64, counters: &Counters) -> u64 {
    if requests > 0 {
        counters.requests.add(requests);
    }
    requests
}
