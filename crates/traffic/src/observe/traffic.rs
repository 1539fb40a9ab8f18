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
    pub missed: Vec<String>,
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

    /// Tests whether the window contains the whole connection, from its opening to its end.
    pub fn is_whole(&self) -> bool {
        self.is_new && self.has_ended
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

/// The exact distribution of the sizes of messages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeDistribution {
    /// The number of messages.
    pub count: u64,
    /// The smallest size in bytes.
    pub min_bytes: u64,
    /// The median size in bytes.
    pub p50_bytes: u64,
    /// The 90th percentile in bytes.
    pub p90_bytes: u64,
    /// The 95th percentile in bytes.
    pub p95_bytes: u64,
    /// The 99th percentile in bytes.
    pub p99_bytes: u64,
    /// The largest size in bytes.
    pub max_bytes: u64,
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

    /// Returns the number of moves.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the sum of all sizes.
    pub fn bytes(&self) -> u64 {
        self.counts.iter().map(|(bytes, count)| bytes * count).sum()
    }

    /// Tests whether any move has several messages of this size.
    pub fn has_several(&self, unit: u64) -> bool {
        self.counts.keys().any(|bytes| *bytes > unit && bytes.is_multiple_of(unit))
    }

    /// Returns the moves with each multiple of `unit` split into moves of this size.
    pub fn split(&self, unit: u64) -> Self {
        let mut split = Self { segment_max: self.segment_max, ..Self::default() };
        for (&bytes, &count) in &self.counts {
            let parts = if bytes.is_multiple_of(unit) { bytes / unit } else { 1 };
            *split.counts.entry(bytes / parts).or_default() += count * parts;
        }
        split
    }

    /// Returns the distribution of the sizes; `None` without moves.
    pub fn sizes(&self) -> Option<SizeDistribution> {
        let (&min_bytes, _) = self.counts.first_key_value()?;
        let (&max_bytes, _) = self.counts.last_key_value()?;
        let count = self.count();
        let quantile = |q: f64| {
            let rank = (q * count as f64).ceil() as u64;
            let mut at_most = 0;
            for (&bytes, &number) in &self.counts {
                at_most += number;
                if at_most >= rank {
                    return bytes;
                }
            }
            max_bytes
        };
        Some(SizeDistribution {
            count,
            min_bytes,
            p50_bytes: quantile(0.5),
            p90_bytes: quantile(0.9),
            p95_bytes: quantile(0.95),
            p99_bytes: quantile(0.99),
            max_bytes,
        })
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
    fn sizes_have_exact_percentiles() {
        let sizes = moves((1..=200).rev().map(|at| 10 * at)).sizes().unwrap();
        assert_eq!((sizes.count, sizes.min_bytes, sizes.max_bytes), (200, 10, 2_000));
        assert_eq!([sizes.p50_bytes, sizes.p90_bytes, sizes.p95_bytes, sizes.p99_bytes], [1_000, 1_800, 1_900, 1_980]);
        let one = moves([7]).sizes().unwrap();
        assert_eq!([one.min_bytes, one.p50_bytes, one.p99_bytes, one.max_bytes], [7; 4]);
        assert_eq!(Moves::default().sizes(), None);
    }

    #[test]
    fn multiples_of_the_unit_are_split() {
        let several = moves([100, 300, 300, 70]);
        assert!(several.has_several(100) && !moves([100, 70, 170]).has_several(100));
        let split = several.split(100);
        assert_eq!((split.count(), split.bytes(), split.sizes().unwrap().min_bytes), (8, 770, 70));
        assert_eq!(split.sizes().unwrap().max_bytes, 100);
    }

    #[test]
    fn unit_of_varied_messages_is_far_below_them() {
        assert!(moves((0..500).map(|at| 100 + 37 * (at * at % 41))).unit().is_none_or(|unit| unit < 50));
        assert_eq!(moves([0, 0]).unit(), None);
    }
}
