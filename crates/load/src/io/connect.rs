//! Opens connections and verifies each with one request and its whole response.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustix::process::{Resource, Rlimit};
use wire::Address;

use crate::config::{LoadConfig, Transport};
use crate::error::LoadError;
use crate::io::platform;
use crate::io::verify::Verifier;
use crate::protocol::ClientProtocol;
use crate::result::Class;
use crate::socket::Socket;
use crate::socket::tls::Tls;

/// The interval between progress reports before the load.
pub const PROGRESS: Duration = Duration::from_millis(200);

/// Opens and verifies all connections as non-blocking sockets. Calls `progress` with the number of verified connections.
pub fn connect<P: ClientProtocol>(
    config: &LoadConfig,
    sources: &[IpAddr],
    protocol: &P,
    progress: &mut dyn FnMut(u32),
) -> Result<Vec<Socket>, LoadError> {
    raise_limits();
    let total = u64::from(config.connections);
    let tls = Tls::of(config)?;
    let mut sockets: Vec<Option<Socket>> = (0..total).map(|_| None).collect();
    let mut verifier = Verifier::new(config, protocol);
    let (mut opened, mut verified) = (0, 0);
    let mut reported = Instant::now();
    while verified < total {
        while opened < total && verifier.has_room() {
            let has_no_port = |error: &io::Error| Class::of(error) == Class::NoAddresses;
            let socket = from_each(sources, &mut opened.clone(), has_no_port, |source| open(config, source));
            let socket = socket.and_then(|socket| Socket::new(socket, tls.as_ref()));
            verifier.push(opened, socket.map_err(|error| LoadError::connect(config, opened, error))?);
            opened += 1;
        }
        let through = verifier.wait(PROGRESS).map_err(|error| LoadError::connect(config, verified, error))?;
        for (number, socket, outcome) in through {
            outcome.map_err(|error| LoadError::connect(config, number, error))?;
            sockets[number as usize] = Some(socket);
            verified += 1;
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(verified as u32);
        }
    }
    Ok(sockets.into_iter().flatten().collect())
}

/// Verifies each connection without a failure once more, and stores new failures. After the first timeout, it verifies no
/// further connections but stores a timeout for them, because a hanging server would cost one timeout per connection.
pub fn verify_again<P: ClientProtocol>(
    config: &LoadConfig,
    protocol: &P,
    sockets: &[Socket],
    failures: &mut [Option<Class>],
) {
    let mut verifier = Verifier::new(config, protocol);
    let numbers: Vec<usize> = (0..sockets.len()).filter(|&number| failures[number].is_none()).collect();
    let mut left = numbers.into_iter();
    let mut hangs = false;
    loop {
        while verifier.has_room()
            && !hangs
            && let Some(number) = left.next()
        {
            verifier.push(number as u64, &sockets[number]);
            // A timeout unless a response arrives.
            failures[number] = Some(Class::Timeout);
        }
        if verifier.is_idle() {
            break;
        }
        let Ok(through) = verifier.wait(PROGRESS) else { break };
        for (number, _, outcome) in through {
            failures[number as usize] = outcome.err().map(|error| Class::of(&error));
            hangs |= failures[number as usize] == Some(Class::Timeout);
        }
    }
    left.for_each(|number| failures[number] = Some(Class::Timeout));
}

fn open(config: &LoadConfig, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let timeout = Duration::from_nanos(config.client.timeout_ns);
    let socket = match &config.target {
        Address::Ip(target) if config.transport() == Transport::Udp => datagrams(*target)?,
        Address::Ip(target) => {
            let socket = tcp(target, source, config.client.tcp_nodelay)?;
            // A reset at the end avoids TIME_WAIT, so the next trial finds the ports free.
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            socket
        }
        Address::Unix(path) => unix(path, timeout)?,
    };
    // The timeouts apply if a caller makes the socket blocking.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    Ok(socket)
}

/// Starts a connection without waiting for it.
fn tcp(target: &SocketAddr, source: Option<IpAddr>, nodelay: bool) -> Result<OwnedFd, Errno> {
    let socket = platform::stream_socket(family(target))?;
    sockopt::set_tcp_nodelay(&socket, nodelay)?;
    if let Some(source) = source {
        bind(&socket, source)?;
    }
    begun(rustix::net::connect(&socket, target))?;
    Ok(socket)
}

fn begun(connected: Result<(), Errno>) -> Result<(), Errno> {
    match connected {
        Err(Errno::INPROGRESS) => Ok(()),
        other => other,
    }
}

fn family(target: &SocketAddr) -> AddressFamily {
    if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Calls `begin` with the next source address, then with further ones while they have no free port. Without sources: `None`.
fn from_each<T, E>(
    sources: &[IpAddr],
    number: &mut u64,
    has_no_port: impl Fn(&E) -> bool,
    begin: impl Fn(Option<IpAddr>) -> Result<T, E>,
) -> Result<T, E> {
    let mut left = sources.len();
    loop {
        let source = sources.get((*number % sources.len().max(1) as u64) as usize);
        *number += 1;
        match begin(source.copied()) {
            Err(error) if left > 1 && has_no_port(&error) => left -= 1,
            begun => return begun,
        }
    }
}

/// Binds to a local address. connect(2) chooses the port, which must be free only for that target.
fn bind(socket: &OwnedFd, source: IpAddr) -> Result<(), Errno> {
    platform::choose_port_late(socket)?;
    rustix::net::bind(socket, &SocketAddr::from((source, 0)))
}

pub struct Dialer<'a> {
    target: Target,
    sources: &'a [IpAddr],
    nodelay: bool,
    tls: Option<Tls>,
}

enum Target {
    Ip(SocketAddr),
    Unix(SocketAddrUnix),
}

impl<'a> Dialer<'a> {
    pub fn new(config: &LoadConfig, sources: &'a [IpAddr]) -> Result<Self, LoadError> {
        let target = match &config.target {
            Address::Ip(target) => Target::Ip(*target),
            Address::Unix(path) => {
                Target::Unix(SocketAddrUnix::new(path).map_err(|error| LoadError::connect(config, 0, error.into()))?)
            }
        };
        Ok(Self { target, sources, nodelay: config.client.tcp_nodelay, tls: Tls::of(config)? })
    }

    /// Starts a connection. Unlike those of [`connect`], it closes without a reset, because the load measures closing too.
    pub fn begin(&self, number: &mut u64) -> Result<Socket, Errno> {
        let has_no_port = |&error: &Errno| error == Errno::ADDRNOTAVAIL;
        let socket = from_each(self.sources, number, has_no_port, |source| self.begin_from(source))?;
        Socket::new(socket, self.tls.as_ref()).map_err(|_| Errno::PROTO)
    }

    /// Starts a connection in place of one that has ended. As with those of [`connect`], a reset ends it.
    pub fn begin_again(&self, number: &mut u64) -> Result<Socket, Errno> {
        let socket = self.begin(number)?;
        if let Target::Ip(_) = self.target {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        Ok(socket)
    }

    fn begin_from(&self, source: Option<IpAddr>) -> Result<OwnedFd, Errno> {
        match &self.target {
            Target::Ip(target) => tcp(target, source, self.nodelay),
            Target::Unix(path) => {
                let socket = platform::stream_socket(AddressFamily::UNIX)?;
                begun(rustix::net::connect(&socket, path))?;
                Ok(socket)
            }
        }
    }
}

pub fn datagrams(target: SocketAddr) -> io::Result<OwnedFd> {
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Connects a Unix socket. If the backlog is full, a blocking connect(2) waits up to the send timeout, except on FreeBSD and
/// macOS.
fn unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Raises the soft limits of descriptors and, for the client's threads, of processes to the hard ones.
pub fn raise_limits() {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let current = match platform::DESCRIPTORS_MAX {
        Some(most) => Some(maximum.map_or(most, |maximum| maximum.min(most))),
        None => maximum,
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let maximum = rustix::process::getrlimit(Resource::Nproc).maximum;
    let _ = rustix::process::setrlimit(Resource::Nproc, Rlimit { current: maximum, maximum });
}
