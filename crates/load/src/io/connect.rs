//! Opens connections and verifies each with one request and its whole response.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustix::process::{Resource, Rlimit};
use wire::Address;

use crate::config::{LoadConfig, Transport};
use crate::error::LoadError;
use crate::io::pace::{Pace, REFUSED_MAX, REFUSED_PAUSE, Silence, UNDER_WAY_MAX};
use crate::io::platform;
use crate::io::verify::{Through, Verifier};
use crate::protocol::ClientProtocol;
use crate::result::Class;
use crate::socket::{Beginning, Socket};

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
    let beginning = Beginning::of(config)?;
    let mut sockets: Vec<Option<Socket>> = (0..total).map(|_| None).collect();
    let mut verifier = Verifier::new(config, protocol);
    let (mut opened, mut verified) = (0, 0);
    let (mut pace, timeout) = (Pace::new(), Duration::from_nanos(config.client.timeout_ns));
    // Connections that the server did not accept, with the end of their time.
    let mut again: VecDeque<(u64, Instant)> = VecDeque::new();
    let mut refused_at = None;
    let dropped_before = platform::dropped_at_backlogs();
    let mut reported = Instant::now();
    while verified < total {
        let mut failed = Vec::new();
        while verifier.count() < pace.limit() {
            let (number, deadline) = match again.pop_front() {
                Some((number, deadline)) => (number, Some(deadline)),
                None if opened < total => (opened, None),
                None => break,
            };
            opened = opened.max(number + 1);
            let has_no_port = |error: &io::Error| Class::of(error) == Class::NoAddresses;
            let socket = from_each(sources, &mut number.clone(), has_no_port, |source| open(config, number, source));
            let socket = socket.and_then(|socket| Socket::new(socket, &beginning));
            match socket {
                Ok(socket) => verifier.push(number, socket, deadline),
                Err(error) => {
                    failed.push((number, deadline.unwrap_or_else(|| Instant::now() + timeout), error));
                    break;
                }
            }
        }
        let through = verifier.wait(PROGRESS).map_err(|error| LoadError::connect(config, verified, error))?;
        for Through { number, socket, deadline, outcome } in through {
            match outcome {
                Ok(()) => {
                    (sockets[number as usize], refused_at) = (Some(socket), None);
                    verified += 1;
                    pace.answered();
                }
                Err(error) => failed.push((number, deadline, error)),
            }
        }
        let waiting = again.len();
        for (number, deadline, error) in failed {
            // A full backlog resets connections if tcp_abort_on_overflow is set, and on other systems.
            let is_refused = matches!(Class::of(&error), Class::Refused | Class::Reset);
            if !is_refused || verified == 0 || refused_at.get_or_insert_with(Instant::now).elapsed() > REFUSED_MAX {
                let dropped = platform::dropped_at_backlogs().saturating_sub(dropped_before);
                return Err(LoadError::connect(config, number, Silence::explain(error, verified, dropped)));
            }
            again.push_back((number, deadline));
        }
        if again.len() > waiting {
            thread::sleep(REFUSED_PAUSE);
        }
        if verified > 0 && pace.searches() {
            again.extend(verifier.take_unaccepted());
        }
        if again.len() > waiting {
            pace.unaccepted();
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
        while verifier.count() < UNDER_WAY_MAX
            && !hangs
            && let Some(number) = left.next()
        {
            verifier.push(number as u64, &sockets[number], None);
            // A timeout unless a response arrives.
            failures[number] = Some(Class::Timeout);
        }
        if verifier.is_idle() {
            break;
        }
        let Ok(through) = verifier.wait(PROGRESS) else { break };
        for Through { number, outcome, .. } in through {
            failures[number as usize] = outcome.err().map(|error| Class::of(&error));
            hangs |= failures[number as usize] == Some(Class::Timeout);
        }
    }
    left.for_each(|number| failures[number] = Some(Class::Timeout));
}

/// Returns the address of a connection, which is the next one of all with each connection.
fn in_turn<'a>(target: &'a SocketAddr, others: &'a [SocketAddr], number: u64) -> &'a SocketAddr {
    let at = (number % (others.len() as u64 + 1)) as usize;
    at.checked_sub(1).map_or(target, |at| &others[at])
}

fn open(config: &LoadConfig, number: u64, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let timeout = Duration::from_nanos(config.client.timeout_ns);
    let socket = match &config.target {
        Address::Ip(target) if config.transport() == Transport::Udp => datagrams(*target)?,
        Address::Ip(target) => {
            let target = in_turn(target, &config.others, number);
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
    beginning: Beginning,
}

enum Target {
    Ip(SocketAddr, Vec<SocketAddr>),
    Unix(SocketAddrUnix),
}

impl<'a> Dialer<'a> {
    pub fn new(config: &LoadConfig, sources: &'a [IpAddr]) -> Result<Self, LoadError> {
        let target = match &config.target {
            Address::Ip(target) => Target::Ip(*target, config.others.clone()),
            Address::Unix(path) => {
                Target::Unix(SocketAddrUnix::new(path).map_err(|error| LoadError::connect(config, 0, error.into()))?)
            }
        };
        Ok(Self { target, sources, nodelay: config.client.tcp_nodelay, beginning: Beginning::of(config)? })
    }

    /// Starts a connection. Unlike those of [`connect`], it closes without a reset, because the load measures closing too.
    pub fn begin(&self, number: &mut u64) -> Result<Socket, Errno> {
        let has_no_port = |&error: &Errno| error == Errno::ADDRNOTAVAIL;
        let first = *number;
        let socket = from_each(self.sources, number, has_no_port, |source| self.begin_from(first, source))?;
        Socket::new(socket, &self.beginning).map_err(|_| Errno::PROTO)
    }

    /// Starts a connection in place of one that has ended. As with those of [`connect`], a reset ends it.
    pub fn begin_again(&self, number: &mut u64) -> Result<Socket, Errno> {
        let socket = self.begin(number)?;
        if let Target::Ip(..) = self.target {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        Ok(socket)
    }

    fn begin_from(&self, number: u64, source: Option<IpAddr>) -> Result<OwnedFd, Errno> {
        match &self.target {
            Target::Ip(target, others) => tcp(in_turn(target, others, number), source, self.nodelay),
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
