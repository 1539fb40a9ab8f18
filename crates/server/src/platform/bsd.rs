//! Common parts of FreeBSD and macOS.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::metrics::workers::{Counters, Syscall, Workers};

/// The limits that a server raises.
pub const RAISED: &[Resource] = &[Resource::Nofile, Resource::Nproc];

/// Whether shutdown(2) of a listener wakes every accept, for good. FreeBSD wakes one, once; macOS wakes none. So blocking loops
/// also wait for the stop descriptor ([`may_accept`]), and their listener must not block: the connection may have gone when they
/// accept.
pub const SHUTDOWN_WAKES_ACCEPT: bool = false;

/// Waits until a connection comes or the server stops; returns `false` if it stops. Counts the wait.
pub(crate) fn may_accept(listener: &OwnedFd, stop: BorrowedFd<'_>, counters: &Counters) -> io::Result<bool> {
    let mut watched = [PollFd::new(listener, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    loop {
        counters.syscall(Syscall::Wait);
        match rustix::event::poll(&mut watched, None) {
            Ok(_) => return Ok(watched[1].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The CPUs that the calling thread may run on; unknown here.
pub(crate) fn cpus() -> Vec<usize> {
    Vec::new()
}

/// Fails unless `cpus` is empty: FreeBSD would need other calls, and macOS has none.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "pinning needs Linux; name no CPUs"))
}

/// A thread's scheduling policy, which is never changed here.
#[derive(Debug)]
pub(crate) enum SchedulingPolicy {}

/// Has no effect.
pub(crate) fn raise_priority() -> Option<SchedulingPolicy> {
    None
}

/// Never called.
pub(crate) fn set_scheduling(turn: &SchedulingPolicy) -> bool {
    match *turn {}
}

/// Unknown: only Linux reports which part of a process's memory is its own.
pub(crate) fn memory_user_bytes(_workers: &Workers) -> Option<u64> {
    None
}

/// Unknown: only Linux reports kernel memory.
pub(crate) fn memory_kernel_bytes() -> Option<u64> {
    None
}

/// Sleeps are precise here.
pub(crate) fn set_precise_sleep() {}

/// Unknown: only Linux reports it.
pub(crate) fn dropped(_socket: &OwnedFd) -> Option<u64> {
    None
}

/// None: only Linux reports delays.
pub(crate) fn serving_threads(_workers: &Workers) -> Vec<(i32, i32)> {
    Vec::new()
}

/// Unknown: only Linux reports it.
pub(crate) fn run_delay(_thread: (i32, i32)) -> Option<(u64, u64)> {
    None
}
