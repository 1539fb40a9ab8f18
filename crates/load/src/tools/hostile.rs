//! Broken and malicious clients. A server must continue to serve other clients beside a crowd of them.
//!
//! A client takes one action at a time and never waits, so one thread runs as many clients as there are descriptors.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, sockopt};
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::io::connect::{self, Dialer};

/// The byte limit of one `Pour` action.
const POUR_BYTES_MAX: usize = 1 << 20;
/// The write limit of one `Pour` action, for small datagrams.
const POUR_WRITES_MAX: usize = 200;
/// The byte limit of one read.
const TAKE_BYTES_MAX: usize = 64 << 10;
/// Bytes per write of an endless input.
const ENDLESS_BYTES: usize = 64 << 10;
/// The byte limit of one write of garbage.
const GARBAGE_BYTES_MAX: usize = 2048;

/// An action of a client.
enum Act<'a> {
    /// Writes the bytes. Bytes that the socket does not accept are written before any later ones.
    Say(Cow<'a, [u8]>),
    /// Writes the bytes repeatedly until the socket accepts no more.
    Pour(&'a [u8]),
    /// Reads up to this many bytes.
    Take(usize),
    /// Does nothing.
    Wait,
    /// Shuts down the sending side.
    HalfClose,
    /// Closes the connection, and reconnects at the next action.
    Leave,
    /// Resets the connection, and reconnects at the next action.
    Reset,
}

/// A kind of misbehaviour: a row of [`MANNERS`].
pub struct Manner {
    /// The name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Selects the next action, given the number of earlier actions on the connection.
    act: for<'a> fn(&'a Words, u32, &mut Xoshiro256PlusPlus) -> Act<'a>,
}

impl std::fmt::Debug for Manner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All kinds of misbehaviour.
pub const MANNERS: &[Manner] = &[
    Manner {
        name: "half",
        about: "begins a request and says nothing more",
        act: |words, step, _| if step == 0 { Act::Say((&*words.half).into()) } else { Act::Wait },
    },
    Manner {
        name: "half-closed",
        about: "begins a request and says that nothing more comes",
        act: |words, step, _| match step {
            0 => Act::Say((&*words.half).into()),
            1 => Act::HalfClose,
            2..4 => Act::Wait,
            _ => Act::Leave,
        },
    },
    Manner {
        name: "slow-writer",
        about: "goes on with a request byte by byte",
        act: |words, step, _| Act::Say(if step == 0 { (&*words.half).into() } else { (&*words.more).into() }),
    },
    Manner {
        name: "slow-reader",
        about: "asks for much and reads it byte by byte",
        act: |words, step, _| if step == 0 { Act::Say((&*words.much).into()) } else { Act::Take(1) },
    },
    Manner {
        name: "deaf",
        about: "asks for much, again and again, and reads nothing",
        act: |words, _, _| Act::Pour(&words.much),
    },
    Manner {
        name: "garbage",
        about: "says what is no request, and is back with more",
        act: |_, step, random| match step {
            0 => {
                let count = random.random_range(1..=GARBAGE_BYTES_MAX);
                Act::Say((0..count).map(|_| random.random::<u8>()).collect::<Vec<_>>().into())
            }
            1 => Act::Take(TAKE_BYTES_MAX),
            _ => Act::Reset,
        },
    },
    Manner {
        name: "beyond",
        about: "says sizes beyond any limit",
        act: |words, step, random| match step {
            0 => Act::Say((&*words.beyond[random.random_range(0..words.beyond.len())]).into()),
            1..4 => Act::Take(TAKE_BYTES_MAX),
            _ => Act::Leave,
        },
    },
    Manner {
        name: "endless",
        about: "goes on and on with a line, a head, a body or a value, and hears what is said to that",
        act: |words, step, random| match step {
            0 => Act::Say((&*words.begun[random.random_range(0..words.begun.len())]).into()),
            step if step % 2 == 1 => Act::Say((&*words.endless).into()),
            _ => Act::Take(TAKE_BYTES_MAX),
        },
    },
    Manner {
        name: "heavy",
        about: "asks with as much as is allowed, again and again, and hears what is said to that",
        act: |words, step, _| {
            if step % 2 == 0 { Act::Say((&*words.heavy).into()) } else { Act::Take(TAKE_BYTES_MAX) }
        },
    },
    Manner {
        name: "reset",
        about: "resets in the midst of a response",
        act: |words, step, _| match step {
            0 => Act::Say((&*words.much).into()),
            1 => Act::Take(TAKE_BYTES_MAX),
            _ => Act::Reset,
        },
    },
    Manner {
        name: "flood",
        about: "connects and goes at once, without a word",
        act: |_, _, random| if random.random() { Act::Leave } else { Act::Reset },
    },
];

/// Returns the manner with this name.
pub fn manner(name: &str) -> Option<&'static Manner> {
    MANNERS.iter().find(|manner| manner.name == name)
}

/// Inputs to a service.
struct Words {
    /// The beginning of a request.
    half: Vec<u8>,
    /// Bytes that continue the request without completing it for a long time.
    more: Vec<u8>,
    /// Whole requests for more bytes than socket buffers hold.
    much: Vec<u8>,
    /// Requests with impossible sizes.
    beyond: Vec<Vec<u8>>,
    /// Beginnings of endless input; `endless` continues each. If any bytes form a valid request, endless input is legal.
    begun: Vec<Vec<u8>>,
    endless: Vec<u8>,
    /// A whole request, slightly below the size limit.
    heavy: Vec<u8>,
}

impl Words {
    fn of(service: &ServiceSpec) -> Self {
        /// More than socket buffers hold by default.
        const MUCH_BYTES: u64 = 16 << 20;
        let any = |count: u64| vec![1; count as usize];
        let requests = |request_bytes: u64, response_bytes: u64| {
            let most = (POUR_BYTES_MAX as u64 / request_bytes).max(1);
            any(request_bytes * MUCH_BYTES.div_ceil(response_bytes).clamp(1, most))
        };
        match service {
            &ServiceSpec::Fixed { request_bytes, response_bytes } => Self {
                half: any(u64::from(request_bytes - 1).min(1)),
                more: any(1),
                much: requests(request_bytes.into(), response_bytes.into()),
                beyond: vec![any(POUR_BYTES_MAX as u64)],
                begun: vec![any(1)],
                endless: any(ENDLESS_BYTES as u64),
                heavy: any(request_bytes.into()),
            },
            ServiceSpec::Stream(stream) => {
                let (request_bytes, response_bytes) = stream.sizes(false);
                Self {
                    half: any((request_bytes - 1).min(1)),
                    more: any(1),
                    much: requests(request_bytes.min(POUR_BYTES_MAX as u64), response_bytes),
                    beyond: vec![any(POUR_BYTES_MAX as u64)],
                    begun: vec![any(1)],
                    endless: any(ENDLESS_BYTES as u64),
                    heavy: any(request_bytes.min(POUR_BYTES_MAX as u64)),
                }
            }
            ServiceSpec::Kv { .. } => Self {
                half: b"set hostile 0 0 500000\r\nbegun".to_vec(),
                more: b"x".to_vec(),
                much: [
                    &b"set hostile-much 0 0 100000\r\n"[..],
                    &[b'x'; 100_000],
                    b"\r\n",
                    &b"get hostile-much\r\n".repeat(MUCH_BYTES as usize / 100_000),
                ]
                .concat(),
                beyond: vec![
                    [&b"set hostile 0 0 4294967295\r\n"[..], &[b'x'; 100_000]].concat(),
                    b"set hostile 0 0 99999999999999999999\r\n".to_vec(),
                    b"set hostile 0 0 -1\r\n".to_vec(),
                    [&b"get "[..], &[b'k'; 100_000]].concat(),
                    [&b"get"[..], &b" k".repeat(50_000)].concat(),
                    [b'x'; 100_000].to_vec(),
                ],
                begun: vec![
                    b"x".to_vec(),
                    b"get ".to_vec(),
                    b"get k ".to_vec(),
                    b"set hostile-endless 0 0 1000000\r\n".to_vec(),
                    b"set hostile-endless 0 0 4294967295\r\n".to_vec(),
                ],
                endless: vec![b'x'; ENDLESS_BYTES],
                heavy: [&b"set hostile-heavy 0 0 1000000\r\n"[..], &[b'x'; 1_000_000], b"\r\n"].concat(),
            },
            ServiceSpec::Http { .. } => Self {
                half: b"GET /bytes/5 HTTP/1.1\r\nHost: h\r\nA: ".to_vec(),
                more: b"a".to_vec(),
                much: b"GET /bytes/100000000 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
                beyond: vec![
                    [&b"GET /"[..], &[b'a'; 100_000]].concat(),
                    [&b"GET / HTTP/1.1\r\nA: "[..], &[b'a'; 100_000]].concat(),
                    [&b"GET / HTTP/1.1\r\n"[..], &b"A: b\r\n".repeat(20_000)].concat(),
                    b"GET /bytes/18446744073709551615 HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_vec(),
                    [
                        &b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
                        &b"1\r\na\r\n".repeat(20_000),
                    ]
                    .concat(),
                ],
                begun: vec![
                    b"GET /".to_vec(),
                    b"GET / HTTP/1.1\r\nA: ".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n".to_vec(),
                    b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x=".to_vec(),
                ],
                endless: vec![b'a'; ENDLESS_BYTES],
                heavy: [&b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"[..], &[b'a'; 1_000_000]]
                    .concat(),
            },
            &ServiceSpec::Udp { request_bytes, .. } => Self {
                half: any(u64::from(request_bytes - 1)),
                more: any(1),
                much: any(request_bytes.into()),
                beyond: vec![any(u64::from(request_bytes) + 1), any(wire::udp::DATAGRAM_BYTES_MAX.into())],
                begun: vec![any(1)],
                endless: any(request_bytes.into()),
                heavy: any(request_bytes.into()),
            },
        }
    }
}

/// The counts of a crowd's actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections attempted.
    pub begun: u64,
    /// Connections that could not start: no port, no descriptor or no listener.
    pub failed: u64,
    /// Connections that the server ended or never accepted.
    pub ended: u64,
    /// Bytes written.
    pub said_bytes: u64,
    /// Bytes read.
    pub taken_bytes: u64,
    /// Connections open now.
    pub open: u64,
}

/// A client.
struct Client {
    manner: &'static Manner,
    socket: Option<OwnedFd>,
    /// The number of actions on this connection.
    step: u32,
    /// Bytes that the socket has not accepted yet.
    rest: Vec<u8>,
}

/// The targets of the clients.
enum Way<'a> {
    Streams(Dialer<'a>),
    /// Ports of a datagram server, used in turn.
    Datagrams(Vec<SocketAddr>),
}

/// Several hostile clients.
pub struct Crowd<'a> {
    way: Way<'a>,
    words: Words,
    clients: Vec<Client>,
    /// The number of connections so far, which selects the source address of the next.
    number: u64,
    random: Xoshiro256PlusPlus,
    tally: Tally,
    inbox: Vec<u8>,
}

impl<'a> Crowd<'a> {
    /// Creates one client for each of `config`'s connections. Source addresses and manners alternate. A client connects at its
    /// first action.
    ///
    /// # Errors
    /// Fails if the address is invalid or there are no manners.
    pub fn new(config: &LoadConfig, sources: &'a [IpAddr], manners: &[&'static Manner]) -> Result<Self, LoadError> {
        if manners.is_empty() || config.connections == 0 {
            let why = "a crowd without clients or manners does nothing; name one of hostile::MANNERS";
            return Err(LoadError::Config(why.into()));
        }
        connect::raise_descriptor_limit();
        let way = match (&config.service, config.target.ip()) {
            (ServiceSpec::Udp { ports, .. }, Some(target)) => {
                let consecutive = || wire::Ports::consecutive(target.port(), *ports);
                let found = config.ports.clone().or_else(consecutive);
                let found = found.ok_or_else(|| {
                    LoadError::Config(format!("{target}: there are not {ports} ports from there on; lower the port"))
                })?;
                Way::Datagrams(found.iter().map(|port| SocketAddr::new(target.ip(), port)).collect())
            }
            _ => Way::Streams(Dialer::new(config, sources)?),
        };
        let manners = manners.iter().cycle().take(config.connections as usize);
        Ok(Self {
            way,
            words: Words::of(&config.service),
            clients: manners.map(|manner| Client { manner, socket: None, step: 0, rest: Vec::new() }).collect(),
            number: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            tally: Tally::default(),
            inbox: vec![0; TAKE_BYTES_MAX],
        })
    }

    /// Runs `count` actions, each of a random client, so that the clients are not in step.
    pub fn act(&mut self, count: usize) {
        for _ in 0..count {
            let at = self.random.random_range(0..self.clients.len());
            self.turn_of(at);
        }
    }

    /// Runs one action of each client.
    pub fn act_all(&mut self) {
        (0..self.clients.len()).for_each(|at| self.turn_of(at));
    }

    fn turn_of(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if client.socket.is_none() {
            self.tally.begun += 1;
            match begin(&self.way, &mut self.number) {
                Ok(socket) => client.socket = Some(socket),
                Err(_) => {
                    self.tally.failed += 1;
                    return;
                }
            }
        }
        match client.act(&self.words, &mut self.random, &mut self.inbox, &mut self.tally) {
            Ok(true) => {}
            Ok(false) => client.forget(),
            Err(_) => {
                self.tally.ended += 1;
                client.forget();
            }
        }
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        Tally { open: self.clients.iter().filter(|client| client.socket.is_some()).count() as u64, ..self.tally }
    }
}

/// Starts a connection without waiting for it.
fn begin(way: &Way<'_>, number: &mut u64) -> Result<OwnedFd, Errno> {
    match way {
        Way::Streams(dialer) => dialer.begin(number),
        Way::Datagrams(ports) => {
            *number += 1;
            let socket = connect::datagrams(ports[*number as usize % ports.len()]);
            socket.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

impl Client {
    /// Runs the next action. Returns whether the connection stays open.
    fn act(
        &mut self,
        words: &Words,
        random: &mut Xoshiro256PlusPlus,
        inbox: &mut [u8],
        tally: &mut Tally,
    ) -> Result<bool, Errno> {
        let Some(socket) = &self.socket else { return Ok(false) };
        let step = self.step;
        self.step += 1;
        if !self.rest.is_empty() {
            let said = write(socket, &self.rest)?;
            tally.said_bytes += said as u64;
            self.rest.drain(..said);
        }
        match (self.manner.act)(words, step, random) {
            // Bytes of an earlier action are still unwritten.
            Act::Say(_) | Act::Pour(_) if !self.rest.is_empty() => {}
            Act::Say(bytes) => {
                let said = write(socket, &bytes)?;
                tally.said_bytes += said as u64;
                self.rest.extend_from_slice(&bytes[said..]);
            }
            Act::Pour(bytes) => {
                let mut poured = 0;
                for _ in 0..POUR_WRITES_MAX {
                    let said = write(socket, bytes)?;
                    poured += said;
                    self.rest.extend_from_slice(&bytes[said..]);
                    if poured >= POUR_BYTES_MAX || !self.rest.is_empty() {
                        break;
                    }
                }
                tally.said_bytes += poured as u64;
            }
            Act::Take(at_most) => {
                tally.taken_bytes += read(socket, &mut inbox[..at_most], RecvFlags::DONTWAIT)? as u64;
            }
            Act::Wait => {
                read(socket, &mut inbox[..1], RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
            }
            // Ignore the error of a connection that is not established yet.
            Act::HalfClose => drop(rustix::net::shutdown(socket, Shutdown::Write)),
            Act::Leave => return Ok(false),
            Act::Reset => {
                // A socket without SO_LINGER is closed instead.
                let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Resets the client's state after the end of its connection.
    fn forget(&mut self) {
        self.socket = None;
        self.step = 0;
        self.rest = Vec::new();
    }
}

/// Returns the number of bytes written; 0 if the buffer is full or the connection is not established yet.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match rustix::io::write(socket, bytes) {
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOTCONN) => Ok(0),
        written => written,
    }
}

/// Returns the number of bytes read, which may be 0.
///
/// # Errors
/// Fails if the server has ended the connection.
fn read(socket: &OwnedFd, inbox: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    match rustix::net::recv(socket, inbox, flags) {
        Ok((0, _)) => Err(Errno::CONNRESET),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => Ok(0),
        read => read.map(|(count, _)| count),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn manners_have_unique_documented_names() {
        for (at, row) in MANNERS.iter().enumerate() {
            assert!(!row.about.is_empty() && manner(row.name).is_some(), "{}", row.name);
            assert!(MANNERS[..at].iter().all(|earlier| earlier.name != row.name), "{} is there twice", row.name);
        }
        assert!(manner("polite").is_none());
    }

    #[test]
    fn client_takes_one_action_at_a_time_and_reconnects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = ServiceSpec::Http { folder: None };
        let config = LoadConfig { connections: 2, ..LoadConfig::new(listener.local_addr().unwrap(), service.clone()) };
        let manners = ["half", "garbage"].map(|name| manner(name).unwrap());
        let mut crowd = Crowd::new(&config, &[], &manners).unwrap();
        crowd.act_all();
        let (mut half, _) = listener.accept().unwrap();
        let (mut garbage, _) = listener.accept().unwrap();
        let mut said = vec![0; Words::of(&service).half.len()];
        half.read_exact(&mut said).unwrap();
        assert_eq!(said, Words::of(&service).half);
        garbage.read_exact(&mut [0]).unwrap();
        // `garbage` reads nothing, then resets, and reconnects at the next action.
        crowd.act_all();
        crowd.act_all();
        assert_eq!((crowd.tally().begun, crowd.tally().open), (2, 1));
        crowd.act_all();
        assert_eq!((crowd.tally().begun, crowd.tally().open, crowd.tally().ended), (3, 2, 0));
        let (mut again, _) = listener.accept().unwrap();
        again.read_exact(&mut [0]).unwrap();
        // A client reconnects when the server ends its connection.
        drop(half);
        let started = std::time::Instant::now();
        while crowd.tally().ended == 0 {
            assert!(started.elapsed() < Duration::from_secs(30), "it does not see the end");
            crowd.act_all();
        }
    }
}
