//! The completion mechanisms: the server requests operations, and the kernel does the I/O and reports the results.

pub(crate) mod io_uring;

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;

use crate::metrics::workers::Counters;
use crate::socket::destination::{Control, NAME_BYTES};
use crate::token::Token;

/// A completion mechanism.
///
/// Operations are queued and reach the kernel with the next `wait` at the latest. Implementations allocate in `new` only, never
/// log, and read no clocks. They count their own system calls and operations, because only they know which calls a queue needs.
/// When dropped, they first end every operation that still uses memory.
pub trait Completion: Sized {
    /// The most completions that one `wait` reports.
    const DONE_MAX: usize;
    /// Whether a multishot receive may miss the end of its stream and then report nothing more.
    const MISSES_ENDS: bool;

    /// Makes a mechanism for `connections_max` connections, fewer than 2^29. A receive returns at most `receive_bytes`.
    fn new(connections_max: usize, receive_bytes: usize, counters: &'static Counters) -> io::Result<Self>;

    /// Requests one [`CompletionEvent::Readable`] with `token`, which is no connection's, once `descriptor` is readable.
    ///
    /// # Errors
    /// Errors of the kernel's queue; those of the operation are reported with its completion.
    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()>;

    /// Requests connections from a blocking listener. They block too, so that the kernel waits for them.
    fn accept(&mut self, listener: RawFd) -> io::Result<()>;

    /// Requests bytes, up to the read budget, into memory of the mechanism: once, or repeatedly.
    fn receive(&mut self, io: RawFd, token: Token) -> io::Result<()>;

    /// Ends a repeated receive. Its last completion may still have bytes.
    fn cancel_receive(&mut self, token: Token) -> io::Result<()>;

    /// Sends some of `bytes`. Each connection has at most one send at a time.
    ///
    /// # Safety
    /// `bytes` neither move nor change until [`CompletionEvent::Sent`] is reported or the mechanism is dropped.
    unsafe fn send(&mut self, io: RawFd, token: Token, bytes: &[u8]) -> io::Result<()>;

    /// The received bytes, until their buffer is given back.
    fn bytes(&self, received: &Received) -> &[u8];

    /// Gives the buffer of a receive back, if it has one.
    fn give_back(&mut self, received: Received);

    /// Submits the queue, waits until something completes, and adds it to `done`, within its capacity. A signal ends the wait
    /// with nothing done. Does not wait unless `may_wait`.
    fn wait(&mut self, done: &mut Vec<Done>, may_wait: bool) -> io::Result<()>;
}

/// The operations on datagrams, each with an address.
pub trait Datagrams: Completion {
    /// Requests datagrams with their senders into memory of the mechanism: once, or repeatedly.
    ///
    /// # Safety
    /// `envelope` does not move, and nothing else accesses it, until the receive has ended or the mechanism is dropped.
    unsafe fn receive_datagrams(&mut self, io: RawFd, token: Token, envelope: &mut Envelope) -> io::Result<()>;

    /// Sends one datagram; fails at once if the socket has no room.
    ///
    /// # Safety
    /// `message` and all that it points to neither move nor change until [`CompletionEvent::Sent`] is reported or the mechanism
    /// is dropped.
    unsafe fn send_datagram(&mut self, io: RawFd, token: Token, message: *const libc::msghdr) -> io::Result<()>;

    /// The received datagram; `None` after a failed receive.
    fn datagram<'a>(&'a self, received: &Received, envelope: &'a Envelope) -> Option<Datagram<'a>>;
}

/// A socket's memory for what the kernel reports with a datagram. It points to itself: it must not move.
#[derive(Debug)]
pub struct Envelope {
    /// The sender of the last datagram, for one-shot receives.
    pub(crate) name: [u8; NAME_BYTES],
    /// The destination of the last datagram, for one-shot receives.
    pub(crate) control: Control,
    /// Whether the kernel reports destinations for this socket.
    pub(crate) has_control: bool,
    pub(crate) room: libc::iovec,
    pub(crate) message: libc::msghdr,
}

/// A received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The sender's address, as the kernel writes it.
    pub from: &'a [u8],
    /// The kernel's control message with the destination; empty if not requested.
    pub control: &'a [u8],
    /// The contents, or their beginning.
    pub bytes: &'a [u8],
    /// The datagram's length, even if its end found no room.
    pub length: usize,
}

/// A completed operation.
#[derive(Debug)]
pub struct Done {
    /// The connection or watched descriptor; meaningless for the listener.
    pub token: Token,
    /// The operation and its result.
    pub event: CompletionEvent,
}

/// An operation and its result.
#[derive(Debug)]
pub enum CompletionEvent {
    /// A watched descriptor is readable.
    Readable,
    /// A connection was accepted, or an accept failed.
    Accepted {
        /// The connection.
        result: Result<OwnedFd, Errno>,
        /// Whether more will follow without another request.
        more: bool,
    },
    /// Bytes were received, or a receive failed.
    Received(Received),
    /// Bytes were sent, or a send failed; the kernel no longer uses their memory.
    Sent(Result<usize, Errno>),
}

/// The result of a receive. Its buffer must be given back.
#[derive(Debug)]
pub struct Received {
    /// The number of bytes; 0 at the end of the stream.
    pub result: Result<usize, Errno>,
    /// Whether more will follow without another request.
    pub more: bool,
    /// The buffer with the bytes.
    pub(crate) buffer: Option<u16>,
}
