//! A host of a testbed: a network namespace with the kernel parameters of this machine.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::Context;

use super::addresses;
use super::namespace::Namespace;

/// The kernel parameters that a host copies from this machine: folders below /proc/sys, and prefixes of file names.
const COPIED: &[(&str, &[&str])] =
    &[("net/core", &["somaxconn", "optmem_max", "rmem_", "wmem_"]), ("net/ipv4", &["tcp_", "udp_", "ip_local_"])];
/// Fixed kernel parameters. The first lets a host reuse ports in TIME_WAIT; its default allows this only over loopback. The
/// others discard TCP metrics of earlier trials, and allow IPv6 connections from all of a host's addresses.
const FIXED: &[(&str, &str)] =
    &[("net/ipv4/tcp_tw_reuse", "1"), ("net/ipv4/tcp_no_metrics_save", "1"), ("net/ipv6/ip_nonlocal_bind", "1")];

/// A host of a testbed. Its processes see no other network.
#[derive(Clone, Debug)]
pub struct TestbedHost {
    /// The server's host has the number 0.
    pub(super) number: u32,
    pub(super) namespace: Namespace,
}

impl TestbedHost {
    pub(super) fn new(number: u32, settings: &[(String, String)]) -> anyhow::Result<Self> {
        let namespace = Namespace::new().context("cannot create a network namespace; run as root")?;
        let set = || {
            for (path, value) in settings {
                // A parameter that all namespaces share does not exist in a new one.
                if std::fs::read_to_string(path).is_ok_and(|it| it.trim() != value) {
                    let _ = std::fs::write(path, value);
                }
            }
        };
        namespace.within(set).context("cannot set the kernel parameters of a host")?;
        for (name, value) in FIXED {
            let _ = namespace.set(name, value);
        }
        Ok(Self { number, namespace })
    }

    /// Makes `command` run on this host.
    pub fn enter(&self, command: &mut Command) {
        self.namespace.enter(command);
    }

    /// Starts a command on this host. The kernel kills the command when this process ends.
    pub fn spawn(&self, command: Command) -> std::io::Result<std::process::Child> {
        self.namespace.spawn(command)
    }

    /// The source addresses on this host that correspond to `of_first`, those of the first client host.
    pub fn sources(&self, of_first: &[IpAddr]) -> Vec<IpAddr> {
        addresses::sources_of(self.number, of_first)
    }
}

/// The copied kernel parameters of this machine: paths below /proc/sys, and values.
pub(super) fn settings() -> Vec<(String, String)> {
    // The key of TCP Fast Open is a secret.
    let is_copied = |name: &str| !name.ends_with("fastopen_key") && FIXED.iter().all(|(fixed, _)| *fixed != name);
    let mut settings = Vec::new();
    for (folder, prefixes) in COPIED {
        let entries = std::fs::read_dir(format!("/proc/sys/{folder}")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        for name in names.map(|name| format!("{folder}/{name}")).filter(|name| is_copied(name)) {
            let path = format!("/proc/sys/{name}");
            let is_writable = std::fs::metadata(&path).is_ok_and(|file| file.mode() & 0o200 != 0);
            if let Some(value) = is_writable.then(|| std::fs::read_to_string(&path).ok()).flatten() {
                settings.push((path, value.trim().to_owned()));
            }
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_copies_the_kernel_parameters_of_its_creator() {
        let outer = match Namespace::new() {
            Ok(outer) => outer,
            Err(error) => {
                server::skipped::skipped(&format!("network namespaces: {error}"));
                return;
            }
        };
        let tuned =
            [("tcp_rmem", "8192\t100000\t2000000"), ("tcp_slow_start_after_idle", "0"), ("tcp_notsent_lowat", "16384")];
        for (name, value) in tuned {
            outer.set(&format!("net/ipv4/{name}"), value).unwrap();
        }
        let (settings, host) = outer.within(|| (settings(), TestbedHost::new(1, &settings()).unwrap())).unwrap();
        let there = |path: String| host.namespace.within(|| std::fs::read_to_string(path)).unwrap();
        for (name, value) in tuned {
            let path = format!("/proc/sys/net/ipv4/{name}");
            assert!(settings.contains(&(path.clone(), value.to_owned())), "{settings:?}");
            assert_eq!(there(path).unwrap().trim(), value);
        }
        assert!(settings.len() > 50, "{settings:?}");
        for (path, value) in settings {
            // The host lacks parameters that all namespaces share.
            assert!(there(path.clone()).map_or(true, |it| it.trim() == value), "{path}");
        }
        for (name, value) in FIXED {
            assert!(there(format!("/proc/sys/{name}")).map_or(true, |it| it.trim() == *value), "{name}");
        }
    }
}
