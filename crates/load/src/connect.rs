//! Connections, each verified: established, and served one whole response, which is what it should be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use rustix::process::{Resource, Rlimit};

use wire::Address;

use crate::class::Class;
use crate::config::{LoadConfig, Transport};
use crate::error::LoadError;
use crate::platform;
use crate::speak::{Reply, Speak};

/// Connections in progress at once: few enough for any server's backlog.
const WINDOW: u32 = 128;

/// How often progress is reported.
const PROGRESS: Duration = Duration::from_millis(200);

/// Room for a whole datagram.
const INBOX_BYTES: usize = 64 << 10;

/// Opens and verifies all of `config`'s connections; `progress` is told how many are done.
///
/// # Errors
/// The first connection that cannot be made or is not served: a trial with fewer would be another trial.
pub fn connect<S: Speak>(
    config: &LoadConfig,
    sources: &[IpAddr],
    speaker: &S,
    progress: &mut dyn FnMut(u32),
) -> Result<Vec<OwnedFd>, LoadError> {
    raise_descriptor_limit();
    let (mut scratch, mut inbox) = (Vec::new(), vec![0; INBOX_BYTES]);
    let timeout = Duration::from_nanos(config.timeout_ns);
    let total = config.connections;
    let mut streams: Vec<OwnedFd> = Vec::with_capacity(total as usize);
    let mut reported = Instant::now();
    while (streams.len() as u32) < total {
        let verified = streams.len();
        let target = (verified as u32 + WINDOW).min(total) as usize;
        while streams.len() < target {
            let request = speaker.request(speaker.greeting(streams.len() as u64), &mut scratch);
            let number = streams.len() as u64;
            let open = |number| open(config, source_of(sources, number), timeout, request);
            // An address may have no port left, while the others have.
            let mut opened = open(number);
            for other in 1..sources.len() as u64 {
                match &opened {
                    Err(error) if Class::of(error) == Class::NoAddresses => opened = open(number + other),
                    _ => break,
                }
            }
            streams.push(opened.map_err(|error| failed(config, streams.len(), error))?);
        }
        for (number, stream) in streams.iter().enumerate().skip(verified) {
            let asked = speaker.greeting(number as u64);
            // Where connections come and go, the server may end them as well.
            let ends = config.calls_per_connection.is_some();
            verify(stream, (config.transport(), ends), speaker, asked, &mut inbox)
                .map_err(|error| failed(config, number, error))?;
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(streams.len() as u32);
        }
    }
    Ok(streams)
}

/// Has connections served once more that were made by [`connect`], those that have no failure yet; those that are not get one.
/// Once one had to be waited for in vain no other is: a server that hangs would be waited for by each in turn.
pub fn verify_again<S: Speak>(config: &LoadConfig, speaker: &S, sockets: &[OwnedFd], failures: &mut [Option<Class>]) {
    let (mut scratch, mut inbox) = (Vec::new(), vec![0; INBOX_BYTES]);
    let window = WINDOW as usize;
    let mut hangs = false;
    for (at, (sockets, failures)) in sockets.chunks(window).zip(failures.chunks_mut(window)).enumerate() {
        let asked = |number: usize| speaker.greeting((at * window + number) as u64);
        let mut each = |step: &mut dyn FnMut(usize, &OwnedFd) -> io::Result<()>| {
            for (number, (socket, failure)) in sockets.iter().zip(&mut *failures).enumerate() {
                if failure.is_none() {
                    let done = if hangs { Err(Errno::TIMEDOUT.into()) } else { step(number, socket) };
                    *failure = done.err().map(|error| Class::of(&error));
                    hangs |= *failure == Some(Class::Timeout);
                }
            }
        };
        each(&mut |number, socket| {
            rustix::io::ioctl_fionbio(socket, false)?;
            write_all(socket, speaker.request(asked(number), &mut scratch))
        });
        each(&mut |number, socket| verify(socket, (config.transport(), false), speaker, asked(number), &mut inbox));
    }
}

/// A connection with its first request sent.
fn open(config: &LoadConfig, source: Option<IpAddr>, timeout: Duration, request: &[u8]) -> io::Result<OwnedFd> {
    let socket = match &config.target {
        Address::Ip(target) if config.datagrams => datagrams(*target)?,
        Address::Ip(target) => tcp(target, source, timeout)?,
        Address::Unix(path) => unix(path, timeout)?,
    };
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(timeout))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    write_all(&socket, request)?;
    Ok(socket)
}

fn write_all(socket: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(socket, rest)?..];
    }
    Ok(())
}

fn tcp(target: &SocketAddr, source: Option<IpAddr>, timeout: Duration) -> io::Result<OwnedFd> {
    let stream = match source {
        None => TcpStream::connect_timeout(target, timeout)?,
        Some(source) => {
            let socket = platform::stream_socket(family(target))?;
            bind(&socket, source)?;
            rustix::io::ioctl_fionbio(&socket, false)?;
            // What connect(2) of a socket that blocks waits for at most.
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
            match rustix::net::connect(&socket, target) {
                Err(Errno::INPROGRESS) => return Err(io::ErrorKind::TimedOut.into()),
                other => other?,
            }
            socket.into()
        }
    };
    stream.set_nodelay(true)?;
    // A reset at the end leaves no connection in TIME_WAIT, so that the next trial finds the ports free.
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(stream.into())
}

fn family(target: &SocketAddr) -> AddressFamily {
    if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// The address that a connection comes from; `None` leaves it to the system. They take turns.
fn source_of(sources: &[IpAddr], number: u64) -> Option<IpAddr> {
    let count = sources.len() as u64;
    (count > 0).then(|| sources[(number % count) as usize])
}

/// Binds to a local address, whose port is chosen only when the target is known: it need be free towards that alone.
fn bind(socket: &OwnedFd, source: IpAddr) -> Result<(), Errno> {
    platform::choose_port_late(socket)?;
    rustix::net::bind(socket, &SocketAddr::from((source, 0)))
}

/// Begins connections that nobody waits for: a loop is told when they are established.
pub struct Dialer<'a> {
    target: Target,
    sources: &'a [IpAddr],
}

/// Where they lead.
enum Target {
    Ip(SocketAddr),
    Unix(SocketAddrUnix),
}

impl<'a> Dialer<'a> {
    /// To `config`'s target, from `sources` in turn.
    ///
    /// # Errors
    /// When there can be no such address.
    pub fn new(config: &LoadConfig, sources: &'a [IpAddr]) -> Result<Self, LoadError> {
        let target = match &config.target {
            Address::Ip(target) => Target::Ip(*target),
            Address::Unix(path) => {
                Target::Unix(SocketAddrUnix::new(path).map_err(|error| failed(config, 0, error.into()))?)
            }
        };
        Ok(Self { target, sources })
    }

    /// Begins the connection of that number, which is counted on, on a socket that does not block; from the next address if
    /// one has no port left. It is closed as usual, and not reset as those are that stay for the whole trial: ending
    /// connections is part of what is measured.
    pub fn begin(&self, number: &mut u64) -> Result<OwnedFd, Errno> {
        for _ in 1..self.sources.len() {
            *number += 1;
            match self.begin_one(*number - 1) {
                Err(Errno::ADDRNOTAVAIL) => {}
                begun => return begun,
            }
        }
        *number += 1;
        self.begin_one(*number - 1)
    }

    fn begin_one(&self, number: u64) -> Result<OwnedFd, Errno> {
        let begun = |connected: Result<(), Errno>| match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error),
        };
        match &self.target {
            Target::Ip(target) => {
                let socket = platform::stream_socket(family(target))?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                if let Some(source) = source_of(self.sources, number) {
                    bind(&socket, source)?;
                }
                begun(rustix::net::connect(&socket, target))?;
                Ok(socket)
            }
            Target::Unix(path) => {
                let socket = platform::stream_socket(AddressFamily::UNIX)?;
                begun(rustix::net::connect(&socket, path))?;
                Ok(socket)
            }
        }
    }
}

/// A socket of datagrams to one place.
pub fn datagrams(target: SocketAddr) -> io::Result<OwnedFd> {
    let any: IpAddr = if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    Ok(socket.into())
}

/// Where as many wait to be accepted as may, connect(2) of a socket that blocks waits for room as long as it may wait to
/// send. FreeBSD and macOS refuse at once.
fn unix(path: &Path, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Waits for the first response.
fn verify<S: Speak>(
    socket: &OwnedFd,
    (transport, ends): (Transport, bool),
    speaker: &S,
    asked: S::Asked,
    inbox: &mut [u8],
) -> io::Result<()> {
    let mut reader = S::Reader::default();
    loop {
        let count = rustix::io::read(socket, &mut *inbox)?;
        if count == 0 {
            return Err(match speaker.end(asked, &mut reader) {
                None => io::ErrorKind::UnexpectedEof.into(),
                Some(Reply::Last(None)) if ends => return Ok(rustix::io::ioctl_fionbio(socket, true)?),
                Some(Reply::Last(None)) => io::ErrorKind::ConnectionAborted.into(),
                Some(_) => wrong(speaker),
            });
        }
        match speaker.read(asked, &mut reader, &inbox[..count]) {
            (taken, Some(reply))
                if taken == count && (reply == Reply::Good || (ends && reply == Reply::Last(None))) =>
            {
                return Ok(rustix::io::ioctl_fionbio(socket, true)?);
            }
            (_, Some(Reply::Last(None))) => return Err(io::ErrorKind::ConnectionAborted.into()),
            (_, Some(_)) => return Err(wrong(speaker)),
            // A datagram is a whole response, or none.
            (_, None) if transport == Transport::Udp => return Err(io::ErrorKind::UnexpectedEof.into()),
            (_, None) => {}
        }
    }
}

/// A response that is not what it should be.
fn wrong(speaker: &impl Speak) -> io::Error {
    speaker.complaint().map_or(io::ErrorKind::InvalidData.into(), |why| io::Error::new(io::ErrorKind::InvalidData, why))
}

pub fn failed(config: &LoadConfig, index: usize, error: io::Error) -> LoadError {
    let class = Class::of(&error);
    let remedy = match class {
        // A Unix socket's file is there only once somebody has listened.
        _ if error.kind() == io::ErrorKind::NotFound => "is the server running there?",
        Class::Refused => "is the server running there?",
        Class::NoDescriptors => "raise the hard limit of descriptors (ulimit -Hn), or lower the connections",
        Class::NoAddresses => "widen net.ipv4.ip_local_port_range, or lower the connections",
        Class::Closed => "the server ends connections with a response: let them come and go (--calls-per-connection)",
        Class::Wrong if config.http.is_some() => {
            "is that what the server has there? See the path, and the status and length that are expected"
        }
        Class::Timeout => "the server did not answer: raise the timeout, or lower the connections",
        _ => "does the server speak this service, with these sizes, and has it room for this many connections?",
    };
    LoadError::Connect {
        number: index as u32 + 1,
        total: config.connections,
        target: config.target.to_string(),
        class: class.name(),
        error,
        remedy,
    }
}

/// To the hard limit, or to what the system takes. Whether that is enough is checked when the plan is made, and by each connection.
pub fn raise_descriptor_limit() {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let current = match platform::DESCRIPTORS_MAX {
        Some(most) => Some(maximum.map_or(most, |maximum| maximum.min(most))),
        None => maximum,
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current, maximum });
}
