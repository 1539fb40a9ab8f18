//! The addresses of the first worker.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;
use std::time::{Duration, Instant};

use harness::spec::transport::Transport;

use super::launcher::Membership;

/// The interval at which names are resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// The addresses to which the first worker's names currently resolve.
pub(super) struct Addresses<'a> {
    membership: &'a Membership,
    known: Vec<SocketAddr>,
    /// Addresses of Slurm nodes, which never change.
    nodes: BTreeMap<&'a str, String>,
    resolved: Option<Instant>,
}

impl<'a> Addresses<'a> {
    pub(super) fn new(membership: &'a Membership) -> Self {
        Self { membership, known: Vec::new(), nodes: BTreeMap::new(), resolved: None }
    }

    /// The current addresses, with the transport's family first. `slurm_address` returns the address of a Slurm node.
    pub(super) fn at(&mut self, now: Instant, slurm_address: &mut dyn FnMut(&str) -> Option<String>) -> &[SocketAddr] {
        if self.resolved.is_some_and(|before| now < before + RESOLVE_INTERVAL) {
            return &self.known;
        }
        self.resolved = Some(now);
        let membership = self.membership;
        let resolve = |host: &str| (host, membership.port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let mut addresses = Vec::new();
        for host in &membership.hosts {
            if let Ok(found) = resolve(host) {
                addresses.extend(found);
            } else if membership.launcher == "Slurm" {
                // The name of a Slurm node may be unknown to the resolver.
                if !self.nodes.contains_key(host.as_str()) {
                    self.nodes.extend(slurm_address(host).map(|address| (host.as_str(), address)));
                }
                addresses.extend(self.nodes.get(host.as_str()).and_then(|it| resolve(it).ok()).unwrap_or_default());
            }
        }
        addresses.sort_by_key(|address| match membership.transport {
            Some(Transport::Tcp) => address.is_ipv6(),
            Some(Transport::Tcp6) => address.is_ipv4(),
            Some(Transport::Unix) | None => false,
        });
        self.known = addresses;
        &self.known
    }
}

/// The address of a node according to Slurm.
pub(super) fn slurm_address(name: &str) -> Option<String> {
    let output = Command::new("scontrol").args(["show", "node", "--oneliner", name]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().find_map(|word| word.strip_prefix("NodeAddr=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::workers::tests::membership;
    use super::*;

    #[test]
    fn addresses_of_the_transports_family_come_first() {
        let hosts = ["192.0.2.2", "10.0.0.1", "fd00::2"].map(str::to_owned).to_vec();
        let order = |transport| {
            let membership = Membership { transport, hosts: hosts.clone(), ..membership(1, 1, "open sesame") };
            let mut addresses = Addresses::new(&membership);
            addresses.at(Instant::now(), &mut |_| None).iter().map(|it| it.ip().to_string()).collect::<Vec<_>>()
        };
        for transport in [None, Some(Transport::Tcp), Some(Transport::Unix)] {
            assert_eq!(order(transport), hosts);
        }
        assert_eq!(order(Some(Transport::Tcp6)), ["fd00::2", "192.0.2.2", "10.0.0.1"]);
    }

    #[test]
    fn slurm_is_queried_each_second_until_it_answers() {
        // No resolver accepts this name.
        let hosts = vec!["node\0".to_owned()];
        let membership = Membership { launcher: "Slurm", hosts, ..membership(1, 7, "open sesame") };
        let (started, mut addresses) = (Instant::now(), Addresses::new(&membership));
        let mut queried_ms = Vec::new();
        for ms in (0..10_000).step_by(100) {
            let found = addresses.at(started + Duration::from_millis(ms), &mut |node| {
                assert_eq!(node, "node\0");
                queried_ms.push(ms);
                (queried_ms.len() == 3).then(|| "192.0.2.7".to_owned())
            });
            let expected = [SocketAddr::from(([192, 0, 2, 7], 7))];
            assert_eq!(found, if ms < 2_000 { &[][..] } else { &expected }, "{ms}");
        }
        assert_eq!(queried_ms, [0, 1_000, 2_000]);
    }
}
