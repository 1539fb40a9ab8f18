//! io_uring(7): the server queues requests in a submission ring, and the kernel queues results in a completion ring.

mod buffers;
mod datagrams;
pub(crate) mod features;
mod send_buffers;

use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring as Ring, Probe, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::process::Resource;

use super::{Completion, CompletionEvent, Done, Received};
use crate::metrics::workers::{Counters, Operation, Syscall};
use crate::net::connection::Unsent;
use crate::platform;
use crate::platform::busy_poll;
use crate::platform::io_uring::{end_operations, ignore_temporary, refusal};
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::Spins;
use crate::token::Token;
use buffers::Buffers;
use features::{Features, MinWait, TaskWork};
use send_buffers::SendBuffers;

/// The size of the submission ring. The completions of one wait rarely cause more requests than this.
const SUBMISSIONS_MAX: u32 = 1024;
/// The size of the completion ring. Completions beyond it wait in the kernel and end multishot receives.
const COMPLETIONS_MAX: u32 = 4 * SUBMISSIONS_MAX;
/// The number of receive buffers: one for each connection, within these limits.
const BUFFERS: std::ops::RangeInclusive<usize> = 16..=1024;
/// The time that the kernel's SQPOLL thread polls before it sleeps: longer than any gap between requests under load.
const SQPOLL_IDLE_MS: u32 = 10;
/// The longest wait of a ring that waits for several completions.
const IDLE_WAIT: Duration = Duration::from_secs(3_600);
/// The kernel's largest table of files (IORING_MAX_FIXED_FILES).
const FILES_MAX: usize = 1 << 20;
/// An empty place in the ring's table of files.
const NO_FILE: RawFd = -1;

/// The size of a bundle's buffers: a page, so that small requests leave no memory unused.
const BUNDLED_BYTES_MAX: usize = 4 << 10;
/// The most buffers of a ring of buffers.
const BUFFERS_MAX: usize = 1 << 15;

/// An io_uring with the features of a row.
pub(crate) struct IoUring<F> {
    // Dropped before the memory that the kernel uses.
    ring: Ring,
    buffers: Buffers,
    send_buffers: Option<SendBuffers>,
    /// The descriptor of each slot, to be stored in the ring's table of files; −1 for none. Empty without that table.
    files: Box<[RawFd]>,
    /// The parts of each slot's send, if it has two. The memory stays uninitialised: pages that no connection reaches cost nothing.
    messages: Box<[MaybeUninit<TwoParts>]>,
    /// The result of each slot's zero-copy send, kept until the kernel releases the sent memory.
    unreleased: Vec<i32>,
    counters: &'static Counters,
    features: PhantomData<F>,
}

/// A message of two parts. It points to itself, so it must not move.
struct TwoParts {
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

fn has_zero_copy(is_supported: impl Fn(u8) -> bool) -> Result<(), String> {
    let has_both = [opcode::SendZc::CODE, opcode::SendMsgZc::CODE].into_iter().all(is_supported);
    let reason = "the kernel lacks zero-copy sends of streams or datagrams; they need Linux 6.1 or later";
    has_both.then_some(()).ok_or_else(|| reason.into())
}

/// Checks the features of a kernel that reports none of its operations for them.
fn has_features<F: Features>(bundles: bool, minimum_waits: bool) -> Result<(), String> {
    let missing = match (F::BUNDLES && !bundles, F::MIN_WAIT.is_some() && !minimum_waits) {
        (true, _) => "bundles of receive buffers",
        (_, true) => "minimum waits",
        (false, false) => return Ok(()),
    };
    Err(format!("the kernel's io_uring lacks {missing}; they need {} or later; choose io_uring", F::NEEDS))
}

fn ring<F: Features>() -> io::Result<Ring> {
    let mut builder = Ring::builder();
    builder.setup_cqsize(COMPLETIONS_MAX).setup_submit_all();
    if F::SQPOLL {
        // Pin the kernel's thread to the last of the server's CPUs, to keep it off the client's.
        let last = platform::cpus().last().copied().unwrap_or(0);
        builder.setup_single_issuer().setup_sqpoll(SQPOLL_IDLE_MS).setup_sqpoll_cpu(last as u32);
        return builder.build(SUBMISSIONS_MAX);
    }
    if F::TASK_WORK != TaskWork::Interrupting {
        builder.setup_single_issuer().setup_coop_taskrun();
    }
    if F::TASK_WORK == TaskWork::Deferred
        && let Ok(ring) = builder.clone().setup_defer_taskrun().build(SUBMISSIONS_MAX)
    {
        return Ok(ring);
    }
    builder.build(SUBMISSIONS_MAX)
}

/// The size of a table of files for `slots` connections. The kernel limits it to a million, and as the number of descriptors.
fn files_max(slots: usize) -> usize {
    let descriptors = rustix::process::getrlimit(Resource::Nofile).current.map_or(FILES_MAX, |limit| limit as usize);
    slots.min(descriptors).min(FILES_MAX)
}

/// Sets up a ring for `slots` connections. It has `count` receive buffers of `bytes` bytes; for bundles, as much memory in smaller
/// buffers.
fn set_up<F: Features>(slots: usize, count: usize, bytes: usize) -> io::Result<(Ring, Buffers, Option<SendBuffers>)> {
    let ring = ring::<F>()?;
    let submitter = ring.submitter();
    let bytes_each = if F::BUNDLES { bytes.min(BUNDLED_BYTES_MAX) } else { bytes };
    let count = (count * bytes / bytes_each).next_power_of_two().min(BUFFERS_MAX);
    let buffers = Buffers::new(count as u16, bytes_each, F::BUNDLES)?;
    buffers.register(&submitter)?;
    let send_buffers = if F::SEND_BUFFERS { Some(SendBuffers::new(slots)?) } else { None };
    send_buffers.as_ref().map_or(Ok(()), |buffers| buffers.register(&submitter))?;
    if F::FILES {
        submitter.register_files_sparse(files_max(slots) as u32)?;
    }
    Ok((ring, buffers, send_buffers))
}

impl<F: Features> IoUring<F> {
    /// The socket of a connection in a request, with the request's flags: its place in the table of files, or its descriptor if
    /// there is no such place.
    #[inline]
    fn io(&self, descriptor: RawFd, token: Token) -> (Fd, squeue::Flags) {
        let slot = token.slot();
        if F::FILES && (slot as usize) < self.files.len() {
            return (Fd(slot as RawFd), squeue::Flags::FIXED_FILE);
        }
        (Fd(descriptor), squeue::Flags::empty())
    }

    /// Stores a descriptor in the ring's table of files, if it has one.
    fn store_file(&mut self, token: Token, descriptor: RawFd) -> io::Result<()> {
        let slot = token.slot();
        let Some(file) = self.files.get_mut(slot as usize) else { return Ok(()) };
        *file = descriptor;
        let update = opcode::FilesUpdate::new(file, 1).offset(slot as i32).build();
        // SAFETY: the files do not move and outlive the ring's requests.
        unsafe { self.push(Operation::Register, token, update) }
    }

    /// Describes the bytes of a slot's send to the kernel.
    fn message(&mut self, token: Token, unsent: Unsent<'_>) -> *const libc::msghdr {
        let parts = [unsent.first, unsent.second]
            .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        // SAFETY: all fields are numbers or pointers, for which zeros are valid.
        let header = unsafe { mem::zeroed() };
        let message = self.messages[token.slot() as usize].write(TwoParts { header, parts });
        message.header.msg_iov = message.parts.as_mut_ptr();
        message.header.msg_iovlen = message.parts.len() as _;
        &raw const message.header
    }

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
            if F::SQPOLL {
                self.counters.syscall(Syscall::Control);
                ignore_temporary(self.ring.submitter().squeue_wait())?;
            }
        }
        Ok(())
    }
}

impl<F: Features> Completion for IoUring<F> {
    const DONE_MAX: usize = 1024;
    /// The kernel treats bytes and the end of the stream as one event if both arrive before the receive runs
    /// (github.com/axboe/liburing, issue 1549; also for TCP resets on Linux 6.18).
    const MISSES_ENDS: bool = F::MULTISHOT;
    /// Only receives of streams have bundles, and only their sends have registered buffers or files.
    const SERVES_DATAGRAMS: bool = !F::BUNDLES && !F::SEND_BUFFERS && !F::FILES;
    /// A bundle has all bytes that have arrived, up to the kernel's limit of 256 buffers.
    const BOUNDS_READS: bool = !F::BUNDLES;
    const NEEDS: &str = F::NEEDS;
    const SPINS: Spins = if F::SQPOLL { Spins::KernelThread } else { Spins::Nothing };

    fn can_run() -> Result<(), String> {
        let slots = *BUFFERS.start();
        let (ring, _buffers, _send_buffers) =
            set_up::<F>(slots, slots, 1).map_err(|error| refusal(&error, F::NEEDS))?;
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known).map_err(|error| {
            format!("cannot query which operations io_uring supports: {error}; choose an architecture without io_uring")
        })?;
        let parameters = ring.params();
        has_features::<F>(parameters.is_feature_recvsend_bundle(), parameters.is_feature_min_timeout())?;
        if F::ZERO_COPY { has_zero_copy(|code| known.is_supported(code)) } else { Ok(()) }
    }

    fn new(connections_max: usize, receive_bytes: usize, counters: &'static Counters) -> io::Result<Self> {
        if connections_max >= KIND_ONE as usize {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let buffers = connections_max.clamp(*BUFFERS.start(), *BUFFERS.end()).next_power_of_two();
        let (ring, buffers, send_buffers) = set_up::<F>(connections_max, buffers, receive_bytes)?;
        let files = if F::FILES { vec![NO_FILE; files_max(connections_max)].into() } else { Box::default() };
        let messages = Box::new_uninit_slice(connections_max);
        let unreleased = if F::ZERO_COPY { vec![0; connections_max] } else { Vec::new() };
        Ok(Self { ring, buffers, send_buffers, files, messages, unreleased, counters, features: PhantomData })
    }

    fn busy_poll(&mut self, poll: BusyPoll) -> io::Result<()> {
        busy_poll::register_ring(self.ring.as_raw_fd(), poll)
    }

    fn open(&mut self, io: RawFd, token: Token) -> io::Result<()> {
        self.store_file(token, io)
    }

    fn close(&mut self, token: Token) -> io::Result<()> {
        self.store_file(token, NO_FILE)
    }

    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()> {
        let watch = opcode::PollAdd::new(Fd(descriptor), libc::POLLIN as u32).build();
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Watch, token, watch) }
    }

    fn accept(&mut self, listener: RawFd) -> io::Result<()> {
        let accept = if F::MULTISHOT {
            opcode::AcceptMulti::new(Fd(listener)).flags(libc::SOCK_CLOEXEC).build()
        } else {
            let accept = opcode::Accept::new(Fd(listener), std::ptr::null_mut(), std::ptr::null_mut());
            accept.flags(libc::SOCK_CLOEXEC).build()
        };
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Accept, Token::LISTENER, accept) }
    }

    #[inline]
    fn receive(&mut self, io: RawFd, token: Token, once: bool) -> io::Result<()> {
        let (io, flags) = self.io(io, token);
        let receive = if F::BUNDLES && once {
            opcode::RecvBundle::new(io, Buffers::GROUP).build()
        } else if F::BUNDLES {
            opcode::RecvMultiBundle::new(io, Buffers::GROUP).build()
        } else if F::MULTISHOT && !once {
            opcode::RecvMulti::new(io, Buffers::GROUP).build()
        } else {
            let receive = opcode::Recv::new(io, std::ptr::null_mut(), self.buffers.bytes_each as u32);
            receive.buf_group(Buffers::GROUP).build().flags(squeue::Flags::BUFFER_SELECT)
        };
        // SAFETY: the buffers outlive the ring.
        unsafe { self.push(Operation::Receive, token, receive.flags(flags)) }
    }

    fn cancel_receive(&mut self, token: Token) -> io::Result<()> {
        let cancel = opcode::AsyncCancel::new(tag(Operation::Receive, token)).build();
        // SAFETY: the request has no pointers.
        unsafe { self.push(Operation::Cancel, token, cancel) }
    }

    #[inline]
    unsafe fn send(&mut self, io: RawFd, token: Token, unsent: Unsent<'_>) -> io::Result<()> {
        let ((io, flags), bytes) = (self.io(io, token), unsent.first);
        // A write budget fits into 32 bits.
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let send = if !unsent.second.is_empty() {
            let message = self.message(token, unsent);
            if F::ZERO_COPY {
                opcode::SendMsgZc::new(io, message).build()
            } else {
                opcode::SendMsg::new(io, message).build()
            }
        } else if let Some(copy) = self.send_buffers.as_mut().and_then(|it| it.copy(token.slot() as usize, bytes)) {
            opcode::SendZc::new(io, copy, length).buf_index(Some(SendBuffers::INDEX)).build()
        } else if F::ZERO_COPY {
            opcode::SendZc::new(io, start, length).build()
        } else {
            opcode::Send::new(io, start, length).build()
        };
        // SAFETY: the caller keeps its memory valid, and a copy or a message is not changed before the send completes.
        unsafe { self.push(Operation::Send, token, send.flags(flags)) }
    }

    #[inline]
    fn parts(&self, received: &Received) -> impl Iterator<Item = &[u8]> {
        let (first, count) = (received.buffer.unwrap_or_default(), received.result.unwrap_or_default());
        self.buffers.bundle(first, if received.buffer.is_some() { count } else { 0 })
    }

    #[inline]
    fn give_back(&mut self, received: Received) {
        match (received.buffer, received.result) {
            (Some(first), Ok(count)) if F::BUNDLES => self.buffers.give_back_bundle(first, count),
            (Some(buffer), _) => self.buffers.give_back(buffer),
            (None, _) => {}
        }
    }

    fn wait(&mut self, done: &mut Vec<Done>, timeout: Option<Duration>) -> io::Result<()> {
        let may_wait = timeout != Some(Duration::ZERO);
        // With SQPOLL a call is needed only to wait, to wake the kernel's thread, or to fetch overflowed completions.
        let must_wait = !F::SQPOLL || (may_wait && self.ring.completion().is_empty());
        let must_call = must_wait || {
            let submission = self.ring.submission();
            submission.need_wakeup() || submission.cq_overflow()
        };
        if must_call {
            self.counters.syscall(if must_wait { Syscall::Wait } else { Syscall::Control });
            let submitter = self.ring.submitter();
            ignore_temporary(match F::MIN_WAIT {
                // Without a longer limit the kernel ends an idle wait after `time_us`.
                Some(MinWait { completions, time_us }) if must_wait && may_wait => {
                    let longest = Timespec::from(timeout.unwrap_or(IDLE_WAIT));
                    let times = SubmitArgs::new().min_wait_usec(time_us).timespec(&longest);
                    submitter.submit_with_args(completions, &times)
                }
                // Operations complete only during waits, so a wait for no time is one too.
                _ if must_wait && let Some(timeout) = timeout => {
                    submitter.submit_with_args(1, &SubmitArgs::new().timespec(&Timespec::from(timeout)))
                }
                _ => submitter.submit_and_wait(usize::from(must_wait)),
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
                Operation::Send if F::ZERO_COPY && !cqueue::notif(entry.flags()) && more => {
                    self.unreleased[token.slot() as usize] = entry.result();
                    continue;
                }
                Operation::Send => {
                    let slot = token.slot() as usize;
                    if let Some(buffers) = &mut self.send_buffers {
                        buffers.release(slot);
                    }
                    let is_late = F::ZERO_COPY && cqueue::notif(entry.flags());
                    CompletionEvent::Sent(outcome(if is_late { self.unreleased[slot] } else { entry.result() }))
                }
                // The cancelled operation has a completion of its own. Without its file, an operation fails.
                Operation::Cancel | Operation::Register => continue,
            };
            done.push(Done { token, event });
        }
        Ok(())
    }
}

impl<F> Drop for IoUring<F> {
    fn drop(&mut self) {
        end_operations(&self.ring.submitter());
        if !self.files.is_empty() {
            // Closing a ring also forgets its files asynchronously, which would keep their connections open.
            let _ = self.ring.submitter().unregister_files();
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

#[cfg(test)]
mod tests;
