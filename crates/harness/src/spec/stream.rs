//! What an experiment says of streams, and what it means.

use std::fmt;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;
use wire::stream::Direction;

use super::units::{Size, Time};

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
