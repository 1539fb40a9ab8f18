//! A worker's description of itself for the first worker.

use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::host;

use super::message::Hello;
use super::secret::Nonce;

pub(super) fn hello(rank: u32, ranks: u32, nonce: Nonce) -> Hello {
    let (cpus, cpus_of_host) = usable_cpus();
    Hello { rank, ranks, host: host_name(), machine: machine_id(), network: network_id(), cpus, cpus_of_host, nonce }
}

pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// An identifier that all processes of one machine share, even if they see different host names and addresses.
pub(super) fn machine_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| host_name(), |id| id.trim().to_owned())
}

/// An identifier that all processes of one network namespace share. These processes also share addresses and ports.
pub(super) fn network_id() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |it| it.ino())
}

/// The CPUs that this process may use, and the number of CPUs of its host; 0 if unknown.
pub(super) fn usable_cpus() -> (Vec<usize>, u32) {
    let host = host::detect();
    (host.cores.concat(), host.cpus_online().unwrap_or(0) as u32)
}
