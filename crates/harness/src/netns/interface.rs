//! The interface of a testbed's host: how it is set up, and what the kernel counts of it.

use std::io;
use std::path::Path;

use super::addresses::address;
use super::namespace::Namespace;
use crate::model::network::{Applied, Links};
use crate::spec::network::Network;

/// What a host's interface is called.
pub(super) const DEVICE: &str = "eth0";
/// The bits of an address that all hosts share, of IPv4 and of IPv6...
const SHARED_BITS: [u32; 2] = [15, 32];
/// ...and those that all addresses of one host do.
const HOST_BITS: [u32; 2] = [24, 64];
/// Packets that may wait for the relay; a burst of many connections is not lost there.
const RELAY_QUEUE_PACKETS: u32 = 10_000;
/// What the kernel has counted of a host's interface.
pub(super) struct InterfaceCounters {
    /// Bytes that came, headers included.
    pub(super) received_bytes: u64,
    /// Packets that its device did not take.
    pub(super) sent_dropped: u64,
}

impl InterfaceCounters {
    /// As it is now.
    pub(super) fn read(host: &Namespace) -> io::Result<Self> {
        let text = host.within(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let line = text.lines().find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
        // Eight numbers of what came, of which the first is bytes, then as many of what was sent, of which the fourth is drops.
        let number = |at: usize| line?.split_whitespace().nth(at)?.parse().ok();
        let counted = || Some(Self { received_bytes: number(0)?, sent_dropped: number(11)? });
        counted().ok_or_else(|| io::Error::other("the kernel does not count what a host receives and sends"))
    }
}

/// What ip(8) is told of a host's interface: its addresses, and how others are reached.
pub(super) fn commands(number: u32, network: &Network, applied: &Applied) -> String {
    let mut lines = "link set lo up\n".to_owned();
    if network.loss.is_some() && applied.links == Links::Veth {
        // Each packet is lost by itself, and not the many that a veth device would take as one.
        lines += &format!("link set dev {DEVICE} gso_max_segs 1\n");
    }
    if applied.links == Links::Tun {
        lines += &format!("link set dev {DEVICE} txqueuelen {RELAY_QUEUE_PACKETS}\n");
    }
    lines += &format!("link set dev {DEVICE} up\n");
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    for (is_v6, shared, own) in [(false, SHARED_BITS[0], HOST_BITS[0]), (true, SHARED_BITS[1], HOST_BITS[1])] {
        if is_v6 && !has_v6 {
            continue;
        }
        let first = address(number, is_v6, 1);
        // Nobody else can have it, so nobody need be asked.
        let nodad = if is_v6 { " nodad" } else { "" };
        lines += &format!("addr add {first}/{shared} dev {DEVICE}{nodad}\n");
        // Every address of its block is this host's.
        lines += &format!("route add local {}/{own} dev lo\n", address(number, is_v6, 0));
        if is_v6 && applied.links == Links::Veth {
            // For IPv4 a host answers who asks for any of them; for IPv6 for its first alone.
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
    fn what_ip_is_told() {
        let network: Network = "lab:clients=2".parse().unwrap();
        let lossy = Network { loss: Some(crate::spec::units::Loss(0.5)), ..network.clone() };
        let applied = |links| Applied { links, delay: None, loss: None, bandwidth: None };
        insta::assert_snapshot!(format!(
            "server, veth\n{}\nclient 2, veth, loss\n{}\nclient 1, TUN\n{}",
            commands(0, &network, &applied(Links::Veth)),
            commands(2, &lossy, &applied(Links::Veth)),
            commands(1, &network, &applied(Links::Tun)),
        ));
    }
}
