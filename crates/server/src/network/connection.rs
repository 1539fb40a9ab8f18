//! What one connection does with its socket. Every architecture runs this code and no other.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wire::Service;

use crate::workers::{Counters, Syscall};

/// The read budget: at most this much is read before what it asks for is answered.
pub const READ_BYTES: usize = 64 << 10;

/// A connection: what the service keeps of it, and whether the peer has finished sending.
#[derive(Debug, Default)]
pub struct Connection<C> {
    service: C,
    /// The peer will send no more; what it asked for is still answered.
    finished: bool,
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
pub struct Inbox(Vec<u8>);

impl Inbox {
    /// Room for one read budget.
    pub fn new() -> Self {
        Self(Vec::with_capacity(READ_BYTES))
    }

    /// The room, for those who read by other means than [`Connection::on_readable`].
    #[cfg(feature = "tokio")]
    pub fn room(&mut self) -> &mut [std::mem::MaybeUninit<u8>] {
        self.0.clear();
        &mut self.0.spare_capacity_mut()[..READ_BYTES]
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Connection<C> {
    /// One read, and the answers to what it completes.
    ///
    /// On a blocking socket it waits for bytes, and writes all that it has to say.
    #[inline]
    pub fn on_readable<S>(&mut self, io: BorrowedFd<'_>, service: &S, inbox: &mut Inbox, counters: &Counters) -> Next
    where
        S: Service<Conn = C>,
    {
        inbox.0.clear();
        counters.syscall(Syscall::Read);
        match rustix::io::read(io, rustix::buffer::spare_capacity(&mut inbox.0)) {
            Ok(_) => match self.on_read(service, &inbox.0, counters) {
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
            let unsent = service.unsent(&self.service);
            if unsent.is_empty() {
                return self.after_write(service);
            }
            counters.syscall(Syscall::Write);
            match rustix::io::write(io, unsent) {
                Ok(count) => self.on_written(service, count, counters),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Next::Write,
                Err(_) => return Next::End,
            }
        }
    }

    /// Takes in what was read, by whomever; nothing is the end of the stream.
    #[inline]
    pub fn on_read<S: Service<Conn = C>>(&mut self, service: &S, input: &[u8], counters: &Counters) -> Next {
        if input.is_empty() {
            self.finished = true;
            return self.after_write(service);
        }
        counters.bytes_in.add(input.len() as u64);
        let requests = service.receive(&mut self.service, input);
        if requests == 0 {
            return Next::Read;
        }
        counters.requests.add(requests);
        Next::Write
    }

    /// What is to be written next; empty when everything is said.
    #[inline]
    pub fn unsent<'a, S: Service<Conn = C>>(&'a self, service: &'a S) -> &'a [u8] {
        service.unsent(&self.service)
    }

    /// Says that the first `count` bytes of [`Connection::unsent`] were written, by whomever.
    #[inline]
    pub fn on_written<S: Service<Conn = C>>(&mut self, service: &S, count: usize, counters: &Counters) {
        counters.bytes_out.add(count as u64);
        service.sent(&mut self.service, count);
    }

    /// What comes after a write.
    #[inline]
    pub fn after_write<S: Service<Conn = C>>(&self, service: &S) -> Next {
        match (service.unsent(&self.service).is_empty(), self.finished) {
            (true, true) => Next::End,
            (true, false) => Next::Read,
            (false, _) => Next::Write,
        }
    }
}
