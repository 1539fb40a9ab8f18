//! Real-time signals (F_SETSIG of fcntl(2)): the kernel queues one signal for each event, and sigtimedwait(2) takes one.
//!
//! RLIMIT_SIGPENDING limits the queue. When the queue overflows, the kernel drops events and sends SIGIO. Then poll(2) checks
//! all watched descriptors.

use std::os::fd::RawFd;
use std::time::Duration;
use std::{io, mem, ptr};

use super::poll::Poll;
use super::{Interest, Readiness, Ready, Trigger, count_ready};
use crate::metrics::workers::{Counters, Syscall};
use crate::token::Token;

// From asm-generic/fcntl.h; the libc crate has these constants for few targets.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_OWNER_TID: i32 = 0;

/// The kernel's `f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: i32,
    id: libc::pid_t,
}

/// The kernel's `siginfo_t` of a descriptor's signal.
#[repr(C)]
struct Signal {
    number: i32,
    error: i32,
    code: i32,
    /// The flags that poll(2) would report.
    events: libc::c_long,
    descriptor: RawFd,
    rest: [u8; 128 - 4 * size_of::<libc::c_long>()],
}

const _: () = assert!(size_of::<Signal>() >= size_of::<libc::siginfo_t>());

pub(crate) struct RtSignal {
    watched: Poll,
    /// SIGRTMIN and SIGIO. This thread blocks both, and takes them in `wait`.
    signals: libc::sigset_t,
    /// Descriptors that were ready when they were added. They cause no signal.
    early: Vec<Ready>,
    /// Calls of poll(2) after an overflow that are not counted yet.
    rescans: u64,
}

/// Takes one signal; returns `None` after the timeout or an unrelated signal.
fn take(signals: &libc::sigset_t, timeout: Option<Duration>) -> io::Result<Option<Signal>> {
    let timeout = timeout
        .map(|timeout| libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: all fields are numbers, for which zeros are valid.
    let mut signal: Signal = unsafe { mem::zeroed() };
    // SAFETY: all arguments are valid during the call, and `signal` is at least as long as a `siginfo_t`.
    match unsafe { libc::sigtimedwait(signals, (&raw mut signal).cast(), timeout) } {
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => Ok(None),
        returned => Ok((count_ready(returned)? > 0).then_some(signal)),
    }
}

fn done(returned: i32) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Readiness for RtSignal {
    const TRIGGER: Trigger = Trigger::Edge;
    const ADD_SYSCALLS: u64 = 4;
    const NEEDS: &str = "room in the signal queue (RLIMIT_SIGPENDING): each overflow costs a poll(2) of all sockets";

    fn can_run() -> Result<(), String> {
        match rustix::process::getrlimit(rustix::process::Resource::Sigpending).maximum {
            Some(0) => Err("no signal may be queued: RLIMIT_SIGPENDING is 0; raise it (ulimit -Hi)".into()),
            _ => Ok(()),
        }
    }

    fn new(descriptors_max: usize) -> io::Result<Self> {
        // SAFETY: `sigemptyset` makes the set valid; only the calling thread's mask changes.
        let signals = unsafe {
            let mut signals = mem::zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, libc::SIGIO);
            libc::sigaddset(&raw mut signals, libc::SIGRTMIN());
            match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, ptr::null_mut()) {
                0 => signals,
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        };
        // Discard signals of an earlier server in this thread.
        while take(&signals, Some(Duration::ZERO))?.is_some() {}
        Ok(Self {
            watched: Poll::new(descriptors_max)?,
            signals,
            early: Vec::with_capacity(descriptors_max),
            rescans: 0,
        })
    }

    fn add(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // SAFETY: `gettid` has no arguments.
        let owner = Owner { kind: F_OWNER_TID, id: unsafe { libc::gettid() } };
        // F_SETFL replaces all flags, so repeat O_NONBLOCK, which every watched descriptor has.
        let flags = libc::O_ASYNC | libc::O_NONBLOCK;
        // SAFETY: `owner` is valid during the call; the other arguments are numbers.
        unsafe {
            done(libc::fcntl(descriptor, F_SETSIG, libc::SIGRTMIN()))?;
            done(libc::fcntl(descriptor, F_SETOWN_EX, &raw const owner))?;
            done(libc::fcntl(descriptor, libc::F_SETFL, flags))?;
        }
        self.watched.add(descriptor, token, interest)?;
        if self.watched.is_ready(descriptor)? {
            self.early.push(Ready { token, interest, drain: true });
        }
        Ok(())
    }

    fn modify(&mut self, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        // The kernel signals both directions; only poll(2) uses the interest.
        self.watched.modify(descriptor, token, interest)
    }

    fn remove(&mut self, descriptor: RawFd) -> io::Result<()> {
        // Closing the socket ends its signals. `wait` ignores a queued signal of an unwatched descriptor. If a new connection
        // has the same descriptor by then, the loop reads it in vain.
        self.watched.remove(descriptor)
    }

    fn wait(&mut self, ready: &mut Vec<Ready>, timeout: Option<Duration>) -> io::Result<()> {
        ready.clear();
        ready.append(&mut self.early);
        let timeout = if ready.is_empty() { timeout } else { Some(Duration::ZERO) };
        let Some(signal) = take(&self.signals, timeout)? else { return Ok(()) };
        if signal.number == libc::SIGIO {
            // `Poll::wait` discards the events of `early`, but reports their descriptors again.
            self.rescans += 1;
            self.watched.wait(ready, Some(Duration::ZERO))?;
            ready.iter_mut().for_each(|event| event.drain = true);
        } else if let Some(token) = self.watched.token(signal.descriptor) {
            let readable = libc::c_long::from(libc::POLLIN | libc::POLLERR | libc::POLLHUP);
            let interest = if signal.events & readable == 0 { Interest::Write } else { Interest::Read };
            // No need to drain: the end of the stream causes a signal of its own after that of the bytes.
            ready.push(Ready { token, interest, drain: false });
        }
        Ok(())
    }

    fn count_irregular(&mut self, counters: &Counters) {
        if self.rescans > 0 {
            counters.syscalls_of(Syscall::Rescan, mem::take(&mut self.rescans));
        }
    }
}
