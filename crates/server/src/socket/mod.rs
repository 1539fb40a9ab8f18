//! Sockets, with the same options in every architecture.

pub(crate) mod destination;
pub mod ports;
pub(crate) mod spare_fd;
pub mod unix;

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

/// ConnectionTable that may wait for accept; the kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// The lowest port that is chosen for a server, above those that services commonly have.
const FREE_PORT_MIN: u16 = 10_000;

/// From one such port to the next: a prime, so that it comes to all, and more than a service of datagrams has in a row.
const FREE_PORT_STRIDE: u64 = 7919;

/// How often such a port is tried, before the system chooses.
const FREE_PORT_TRIES: u32 = 32;

/// How long who cannot accept for want of memory or descriptors waits before it tries again.
pub const PAUSE: Duration = Duration::from_millis(1);

/// A socket with an address.
#[derive(Debug)]
pub struct Bound {
    /// A Unix socket's file, which is removed with this.
    pub file: Option<SocketFile>,
    /// Where it is, with the port that the kernel chose.
    pub address: Address,
    /// It.
    pub socket: OwnedFd,
}

/// A listening socket.
///
/// # Errors
/// As socket(2), bind(2) and listen(2) have them, and when a Unix socket's path is somebody else's.
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

/// A socket that holds an address for listeners to come ([`listen_reuseport`]), and that address. It does not listen: the
/// kernel would give it connections, too.
///
/// # Errors
/// As socket(2) and bind(2) have them; a Unix socket cannot be held.
pub fn reserve_address(address: &Address) -> io::Result<Bound> {
    let address = address.ip().ok_or(io::ErrorKind::Unsupported)?;
    let socket = bind(address, false, true)?;
    Ok(Bound { address: address_of(&socket)?.into(), socket, file: None })
}

/// One more listener at the address of `holder`; the kernel divides connections among them by a hash.
///
/// # Errors
/// As socket(2), bind(2) and listen(2) have them.
pub fn listen_reuseport(holder: &OwnedFd) -> io::Result<OwnedFd> {
    let listener = bind(address_of(holder)?, false, true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn bind(address: SocketAddr, nonblocking: bool, reuseport: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = platform::socket(family, nonblocking)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if reuseport {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// `any` with a port that nobody has, for a server that will bind it later. Where the system leaves some, one that it chooses for
/// nobody: meanwhile it may choose any other for a connection.
///
/// # Errors
/// As socket(2) and bind(2) have them.
pub fn free_port(any: SocketAddr) -> io::Result<SocketAddr> {
    let chosen = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = chosen.split_whitespace().next().and_then(|first| first.parse().ok());
    let end = first.filter(|&first| first > FREE_PORT_MIN).unwrap_or(u16::MAX);
    // Begun anywhere; a process has the same one again only after all others, and those next to each other far apart in time.
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| (RandomState::new().hash_one(()) >> 32).into());
    let some = (0..FREE_PORT_TRIES)
        .map(|_| FREE_PORT_MIN + (NEXT.fetch_add(FREE_PORT_STRIDE, Relaxed) % u64::from(end - FREE_PORT_MIN)) as u16);
    // The rest of it stays: a link-local address is of an interface.
    let bound = |port| {
        let mut address = any;
        address.set_port(port);
        TcpListener::bind(address)
    };
    let free = some.filter_map(|port| bound(port).ok()).next();
    free.map_or_else(|| bound(0), Ok)?.local_addr()
}

fn address_of(socket: &OwnedFd) -> io::Result<SocketAddr> {
    rustix::net::getsockname(socket)?.try_into().map_err(io::Error::from)
}

/// Whether a socket is of TCP, and not a Unix socket.
pub fn is_tcp(socket: impl AsFd) -> bool {
    rustix::net::getsockname(socket).map_or(true, |address| address.address_family() != AddressFamily::UNIX)
}

/// Accepts connections and, where descriptors run out, turns them away instead of leaving them to wait.
#[derive(Debug)]
pub struct Acceptor<'a> {
    listener: &'a OwnedFd,
    /// Whether accept4 waits.
    waits: bool,
    /// Whether connections are non-blocking.
    nonblocking: bool,
    /// Whether connections are of TCP.
    tcp: bool,
    counters: &'a Counters,
    /// With which connections are turned away where descriptors run out, if they are.
    spare: Option<SpareFd>,
}

/// What came of one attempt to accept.
#[derive(Debug)]
pub enum Accepted {
    /// A connection to be served.
    Connection(OwnedFd),
    /// A connection came and was turned away, or went before it was taken.
    None,
    /// No connection waits.
    WouldBlock,
    /// There is neither memory nor a descriptor for the one that waits, not even to turn it away: others are to be served
    /// before it is tried again.
    Later,
    /// The listener was shut down.
    Shutdown,
}

impl<'a> Acceptor<'a> {
    /// Accepts from `listener`; connections are non-blocking if it is.
    ///
    /// # Errors
    /// When the reserve descriptor cannot be opened.
    pub fn new(listener: &'a OwnedFd, nonblocking: bool, counters: &'a Counters) -> io::Result<Self> {
        Ok(Self { waits: !nonblocking, ..Self::for_hand_over(listener, nonblocking, counters)? })
    }

    /// Accepts from a `listener` that blocks; connections are non-blocking if asked.
    ///
    /// # Errors
    /// When the reserve descriptor cannot be opened.
    pub fn for_hand_over(listener: &'a OwnedFd, nonblocking: bool, counters: &'a Counters) -> io::Result<Self> {
        let (tcp, spare) = (is_tcp(listener), Some(SpareFd::new()?));
        Ok(Self { listener, waits: true, nonblocking, tcp, counters, spare })
    }

    /// That of one worker of a pool, for blocking connections. Where descriptors run out it leaves connections to workers
    /// that have one.
    pub fn for_pool_worker(listener: &'a OwnedFd, counters: &'a Counters) -> Self {
        let tcp = is_tcp(listener);
        Self { listener, waits: true, nonblocking: false, tcp, counters, spare: None }
    }

    /// One accept4. One that waits pauses, too, where there is nothing to accept with.
    ///
    /// # Errors
    /// Errors that are not a connection's but the listener's.
    pub fn accept(&mut self) -> io::Result<Accepted> {
        self.counters.syscalls_of(Syscall::Accept, platform::ACCEPT_SYSCALLS);
        let failed = match platform::accept(self.listener, self.nonblocking) {
            Ok(connection) => return Ok(self.admit(connection)),
            Err(Errno::MFILE | Errno::NFILE) => self.reject_waiting()?,
            Err(error) => classify_accept_error(error)?,
        };
        let is_over = self.waits && matches!(failed, Accepted::Later) && self.is_shut_down(PAUSE);
        Ok(if is_over { Accepted::Shutdown } else { failed })
    }

    /// Whether the listener is shut down, within a part of a second: an accept that is forbidden does not say so.
    pub fn is_shut_down(&self, within: Duration) -> bool {
        let mut listener = [PollFd::new(self.listener, PollFlags::empty())];
        let timeout = Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() };
        rustix::event::poll(&mut listener, Some(&timeout)).is_ok() && listener[0].revents().contains(PollFlags::HUP)
    }

    /// What came of an accept that the kernel did by itself.
    ///
    /// Without descriptors the reserve is given up, and the next connection gets it. If by then there is no other, that
    /// connection is turned away, and the descriptor is the reserve again.
    ///
    /// # Errors
    /// As [`Acceptor::accept`].
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

    /// Counts a connection that was accepted and cannot be served, and closes it.
    pub fn refuse(&self, connection: OwnedFd) {
        self.counters.refused.add(1);
        reset(connection);
    }

    /// Whether a connection that was accepted, here or by other means, may stay: who turns connections away has to be able to.
    pub fn has_room(&mut self) -> bool {
        self.spare.as_mut().is_none_or(SpareFd::leaves_room)
    }

    /// There is no descriptor: closes the connection that waits, which would otherwise be reported ready, and fail to be
    /// accepted, for ever. A worker of a pool leaves it to others.
    ///
    /// # Errors
    /// Errors of the listener.
    pub fn reject_waiting(&mut self) -> io::Result<Accepted> {
        if self.spare.is_none() {
            return Ok(Accepted::Later);
        }
        // The kernel looks for a descriptor before it looks for a connection: perhaps none waits yet, and by the time
        // one comes there may be a descriptor for it.
        if self.waits && platform::SHUTDOWN_WAKES_ACCEPT {
            if !self.has_pending(-1)? {
                return Ok(Accepted::None);
            }
            if let Ok(connection) = platform::accept(self.listener, self.nonblocking) {
                return Ok(self.admit(connection));
            }
        }
        if !self.has_pending(0)? {
            return Ok(Accepted::WouldBlock);
        }
        let Some(mut spare) = self.spare.take_if(SpareFd::reopen) else { return Ok(Accepted::Later) };
        spare.release();
        let accepted = match platform::accept(self.listener, self.nonblocking) {
            Ok(connection) => {
                self.refuse(connection);
                Ok(Accepted::None)
            }
            // Somebody else has taken it.
            Err(Errno::MFILE | Errno::NFILE) => Ok(Accepted::Later),
            Err(error) => classify_accept_error(error),
        };
        spare.reopen();
        self.spare = Some(spare);
        accepted
    }

    /// Whether a connection waits, or the listener was shut down, within a time in milliseconds; −1 is for ever.
    fn has_pending(&self, timeout_ms: i32) -> io::Result<bool> {
        let timeout = (timeout_ms >= 0).then(|| Timespec { tv_sec: 0, tv_nsec: i64::from(timeout_ms) * 1_000_000 });
        match rustix::event::poll(&mut [PollFd::new(self.listener, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What an error of accept says that is not for want of descriptors.
///
/// # Errors
/// Those that are the listener's.
pub fn classify_accept_error(error: Errno) -> io::Result<Accepted> {
    match error {
        Errno::AGAIN => Ok(Accepted::WouldBlock),
        error if concerns_one_connection(error) => Ok(Accepted::None),
        // What shutdown(2) of a listening socket gives.
        Errno::INVAL => Ok(Accepted::Shutdown),
        error if is_temporary(error) => Ok(Accepted::Later),
        error => Err(error.into()),
    }
}

/// Whether an error of accept is that of the one connection, which has gone, or of none: the next one is to be taken. These are
/// what accept(2) says to treat so.
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

/// Whether an error of accept leaves the connection to wait, and may pass: memory comes back, and who forbids it (a firewall, a
/// security module) may be told otherwise.
fn is_temporary(error: Errno) -> bool {
    matches!(error, Errno::NOBUFS | Errno::NOMEM | Errno::PERM)
}

/// Sets the options of an accepted connection, those of TCP if it is of TCP; fails when the peer has gone already.
///
/// # Errors
/// As setsockopt(2) has them.
pub fn set_options(connection: impl AsFd, tcp: bool) -> rustix::io::Result<()> {
    if tcp { sockopt::set_tcp_nodelay(connection, true) } else { Ok(()) }
}

/// Has a blocking accept4 give up after a time. ConnectionTable inherit it, which means nothing to those that never block.
///
/// # Errors
/// As setsockopt(2) has them.
pub fn set_accept_timeout(listener: impl AsFd, timeout: Duration) -> rustix::io::Result<()> {
    sockopt::set_socket_timeout(listener, sockopt::Timeout::Recv, Some(timeout))
}

/// Has a blocking read or write of a connection give up after a time.
pub fn set_io_timeout(connection: impl AsFd, timeout: Duration) {
    // Neither fails for a connection.
    let _ = sockopt::set_socket_timeout(&connection, sockopt::Timeout::Recv, Some(timeout));
    let _ = sockopt::set_socket_timeout(&connection, sockopt::Timeout::Send, Some(timeout));
}

/// Has every accept of a listener say that it was shut down, now and from now on.
pub fn shut_down(listener: impl AsFd) {
    if platform::SHUTDOWN_WAKES_ACCEPT && !is_tcp(&listener) {
        // Linux tells of a Unix socket's shutdown only to an accept that may wait; one that may not is told that nobody
        // waits (EAGAIN), while poll(2) goes on to report the listener. None waits for long: the next line wakes it.
        let _ = rustix::io::ioctl_fionbio(&listener, false);
    }
    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
}

/// Has the coming close be a reset, which the client sees at once and which leaves nothing in TIME_WAIT. A Unix socket knows
/// no such thing: its client sees an end of stream.
pub fn reset(connection: impl AsFd) {
    // Best effort: without it the client sees an end of stream.
    let _ = sockopt::set_socket_linger(&connection, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_free_port_can_be_bound_and_is_nobody_s_by_chance() {
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
    fn an_error_of_accept_is_a_connection_s_or_waits_or_ends_the_server() {
        let after = |error| classify_accept_error(error).map_err(|error| error.to_string());
        // Those of accept(2), "Error handling".
        let of_one = [
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
        for error in of_one.into_iter().chain([Errno::CONNABORTED, Errno::INTR]) {
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
