//! Broken and malicious clients. A server must continue to serve other clients beside them. A client takes one action at a time
//! and never waits, so one thread runs as many clients as there are descriptors.

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

/// The byte limit of one `Send` action.
const FILL_BYTES_MAX: usize = 1 << 20;
/// The write limit of one `Send` action, for small datagrams.
const FILL_WRITES_MAX: usize = 200;
/// The byte limit of one read.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes per write of an endless input.
const ENDLESS_BYTES: usize = 64 << 10;
/// The byte limit of one write of garbage.
const GARBAGE_BYTES_MAX: usize = 2048;
/// The size of responses that together exceed the default socket buffers.
const MUCH_BYTES: u64 = 16 << 20;

/// An action of a client.
enum Act<'a> {
    /// Writes the bytes this many times, or until the socket accepts no more. While earlier bytes are unsent, writes only them.
    Send(Cow<'a, [u8]>, usize),
    /// Reads up to this many bytes.
    Read(usize),
    Wait,
    /// Shuts down the sending side.
    HalfClose,
    /// Closes the connection, and reconnects at the next action.
    Close,
    /// Resets the connection, and reconnects at the next action.
    Reset,
}

fn send(bytes: &[u8]) -> Act<'_> {
    Act::Send(bytes.into(), 1)
}

/// A kind of misbehaviour: a row of [`MANNERS`].
pub struct Manner {
    /// The name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Selects the next action, given the number of earlier actions on the connection.
    act: for<'a> fn(&'a Inputs, u32, &mut Xoshiro256PlusPlus) -> Act<'a>,
}

impl std::fmt::Debug for Manner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

macro_rules! manners {
    ($($name:literal, $about:literal, $act:expr;)+) => { &[$(Manner { name: $name, about: $about, act: $act }),+] };
}

/// All kinds of misbehaviour.
pub const MANNERS: &[Manner] = manners! {
    "half", "begins a request and sends nothing more",
        |inputs, step, _| if step == 0 { send(&inputs.half) } else { Act::Wait };
    "half-closed", "begins a request and shuts down its sending side", |inputs, step, _| match step {
        0 => send(&inputs.half),
        1 => Act::HalfClose,
        2..4 => Act::Wait,
        _ => Act::Close,
    };
    "slow-writer", "begins a request and continues it byte by byte",
        |inputs, step, _| send(if step == 0 { &inputs.half } else { &inputs.more });
    "slow-reader", "requests many bytes and reads them one by one",
        |inputs, step, _| if step == 0 { send(&inputs.much) } else { Act::Read(1) };
    "deaf", "requests many bytes again and again, and reads none",
        |inputs, _, _| Act::Send((&*inputs.much).into(), FILL_WRITES_MAX);
    "garbage", "sends random bytes, resets the connection, and repeats", |_, step, random| match step {
        0 => {
            let count = random.random_range(1..=GARBAGE_BYTES_MAX);
            Act::Send((0..count).map(|_| random.random::<u8>()).collect::<Vec<_>>().into(), 1)
        }
        1 => Act::Read(READ_BYTES_MAX),
        _ => Act::Reset,
    };
    "beyond", "sends sizes beyond all limits", |inputs, step, random| match step {
        0 => send(&inputs.beyond[random.random_range(0..inputs.beyond.len())]),
        1..4 => Act::Read(READ_BYTES_MAX),
        _ => Act::Close,
    };
    "endless", "sends an endless line, head, body or value, and reads responses", |inputs, step, random| match step {
        0 => send(&inputs.begun[random.random_range(0..inputs.begun.len())]),
        step if step % 2 == 1 => send(&inputs.endless),
        _ => Act::Read(READ_BYTES_MAX),
    };
    "heavy", "repeats the largest valid request, and reads the responses",
        |inputs, step, _| if step % 2 == 0 { send(&inputs.heavy) } else { Act::Read(READ_BYTES_MAX) };
    "reset", "resets the connection within a response", |inputs, step, _| match step {
        0 => send(&inputs.much),
        1 => Act::Read(READ_BYTES_MAX),
        _ => Act::Reset,
    };
    "flood", "connects, and closes or resets the connection at once",
        |_, _, random| if random.random() { Act::Close } else { Act::Reset };
};

/// Returns the manner with this name.
pub fn manner(name: &str) -> Option<&'static Manner> {
    MANNERS.iter().find(|manner| manner.name == name)
}

/// Inputs to a service.
struct Inputs {
    /// The beginning of a request.
    half: Vec<u8>,
    /// Bytes that continue the request without completing it for a long time.
    more: Vec<u8>,
    /// Whole requests for more bytes than socket buffers hold.
    much: Vec<u8>,
    /// Requests with impossible sizes.
    beyond: Vec<Vec<u8>>,
    /// Beginnings of endless input; `endless` continues each. For a service that accepts any bytes, endless input is legal.
    begun: Vec<Vec<u8>>,
    endless: Vec<u8>,
    /// A whole request, slightly below the size limit.
    heavy: Vec<u8>,
}

impl Inputs {
    fn of(service: &ServiceSpec) -> Self {
        let all = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        let long = |letter: &str| letter.repeat(100_000);
        match service {
            &ServiceSpec::Fixed { request_bytes, response_bytes } => {
                Self::sized(request_bytes.into(), response_bytes.into())
            }
            ServiceSpec::Stream(stream) => {
                let (request_bytes, response_bytes) = stream.sizes(false);
                Self::sized(request_bytes.min(FILL_BYTES_MAX as u64), response_bytes)
            }
            &ServiceSpec::Udp { request_bytes, response_bytes, .. } => {
                let any = |count: u32| vec![1; count as usize];
                Self {
                    half: any(request_bytes - 1),
                    much: any(request_bytes),
                    beyond: vec![any(request_bytes + 1), any(wire::udp::DATAGRAM_BYTES_MAX)],
                    endless: any(request_bytes),
                    ..Self::sized(request_bytes.into(), response_bytes.into())
                }
            }
            ServiceSpec::Kv { .. } => Self {
                half: "set hostile 0 0 500000\r\nbegun".into(),
                more: "x".into(),
                much: format!(
                    "set hostile-much 0 0 100000\r\n{}\r\n{}",
                    long("x"),
                    "get hostile-much\r\n".repeat(MUCH_BYTES as usize / 100_000)
                )
                .into(),
                beyond: all(&[
                    &format!("set hostile 0 0 4294967295\r\n{}", long("x")),
                    "set hostile 0 0 99999999999999999999\r\n",
                    "set hostile 0 0 -1\r\n",
                    &format!("get {}", long("k")),
                    &format!("get{}", " k".repeat(50_000)),
                    &long("x"),
                ]),
                begun: all(&[
                    "x",
                    "get ",
                    "get k ",
                    "set hostile-endless 0 0 1000000\r\n",
                    "set hostile-endless 0 0 4294967295\r\n",
                ]),
                endless: vec![b'x'; ENDLESS_BYTES],
                heavy: format!("set hostile-heavy 0 0 1000000\r\n{}\r\n", "x".repeat(1_000_000)).into(),
            },
            ServiceSpec::Redis { .. } => Self {
                half: "*3\r\n$3\r\nSET\r\n$7\r\nhostile\r\n$500000\r\nbegun".into(),
                more: "x".into(),
                much: format!(
                    "*3\r\n$3\r\nSET\r\n$12\r\nhostile-much\r\n$100000\r\n{}\r\n{}",
                    long("x"),
                    "*2\r\n$3\r\nGET\r\n$12\r\nhostile-much\r\n".repeat(MUCH_BYTES as usize / 100_000)
                )
                .into(),
                beyond: all(&[
                    "*2147483648\r\n",
                    "*99999999999999999999\r\n",
                    "*1\r\n$536870913\r\n",
                    "*1\r\n$-1\r\n",
                    &format!("*1000000\r\n{}", "$1\r\nk\r\n".repeat(200_000)),
                    &format!("MGET{}", " k".repeat(50_000)),
                    &long("x"),
                ]),
                begun: all(&[
                    "x",
                    "MGET k ",
                    "*",
                    "*1000000\r\n$1000000\r\n",
                    "*3\r\n$3\r\nSET\r\n$15\r\nhostile-endless\r\n$1000000\r\n",
                    "*3\r\n$3\r\nSET\r\n$15\r\nhostile-endless\r\n$4294967295\r\n",
                ]),
                endless: vec![b'x'; ENDLESS_BYTES],
                heavy: format!("*3\r\n$3\r\nSET\r\n$13\r\nhostile-heavy\r\n$1000000\r\n{}\r\n", "x".repeat(1_000_000))
                    .into(),
            },
            ServiceSpec::Http { .. } => {
                let put = |rest: &str| format!("PUT / HTTP/1.1\r\nHost: h\r\n{rest}");
                let chunked = |rest: &str| put(&format!("Transfer-Encoding: chunked\r\n\r\n{rest}"));
                Self {
                    half: "GET /bytes/5 HTTP/1.1\r\nHost: h\r\nA: ".into(),
                    more: "a".into(),
                    much: "GET /bytes/100000000 HTTP/1.1\r\nHost: h\r\n\r\n".into(),
                    beyond: all(&[
                        &format!("GET /{}", long("a")),
                        &format!("GET / HTTP/1.1\r\nA: {}", long("a")),
                        &format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(20_000)),
                        "GET /bytes/18446744073709551615 HTTP/1.1\r\nHost: h\r\n\r\n",
                        &put("Content-Length: 18446744073709551615\r\n\r\n"),
                        &put("Content-Length: 99999999999999999999\r\n\r\n"),
                        &chunked("ffffffffffffffff\r\n"),
                        &chunked(&"1\r\na\r\n".repeat(20_000)),
                    ]),
                    begun: all(&[
                        "GET /",
                        "GET / HTTP/1.1\r\nA: ",
                        &put("Content-Length: 18446744073709551615\r\n\r\n"),
                        &chunked("fffffff\r\n"),
                        &chunked("1;x="),
                    ]),
                    endless: vec![b'a'; ENDLESS_BYTES],
                    heavy: put(&format!("Content-Length: 1000000\r\n\r\n{}", "a".repeat(1_000_000))).into(),
                }
            }
        }
    }

    /// The inputs to a service in which any bytes form requests of one size.
    fn sized(request_bytes: u64, response_bytes: u64) -> Self {
        let any = |count: u64| vec![1; count as usize];
        let requests = MUCH_BYTES.div_ceil(response_bytes).clamp(1, (FILL_BYTES_MAX as u64 / request_bytes).max(1));
        Self {
            half: any((request_bytes - 1).min(1)),
            more: any(1),
            much: any(request_bytes * requests),
            beyond: vec![any(FILL_BYTES_MAX as u64)],
            begun: vec![any(1)],
            endless: any(ENDLESS_BYTES as u64),
            heavy: any(request_bytes),
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
    pub sent_bytes: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Connections open now.
    pub open: u64,
}

struct Client {
    manner: &'static Manner,
    socket: Option<OwnedFd>,
    /// The number of actions on this connection.
    step: u32,
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
}

impl Client {
    fn new(manner: &'static Manner) -> Self {
        Self { manner, socket: None, step: 0, unsent: Vec::new() }
    }
}

/// The targets of the clients.
enum Target<'a> {
    Streams(Dialer<'a>),
    /// Ports of a datagram server, used in turn.
    Datagrams(Vec<SocketAddr>),
}

/// Several hostile clients.
pub struct Crowd<'a> {
    target: Target<'a>,
    inputs: Inputs,
    clients: Vec<Client>,
    /// The number of connections so far, which selects the next source address or port.
    number: u64,
    random: Xoshiro256PlusPlus,
    tally: Tally,
    inbox: Vec<u8>,
}

impl<'a> Crowd<'a> {
    /// Creates one client for each of `config`'s connections. Source addresses and manners are used in turn.
    pub fn new(config: &LoadConfig, sources: &'a [IpAddr], manners: &[&'static Manner]) -> Result<Self, LoadError> {
        if manners.is_empty() || config.connections == 0 {
            let why = "a crowd needs at least one client and one manner; name one of hostile::MANNERS";
            return Err(LoadError::Config(why.into()));
        }
        connect::raise_limits();
        let target = match (&config.service, config.target.ip()) {
            (ServiceSpec::Udp { ports, .. }, Some(target)) => {
                let consecutive = || wire::Ports::consecutive(target.port(), *ports);
                let found = config.ports.clone().or_else(consecutive);
                let found = found.ok_or_else(|| {
                    LoadError::Config(format!("{ports} ports from {target} on exceed 65535; lower the first port"))
                })?;
                Target::Datagrams(found.iter().map(|port| SocketAddr::new(target.ip(), port)).collect())
            }
            _ => Target::Streams(Dialer::new(config, sources)?),
        };
        let manners = manners.iter().cycle().take(config.connections as usize);
        Ok(Self {
            target,
            inputs: Inputs::of(&config.service),
            clients: manners.map(|manner| Client::new(manner)).collect(),
            number: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(config.client.seed),
            tally: Tally::default(),
            inbox: vec![0; READ_BYTES_MAX],
        })
    }

    /// Runs `count` actions, each of a random client, so that the clients are not in step.
    pub fn act(&mut self, count: usize) {
        for _ in 0..count {
            let at = self.random.random_range(0..self.clients.len());
            self.act_one(at);
        }
    }

    /// Runs one action of each client.
    pub fn act_all(&mut self) {
        (0..self.clients.len()).for_each(|at| self.act_one(at));
    }

    fn act_one(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if client.socket.is_none() {
            self.tally.begun += 1;
            client.socket = connect(&self.target, &mut self.number).ok();
            self.tally.failed += u64::from(client.socket.is_none());
        }
        let Some(socket) = &client.socket else { return };
        let next = (client.manner.act)(&self.inputs, client.step, &mut self.random);
        client.step += 1;
        let is_open = run(next, socket, &mut client.unsent, &mut self.inbox, &mut self.tally);
        self.tally.ended += u64::from(is_open.is_err());
        if is_open != Ok(true) {
            *client = Client::new(client.manner);
        }
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        Tally { open: self.clients.iter().filter(|client| client.socket.is_some()).count() as u64, ..self.tally }
    }
}

fn connect(target: &Target<'_>, number: &mut u64) -> Result<OwnedFd, Errno> {
    match target {
        Target::Streams(dialer) => dialer.begin(number).map(OwnedFd::from),
        Target::Datagrams(ports) => {
            *number += 1;
            let socket = connect::datagrams(ports[*number as usize % ports.len()]);
            socket.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

/// Runs an action, after writing the unsent bytes of earlier ones. Returns whether the connection stays open.
fn run(
    act: Act<'_>,
    socket: &OwnedFd,
    unsent: &mut Vec<u8>,
    inbox: &mut [u8],
    tally: &mut Tally,
) -> Result<bool, Errno> {
    if !unsent.is_empty() {
        let sent = write(socket, unsent)?;
        tally.sent_bytes += sent as u64;
        unsent.drain(..sent);
    }
    match act {
        Act::Send(..) if !unsent.is_empty() => {}
        Act::Send(bytes, times) => {
            let mut total = 0;
            for _ in 0..times {
                let sent = write(socket, &bytes)?;
                total += sent;
                unsent.extend_from_slice(&bytes[sent..]);
                if total >= FILL_BYTES_MAX || !unsent.is_empty() {
                    break;
                }
            }
            tally.sent_bytes += total as u64;
        }
        Act::Read(bytes_max) => {
            tally.received_bytes += read(socket, &mut inbox[..bytes_max], RecvFlags::DONTWAIT)? as u64;
        }
        Act::Wait => drop(read(socket, &mut inbox[..1], RecvFlags::DONTWAIT | RecvFlags::PEEK)?),
        // Ignore the error of a connection that is not established yet.
        Act::HalfClose => drop(rustix::net::shutdown(socket, Shutdown::Write)),
        Act::Close => return Ok(false),
        Act::Reset => {
            // A socket without SO_LINGER is closed instead.
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the number of bytes written; 0 if the buffer is full or the connection is not established yet.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match rustix::io::write(socket, bytes) {
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOTCONN) => Ok(0),
        written => written,
    }
}

/// Returns the number of bytes read, which may be 0; an error if the server has ended the connection.
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
            assert!(MANNERS[..at].iter().all(|earlier| earlier.name != row.name), "{} occurs once", row.name);
        }
        assert!(manner("polite").is_none());
    }

    #[test]
    fn client_takes_one_action_at_a_time_and_reconnects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = ServiceSpec::HTTP;
        let config = LoadConfig::new(listener.local_addr().unwrap(), service.clone()).with(|it| it.connections = 2);
        let manners = ["half", "garbage"].map(|name| manner(name).unwrap());
        let mut crowd = Crowd::new(&config, &[], &manners).unwrap();
        crowd.act_all();
        let (mut half, _) = listener.accept().unwrap();
        let (mut garbage, _) = listener.accept().unwrap();
        let mut received = vec![0; Inputs::of(&service).half.len()];
        half.read_exact(&mut received).unwrap();
        assert_eq!(received, Inputs::of(&service).half);
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
            assert!(started.elapsed() < Duration::from_secs(30), "the client notices the end within 30 s");
            crowd.act_all();
        }
    }
}
