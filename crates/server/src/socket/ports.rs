//! The sockets of a datagram service, one for each port, with the system's default options in every architecture.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use wire::{Address, Ports};

use crate::socket::destination;

/// The number of attempts to find consecutive free ports. After these, the kernel chooses each port.
const TRIES: u32 = 32;

/// Sockets and their ports in the same order.
#[derive(Debug)]
pub struct BoundPorts {
    /// A socket for each port.
    pub sockets: Vec<OwnedFd>,
    /// The port numbers.
    pub ports: Ports,
    /// The address of the first port.
    pub address: Address,
}

/// Binds `count` consecutive ports, starting at the port of `listen`. For port 0 it binds consecutive free ports or, if it
/// finds none, any free ports.
pub fn bind(listen: &Address, count: u32, nonblocking: bool) -> io::Result<BoundPorts> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    let listen = listen.ip().ok_or_else(|| invalid("a Unix socket has no ports for datagrams; use an IP address"))?;
    if count == 0 {
        return Err(invalid("the number of ports is 0"));
    }
    let bound = match listen.port() {
        0 => any(listen.ip(), count)?,
        first => {
            let ports = Ports::consecutive(first, count)
                .ok_or_else(|| invalid(&format!("{count} ports from {first} on exceed the last port, 65535")))?;
            let bind = |port| {
                let address = SocketAddr::new(listen.ip(), port);
                // Callers recognise a lack of descriptors by its error number, which naming the port would remove.
                let named = |error: io::Error| match Errno::from_io_error(&error) {
                    Some(Errno::MFILE | Errno::NFILE) => error,
                    _ => io::Error::new(error.kind(), format!("{address}: {error}")),
                };
                UdpSocket::bind(address).map_err(named)
            };
            ports.iter().map(bind).collect::<io::Result<Vec<_>>>()?
        }
    };
    let mut ports = Vec::with_capacity(bound.len());
    for socket in &bound {
        socket.set_nonblocking(nonblocking)?;
        destination::enable(socket.as_fd())?;
        ports.push(socket.local_addr()?.port());
    }
    let address = SocketAddr::new(listen.ip(), ports[0]).into();
    let sockets = bound.into_iter().map(OwnedFd::from).collect();
    Ok(BoundPorts { sockets, ports: Ports::list(&ports), address })
}

fn any(host: IpAddr, count: u32) -> io::Result<Vec<UdpSocket>> {
    for _ in 0..TRIES {
        let mut run = vec![UdpSocket::bind((host, 0))?];
        let Some(ports) = Ports::consecutive(run[0].local_addr()?.port(), count) else { continue };
        for port in ports.iter().skip(1) {
            match UdpSocket::bind((host, port)) {
                Ok(socket) => run.push(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => break,
                Err(error) => return Err(error),
            }
        }
        if run.len() == count as usize {
            return Ok(run);
        }
    }
    (0..count).map(|_| UdpSocket::bind((host, 0))).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn loopback(port: u16) -> Address {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn ports_have_the_order_of_their_sockets() {
        let bound = bind(&loopback(0), 100, true).unwrap();
        let ports: Vec<u16> = bound.ports.iter().collect();
        assert_eq!((ports.len(), bound.sockets.len(), bound.ports.count()), (100, 100, 100));
        for (socket, port) in bound.sockets.iter().zip(&ports) {
            let address: SocketAddr = rustix::net::getsockname(socket).unwrap().try_into().unwrap();
            assert_eq!(address.port(), *port);
        }
        assert_eq!(bound.address, loopback(ports[0]));
    }

    #[test]
    fn requested_ports_are_bound_or_named_in_the_error() {
        let free = bind(&loopback(0), 3, true).unwrap();
        // Without consecutive free ports there is no range to test.
        let ports: Vec<u16> = free.ports.iter().collect();
        if ports.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            return;
        }
        let error = bind(&loopback(ports[0]), 3, true).unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{}", ports[0])), "{error}");
        drop(free);
        assert_eq!(bind(&loopback(ports[0]), 3, true).unwrap().ports.to_string(), format!("{}-{}", ports[0], ports[2]));
    }

    #[test]
    fn impossible_ports_are_refused_with_the_reason() {
        let error = bind(&loopback(65_535), 2, true).unwrap_err().to_string();
        assert!(error.contains("65535"), "{error}");
        assert!(bind(&Address::Unix("x".into()), 1, true).unwrap_err().to_string().contains("Unix"));
        assert!(bind(&loopback(0), 0, true).is_err());
    }
}
