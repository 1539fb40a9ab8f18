//! epoll(7), level-triggered: the kernel keeps the interest list, and epoll_wait(2) returns the ready descriptors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{Interest, Readiness, Ready, Trigger, count_ready, timeout_ms};
use crate::token::Token;

/// The most events that one wait returns, as in common servers.
const EVENTS_MAX: usize = 1024;

pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    pub(super) fn control(&self, operation: i32, descriptor: RawFd, token: Token, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token.to_u64() };
        // SAFETY: `event` lives across the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, descriptor, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, timeout: Option<Duration>) -> io::Result<&[libc::epoll_event]> {
        // SAFETY: the buffer has room for EVENTS_MAX events.
        let count = count_ready(unsafe {
            let room = self.events.as_mut_ptr();
            libc::epoll_wait(self.epoll.as_raw_fd(), room, EVENTS_MAX as i32, timeout_ms(timeout))
        })?;
        // SAFETY: the kernel has written `count` events.
        unsafe { self.events.set_len(count) };
        Ok(&self.events)
    }
}

fn events(interest: Interest) -> u32 {
    match interest {
        Interest::Read => libc::EPOLLIN as u32,
        Interest::Write => libc::EPOLLOUT as u32,
    }
}

impl Readiness for Epoll {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 1;
    const UNWATCH_SYSCALLS: u64 = 1;
    const WAKES_EXCLUSIVELY: bool = true;

    fn new(_descriptors_max: usize) -> io::Result<Self> {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, token, events(interest))
    }

    fn add_exclusively(&mut self, listener: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, listener, token, (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, token, events(interest))
    }

    fn remove(&mut self, _descriptor: RawFd) -> io::Result<()> {
        // The kernel removes a socket from the list when its last descriptor is closed.
        Ok(())
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, descriptor, Token::STOP, 0)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        for event in self.take(timeout)? {
            let interest = if event.events & libc::EPOLLOUT as u32 != 0 { Interest::Write } else { Interest::Read };
            ready.push(Ready { token: Token::from_u64(event.u64), interest, drain: false });
        }
        Ok(())
    }
}
