//! The sockets of a datagram service, one for each port and worker, with the system's default options in every architecture.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::AddressFamily;
use wire::{Address, Ports};

use super::{address_of, destination};
use crate::platform;

/// The number of attempts to find consecutive free ports. After these, the kernel chooses each port.
const TRIES: u32 = 32;

/// Sockets and their ports in the same order, once for each worker.
#[derive(Debug)]
pub struct BoundPorts {
    /// A socket for each port and worker, those of a worker together.
    pub sockets: Vec<OwnedFd>,
    /// The port numbers.
    pub ports: Ports,
    /// The address of the first port.
    pub address: Address,
}

/// Binds `count` consecutive ports, starting at the port of `listen`. For port 0 it binds consecutive free ports or, if it
/// finds none, any free ports. Each of `workers` has a socket on each port; the kernel chooses one by a hash of both addresses.
pub fn bind(listen: &Address, count: u32, nonblocking: bool, workers: u32) -> io::Result<BoundPorts> {
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
    let ports: Vec<u16> = bound.iter().map(|socket| Ok(socket.local_addr()?.port())).collect::<io::Result<_>>()?;
    let mut sockets: Vec<OwnedFd> = bound.into_iter().map(OwnedFd::from).collect();
    for at in sockets.len()..sockets.len() * workers as usize {
        sockets.push(bind_beside(&sockets[at % ports.len()])?);
    }
    for socket in &sockets {
        rustix::io::ioctl_fionbio(socket, nonblocking)?;
        destination::enable(socket.as_fd())?;
    }
    let address = SocketAddr::new(listen.ip(), ports[0]).into();
    Ok(BoundPorts { sockets, ports: Ports::list(&ports), address })
}

/// Binds another socket to the address of `first`. Only later sockets share the address from the start, so that a port of another
/// server is not shared by mistake.
fn bind_beside(first: &OwnedFd) -> io::Result<OwnedFd> {
    let address = address_of(first)?;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = platform::datagram_socket(family)?;
    for shared in [first, &socket] {
        platform::set_socket_reuseport(shared, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
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
        let bound = bind(&loopback(0), 100, true, 1).unwrap();
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
        let free = bind(&loopback(0), 3, true, 1).unwrap();
        // Without consecutive free ports there is no range to test.
        let ports: Vec<u16> = free.ports.iter().collect();
        if ports.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            return;
        }
        let error = bind(&loopback(ports[0]), 3, true, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("127.0.0.1:{}", ports[0])), "{error}");
        drop(free);
        assert_eq!(
            bind(&loopback(ports[0]), 3, true, 1).unwrap().ports.to_string(),
            format!("{}-{}", ports[0], ports[2])
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn kernel_distributes_datagrams_over_the_sockets_of_a_port() {
        let bound = bind(&loopback(0), 2, true, 3).unwrap();
        assert_eq!((bound.ports.count(), bound.sockets.len()), (2, 6));
        let sockets: Vec<UdpSocket> = bound.sockets.into_iter().map(UdpSocket::from).collect();
        for port in 0..2 {
            let of_port = || (port..6).step_by(2).map(|at| &sockets[at]);
            let address = sockets[port].local_addr().unwrap();
            assert!(of_port().all(|socket| socket.local_addr().unwrap() == address));
            // Each client has another port. A socket gets none of them with a probability of about 1e-18.
            for _ in 0..100 {
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(&[1], address).unwrap();
            }
            let counts: Vec<usize> =
                of_port().map(|it| std::iter::from_fn(|| it.recv(&mut [0; 8]).ok()).count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 100);
            assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
        }
        let taken = bind(&sockets[0].local_addr().unwrap().into(), 1, true, 2).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "another server does not share the port");
    }

    #[test]
    fn impossible_ports_are_refused_with_the_reason() {
        let error = bind(&loopback(65_535), 2, true, 1).unwrap_err().to_string();
        assert!(error.contains("65535"), "{error}");
        assert!(bind(&Address::Unix("x".into()), 1, true, 1).unwrap_err().to_string().contains("Unix"));
        assert!(bind(&loopback(0), 0, true, 1).is_err());
    }
}
