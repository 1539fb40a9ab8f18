//! io_uring(7): the server queues requests in a submission ring, and the kernel queues results in a completion ring.

mod buffers;
mod datagrams;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring as Ring, Probe, cqueue, opcode, squeue};
use rustix::io::Errno;

use super::{Completion, CompletionEvent, Done, Received};
use crate::metrics::workers::{Counters, Operation, Syscall};
use crate::platform::{self, io_uring::refusal};
use crate::spec::mechanism::Spins;
use crate::token::Token;
use buffers::Buffers;

/// The size of the submission ring. The completions of one wait rarely cause more requests than this.
const SUBMISSIONS_MAX: u32 = 1024;
/// The size of the completion ring. Completions beyond it wait in the kernel and end multishot receives.
const COMPLETIONS_MAX: u32 = 4 * SUBMISSIONS_MAX;
/// The number of receive buffers: one for each connection, within these limits.
const BUFFERS: std::ops::RangeInclusive<usize> = 16..=1024;
/// The time that the kernel's SQPOLL thread polls before it sleeps: longer than any gap between requests under load.
const SQPOLL_IDLE_MS: u32 = 10;

/// An io_uring. `SQPOLL`: a kernel thread takes requests without a system call. `MULTISHOT`: accepts and receives repeat until
/// they are cancelled or the kernel ends them. `ZERO_COPY`: the kernel sends from the server's memory, and a send completes when
/// that memory is free again.
pub(crate) struct IoUring<const SQPOLL: bool, const MULTISHOT: bool, const ZERO_COPY: bool> {
    // Dropped before `buffers`, which the kernel uses.
    ring: Ring,
    buffers: Buffers,
    /// The result of each slot's zero-copy send, kept until the kernel releases the sent memory.
    unreleased: Vec<i32>,
    counters: &'static Counters,
}

fn has_zero_copy(is_supported: impl Fn(u8) -> bool) -> Result<(), String> {
    let has_both = [opcode::SendZc::CODE, opcode::SendMsgZc::CODE].into_iter().all(is_supported);
    let reason = "the kernel lacks zero-copy sends of streams or datagrams; they need Linux 6.1 or later";
    has_both.then_some(()).ok_or_else(|| reason.into())
}

fn set_up(sqpoll: bool, buffers: usize, buffer_bytes: usize) -> io::Result<(Ring, Buffers)> {
    let mut builder = Ring::builder();
    builder.setup_cqsize(COMPLETIONS_MAX).setup_submit_all().setup_single_issuer();
    let ring = if sqpoll {
        // Pin the kernel's thread to the last of the server's CPUs, to keep it off the client's.
        let last = platform::cpus().last().copied().unwrap_or(0);
        builder.setup_sqpoll(SQPOLL_IDLE_MS).setup_sqpoll_cpu(last as u32).build(SUBMISSIONS_MAX)?
    } else {
        builder.setup_coop_taskrun();
        // With DEFER_TASKRUN, operations complete only during waits. Linux 6.0 lacks this flag.
        let deferring = builder.clone().setup_defer_taskrun().build(SUBMISSIONS_MAX);
        deferring.or_else(|_| builder.build(SUBMISSIONS_MAX))?
    };
    let buffers = Buffers::new(buffers as u16, buffer_bytes)?;
    buffers.register(&ring.submitter())?;
    Ok((ring, buffers))
}

impl<const SQPOLL: bool, const MULTISHOT: bool, const ZERO_COPY: bool> IoUring<SQPOLL, MULTISHOT, ZERO_COPY> {
    /// Queues a request; submits the queue first if it is full.
    ///
    /// # Safety
    /// The memory that `operation` points to must stay valid until the operation completes.
    #[inline]
    unsafe fn push(&mut self, kind: Operation, token: Token, operation: squeue::Entry) -> io::Result<()> {
        self.counters.submitted(kind);
        let operation = operation.user_data(tag(kind, token));
        // SAFETY: the caller keeps the memory valid.
        while unsafe { self.ring.submission().push(&operation) }.is_err() {
            self.counters.syscall(Syscall::Control);
            ignore_temporary(self.ring.submit())?;
            if SQPOLL {
                self.counters.syscall(Syscall::Control);
                ignore_temporary(self.ring.submitter().squeue_wait())?;
            }
        }
        Ok(())
    }
}

impl<const SQPOLL: bool, const MULTISHOT: bool, const ZERO_COPY: bool> Completion
    for IoUring<SQPOLL, MULTISHOT, ZERO_COPY>
{
    const DONE_MAX: usize = 1024;
    /// The kernel treats bytes and the end of the stream as one event if both arrive before the receive runs
    /// (github.com/axboe/liburing, issue 1549; also for TCP resets on Linux 6.18).
    const MISSES_ENDS: bool = MULTISHOT;
    const NEEDS: &str = if ZERO_COPY { "Linux 6.1" } else { "Linux 6.0" };
    const SPINS: Spins = if SQPOLL { Spins::KernelThread } else { Spins::Nothing };

    fn can_run() -> Result<(), String> {
        let (ring, _buffers) = set_up(SQPOLL, *BUFFERS.start(), 1).map_err(|error| refusal(&error, "Linux 6.0"))?;
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known).map_err(|error| {
            format!("cannot query which operations io_uring supports: {error}; choose an architecture without io_uring")
        })?;
        if ZERO_COPY { has_zero_copy(|code| known.is_supported(code)) } else { Ok(()) }
    }

    fn new(connections_max: usize, receive_bytes: usize, counters: &'static Counters) -> io::Result<Self> {
        if connections_max >= KIND_ONE as usize {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let buffers = connections_max.clamp(*BUFFERS.start(), *BUFFERS.end()).next_power_of_two();
        let (ring, buffers) = set_up(SQPOLL, buffers, receive_bytes)?;
        let unreleased = if ZERO_COPY { vec![0; connections_max] } else { Vec::new() };
        Ok(Self { ring, buffers, unreleased, counters })
    }

    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()> {
        let watch = opcode::PollAdd::new(Fd(descriptor), libc::POLLIN as u32).build();
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Watch, token, watch) }
    }

    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        let accept = if MULTISHOT {
            opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC).build()
        } else {
            let accept = opcode::Accept::new(Fd(listener), std::ptr::null_mut(), std::ptr::null_mut());
            accept.flags(libc::SOCK_CLOEXEC).build()
        };
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Accept, Token::LISTENER, accept) }
    }

    #[inline]
    fn receive(&mut self, io: RawFd, token: Token) -> io::Result<()> {
        let receive = if MULTISHOT {
            opcode::RecvMulti::new(Fd(io), Buffers::GROUP).build()
        } else {
            let receive = opcode::Recv::new(Fd(io), std::ptr::null_mut(), self.buffers.bytes_each as u32);
            receive.buf_group(Buffers::GROUP).build().flags(squeue::Flags::BUFFER_SELECT)
        };
        // SAFETY: the buffers outlive the ring.
        unsafe { self.push(Operation::Receive, token, receive) }
    }

    fn cancel_receive(&mut self, token: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(tag(Operation::Receive, token)).build();
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Cancel, token, cancel) }
    }

    #[inline]
    unsafe fn send(&mut self, io: RawFd, token: Token, bytes: &[u8]) -> io::Result<()> {
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let send = if ZERO_COPY {
            opcode::SendZc::new(Fd(io), start, length).build()
        } else {
            opcode::Send::new(Fd(io), start, length).build()
        };
        // SAFETY: the caller keeps the memory valid.
        unsafe { self.push(Operation::Send, token, send) }
    }

    #[inline]
    fn bytes(&self, received: &Received) -> &[u8] {
        match (received.buffer, received.result) {
            (Some(buffer), Ok(count)) => self.buffers.bytes(buffer, count),
            _ => &[],
        }
    }

    #[inline]
    fn give_back(&mut self, received: Received) {
        if let Some(buffer) = received.buffer {
            self.buffers.give_back(buffer);
        }
    }

    fn wait(&mut self, done: &mut Vec<Done>, may_wait: bool) -> io::Result<()> {
        // With SQPOLL a call is needed only to wait, to wake the kernel's thread, or to fetch overflowed completions.
        let must_wait = !SQPOLL || (may_wait && self.ring.completion().is_empty());
        let must_call = must_wait || {
            let submission = self.ring.submission();
            submission.need_wakeup() || submission.cq_overflow()
        };
        if must_call {
            self.counters.syscall(if must_wait { Syscall::Wait } else { Syscall::Control });
            ignore_temporary(if must_wait && !may_wait {
                // Operations complete only during waits, so make one that returns at once.
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&Timespec::new()))
            } else {
                self.ring.submit_and_wait(usize::from(must_wait))
            })?;
        }
        for entry in self.ring.completion().take(Self::DONE_MAX) {
            let (kind, token) = untag(entry.user_data());
            self.counters.completed(kind);
            let more = cqueue::more(entry.flags());
            let event = match kind {
                Operation::Watch => CompletionEvent::Readable,
                Operation::Accept => {
                    // SAFETY: the kernel has just created the descriptor.
                    let own = |accepted| unsafe { OwnedFd::from_raw_fd(accepted as RawFd) };
                    CompletionEvent::Accepted { result: outcome(entry.result()).map(own), more }
                }
                Operation::Receive => CompletionEvent::Received(Received {
                    result: outcome(entry.result()),
                    more,
                    buffer: cqueue::buffer_select(entry.flags()),
                }),
                // The second completion of a zero-copy send means that the memory is free.
                Operation::Send if cqueue::notif(entry.flags()) => {
                    CompletionEvent::Sent(outcome(self.unreleased[token.slot() as usize]))
                }
                Operation::Send if ZERO_COPY && more => {
                    self.unreleased[token.slot() as usize] = entry.result();
                    continue;
                }
                Operation::Send => CompletionEvent::Sent(outcome(entry.result())),
                // The cancelled operation has a completion of its own.
                Operation::Cancel => continue,
            };
            done.push(Done { token, event });
        }
        Ok(())
    }
}

impl<const SQPOLL: bool, const MULTISHOT: bool, const ZERO_COPY: bool> Drop for IoUring<SQPOLL, MULTISHOT, ZERO_COPY> {
    fn drop(&mut self) {
        // Cancel and wait: closing a ring ends its operations asynchronously, when their memory may already have another owner.
        let submitter = self.ring.submitter();
        if let Err(error) = cancel_all(|| submitter.register_sync_cancel(None, CancelBuilder::any())) {
            // The kernel may still access the memory, so it must not be reused.
            eprintln!("cannot cancel io_uring's operations: {error}; the process aborts; restart the server");
            std::process::abort();
        }
    }
}

/// Calls `cancel` until no operation is left.
fn cancel_all(mut cancel: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match cancel().map_err(|error| (error.raw_os_error(), error)) {
            Err((Some(libc::EINTR | libc::EAGAIN), _)) => {}
            // No operation was left.
            Ok(()) | Err((Some(libc::ENOENT), _)) => return Ok(()),
            Err((_, error)) => return Err(error),
        }
    }
}

/// The position of the kind in the user data, between slot and generation.
const KIND_SHIFT: u32 = 29;
const KIND_ONE: u64 = 1 << KIND_SHIFT;
const KIND_MASK: u64 = 7 << KIND_SHIFT;

#[inline]
fn tag(kind: Operation, token: Token) -> u64 {
    token.0 & !KIND_MASK | (kind as u64) << KIND_SHIFT
}

#[inline]
fn untag(data: u64) -> (Operation, Token) {
    let kind = (data & KIND_MASK) >> KIND_SHIFT;
    match Operation::ALL[kind as usize].0 {
        // Only the loop's own descriptors are watched. All kind bits of their tokens are set, so restore them.
        Operation::Watch => (Operation::Watch, Token(data | KIND_MASK)),
        kind => (kind, Token(data & !KIND_MASK)),
    }
}

#[inline]
fn outcome(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// Ignores interruptions, temporary lack of resources and timeouts: the next call retries.
fn ignore_temporary(result: io::Result<usize>) -> io::Result<()> {
    match result.map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
