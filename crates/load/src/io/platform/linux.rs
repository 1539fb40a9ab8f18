//! The Linux implementation.

use std::fs::File;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::io;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::CpuSet;

use crate::error::LoadError;

/// The largest soft limit of descriptors; on Linux, the hard limit is the only limit.
pub const DESCRIPTORS_MAX: Option<u64> = None;

pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Sets the highest timer precision for this thread and threads that it starts later. By default, timers are up to 50 µs late.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
}

pub fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

/// Delays the choice of a local port to connect(2), because bind(2) would need a port that is free for all targets.
pub fn choose_port_late(io: &OwnedFd) -> io::Result<()> {
    set_option(io, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

pub fn set_option(io: impl AsFd, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and the length describe the option's integer.
    match unsafe { libc::setsockopt(io.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), length) } {
        0 => Ok(()),
        _ => Err(io::Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(io::Errno::IO)),
    }
}

/// Whether the peer's kernel has not acknowledged the connection, or a request on it, so that this kernel has sent it again. A full
/// listen backlog drops both.
pub fn is_unaccepted(io: impl AsFd) -> bool {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = io.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length describe memory for the option, and zeros are a valid value of it.
    let (result, info) = unsafe {
        let result = libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length);
        (result, info.assume_init())
    };
    result == 0 && info.tcpi_retransmits > 0
}

/// Returns how many connections this kernel has dropped because a listen backlog was full (`ListenOverflows`); 0 if unknown.
pub fn dropped_at_backlogs() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:")).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let found = names.zip(values).find(|(name, _)| *name == "ListenOverflows");
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// The time that a thread waited for a CPU (proc_pid_schedstat(5)). The file is opened once, before the window.
#[derive(Debug)]
pub struct RunQueue(Option<File>);

impl RunQueue {
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Returns the total in nanoseconds; 0 if unknown.
    pub fn waited_ns(&self) -> u64 {
        let mut text = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = read.and_then(|count| std::str::from_utf8(&text[..count]).ok());
        text.and_then(|text| text.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    }
}

/// Keeps the calling thread on some CPUs until dropped. Threads started meanwhile inherit and keep the CPUs.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    pub fn to(cpus: &[usize]) -> Result<Self, LoadError> {
        if cpus.is_empty() {
            return Ok(Self(None));
        }
        let failed = |error: &dyn std::fmt::Display| {
            LoadError::Config(format!("cpus: cannot run on {cpus:?}: {error}; name CPUs that this process may use"))
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
            // The old CPUs were allowed before. If they no longer are, keep the current ones.
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
