//! epoll(7), edge-triggered: the kernel reports each change once, and each descriptor is registered once for both directions.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use super::epoll::Epoll;
use super::{Interest, Readiness, Ready, Trigger};
use crate::token::Token;

/// Both directions, and the end of the peer's sending.
const WATCHED: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// The events after which a read finds something, be it an error.
const READABLE: u32 = libc::EPOLLIN as u32 | ENDED;

/// The events after which the kernel may report nothing more.
const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// An epoll instance with edge-triggered registrations.
pub(crate) struct EpollEt(Epoll);

impl Readiness for EpollEt {
    const TRIGGER: Trigger = Trigger::Edge;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;
    const UNWATCH_SYSCALLS: u64 = 1;
    const WAKES_EXCLUSIVELY: bool = true;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Epoll::new(descriptors_max).map(Self)
    }

    fn add(&mut self, descriptor: RawFd, token: Token, _interest: Interest) -> io::Result<()> {
        self.0.control(libc::EPOLL_CTL_ADD, descriptor, token, WATCHED)
    }

    fn add_exclusively(&mut self, listener: RawFd, token: Token) -> io::Result<()> {
        self.0.control(
            libc::EPOLL_CTL_ADD,
            listener,
            token,
            (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32,
        )
    }

    fn modify(&mut self, _descriptor: RawFd, _token: Token, _interest: Interest) -> io::Result<()> {
        // It is watched in both directions already.
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
