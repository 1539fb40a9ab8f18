//! What ranks say to each other, and how: frames of a bounded size over TCP, each a length and then postcard's bytes. What is
//! JSON between processes of one machine, an order or an event, is a text in a frame.
//!
//! Before two ranks know each other they exchange a [`HandshakeMessage`] and nothing else. A [`Message`] comes after that, with a tag
//! that is checked before the frame is parsed.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::monotonic_ns;
use super::secret::{Key, Nonce, Proof, Side, TAG_BYTES};

/// Changes whenever frames do.
const PROTOCOL: u32 = 5;
/// A frame may have so many bytes, ...
const FRAME_BYTES_MAX: u32 = 16 << 20;
/// ...or so many while it is not known who says it.
const GREETING_BYTES_MAX: u32 = 16 << 10;
/// Frames that wait to be heard, of which some are pieces of samples.
const WAITING_MAX: usize = 16;
/// What a peer may take to take in what is said.
const SAY_MAX: Duration = Duration::from_secs(30);
/// A connection on which nothing is said for so long is looked after: a host that is gone says nothing of that.
const SILENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const LOOKS: u32 = 3;
/// What a frame begins with: how long the rest is, without its tag.
const LENGTH_BYTES: usize = 4;

/// One thing said by a side that has not proven yet that it knows the job's secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum HandshakeMessage {
    /// The first rank to anybody: random bytes, and nothing made with the secret.
    Challenge { nonce: Nonce },
    /// A rank to the first: its [`Hello`] as postcard's bytes, parsed only if the proof is right.
    Claim { hello: Vec<u8>, proof: Proof },
    /// The rank belongs to the fleet; the first rank proves itself only now.
    Welcome { proof: Proof },
    /// It does not.
    Refused { reason: String },
}

/// One thing said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    /// A trial's order, as JSON; what is said of that trial bears its number.
    Order { trial: u32, order: String },
    /// What a client says, as JSON.
    Event { trial: u32, event: String },
    /// What time is it?
    Ping { number: u32 },
    /// The rank's CLOCK_MONOTONIC.
    Pong { number: u32, monotonic_ns: u64 },
    /// When the ramp begins, on that clock.
    Begin { trial: u32, start_ns: u64 },
    /// The rank's client has given its account, which waits here to be collected; of the client's CPUs, so many parts in a million
    /// were in use over the window, by whomever.
    Ended { trial: u32, used_ppm: Option<u32> },
    /// All have ended: let us have your account, an event, and your samples.
    Collect { trial: u32 },
    /// A piece of the file of samples; an empty one is its end.
    Samples { trial: u32, bytes: Vec<u8> },
    /// The trial is over: end whatever you are at.
    Dismiss { trial: u32 },
    /// All trials are.
    End,
}

/// Who a rank is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// Its host's name.
    pub(super) host: String,
    /// The same in all processes of one machine, whatever host names these see.
    pub(super) machine: String,
    /// The same in all processes of one network namespace of a machine: they take ports of the same addresses.
    pub(super) network: u64,
    /// CPUs that it may use.
    pub(super) cpus: Vec<usize>,
    /// How many its host has; 0 where that is not known.
    pub(super) cpus_of_host: u32,
    pub(super) nonce: Nonce,
}

/// The first thing that both sides say: versions are compared before anything else, which may differ with them.
pub(super) fn preamble() -> String {
    format!("muxbench {} fleet {PROTOCOL}\n", env!("CARGO_PKG_VERSION"))
}

/// Says who we are and hears who they are.
///
/// # Errors
/// When that is no muxbench, or another version.
pub(super) fn compare_versions(stream: &mut (impl Read + Write)) -> anyhow::Result<()> {
    let ours = preamble();
    stream.write_all(ours.as_bytes()).context("cannot be told who we are")?;
    let mut theirs = Vec::new();
    while theirs.len() < 64 && theirs.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("does not say who it is")?;
        theirs.push(byte[0]);
    }
    if theirs == ours.as_bytes() {
        return Ok(());
    }
    let theirs = String::from_utf8_lossy(&theirs);
    match theirs.strip_prefix("muxbench ") {
        Some(_) => bail!("is {}, and this is {}; take the same version everywhere", theirs.trim(), ours.trim()),
        None => bail!("is no muxbench: it says `{}`", theirs.trim().escape_debug()),
    }
}

/// Says something to a peer that is not known yet, or to which this side is not.
pub(super) fn greet(mut stream: impl Write, greeting: &HandshakeMessage) -> io::Result<()> {
    stream.write_all(&framed(greeting)?)
}

/// Hears something of a peer that is not known yet.
pub(super) fn hear_greeting(stream: impl Read) -> io::Result<HandshakeMessage> {
    understood(&hear(stream, GREETING_BYTES_MAX)?)
}

/// A hello, as postcard's bytes.
pub(super) fn understood_hello(bytes: &[u8]) -> io::Result<Hello> {
    understood(bytes)
}

/// A length, and what has it.
fn framed(said: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(said, vec![0; LENGTH_BYTES]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).ok().filter(|length| *length <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other(format!("{} bytes do not fit into a frame", bytes.len())))?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// What has the length that comes first.
fn hear(mut stream: impl Read, bytes_max: u32) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > bytes_max {
        return Err(io::Error::other(format!("a frame of {length} bytes, which may have {bytes_max}")));
    }
    // It takes memory as it comes.
    let mut bytes = Vec::new();
    stream.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn understood<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::other(format!("a frame that is not understood: {error}")))
}

/// What is heard of `said`, a frame of a peer that is known or of one that is not, said again; `None` if it is not understood.
pub fn reencode(said: &[u8], is_known: bool) -> Option<Vec<u8>> {
    if is_known {
        framed(&understood::<Message>(&hear(said, FRAME_BYTES_MAX).ok()?).ok()?).ok()
    } else {
        framed(&hear_greeting(said).ok()?).ok()
    }
}

/// What a session's key and one side of it make of frames: each has a tag, which is right for this side, this session and the
/// frame's number alone. So a frame that somebody has changed, repeated, left out, moved or sent back is no frame.
struct SealedCodec {
    key: Key,
    side: Side,
    /// The next frame's number.
    number: u64,
}

impl SealedCodec {
    fn new(key: Key, side: Side) -> Self {
        Self { key, side, number: 0 }
    }

    fn say(&mut self, mut stream: impl Write, frame: &Message) -> io::Result<()> {
        let mut bytes = framed(frame)?;
        let tag = self.key.seal(self.side, self.number, &bytes[LENGTH_BYTES..]);
        self.number += 1;
        bytes.extend(tag);
        stream.write_all(&bytes)
    }

    fn hear(&mut self, mut stream: impl Read) -> io::Result<Message> {
        let bytes = hear(&mut stream, FRAME_BYTES_MAX)?;
        let mut tag = [0; TAG_BYTES];
        stream.read_exact(&mut tag)?;
        if !self.key.is_sealed(self.side, self.number, &bytes, &tag) {
            return Err(io::Error::other(
                "a frame is not what the other rank has said: somebody has changed the connection",
            ));
        }
        self.number += 1;
        understood(&bytes)
    }
}

/// A connection on which both sides have proven that they know the job's secret.
pub(super) struct Session {
    pub(super) stream: TcpStream,
    pub(super) key: Key,
    /// Which side is this one.
    pub(super) side: Side,
}

/// A connection between two ranks that know each other. What comes is read by a thread, which sleeps when nothing does.
pub(super) struct Channel {
    stream: TcpStream,
    /// Held while a frame is written, as numbers have to be in order.
    sealed: Mutex<SealedCodec>,
    heard: mpsc::Receiver<Heard>,
}

/// When it came, on our CLOCK_MONOTONIC in nanoseconds, and what.
type Heard = (u64, io::Result<Message>);

impl Channel {
    /// Takes over a connection. `at_once` sees each frame as it comes, and that there will be no more.
    pub(super) fn new(
        session: Session,
        mut at_once: impl FnMut(Option<&Message>) + Send + 'static,
    ) -> io::Result<Self> {
        let Session { stream, key, side } = session;
        let (sealed, mut theirs) =
            (Mutex::new(SealedCodec::new(key.clone(), side)), SealedCodec::new(key, side.other()));
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(SAY_MAX))?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, SILENCE)?;
        sockopt::set_tcp_keepintvl(&stream, LOOK_AGAIN)?;
        sockopt::set_tcp_keepcnt(&stream, LOOKS)?;
        let (sender, heard) = mpsc::sync_channel(WAITING_MAX);
        let reader = stream.try_clone()?;
        thread::Builder::new().name("fleet".into()).spawn(move || {
            let mut reader = io::BufReader::new(reader);
            loop {
                let frame = theirs.hear(&mut reader);
                let heard_ns = monotonic_ns();
                at_once(frame.as_ref().ok());
                let is_over = frame.is_err();
                if sender.send((heard_ns, frame)).is_err() || is_over {
                    return;
                }
            }
        })?;
        Ok(Self { stream, sealed, heard })
    }

    pub(super) fn say(&self, frame: &Message) -> anyhow::Result<()> {
        // Whoever panicked has at most left a frame half written, which the other side notices.
        let mut sealed = self.sealed.lock().unwrap_or_else(PoisonError::into_inner);
        sealed.say(&self.stream, frame).map_err(|error| anyhow!("it cannot be told anything: {error}"))
    }

    /// What comes next, and when that came, on our CLOCK_MONOTONIC in nanoseconds; `None` when `deadline` passes first.
    pub(super) fn hear_when(&self, deadline: Instant) -> anyhow::Result<Option<(u64, Message)>> {
        match self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((heard_ns, Ok(frame))) => Ok(Some((heard_ns, frame))),
            Ok((_, Err(error))) if error.kind() == io::ErrorKind::UnexpectedEof => bail!("its connection ended"),
            Ok((_, Err(error))) => Err(anyhow!("its connection failed: {error}")),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("its connection ended"),
        }
    }

    /// What comes next alone.
    #[cfg(test)]
    pub(super) fn hear(&self, deadline: Instant) -> anyhow::Result<Option<Message>> {
        Ok(self.hear_when(deadline)?.map(|(_, frame)| frame))
    }

    /// Whether the other side, which has nothing to say, is still there.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.heard.try_recv(), Err(TryRecvError::Empty))
    }

    /// Ends the connection, which both sides hear of.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// What comes next, however long it takes.
    pub(super) fn hear_next(&self) -> anyhow::Result<Message> {
        match self.heard.recv() {
            Ok((_, frame)) => frame.map_err(|error| anyhow!("its connection ended: {error}")),
            Err(_) => bail!("its connection ended"),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The thread reads on otherwise.
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::deadline_stream::tests::pair;
    use crate::fleet::secret::{Secret, Transcript};

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(300)
    }

    /// A session of both ends of a connection.
    fn sessions((near, far): (TcpStream, TcpStream)) -> (Session, Session) {
        let key = Secret::new("open sesame").session(&Transcript::new("version", &[7; 32], b"hello"));
        let near = Session { stream: near, key: key.clone(), side: Side::First };
        (near, Session { stream: far, key, side: Side::Other })
    }

    #[test]
    fn what_is_said_is_heard_until_the_end() {
        let (near, far) = sessions(pair());
        let (ended, has_ended) = mpsc::channel();
        let near = Channel::new(near, |_| ()).unwrap();
        let far = Channel::new(far, move |frame| {
            if frame.is_none() {
                let _ = ended.send(());
            }
        })
        .unwrap();
        let all = [
            Message::Order { trial: 3, order: "{}".into() },
            Message::Samples { trial: 3, bytes: vec![7; 1 << 20] },
            Message::Pong { number: 1, monotonic_ns: u64::MAX },
            Message::Ended { trial: 3, used_ppm: Some(1_000_000) },
            Message::Collect { trial: 3 },
            Message::End,
        ];
        for frame in &all {
            near.say(frame).unwrap();
            assert_eq!(far.hear(soon()).unwrap().as_ref(), Some(frame));
        }
        assert!(far.is_there());
        assert_eq!(far.hear(Instant::now()).unwrap(), None, "nobody waits longer than told");
        assert!(near.say(&Message::Samples { trial: 3, bytes: vec![7; 17 << 20] }).is_err());
        drop(near);
        assert!(far.hear(soon()).unwrap_err().to_string().contains("ended"));
        has_ended.recv_timeout(Duration::from_secs(300)).unwrap();
    }

    /// What comes of frames that somebody in the middle makes others of: of two that are said, each with all its bytes.
    fn heard_of(made: impl FnOnce([Vec<u8>; 2]) -> Vec<u8>) -> Vec<Result<Message, String>> {
        let ((near, mut middle), (mut far_middle, far)) = (pair(), pair());
        let ((near, _), (_, far)) = (sessions((near, pair().0)), sessions((pair().0, far)));
        let (near, far) = (Channel::new(near, |_| ()).unwrap(), Channel::new(far, |_| ()).unwrap());
        let frames = [6, 7].map(|trial| {
            let frame = Message::Collect { trial };
            near.say(&frame).unwrap();
            let mut bytes = vec![0; framed(&frame).unwrap().len() + TAG_BYTES];
            middle.read_exact(&mut bytes).unwrap();
            bytes
        });
        far_middle.write_all(&made(frames)).unwrap();
        drop(far_middle);
        let mut heard = Vec::new();
        while heard.last().is_none_or(Result::is_ok) {
            heard.push(far.hear(soon()).map(|frame| frame.expect("in time")).map_err(|error| error.to_string()));
        }
        heard
    }

    #[test]
    fn frame_that_was_changed_moved_or_said_again_ends_a_session() {
        let [six, seven] = [6, 7].map(|trial| Ok(Message::Collect { trial }));
        let untouched = heard_of(|frames| frames.concat());
        assert_eq!(untouched[..2], [six.clone(), seven.clone()]);
        assert!(untouched[2].clone().unwrap_err().contains("connection ended"), "{untouched:?}");
        let is_noticed_after = |heard: &[Result<Message, String>], before: &[Result<Message, String>]| {
            let (last, others) = heard.split_last().unwrap();
            let why = last.clone().unwrap_err();
            assert!(others == before && why.contains("somebody has changed the connection"), "{heard:?}");
        };
        for at in [4, 5, 6, 6 + TAG_BYTES - 1] {
            let heard = heard_of(|[mut first, second]| {
                first[at] ^= 1;
                [first, second].concat()
            });
            is_noticed_after(&heard, &[]);
        }
        is_noticed_after(&heard_of(|[first, _]| [first.clone(), first].concat()), &[six]);
        is_noticed_after(&heard_of(|[first, second]| [second, first].concat()), &[]);
        is_noticed_after(&heard_of(|[_, second]| second), &[]);
    }

    #[test]
    fn frame_that_is_sent_back_ends_a_session() {
        let (near, mut middle) = pair();
        let near = Channel::new(sessions((near, pair().0)).0, |_| ()).unwrap();
        let frame = Message::Collect { trial: 6 };
        near.say(&frame).unwrap();
        let mut bytes = vec![0; framed(&frame).unwrap().len() + TAG_BYTES];
        middle.read_exact(&mut bytes).unwrap();
        middle.write_all(&bytes).unwrap();
        let why = near.hear(soon()).unwrap_err().to_string();
        assert!(why.contains("somebody has changed the connection"), "{why}");
    }

    #[test]
    fn a_stranger_gets_no_memory() {
        let (mut near, far) = pair();
        near.write_all(&(GREETING_BYTES_MAX + 1).to_le_bytes()).unwrap();
        assert!(hear_greeting(&far).unwrap_err().to_string().contains("16385 bytes"));
    }

    #[test]
    fn another_version_is_told_from_this_one() {
        for (theirs, why) in [
            ("muxbench 0.0.1 fleet 1\n", "take the same version"),
            (concat!("muxbench ", env!("CARGO_PKG_VERSION"), " fleet 4\n"), "take the same version"),
            ("SSH-2.0\u{1b}\n", r"is no muxbench: it says `SSH-2.0\u{1b}`"),
        ] {
            let (mut near, mut far) = pair();
            far.write_all(theirs.as_bytes()).unwrap();
            assert!(compare_versions(&mut near).unwrap_err().to_string().contains(why), "{theirs}");
        }
        let (mut near, mut far) = pair();
        far.write_all(preamble().as_bytes()).unwrap();
        compare_versions(&mut near).unwrap();
        compare_versions(&mut far).unwrap();
    }

    proptest! {
        #[test]
        fn whatever_comes_is_a_frame_or_an_error(bytes: Vec<u8>) {
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend(&bytes);
            for is_known in [true, false] {
                if let Some(again) = reencode(&framed, is_known) {
                    prop_assert_eq!(reencode(&again, is_known), Some(again));
                }
            }
        }
    }
}
