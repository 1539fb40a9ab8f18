//! Verifies many connections at once: each sends one request, and receives one whole, correct response.

use std::borrow::Borrow;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::config::{LoadConfig, Transport};
use crate::io::pace::Silence;
use crate::io::platform;
use crate::protocol::{ClientProtocol, Reply, own_line};
use crate::socket::Socket;
use crate::socket::tls::Awaits;

/// The most reads of one connection in a turn: an endless response must not delay other connections or timeouts.
const READS_MAX: u32 = 16;
const INBOX_BYTES: usize = 64 << 10;
/// The least time after which a connection that is not established is not accepted: as long as the retransmission of a request takes.
const ESTABLISHED_MARGIN: Duration = Duration::from_millis(200);

/// The connections being verified. Their sockets must be non-blocking.
pub struct Verifier<'a, P: ClientProtocol, F> {
    protocol: &'a P,
    transport: Transport,
    /// Whether the server may end a connection after its response.
    may_end: bool,
    timeout: Duration,
    scratch: Vec<u8>,
    inbox: Vec<u8>,
    under_way: Vec<Connection<P, F>>,
    /// The longest time in which a connection was established, without the TLS handshake.
    slowest: Option<Duration>,
}

/// A connection that is verified, or has failed.
pub struct Through<F> {
    pub number: u64,
    pub socket: F,
    /// The end of its time.
    pub deadline: Instant,
    pub outcome: io::Result<()>,
}

struct Connection<P: ClientProtocol, F> {
    number: u64,
    socket: F,
    begun: Instant,
    deadline: Instant,
    /// Whether the server has not accepted it before.
    is_again: bool,
    reader: P::Reader,
    step: Step,
}

enum Step {
    /// The value is the event with which it continues.
    Establishing(Awaits),
    /// Waits for room for the rest of the request. The value is the number of bytes already written.
    Writing(usize),
    Reading,
}

impl<'a, P: ClientProtocol, F: Borrow<Socket>> Verifier<'a, P, F> {
    pub fn new(config: &LoadConfig, protocol: &'a P) -> Self {
        Self {
            protocol,
            transport: config.transport(),
            may_end: config.requests_per_connection().is_some(),
            timeout: Duration::from_nanos(config.client.timeout_ns),
            scratch: Vec::new(),
            inbox: Vec::with_capacity(INBOX_BYTES),
            under_way: Vec::new(),
            slowest: None,
        }
    }

    /// The number of connections under way.
    pub fn count(&self) -> usize {
        self.under_way.len()
    }

    /// Ends the connections that the server's kernel does not accept. Returns their numbers, and the ends of their time.
    pub fn take_unaccepted(&mut self) -> Vec<(u64, Instant)> {
        let longest = self.slowest.map_or(Duration::MAX, |slowest| ESTABLISHED_MARGIN + 3 * slowest);
        let taken = self.under_way.extract_if(.., |it| {
            let is_established = !matches!(it.step, Step::Establishing(Awaits::Writable));
            !is_established && it.begun.elapsed() > longest || platform::is_unaccepted(it.socket.borrow())
        });
        taken.map(|it| (it.number, it.deadline)).collect()
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Adds a connection. The end of its time is `deadline` if the server has not accepted it before.
    pub fn push(&mut self, number: u64, socket: F, deadline: Option<Instant>) {
        let (begun, is_again) = (Instant::now(), deadline.is_some());
        let deadline = deadline.unwrap_or(begun + self.timeout);
        let (reader, step) = (P::Reader::default(), Step::Establishing(Awaits::Writable));
        self.under_way.push(Connection { number, socket, begun, deadline, is_again, reader, step });
    }

    /// Waits up to `longest` for progress. Returns the finished connections.
    pub fn wait(&mut self, longest: Duration) -> io::Result<Vec<Through<F>>> {
        let now = Instant::now();
        let nearest = self.under_way.iter().map(|it| it.deadline).min().unwrap_or(now);
        let longest = longest.min(nearest.saturating_duration_since(now));
        let timeout = Timespec::try_from(longest).map_err(io::Error::other)?;
        let mut fds: Vec<PollFd<'_>> = self.under_way.iter().map(Connection::awaited).collect();
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let are_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        // Advance in order, so that a datagram server receives the first requests in order of the connections.
        let outcomes: Vec<io::Result<bool>> =
            (0..are_ready.len()).map(|at| if are_ready[at] { self.advance(at) } else { Ok(false) }).collect();
        let now = Instant::now();
        let mut through = Vec::new();
        // Remove from the end, so that earlier indices stay valid.
        for (at, outcome) in outcomes.into_iter().enumerate().rev() {
            let outcome = match outcome {
                Ok(false) if now < self.under_way[at].deadline => continue,
                Ok(false) => Err(io::Error::new(io::ErrorKind::TimedOut, self.under_way[at].silence())),
                other => other.map(drop),
            };
            let Connection { number, socket, deadline, .. } = self.under_way.remove(at);
            through.push(Through { number, socket, deadline, outcome });
        }
        through.reverse();
        Ok(through)
    }

    /// Continues a connection without blocking. Returns whether it is finished.
    fn advance(&mut self, at: usize) -> io::Result<bool> {
        let Self { protocol, scratch, inbox, slowest, .. } = self;
        let Connection { number, socket, begun, reader, step, .. } = &mut self.under_way[at];
        let socket: &Socket = (*socket).borrow();
        let greeting = protocol.greeting(*number);
        if let Step::Establishing(awaits) = step {
            let is_first = *awaits == Awaits::Writable;
            *awaits = socket.establish()?;
            *slowest = (*slowest).max(is_first.then(|| begun.elapsed()));
            if *awaits != Awaits::Nothing {
                return Ok(false);
            }
            *step = Step::Writing(0);
        }
        if let Step::Writing(written) = step {
            let request = protocol.encode(greeting, scratch);
            while *written < request.len() {
                let Some(count) = unless_blocked(|| socket.write(&request[*written..]))? else {
                    return Ok(false);
                };
                *written += count;
            }
            *step = Step::Reading;
        }
        for _ in 0..READS_MAX {
            inbox.clear();
            let Some(count) = unless_blocked(|| socket.receive(inbox))? else { break };
            let goes_on = count > 0 && socket.decrypt(inbox)?;
            let (taken, mut reply) = if inbox.is_empty() { (0, None) } else { protocol.read(greeting, reader, inbox) };
            if !goes_on {
                reply = match reply {
                    Some(Reply::Good) => Some(Reply::Last(None)),
                    None if !socket.is_cut_off() => protocol.end(greeting, reader),
                    other => other,
                };
            }
            match reply {
                Some(Reply::Good) if taken == inbox.len() => return Ok(true),
                Some(Reply::Last(None)) if taken == inbox.len() && self.may_end => return Ok(true),
                Some(Reply::Last(None)) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(_) => return Err(wrong(*protocol, reader, inbox)),
                // A datagram is a whole response or an error.
                None if !goes_on && socket.is_cut_off() => {
                    let why = "TLS ended without close_notify, so the response may lack its end";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                None if !goes_on || self.transport == Transport::Udp => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                None => {}
            }
        }
        Ok(false)
    }
}

impl<P: ClientProtocol, F: Borrow<Socket>> Connection<P, F> {
    fn silence(&self) -> Silence {
        let is_accepted = !self.is_again && !platform::is_unaccepted(self.socket.borrow());
        Silence { answered: 0, is_accepted, dropped: 0 }
    }

    fn awaited(&self) -> PollFd<'_> {
        let flags = match self.step {
            Step::Writing(_) | Step::Establishing(Awaits::Writable) => PollFlags::OUT,
            Step::Reading | Step::Establishing(_) => PollFlags::IN,
        };
        let socket: &Socket = self.socket.borrow();
        PollFd::from_borrowed_fd(socket.as_fd(), flags)
    }
}

fn unless_blocked(call: impl FnMut() -> Result<usize, Errno>) -> io::Result<Option<usize>> {
    match rustix::io::retry_on_intr(call) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns what is wrong with a response whose last bytes are `bytes`: what the protocol finds wrong, or the server's own line.
pub fn fault<P: ClientProtocol>(protocol: &P, reader: &P::Reader, bytes: &[u8]) -> Option<String> {
    let fault = protocol.fault(reader).map(|fault| format!("the response has {fault}"));
    fault.or_else(|| protocol.complaint()).or_else(|| own_line(bytes))
}

/// Returns the error of a wrong response.
fn wrong<P: ClientProtocol>(protocol: &P, reader: &P::Reader, bytes: &[u8]) -> io::Error {
    fault(protocol, reader, bytes)
        .map_or(io::ErrorKind::InvalidData.into(), |why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Describes bytes that no request asked for.
pub fn unrequested(bytes: &[u8]) -> Option<String> {
    own_line(bytes).or_else(|| Some("the server sent bytes that no request asked for".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientConfig, HttpTarget, HttpTraffic};
    use crate::protocol::{Fixed, Http};

    #[test]
    fn wrong_response_is_explained_or_quoted() {
        let quoted = |bytes: &[u8]| wrong(&Fixed::new(1, 1), &Default::default(), bytes).to_string();
        let refused = quoted(b"-NOAUTH Authentication required.\r\n");
        assert_eq!(refused, "the server answered `-NOAUTH Authentication required.`");
        assert!(!quoted(&[0; 9]).contains("answered") && !quoted(b"\r\n").contains("answered"));
        let traffic = HttpTraffic::new(vec![HttpTarget::get("/", None)]);
        let http = Http::new(&traffic, &ClientConfig::default(), &([127, 0, 0, 1], 80).into()).unwrap();
        let (mut reader, bytes) = (Default::default(), b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok");
        assert_eq!(http.read(0, &mut reader, bytes).1, Some(Reply::Garbage));
        let fault = wrong(&http, &reader, bytes).to_string();
        assert_eq!(fault, "the response has a Content-Length that is not a number");
    }
}
