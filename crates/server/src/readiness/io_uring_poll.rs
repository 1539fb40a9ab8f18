//! Multishot poll requests of io_uring(7): one request for each descriptor, one completion for each change. The server does the
//! I/O.
//!
//! Requests gather in the submission ring until the next wait submits them, so that watching needs no extra system call.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::{Interest, Readiness, Ready, Trigger, index};
use crate::metrics::workers::{Counters, Syscall};
use crate::platform::busy_poll;
use crate::platform::io_uring::{ignore_temporary, refusal};
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::BusyPolls;
use crate::token::Token;

/// The most events that one wait returns, as for `epoll`; also the size of the submission ring.
const EVENTS_MAX: usize = 1024;

/// Readable, writable, and shut down by the peer.
const WATCHED: u32 = (libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP) as u32;

/// The events after which the kernel may report nothing more about a connection.
const ENDED: i32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;

/// The user data of a cancel request. No poll request has it, because no descriptor is that high.
const REMOVAL: u64 = u64::MAX;

pub(crate) struct IoUringPoll {
    ring: IoUring,
    /// Tokens by descriptor.
    tokens: Vec<u64>,
    /// The number of additions and removals of each descriptor. It is part of a request's user data, so that `wait` recognises
    /// a late completion of an earlier connection.
    generations: Vec<u32>,
    /// System calls that submitted a full ring and are not counted yet.
    submits: u64,
}

pub(super) fn ring(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Run completions only during waits (IORING_SETUP_DEFER_TASKRUN), so that the kernel never interrupts this thread.
    builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(4 * entries).build(entries)
}

/// Submits all requests and waits for a completion.
pub(super) fn enter(ring: &IoUring, timeout: Option<Duration>) -> io::Result<()> {
    let waited = match timeout.map(Timespec::from) {
        None => ring.submitter().submit_and_wait(1),
        Some(timeout) => ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)),
    };
    ignore_temporary(waited)
}

/// The user data of a poll request.
fn user_data(descriptor: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | descriptor as u64
}

impl IoUringPoll {
    /// Queues a request for the next wait; submits a full ring at once.
    fn queue(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: neither poll nor cancel requests have pointers.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submits += 1;
            ignore_temporary(self.ring.submit())?;
        }
        Ok(())
    }

    /// Makes the kernel complete requests, but leaves the completions in the ring. Returns whether the ring overflowed.
    #[cfg(test)]
    pub(super) fn leave_completions(&mut self) -> bool {
        let timeout = Timespec::new();
        let _ = self.ring.submitter().submit_with_args(usize::MAX >> 32, &SubmitArgs::new().timespec(&timeout));
        self.ring.submission().cq_overflow()
    }

    fn watch(&mut self, descriptor: usize) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(descriptor as RawFd), WATCHED).multi(true).build();
        self.queue(&poll.user_data(user_data(descriptor, self.generations[descriptor])))
    }
}

impl Readiness for IoUringPoll {
    const TRIGGER: Trigger = Trigger::Edge;
    const NEEDS: &str = "Linux 6.1 with io_uring allowed (kernel.io_uring_disabled)";
    const BUSY_POLLS: BusyPolls = BusyPolls::Ring;

    fn can_run() -> Result<(), String> {
        ring(8).map(drop).map_err(|error| refusal(&error, "Linux 6.1"))
    }

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self {
            ring: ring(EVENTS_MAX as u32)?,
            tokens: vec![0; descriptors_max],
            generations: vec![0; descriptors_max],
            submits: 0,
        })
    }

    fn busy_poll(&mut self, poll: BusyPoll) -> io::Result<()> {
        busy_poll::register_ring(self.ring.as_raw_fd(), poll)
    }

    fn add(&mut self, descriptor: RawFd, token: Token, _interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        self.tokens[at] = token.0;
        self.generations[at] = self.generations[at].wrapping_add(1);
        self.watch(at)
    }

    fn modify(&mut self, _descriptor: RawFd, _token: Token, _interest: Interest) -> io::Result<()> {
        // `add` requested both directions.
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        // The poll request holds a reference to the socket, so close(2) ends the connection only if the request is cancelled.
        // POLL_REMOVE is no alternative: it fails with EALREADY while an event is pending.
        let removal = opcode::AsyncCancel::new(user_data(at, self.generations[at])).build();
        self.generations[at] = self.generations[at].wrapping_add(1);
        self.queue(&removal.user_data(REMOVAL).flags(Flags::SKIP_SUCCESS))
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        enter(&self.ring, timeout)?;
        // Later waits read the rest: the kernel keeps completions that do not fit into the ring.
        for _ in 0..EVENTS_MAX {
            let Some(completion) = self.ring.completion().next() else { break };
            let (at, generation) = (completion.user_data() as u32 as usize, (completion.user_data() >> 32) as u32);
            if self.generations.get(at) != Some(&generation) {
                // A completion of an earlier connection, or of a cancel request that found no poll request.
                continue;
            }
            if !cqueue::more(completion.flags()) {
                // A multishot request ends if its completion does not fit into the ring. A new one reports the current state.
                self.watch(at)?;
            }
            let events = completion.result();
            let interest = if events == i32::from(libc::POLLOUT) { Interest::Write } else { Interest::Read };
            // A negative result is an error, which the next I/O call returns.
            let drain = events < 0 || events & ENDED != 0;
            ready.push(Ready { token: Token(self.tokens[at]), interest, drain });
        }
        Ok(())
    }

    fn count_irregular(&mut self, counters: &Counters) {
        if self.submits > 0 {
            counters.syscalls_of(Syscall::Control, std::mem::take(&mut self.submits));
        }
    }
}
