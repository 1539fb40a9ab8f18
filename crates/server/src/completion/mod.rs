//! The completion mechanisms: the server requests operations, and the kernel does the I/O and reports the results.

pub(crate) mod io_uring;

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;

use crate::metrics::workers::Counters;
use crate::net::connection::Unsent;
use crate::socket::destination::{Control, NAME_BYTES};
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::Spins;
use crate::token::Token;

/// A completion mechanism. It queues operations and submits them with the next `wait` at the latest.
///
/// Implementations allocate in `new` only, and read no clocks. They count their system calls and operations. When dropped,
/// they first end every operation that may still access memory.
pub trait Completion: Sized {
    /// The most completions that one `wait` reports.
    const DONE_MAX: usize;
    /// Whether a multishot receive may miss the end of its stream and then stay silent.
    const MISSES_ENDS: bool;
    /// Required kernel features, beyond those of every supported system.
    const NEEDS: &str = "";
    const SPINS: Spins = Spins::Nothing;
    /// Whether the mechanism also acts on datagrams.
    const SERVES_DATAGRAMS: bool = true;
    /// Whether a receive ends at the read budget.
    const BOUNDS_READS: bool = true;

    /// Returns an error with the reason and the remedy if the mechanism cannot run on this host.
    fn can_run() -> Result<(), String> {
        Ok(())
    }

    /// Makes a mechanism for `connections_max` connections (below 2^29). A receive returns at most `receive_bytes`.
    fn new(connections_max: usize, receive_bytes: usize, counters: &'static Counters) -> io::Result<Self>;

    /// Makes a mechanism whose waits poll the network interface, if `poll` asks for it.
    fn polling(
        connections_max: usize,
        receive_bytes: usize,
        counters: &'static Counters,
        poll: Option<BusyPoll>,
    ) -> io::Result<Self> {
        let mut mechanism = Self::new(connections_max, receive_bytes, counters)?;
        poll.map_or(Ok(()), |poll| mechanism.busy_poll(poll))?;
        Ok(mechanism)
    }

    /// Makes waits poll the network interface.
    fn busy_poll(&mut self, _poll: BusyPoll) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Requests one [`CompletionEvent::Readable`] when `descriptor` is readable. `token` must be one of the loop's own tokens.
    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()>;

    /// Requests connections from a blocking listener. The connections are also blocking: the kernel waits for their I/O.
    fn accept(&mut self, listener: RawFd) -> io::Result<()>;

    /// Prepares the operations on a connection, before the first of them.
    fn open(&mut self, _io: RawFd, _token: Token) -> io::Result<()> {
        Ok(())
    }

    /// Undoes `open`, after the last operation on the connection and before its descriptor is closed.
    fn close(&mut self, _token: Token) -> io::Result<()> {
        Ok(())
    }

    /// Requests bytes, up to the read budget, in a buffer of the mechanism. The receive is one-shot if `once` is set, otherwise
    /// one-shot or multishot.
    fn receive(&mut self, io: RawFd, token: Token, once: bool) -> io::Result<()>;

    /// Ends a multishot receive. Its last completion may still have bytes.
    fn cancel_receive(&mut self, token: Token) -> io::Result<()>;

    /// Sends some of the bytes. Each connection has at most one send at a time.
    ///
    /// # Safety
    /// The bytes must neither move nor change until [`CompletionEvent::Sent`] is reported or the mechanism is dropped.
    unsafe fn send(&mut self, io: RawFd, token: Token, unsent: Unsent<'_>) -> io::Result<()>;

    /// The received bytes, in order: those of each buffer.
    fn parts(&self, received: &Received) -> impl Iterator<Item = &[u8]>;

    /// Returns the buffers of a receive, if any, to the mechanism.
    fn give_back(&mut self, received: Received);

    /// Submits the queue and adds completed operations to `done`, within its capacity. If none has completed, waits for one, at most
    /// for `timeout`; a signal ends the wait.
    fn wait(&mut self, done: &mut Vec<Done>, timeout: Option<Duration>) -> io::Result<()>;
}

/// The operations on datagrams, which carry addresses.
pub trait Datagrams: Completion {
    /// Requests datagrams with their senders' addresses, in buffers of the mechanism. The receive is one-shot or multishot.
    ///
    /// # Safety
    /// `envelope` must not move, and nothing else may access it, until the receive has ended or the mechanism is dropped.
    unsafe fn receive_datagrams(&mut self, io: RawFd, token: Token, envelope: &mut Envelope) -> io::Result<()>;

    /// Sends one datagram; fails at once if the socket's buffer is full.
    ///
    /// # Safety
    /// `message` and everything it points to must neither move nor change until [`CompletionEvent::Sent`] is reported or the
    /// mechanism is dropped.
    unsafe fn send_datagram(&mut self, io: RawFd, token: Token, message: *const libc::msghdr) -> io::Result<()>;

    /// The received datagram; `None` after a failed receive.
    fn datagram<'a>(&'a self, received: &Received, envelope: &'a Envelope) -> Option<Datagram<'a>>;
}

/// A socket's memory for the header of a received datagram. Its fields point to each other, so it must not move.
pub struct Envelope {
    /// The sender of the last datagram, for one-shot receives.
    pub name: [u8; NAME_BYTES],
    /// The destination of the last datagram, for one-shot receives.
    pub control: Control,
    /// Whether the kernel reports destinations for this socket.
    pub has_control: bool,
    pub room: libc::iovec,
    pub message: libc::msghdr,
}

pub struct Datagram<'a> {
    /// The sender's address as a `sockaddr`.
    pub from: &'a [u8],
    /// The kernel's control message with the destination; empty if the socket does not need it.
    pub control: &'a [u8],
    /// The contents, truncated to the buffer's size.
    pub bytes: &'a [u8],
    /// The datagram's full length.
    pub length: usize,
}

#[derive(Debug)]
pub struct Done {
    /// The connection or watched descriptor; without meaning for an accept.
    pub token: Token,
    pub event: CompletionEvent,
}

/// A completed operation with its result.
#[derive(Debug)]
pub enum CompletionEvent {
    Readable,
    Accepted {
        result: Result<OwnedFd, Errno>,
        /// Whether more connections will follow without another request.
        more: bool,
    },
    Received(Received),
    /// Bytes were sent, or a send failed; the kernel no longer reads their memory.
    Sent(Result<usize, Errno>),
}

/// The result of a receive. The loop must pass it to [`Completion::give_back`].
#[derive(Debug)]
pub struct Received {
    /// The number of bytes; 0 at the end of the stream.
    pub result: Result<usize, Errno>,
    /// Whether more completions will follow without another request.
    pub more: bool,
    /// The first buffer.
    pub buffer: Option<u16>,
}
