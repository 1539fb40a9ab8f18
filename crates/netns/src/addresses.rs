//! The addresses of a testbed's hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use load::LoadConfig;
use wire::Address;

/// The number of addresses of a host.
const ADDRESSES: u8 = 254;
/// The seconds after which the kernel reuses a port in TIME_WAIT. Testbeds set `tcp_tw_reuse`.
const TIME_WAIT_S: f64 = 1.0;

/// The address for the server to listen on, with a port that the kernel chooses.
pub fn server_address(is_v6: bool) -> Address {
    (address(0, is_v6, 1), 0).into()
}

/// The first client host's source addresses, each with `ports` ports, for `config`'s connections; empty if the kernel can
/// choose.
pub fn sources(config: &LoadConfig, ports: u32) -> Result<Vec<IpAddr>, String> {
    let is_v6 = config.target.ip().is_some_and(|target| target.is_ipv6());
    let addresses = || (1..=ADDRESSES).map(|last| address(1, is_v6, last)).collect();
    load::io::source_ports::sources_among(config, ports, TIME_WAIT_S, addresses)
}

/// Address `last` of host `number`; the server is host 0. The addresses are reserved for benchmarks (RFC 2544, RFC 5180), so
/// no other network should use them.
pub(crate) fn address(number: u32, is_v6: bool, last: u8) -> IpAddr {
    match is_v6 {
        false => Ipv4Addr::new(198, 18, number as u8, last).into(),
        true => Ipv6Addr::new(0x2001, 2, 0, number as u16, 0, 0, 0, last.into()).into(),
    }
}

/// The source addresses of client host `host` that correspond to `of_first`, those of the first client host.
pub(crate) fn sources_of(host: u32, of_first: &[IpAddr]) -> Vec<IpAddr> {
    let last = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    of_first.iter().map(|ip| address(host, ip.is_ipv6(), last(ip))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::CLIENTS_MAX;

    #[test]
    fn hosts_have_distinct_addresses() {
        let mut all: Vec<IpAddr> = (0..=CLIENTS_MAX)
            .flat_map(|number| [false, true].map(|is_v6| (number, is_v6)))
            .flat_map(|(number, is_v6)| (1..=ADDRESSES).map(move |last| address(number, is_v6, last)))
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(server_address(false).to_string(), "198.18.0.1:0");
        assert_eq!(server_address(true).to_string(), "[2001:2::1]:0");
    }

    #[test]
    fn relay_knows_the_host_of_an_address() {
        for host in [0, 9, CLIENTS_MAX] {
            let (IpAddr::V4(v4), IpAddr::V6(v6)) = (address(host, false, 3), address(host, true, 3)) else { panic!() };
            let packets = [[&[0x45_u8; 16][..], &v4.octets()].concat(), [&[0x60_u8; 24][..], &v6.octets()].concat()];
            assert_eq!(packets.map(|packet| crate::forward::destination(&packet)), [Some(host as usize); 2]);
        }
    }

    #[test]
    fn many_connections_need_several_source_addresses() {
        let config = |connections, is_v6| {
            let target = server_address(is_v6);
            LoadConfig::small(target).with(|it| it.connections = connections)
        };
        assert_eq!(sources(&config(100, false), 28_000), Ok(Vec::new()));
        for is_v6 in [false, true] {
            let sources = sources(&config(60_000, is_v6), 28_000).unwrap();
            assert_eq!(sources, [1, 2, 3].map(|last| address(1, is_v6, last)));
        }
    }
}
