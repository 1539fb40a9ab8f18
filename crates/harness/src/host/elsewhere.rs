//! Facts and limits of FreeBSD and macOS hosts. Facts that only Linux has are absent. Processes cannot be placed on
//! CPUs.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr;

use rustix::process::{Resource, getrlimit};

use super::Host;

/// The name of the physical memory in sysctl(3).
const MEMORY: &CStr = if cfg!(target_os = "macos") { c"hw.memsize" } else { c"hw.physmem" };

/// Reads the facts and limits of this host.
pub fn detect() -> Host {
    let descriptors_max = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let tasks_max = getrlimit(Resource::Nproc).maximum.unwrap_or(u64::MAX);
    let ports = (number(c"net.inet.ip.portrange.first"), number(c"net.inet.ip.portrange.last"));
    Host {
        cores: Vec::new(),
        descriptors_max: server::platform::DESCRIPTORS_MAX.map_or(descriptors_max, |most| most.min(descriptors_max)),
        tasks_max: (tasks_max, "the limit of processes (ulimit -Hu)".to_owned()),
        // These systems do not limit the number of mappings.
        mappings_max: u64::MAX,
        ports: match ports {
            (Some(first), Some(last)) => last.abs_diff(first) + 1,
            // An unknown range is no limit. A connection without a free port fails with its own error.
            _ => u64::MAX,
        },
        memory_bytes: number(MEMORY).unwrap_or(u64::MAX),
        fleet: None,
        facts: facts(),
    }
}

fn facts() -> BTreeMap<String, String> {
    let limit = |resource| getrlimit(resource).maximum.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let uname = rustix::system::uname();
    let facts = [
        ("system", Some(uname.sysname().to_string_lossy().into_owned())),
        ("kernel", Some(format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy()))),
        ("machine", Some(uname.machine().to_string_lossy().into_owned())),
        ("host name", Some(uname.nodename().to_string_lossy().into_owned())),
        ("cpus", number(c"hw.ncpu").map(|cpus| cpus.to_string())),
        ("memory bytes", number(MEMORY).map(|bytes| bytes.to_string())),
        ("descriptors max", Some(limit(Resource::Nofile))),
        ("processes max", Some(limit(Resource::Nproc))),
        ("network", Some("loopback: requests and responses do not pass a network interface".to_owned())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Reads an integer of 32 or 64 bits by sysctl(3).
fn number(name: &CStr) -> Option<u64> {
    let mut value = [0u8; 8];
    let mut bytes = value.len();
    // SAFETY: the kernel writes at most `bytes` bytes into `value`, and the number of bytes that it wrote into `bytes`.
    let result =
        unsafe { libc::sysctlbyname(name.as_ptr(), value.as_mut_ptr().cast(), &raw mut bytes, ptr::null_mut(), 0) };
    match (result, bytes) {
        // Both systems are little-endian.
        (0, 4 | 8) => Some(u64::from_le_bytes(value)),
        _ => None,
    }
}
