//! Streams (welsh2001): each connection carries one burst after another, as fast as the socket allows. A client's burst with
//! its acknowledgement, or a request with the server's burst, is a transaction of a closed loop.
//!
//! After the window, each connection shuts down its sending side, perhaps within a burst, and reads until the server closes.
//! The server has then read every byte, so both sides' counts must be equal.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;
use wire::stream::{Direction, Stream};

use crate::config::LoadConfig;
use crate::config::partition::partition_indices;
use crate::driver::{self, Connected, Listener, Outcome};
use crate::error::LoadError;
use crate::io::poller::{EVENTS_MAX, Events, Poller};
use crate::record::progress::Progress;
use crate::record::recorder::{Recorder, Recording, Times, Transaction};
use crate::record::summary::Trial;
use crate::result::{Class, LoadResult, PARTS, StreamResult};
use crate::socket::Socket;
use crate::socket::tls::Awaits::{Readable, Writable};
use crate::time::clock::Clock;
use crate::time::schedule;

/// Bytes per read or write, unless these are by packet: the size that iperf3 uses, small enough for a CPU's cache.
const PIECE_BYTES: usize = 128 << 10;
/// Bytes of one connection before the next connection's turn.
const TURN_BYTES: usize = 4 * PIECE_BYTES;
/// The longest sleep before a worker checks whether it must end.
const SLEEP: Duration = Duration::from_millis(5);
/// Bursts with reserved memory, over all workers. Counts and histograms also include bursts beyond it.
const BURSTS_MAX: u64 = 1 << 20;
/// The time that streams continue after the window, because the server's counters are read slightly late.
const LINGER_NS: u64 = 100_000_000;
/// The additional time per connection, because each may have its own server process.
const LINGER_NS_PER_CONNECTION: u64 = 50_000;
/// The byte that fills bursts. It differs from [`wire::stream::GREETING`].
const FILL: u8 = 0x5a;

pub fn run(
    config: &LoadConfig,
    stream: Stream,
    connected: Connected,
    listener: &mut dyn Listener,
) -> Result<Outcome, LoadError> {
    let Connected { clock, sockets, connect_ns, .. } = connected;
    let progress: Vec<Progress> = (0..config.client.clients).map(|_| Progress::default()).collect();
    let worker = |(number, progress)| {
        let sockets = &sockets[partition_indices(config.connections, config.client.clients, number)];
        Worker::new(clock, stream, config, sockets, progress)
    };
    let workers = (0..config.client.clients).zip(&progress).map(worker).collect::<Result<Vec<Worker<'_>>, _>>()?;

    // Choose the start time only after the slow initialisation of memory.
    let times = driver::begin(config, &clock, listener)?;
    let loops = workers.into_iter().map(|worker| |stop: &AtomicBool| worker.run(&times, stop));
    let trial = Trial::sleeping(config, &clock, &times);
    let (results, usage) = driver::run_loops(&trial, &progress, loops, listener)?;

    let (moved, recordings): (Vec<Moved>, Vec<Recording>) = results.into_iter().unzip();
    let facts = trial.facts(connect_ns, usage);
    let memory_bytes = size_of::<Connection>() as f64;
    let result = facts.account(&recordings, driver::cpus(config), memory_bytes);
    Ok(Outcome::new((with_bytes(result.0, stream, &moved), result.1), sockets))
}

/// Adds the bytes to a report. The rate counts bursts, with fractions for incomplete ones.
fn with_bytes(report: LoadResult, stream: Stream, moved: &[Moved]) -> LoadResult {
    let sum = |figure: &dyn Fn(&Moved) -> u64| moved.iter().map(figure).sum::<u64>();
    let seconds = moved.iter().map(|it| it.by_second.len()).max().unwrap_or(0);
    let by_connection: Vec<u64> = moved.iter().flat_map(|it| &it.by_connection).copied().collect();
    let (greeting_bytes, answer_bytes) = stream.sizes(true);
    let connections = u64::from(report.connections);
    let bytes_by_part: [u64; PARTS] = std::array::from_fn(|part| sum(&|it| it.by_part[part]));
    let bytes = bytes_by_part.iter().sum::<u64>();
    let window_s = report.window_ns as f64 / 1e9;
    LoadResult {
        rate_achieved_per_s: bytes as f64 / stream.burst_bytes() as f64 / window_s,
        stream: Some(StreamResult {
            bytes,
            bytes_by_part,
            bytes_by_second: (0..seconds).map(|second| sum(&|it| it.by_second[second])).collect(),
            fairness: fairness(&by_connection),
            connection_bytes_min: by_connection.iter().copied().min().unwrap_or(0),
            connection_bytes_max: by_connection.iter().copied().max().unwrap_or(0),
            sent_bytes: sum(&|it| it.sent) + connections * greeting_bytes,
            received_bytes: sum(&|it| it.received) + connections * answer_bytes,
            ended: sum(&|it| it.ended.into()) as u32,
        }),
        ..report
    }
}

/// Jain's index: 1 if all are equal, 1/n if one of n has everything.
fn fairness(bytes: &[u64]) -> f64 {
    let sum: f64 = bytes.iter().map(|&bytes| bytes as f64).sum();
    let squares: f64 = bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (bytes.len() as f64 * squares) }
}

/// Bytes of one worker's bursts in the window. `sent` and `received` count all bytes after the greetings.
struct Moved {
    by_part: [u64; PARTS],
    by_second: Vec<u64>,
    by_connection: Vec<u64>,
    sent: u64,
    received: u64,
    /// Connections that the server closed after the client's shutdown.
    ended: u32,
}

#[derive(Clone)]
struct Connection {
    state: State,
    /// Bytes left to write or to read, according to the state.
    left_bytes: u64,
    began: u64,
    /// Whether the poller waits for room to write instead of bytes to read.
    awaits_room: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Writing,
    Reading,
    Ending,
    /// The connection has failed, or the server has closed it after the shutdown.
    Over,
}

struct Worker<'a> {
    clock: Clock,
    stream: Stream,
    sockets: &'a [Socket],
    connections: Vec<Connection>,
    poller: Poller,
    /// The bytes of one write, and memory for one read.
    fill: Vec<u8>,
    inbox: Vec<u8>,
    alive: usize,
    linger_ticks: u64,
    /// The current part and the current second of the window: index, end and length in ticks.
    part: (usize, u64, u64),
    second: (usize, u64, u64),
    moved: Moved,
    recorder: Recorder<'a>,
    progress: &'a Progress,
}

impl<'a> Worker<'a> {
    fn new(
        clock: Clock,
        stream: Stream,
        config: &LoadConfig,
        sockets: &'a [Socket],
        progress: &'a Progress,
    ) -> Result<Self, LoadError> {
        let poller = Poller::new().map_err(LoadError::waiting)?;
        for (at, socket) in sockets.iter().enumerate() {
            poller.add(socket.as_fd(), at).map_err(LoadError::waiting)?;
        }
        let bursts = schedule::count_max(config).min((BURSTS_MAX / u64::from(config.all_clients())).max(1));
        let linger_ns = LINGER_NS + LINGER_NS_PER_CONNECTION * u64::from(config.connections_of_all());
        let piece_bytes = if stream.by_packet { stream.packet_bytes as usize } else { PIECE_BYTES };
        let connection = Connection { state: State::Over, left_bytes: 0, began: 0, awaits_room: false };
        Ok(Self {
            clock,
            stream,
            sockets,
            connections: vec![connection; sockets.len()],
            poller,
            fill: vec![FILL; piece_bytes],
            inbox: Vec::with_capacity(piece_bytes),
            alive: sockets.len(),
            linger_ticks: clock.ticks(linger_ns.min(config.phases.cool_down_ns / 4) as f64),
            part: (0, 0, clock.ticks(config.phases.measure_ns as f64 / PARTS as f64).max(1)),
            second: (0, 0, clock.ticks(1e9)),
            moved: Moved {
                by_part: [0; PARTS],
                by_second: vec![0; config.phases.measure_ns.div_ceil(1_000_000_000) as usize],
                by_connection: vec![0; sockets.len()],
                sent: 0,
                received: 0,
                ended: 0,
            },
            recorder: Recorder::new(clock, config, bursts, progress)?,
            progress,
        })
    }

    fn run(mut self, times: &Times, stop: &AtomicBool) -> (Moved, Recording) {
        self.recorder.begin(times.clone());
        for edge in [&mut self.part, &mut self.second] {
            edge.1 = times.window.start + edge.2;
        }
        let ends = times.window.end + self.linger_ticks;
        let mut is_ending = false;
        for at in 0..self.sockets.len() {
            // If ten thousand sockets accept half a megabyte each, the window may begin during this loop.
            self.recorder.tick(self.clock.now(), 0);
            self.begin(at);
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            let now = self.clock.now();
            self.recorder.tick(now, 0);
            if now >= ends && !is_ending {
                is_ending = true;
                (0..self.sockets.len()).for_each(|at| self.shut_down(at));
            }
            if self.alive == 0 || now >= times.drained || stop.load(Relaxed) {
                break;
            }
            let _ = self.poller.wait(&mut events, SLEEP);
            for (at, _) in events.iter() {
                match self.connections[at].state {
                    State::Writing => self.write(at),
                    State::Reading | State::Ending => self.read(at),
                    State::Over => {}
                }
            }
        }
        // Connections that the server has not closed by now count as timeouts.
        for at in 0..self.sockets.len() {
            if self.connections[at].state != State::Over {
                self.end(at, Class::Timeout);
            }
        }
        (self.moved, self.recorder.close())
    }

    fn begin(&mut self, at: usize) {
        let now = self.clock.now();
        let connection = &mut self.connections[at];
        (connection.state, connection.left_bytes, connection.began) = (State::Writing, self.stream.sizes(false).0, now);
        self.recorder.sent(now);
        self.write(at);
    }

    /// Reads or writes of one turn.
    fn turn_pieces(&self) -> usize {
        (TURN_BYTES / self.fill.len()).max(1)
    }

    /// Writes until the burst is complete, the socket is full, or the turn is over.
    #[inline]
    fn write(&mut self, at: usize) {
        for _ in 0..self.turn_pieces() {
            let left_bytes = self.connections[at].left_bytes;
            let length = left_bytes.min(self.fill.len() as u64) as usize;
            match self.sockets[at].write(&self.fill[..length]) {
                Ok(count) => {
                    self.moved.sent += count as u64;
                    if self.stream.direction == Direction::In {
                        self.count(at, count);
                    }
                    let connection = &mut self.connections[at];
                    connection.left_bytes -= count as u64;
                    if connection.left_bytes == 0 {
                        (connection.state, connection.left_bytes) = (State::Reading, self.stream.sizes(false).1);
                        return self.watch_writable(at, false);
                    }
                    if count < length {
                        // The socket is full; another write would fail.
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return self.end(at, error.into()),
            }
        }
        self.watch_writable(at, true);
    }

    #[inline]
    fn watch_writable(&mut self, at: usize, room: bool) {
        let connection = &mut self.connections[at];
        if connection.awaits_room == room {
            return;
        }
        connection.awaits_room = room;
        let io = self.sockets[at].as_fd();
        let (watched, awaits) = if room { (Readable, Writable) } else { (Writable, Readable) };
        if let Err(error) = self.poller.watch(io, at, watched, awaits) {
            self.end(at, error.into());
        }
    }

    /// Reads until no bytes are available or the turn is over.
    #[inline]
    fn read(&mut self, at: usize) {
        for _ in 0..self.turn_pieces() {
            self.inbox.clear();
            match self.sockets[at].receive(&mut self.inbox) {
                Ok(0) if self.connections[at].state == State::Ending => {
                    self.moved.ended += 1;
                    return self.leave(at);
                }
                Ok(0) => return self.end(at, Class::Short),
                Ok(count) => {
                    self.moved.received += count as u64;
                    if self.stream.direction == Direction::Out {
                        self.count(at, count);
                    }
                    if !self.handle_bytes(at, count as u64) || count < self.fill.len() {
                        return;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(error) => return self.end(at, error.into()),
            }
        }
    }

    #[inline]
    fn handle_bytes(&mut self, at: usize, count: u64) -> bool {
        let connection = &mut self.connections[at];
        if connection.state == State::Ending {
            // The comparison of both sides' bytes verifies these bytes.
            return true;
        }
        if count > connection.left_bytes {
            self.end(at, Class::Wrong);
            return false;
        }
        connection.left_bytes -= count;
        if connection.left_bytes > 0 {
            return true;
        }
        let transaction = Transaction {
            due: connection.began,
            sent: connection.began,
            complete: self.clock.now(),
            connection: at as u32,
            ..Transaction::default()
        };
        self.recorder.complete(transaction);
        self.begin(at);
        false
    }

    #[inline]
    fn count(&mut self, at: usize, count: usize) {
        self.progress.add_bytes(count as u64);
        let now = self.clock.now();
        if !self.recorder.times().window.contains(&now) {
            return;
        }
        for (edge, last) in [(&mut self.part, PARTS), (&mut self.second, self.moved.by_second.len())] {
            while now >= edge.1 && edge.0 + 1 < last {
                *edge = (edge.0 + 1, edge.1 + edge.2, edge.2);
            }
        }
        self.moved.by_part[self.part.0] += count as u64;
        self.moved.by_second[self.second.0] += count as u64;
        self.moved.by_connection[at] += count as u64;
    }

    fn shut_down(&mut self, at: usize) {
        if self.connections[at].state == State::Over {
            return;
        }
        self.connections[at].state = State::Ending;
        self.watch_writable(at, false);
        if let Err(error) = rustix::net::shutdown(&self.sockets[at], Shutdown::Write) {
            self.end(at, error.into());
        }
    }

    #[cold]
    fn end(&mut self, at: usize, class: Class) {
        if self.connections[at].state == State::Over {
            return;
        }
        let Connection { began, .. } = self.connections[at];
        self.recorder
            .lose(Transaction { due: began, sent: began, connection: at as u32, ..Transaction::default() }, class);
        self.leave(at);
    }

    fn leave(&mut self, at: usize) {
        self.alive -= 1;
        self.connections[at].state = State::Over;
        // Keep the socket open, so that its descriptor is not reused. Remove it from the poller, which would report it forever.
        self.poller.remove(self.sockets[at].as_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_equals_jains_index() {
        assert_eq!((fairness(&[5, 5, 5, 5]), fairness(&[9, 0, 0, 0]), fairness(&[])), (1.0, 0.25, 1.0));
        assert!((fairness(&[1, 2, 3]) - 36.0 / 42.0).abs() < 1e-12);
    }
}
