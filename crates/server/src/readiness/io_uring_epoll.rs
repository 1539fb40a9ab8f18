//! epoll(7) below io_uring(7): the kernel keeps the interest list, and a request (EPOLL_WAIT) waits for it. One wait for the
//! completions of a ring can so report an interest list beside other requests.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode};

use super::epoll::{EVENTS_MAX, Epoll};
use super::io_uring_poll::{enter, ring};
use super::{Interest, Readiness, Ready, Trigger};
use crate::platform::io_uring::{end_operations, refusal};
use crate::token::Token;

/// The size of the submission ring, which never holds more than one request.
const ENTRIES: u32 = 8;

pub(crate) struct IoUringEpoll {
    // Dropped before the list's room for events, which the kernel fills.
    ring: IoUring,
    list: Epoll<false>,
    /// Whether a request is pending: the last wait ended without an event.
    is_pending: bool,
}

impl Readiness for IoUringEpoll {
    const TRIGGER: Trigger = Trigger::Level;
    const ADD_SYSCALLS: u64 = Epoll::<false>::ADD_SYSCALLS;
    const MODIFY_SYSCALLS: u64 = Epoll::<false>::MODIFY_SYSCALLS;
    const UNWATCH_SYSCALLS: u64 = Epoll::<false>::UNWATCH_SYSCALLS;
    const NEEDS: &str = "Linux 6.15 with io_uring allowed (kernel.io_uring_disabled)";

    fn can_run() -> Result<(), String> {
        let mut known = Probe::new();
        let probed = ring(ENTRIES).and_then(|ring| ring.submitter().register_probe(&mut known));
        probed.map_err(|error| refusal(&error, "Linux 6.1"))?;
        let reason =
            "the kernel's io_uring has no requests for epoll (EPOLL_WAIT); they need Linux 6.15 or later; choose epoll";
        known.is_supported(opcode::EpollWait::CODE).then_some(()).ok_or_else(|| reason.into())
    }

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self { ring: ring(ENTRIES)?, list: Epoll::new(descriptors_max)?, is_pending: false })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.list.add(descriptor, token, interest)
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        self.list.modify(descriptor, token, interest)
    }

    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.list.unwatch(descriptor)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        if !self.is_pending {
            let room = self.list.events.as_mut_ptr().cast();
            let wait = opcode::EpollWait::new(Fd(self.list.epoll.as_raw_fd()), room, EVENTS_MAX as u32).build();
            // SAFETY: the room has space for EVENTS_MAX events and outlives the ring's requests.
            while unsafe { self.ring.submission().push(&wait) }.is_err() {
                self.ring.submit()?;
            }
            self.is_pending = true;
        }
        enter(&self.ring, timeout)?;
        let Some(completion) = self.ring.completion().next() else { return Ok(()) };
        self.is_pending = false;
        match completion.result() {
            // SAFETY: the kernel has written `count` events.
            count @ 0.. => unsafe { self.list.report(count as usize, ready) },
            error if [libc::EINTR, libc::EAGAIN].contains(&-error) => {}
            error => return Err(io::Error::from_raw_os_error(-error)),
        }
        Ok(())
    }
}

impl Drop for IoUringEpoll {
    fn drop(&mut self) {
        end_operations(&self.ring.submitter());
    }
}
