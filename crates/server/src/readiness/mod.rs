//! The readiness mechanisms: the kernel reports which sockets are ready, and the server does the I/O. To add one, add a file here
//! and a row in [`crate::registry`].

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::metrics::workers::Counters;
use crate::token::Token;

#[cfg(target_os = "linux")]
pub(crate) mod epoll;
#[cfg(target_os = "linux")]
pub(crate) mod epoll_et;
#[cfg(target_os = "linux")]
pub(crate) mod io_uring_poll;
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
pub(crate) mod kqueue;
pub(crate) mod poll;
#[cfg(target_os = "linux")]
pub(crate) mod rt_signal;
pub(crate) mod select;
pub(crate) mod spin;

/// The time at which a mechanism reports a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// As long as it is ready for its interest.
    Level,
    /// When it becomes ready, or was ready when it was added; in both directions, whatever its interest. The loop must go on
    /// until the socket has no more.
    Edge,
}

/// A readiness mechanism.
///
/// Implementations allocate in `new` only, never log, and read no clocks. The loop is compiled for each mechanism with its
/// constants, so that none pays for the properties of another.
pub trait Readiness: Sized {
    /// The time at which a descriptor is reported.
    const TRIGGER: Trigger;
    /// Whether `wait` reports every watched descriptor, ready or not, without asking the kernel. It never waits then.
    const REPORTS_ALL: bool = false;
    /// System calls of each `add`.
    const ADD_SYSCALLS: u64;
    /// System calls of each `modify`.
    const MODIFY_SYSCALLS: u64;
    /// System calls of each `remove`.
    const REMOVE_SYSCALLS: u64;
    /// System calls of each `unwatch`.
    const UNWATCH_SYSCALLS: u64 = Self::REMOVE_SYSCALLS;
    /// Whether `add_exclusively` is supported.
    const WAKES_EXCLUSIVELY: bool = false;

    /// Makes a mechanism for descriptors below `descriptors_max`.
    fn new(descriptors_max: usize) -> io::Result<Self>;

    /// Starts to watch a descriptor.
    ///
    /// # Errors
    /// Errors of the kernel, and a descriptor beyond `descriptors_max`.
    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Starts to watch a listener that other threads watch too, so that a connection does not wake all of them.
    ///
    /// # Errors
    /// Errors of the kernel; `Unsupported` for most mechanisms.
    fn add_exclusively(&mut self, _listener: RawFd, _token: Token) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes the interest of a watched descriptor.
    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Stops watching a descriptor that is about to be closed.
    fn remove(&mut self, descriptor: RawFd) -> io::Result<()>;

    /// Stops watching a descriptor that stays open, for now or because another thread still uses it.
    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.remove(descriptor)
    }

    /// Waits until something is ready, and replaces the contents of `ready`, within its capacity. A signal ends the wait with
    /// nothing ready; so does `timeout`, rounded up to the kernel's resolution.
    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()>;

    /// Counts the system calls since the last time that the constants do not cover.
    fn count_irregular(&mut self, _counters: &Counters) {}
}

/// The event that a descriptor is watched for. Errors and hang-ups are reported as this event; the I/O call then tells them
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read.
    Read,
    /// There is room to write.
    Write,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token of the descriptor.
    pub token: Token,
    /// The watched event; with [`Trigger::Edge`], `Read` unless there is only room to write.
    pub interest: Interest,
    /// Whether to read until the socket is empty, even after a short read: the end of the stream may follow the bytes, or events
    /// were lost. Always false with [`Trigger::Level`], which reports again.
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

#[cfg(test)]
mod skeleton;
#[cfg(test)]
mod tests;
