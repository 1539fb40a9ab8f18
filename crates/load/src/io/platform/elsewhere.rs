//! The implementation for FreeBSD and macOS.

use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::io;
use rustix::net::{AddressFamily, SocketType};

use crate::error::LoadError;

/// The largest soft limit of descriptors that setrlimit(2) accepts: OPEN_MAX (sys/syslimits.h) on macOS.
pub const DESCRIPTORS_MAX: Option<u64> = if cfg!(target_os = "macos") { Some(10_240) } else { None };

pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does nothing: these systems do not delay timers, or offer no setting.
pub fn sharpen_timers() {}

pub fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    io::fcntl_setfd(&socket, io::FdFlags::CLOEXEC)?;
    io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Returns `false`: these systems reset connections beyond the listen backlog.
pub fn is_unaccepted(_io: impl AsFd) -> bool {
    false
}

/// Returns 0: unknown.
pub fn dropped_at_backlogs() -> u64 {
    0
}

/// Does nothing: bind(2) chooses the port.
pub fn choose_port_late(_io: &OwnedFd) -> io::Result<()> {
    Ok(())
}

/// A stand-in for the time that a thread waited for a CPU, which these systems do not report.
#[derive(Debug)]
pub struct RunQueue(());

impl RunQueue {
    pub fn of_this_thread() -> Self {
        Self(())
    }

    pub fn waited_ns(&self) -> u64 {
        0
    }
}

/// A stand-in: these systems cannot pin a thread to CPUs.
#[derive(Debug)]
pub struct Pinned(());

impl Pinned {
    pub fn to(cpus: &[usize]) -> Result<Self, LoadError> {
        if cpus.is_empty() {
            return Ok(Self(()));
        }
        Err(LoadError::Config(format!("cpus: cannot pin threads to {cpus:?}: pinning needs Linux; remove the CPUs")))
    }
}
