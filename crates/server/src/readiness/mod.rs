//! The readiness mechanisms: the kernel reports which sockets are ready, and the server does the I/O. To add one, add a file
//! here and a row in [`crate::registry`].

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::metrics::workers::Counters;
use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::BusyPolls;
use crate::token::Token;

#[cfg(target_os = "illumos")]
pub(crate) mod dev_poll;
#[cfg(target_os = "linux")]
pub(crate) mod epoll;
#[cfg(target_os = "illumos")]
pub(crate) mod event_ports;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring_epoll;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring_poll;
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
pub(crate) mod kqueue;
pub(crate) mod poll;
#[cfg(target_os = "linux")]
pub(crate) mod rt_signal;
pub(crate) mod select;
pub(crate) mod shuffled;
pub(crate) mod spin;

/// When a mechanism reports a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At every wait while the descriptor is ready for its interest.
    Level,
    /// Once each time the descriptor becomes readable or writable, whatever the interest, and once if it is so when added. The
    /// loop must write until the socket is full, and read until a read is short or, with [`Ready::drain`], finds nothing, in this
    /// turn or in the next ones.
    Edge,
}

/// A readiness mechanism. Implementations allocate in `new` only, never log, and read no clocks.
pub trait Readiness: Sized {
    const TRIGGER: Trigger;
    /// Whether `wait` reports every watched descriptor, ready or not, without a system call. It then never blocks.
    const REPORTS_ALL: bool = false;
    /// Whether the system call of `wait` scans all watched descriptors.
    const SCANS: bool = false;
    // The system calls that one call of each function makes; the loop adds them to its counters.
    const ADD_SYSCALLS: u64 = 0;
    const MODIFY_SYSCALLS: u64 = 0;
    const REMOVE_SYSCALLS: u64 = 0;
    const UNWATCH_SYSCALLS: u64 = Self::REMOVE_SYSCALLS;
    /// Whether `add_exclusively` is supported.
    const WAKES_EXCLUSIVELY: bool = false;
    /// Required kernel features, beyond those of every supported system.
    const NEEDS: &str = "";
    const BUSY_POLLS: BusyPolls = BusyPolls::Nothing;

    /// Returns an error with the reason and the remedy if the mechanism cannot run on this host.
    fn can_run() -> Result<(), String> {
        Ok(())
    }

    /// Makes a mechanism for descriptors below `descriptors_max`.
    fn new(descriptors_max: usize) -> io::Result<Self>;

    /// Makes a mechanism whose waits poll the network interface, if they can and if `poll` asks for it.
    fn polling(descriptors_max: usize, poll: Option<BusyPoll>) -> io::Result<Self> {
        let mut mechanism = Self::new(descriptors_max)?;
        if let (Some(poll), BusyPolls::Epoll | BusyPolls::Ring) = (poll, Self::BUSY_POLLS) {
            mechanism.busy_poll(poll)?;
        }
        Ok(mechanism)
    }

    /// Makes waits poll the network interface, for mechanisms whose waits can.
    fn busy_poll(&mut self, _poll: BusyPoll) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts to watch a descriptor. Mechanisms with tables fail with EMFILE if it is not below `descriptors_max`.
    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Starts to watch a listener that other threads also watch, so that a new connection does not wake all these threads.
    fn add_exclusively(&mut self, _listener: RawFd, _token: Token) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes the interest of a watched descriptor.
    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Stops watching a descriptor that is about to be closed. Does nothing by default, because closing a descriptor removes it
    /// from an interest list in the kernel.
    fn remove(&mut self, _descriptor: RawFd) -> io::Result<()> {
        Ok(())
    }

    /// Stops watching a descriptor that stays open.
    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.remove(descriptor)
    }

    /// Waits until a descriptor is ready, and replaces the contents of `ready`, within its capacity. A signal or the timeout
    /// ends the wait with an empty list. The timeout is rounded up to the kernel's resolution.
    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()>;

    /// Counts system calls that neither the constants above nor the loop's count of waits includes. Called after each wait.
    fn count_irregular(&mut self, _counters: &Counters) {}
}

/// The event that a descriptor is watched for. Errors and hang-ups are reported as this event; the I/O call then returns the
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub token: Token,
    /// The watched event; with [`Trigger::Edge`], `Read` unless the socket is only writable.
    pub interest: Interest,
    /// Whether to read until the socket is empty, even after a short read: the end of the stream may follow the bytes, or the
    /// kernel dropped events. Always false with [`Trigger::Level`], which reports the rest again.
    pub drain: bool,
}

/// The timeout in milliseconds, rounded up; −1 (no timeout) for `None`.
fn timeout_ms(timeout: Option<Duration>) -> i32 {
    match timeout {
        None => -1,
        Some(timeout) => i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
    }
}

/// The number of ready descriptors; 0 for an interrupted wait.
fn count_ready(returned: i32) -> io::Result<usize> {
    if returned >= 0 {
        return Ok(returned as usize);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        error => Err(error),
    }
}

/// A descriptor as an index below `descriptors_max`.
fn index(descriptor: RawFd, descriptors_max: usize) -> io::Result<usize> {
    let at = descriptor as usize;
    if at < descriptors_max { Ok(at) } else { Err(io::Error::from_raw_os_error(libc::EMFILE)) }
}

/// The place of a descriptor in a list; an error if it is not watched. `places` has, by descriptor, the place plus one, or 0.
fn place(places: &[u32], descriptor: RawFd) -> io::Result<usize> {
    match places.get(descriptor as usize) {
        None | Some(0) => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        Some(place) => Ok(*place as usize - 1),
    }
}

#[cfg(test)]
mod skeleton;
#[cfg(test)]
mod tests;
