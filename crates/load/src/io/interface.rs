//! The network interface that sends the requests, its addresses, and its hardware timestamps.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::{mem, ptr};

use crate::io::connect::datagrams;
use crate::result::Hardware;

/// Returns the name of the interface on the route to `target`.
pub fn towards(target: SocketAddr) -> io::Result<String> {
    let (own, interfaces) = (source(target)?, interfaces()?);
    // Traffic to an address of this host uses loopback, whichever interface has the address.
    let loops = interfaces.iter().any(|(_, address)| *address == target.ip());
    let has = |address: IpAddr| if loops { address.is_loopback() } else { address == own };
    interfaces
        .into_iter()
        .find(|(_, address)| has(*address))
        .map(|(name, _)| name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no interface has the address {own}")))
}

/// Returns the source addresses that have a route to `target`, the system's choice first.
pub fn addresses_towards(target: SocketAddr) -> io::Result<Vec<IpAddr>> {
    Ok(leading_to(target.ip(), source(target)?, &interfaces()?))
}

/// Returns the source address that the system chooses for `target`.
fn source(target: SocketAddr) -> io::Result<IpAddr> {
    // Connecting a datagram socket sends nothing; it only looks up the route.
    Ok(UdpSocket::from(datagrams(target)?).local_addr()?.ip())
}

/// Returns the source addresses of `own`'s interface, or of all interfaces if `target` is this host; `own` first. Omits
/// link-local addresses, the other family, and loopback unless `target` is loopback. Other interfaces would get no responses.
fn leading_to(target: IpAddr, own: IpAddr, interfaces: &[(String, IpAddr)]) -> Vec<IpAddr> {
    let loops = interfaces.iter().any(|(_, address)| *address == target);
    let leads = |name: &str| loops || interfaces.iter().any(|(its, address)| its == name && *address == own);
    let is_near = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let fits = |address: &IpAddr| {
        address.is_ipv4() == target.is_ipv4() && address.is_loopback() == target.is_loopback() && !is_near(address)
    };
    let leading = interfaces.iter().filter(|(name, _)| leads(name)).map(|(_, address)| *address);
    let mut addresses: Vec<IpAddr> = leading.filter(fits).collect();
    addresses.sort_by_key(|address| *address != own);
    addresses
}

/// Lists each interface's name with each of its addresses.
fn interfaces() -> io::Result<Vec<(String, IpAddr)>> {
    let named = nix::ifaddrs::getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
        let ip = v4.or(address.as_sockaddr_in6().map(|address| address.ip().into()))?;
        Some((entry.interface_name, ip))
    });
    Ok(named.collect())
}

/// `struct ethtool_ts_info` (linux/ethtool.h).
#[repr(C)]
#[derive(Default)]
struct TimestampInfo {
    command: u32,
    so_timestamping: u32,
    clock: i32,
    sent: u32,
    sent_reserved: [u32; 3],
    received: u32,
    received_reserved: [u32; 3],
}

/// Returns the state of an interface's hardware timestamps.
pub fn hardware(name: &str) -> Hardware {
    const ETHTOOL_GET_TS_INFO: u32 = 0x41;
    const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1 as libc::Ioctl;
    let mut info = TimestampInfo { command: ETHTOOL_GET_TS_INFO, ..TimestampInfo::default() };
    let needed =
        libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    if !ask(name, libc::SIOCETHTOOL as libc::Ioctl, &mut info) || info.so_timestamping & needed != needed {
        return Hardware::None;
    }
    let mut config = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
    let on = ask(name, SIOCGHWTSTAMP, &mut config) && config.tx_type != 0 && config.rx_filter != 0;
    if on { Hardware::On } else { Hardware::Off }
}

/// Runs an ioctl that fills in `answer` for an interface. Returns whether it succeeded.
fn ask<T>(name: &str, request: libc::Ioctl, answer: &mut T) -> bool {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return false };
    // SAFETY: zeros are a valid request for the interface without a name.
    let mut interface: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= interface.ifr_name.len() {
        return false;
    }
    for (place, byte) in interface.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as _;
    }
    interface.ifr_ifru.ifru_data = ptr::from_mut(answer).cast();
    // SAFETY: `answer` has the structure that the ioctl writes.
    unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut interface) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_addresses_belong_to_the_route() {
        let had = [
            ("lo", "127.0.0.1"),
            ("docker0", "172.17.0.1"),
            ("eth0", "10.0.0.3"),
            ("eth0", "169.254.7.7"),
            ("eth0", "10.0.0.2"),
            ("lo", "::1"),
            ("eth0", "fd00::2"),
            ("eth0", "fe80::2"),
        ];
        let interfaces = had.map(|(name, address)| (name.to_owned(), address.parse().unwrap()));
        let of = |target: &str, own: &str| {
            let found = leading_to(target.parse().unwrap(), own.parse().unwrap(), &interfaces);
            found.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("192.0.2.9", "10.0.0.2"), ["10.0.0.2", "10.0.0.3"], "the system's choice first");
        assert_eq!(of("172.17.0.5", "172.17.0.1"), ["172.17.0.1"]);
        assert_eq!(of("2001:db8::9", "fd00::2"), ["fd00::2"]);
        assert_eq!(of("10.0.0.3", "10.0.0.3"), ["10.0.0.3", "172.17.0.1", "10.0.0.2"], "all addresses of this host");
        assert_eq!(of("::1", "::1"), ["::1"]);
        let target = "127.0.0.1:9".parse().unwrap();
        assert_eq!(addresses_towards(target).unwrap()[0], target.ip());
    }

    #[test]
    fn route_to_this_host_uses_loopback_without_hardware() {
        let name = towards("127.0.0.1:9".parse().unwrap()).unwrap();
        assert_eq!(hardware(&name), Hardware::None, "{name}");
        for (_, address) in interfaces().unwrap() {
            assert_eq!(
                towards((address, 9).into()).unwrap_or_else(|_| name.clone()),
                name,
                "the route to this host's address {address} uses loopback"
            );
        }
        assert_eq!(hardware("there-is-no-such-interface"), Hardware::None);
    }
}
