//! A server that delays each response by a known time. The client must then measure that time.
//!
//! It is not an architecture under test. Its one thread never sleeps, so it adds the same few microseconds to every delay. Its
//! log contains the actual delays, from the end of the read to the beginning of the write.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::sockopt;
use wire::{Address, ServiceSpec};

use crate::config::Transport;
use crate::error::LoadError;
use crate::io::platform::Pinned;
use crate::io::poller::{EVENTS_MAX, Events, Poller};

/// The poller's number for the listener or for the only datagram socket.
const FIRST: usize = usize::MAX;

/// The number of Unix sockets made in this process, as a suffix for unique names.
static SOCKETS: AtomicU32 = AtomicU32::new(0);

/// A request whose response was delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRequest {
    /// The number of the peer that sent the request. Peers are numbered in the order of the client's connections.
    pub peer: u32,
    /// The actual delay of its response, in nanoseconds.
    pub held_ns: u64,
}

/// A running reflector. Dropping it stops it.
#[derive(Debug)]
pub struct Reflector {
    address: Address,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Vec<HeldRequest>>>>,
}

impl Reflector {
    /// Starts a reflector on 127.0.0.1 or on a Unix socket, on the CPU `cpu` if given. `next_delay` returns the delay of the
    /// next request. Responses keep their order on each connection, so an earlier response may delay a later one.
    pub fn start(
        transport: Transport,
        service: &ServiceSpec,
        cpu: Option<usize>,
        next_delay: impl FnMut() -> Duration + Send + 'static,
    ) -> Result<Self, LoadError> {
        let failed = |error| LoadError::System { what: "cannot run the reflector", error };
        let (first, address) = First::open(transport).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut reflector = Self { address, stop: stop.clone(), thread: None };
        let mut reflecting = Reflecting::new(first, service, next_delay).map_err(failed)?;
        let _pinned = Pinned::to(cpu.as_slice())?;
        let run = move || reflecting.run(&stop).map(|()| reflecting.log);
        reflector.thread = Some(thread::Builder::new().name("reflector".into()).spawn(run).map_err(failed)?);
        Ok(reflector)
    }

    /// The listening address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops the reflector. Returns the actual delay of each response that came due, in the order of the due times.
    pub fn stop(mut self) -> Result<Vec<HeldRequest>, LoadError> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().expect("only `stop` and `drop` join the thread");
        let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
        result.map_err(|error| LoadError::System { what: "cannot run the reflector", error })
    }
}

impl Drop for Reflector {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = self.address.path() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The listener or the only datagram socket.
enum First {
    Listener(OwnedFd),
    Datagrams(UdpSocket),
}

impl First {
    fn open(transport: Transport) -> io::Result<(Self, Address)> {
        match transport {
            Transport::Tcp => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                let address = listener.local_addr()?.into();
                Ok((Self::Listener(listener.into()), address))
            }
            Transport::Udp => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
                let address = socket.local_addr()?.into();
                Ok((Self::Datagrams(socket), address))
            }
            Transport::Unix => {
                let number = SOCKETS.fetch_add(1, Relaxed);
                let path = std::env::temp_dir().join(format!("muxbench-reflector-{}-{number}", std::process::id()));
                let address = Address::unix(path.clone()).map_err(io::Error::other)?;
                Ok((Self::Listener(UnixListener::bind(&path)?.into()), address))
            }
        }
    }
}

impl AsFd for First {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(listener) => listener.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }
}

struct Stream {
    io: OwnedFd,
    /// The received part of an incomplete request, in bytes.
    received_bytes: usize,
}

struct Reflecting<H> {
    first: First,
    poller: Poller,
    request_bytes: usize,
    response: Vec<u8>,
    next_delay: H,
    streams: Vec<Option<Stream>>,
    /// Addresses of peers that send datagrams, by number. `numbers` is the inverse.
    addresses: Vec<SocketAddr>,
    numbers: HashMap<SocketAddr, usize>,
    /// The due time of each peer's last response.
    last_due: Vec<Option<Instant>>,
    /// Delayed responses: due time, order of arrival, time of arrival, and peer.
    held: BinaryHeap<Reverse<(Instant, u64, Instant, usize)>>,
    arrived: u64,
    log: Vec<HeldRequest>,
    inbox: Vec<u8>,
}

impl<H: FnMut() -> Duration> Reflecting<H> {
    fn new(first: First, service: &ServiceSpec, next_delay: H) -> io::Result<Self> {
        let Some((request_bytes, response_bytes)) = service.fixed() else {
            return Err(io::Error::other("the service must be `fixed`"));
        };
        let poller = Poller::new()?;
        rustix::io::ioctl_fionbio(&first, true)?;
        poller.add(first.as_fd(), FIRST)?;
        Ok(Self {
            first,
            poller,
            request_bytes: request_bytes as usize,
            response: vec![0x5a; response_bytes as usize],
            next_delay,
            streams: Vec::new(),
            addresses: Vec::new(),
            numbers: HashMap::new(),
            last_due: Vec::new(),
            held: BinaryHeap::new(),
            arrived: 0,
            log: Vec::new(),
            inbox: Vec::with_capacity(64 << 10),
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !stop.load(Relaxed) {
            self.release(stop)?;
            self.poller.wait(&mut events, Duration::ZERO)?;
            for (at, _) in events.iter() {
                match (at, &self.first) {
                    (FIRST, First::Listener(_)) => self.accept()?,
                    (FIRST, First::Datagrams(_)) => self.receive_datagrams()?,
                    (at, _) => self.receive(at),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match rustix::net::accept(&self.first) {
                Ok(io) => {
                    // A Unix socket does not have this option.
                    let _ = sockopt::set_tcp_nodelay(&io, true);
                    rustix::io::ioctl_fionbio(&io, true)?;
                    self.poller.add(io.as_fd(), self.streams.len())?;
                    self.streams.push(Some(Stream { io, received_bytes: 0 }));
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&mut self, at: usize) {
        let Some(stream) = &mut self.streams[at] else { return };
        self.inbox.clear();
        match rustix::io::read(&stream.io, spare_capacity(&mut self.inbox)) {
            Ok(count) if count > 0 => {
                let now = Instant::now();
                stream.received_bytes += count;
                let requests = stream.received_bytes / self.request_bytes;
                stream.received_bytes %= self.request_bytes;
                (0..requests).for_each(|_| self.keep(at, now));
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The connection ended or failed: drop its delayed responses.
            _ => self.streams[at] = None,
        }
    }

    fn receive_datagrams(&mut self) -> io::Result<()> {
        self.inbox.resize(self.inbox.capacity(), 0);
        loop {
            let First::Datagrams(socket) = &self.first else { return Ok(()) };
            match socket.recv_from(&mut self.inbox) {
                Ok((_, from)) => {
                    let now = Instant::now();
                    let peer = *self.numbers.entry(from).or_insert_with(|| {
                        self.addresses.push(from);
                        self.addresses.len() - 1
                    });
                    self.keep(peer, now);
                }
                // ICMP reports a closed client port.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, peer: usize, now: Instant) {
        if self.last_due.len() <= peer {
            self.last_due.resize(peer + 1, None);
        }
        let earliest = self.last_due[peer].unwrap_or(now);
        let due = earliest.max(now + (self.next_delay)());
        self.last_due[peer] = Some(due);
        self.held.push(Reverse((due, self.arrived, now, peer)));
        self.arrived += 1;
    }

    /// Sends all responses that are due.
    fn release(&mut self, stop: &AtomicBool) -> io::Result<()> {
        while let Some(&Reverse((due, _, arrived, peer))) = self.held.peek() {
            let now = Instant::now();
            if now < due {
                return Ok(());
            }
            self.held.pop();
            self.log.push(HeldRequest { peer: peer as u32, held_ns: (now - arrived).as_nanos() as u64 });
            self.answer(peer, stop);
        }
        Ok(())
    }

    fn answer(&self, peer: usize, stop: &AtomicBool) {
        let mut rest = &self.response[..];
        while !rest.is_empty() && !stop.load(Relaxed) {
            let written = match &self.first {
                First::Listener(_) => match &self.streams[peer] {
                    Some(stream) => rustix::io::write(&stream.io, rest).map_err(io::Error::from),
                    None => return,
                },
                First::Datagrams(socket) => socket.send_to(rest, self.addresses[peer]),
            };
            match written {
                Ok(count) => rest = &rest[count..],
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // On a connection, the next read reports its end. A datagram may be lost.
                Err(_) => return,
            }
        }
    }
}
