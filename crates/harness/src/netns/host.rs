//! A host of a testbed: a network namespace tuned as this machine is.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::Context;

use super::addresses::{self, address};
use super::namespace::Namespace;
use crate::spec::transport::Transport;

/// What a host has as this one, as far as the kernel has it for each: how it is tuned. Folders, and beginnings of names.
const AS_HERE: &[(&str, &[&str])] =
    &[("net/core", &["somaxconn", "optmem_max", "rmem_", "wmem_"]), ("net/ipv4", &["tcp_", "udp_", "ip_local_"])];
/// No setting, but a secret.
const FASTOPEN_KEY: &str = "net/ipv4/tcp_fastopen_key";
/// What is set in hosts. Ports are used again as soon as over loopback, where 2 is enough; a trial learns nothing from the
/// one before; connections over IPv6 may come from any address of the host's block.
const SET: &[(&str, &str)] =
    &[("net/ipv4/tcp_tw_reuse", "1"), ("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv6/ip_nonlocal_bind", "1")];

/// One host: what runs in it sees no other network.
#[derive(Clone, Debug)]
pub struct TestbedHost {
    pub(super) number: u32,
    pub(super) namespace: Namespace,
}

impl TestbedHost {
    pub(super) fn new(number: u32, settings: &[(String, String)]) -> anyhow::Result<Self> {
        let namespace = Namespace::new().context("the kernel allows no hosts of their own; run as root")?;
        let set = || {
            for (path, value) in settings {
                // What is not there the kernel has for all hosts at once.
                if std::fs::read_to_string(path).is_ok_and(|it| it.trim() != value) {
                    let _ = std::fs::write(path, value);
                }
            }
        };
        namespace.within(set).context("a host's settings")?;
        for (name, value) in SET {
            let _ = namespace.set(name, value);
        }
        Ok(Self { number, namespace })
    }

    /// Has a process run in it.
    pub fn enter(&self, command: &mut Command) {
        self.namespace.enter(command);
    }

    /// Starts a command in it, which ends when the thread that started it does.
    ///
    /// # Errors
    /// As execve(2) and setns(2) have them.
    pub fn spawn(&self, command: Command) -> std::io::Result<std::process::Child> {
        self.namespace.spawn(command)
    }

    /// Does something in it.
    ///
    /// # Errors
    /// As setns(2) has them.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
        self.namespace.within(work)
    }

    /// Its number: the server's is 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its first address.
    pub fn address(&self, transport: Transport) -> IpAddr {
        address(self.number, transport == Transport::Tcp6, 1)
    }

    /// The same addresses as of the first client's host, here.
    pub fn sources(&self, of_the_first: &[IpAddr]) -> Vec<IpAddr> {
        addresses::sources_of(self.number, of_the_first)
    }
}

/// Files of /proc/sys by which this host is tuned, and what is in them.
pub(super) fn settings() -> Vec<(String, String)> {
    let is_set = |name: &str| name == FASTOPEN_KEY || SET.iter().any(|(set, _)| *set == name);
    let of = |(folder, beginnings): &(&str, &[&str])| -> Vec<(String, String)> {
        let entries = std::fs::read_dir(format!("/proc/sys/{folder}")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| beginnings.iter().any(|beginning| name.starts_with(beginning)));
        let paths = names.map(|name| format!("{folder}/{name}")).filter(|name| !is_set(name));
        let is_writable = |path: &String| std::fs::metadata(path).is_ok_and(|it| it.mode() & 0o200 != 0);
        let paths = paths.map(|name| format!("/proc/sys/{name}")).filter(is_writable);
        let found = paths.filter_map(|path| {
            let value = std::fs::read_to_string(&path).ok()?;
            Some((path, value.trim().to_owned()))
        });
        found.collect()
    };
    AS_HERE.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_tuned_as_the_one_it_is_made_on() {
        let outer = match Namespace::new() {
            Ok(outer) => outer,
            Err(error) => {
                server::skipped::skipped(&format!("hosts: {error}"));
                return;
            }
        };
        let tuned =
            [("tcp_rmem", "8192\t100000\t2000000"), ("tcp_slow_start_after_idle", "0"), ("tcp_notsent_lowat", "16384")];
        for (name, value) in tuned {
            outer.set(&format!("net/ipv4/{name}"), value).unwrap();
        }
        let (settings, host) = outer.within(|| (settings(), TestbedHost::new(1, &settings()).unwrap())).unwrap();
        let there = |path: String| host.within(|| std::fs::read_to_string(path)).unwrap();
        for (name, value) in tuned {
            let path = format!("/proc/sys/net/ipv4/{name}");
            assert!(settings.contains(&(path.clone(), value.to_owned())), "{settings:?}");
            assert_eq!(there(path).unwrap().trim(), value);
        }
        assert!(settings.len() > 50, "{settings:?}");
        for (path, value) in settings {
            // What is of all hosts is not to be seen there.
            assert!(there(path.clone()).map_or(true, |it| it.trim() == value), "{path}");
        }
        for (name, value) in SET {
            assert!(there(format!("/proc/sys/{name}")).map_or(true, |it| it.trim() == *value), "{name}");
        }
    }
}
