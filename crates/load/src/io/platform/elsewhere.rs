//! FreeBSD and macOS.

use std::os::fd::OwnedFd;
use std::thread;

use rustix::io;
use rustix::net::{AddressFamily, SocketType};

use crate::error::LoadError;

/// The most that the soft limit of descriptors may be where the hard one is higher, or there is none. On macOS setrlimit(2)
/// takes no more than OPEN_MAX (sys/syslimits.h).
pub const DESCRIPTORS_MAX: Option<u64> = if cfg!(target_os = "macos") { Some(10_240) } else { None };

/// How many CPUs there are for the calling thread.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Nothing: timers are not made coarser than they are here, or nobody can tell them not to be.
pub fn sharpen_timers() {}

/// A stream's socket that does not block.
pub fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    io::fcntl_setfd(&socket, io::FdFlags::CLOEXEC)?;
    io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Nothing: bind(2) chooses the port here.
pub fn choose_port_late(_io: &OwnedFd) -> io::Result<()> {
    Ok(())
}

/// Stands for how long a thread waited for a CPU: nobody says.
#[derive(Debug)]
pub struct RunQueue(());

impl RunQueue {
    /// Stands for that of the calling thread.
    pub fn of_this_thread() -> Self {
        Self(())
    }

    /// Not known.
    pub fn waited_ns(&self) -> u64 {
        0
    }
}

/// Stands for a thread that runs where the system likes: it cannot be told.
#[derive(Debug)]
pub struct Pinned(());

impl Pinned {
    /// To none in particular.
    ///
    /// # Errors
    /// When `cpus` is not empty.
    pub fn to(cpus: &[usize]) -> Result<Self, LoadError> {
        if cpus.is_empty() {
            return Ok(Self(()));
        }
        Err(LoadError::Config(format!("cpus: cannot run on {cpus:?}: to keep threads on CPUs needs Linux; name none")))
    }
}
