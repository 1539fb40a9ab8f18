//! Traffic from snapshots of the kernel's counters of each connection.

use std::collections::HashMap;

use super::traffic::{Connection, Moves, OpenCounts, Traffic, Volume};

/// The kernel's counters of one connection, since the connection opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketState {
    /// The connection's number, which the kernel never uses again.
    pub id: u64,
    /// The data that the server received.
    pub received: Volume,
    /// The data that the server sent.
    pub sent: Volume,
    /// The kernel's estimate of the round-trip time.
    pub round_trip_ns: u64,
    /// The server received the last data, and has not answered yet.
    pub is_awaiting: bool,
    /// The largest segments that the server receives and sends.
    pub segment_max: (u32, u32),
}

/// Collects snapshots of all connections, and the last counters of those that end between two snapshots.
#[derive(Debug)]
pub struct Tracker {
    open: HashMap<u64, Tracked>,
    ended: HashMap<u64, Tracked>,
    received: Moves,
    sent: Moves,
    counts: OpenCounts,
    snapshots: u64,
    /// Sums over all snapshots.
    open_sum: u64,
    awaiting_sum: u64,
}

#[derive(Debug, Default)]
struct Tracked {
    is_new: bool,
    base: SocketState,
    last: SocketState,
    /// The last snapshot that contained the connection.
    seen: u64,
}

impl Tracked {
    /// Takes new counters, and counts the moves since the previous ones. The data of a new connection is no move, because it may
    /// be that of a whole short-lived connection.
    fn update(&mut self, state: &SocketState, received: &mut Moves, sent: &mut Moves) {
        if !self.is_new {
            received.add(state.received.since(self.last.received).bytes);
            sent.add(state.sent.since(self.last.sent).bytes);
        }
        received.limit_segments(state.segment_max.0.into());
        sent.limit_segments(state.segment_max.1.into());
        self.last = *state;
    }

    fn has_moved(&self) -> bool {
        self.last.received != self.base.received || self.last.sent != self.base.sent
    }

    fn connection(&self, has_ended: bool) -> Connection {
        Connection {
            is_new: self.is_new,
            has_ended,
            received: self.last.received.since(self.base.received),
            sent: self.last.sent.since(self.base.sent),
            round_trip_ns: Some(self.last.round_trip_ns).filter(|ns| *ns > 0),
        }
    }
}

impl Tracker {
    /// Begins the window with its first snapshot.
    pub fn new(sockets: &[SocketState]) -> Self {
        let tracked = |it: &SocketState| (it.id, Tracked { is_new: false, base: *it, last: *it, seen: 0 });
        let start = sockets.len();
        Self {
            open: sockets.iter().map(tracked).collect(),
            ended: HashMap::new(),
            received: Moves::default(),
            sent: Moves::default(),
            counts: OpenCounts { start, end: start, mean: start as f64, max: start },
            snapshots: 0,
            open_sum: 0,
            awaiting_sum: 0,
        }
    }

    /// Tests whether a snapshot has contained a connection.
    pub fn is_known(&self, id: u64) -> bool {
        self.open.contains_key(&id) || self.ended.contains_key(&id)
    }

    /// Takes a snapshot. Connections that it lacks have ended.
    pub fn snapshot(&mut self, sockets: &[SocketState]) {
        self.snapshots += 1;
        for state in sockets {
            let tracked = self.open.entry(state.id).or_insert(Tracked { is_new: true, ..Tracked::default() });
            tracked.seen = self.snapshots;
            tracked.update(state, &mut self.received, &mut self.sent);
            self.awaiting_sum += u64::from(state.is_awaiting && tracked.has_moved());
        }
        let now = self.snapshots;
        self.ended.extend(self.open.extract_if(|_, tracked| tracked.seen < now));
        self.open_sum += sockets.len() as u64;
        self.counts.end = sockets.len();
        self.counts.max = self.counts.max.max(sockets.len());
    }

    /// Takes the last counters of a connection that has ended, and that no snapshot may have contained.
    pub fn end(&mut self, state: &SocketState) {
        let known = self.open.remove(&state.id).or_else(|| self.ended.remove(&state.id));
        let mut tracked = known.unwrap_or(Tracked { is_new: true, ..Tracked::default() });
        tracked.update(state, &mut self.received, &mut self.sent);
        self.ended.insert(state.id, tracked);
    }

    /// Ends the window.
    pub fn finish(self, window_ns: u64, missed: Vec<String>) -> Traffic {
        let mean = |sum: u64| sum as f64 / self.snapshots.max(1) as f64;
        let open = self.open.values().map(|it| it.connection(false));
        let ended = self.ended.values().map(|it| it.connection(true));
        let awaiting = (self.snapshots > 0).then(|| mean(self.awaiting_sum));
        let counts =
            OpenCounts { mean: if self.snapshots > 0 { mean(self.open_sum) } else { self.counts.mean }, ..self.counts };
        Traffic {
            window_ns,
            connections: open.chain(ended).collect(),
            open: counts,
            received: self.received,
            sent: self.sent,
            awaiting,
            pauses: None,
            services: None,
            missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(id: u64, requests: u64) -> SocketState {
        SocketState {
            id,
            received: Volume { bytes: 100 * requests, segments: requests, turns: 0 },
            sent: Volume { bytes: 1_000 * requests, segments: requests, turns: 0 },
            round_trip_ns: 50_000,
            is_awaiting: false,
            segment_max: (1_448, 1_400 + id as u32),
        }
    }

    #[test]
    fn counters_before_the_window_do_not_count() {
        let mut tracker = Tracker::new(&[socket(1, 70), socket(2, 0)]);
        tracker.snapshot(&[socket(1, 72), SocketState { is_awaiting: true, ..socket(2, 0) }]);
        tracker.snapshot(&[SocketState { is_awaiting: true, ..socket(1, 75) }, socket(2, 0)]);
        let traffic = tracker.finish(1, Vec::new());
        assert_eq!(traffic.open, OpenCounts { start: 2, end: 2, mean: 2.0, max: 2 });
        assert_eq!((traffic.received.unit(), traffic.sent.unit()), (Some(100), Some(1_000)));
        assert_eq!(traffic.awaiting, Some(0.5), "a silent connection does not await the server");
        let moved: Vec<_> = traffic.connections.iter().filter(|it| it.has_moved()).collect();
        assert!(moved.len() == 1 && moved[0].is_persistent());
        assert_eq!((moved[0].received.bytes, moved[0].received.segments, moved[0].sent.bytes), (500, 5, 5_000));
        assert_eq!((traffic.received.segment_max, traffic.sent.segment_max), (Some(1_448), Some(1_401)));
    }

    #[test]
    fn connection_between_two_snapshots_counts_when_it_ends() {
        let mut tracker = Tracker::new(&[socket(1, 3), socket(2, 3)]);
        tracker.end(&socket(9, 2));
        tracker.end(&socket(1, 4));
        tracker.snapshot(&[socket(2, 3), socket(5, 1)]);
        assert!([1, 2, 5, 9].into_iter().all(|id| tracker.is_known(id)) && !tracker.is_known(3));
        tracker.snapshot(&[socket(2, 3)]);
        // The kernel may report the end after a snapshot that lacks the connection.
        tracker.end(&socket(5, 4));
        let traffic = tracker.finish(1, Vec::new());
        assert_eq!(traffic.open, OpenCounts { start: 2, end: 1, mean: 1.5, max: 2 });
        let mut requests: Vec<_> =
            traffic.connections.iter().map(|it| (it.is_new, it.has_ended, it.received.segments)).collect();
        requests.sort_unstable();
        assert_eq!(requests, [(false, false, 0), (false, true, 1), (true, true, 2), (true, true, 4)]);
    }
}
