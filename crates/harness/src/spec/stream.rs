//! The bursts of an experiment with the `stream` service.

use std::fmt;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;
use wire::stream::Direction;

use super::schema::DirectionName;
use super::units::{Size, Time};

/// The default cool-down of `--service stream`. A socket buffers megabytes, so a slow server with a thousand streams needs
/// this time. The cool-down ends early when all streams have ended.
pub const COOL_DOWN: Time = Time(30_000_000_000);

/// The bursts of `stream`. By default, those of welsh2001.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Stream {
    /// The size of a packet.
    pub packet: Size,
    /// The number of packets in a burst.
    pub packets: NonZeroU32,
    /// The size of the receiver's acknowledgement of a burst. If the server sends, the size of the request for a burst.
    pub ack: Size,
    /// The sender: the clients (in) or the server (out).
    #[schemars(with = "DirectionName")]
    pub direction: Direction,
    /// Whether each read and each write is at most one packet. By default a write of the client has 128 KiB, and a read of the
    /// server the read budget.
    pub by_packet: bool,
}

impl Default for Stream {
    fn default() -> Self {
        wire::stream::Stream::default().into()
    }
}

impl From<wire::stream::Stream> for Stream {
    fn from(stream: wire::stream::Stream) -> Self {
        let wire::stream::Stream { packet_bytes, packets, ack_bytes, direction, by_packet } = stream;
        let packets = NonZeroU32::new(packets).unwrap_or(NonZeroU32::MIN);
        Self { packet: Size(packet_bytes), packets, ack: Size(ack_bytes), direction, by_packet }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packet, packets, ack, direction, by_packet } = self;
        match direction {
            Direction::In => write!(f, "stream: {packets} x {packet} -> {ack}")?,
            Direction::Out => write!(f, "stream: {ack} -> {packets} x {packet}")?,
        }
        f.write_str(if *by_packet { ", by packet" } else { "" })
    }
}

impl Stream {
    /// Returns the server's service. Parsing rejects sizes of 0.
    pub fn service(&self) -> ServiceSpec {
        ServiceSpec::Stream(wire::stream::Stream {
            packet_bytes: self.packet.0,
            packets: self.packets.get(),
            ack_bytes: self.ack.0,
            direction: self.direction,
            by_packet: self.by_packet,
        })
    }
}
