//! What a rank does that is not the first: it meets the first, and for each trial starts a client, as a runner would, and says
//! what that says. While the client measures, it sleeps.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use load::Event;
use rustix::process::{Pid, Signal};

use super::engine::Place;
use super::frame::{self, Frame, Hello, Line};
use super::ranks::{GREETING_MAX, MEETING_MAX};
use super::secret::{self, Side};
use super::{Draft, deadline_of, local, monotonic_ns};
use crate::child::Child;
use crate::host::Host;
use crate::runner::LoadOrder;
use crate::samples::{self, Unwritten};

/// Pause before the first rank is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// Samples are sent in pieces of so many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// The client that is at work, if one is: whoever hears that the trial is over may end it.
type AtWork = Arc<Mutex<Option<(u32, Pid)>>>;

/// Meets the first rank, and does what it says until it says that all is over.
///
/// # Errors
/// When it cannot be met, or is gone.
pub fn follow(place: &Place, program: &Path) -> anyhow::Result<()> {
    follow_within(place, program, MEETING_MAX)
}

/// The same, where the first must be met within a given time.
pub(super) fn follow_within(place: &Place, program: &Path, meeting_max: Duration) -> anyhow::Result<()> {
    let at_work = AtWork::default();
    let ending = at_work.clone();
    let line = Line::new(meet(place, meeting_max)?, move |frame| end_client(&ending, frame))
        .with_context(|| format!("rank {}: the connection to the first one", place.rank))?;
    let rank = Follower { rank: place.rank, line, program: program.to_owned(), at_work };
    rank.follow().with_context(|| format!("rank {} on {}, of the first", place.rank, host()))
}

/// A name for the reader.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What two processes have in common if they are of one machine: host names and addresses may differ there.
pub(super) fn machine() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| host(), |id| id.trim().to_owned())
}

/// Tries until the first rank is there.
fn meet(place: &Place, meeting_max: Duration) -> anyhow::Result<TcpStream> {
    let deadline = Instant::now() + meeting_max;
    let mut why = anyhow!("no address is known of {}", place.hosts.join(", "));
    // One who listened and did not take us in says more than one who does not listen now.
    let mut refusal = None;
    while Instant::now() < deadline {
        for address in place.addresses() {
            match TcpStream::connect_timeout(&address, GREETING_MAX) {
                Ok(stream) => match greet(stream, place) {
                    Ok(stream) => return Ok(stream),
                    // Another may be meant by that address, or the first rank sees us to be another.
                    Err(error) => refusal = Some(error.context(format!("who listens on {address}"))),
                },
                Err(error) => why = anyhow!("{address}: {error}"),
            }
        }
        thread::sleep(RETRY);
    }
    Err(refusal.unwrap_or(why)).with_context(|| {
        format!(
            "rank {} on {} cannot meet the first one within {} s; set MUXBENCH_RENDEZVOUS to its HOST:PORT in all ranks",
            place.rank,
            host(),
            meeting_max.as_secs()
        )
    })
}

/// Says who we are, and finds out whether it is the first rank that we talk to.
fn greet(mut stream: TcpStream, place: &Place) -> anyhow::Result<TcpStream> {
    stream.set_read_timeout(Some(GREETING_MAX))?;
    stream.set_write_timeout(Some(GREETING_MAX))?;
    frame::compare_versions(&mut stream)?;
    let (rank, ranks) = (place.rank, place.ranks);
    let nonce = secret::nonce()?;
    let hello = Hello { rank, ranks, host: host(), machine: machine(), cpus: Host::this().cores.concat(), nonce };
    frame::say(&stream, &Frame::Hello(hello))?;
    let Frame::Challenge { proof, nonce: theirs } = frame::hear_greeting(&stream)? else { bail!("it does not answer") };
    if !place.secret.is_proven(Side::First, &nonce, rank, &proof) {
        bail!("it does not know this job's secret; set MUXBENCH_SECRET to the same in all ranks");
    }
    frame::say(&stream, &Frame::Proof(place.secret.prove(Side::Other, &theirs, rank)))?;
    match frame::hear_greeting(&stream)? {
        Frame::Welcome => Ok(stream),
        Frame::Refused { reason } => bail!("it refuses: {reason}"),
        _ => bail!("it does not answer"),
    }
}

/// Ends the client that is at work, if what was heard is the end of its trial, or of everything.
fn end_client(at_work: &AtWork, frame: Option<&Frame>) {
    let is_over = |trial: u32| match frame {
        None | Some(Frame::End) => true,
        Some(Frame::Dismiss { trial: it }) => *it == trial,
        Some(_) => false,
    };
    // Whoever holds it has it in order, whatever became of that thread.
    let client = at_work.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((trial, pid)) = *client
        && is_over(trial)
    {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

struct Follower {
    rank: u32,
    line: Line,
    program: PathBuf,
    at_work: AtWork,
}

impl Follower {
    fn follow(&self) -> anyhow::Result<()> {
        loop {
            match self.line.hear_next()? {
                Frame::Order { trial, order } => {
                    if let Err(error) = self.serve(trial, &order) {
                        let is_unwritten = error.is::<Unwritten>();
                        self.say(trial, &Event::Failed { reason: format!("{error:#}"), is_unwritten })?;
                    }
                    self.set_at_work(None);
                }
                Frame::End => return Ok(()),
                // Of a trial that is over here already.
                _ => {}
            }
        }
    }

    fn say(&self, trial: u32, event: &Event) -> anyhow::Result<()> {
        self.line.say(&Frame::Event { trial, event: serde_json::to_string(event)? })
    }

    fn set_at_work(&self, client: Option<(u32, Pid)>) {
        *self.at_work.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// One trial. An error is the client's; one of the connection shows again at the next thing said.
    fn serve(&self, trial: u32, order: &str) -> anyhow::Result<()> {
        let order: LoadOrder = serde_json::from_str(order).context("an order that is not understood")?;
        let name = format!("muxbench-{}-rank{}-{trial}.parquet", std::process::id(), self.rank);
        let samples = Draft::new(std::env::temp_dir().join(name), false);
        let command = local::command(&self.program, &samples.path);
        let mut client: Child<Event> = Child::start("the client", command, &order)?;
        self.set_at_work(Some((trial, client.pid())));
        let outcome = self.until_measured(trial, &order, &mut client);
        // From here on it waits to be told to end; nobody else may end a process of that number.
        self.set_at_work(None);
        let report = outcome?;
        self.say(trial, &report)?;
        self.send_samples(trial, &samples.path)?;
        loop {
            match self.line.hear_next()? {
                Frame::Dismiss { trial: it } if it == trial => break,
                Frame::End => bail!("the run is over"),
                _ => {}
            }
        }
        client.end();
        Ok(())
    }

    /// Says what the client says until it is ready, begins when told, and then waits for its account in silence.
    fn until_measured(&self, trial: u32, order: &LoadOrder, client: &mut Child<Event>) -> anyhow::Result<Event> {
        // Whether it takes too long to connect is for the first rank to judge, which ends it then.
        let far = Instant::now() + Duration::from_secs(24 * 3600);
        loop {
            match client.next(far)?.context("it took a day to connect")? {
                Event::Ready => break,
                Event::Failed { reason, is_unwritten } => return Err(samples::failure(reason, is_unwritten)),
                event => self.say(trial, &event)?,
            }
        }
        self.say(trial, &Event::Ready)?;
        loop {
            match self.line.hear_next()? {
                Frame::Ping { number } => self.line.say(&Frame::Pong { number, monotonic_ns: monotonic_ns() })?,
                Frame::Begin { trial: it, start_ns } if it == trial => {
                    client.say(&format!("begin {start_ns}"))?;
                    break;
                }
                Frame::Dismiss { trial: it } if it == trial => bail!("the trial was given up"),
                Frame::End => bail!("the run is over"),
                _ => {}
            }
        }
        let deadline = deadline_of(&order.config);
        loop {
            match client.next(deadline)? {
                Some(finished @ Event::Finished { .. }) => return Ok(finished),
                Some(Event::Failed { reason, is_unwritten }) => return Err(samples::failure(reason, is_unwritten)),
                Some(_) => {}
                None => {
                    client.kill();
                    bail!("its client took longer than it may: it hangs, or the machine is overloaded");
                }
            }
        }
    }

    fn send_samples(&self, trial: u32, path: &Path) -> anyhow::Result<()> {
        let place = || format!("{}: cannot read samples", path.display());
        let mut file = File::open(path).with_context(place)?;
        loop {
            let mut bytes = Vec::new();
            (&mut file).take(PIECE_BYTES).read_to_end(&mut bytes).with_context(place)?;
            let is_end = bytes.is_empty();
            self.line.say(&Frame::Samples { trial, bytes })?;
            if is_end {
                return Ok(());
            }
        }
    }
}
