//! A mechanism to copy: the least that works, which is ppoll(2) with a list that is searched. Only tests run it.
//!
//! Describe here, in a line or two, the parts of the kernel and of the server; add a paragraph for what is not obvious.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

// The trait, its arguments and results, and shared functions: `timeout_ms`, `count_ready`, `index`.
use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// Everything the mechanism needs. It belongs to one thread: no locks, no sharing.
pub(super) struct Skeleton {
    /// The watched descriptors. Keep a token for each: the loop knows nothing else.
    watched: Vec<(PollFd<'static>, RawFd, Token, Interest)>,
    /// Memory for the kernel's arguments and results, allocated in `new`.
    list: Vec<PollFd<'static>>,
}

impl Skeleton {
    fn place(&self, descriptor: RawFd) -> io::Result<usize> {
        let place = self.watched.iter().position(|&(_, other, ..)| other == descriptor);
        place.ok_or_else(|| Errno::NOENT.into())
    }
}

impl Readiness for Skeleton {
    // `Edge` if the kernel reports a change once: the loop then reads on by itself, and `Ready::drain` must be true whenever a
    // short read might not be the last.
    const TRIGGER: Trigger = Trigger::Level;
    // The system calls of the functions below, which the loop counts. Count those that vary from call to call in
    // `count_irregular`.
    const ADD_SYSCALLS: u64 = 0;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // Allocate only here, and leave memory uninitialised: pages that no connection reaches should cost nothing.
        Ok(Self { watched: Vec::with_capacity(descriptors_max), list: Vec::with_capacity(descriptors_max) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // An error rejects this one connection. Here there is no room, and no allocation makes any.
        if self.watched.len() == self.watched.capacity() {
            return Err(Errno::MFILE.into());
        }
        self.watched.push((entry(descriptor, interest), descriptor, token, interest));
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let place = self.place(descriptor)?;
        self.watched[place] = (entry(descriptor, interest), descriptor, token, interest);
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        // The descriptor is still open, and closed right after. A late event must not reach the next connection with this
        // descriptor: the loop ignores old tokens, but a mechanism that keeps only descriptors must take care.
        let place = self.place(descriptor)?;
        self.watched.swap_remove(place);
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        // `ready` is reused and has room for every descriptor.
        ready.clear();
        self.list.clear();
        self.list.extend(self.watched.iter().map(|(entry, ..)| entry.clone()));
        // `None` has no timeout. Timeouts round up: a wait that ends early would look like a busy loop.
        let timeout = timeout
            .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) });
        match poll(&mut self.list, timeout.as_ref()) {
            Ok(_) => {}
            // A signal ends a wait with nothing ready.
            Err(Errno::INTR) => return Ok(()),
            // Any other error ends the server.
            Err(error) => return Err(error.into()),
        }
        for (entry, &(_, _, token, interest)) in self.list.iter().zip(&self.watched) {
            // Errors and hang-ups count as the watched event: the I/O call tells them apart.
            if !entry.revents().is_empty() {
                ready.push(Ready { token, interest, drain: false });
            }
        }
        Ok(())
    }
}

fn entry(descriptor: RawFd, interest: Interest) -> PollFd<'static> {
    let events = match interest {
        Interest::Read => PollFlags::IN,
        Interest::Write => PollFlags::OUT,
    };
    // SAFETY: the loop keeps a descriptor open until it has removed it.
    PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(descriptor) }, events)
}
