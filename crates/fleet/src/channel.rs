//! An authenticated connection between two workers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::time::clock::monotonic_ns;
use rustix::net::sockopt;

use super::message::{self, LENGTH_BYTES, MESSAGE_BYTES_MAX, Message};
use super::secret::{Key, Side, TAG_BYTES};

/// The limit of received messages that wait in memory.
const WAITING_MAX: usize = 16;
/// The timeout for sending a message.
const SEND_MAX: Duration = Duration::from_secs(30);
/// The kernel probes a connection that is silent for this time, to detect that the peer's host has vanished.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// One direction of a session: the messages that `side` sends. A message's tag is valid only for this side, this session and
/// the message's number. The tag reveals changed, repeated, missing, reordered and reflected messages.
struct SealedStream {
    key: Key,
    side: Side,
    number: u64,
}

impl SealedStream {
    fn send(&mut self, mut stream: impl Write, message: &Message) -> io::Result<()> {
        let mut bytes = message::encode(message)?;
        let tag = self.key.tag(self.side, self.number, &bytes[LENGTH_BYTES..]);
        self.number += 1;
        bytes.extend(tag);
        stream.write_all(&bytes)
    }

    fn receive(&mut self, mut stream: impl Read) -> io::Result<Message> {
        let bytes = message::read(&mut stream, MESSAGE_BYTES_MAX)?;
        let mut tag = [0; TAG_BYTES];
        stream.read_exact(&mut tag)?;
        if !self.key.is_valid(self.side, self.number, &bytes, &tag) {
            return Err(io::Error::other("a message has an invalid tag: the connection is tampered with"));
        }
        self.number += 1;
        message::decode(&bytes)
    }
}

/// A connection whose sides have authenticated each other.
pub(super) struct Session {
    pub(super) stream: TcpStream,
    pub(super) key: Key,
    pub(super) side: Side,
}

/// A connection between two authenticated workers, with a thread that receives messages.
pub(super) struct Channel {
    stream: TcpStream,
    /// The lock keeps messages in the order of their numbers.
    sender: Mutex<SealedStream>,
    /// Received messages, each with its arrival time in nanoseconds of this host's CLOCK_MONOTONIC.
    received: Mutex<Received>,
}

type Received = mpsc::Receiver<(u64, io::Result<Message>)>;

impl Channel {
    /// Starts the receiving thread.
    pub(super) fn new(session: Session) -> io::Result<Self> {
        let Session { stream, key, side } = session;
        let mut receiver = SealedStream { key: key.clone(), side: side.other(), number: 0 };
        let sender = Mutex::new(SealedStream { key, side, number: 0 });
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(SEND_MAX))?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        let (queue, received) = mpsc::sync_channel(WAITING_MAX);
        let reader = stream.try_clone()?;
        thread::Builder::new().name("worker-channel".into()).spawn(move || {
            let mut reader = io::BufReader::new(reader);
            loop {
                let message = receiver.receive(&mut reader);
                let received_ns = monotonic_ns();
                let is_over = message.is_err();
                if queue.send((received_ns, message)).is_err() || is_over {
                    return;
                }
            }
        })?;
        Ok(Self { stream, sender, received: Mutex::new(received) })
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        // A panic leaves the queue valid.
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, message: &Message) -> anyhow::Result<()> {
        // Ignore poison: if a thread panicked while it sent a message, the receiver detects an invalid tag.
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(&self.stream, message).map_err(|error| anyhow!("cannot send to it: {error}"))
    }

    /// The next message with its arrival time, in nanoseconds of this host's CLOCK_MONOTONIC; `None` after `deadline`.
    pub(super) fn receive_timed(&self, deadline: Instant) -> anyhow::Result<Option<(u64, Message)>> {
        match self.received().recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((received_ns, Ok(message))) => Ok(Some((received_ns, message))),
            Ok((_, Err(error))) => Err(lost(&error)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("its connection ended"),
        }
    }

    /// Waits for the next message without a timeout.
    pub(super) fn receive_blocking(&self) -> anyhow::Result<Message> {
        let (_, message) = self.received().recv().ok().context("its connection ended")?;
        message.map_err(|error| lost(&error))
    }

    /// Whether the other side is still connected. Correct only while it sends nothing: any message counts as a lost connection.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.received().try_recv(), Err(TryRecvError::Empty))
    }

    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Ends the receiving thread.
        self.close();
    }
}

/// Returns the error for a connection that failed while it received.
fn lost(error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => anyhow!("its connection ended"),
        _ => anyhow!("its connection failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use testkit::pair;

    use super::*;
    use crate::secret::{Secret, Transcript};

    impl Channel {
        /// The next message; `None` after `deadline`.
        pub(crate) fn receive(&self, deadline: Instant) -> anyhow::Result<Option<Message>> {
            Ok(self.receive_timed(deadline)?.map(|(_, message)| message))
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(300)
    }

    /// The two ends of a connection as sessions with one key.
    fn sessions((near, far): (TcpStream, TcpStream)) -> (Session, Session) {
        let key = Secret::new("open sesame").session_key(&Transcript::new("version", &[7; 32], b"hello"));
        let near = Session { stream: near, key: key.clone(), side: Side::First };
        (near, Session { stream: far, key, side: Side::Other })
    }

    #[test]
    fn channel_delivers_messages_until_the_peer_closes_it() {
        let (near, far) = sessions(pair());
        let (near, far) = (Channel::new(near).unwrap(), Channel::new(far).unwrap());
        let all = [
            Message::Order { trial: 3, order: "{}".into() },
            Message::Samples { trial: 3, bytes: vec![7; 1 << 20] },
            Message::Pong { number: 1, monotonic_ns: u64::MAX },
            Message::Ended { trial: 3, used_ppm: Some(1_000_000) },
            Message::Collect { trial: 3 },
            Message::End,
        ];
        for message in &all {
            near.send(message).unwrap();
            assert_eq!(far.receive(soon()).unwrap().as_ref(), Some(message));
        }
        assert!(far.is_connected());
        assert_eq!(far.receive(Instant::now()).unwrap(), None, "the deadline ends the wait");
        assert!(near.send(&Message::Samples { trial: 3, bytes: vec![7; 17 << 20] }).is_err());
        drop(near);
        assert!(far.receive(soon()).unwrap_err().to_string().contains("ended"));
    }

    /// Returns the messages and the error that the receiver reads after `tamper` has changed the bytes of two messages.
    fn received_after_tampering(tamper: impl FnOnce([Vec<u8>; 2]) -> Vec<u8>) -> Vec<Result<Message, String>> {
        let ((near, mut middle), (mut far_middle, far)) = (pair(), pair());
        let ((near, _), (_, far)) = (sessions((near, pair().0)), sessions((pair().0, far)));
        let (near, far) = (Channel::new(near).unwrap(), Channel::new(far).unwrap());
        let messages = [6, 7].map(|trial| {
            let message = Message::Collect { trial };
            near.send(&message).unwrap();
            let mut bytes = vec![0; message::encode(&message).unwrap().len() + TAG_BYTES];
            middle.read_exact(&mut bytes).unwrap();
            bytes
        });
        far_middle.write_all(&tamper(messages)).unwrap();
        drop(far_middle);
        let mut received = Vec::new();
        while received.last().is_none_or(Result::is_ok) {
            let message = far.receive(soon()).map(|message| message.expect("in time"));
            received.push(message.map_err(|error| error.to_string()));
        }
        received
    }

    #[test]
    fn changed_moved_or_repeated_message_ends_a_session() {
        let [six, seven] = [6, 7].map(|trial| Ok(Message::Collect { trial }));
        let untouched = received_after_tampering(|messages| messages.concat());
        assert_eq!(untouched[..2], [six.clone(), seven.clone()]);
        assert!(untouched[2].clone().unwrap_err().contains("connection ended"), "{untouched:?}");
        let fails_after = |received: &[Result<Message, String>], before: &[Result<Message, String>]| {
            let (last, others) = received.split_last().unwrap();
            let why = last.clone().unwrap_err();
            assert!(others == before && why.contains("the connection is tampered with"), "{received:?}");
        };
        for at in [4, 5, 6, 6 + TAG_BYTES - 1] {
            let received = received_after_tampering(|[mut first, second]| {
                first[at] ^= 1;
                [first, second].concat()
            });
            fails_after(&received, &[]);
        }
        fails_after(&received_after_tampering(|[first, _]| [first.clone(), first].concat()), &[six]);
        fails_after(&received_after_tampering(|[first, second]| [second, first].concat()), &[]);
        fails_after(&received_after_tampering(|[_, second]| second), &[]);
    }

    #[test]
    fn reflected_message_ends_a_session() {
        let (near, mut middle) = pair();
        let near = Channel::new(sessions((near, pair().0)).0).unwrap();
        let message = Message::Collect { trial: 6 };
        near.send(&message).unwrap();
        let mut bytes = vec![0; message::encode(&message).unwrap().len() + TAG_BYTES];
        middle.read_exact(&mut bytes).unwrap();
        middle.write_all(&bytes).unwrap();
        let why = near.receive(soon()).unwrap_err().to_string();
        assert!(why.contains("the connection is tampered with"), "{why}");
    }
}
