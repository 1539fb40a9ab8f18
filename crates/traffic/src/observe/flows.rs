//! Traffic from packets: the connections of a port, and the messages on them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::Path;

use anyhow::{Context, bail};
use server::regular;
use stats::Histogram;

use super::capture::{self, Packet};
use super::traffic::{Connection, Moves, OpenCounts, Traffic, Volume};

/// The share of new connections that a port must have, to be the server's without --port.
const MAIN_PORT_MIN: f64 = 0.9;
/// The number of ports that an error lists.
const PORTS_SHOWN: usize = 5;

/// Reads the traffic of a server from a capture. Without a port, takes the one to which nearly all new connections go.
pub fn observe_capture(file: &Path, port: Option<NonZeroU16>) -> anyhow::Result<(NonZeroU16, Traffic)> {
    let port = match port {
        Some(port) => port,
        None => main_port(file)?,
    };
    let mut flows = Flows::new(port);
    let is_cut = read(file, |packet| flows.add(packet))?;
    if flows.connections.is_empty() {
        bail!("{} has no TCP packets of port {port}; choose another --port, or capture longer", file.display());
    }
    let mut missed = vec!["Connections without a packet in the capture.".to_owned()];
    missed.extend(is_cut.then(|| "The end: the file ends within a packet.".to_owned()));
    Ok((port, flows.finish(missed)))
}

fn read(file: &Path, each: impl FnMut(&Packet)) -> anyhow::Result<bool> {
    let cannot = || format!("cannot read {}", file.display());
    capture::read(regular::open(file).with_context(cannot)?, each).with_context(cannot)
}

/// Returns the port to which nearly all new connections go.
fn main_port(file: &Path) -> anyhow::Result<NonZeroU16> {
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    read(file, |packet| {
        if packet.syn && !packet.ack {
            *counts.entry(packet.destination.port()).or_default() += 1;
        }
    })?;
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(u64, u16)> = counts.into_iter().map(|(port, count)| (count, port)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    match counts.first().map(|&(count, port)| (count, NonZeroU16::new(port))) {
        Some((count, Some(port))) if count as f64 >= MAIN_PORT_MIN * all as f64 => Ok(port),
        None => bail!("{}: no connection opens in the capture; name the server's port with --port", file.display()),
        Some(_) => {
            let listed: Vec<String> =
                counts.iter().take(PORTS_SHOWN).map(|(count, port)| format!("{port} has {count}")).collect();
            let listed = listed.join(", ");
            bail!("{}: connections open to several ports; choose one with --port ({listed})", file.display())
        }
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Client,
    Server,
}

/// Data of one side, until the other side sends data.
#[derive(Clone, Copy, Debug)]
struct Turn {
    side: Endpoint,
    bytes: u64,
    last_ns: u64,
}

/// A connection of the port.
#[derive(Debug, Default)]
struct Flow {
    connection: Connection,
    /// The next sequence number of the client and of the server.
    next: [Option<u32>; 2],
    /// The time of the packet that opens the connection, until the handshake ends.
    opening_ns: Option<u64>,
    turn: Option<Turn>,
}

impl Flow {
    /// Tests whether the handshake has ended.
    fn is_established(&self) -> bool {
        !self.connection.is_new || self.connection.round_trip_ns.is_some()
    }

    /// Returns the bytes of a packet that no earlier packet had.
    fn new_bytes(&mut self, side: Endpoint, packet: &Packet) -> u32 {
        let next = &mut self.next[side as usize];
        let end = packet.sequence.wrapping_add(packet.bytes);
        // Sequence numbers wrap, so only their difference has an order.
        let ahead = next.map_or(packet.bytes, |next| (end.wrapping_sub(next) as i32).max(0).cast_unsigned());
        if ahead > 0 || next.is_none() {
            *next = Some(end);
        }
        ahead.min(packet.bytes)
    }
}

/// Collects the packets of a port.
#[derive(Debug)]
pub struct Flows {
    port: NonZeroU16,
    /// The connections by the addresses of client and server.
    connections: HashMap<(SocketAddr, SocketAddr), Flow>,
    /// Earlier connections with the same addresses as later ones.
    earlier: Vec<Flow>,
    /// The times when a connection opened (1) or ended (-1).
    changes: Vec<(u64, i64)>,
    received: Moves,
    sent: Moves,
    pauses: Histogram,
    services: Histogram,
    /// The times of the first and the last packet.
    window: Option<(u64, u64)>,
    /// The time by which the clock of the capture stepped back.
    stepped_back_ns: u64,
}

/// Packets of several interfaces can be out of order by less than this time. A clock that steps back by more was set.
const DISORDER_MAX_NS: u64 = 1_000_000_000;

impl Flows {
    /// Expects the packets of this port.
    pub fn new(port: NonZeroU16) -> Self {
        Self {
            port,
            connections: HashMap::new(),
            earlier: Vec::new(),
            changes: Vec::new(),
            received: Moves::default(),
            sent: Moves::default(),
            pauses: Histogram::new(),
            services: Histogram::new(),
            window: None,
            stepped_back_ns: 0,
        }
    }

    /// Takes a packet. Ignores those of other ports.
    pub fn add(&mut self, packet: &Packet) {
        let Packet { source, destination, .. } = *packet;
        let (key, side) = if destination.port() == self.port.get() {
            ((source, destination), Endpoint::Client)
        } else if source.port() == self.port.get() {
            ((destination, source), Endpoint::Server)
        } else {
            return;
        };
        let mut at_ns = packet.at_ns.saturating_add(self.stepped_back_ns);
        let (first, last) = self.window.unwrap_or((at_ns, at_ns));
        if at_ns.saturating_add(DISORDER_MAX_NS) < last {
            self.stepped_back_ns += last - at_ns;
            at_ns = last;
        }
        self.window = Some((first.min(at_ns), last.max(at_ns)));
        let opens = packet.syn && side == Endpoint::Client;
        let is_reused = |flow: &Flow| flow.connection.has_ended || flow.is_established();
        if opens && self.connections.get(&key).is_some_and(is_reused) {
            self.earlier.extend(self.connections.remove(&key));
        }
        let flow = self.connections.entry(key).or_default();
        if packet.syn {
            flow.next[side as usize] = Some(packet.sequence.wrapping_add(1));
            if opens {
                flow.connection.is_new = true;
                flow.opening_ns = Some(at_ns);
            }
            return;
        }
        if side == Endpoint::Client
            && packet.ack
            && let Some(opening_ns) = flow.opening_ns.take()
        {
            flow.connection.round_trip_ns = Some(at_ns.saturating_sub(opening_ns));
            self.changes.push((at_ns, 1));
        }
        let bytes = flow.new_bytes(side, packet);
        if bytes > 0 {
            self.take_data(key, side, at_ns, bytes.into());
        }
        let Some(flow) = self.connections.get_mut(&key) else { return };
        if (packet.fin || packet.rst) && !flow.connection.has_ended {
            flow.connection.has_ended = true;
            if flow.is_established() {
                self.changes.push((at_ns, -1));
            }
        }
    }

    /// Adds data to the turn of its side. Data of the other side ends a turn, which is a message.
    fn take_data(&mut self, key: (SocketAddr, SocketAddr), side: Endpoint, at_ns: u64, bytes: u64) {
        let Some(flow) = self.connections.get_mut(&key) else { return };
        if side == Endpoint::Server && flow.turn.is_none() && !flow.connection.is_new {
            // The capture lacks the request.
            return;
        }
        let volume = if side == Endpoint::Client { &mut flow.connection.received } else { &mut flow.connection.sent };
        let is_new_turn = flow.turn.is_none_or(|turn| turn.side != side);
        *volume += Volume { bytes, segments: 1, turns: is_new_turn.into() };
        match &mut flow.turn {
            Some(turn) if turn.side == side => {
                turn.bytes += bytes;
                turn.last_ns = at_ns;
            }
            ended => {
                let ended = ended.replace(Turn { side, bytes, last_ns: at_ns });
                let Some(ended) = ended else { return };
                let gap_ns = at_ns.saturating_sub(ended.last_ns);
                match ended.side {
                    Endpoint::Client => self.services.record(gap_ns),
                    Endpoint::Server => self.pauses.record(gap_ns),
                }
                self.count(ended);
            }
        }
    }

    fn count(&mut self, turn: Turn) {
        let moves = if turn.side == Endpoint::Client { &mut self.received } else { &mut self.sent };
        moves.add(turn.bytes);
    }

    /// Ends the window with the last packet.
    pub fn finish(mut self, mut missed: Vec<String>) -> Traffic {
        if self.stepped_back_ns > 0 {
            let seconds = self.stepped_back_ns as f64 / 1e9;
            missed.push(format!("The clock: it stepped back by {seconds:.1} s, which count as no time."));
        }
        let connections = std::mem::take(&mut self.connections).into_values();
        let all: Vec<Flow> = std::mem::take(&mut self.earlier).into_iter().chain(connections).collect();
        all.iter().filter_map(|flow| flow.turn).for_each(|turn| self.count(turn));
        let (first, last) = self.window.unwrap_or_default();
        let connections: Vec<Connection> =
            all.iter().filter(|flow| flow.is_established()).map(|flow| flow.connection).collect();
        let start = connections.iter().filter(|it| !it.is_new).count();
        let window_ns = (last - first).max(1);
        Traffic {
            window_ns,
            connections,
            open: open_counts(start, self.changes, first, last),
            received: self.received,
            sent: self.sent,
            awaiting: None,
            pauses: Some(self.pauses),
            services: Some(self.services),
            missed,
        }
    }
}

/// Returns the numbers of open connections from their number at the start and its changes.
fn open_counts(start: usize, mut changes: Vec<(u64, i64)>, first: u64, last: u64) -> OpenCounts {
    changes.sort_unstable();
    let (mut open, mut max, mut since) = (start as i64, start as i64, first);
    let mut area = 0.0;
    for (at_ns, change) in changes {
        area += open as f64 * (at_ns - since) as f64;
        since = at_ns;
        open += change;
        max = max.max(open);
    }
    area += open as f64 * (last - since) as f64;
    let mean = if last > first { area / (last - first) as f64 } else { open as f64 };
    OpenCounts { start, end: open.max(0) as usize, mean, max: max.max(0) as usize }
}

#[cfg(test)]
mod tests;
