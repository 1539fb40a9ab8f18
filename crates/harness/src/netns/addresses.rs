//! Addresses of a testbed's hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use load::LoadConfig;
use wire::Address;

use crate::spec::transport::Transport;

/// Addresses of one host to connect from.
const ADDRESSES: u8 = 254;
/// How long a port stays in TIME_WAIT between hosts of a lab, in seconds: `tcp_tw_reuse` is set there.
const TIME_WAIT_S: f64 = 1.0;

/// Where the server listens, on a port that the kernel will choose.
pub(crate) fn server_address(transport: Transport) -> Address {
    (address(0, transport == Transport::Tcp6, 1), 0).into()
}

/// Addresses that `config`'s connections come from in turn, those of the first client's host; none where the kernel can
/// choose. `ports` is how many an address has.
///
/// # Errors
/// When even all of them have too few ports.
pub(crate) fn sources(config: &LoadConfig, ports: u32) -> Result<Vec<IpAddr>, String> {
    let is_v6 = config.target.ip().is_some_and(|target| target.is_ipv6());
    let addresses = || (1..=ADDRESSES).map(|last| address(1, is_v6, last)).collect();
    load::ports::sources_among(config, ports, TIME_WAIT_S, addresses)
}

/// The addresses of host `number`, of which 0 is the server: those set aside for measuring networks (RFC 2544, RFC 5180), so
/// that they can be taken for nothing else. `last` tells those of one host apart.
pub(crate) fn address(number: u32, is_v6: bool, last: u8) -> IpAddr {
    match is_v6 {
        false => Ipv4Addr::new(198, 18, number as u8, last).into(),
        true => Ipv6Addr::new(0x2001, 2, 0, number as u16, 0, 0, 0, last.into()).into(),
    }
}

/// The same addresses as `of_the_first` client's host, of another.
pub(crate) fn sources_of(host: u32, of_the_first: &[IpAddr]) -> Vec<IpAddr> {
    let last = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    of_the_first.iter().map(|ip| address(host, ip.is_ipv6(), last(ip))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::network::CLIENTS_MAX;

    #[test]
    fn no_two_hosts_share_an_address() {
        let mut all: Vec<IpAddr> = (0..=CLIENTS_MAX)
            .flat_map(|number| [false, true].map(|is_v6| (number, is_v6)))
            .flat_map(|(number, is_v6)| (1..=ADDRESSES).map(move |last| address(number, is_v6, last)))
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(server_address(Transport::Tcp).to_string(), "198.18.0.1:0");
        assert_eq!(server_address(Transport::Tcp6).to_string(), "[2001:2::1]:0");
    }

    #[test]
    fn many_connections_come_from_many_addresses() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let config = |connections, transport| {
            let target = server_address(transport);
            LoadConfig { connections, rate_per_s: Some(1.0), ..LoadConfig::new(target, service.clone()) }
        };
        assert_eq!(sources(&config(100, Transport::Tcp), 28_000), Ok(Vec::new()));
        for transport in [Transport::Tcp, Transport::Tcp6] {
            let sources = sources(&config(60_000, transport), 28_000).unwrap();
            assert_eq!(sources, [1, 2, 3].map(|last| address(1, transport == Transport::Tcp6, last)));
        }
    }
}
