//! The traffic of all connections of a port during a window.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use stats::Histogram;

/// The traffic of a port, from the server's side.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The length of the window.
    pub window_ns: u64,
    /// All connections that were open at some time of the window.
    pub connections: Vec<Connection>,
    /// The numbers of open connections.
    pub open: OpenCounts,
    /// The data to the server.
    pub received: Moves,
    /// The data from the server.
    pub sent: Moves,
    /// The mean number of connections whose last data came from the client.
    pub awaiting: Option<f64>,
    /// The times between a response and the next request. Only captures have them.
    pub pauses: Option<Histogram>,
    /// The times between a request and its response. Only captures have them.
    pub services: Option<Histogram>,
    /// Sentences about traffic that the source missed.
    pub gaps: Vec<String>,
}

/// The traffic of one connection in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The connection opened in the window.
    pub is_new: bool,
    /// The connection ended in the window.
    pub has_ended: bool,
    /// The data that the server received.
    pub received: Volume,
    /// The data that the server sent.
    pub sent: Volume,
    /// The round-trip time.
    pub round_trip_ns: Option<u64>,
}

impl Connection {
    /// Tests whether any data moved in the window.
    pub fn has_moved(&self) -> bool {
        self.received.bytes > 0 || self.sent.bytes > 0
    }

    /// Tests whether the connection was open during the whole window.
    pub fn is_persistent(&self) -> bool {
        !self.is_new && !self.has_ended
    }
}

/// Data in one direction, without retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The bytes of payload.
    pub bytes: u64,
    /// The segments with payload.
    pub segments: u64,
    /// The turns: data until the other side sends data. Only captures count them.
    pub turns: u64,
}

impl Volume {
    /// Returns the data since an earlier state of the same counters.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            segments: self.segments.saturating_sub(earlier.segments),
            turns: self.turns.saturating_sub(earlier.turns),
        }
    }
}

impl std::ops::AddAssign for Volume {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.turns += other.turns;
    }
}

/// The numbers of open connections in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OpenCounts {
    /// At the start.
    pub start: usize,
    /// At the end.
    pub end: usize,
    /// On average.
    pub mean: f64,
    /// At most.
    pub max: usize,
}

/// The number of different sizes that [`Moves`] counts.
const SIZES_MAX: usize = 50_000;
/// The number of frequent sizes from which [`Moves::unit`] derives its candidates.
const FREQUENT: usize = 16;
/// The share of the moves that are multiples of their unit. The others were cut by the end of an interval.
const MULTIPLES_MIN: f64 = 0.95;

/// The moves of data in one direction. A move is a turn in a capture, otherwise the data of a connection between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The number of moves by their sizes.
    counts: BTreeMap<u64, u64>,
    /// The largest size of a segment, as far as the source knows it: the smallest of all connections.
    pub segment_max: Option<u64>,
}

impl Moves {
    /// Counts a move, unless it is empty or there are too many different sizes.
    pub fn add(&mut self, bytes: u64) {
        if bytes > 0 && (self.counts.len() < SIZES_MAX || self.counts.contains_key(&bytes)) {
            *self.counts.entry(bytes).or_default() += 1;
        }
    }

    /// Takes the largest size of a segment of one connection.
    pub fn limit_segments(&mut self, bytes: u64) {
        let lowest = self.segment_max.map_or(bytes, |known| known.min(bytes));
        self.segment_max = Some(lowest).filter(|bytes| *bytes > 0);
    }

    /// Returns the sum of all sizes.
    pub fn bytes(&self) -> u64 {
        self.counts.iter().map(|(bytes, count)| bytes * count).sum()
    }

    /// Returns the largest size of which nearly all moves are multiples: the size of a message, if all messages have one size.
    pub fn unit(&self) -> Option<u64> {
        let mut by_count: Vec<(u64, u64)> = self.counts.iter().map(|(&bytes, &count)| (count, bytes)).collect();
        by_count.sort_unstable_by(|a, b| b.cmp(a));
        let frequent: Vec<u64> = by_count.iter().take(FREQUENT).map(|(_, bytes)| *bytes).collect();
        let mut candidates: Vec<u64> = Vec::new();
        for (at, &a) in frequent.iter().enumerate() {
            candidates.extend(frequent[at..].iter().map(|&b| divisor(a, b)));
        }
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.dedup();
        let all: u64 = self.counts.values().sum();
        let multiples = |unit: u64| -> u64 {
            self.counts.iter().filter(|(bytes, _)| bytes.is_multiple_of(unit)).map(|(_, count)| count).sum()
        };
        candidates.into_iter().find(|&unit| multiples(unit) as f64 >= MULTIPLES_MIN * all as f64)
    }
}

/// Returns the greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(sizes: impl IntoIterator<Item = u64>) -> Moves {
        let mut moves = Moves::default();
        sizes.into_iter().for_each(|bytes| moves.add(bytes));
        moves
    }

    #[test]
    fn unit_of_equal_messages_is_their_size() {
        assert_eq!(moves([128; 50]).unit(), Some(128));
        assert_eq!(moves((0..300).map(|at| 128 * (48 + at % 5))).unit(), Some(128), "no interval has a single message");
        assert_eq!(moves((0..100).map(|at| if at < 4 { 77 } else { 10_240 })).unit(), Some(10_240), "four were cut");
    }

    #[test]
    fn unit_of_varied_messages_is_far_below_them() {
        assert!(moves((0..500).map(|at| 100 + 37 * (at * at % 41))).unit().is_none_or(|unit| unit < 50));
        assert_eq!(moves([0, 0]).unit(), None);
    }
}
