//! What an experiment says of streams, and what it means.

use std::fmt;
use std::num::NonZeroU32;

use load::report::PARTS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::Moved;
use wire::ServiceSpec;
use wire::stream::Direction;

use crate::units::{Size, Time};

/// How long is waited for streams to end where nothing is said: sockets hold megabytes each, and a slow server takes its
/// time with those of a thousand. It is over as soon as all have ended.
pub const DRAIN: Time = Time(30_000_000_000);

/// Bursts, of `stream`. Without a word, those of welsh2001.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Stream {
    /// Size of a packet.
    pub packet: Size,
    /// Packets of a burst.
    pub packets: NonZeroU32,
    /// Size of what the receiver says to a whole burst or, if the server sends, of the request for one.
    pub ack: Size,
    /// Who sends: in, the clients; out, the server.
    #[schemars(with = "DirectionName")]
    pub direction: Direction,
}

/// The names of [`Direction`], for the schema.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(dead_code, reason = "only its schema is used")]
enum DirectionName {
    /// The clients send.
    In,
    /// The server sends.
    Out,
}

impl Default for Stream {
    fn default() -> Self {
        wire::stream::Stream::default().into()
    }
}

impl From<wire::stream::Stream> for Stream {
    fn from(stream: wire::stream::Stream) -> Self {
        let wire::stream::Stream { packet_bytes, packets, ack_bytes, direction } = stream;
        let packets = NonZeroU32::new(packets).unwrap_or(NonZeroU32::MIN);
        Self { packet: Size(packet_bytes), packets, ack: Size(ack_bytes), direction }
    }
}

/// What of it is bursts, in bytes.
fn bursts(direction: Direction, moved: Moved) -> f64 {
    (match direction {
        Direction::In => moved.bytes_in,
        Direction::Out => moved.bytes_out,
    }) as f64
}

/// Bytes of bursts a second that a server moved, from the first time that it was asked to the last; `None` if it was not.
pub fn server_bytes_per_s(direction: Direction, moved: &[Moved]) -> Option<f64> {
    let (first, last) = (*moved.first()?, *moved.last()?);
    let elapsed_ns = last.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)?;
    Some((bursts(direction, last) - bursts(direction, first)) * 1e9 / elapsed_ns as f64)
}

/// The same in each part of that time. A part at whose edges it was not asked, for it was late, has its share of what moved
/// between those at which it was.
pub fn server_bytes_per_s_by_part(direction: Direction, moved: &[Moved]) -> Option<[f64; PARTS]> {
    server_bytes_per_s(direction, moved)?;
    let (first_ns, last_ns) = (moved[0].at_ns as f64, moved[moved.len() - 1].at_ns as f64);
    let part_ns = (last_ns - first_ns) / PARTS as f64;
    let at = |edge: usize| {
        let at_ns = first_ns + part_ns * edge as f64;
        let after = moved.partition_point(|it| (it.at_ns as f64) < at_ns).clamp(1, moved.len() - 1);
        let (from, to) = (moved[after - 1], moved[after]);
        let share = (at_ns - from.at_ns as f64) / (to.at_ns - from.at_ns).max(1) as f64;
        bursts(direction, from) + share * (bursts(direction, to) - bursts(direction, from))
    };
    Some(std::array::from_fn(|part| (at(part + 1) - at(part)) * 1e9 / part_ns))
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, packets, ack, direction } = self;
        match direction {
            Direction::In => write!(f, "stream: {packets} x {packet} -> {ack}"),
            Direction::Out => write!(f, "stream: {ack} -> {packets} x {packet}"),
        }
    }
}

impl Stream {
    /// What the server runs. No size is 0: none can be written.
    pub fn service(&self) -> ServiceSpec {
        ServiceSpec::Stream(wire::stream::Stream {
            packet_bytes: self.packet.0,
            packets: self.packets.get(),
            ack_bytes: self.ack.0,
            direction: self.direction,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_in_time_is_shared_out() {
        // A second of 32 MB, and one of none; nobody asked between half of the first and half of the last.
        let moved = |at_ms: u64, megabytes: u64| Moved {
            at_ns: 7_000_000_000 + at_ms * 1_000_000,
            bytes_in: 5 + megabytes * 1_000_000,
            bytes_out: 99,
        };
        let asked = [moved(0, 0), moved(500, 16), moved(1_500, 32), moved(2_000, 32)];
        assert_eq!(server_bytes_per_s(Direction::In, &asked), Some(16e6));
        assert_eq!(server_bytes_per_s(Direction::Out, &asked), Some(0.0));
        let parts = server_bytes_per_s_by_part(Direction::In, &asked).unwrap().map(|it| it.round());
        assert_eq!((parts[0], parts[7], parts[8], parts[23], parts[24], parts[31]), (32e6, 32e6, 16e6, 16e6, 0.0, 0.0));
        for few in [&asked[..0], &asked[..1]] {
            assert_eq!(server_bytes_per_s(Direction::In, few), None);
            assert_eq!(server_bytes_per_s_by_part(Direction::In, few), None);
        }
    }
}
