//! epoll(7): the kernel keeps the interest list, epoll_ctl(2) changes it, and epoll_wait(2) returns the ready descriptors.
//!
//! Level-triggered, each wait reports all ready descriptors. Edge-triggered (EPOLLET), the kernel reports each change once, and
//! the server registers each descriptor once, for both directions.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{io, ptr};

use rustix::event::epoll::{CreateFlags, create};

use super::{Interest, Readiness, Ready, Trigger, count_ready, timeout_ms};
use crate::platform::busy_poll;
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::BusyPolls;
use crate::token::Token;

/// The most events that one wait returns.
pub(super) const EVENTS_MAX: usize = 1024;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
/// The events after which the kernel may report nothing more about a connection.
const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

pub(crate) struct Epoll<const IS_EDGE: bool> {
    pub(super) epoll: OwnedFd,
    pub(super) events: Vec<libc::epoll_event>,
}

impl<const IS_EDGE: bool> Epoll<IS_EDGE> {
    fn control(&self, operation: i32, descriptor: RawFd, token: Token, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token.0 };
        // SAFETY: `event` is valid during the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, descriptor, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Adds the first events to `ready`.
    ///
    /// # Safety
    /// The kernel must have written `count` events.
    pub(super) unsafe fn report(&mut self, count: usize, ready: &mut Vec<Ready>) {
        // SAFETY: as the caller promises.
        unsafe { self.events.set_len(count) };
        for event in &self.events {
            let events = event.events;
            let is_write = if IS_EDGE { events & (IN | ENDED) == 0 } else { events & OUT != 0 };
            let interest = if is_write { Interest::Write } else { Interest::Read };
            let drain = IS_EDGE && events & ENDED != 0;
            ready.push(Ready { token: Token(event.u64), interest, drain });
        }
    }
}

fn events<const IS_EDGE: bool>(interest: Interest) -> u32 {
    match interest {
        // The kernel always reports EPOLLHUP and EPOLLERR.
        _ if IS_EDGE => IN | OUT | libc::EPOLLRDHUP as u32 | EDGE,
        Interest::Read => IN,
        Interest::Write => OUT,
    }
}

impl<const IS_EDGE: bool> Readiness for Epoll<IS_EDGE> {
    const TRIGGER: Trigger = if IS_EDGE { Trigger::Edge } else { Trigger::Level };
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = if IS_EDGE { 0 } else { 1 };
    const UNWATCH_SYSCALLS: u64 = 1;
    const WAKES_EXCLUSIVELY: bool = true;
    const BUSY_POLLS: BusyPolls = BusyPolls::Epoll;

    fn new(_descriptors_max: usize) -> io::Result<Self> {
        Ok(Self { epoll: create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn busy_poll(&mut self, poll: BusyPoll) -> io::Result<()> {
        busy_poll::set_epoll(self.epoll.as_fd(), poll)
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, token, events::<IS_EDGE>(interest))
    }

    fn add_exclusively(&mut self, listener: RawFd, token: Token) -> io::Result<()> {
        let events = IN | libc::EPOLLEXCLUSIVE as u32 | if IS_EDGE { EDGE } else { 0 };
        self.control(libc::EPOLL_CTL_ADD, listener, token, events)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        if IS_EDGE {
            // `add` registered both directions.
            return Ok(());
        }
        self.control(libc::EPOLL_CTL_MOD, descriptor, token, events::<IS_EDGE>(interest))
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, descriptor, Token::STOP, 0)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let (epoll, room) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let in_ms = || {
            // SAFETY: the buffer has room for EVENTS_MAX events.
            count_ready(unsafe { libc::epoll_wait(epoll, room, EVENTS_MAX as i32, timeout_ms(timeout)) })
        };
        let count = match timeout {
            Some(timeout) if timeout.subsec_nanos() % 1_000_000 != 0 => {
                // The kernel's timespec has 64 bits on every processor.
                let timespec = [timeout.as_secs() as i64, timeout.subsec_nanos().into()];
                let (number, signals) = (libc::SYS_epoll_pwait2, ptr::null::<libc::sigset_t>());
                // SAFETY: as above, and the kernel only reads the time.
                let count = unsafe { libc::syscall(number, epoll, room, EVENTS_MAX, timespec.as_ptr(), signals, 0) };
                match count_ready(count as i32) {
                    // Before Linux 5.11, and under old seccomp profiles.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => in_ms(),
                    count => count,
                }
            }
            _ => in_ms(),
        }?;
        // SAFETY: the kernel has written `count` events.
        unsafe { self.report(count, ready) };
        Ok(())
    }
}
