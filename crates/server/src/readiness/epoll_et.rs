//! epoll(7), edge-triggered (EPOLLET): the kernel reports each change once. Each descriptor is registered once, for both
//! directions.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::epoll::Epoll;
use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// Readable, writable, and shut down by the peer.
const WATCHED: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// The events after which a read does not block; it may return an error.
const READABLE: u32 = libc::EPOLLIN as u32 | ENDED;

/// The events that may be the last of a connection.
const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

pub(crate) struct EpollEt(Epoll);

impl Readiness for EpollEt {
    const TRIGGER: Trigger = Trigger::Edge;
    const ADD_SYSCALLS: u64 = 1;
    const UNWATCH_SYSCALLS: u64 = 1;
    const WAKES_EXCLUSIVELY: bool = true;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Epoll::new(descriptors_max).map(Self)
    }

    fn add(&mut self, descriptor: RawFd, token: Token, _interest: Interest) -> io::Result<()> {
        self.0.control(libc::EPOLL_CTL_ADD, descriptor, token, WATCHED)
    }

    fn add_exclusively(&mut self, listener: RawFd, token: Token) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;
        self.0.control(libc::EPOLL_CTL_ADD, listener, token, events)
    }

    fn modify(&mut self, _descriptor: RawFd, _token: Token, _interest: Interest) -> io::Result<()> {
        // `add` registered both directions.
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.0.remove(descriptor)
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.0.unwatch(descriptor)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        for event in self.0.take(timeout)? {
            let events = event.events;
            let interest = if events & READABLE != 0 { Interest::Read } else { Interest::Write };
            ready.push(Ready { token: Token::from_u64(event.u64), interest, drain: events & ENDED != 0 });
        }
        Ok(())
    }
}
