//! An example mechanism to copy: ppoll(2) over a list, with a linear search for descriptors. Only tests run it.
//!
//! Begin this comment with the system call and the tasks of kernel and server. Then explain anything not obvious.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// The state of the mechanism. It belongs to one thread and needs no lock.
pub(super) struct Skeleton {
    /// The watched descriptors. The loop identifies a descriptor only by its token.
    watched: Vec<(RawFd, Token, Interest)>,
    /// Memory for the kernel's arguments and results.
    list: Vec<PollFd<'static>>,
}

impl Skeleton {
    fn place(&self, descriptor: RawFd) -> io::Result<usize> {
        let place = self.watched.iter().position(|&(watched, ..)| watched == descriptor);
        place.ok_or_else(|| Errno::NOENT.into())
    }
}

impl Readiness for Skeleton {
    // Use `Edge` if the kernel reports a change once. Then set `Ready::drain` whenever more bytes may follow a short read.
    const TRIGGER: Trigger = Trigger::Level;
    // If `add`, `modify` or `remove` makes system calls, set `ADD_SYSCALLS`, `MODIFY_SYSCALLS` or `REMOVE_SYSCALLS`. Count
    // calls whose number varies in `count_irregular`.

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // Allocate only here, and leave memory uninitialised: a page that no connection uses then costs nothing.
        Ok(Self { watched: Vec::with_capacity(descriptors_max), list: Vec::with_capacity(descriptors_max) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // An error rejects only this connection. A full list is an error, because growing it would allocate.
        if self.watched.len() == self.watched.capacity() {
            return Err(Errno::MFILE.into());
        }
        self.watched.push((descriptor, token, interest));
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let place = self.place(descriptor)?;
        self.watched[place] = (descriptor, token, interest);
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        // The loop closes the descriptor after this call. A late event must not reach the next connection with the same
        // descriptor: the loop ignores old tokens, but a mechanism that finds tokens by descriptor must check.
        let place = self.place(descriptor)?;
        self.watched.swap_remove(place);
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        self.list.clear();
        self.list.extend(self.watched.iter().map(|&(descriptor, _, interest)| entry(descriptor, interest)));
        // Round timeouts up: a wait that ends early would become a busy loop.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut self.list, timeout.as_ref()) {
            // A signal ends the wait with nothing ready; any other error ends the server.
            Err(Errno::INTR) => return Ok(()),
            polled => polled?,
        };
        for (entry, &(_, token, interest)) in self.list.iter().zip(&self.watched) {
            // Errors and hang-ups are reported as the watched event: the I/O call returns the error.
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
    // SAFETY: the loop removes a descriptor before it closes it.
    PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(descriptor) }, events)
}
