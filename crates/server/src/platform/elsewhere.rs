//! Common parts of all systems but Linux.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::AddressFamily;
#[cfg(not(target_os = "illumos"))]
use rustix::process::Resource;

use crate::metrics::workers::{Counters, Syscall, Workers};

/// The limits that a server raises.
#[cfg(not(target_os = "illumos"))]
pub const RAISED: &[Resource] = &[Resource::Nofile, Resource::Nproc];

/// Fails: only Linux distributes datagrams over sockets.
pub(crate) fn datagram_socket(_family: AddressFamily) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses: muxbench batches datagrams only on Linux.
pub(crate) fn can_batch_datagrams(_offload: bool) -> Result<(), String> {
    Err("muxbench receives and sends batches of datagrams only on Linux; omit the option".into())
}

/// Fails: only Linux coalesces datagrams.
pub(crate) fn coalesce_datagrams(_socket: &OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has no effect: sleeps are precise on these systems.
pub(crate) fn set_precise_sleep() {}

/// Whether shutdown(2) of a listener ends every accept. FreeBSD wakes one accept, macOS none, illumos is not known. So blocking
/// loops also wait for the stop descriptor ([`may_accept`]). Their listener is non-blocking, because the client may leave between
/// wait and accept.
pub const SHUTDOWN_WAKES_ACCEPT: bool = false;

/// Waits for a connection or the end of the server; returns whether the server continues.
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

/// A number other than 0, because thread ids are not needed: [`thread_cpu_ns`] has no figures.
pub(crate) fn thread_id() -> u32 {
    1
}

pub(crate) fn thread_cpu_ns(_thread: u32) -> Option<u64> {
    None
}

/// The CPUs that the calling thread may run on; empty, because they are unknown.
pub fn cpus() -> Vec<usize> {
    Vec::new()
}

/// Fails unless `cpus` is empty: pinning is implemented for Linux only.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "pinning needs Linux; omit the CPUs"))
}

/// A thread's scheduling policy. It has no values, because it is never changed on these systems.
#[derive(Debug)]
pub(crate) enum SchedulingPolicy {}

pub(crate) fn raise_priority() -> Option<SchedulingPolicy> {
    None
}

pub(crate) fn set_scheduling(scheduling: &SchedulingPolicy) -> bool {
    match *scheduling {}
}

// Only Linux reports the following figures.

pub(crate) fn memory_user_bytes(_workers: &Workers) -> Option<u64> {
    None
}

pub(crate) fn memory_kernel_bytes() -> Option<u64> {
    None
}

pub(crate) fn dropped(_socket: &OwnedFd) -> Option<u64> {
    None
}

pub(crate) fn serving_threads(_workers: &Workers) -> Vec<(i32, i32)> {
    Vec::new()
}

pub(crate) fn run_delay(_thread: (i32, i32)) -> Option<(u64, u64)> {
    None
}
