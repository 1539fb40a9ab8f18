//! Targets: servers that already run. muxbench knows the address of a target and, if the user names it, its process.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Pid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Address, Ports};

use crate::socket::unix;

/// The prefix of the URL of a datagram service, which accepts no connections.
const DATAGRAMS: &str = "udp:";
/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A server that muxbench neither starts nor ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetConfig {
    /// The URL that the user wrote.
    pub url: String,
    /// The address to connect to.
    pub address: Address,
    /// Further addresses of the URL's host. The connections use them and `address` in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<SocketAddr>,
    /// All ports of a datagram service; `None` for consecutive ports, and for other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// The server's process on this host, whose descendants belong to it; `None` if muxbench does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The CPUs that this process may use; empty without a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
}

impl TargetConfig {
    /// Checks that the server accepts connections, and that its process exists. The error has a remedy.
    pub fn check(&self) -> Result<(), String> {
        self.check_address().and_then(|()| self.check_process())
    }

    /// Checks that the server accepts connections.
    pub fn check_address(&self) -> Result<(), String> {
        if self.url.starts_with(DATAGRAMS) {
            return Ok(());
        }
        self.addresses().try_for_each(|address| {
            reach(&address).map_err(|error| format!("cannot connect to {address}: {error}; {}", remedy(&error)))
        })
    }

    /// All addresses of the server.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        std::iter::once(self.address.clone()).chain(self.others.iter().map(|other| Address::Ip(*other)))
    }

    /// Checks that the server's process exists, if it is known.
    pub fn check_process(&self) -> Result<(), String> {
        self.pid.map_or(Ok(()), |pid| cpus_of(pid).map(drop))
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "all local ports are in use: wait until earlier connections leave TIME_WAIT (ss -s), or widen net.ipv4.ip_local_port_range"
        }
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "correct the address, or check the network and the firewalls on the way"
        }
        io::ErrorKind::PermissionDenied => "let this user connect, or check the firewall of this host",
        _ if Errno::from_io_error(error) == Some(Errno::MFILE) => "raise the limit of descriptors (ulimit -n)",
        _ => "start the server, or correct the address",
    }
}

/// Connects to a server and closes the connection.
pub fn reach(address: &Address) -> io::Result<()> {
    match address {
        Address::Ip(address) => TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map(drop),
        Address::Unix(path) => match unix::is_listening(path) {
            Ok(false) => Err(Errno::CONNREFUSED.into()),
            listens => listens.map(drop),
        },
    }
}

/// Returns the CPUs that a process may use; none except on Linux. If the process does not exist, the error has a remedy.
pub fn cpus_of(pid: i32) -> Result<Vec<usize>, String> {
    allowed_cpus(pid).ok_or_else(|| format!("no process of this host has the ID {pid}; name the server's process"))
}

#[cfg(target_os = "linux")]
fn allowed_cpus(pid: i32) -> Option<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let set = sched_getaffinity(Some(Pid::from_raw(pid)?)).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed_cpus(pid: i32) -> Option<Vec<usize>> {
    rustix::process::test_kill_process(Pid::from_raw(pid)?).ok().map(|()| Vec::new())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net;

    use super::*;

    #[test]
    fn target_must_accept_connections_and_its_process_exist() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let target = |pid| {
            let url = format!("tcp://{address}");
            TargetConfig { url, address: address.clone(), others: Vec::new(), ports: None, pid, cpus: Vec::new() }
        };
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!((target(None).check(), target(Some(own)).check()), (Ok(()), Ok(())));
        let error = target(Some(i32::MAX)).check().unwrap_err();
        assert!(error.contains("no process of this host has the ID 2147483647"), "{error}");
        // A bound socket that does not listen keeps its port from other tests.
        let silent = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let closed = Address::from(SocketAddr::try_from(net::getsockname(&silent).unwrap()).unwrap());
        let error = TargetConfig { address: closed.clone(), ..target(None) }.check().unwrap_err();
        assert!(error.contains(&format!("cannot connect to {closed}: ")) && error.contains("start the"), "{error}");
        let datagrams = TargetConfig { url: format!("udp://{address}"), ..target(None) };
        assert_eq!(datagrams.check(), Ok(()), "a datagram service accepts no connections");
        let missing = TargetConfig { address: Address::Unix("/nonexistent/socket".into()), ..target(None) };
        assert!(missing.check().unwrap_err().contains("cannot connect to unix:/nonexistent/socket"));
    }
}
