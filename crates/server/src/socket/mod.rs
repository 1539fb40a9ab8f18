//! Listening, accepting and connection options, the same in every architecture.

pub(crate) mod destination;
pub mod ports;
pub(crate) mod spare_fd;
#[cfg_attr(not(target_os = "linux"), path = "no_steering.rs")]
pub(crate) mod steering;
pub mod unix;

use std::borrow::Borrow;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use wire::Address;

use crate::metrics::workers::{Counters, Syscall};
use crate::platform;
use crate::socket::spare_fd::SpareFd;
use crate::socket::unix::SocketFile;

/// The most connections that wait for accept. The kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// The lowest free port to choose, above those of common services.
const FREE_PORT_MIN: u16 = 10_000;

/// The distance between chosen ports: a prime, and larger than the usual number of ports of a datagram service.
const FREE_PORT_STRIDE: u64 = 7919;

const FREE_PORT_TRIES: u32 = 32;

/// The pause before the next accept when memory or descriptors have run out.
pub const PAUSE: Duration = Duration::from_millis(1);

/// A socket with an address.
#[derive(Debug)]
pub struct Bound {
    /// A Unix socket's file, removed when this is dropped.
    pub file: Option<SocketFile>,
    /// The address, with the port that the kernel chose.
    pub address: Address,
    /// The socket.
    pub socket: OwnedFd,
}

/// Makes a listening socket. Fails if another server listens at `address`.
pub fn listen(address: &Address, nonblocking: bool) -> io::Result<Bound> {
    let bound = match address {
        Address::Ip(address) => {
            let socket = bind(*address, nonblocking, false)?;
            Bound { address: address_of(&socket)?.into(), socket, file: None }
        }
        Address::Unix(path) => {
            let socket = platform::socket(AddressFamily::UNIX, nonblocking)?;
            let file = Some(SocketFile::bind(&socket, path)?);
            Bound { address: address.clone(), socket, file }
        }
    };
    rustix::net::listen(&bound.socket, BACKLOG)?;
    Ok(bound)
}

/// Makes a socket that reserves an address for [`listen_reuseport`]. It does not listen, so it gets no connections.
pub fn reserve_address(address: &Address) -> io::Result<Bound> {
    let address = address.ip().ok_or(io::ErrorKind::Unsupported)?;
    let socket = bind(address, false, true)?;
    Ok(Bound { address: address_of(&socket)?.into(), socket, file: None })
}

/// Makes another listener at the address of `holder`. The kernel distributes connections over the listeners by a hash.
pub fn listen_reuseport(holder: &OwnedFd) -> io::Result<OwnedFd> {
    let listener = bind(address_of(holder)?, false, true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn bind(address: SocketAddr, nonblocking: bool, reuseport: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = platform::socket(family, nonblocking)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    platform::set_socket_reuseport(&socket, reuseport)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Replaces the port of `any` with a free one, if possible outside the range from which the kernel chooses ports.
pub fn free_port(any: SocketAddr) -> io::Result<SocketAddr> {
    let chosen = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = chosen.split_whitespace().next().and_then(|first| first.parse().ok());
    let end = first.filter(|&first| first > FREE_PORT_MIN).unwrap_or(u16::MAX);
    // Start at a random port. The stride visits every port before it repeats one, and adjacent ports at distant times.
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| (RandomState::new().hash_one(()) >> 32).into());
    let some = (0..FREE_PORT_TRIES)
        .map(|_| FREE_PORT_MIN + (NEXT.fetch_add(FREE_PORT_STRIDE, Relaxed) % u64::from(end - FREE_PORT_MIN)) as u16);
    // Change only the port, to keep the scope of a link-local address.
    let bound = |port| {
        let mut address = any;
        address.set_port(port);
        TcpListener::bind(address)
    };
    let free = some.filter_map(|port| bound(port).ok()).next();
    free.map_or_else(|| bound(0), Ok)?.local_addr()
}

pub(crate) fn address_of(socket: impl AsFd) -> io::Result<SocketAddr> {
    rustix::net::getsockname(socket)?.try_into().map_err(io::Error::from)
}

/// Whether a stream socket is a TCP socket, not a Unix socket.
pub fn is_tcp(socket: impl AsFd) -> bool {
    rustix::net::getsockname(socket).map_or(true, |address| address.address_family() != AddressFamily::UNIX)
}

/// Accepts connections, and refuses them when descriptors run out, instead of letting them wait.
#[derive(Debug)]
pub struct Acceptor<'a, L = &'a OwnedFd> {
    listener: L,
    waits: bool,
    nonblocking: bool,
    tcp: bool,
    counters: &'a Counters,
    /// The descriptor for refusing connections. `None` in a pool's worker, which refuses none: without descriptors it leaves
    /// them waiting.
    spare: Option<SpareFd>,
}

/// The result of one attempt to accept.
#[derive(Debug)]
pub enum Accepted {
    /// A connection to be served.
    Connection(OwnedFd),
    /// No connection to serve: the server refused it, its client had gone, or the server must try again.
    None,
    /// No connection waits.
    WouldBlock,
    /// A waiting connection can be neither accepted nor refused now: serve the other connections first.
    Later,
    /// The listener was shut down.
    Shutdown,
}

impl<'a, L: Borrow<OwnedFd>> Acceptor<'a, L> {
    /// Accepts from `listener`. Both the listener and its connections are non-blocking if `nonblocking` is set.
    pub fn new(listener: L, nonblocking: bool, counters: &'a Counters) -> io::Result<Self> {
        Ok(Self { waits: !nonblocking, ..Self::for_hand_over(listener, nonblocking, counters)? })
    }

    /// Accepts from a blocking `listener`; connections are non-blocking if `nonblocking` is set.
    pub fn for_hand_over(listener: L, nonblocking: bool, counters: &'a Counters) -> io::Result<Self> {
        let (tcp, spare) = (is_tcp(listener.borrow()), Some(SpareFd::new()?));
        Ok(Self { listener, waits: true, nonblocking, tcp, counters, spare })
    }

    /// Accepts blocking connections for one worker of a pool. Without descriptors it leaves connections waiting.
    pub fn for_pool_worker(listener: L, counters: &'a Counters) -> Self {
        let tcp = is_tcp(listener.borrow());
        Self { listener, waits: true, nonblocking: false, tcp, counters, spare: None }
    }

    /// Accepts once. A blocking accept pauses when resources have run out.
    pub fn accept(&mut self) -> io::Result<Accepted> {
        self.counters.syscalls_of(Syscall::Accept, platform::ACCEPT_SYSCALLS);
        let failed = match platform::accept(self.listener.borrow(), self.nonblocking) {
            Ok(connection) => return Ok(self.admit(connection)),
            Err(Errno::MFILE | Errno::NFILE) => self.reject_waiting()?,
            Err(error) => classify_accept_error(error)?,
        };
        let is_over = self.waits && matches!(failed, Accepted::Later) && self.is_shut_down(PAUSE);
        Ok(if is_over { Accepted::Shutdown } else { failed })
    }

    /// Whether the listener shuts down within this time, which must be less than a second. An accept that a firewall rejects
    /// does not report a shutdown.
    pub fn is_shut_down(&self, within: Duration) -> bool {
        let mut listener = [PollFd::new(self.listener.borrow(), PollFlags::empty())];
        let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        rustix::event::poll(&mut listener, Some(&timeout)).is_ok() && listener[0].revents().contains(PollFlags::HUP)
    }

    /// Handles the result of an accept that the kernel completed. If descriptors have run out, it releases the spare one for
    /// the next connection. `admit` refuses that connection unless enough descriptors have become free, and reopens the spare.
    pub fn on_completion(&mut self, result: Result<OwnedFd, Errno>) -> io::Result<Accepted> {
        match result {
            Ok(connection) => Ok(self.admit(connection)),
            Err(Errno::MFILE | Errno::NFILE) => {
                Ok(if self.spare.as_mut().is_some_and(SpareFd::release) { Accepted::None } else { Accepted::Later })
            }
            Err(error) => classify_accept_error(error),
        }
    }

    fn admit(&mut self, connection: OwnedFd) -> Accepted {
        if !self.has_room() {
            self.refuse(connection);
            self.spare.as_mut().map(SpareFd::reopen);
            return Accepted::None;
        }
        match set_options(&connection, self.tcp) {
            Ok(()) => Accepted::Connection(connection),
            Err(_) => Accepted::None,
        }
    }

    /// Counts and closes a connection that cannot be served.
    pub fn refuse(&self, connection: OwnedFd) {
        self.counters.refused.add(1);
        reset(connection);
    }

    /// Whether an accepted connection may stay: a spare descriptor must be left.
    pub fn has_room(&mut self) -> bool {
        self.spare.as_mut().is_none_or(SpareFd::leaves_room)
    }

    /// Refuses a waiting connection when descriptors have run out. Otherwise the mechanism would report it for ever.
    pub fn reject_waiting(&mut self) -> io::Result<Accepted> {
        if self.spare.is_none() {
            return Ok(Accepted::Later);
        }
        // accept(2) allocates a descriptor before it looks for a connection, so EMFILE does not prove that a connection waits.
        // By the time a connection arrives, a descriptor may be free.
        if self.waits && platform::SHUTDOWN_WAKES_ACCEPT {
            if !is_readable(self.listener.borrow(), None)? {
                return Ok(Accepted::None);
            }
            if let Ok(connection) = platform::accept(self.listener.borrow(), self.nonblocking) {
                return Ok(self.admit(connection));
            }
        }
        if !is_readable(self.listener.borrow(), Some(Duration::ZERO))? {
            return Ok(Accepted::WouldBlock);
        }
        let Some(mut spare) = self.spare.take_if(SpareFd::reopen) else { return Ok(Accepted::Later) };
        spare.release();
        let accepted = match platform::accept(self.listener.borrow(), self.nonblocking) {
            Ok(connection) => {
                self.refuse(connection);
                Ok(Accepted::None)
            }
            // Another thread took the released descriptor.
            Err(Errno::MFILE | Errno::NFILE) => Ok(Accepted::Later),
            Err(error) => classify_accept_error(error),
        };
        spare.reopen();
        self.spare = Some(spare);
        accepted
    }
}

/// Whether a descriptor becomes readable before a signal and before the timeout, which must be less than a second.
pub(crate) fn is_readable(descriptor: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(|timeout| Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() });
    match rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Classifies an error of accept other than a lack of descriptors.
pub fn classify_accept_error(error: Errno) -> io::Result<Accepted> {
    match error {
        Errno::AGAIN => Ok(Accepted::WouldBlock),
        error if concerns_one_connection(error) => Ok(Accepted::None),
        // The listener was shut down.
        Errno::INVAL => Ok(Accepted::Shutdown),
        // The connection still waits, and the error may pass: memory is freed, or a firewall changes its rules.
        Errno::NOBUFS | Errno::NOMEM | Errno::PERM => Ok(Accepted::Later),
        error => Err(error.into()),
    }
}

/// Whether the next connection can be accepted: the error concerns one connection, or is EINTR. The list is that of accept(2).
fn concerns_one_connection(error: Errno) -> bool {
    #[cfg(target_os = "linux")]
    if error == Errno::NONET {
        return true;
    }
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
    )
}

/// Sets the options of an accepted connection; fails if the peer has gone.
pub fn set_options(connection: impl AsFd, tcp: bool) -> rustix::io::Result<()> {
    if tcp { sockopt::set_tcp_nodelay(connection, true) } else { Ok(()) }
}

/// Sets a timeout for a blocking accept4. Accepted TCP connections inherit it on Linux, Unix ones do not. It does not affect
/// non-blocking connections.
pub fn set_accept_timeout(listener: impl AsFd, timeout: Duration) -> rustix::io::Result<()> {
    sockopt::set_socket_timeout(listener, sockopt::Timeout::Recv, Some(timeout))
}

/// Sets a timeout for blocking reads and writes of a connection.
pub fn set_io_timeout(connection: impl AsFd, timeout: Duration) {
    let _ = sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, Some(timeout));
    let _ = sockopt::set_socket_timeout(&connection, sockopt::Timeout::Send, Some(timeout));
}

/// Makes every accept of a listener report a shutdown, now and later.
pub fn shut_down(listener: impl AsFd) {
    if platform::SHUTDOWN_WAKES_ACCEPT && !is_tcp(&listener) {
        // After a Unix socket's shutdown a non-blocking accept fails with EAGAIN on Linux, so make the listener block.
        let _ = rustix::io::ioctl_fionbio(&listener, false);
    }
    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
}

/// Makes the next close send a reset: the client sees it at once, and no socket stays in TIME_WAIT.
pub fn reset(connection: impl AsFd) {
    // If this fails, or on a Unix socket, the client sees an end of stream.
    let _ = sockopt::set_socket_linger(&connection, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn free_port_can_be_bound_and_is_outside_the_system_range() {
        let ports: Vec<u16> = (0..8).map(|_| free_port((Ipv4Addr::LOCALHOST, 0).into()).unwrap().port()).collect();
        assert!(ports.iter().any(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()), "{ports:?}");
        if let Ok(range) = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range") {
            let first: u16 = range.split_whitespace().next().unwrap().parse().unwrap();
            let different: BTreeSet<u16> =
                ports.iter().copied().filter(|port| (FREE_PORT_MIN..first).contains(port)).collect();
            assert!(first < 11_000 || different.len() == ports.len(), "{ports:?}");
        }
    }

    #[test]
    fn accept_error_is_per_connection_temporary_or_fatal() {
        let after = |error| classify_accept_error(error).map_err(|error| error.to_string());
        // From accept(2), "Error handling".
        let per_connection = [
            Errno::NETDOWN,
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::HOSTDOWN,
            #[cfg(target_os = "linux")]
            Errno::NONET,
            Errno::HOSTUNREACH,
            Errno::OPNOTSUPP,
            Errno::NETUNREACH,
        ];
        for error in per_connection.into_iter().chain([Errno::CONNABORTED, Errno::INTR]) {
            assert!(matches!(after(error), Ok(Accepted::None)), "{error}");
        }
        for error in [Errno::NOMEM, Errno::NOBUFS, Errno::PERM] {
            assert!(matches!(after(error), Ok(Accepted::Later)), "{error}");
        }
        assert!(matches!(after(Errno::AGAIN), Ok(Accepted::WouldBlock)));
        assert!(matches!(after(Errno::INVAL), Ok(Accepted::Shutdown)));
        for error in [Errno::BADF, Errno::NOTSOCK, Errno::FAULT] {
            after(error).unwrap_err();
        }
    }
}
