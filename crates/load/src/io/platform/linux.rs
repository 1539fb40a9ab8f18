//! Linux.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::CpuSet;

use crate::error::LoadError;

/// The most that the soft limit of descriptors may be where the hard one is higher, or there is none.
pub const DESCRIPTORS_MAX: Option<u64> = None;

/// How many CPUs there are for the calling thread.
pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Has timers of the calling thread, and of those that it starts, be as exact as they can. By default one may be 50 µs
/// late, so that wake-ups can be put together.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// A stream's socket that does not block.
pub fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Has the port of a socket that is bound to an address without one be chosen by connect(2) (ip(7),
/// IP_BIND_ADDRESS_NO_PORT): bind(2) would take one that is free towards everybody.
pub fn choose_port_late(io: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the option's value is the integer that is pointed to, with its size.
    let result = unsafe {
        let option = libc::IP_BIND_ADDRESS_NO_PORT;
        libc::setsockopt(io.as_raw_fd(), libc::IPPROTO_IP, option, (&raw const on).cast(), length)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(io::Errno::IO))
    }
}

/// How long a thread waited for a CPU (proc_pid_schedstat(5)). The file is opened ahead, for it is read while requests are timed.
#[derive(Debug)]
pub struct RunQueue(Option<File>);

impl RunQueue {
    /// Opens that of the calling thread.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// So far, in nanoseconds; 0 where the kernel does not say.
    pub fn waited_ns(&self) -> u64 {
        let mut text = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = read.and_then(|count| std::str::from_utf8(&text[..count]).ok());
        text.and_then(|text| text.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    }
}

/// Keeps the calling thread on some CPUs while it lives. A thread that is started meanwhile inherits them and keeps
/// them, so a CPU that cannot be had is an error before anything has started.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    /// To `cpus`; to none in particular when it is empty.
    ///
    /// # Errors
    /// When there is no such CPU, or it is not ours to use.
    pub fn to(cpus: &[usize]) -> Result<Self, LoadError> {
        if cpus.is_empty() {
            return Ok(Self(None));
        }
        let failed = |error: &dyn std::fmt::Display| {
            LoadError::Config(format!("cpus: cannot run on {cpus:?} ({error}); name CPUs that this process may use"))
        };
        let mut set = CpuSet::new();
        for &cpu in cpus {
            if cpu >= CpuSet::MAX_CPU {
                return Err(failed(&format_args!("the highest number is {}", CpuSet::MAX_CPU - 1)));
            }
            set.set(cpu);
        }
        let before = rustix::thread::sched_getaffinity(None).map_err(|error| failed(&error))?;
        rustix::thread::sched_setaffinity(None, &set).map_err(|error| failed(&error))?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was allowed before; if it no longer is, there is nothing better to do than to stay.
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Vec<usize> {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    }

    #[test]
    fn thread_inherits_the_cpus_of_its_parent() {
        let before = mine();
        let last = *before.last().unwrap();
        let inherited = {
            let _pinned = Pinned::to(&[last]).unwrap();
            assert_eq!(mine(), [last]);
            std::thread::spawn(mine)
        };
        assert_eq!(mine(), before);
        assert_eq!(inherited.join().unwrap(), [last]);
    }

    #[test]
    fn missing_cpu_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, usize::MAX] {
            let error = Pinned::to(&[cpu]).unwrap_err().to_string();
            assert!(error.starts_with("cpus: cannot run on"), "{error}");
        }
    }
}
