//! A process that forwards packets between the hosts of a testbed ([`forward`](super::forward)), for kernels without netem.
//!
//! Every host has a TUN device, whose other end the relay holds. The measurement before each trial includes the relay's lateness,
//! and the relay reports it after the trial.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use super::forward::{Conditions, RelayCounts, forward};
use super::interface::DEVICE;
use super::namespace::Namespace;

/// The configuration of a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayConfig {
    /// The paths of the hosts' namespaces, by host number.
    pub hosts: Vec<String>,
    /// The conditions of the network.
    pub conditions: Conditions,
    /// The CPUs to run on; all if empty.
    pub cpus: Vec<usize>,
}

/// An event that the relay sends to its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RelayEvent {
    /// The devices exist.
    Ready,
    /// The answer to a line from the parent.
    Counts {
        /// The counts since the last answer.
        counts: RelayCounts,
    },
    /// The relay has failed.
    Failed {
        /// Cause, place, remedy.
        reason: String,
    },
}

/// Creates a TUN device in a host. The device exists as long as the returned descriptor.
pub(crate) fn open_tun(host: &Namespace, device: &str) -> io::Result<OwnedFd> {
    host.within(|| {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        // SAFETY: all bits zero are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte remains 0 and ends the name.
        for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF takes an `ifreq`, which outlives the call.
        match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
            0 => Ok(tun),
            _ => Err(io::Error::last_os_error()),
        }
    })?
}

/// Forwards packets until `input` ends. Answers each line of `input` with [`RelayEvent::Counts`].
pub fn run(config: &RelayConfig, input: BorrowedFd<'_>, send: &mut dyn FnMut(RelayEvent)) -> anyhow::Result<()> {
    set_scheduling(&config.cpus)?;
    let mut devices = Vec::new();
    for path in &config.hosts {
        let host = Namespace::open(path).with_context(|| format!("cannot open the host {path}"))?;
        devices.push(open_tun(&host, DEVICE).context("cannot create a TUN device")?);
    }
    send(RelayEvent::Ready);
    let mut answer = |counts| send(RelayEvent::Counts { counts });
    forward(&devices, config.conditions, input, &mut answer).context("cannot read from a TUN device")
}

/// Moves this process to `cpus`, and gives it priority over server and clients. Otherwise its delays would look like theirs.
fn set_scheduling(cpus: &[usize]) -> anyhow::Result<()> {
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
        rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPUs {cpus:?}"))?;
    }
    let priority: libc::c_int = 1;
    // SAFETY: 0 is the calling process, and `priority` outlives the call. Without the permission the relay runs with normal
    // priority, and the measurements include the effect. musl's function for this only fails.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) };
    Ok(())
}
