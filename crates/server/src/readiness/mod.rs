//! Mechanisms: how a thread learns of I/O on many sockets. Adding one is one file, and one row in [`crate::registry`].
//!
//! Those here are told what is ready; in [`completion`] the kernel does the I/O.

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

/// When a mechanism reports a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// As long as it is ready for what it is watched for.
    Level,
    /// When it becomes ready, or was so when it was added; both ways at once, whatever it is watched for. Whoever is told
    /// must go on until the socket has no more.
    Edge,
}

/// The kernel says what is ready, we do the I/O.
///
/// Implementations allocate in `new` only; they do not log and do not read clocks. What the constants say is known when
/// the loop is compiled, so that no mechanism pays for another's ways.
pub trait Readiness: Sized {
    /// When a descriptor is reported.
    const TRIGGER: Trigger;
    /// Whether `wait` asks nobody and reports every watched descriptor. It never waits then, whatever the timeout.
    const REPORTS_ALL: bool = false;
    /// System calls that each `add` makes, to be counted.
    const ADD_SYSCALLS: u64;
    /// System calls that each `modify` makes.
    const MODIFY_SYSCALLS: u64;
    /// System calls that each `remove` makes.
    const REMOVE_SYSCALLS: u64;
    /// System calls that each `unwatch` makes.
    const UNWATCH_SYSCALLS: u64 = Self::REMOVE_SYSCALLS;
    /// Whether it has `add_exclusively`.
    const WAKES_EXCLUSIVELY: bool = false;

    /// Room for descriptors below `descriptors_max`.
    ///
    /// # Errors
    /// What the kernel says.
    fn new(descriptors_max: usize) -> io::Result<Self>;

    /// Begins to watch a descriptor for one thing.
    ///
    /// # Errors
    /// What the kernel says; a descriptor beyond `descriptors_max`.
    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Begins to watch a listener that others watch too, so that not all of them are woken by each connection.
    ///
    /// # Errors
    /// What the kernel says; that there is no such thing.
    fn add_exclusively(&mut self, _listener: RawFd, _token: Token) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Changes what a watched descriptor is watched for.
    ///
    /// # Errors
    /// What the kernel says.
    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()>;

    /// Ends watching, before the descriptor is closed.
    ///
    /// # Errors
    /// What the kernel says.
    fn remove(&mut self, descriptor: RawFd) -> io::Result<()>;

    /// Ends watching a descriptor that stays open, for now or because another thread still has it.
    ///
    /// # Errors
    /// What the kernel says.
    fn unwatch(&mut self, descriptor: RawFd) -> io::Result<()> {
        self.remove(descriptor)
    }

    /// Waits until something is ready, and fills `ready` with just that, within its capacity. A signal ends the wait
    /// with nothing ready; so does `timeout`, which is rounded up to what the kernel can tell apart.
    ///
    /// # Errors
    /// What the kernel says.
    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()>;

    /// Counts the system calls since the last time that the constants do not tell, those made only now and then.
    fn count_irregular(&mut self, _counters: &Counters) {}
}

/// What a descriptor is watched for: one thing at a time. Errors and hang-ups are reported as that thing, and the I/O
/// then says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Whose.
    pub token: Token,
    /// For what it was watched. Of [`Trigger::Edge`]: `Read` unless there is only room to write.
    pub interest: Interest,
    /// Whether to read until the socket says that it is empty, even after a read that falls short: the end of the stream
    /// may be behind the bytes, or events were lost. Of [`Trigger::Level`], which reports again, it is always false.
    pub drain: bool,
}

/// Rounded up to whole milliseconds; −1, for ever, for `None`.
fn timeout_ms(timeout: Option<Duration>) -> i32 {
    match timeout {
        None => -1,
        Some(timeout) => i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX),
    }
}

/// An interrupted wait is a wait in which nothing became ready.
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
