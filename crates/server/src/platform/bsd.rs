//! What FreeBSD and macOS have in common.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::metrics::workers::{Counters, Syscall, Workers};

/// Limits that a server raises.
pub const RAISED: &[Resource] = &[Resource::Nofile, Resource::Nproc];

/// Whether shutdown(2) of a listener wakes who waits in accept, for good. FreeBSD wakes one, and says so once; macOS wakes
/// nobody. So loops that block wait for the order to stop, too ([`may_accept`]), and their listener must not block: what
/// they waited for may have gone when they accept.
pub const SHUTDOWN_WAKES_ACCEPT: bool = false;

/// Whether a loop that blocks may accept now, or `stop` says that it is over. It waits until either is so, which is
/// counted.
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

/// CPUs that the calling thread may run on: none are said.
pub(crate) fn cpus() -> Vec<usize> {
    Vec::new()
}

/// Refuses: FreeBSD would do it in another way, macOS does not do it at all. Nothing when there are no `cpus`.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "to keep a process on CPUs needs Linux; name none"))
}

/// How a thread takes its turn.
#[derive(Debug)]
pub(crate) enum SchedulingPolicy {}

/// Nobody goes before others here: who asks takes its turn.
pub(crate) fn raise_priority() -> Option<SchedulingPolicy> {
    None
}

/// There is none to go back to.
pub(crate) fn set_scheduling(turn: &SchedulingPolicy) -> bool {
    match *turn {}
}

/// Unknown: only Linux says what part of a process's memory is its own.
pub(crate) fn memory_user_bytes(_workers: &Workers) -> Option<u64> {
    None
}

/// Unknown: only Linux says what the kernel uses for sockets, threads and processes.
pub(crate) fn memory_kernel_bytes() -> Option<u64> {
    None
}

/// Sleeps end when they are over: nothing puts wake-ups together here.
pub(crate) fn set_precise_sleep() {}

/// Unknown: only Linux says it of one socket.
pub(crate) fn dropped(_socket: &OwnedFd) -> Option<u64> {
    None
}

/// No thread that can be asked.
pub(crate) fn serving_threads(_workers: &Workers) -> Vec<(i32, i32)> {
    Vec::new()
}

/// Not told.
pub(crate) fn run_delay(_thread: (i32, i32)) -> Option<(u64, u64)> {
    None
}
