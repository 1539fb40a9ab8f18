//! epoll(7), edge-triggered: the kernel hands over each change once, and interest is registered once for both ways.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{Interest, Readiness, Ready, Token, Trigger, count_ready, timeout_ms};

/// Most events that one wait takes, as `epoll` has it.
const EVENTS_MAX: usize = 1024;

/// Both ways, and the peer's end of sending.
const WATCHED: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// What there is when there is something to read, be it an error.
const READABLE: u32 = libc::EPOLLIN as u32 | ENDED;

/// After these the kernel may have nothing more to say.
const ENDED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// An epoll instance and the buffer its events come in.
pub(super) struct EpollEt {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Readiness for EpollEt {
    const TRIGGER: Trigger = Trigger::Edge;
    const ADD_SYSCALLS: u64 = 1;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;

    fn new(_descriptors_max: usize) -> io::Result<Self> {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, _interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: WATCHED, u64: token.to_u64() };
        // SAFETY: `event` lives across the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn modify(&mut self, _descriptor: RawFd, _token: Token, _interest: Interest) -> io::Result<()> {
        // It is watched both ways already.
        Ok(())
    }

    fn remove(&mut self, _descriptor: RawFd) -> io::Result<()> {
        // Closing the last descriptor of a socket takes it off the list, and ours is the last.
        Ok(())
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        // SAFETY: the buffer has room for EVENTS_MAX events, and the kernel writes `count` of them.
        let count = count_ready(unsafe {
            let room = self.events.as_mut_ptr();
            libc::epoll_wait(self.epoll.as_raw_fd(), room, EVENTS_MAX as i32, timeout_ms(timeout))
        })?;
        // SAFETY: the kernel has just written that many.
        unsafe { self.events.set_len(count) };
        for event in &self.events {
            let events = event.events;
            let interest = if events & READABLE != 0 { Interest::Read } else { Interest::Write };
            ready.push(Ready { token: Token::from_u64(event.u64), interest, drain: events & ENDED != 0 });
        }
        Ok(())
    }
}
