//! The bandwidth benchmark of welsh2001: bursts of packets, with an acknowledgement for each burst. A greeting, which is a
//! burst of one packet, checks a connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fill::fill;
use crate::service::Service;

/// First byte of a greeting: a burst of one packet, or the request for such a burst.
pub const GREETING: u8 = 0;
/// Largest write, which stays in a CPU's cache.
const WRITE_BYTES_MAX: u64 = 128 << 10;

/// Sizes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Size of a packet in bytes, at least 1.
    pub packet_bytes: u32,
    /// Packets of a burst, at least 1.
    pub packets: u32,
    /// Size in bytes of an acknowledgement, or of a request for a burst; at least 1.
    pub ack_bytes: u32,
    /// Direction of the bursts.
    pub direction: Direction,
    /// Whether each read and each write is at most one packet, as in welsh2001, instead of larger pieces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_packet: bool,
}

/// Direction of bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client; the server acknowledges each burst.
    #[default]
    In,
    /// From the server, one for each request. A request has the size of an acknowledgement.
    Out,
}

impl Default for Stream {
    /// The sizes of welsh2001: 1 000 packets of 8 192 B, and acknowledgements of 32 B.
    fn default() -> Self {
        Self { packet_bytes: 8_192, packets: 1_000, ack_bytes: 32, direction: Direction::In, by_packet: false }
    }
}

impl Stream {
    /// Returns the size of a full burst in bytes.
    pub fn burst_bytes(&self) -> u64 {
        u64::from(self.packet_bytes) * u64::from(self.packets)
    }

    /// Returns the sizes of a request and of its response in bytes, for a full burst or a greeting.
    pub fn sizes(&self, is_greeting: bool) -> (u64, u64) {
        let burst_bytes = if is_greeting { self.packet_bytes.into() } else { self.burst_bytes() };
        match self.direction {
            Direction::In => (burst_bytes, self.ack_bytes.into()),
            Direction::Out => (self.ack_bytes.into(), burst_bytes),
        }
    }
}

/// The service.
#[derive(Debug)]
pub struct Streaming {
    stream: Stream,
    fill: Vec<u8>,
}

/// State of a connection.
#[derive(Debug, Default)]
pub struct StreamConn {
    /// Remaining bytes of a request that has begun.
    left_bytes: u64,
    /// Size of the response to this request.
    response_bytes: u64,
    unsent_bytes: u64,
}

impl Streaming {
    /// Creates a service with these sizes, which are at least 1.
    pub fn new(stream: Stream) -> Self {
        let Stream { packet_bytes, packets, ack_bytes, by_packet, .. } = stream;
        assert!(
            packet_bytes > 0 && packets > 0 && ack_bytes > 0,
            "a burst and its acknowledgement have at least one byte"
        );
        let write_bytes_max = if by_packet { packet_bytes.into() } else { WRITE_BYTES_MAX };
        let length = stream.sizes(false).1.min(write_bytes_max) as usize;
        Self { stream, fill: fill(length) }
    }
}

impl Service for Streaming {
    type Conn = StreamConn;

    #[inline]
    fn receive(&self, conn: &mut StreamConn, mut input: &[u8]) -> u64 {
        let mut requests = 0;
        while let Some(&first) = input.first() {
            if conn.left_bytes == 0 {
                (conn.left_bytes, conn.response_bytes) = self.stream.sizes(first == GREETING);
            }
            let taken = conn.left_bytes.min(input.len() as u64);
            conn.left_bytes -= taken;
            input = &input[taken as usize..];
            if conn.left_bytes == 0 {
                conn.unsent_bytes += conn.response_bytes;
                requests += 1;
            }
        }
        requests
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a StreamConn) -> &'a [u8] {
        let count = (self.fill.len() as u64).min(conn.unsent_bytes) as usize;
        &self.fill[..count]
    }

    #[inline]
    fn sent(&self, conn: &mut StreamConn, count: usize) -> u64 {
        debug_assert!(count as u64 <= conn.unsent_bytes, "the count exceeds the unsent bytes");
        conn.unsent_bytes -= count as u64;
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_split_of_bursts_and_greetings_gives_the_same_responses(
            packet_bytes in 1u32..50, packets in 1u32..20, ack_bytes in 1u32..70, out: bool, by_packet: bool,
            greetings in prop::collection::vec(any::<bool>(), 0..8),
            cuts in prop::collection::vec(prop_oneof![1usize..5, 1usize..400], 1..30),
        ) {
            let direction = if out { Direction::Out } else { Direction::In };
            let stream = Stream { packet_bytes, packets, ack_bytes, direction, by_packet };
            let mut input = Vec::new();
            let mut due_bytes = 0;
            for &is_greeting in &greetings {
                let (request_bytes, response_bytes) = stream.sizes(is_greeting);
                input.push(if is_greeting { GREETING } else { 0x5a });
                // Only the first byte has a meaning.
                input.resize(input.len() + request_bytes as usize - 1, GREETING);
                due_bytes += response_bytes;
            }
            let service = Streaming::new(stream);
            let mut conn = StreamConn::default();
            let (mut requests, mut rest) = (0, &input[..]);
            for length in cuts.iter().cycle() {
                let (piece, later) = rest.split_at(rest.len().min(*length));
                requests += service.receive(&mut conn, piece);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(requests, greetings.len() as u64);

            let mut sent_bytes = 0;
            while !service.unsent(&conn).is_empty() {
                // Short writes of an awkward size.
                let count = service.unsent(&conn).len().min(777);
                service.sent(&mut conn, count);
                sent_bytes += count as u64;
            }
            prop_assert_eq!(sent_bytes, due_bytes);
        }
    }

    #[test]
    fn connection_state_is_small_and_bursts_need_no_buffer() {
        assert!(size_of::<StreamConn>() <= 24);
        let out = Stream { direction: Direction::Out, ..Stream::default() };
        assert_eq!(out.burst_bytes(), 8_192_000);
        let service = Streaming::new(out);
        let mut conn = StreamConn::default();
        assert_eq!(service.receive(&mut conn, &[1; 32]), 1);
        assert_eq!(service.unsent(&conn).len() as u64, WRITE_BYTES_MAX);
        let by_packet = Streaming::new(Stream { by_packet: true, ..out });
        assert_eq!(by_packet.unsent(&conn).len(), 8_192);
    }
}
