//! Requests, sizes, rate and active share, estimated from traffic.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::Serialize;
use stats::Distribution;

use super::traffic::{Connection, Moves, OpenCounts, SizeDistribution, Traffic, Volume};

/// The least size of a common unit, as a share of the mean segment. A smaller unit is a coincidence of sizes that vary.
const UNIT_MIN: f64 = 0.5;
/// The largest difference between the mean size and the common size of all messages.
const CONSTANT_TOLERANCE: f64 = 0.01;
/// Without a common unit, messages have one size if it explains the bytes of nearly all connections, of which there are enough.
const CONNECTIONS_MIN: usize = 10;
const SAME_MIN: f64 = 0.95;

/// The estimates of a port's traffic.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Observation {
    /// The server's port.
    pub port: NonZeroU16,
    /// The length of the window.
    pub window_ns: u64,
    /// The connections.
    pub connections: Connections,
    /// The bytes of payload that the server received, without retransmissions.
    pub received_bytes: u64,
    /// The bytes of payload that the server sent, without retransmissions.
    pub sent_bytes: u64,
    /// The requests; `None` if data did not move in both directions.
    pub requests: Option<Requests>,
    /// The median round-trip time of the connections.
    pub round_trip_ns: Option<u64>,
    /// The mean time between a response and the next request of a connection.
    pub pause_mean_ns: Option<f64>,
    /// The times between a response and the next request, from a capture.
    pub pause: Option<Distribution>,
    /// The times between a request and its response, from a capture.
    pub service: Option<Distribution>,
    /// Sentences about traffic that the observation cannot see.
    pub unseen: Vec<String>,
}

/// The connections of a port.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Connections {
    /// The numbers of open connections.
    pub open: OpenCounts,
    /// The number of connections that opened.
    pub opened: usize,
    /// The number of connections that ended.
    pub ended: usize,
    /// The number of lasting connections: those that were open during the whole window, and all that opened or ended if no
    /// connection with data did both.
    pub persistent: usize,
    /// The number of these that moved data.
    pub moved: usize,
    /// The estimated share of these that carry requests, of which some had none in the window.
    pub active_share: Option<f64>,
}

/// The requests and responses of a port.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Requests {
    /// The number of requests.
    pub count: u64,
    /// The requests per second.
    pub rate_per_s: f64,
    /// The requests' size.
    pub request: MessageSize,
    /// The responses' size.
    pub response: MessageSize,
    /// The share of the requests on connections that ended in the window and are not lasting. A connection that opened and is still
    /// open may last.
    pub short_lived_share: f64,
    /// The mean number of requests on connections that both opened and ended in the window.
    pub per_connection: Option<f64>,
}

/// The sizes of the messages in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MessageSize {
    /// The mean size in bytes.
    pub bytes: f64,
    /// Whether all messages have this size.
    pub is_constant: bool,
    /// The mean number of segments of a message.
    pub segments: f64,
    /// The exact distribution of the sizes, from a capture, which has the boundaries of messages.
    pub sizes: Option<SizeDistribution>,
}

/// The way in which messages of one direction are counted.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// The size of all messages.
    unit: Option<u64>,
    /// Without a common size, each turn counts as a message, or each segment.
    has_turns: bool,
    /// The messages are not split: they have one size, are turns, or fit in a segment.
    is_whole: bool,
}

impl Counter {
    fn of(moves: &Moves, total: Volume, has_turns: bool) -> Self {
        let pieces = if has_turns { total.turns } else { total.segments };
        let piece = total.bytes as f64 / pieces.max(1) as f64;
        // Moves must describe most of the data.
        let unit = moves.unit().filter(|unit| *unit as f64 >= UNIT_MIN * piece && moves.bytes() >= total.bytes / 2);
        // Segments of a split message are on average larger than half of the largest segment.
        let are_small = moves.segment_max.is_some_and(|max| piece <= max as f64 / 2.0);
        Self { unit, has_turns, is_whole: unit.is_some() || has_turns || are_small }
    }

    /// Returns the number of messages.
    fn count(self, volume: Volume) -> u64 {
        match self.unit {
            // A message that the window cuts counts by its larger part.
            Some(unit) => (volume.bytes + unit / 2) / unit,
            None if self.has_turns => volume.turns,
            None => volume.segments,
        }
    }

    /// Describes the messages by their moves, and by pairs of volume and number of messages, one pair for each connection.
    fn message(self, moves: &Moves, connections: &[(Volume, u64)]) -> MessageSize {
        let (mut total, mut all) = (Volume::default(), 0_u64);
        for (volume, count) in connections {
            total += *volume;
            all += count;
        }
        let segments = total.segments as f64 / all as f64;
        // Moves may lack rare sizes.
        if self.has_turns && moves.count() >= total.turns {
            let messages = self.unit.map_or_else(|| moves.clone(), |unit| moves.split(unit));
            if let Some(sizes) = messages.sizes() {
                let bytes = messages.bytes() as f64 / sizes.count as f64;
                let is_constant = sizes.min_bytes == sizes.max_bytes;
                return MessageSize { bytes, is_constant, segments, sizes: Some(sizes) };
            }
        }
        let mean = total.bytes as f64 / all as f64;
        let size = self.unit.unwrap_or_else(|| usual_size(connections));
        let has_size = |(volume, count): &&(Volume, u64)| volume.bytes == size * count;
        let same = connections.iter().filter(has_size).count();
        let is_near = (size as f64 - mean).abs() <= CONSTANT_TOLERANCE * mean;
        let is_constant = match self.unit {
            Some(_) => is_near,
            None => connections.len() >= CONNECTIONS_MIN && same as f64 >= SAME_MIN * connections.len() as f64,
        };
        let bytes = if is_constant { size as f64 } else { mean };
        MessageSize { bytes, is_constant, segments, sizes: None }
    }
}

/// Returns the median of the connections' mean sizes. A message at the edge of the window changes the mean of all, but not the median.
fn usual_size(connections: &[(Volume, u64)]) -> u64 {
    let with_messages = connections.iter().filter(|(_, count)| *count > 0);
    median(with_messages.map(|(volume, count)| volume.bytes / count)).unwrap_or_default()
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

/// Returns a test for lasting connections. A connection of which the window lacks the opening or the end may be lasting or
/// short-lived. It counts as lasting if no connection with data was short-lived.
fn lasting(all: &[Connection]) -> impl Fn(&Connection) -> bool + use<> {
    let has_short_lived = all.iter().any(|it| it.is_whole() && it.has_moved());
    move |it| it.is_persistent() || !has_short_lived && !it.is_whole()
}

impl Requests {
    /// Tests whether most requests are on short-lived connections.
    pub fn is_short_lived(&self) -> bool {
        self.short_lived_share > 0.5
    }
}

impl Observation {
    /// Estimates the requests of a port from its traffic.
    ///
    /// Each request has one response. If the messages of only one direction are whole, their number is that of the requests.
    /// Otherwise it is the lower number, because the other messages are split more often.
    pub fn of(port: NonZeroU16, traffic: &Traffic) -> Self {
        let all = &traffic.connections;
        let has_turns = traffic.services.is_some();
        let total = |volume: fn(&Connection) -> Volume| {
            let mut total = Volume::default();
            all.iter().for_each(|connection| total += volume(connection));
            total
        };
        let (received, sent) = (total(|it| it.received), total(|it| it.sent));
        let mut of_received = Counter::of(&traffic.received, received, has_turns);
        let mut of_sent = Counter::of(&traffic.sent, sent, has_turns);
        let has_several = |counter: Counter, moves: &Moves| counter.unit.is_some_and(|unit| moves.has_several(unit));
        let is_pipelined = has_several(of_received, &traffic.received) && has_several(of_sent, &traffic.sent);
        if has_turns && !is_pipelined {
            // Each turn is a message, also if a few turns have another size than nearly all.
            (of_received.unit, of_sent.unit) = (None, None);
        }
        let by_received = |it: &Connection| of_received.count(it.received);
        let by_sent = |it: &Connection| of_sent.count(it.sent);
        let is_by_received = match (of_received.is_whole, of_sent.is_whole) {
            (true, false) => true,
            (false, true) => false,
            _ => all.iter().map(by_received).sum::<u64>() <= all.iter().map(by_sent).sum::<u64>(),
        };
        let requests_of = |it: &Connection| if is_by_received { by_received(it) } else { by_sent(it) };

        let connections = connections(traffic, requests_of);
        let count = all.iter().map(requests_of).sum::<u64>();
        let is_two_way = received.bytes > 0 && sent.bytes > 0;
        let requests = (is_two_way && count > 0).then(|| {
            let is_lasting = lasting(all);
            let short_lived = all.iter().filter(|it| it.has_ended && !is_lasting(it)).map(requests_of).sum::<u64>();
            let whole: Vec<u64> = all.iter().filter(|it| it.is_whole() && it.has_moved()).map(requests_of).collect();
            let moved = |volume: fn(&Connection) -> Volume| -> Vec<(Volume, u64)> {
                all.iter().filter(|it| it.has_moved()).map(|it| (volume(it), requests_of(it))).collect()
            };
            Requests {
                count,
                rate_per_s: count as f64 * 1e9 / traffic.window_ns.max(1) as f64,
                request: of_received.message(&traffic.received, &moved(|it| it.received)),
                response: of_sent.message(&traffic.sent, &moved(|it| it.sent)),
                short_lived_share: short_lived as f64 / count as f64,
                per_connection: (!whole.is_empty()).then(|| whole.iter().sum::<u64>() as f64 / whole.len() as f64),
            }
        });
        let pause = traffic.pauses.as_ref().filter(|it| it.count() > 0).map(|it| it.distribution());
        let service = traffic.services.as_ref().filter(|it| it.count() > 0).map(|it| it.distribution());
        let is_whole = of_received.is_whole || of_sent.is_whole;
        Self {
            port,
            window_ns: traffic.window_ns,
            round_trip_ns: median(all.iter().filter(|it| it.has_moved()).filter_map(|it| it.round_trip_ns)),
            pause_mean_ns: pause
                .map(|it| it.mean_ns)
                .or_else(|| mean_pause(traffic, connections.active_share?, requests.as_ref()?, requests_of)),
            unseen: unseen(traffic, requests.as_ref(), is_whole),
            connections,
            received_bytes: received.bytes,
            sent_bytes: sent.bytes,
            requests,
            pause,
            service,
        }
    }
}

/// Returns the numbers of connections, and the active share by the numbers of requests on lasting connections.
fn connections(traffic: &Traffic, requests_of: impl Fn(&Connection) -> u64) -> Connections {
    let all = &traffic.connections;
    let is_lasting = lasting(all);
    let persistent: Vec<&Connection> = all.iter().filter(|it| is_lasting(it)).collect();
    let moved = persistent.iter().filter(|it| it.has_moved()).count();
    let with = |requests: u64| persistent.iter().filter(|it| requests_of(it) == requests).count() as f64;
    // The estimator of Chao (1984) for the number of classes: those seen once and twice tell how many were never seen.
    let (once, twice) = (with(1), with(2));
    let silent = once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
    let active = (moved as f64 + silent).min(persistent.len() as f64);
    Connections {
        open: traffic.open,
        opened: all.iter().filter(|it| it.is_new).count(),
        ended: all.iter().filter(|it| it.has_ended).count(),
        persistent: persistent.len(),
        moved,
        active_share: (!persistent.is_empty()).then(|| active / persistent.len() as f64),
    }
}

/// Returns the mean time between a response and the next request, by Little's law: the mean number of active connections that do
/// not await the server, divided by the rate. Connections that opened or ended in the window have no such time, and must have few
/// of the requests.
fn mean_pause(
    traffic: &Traffic,
    active_share: f64,
    requests: &Requests,
    requests_of: impl Fn(&Connection) -> u64,
) -> Option<f64> {
    let persistent: Vec<&Connection> = traffic.connections.iter().filter(|it| it.is_persistent()).collect();
    let count: u64 = persistent.iter().map(|it| requests_of(it)).sum();
    let thinking = active_share * persistent.len() as f64 - traffic.awaiting?;
    (2 * count > requests.count && thinking > 0.0).then(|| thinking / requests.rate_per_s * 1e9)
}

fn unseen(traffic: &Traffic, requests: Option<&Requests>, is_whole: bool) -> Vec<String> {
    let mut unseen = traffic.missed.clone();
    let mut add = |sentence: &str| unseen.push(sentence.to_owned());
    let Some(requests) = requests else {
        add("Requests: data did not move in both directions.");
        return unseen;
    };
    add("Content: sizes include headers and the records of TLS.");
    add("Pipelining: several requests without a response between them count as one, unless all have the same size.");
    if !is_whole {
        add(
            "Messages of several segments: sizes vary, so each segment counts as a message, and the rate may be too high. A \
             capture (--pcap) separates messages.",
        );
    }
    let has_single_sizes = |message: &MessageSize| message.is_constant || message.sizes.is_some();
    if !(has_single_sizes(&requests.request) && has_single_sizes(&requests.response)) {
        add("Single sizes: sizes vary, and only their means are known.");
    }
    add(
        "Whether clients wait for responses (closed loop) or not: the traffic profile sends at the observed rate (open loop).",
    );
    unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn volume(messages: u64, bytes: u64, segments: u64) -> Volume {
        Volume { bytes: messages * bytes, segments: messages * segments, turns: 0 }
    }

    /// Returns ten seconds of connections with these numbers of requests. A request has 128 bytes, and a response 10 000 bytes in
    /// seven segments.
    fn traffic(requests: impl IntoIterator<Item = u64>) -> Traffic {
        let mut traffic = Traffic { window_ns: 10 * SECOND, ..Traffic::default() };
        for count in requests {
            let (received, sent) = (volume(count, 128, 1), volume(count, 10_000, 7));
            (0..count).for_each(|_| traffic.received.add(128));
            (0..count).for_each(|_| traffic.sent.add(10_000));
            traffic.connections.push(Connection {
                received,
                sent,
                round_trip_ns: Some(count),
                ..Connection::default()
            });
        }
        traffic
    }

    fn observed(traffic: &Traffic) -> Observation {
        Observation::of(NonZeroU16::new(80).unwrap(), traffic)
    }

    #[test]
    fn messages_of_one_size_are_exact_in_any_number_of_segments() {
        let observed = observed(&traffic([50, 60, 0, 70]));
        let requests = observed.requests.unwrap();
        assert_eq!((requests.count, requests.rate_per_s), (180, 18.0));
        assert_eq!(requests.request, MessageSize { bytes: 128.0, is_constant: true, segments: 1.0, sizes: None });
        assert_eq!(requests.response, MessageSize { bytes: 10_000.0, is_constant: true, segments: 7.0, sizes: None });
        let Connections { persistent, moved, active_share, .. } = observed.connections;
        assert_eq!((persistent, moved, active_share), (4, 3, Some(0.75)));
        assert_eq!(observed.round_trip_ns, Some(60));
        assert_eq!((observed.received_bytes, observed.sent_bytes), (180 * 128, 180 * 10_000));
    }

    #[test]
    fn varied_sizes_are_counted_by_whole_segments() {
        let mut traffic = Traffic { window_ns: SECOND, ..Traffic::default() };
        for at in 1..200 {
            let received = volume(1, 90 + at * at % 211, 1);
            let sent = volume(1, 5_000 + at * at % 1_999, 4);
            traffic.received.add(received.bytes);
            traffic.sent.add(sent.bytes);
            traffic.connections.push(Connection { received, sent, ..Connection::default() });
        }
        let is_doubtful =
            |seen: &Observation| seen.unseen.iter().any(|it| it.starts_with("Messages of several segments"));
        let unlimited = observed(&traffic);
        assert!(unlimited.requests.as_ref().unwrap().count == 199 && is_doubtful(&unlimited));
        traffic.received.limit_segments(1_448);
        traffic.sent.limit_segments(1_448);
        let observed = observed(&traffic);
        assert!(!is_doubtful(&observed), "requests fit in a segment");
        let requests = observed.requests.unwrap();
        assert!(requests.count == 199 && !requests.request.is_constant && !requests.response.is_constant);
        assert_eq!((requests.request.segments, requests.response.segments), (1.0, 4.0));
        assert!((90.0..301.0).contains(&requests.request.bytes), "{requests:?}");
    }

    #[test]
    fn active_connections_without_a_request_are_estimated() {
        // 400 connections of which each gets a request with a probability of 63 %: a Poisson distribution with mean 1.
        let counts = [(0, 147), (1, 147), (2, 74), (3, 25), (4, 6), (5, 1)];
        let requests = counts.into_iter().flat_map(|(requests, connections)| vec![requests; connections]);
        let sparse = observed(&traffic(requests)).connections;
        assert!(sparse.moved == 253 && sparse.active_share.unwrap() > 0.95, "{sparse:?}");
        let fixed = [[20; 100].as_slice(), &[0; 300]].concat();
        assert_eq!(observed(&traffic(fixed)).connections.active_share, Some(0.25), "no connection was seen once");
    }

    #[test]
    fn short_lived_connections_have_a_number_of_requests() {
        // The counters of short-lived connections are no moves.
        let mut traffic = Traffic { received: Moves::default(), sent: Moves::default(), ..traffic([3; 50]) };
        traffic.received.limit_segments(1_448);
        for connection in &mut traffic.connections[1..] {
            (connection.is_new, connection.has_ended) = (true, true);
        }
        traffic.connections[49].is_new = false;
        let observed = observed(&traffic);
        let requests = observed.requests.unwrap();
        assert_eq!((requests.per_connection, requests.short_lived_share), (Some(3.0), 49.0 / 50.0));
        assert_eq!(requests.request, MessageSize { bytes: 128.0, is_constant: true, segments: 1.0, sizes: None });
        assert_eq!(requests.response, MessageSize { bytes: 10_000.0, is_constant: true, segments: 7.0, sizes: None });
        assert_eq!((observed.connections.opened, observed.connections.ended), (48, 49));
        assert_eq!(observed.pause_mean_ns, None);
    }

    #[test]
    fn connections_seen_in_part_are_lasting_unless_others_are_short() {
        for (is_new, has_ended) in [(true, false), (false, true)] {
            let mut traffic = Traffic { awaiting: Some(1.0), ..traffic([48; 20]) };
            traffic.connections.push(Connection::default());
            traffic.connections.iter_mut().for_each(|it| (it.is_new, it.has_ended) = (is_new, has_ended));
            // A connection without data, such as that of a health check, tells nothing about the others.
            traffic.connections.push(Connection { is_new: true, has_ended: true, ..Connection::default() });
            let seen = observed(&traffic);
            let (Connections { persistent, moved, active_share, .. }, requests) =
                (seen.connections, seen.requests.unwrap());
            assert_eq!((persistent, moved, active_share), (21, 20, Some(20.0 / 21.0)));
            assert_eq!((requests.per_connection, requests.short_lived_share), (None, 0.0));
            assert_eq!(seen.pause_mean_ns, None, "the connections were open for a part of the window");
        }
        let mut traffic = traffic([[48; 20].as_slice(), &[1]].concat());
        traffic.connections.iter_mut().for_each(|it| it.is_new = true);
        traffic.connections[20].has_ended = true;
        let requests = observed(&traffic).requests.unwrap();
        assert_eq!((requests.per_connection, requests.short_lived_share), (Some(1.0), 1.0 / 961.0));
    }

    #[test]
    fn response_at_the_edge_of_the_window_leaves_the_size_constant() {
        let mut traffic = Traffic { received: Moves::default(), sent: Moves::default(), ..traffic([3; 50]) };
        traffic.received.limit_segments(1_448);
        // The request of this response came before the window.
        traffic.connections[7].sent += volume(1, 10_000, 7);
        let requests = observed(&traffic).requests.unwrap();
        assert_eq!(requests.count, 150);
        assert!(requests.request.is_constant && requests.response.is_constant, "{requests:?}");
        assert_eq!((requests.request.bytes, requests.response.bytes), (128.0, 10_000.0));
    }

    #[test]
    fn pause_follows_from_rate_and_waiting_connections() {
        let traffic = Traffic { awaiting: Some(10.0), ..traffic([50; 30]) };
        // 20 connections pause, and 150 requests arrive in a second.
        let pause_ns = observed(&traffic).pause_mean_ns.unwrap();
        assert!((pause_ns - 20.0 / 150.0 * 1e9).abs() < 1.0, "{pause_ns}");
    }

    #[test]
    fn data_in_one_direction_has_no_requests() {
        let mut traffic = traffic([5; 3]);
        traffic.connections.iter_mut().for_each(|it| it.received = Volume::default());
        let observed = observed(&traffic);
        assert!(observed.requests.is_none() && observed.unseen[0].contains("both directions"));
    }
}
