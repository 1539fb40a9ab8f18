//! A mechanism to copy: the least that works, which is ppoll(2) with a list that is searched. Tests run it, and no server.
//!
//! Say here, in a line or two, what the kernel does and what we do; and in a paragraph what is not obvious about it.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

// The trait, what its functions take and give, and what neighbours share: `timeout_ms`, `count_ready`, `index`.
use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// Everything the mechanism needs. It belongs to one thread: no locks, no sharing.
pub(super) struct Skeleton {
    /// Who is watched for what. With what the kernel calls them by, keep tokens: they are all that the loop knows.
    watched: Vec<(PollFd<'static>, RawFd, Token, Interest)>,
    /// Memory for the kernel's arguments and answers, set aside in `new`.
    list: Vec<PollFd<'static>>,
}

impl Skeleton {
    fn place(&self, descriptor: RawFd) -> io::Result<usize> {
        let place = self.watched.iter().position(|&(_, other, ..)| other == descriptor);
        place.ok_or_else(|| Errno::NOENT.into())
    }
}

impl Readiness for Skeleton {
    // `Edge` if the kernel tells of a change once: the loop then reads on by itself, and `Ready::drain` must be true
    // whenever a short read might not be the last.
    const TRIGGER: Trigger = Trigger::Level;
    // What the functions below cost, so that the loop can count it. What differs from call to call is for `count_more`.
    const ADD_SYSCALLS: u64 = 0;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // The only place that may allocate. Never fill memory in: pages that no connection reaches should cost nothing.
        Ok(Self { watched: Vec::with_capacity(descriptors_max), list: Vec::with_capacity(descriptors_max) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // An error turns this one connection away. Here: no room, instead of an allocation.
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
        // The descriptor is still open, and closed right after. What the kernel may yet say of it must not reach its next
        // tenant: the loop ignores tokens of the past; a mechanism that knows only descriptors must see to it.
        let place = self.place(descriptor)?;
        self.watched.swap_remove(place);
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        // `ready` is reused, and has room for every descriptor there may be.
        ready.clear();
        self.list.clear();
        self.list.extend(self.watched.iter().map(|(entry, ..)| entry.clone()));
        // `None` waits for ever. Timeouts round up: a wait that ends early would look like a busy loop.
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
            // Errors and hang-ups count as what was asked for: the I/O says which.
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
