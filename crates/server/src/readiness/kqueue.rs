//! kqueue(2), level-triggered: the kernel keeps the interest list, and kevent(2) changes it and returns the ready descriptors.
//!
//! Reading and writing are separate filters (EVFILT_READ, EVFILT_WRITE), so `modify` adds one and deletes the other.

use std::ffi::c_void;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent_timespec, kqueue};
use rustix::io::Errno;

use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// The most events that one wait returns, as for epoll.
const EVENTS_MAX: usize = 1024;

pub(crate) struct Kqueue {
    kqueue: OwnedFd,
    events: Vec<Event>,
}

impl Kqueue {
    /// Changes the interest list.
    fn change(&self, changes: &[Event]) -> rustix::io::Result<()> {
        // SAFETY: the watched descriptors are open, because closing one deletes its filters.
        unsafe { kevent_timespec(&self.kqueue, changes, &mut [] as &mut [Event], None) }.map(drop)
    }
}

fn filter(descriptor: RawFd, interest: Interest) -> EventFilter {
    match interest {
        Interest::Read => EventFilter::Read(descriptor),
        Interest::Write => EventFilter::Write(descriptor),
    }
}

fn addition(descriptor: RawFd, token: Token, interest: Interest) -> Event {
    Event::new(filter(descriptor, interest), EventFlags::ADD, token.0 as *mut c_void)
}

fn deletion(descriptor: RawFd, interest: Interest) -> Event {
    Event::new(filter(descriptor, interest), EventFlags::DELETE, std::ptr::null_mut())
}

/// Accepts the error of a deletion whose filter was not in the list.
fn ignore_absent(changed: rustix::io::Result<()>) -> io::Result<()> {
    changed.or_else(|error| if error == Errno::NOENT { Ok(()) } else { Err(error.into()) })
}

impl Readiness for Kqueue {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 1;
    const UNWATCH_SYSCALLS: u64 = 2;

    fn new(_descriptors_max: usize) -> io::Result<Self> {
        let kqueue = kqueue()?;
        rustix::io::fcntl_setfd(&kqueue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self { kqueue, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(self.change(&[addition(descriptor, token, interest)])?)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let other = match interest {
            Interest::Read => Interest::Write,
            Interest::Write => Interest::Read,
        };
        // A failed deletion does not undo the addition before it.
        ignore_absent(self.change(&[addition(descriptor, token, interest), deletion(descriptor, other)]))
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        ignore_absent(self.change(&[deletion(descriptor, Interest::Read)]))?;
        ignore_absent(self.change(&[deletion(descriptor, Interest::Write)]))
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        self.events.clear();
        // A timeout too long for the kernel's type means no timeout.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let room = rustix::buffer::spare_capacity(&mut self.events);
        // SAFETY: the call changes no filter, and the watched descriptors are open (see `change`).
        match unsafe { kevent_timespec(&self.kqueue, &[], room, timeout.as_ref()) } {
            // A signal ends the wait with nothing ready.
            Err(Errno::INTR) => return Ok(()),
            waited => waited?,
        };
        for event in &self.events {
            let interest = match event.filter() {
                EventFilter::Write(_) => Interest::Write,
                _ => Interest::Read,
            };
            ready.push(Ready { token: Token(event.udata() as u64), interest, drain: false });
        }
        Ok(())
    }
}
