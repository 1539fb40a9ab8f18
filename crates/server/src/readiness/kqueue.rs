//! kqueue(2), level-triggered: the kernel keeps the interest list and reports what is ready.
//!
//! Reading and writing are separate filters: to switch between them takes two changes in one call.

use std::ffi::c_void;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent_timespec, kqueue};
use rustix::io::Errno;

use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// The most events that one wait takes, as for epoll.
const EVENTS_MAX: usize = 1024;

/// A kqueue and the buffer of its events.
pub(crate) struct Kqueue {
    kqueue: OwnedFd,
    events: Vec<Event>,
}

impl Kqueue {
    /// Makes one kevent call that changes the interest list and takes no events.
    fn change(&self, changes: &[Event]) -> rustix::io::Result<()> {
        // SAFETY: the loop keeps a descriptor open until it has removed it, and its close ends the watching.
        unsafe { kevent_timespec(&self.kqueue, changes, &mut [] as &mut [Event], None) }.map(drop)
    }
}

fn filter(descriptor: RawFd, interest: Interest) -> EventFilter {
    match interest {
        Interest::Read => EventFilter::Read(descriptor),
        Interest::Write => EventFilter::Write(descriptor),
    }
}

fn watch(descriptor: RawFd, token: Token, interest: Interest) -> Event {
    Event::new(filter(descriptor, interest), EventFlags::ADD, token.to_u64() as *mut c_void)
}

impl Readiness for Kqueue {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 1;
    const REMOVE_SYSCALLS: u64 = 0;
    const UNWATCH_SYSCALLS: u64 = 2;

    fn new(_descriptors_max: usize) -> io::Result<Self> {
        let kqueue = kqueue()?;
        rustix::io::fcntl_setfd(&kqueue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self { kqueue, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(self.change(&[watch(descriptor, token, interest)])?)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        let other = match interest {
            Interest::Read => Interest::Write,
            Interest::Write => Interest::Read,
        };
        let forget = Event::new(filter(descriptor, other), EventFlags::DELETE, std::ptr::null_mut());
        match self.change(&[watch(descriptor, token, interest), forget]) {
            // It was not watched for the other direction; the first change took effect.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&mut self, _descriptor: RawFd) -> io::Result<()> {
        // Closing a descriptor removes its filters.
        Ok(())
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        for interest in [Interest::Read, Interest::Write] {
            let forget = Event::new(filter(descriptor, interest), EventFlags::DELETE, std::ptr::null_mut());
            match self.change(&[forget]) {
                // It was watched for the other direction.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        self.events.clear();
        // Nanoseconds: the kernel rounds up to its resolution. A longer timeout than it can count is none.
        let timeout = timeout.and_then(|timeout| {
            Some(Timespec { tv_sec: timeout.as_secs().try_into().ok()?, tv_nsec: timeout.subsec_nanos().into() })
        });
        let room = rustix::buffer::spare_capacity(&mut self.events);
        // SAFETY: no change is made, and the watched descriptors are open, as in `change`.
        match unsafe { kevent_timespec(&self.kqueue, &[], room, timeout.as_ref()) } {
            Ok(_) => {}
            // A signal ends a wait with nothing ready.
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let interest = match event.filter() {
                EventFilter::Write(_) => Interest::Write,
                _ => Interest::Read,
            };
            ready.push(Ready { token: Token::from_u64(event.udata() as u64), interest, drain: false });
        }
        Ok(())
    }
}
