//! The network interface of a testbed's host: its setup and its counters.

use std::io;
use std::path::Path;

use super::addresses::address;
use super::namespace::Namespace;
use crate::network::Network;
use crate::record::{Applied, Links};

/// The name of each host's interface.
pub(super) const DEVICE: &str = "eth0";
/// For IPv4 and IPv6 (`true`): the prefix length of the testbed, and that of one host's block of addresses.
const BITS: [(bool, u32, u32); 2] = [(false, 15, 24), (true, 32, 64)];
/// The length of a host's queue to the relay, in packets. It can hold a burst of many connections.
const RELAY_QUEUE_PACKETS: u32 = 10_000;

/// The columns of /proc/net/dev with the received bytes, including headers, and the packets dropped from a full send queue.
pub(super) const RECEIVED_BYTES: usize = 0;
pub(super) const SENT_DROPPED: usize = 11;

/// The counter in a column of /proc/net/dev for a host's interface.
pub(super) fn counter(host: &Namespace, column: usize) -> io::Result<u64> {
    let text = host.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let line = text.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    let counter = line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok());
    counter.ok_or_else(|| io::Error::other("/proc/net/dev has no counters for the interface of a host"))
}

/// The commands for ip(8) that set up the interface of host `number`: its addresses and its routes.
pub(super) fn commands(number: u32, network: &Network, applied: &Applied) -> String {
    let mut lines = "link set lo up\n".to_owned();
    if network.loss.is_some() && applied.links == Links::Veth {
        // Disable GSO: with it, a veth device passes many packets as one, so one loss drops them all.
        lines += &format!("link set dev {DEVICE} gso_max_segs 1\n");
    }
    if applied.links == Links::Tun {
        lines += &format!("link set dev {DEVICE} txqueuelen {RELAY_QUEUE_PACKETS}\n");
    }
    lines += &format!("link set dev {DEVICE} up\n");
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    for (is_v6, shared, own) in BITS {
        if is_v6 && !has_v6 {
            continue;
        }
        let first = address(number, is_v6, 1);
        // Skip duplicate address detection, which delays the use of an address. Each host has its own addresses.
        let nodad = if is_v6 { " nodad" } else { "" };
        lines += &format!("addr add {first}/{shared} dev {DEVICE}{nodad}\n");
        // Accept packets for every address of the host's block.
        lines += &format!("route add local {}/{own} dev lo\n", address(number, is_v6, 0));
        if is_v6 && applied.links == Links::Veth {
            // A host answers ARP for its whole block, but neighbour discovery only for its first address.
            let others = (0..=network.clients.get()).filter(|other| *other != number);
            for other in others.filter(|other| number == 0 || *other == 0) {
                let (block, by) = (address(other, true, 0), address(other, true, 1));
                lines += &format!("route add {block}/{own} via {by} dev {DEVICE} onlink\n");
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_commands_add_addresses_and_routes() {
        let network: Network = "lab:clients=2".parse().unwrap();
        let lossy = Network { loss: Some(wire::units::Loss(0.5)), ..network.clone() };
        let applied = |links| Applied { links, delay: None, loss: None, bandwidth: None };
        insta::assert_snapshot!(format!(
            "server, veth\n{}\nclient 2, veth, loss\n{}\nclient 1, TUN\n{}",
            commands(0, &network, &applied(Links::Veth)),
            commands(2, &lossy, &applied(Links::Veth)),
            commands(1, &network, &applied(Links::Tun)),
        ));
    }
}
