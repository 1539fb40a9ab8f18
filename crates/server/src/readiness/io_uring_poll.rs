//! io_uring's multishot poll: one request for each descriptor, and a completion for each change; the server does the I/O.
//!
//! Requests gather in the ring and go to the kernel with the next wait, so that watching costs no system call of its own.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::{Interest, Readiness, Ready, Trigger, index};
use crate::metrics::workers::{Counters, Syscall};
use crate::platform::io_uring::refusal;
use crate::token::Token;

/// The most events that one wait takes, as for `epoll`; also the size of the request ring.
const EVENTS_MAX: usize = 1024;

/// Both directions, and the end of the peer's sending.
const WATCHED: u32 = (libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP) as u32;

/// The events after which the kernel may report nothing more.
const ENDED: i32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as i32;

/// The user data of a failed removal; no descriptor is that high.
const REMOVAL: u64 = u64::MAX;

/// A ring and the watched descriptors.
pub(crate) struct IoUringPoll {
    ring: IoUring,
    /// Tokens by descriptor.
    tokens: Vec<u64>,
    /// How often each descriptor was added and removed. Requests carry it, so that a late completion of an earlier connection is
    /// recognised.
    generations: Vec<u32>,
    /// Calls that a full request ring made necessary and that are not counted yet.
    submits: u64,
}

fn ring(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // The kernel completes requests only during waits: one thread does both and need not be interrupted.
    builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(4 * entries).build(entries)
}

/// Returns why it cannot run here.
pub(crate) fn can_run() -> Result<(), String> {
    ring(8).map(drop).map_err(|error| refusal(&error, "Linux 6.1"))
}

/// The user data of a request of the descriptor's present connection.
fn name(descriptor: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | descriptor as u64
}

impl IoUringPoll {
    /// Puts a request into the ring. The next wait submits it; a full ring is submitted at once.
    fn request(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: neither a poll nor a cancellation refers to memory.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submits += 1;
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Lets the kernel complete what it can, and takes none of the completions.
    #[cfg(test)]
    pub(super) fn leave_completions(&mut self) -> bool {
        let timeout = Timespec::new();
        let _ = self.ring.submitter().submit_with_args(usize::MAX >> 32, &SubmitArgs::new().timespec(&timeout));
        self.ring.submission().cq_overflow()
    }

    fn watch(&mut self, descriptor: usize) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(descriptor as RawFd), WATCHED).multi(true).build();
        self.request(&poll.user_data(name(descriptor, self.generations[descriptor])))
    }
}

impl Readiness for IoUringPoll {
    const TRIGGER: Trigger = Trigger::Edge;
    const ADD_SYSCALLS: u64 = 0;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;

    fn new(descriptors_max: usize) -> io::Result<Self> {
        Ok(Self {
            ring: ring(EVENTS_MAX as u32)?,
            tokens: vec![0; descriptors_max],
            generations: vec![0; descriptors_max],
            submits: 0,
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, _interest: Interest) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        self.tokens[at] = token.to_u64();
        self.generations[at] = self.generations[at].wrapping_add(1);
        self.watch(at)
    }

    fn modify(&mut self, _descriptor: RawFd, _token: Token, _interest: Interest) -> io::Result<()> {
        // It is watched in both directions already.
        Ok(())
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        let at = index(descriptor, self.tokens.len())?;
        // The request holds the socket: without this the peer would not see it closed. POLL_REMOVE fails with EALREADY while an
        // event is on its way.
        let removal = opcode::AsyncCancel::new(name(at, self.generations[at])).build();
        self.generations[at] = self.generations[at].wrapping_add(1);
        self.request(&removal.user_data(REMOVAL).flags(Flags::SKIP_SUCCESS))
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        let waited = match timeout.map(Timespec::from) {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout)),
        };
        match waited.map_err(|error| (error.raw_os_error(), error)) {
            // EBUSY: completions must be taken before requests can be submitted.
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY), _)) => {}
            Err((_, error)) => return Err(error),
        }
        // Completions beyond the ring's size stay in the kernel until the next waits.
        for _ in 0..EVENTS_MAX {
            let Some(completion) = self.ring.completion().next() else { break };
            let (at, generation) = (completion.user_data() as u32 as usize, (completion.user_data() >> 32) as u32);
            if self.generations.get(at) != Some(&generation) {
                // The completion of an earlier connection, or of a removal whose request had already ended.
                continue;
            }
            if !cqueue::more(completion.flags()) {
                // A multishot request ends when its completion finds no room; the new one reports what is ready then.
                self.watch(at)?;
            }
            let events = completion.result();
            let only_room = events == i32::from(libc::POLLOUT);
            let interest = if only_room { Interest::Write } else { Interest::Read };
            // A negative result is an error: the following I/O call reports it.
            let drain = events < 0 || events & ENDED != 0;
            ready.push(Ready { token: Token::from_u64(self.tokens[at]), interest, drain });
        }
        Ok(())
    }

    fn count_irregular(&mut self, counters: &Counters) {
        if self.submits > 0 {
            counters.syscalls_of(Syscall::Control, std::mem::take(&mut self.submits));
        }
    }
}
