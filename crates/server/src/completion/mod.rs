//! What a mechanism of the completion family is: the kernel does the I/O, and says what came of it.

pub(crate) mod io_uring;

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::Errno;

use crate::metrics::workers::Counters;
use crate::socket::destination::{Control, NAME_BYTES};
use crate::token::Token;

/// The kernel does the I/O: we ask for operations, and are told what came of them.
///
/// Operations are queued, and go to the kernel with the next `wait` at the latest. Implementations allocate in `new`
/// only; they do not log and do not read clocks. They count their own system calls and operations, because only they
/// know which calls a queue needs. When dropped, they first end what the kernel still does with anyone's memory.
pub trait Completion: Sized {
    /// Most completions that one `wait` reports.
    const DONE_MAX: usize;
    /// A receive that goes on may miss the end of its stream, and then never says anything again.
    const MISSES_ENDS: bool;

    /// Room for so many connections, below 2^29. One receive brings at most `receive_bytes`.
    ///
    /// # Errors
    /// What the kernel says.
    fn new(connections_max: usize, receive_bytes: usize, counters: &'static Counters) -> io::Result<Self>;

    /// Reports [`What::Readable`] with `token`, which is no connection's, once `descriptor` is readable.
    ///
    /// # Errors
    /// What the kernel says of its queue; likewise below. Errors of the operation are reported with it.
    fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()>;

    /// Accepts from a listener that blocks; connections block too, which is what makes the kernel wait for them.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    fn accept(&mut self, listener: RawFd) -> io::Result<()>;

    /// Receives up to the read budget into memory of the mechanism, once or again and again.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    fn receive(&mut self, io: RawFd, token: Token) -> io::Result<()>;

    /// Ends a receive that goes on. Its last completion may still bring bytes.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    fn cancel_receive(&mut self, token: Token) -> io::Result<()>;

    /// Sends some of `bytes`. One send at a time for each connection.
    ///
    /// # Safety
    /// `bytes` stay where they are and as they are until [`What::Sent`] is reported or the mechanism is dropped.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    unsafe fn send(&mut self, io: RawFd, token: Token, bytes: &[u8]) -> io::Result<()>;

    /// The bytes of a receive, until its buffer is given back.
    fn bytes(&self, received: &Received) -> &[u8];

    /// Gives the buffer of a receive back, if it has one.
    fn give_back(&mut self, received: Received);

    /// Hands over what is queued, waits until something is done, and adds it to `done`, within its capacity. A signal
    /// ends the wait with nothing done. Unless it `may_wait` it is only a look.
    ///
    /// # Errors
    /// What the kernel says.
    fn wait(&mut self, done: &mut Vec<Done>, may_wait: bool) -> io::Result<()>;
}

/// The same for datagrams, of which each comes from somewhere and goes somewhere.
pub trait Datagrams: Completion {
    /// Receives datagrams into memory of the mechanism, with who sent them, once or again and again.
    ///
    /// # Safety
    /// `envelope` stays where it is until the receive has ended or the mechanism is dropped, and nobody else touches it
    /// meanwhile.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    unsafe fn receive_datagrams(&mut self, io: RawFd, token: Token, envelope: &mut Envelope) -> io::Result<()>;

    /// Sends one datagram, or fails where there is no room at once.
    ///
    /// # Safety
    /// `message`, and all that it points to, stay where they are and as they are until [`What::Sent`] is reported or the
    /// mechanism is dropped.
    ///
    /// # Errors
    /// See [`Completion::watch`].
    unsafe fn send_datagram(&mut self, io: RawFd, token: Token, message: *const libc::msghdr) -> io::Result<()>;

    /// What was received; `None` if nothing was.
    fn datagram<'a>(&'a self, received: &Received, envelope: &'a Envelope) -> Option<Datagram<'a>>;
}

/// What the kernel is to say of a datagram, for each socket. It points to itself: it must not move.
#[derive(Debug)]
pub struct Envelope {
    /// Who sent the datagram that came last, where each receive is asked for.
    pub(crate) name: [u8; NAME_BYTES],
    /// Where it was sent to, likewise.
    pub(crate) control: Control,
    /// Whether the kernel says so of this socket.
    pub(crate) has_control: bool,
    pub(crate) room: libc::iovec,
    pub(crate) message: libc::msghdr,
}

/// A datagram that came.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The address it came from, as the kernel writes it.
    pub from: &'a [u8],
    /// What the kernel says of where it was sent to; empty where it is not asked to.
    pub control: &'a [u8],
    /// What is in it, or the beginning of that.
    pub bytes: &'a [u8],
    /// How many bytes it had.
    pub length: usize,
}

/// Something that the kernel did.
#[derive(Debug)]
pub struct Done {
    /// For which connection, or what is watched; meaningless for the listener.
    pub token: Token,
    /// What.
    pub event: CompletionEvent,
}

/// What the kernel did.
#[derive(Debug)]
pub enum CompletionEvent {
    /// What is watched is readable: the order to stop, what other threads send, or a clock.
    Readable,
    /// Accepted a connection, or failed to.
    Accepted {
        /// The connection.
        result: Result<OwnedFd, Errno>,
        /// Whether more will follow without being asked for.
        more: bool,
    },
    /// Received, or failed to.
    Received(Received),
    /// Sent so many bytes, or failed to; either way the kernel needs them no longer.
    Sent(Result<usize, Errno>),
}

/// What came of a receive. Its buffer must be given back.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; none at the end of the stream.
    pub result: Result<usize, Errno>,
    /// Whether more will follow without being asked for.
    pub more: bool,
    /// The buffer that they are in.
    pub(crate) buffer: Option<u16>,
}
