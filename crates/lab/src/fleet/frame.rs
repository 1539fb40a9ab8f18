//! What ranks say to each other, and how: frames of a bounded size over TCP, each a length and then postcard's bytes. What is
//! JSON between processes of one machine, an order or an event, is a text in a frame.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::monotonic_ns;
use super::secret::{Nonce, Proof};

/// Changes whenever frames do.
const PROTOCOL: u32 = 4;
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

/// One thing said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Frame {
    /// A rank to the first: who it is, and a challenge.
    Hello(Hello),
    /// The first rank's answer, and its own challenge.
    Challenge { proof: Proof, nonce: Nonce },
    /// The rank's answer.
    Proof(Proof),
    /// The rank belongs to the fleet.
    Welcome,
    /// It does not.
    Refused { reason: String },
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
fn preamble() -> String {
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

/// Says something.
pub(super) fn say(mut stream: impl Write, frame: &Frame) -> io::Result<()> {
    let mut bytes = postcard::to_extend(frame, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other(format!("{} bytes do not fit into a frame", bytes.len())))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&bytes)
}

/// Hears something of a peer that is not known yet.
pub(super) fn hear_greeting(stream: impl Read) -> io::Result<Frame> {
    hear(stream, GREETING_BYTES_MAX)
}

fn hear(mut stream: impl Read, bytes_max: u32) -> io::Result<Frame> {
    let mut length = [0; 4];
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
    postcard::from_bytes(&bytes).map_err(|error| io::Error::other(format!("a frame that is not understood: {error}")))
}

/// What is heard of `said`, a frame of a peer that is known or of one that is not, said again; `None` if it is not understood.
pub fn echo(said: &[u8], is_known: bool) -> Option<Vec<u8>> {
    let frame = if is_known { hear(said, FRAME_BYTES_MAX) } else { hear_greeting(said) }.ok()?;
    let mut again = Vec::new();
    say(&mut again, &frame).ok()?;
    Some(again)
}

/// A connection between two ranks that know each other. What comes is read by a thread, which sleeps when nothing does.
pub(super) struct Line {
    stream: TcpStream,
    heard: mpsc::Receiver<Heard>,
}

/// When it came, on our CLOCK_MONOTONIC in nanoseconds, and what.
type Heard = (u64, io::Result<Frame>);

impl Line {
    /// Takes over a connection. `at_once` sees each frame as it comes, and that there will be no more.
    pub(super) fn new(stream: TcpStream, mut at_once: impl FnMut(Option<&Frame>) + Send + 'static) -> io::Result<Self> {
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
                let frame = hear(&mut reader, FRAME_BYTES_MAX);
                let heard_ns = monotonic_ns();
                at_once(frame.as_ref().ok());
                let is_over = frame.is_err();
                if sender.send((heard_ns, frame)).is_err() || is_over {
                    return;
                }
            }
        })?;
        Ok(Self { stream, heard })
    }

    pub(super) fn say(&self, frame: &Frame) -> anyhow::Result<()> {
        say(&self.stream, frame).map_err(|error| anyhow!("it cannot be told anything: {error}"))
    }

    /// What comes next, and when that came, on our CLOCK_MONOTONIC in nanoseconds; `None` when `deadline` passes first.
    pub(super) fn hear_when(&self, deadline: Instant) -> anyhow::Result<Option<(u64, Frame)>> {
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
    pub(super) fn hear(&self, deadline: Instant) -> anyhow::Result<Option<Frame>> {
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
    pub(super) fn hear_next(&self) -> anyhow::Result<Frame> {
        match self.heard.recv() {
            Ok((_, frame)) => frame.map_err(|error| anyhow!("its connection ended: {error}")),
            Err(_) => bail!("its connection ended"),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The thread reads on otherwise.
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::until::tests::pair;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(300)
    }

    #[test]
    fn what_is_said_is_heard_until_the_end() {
        let (near, far) = pair();
        let (ended, has_ended) = mpsc::channel();
        let near = Line::new(near, |_| ()).unwrap();
        let far = Line::new(far, move |frame| {
            if frame.is_none() {
                let _ = ended.send(());
            }
        })
        .unwrap();
        let all = [
            Frame::Order { trial: 3, order: "{}".into() },
            Frame::Samples { trial: 3, bytes: vec![7; 1 << 20] },
            Frame::Pong { number: 1, monotonic_ns: u64::MAX },
            Frame::Ended { trial: 3, used_ppm: Some(1_000_000) },
            Frame::Collect { trial: 3 },
            Frame::End,
        ];
        for frame in &all {
            near.say(frame).unwrap();
            assert_eq!(far.hear(soon()).unwrap().as_ref(), Some(frame));
        }
        assert!(far.is_there());
        assert_eq!(far.hear(Instant::now()).unwrap(), None, "nobody waits longer than told");
        assert!(near.say(&Frame::Samples { trial: 3, bytes: vec![7; 17 << 20] }).is_err());
        drop(near);
        assert!(far.hear(soon()).unwrap_err().to_string().contains("ended"));
        has_ended.recv_timeout(Duration::from_secs(300)).unwrap();
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
            if let Ok(frame) = hear(&framed[..], GREETING_BYTES_MAX) {
                let again: Frame = postcard::from_bytes(&postcard::to_stdvec(&frame).unwrap()).unwrap();
                prop_assert_eq!(again, frame);
            }
        }
    }
}
