//! A message between workers is a length, then content in postcard's encoding. Orders and events in messages are JSON.
//!
//! Until both sides are authenticated, they exchange [`HandshakeMessage`]s. Each later [`Message`] has a tag, which the
//! receiver verifies before it parses the message.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::secret::{Nonce, Proof};

/// The limits of an authenticated message and of a handshake message, in bytes.
pub(super) const MESSAGE_BYTES_MAX: u32 = 16 << 20;
pub(super) const HANDSHAKE_BYTES_MAX: u32 = 16 << 10;
/// The size in bytes of the length that precedes each message. The length counts neither itself nor the tag.
pub(super) const LENGTH_BYTES: usize = 4;

/// A message between sides that have not authenticated each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum HandshakeMessage {
    /// The first worker sends random bytes, which do not depend on the secret.
    Challenge { nonce: Nonce },
    /// A joining worker sends its [`Hello`] in postcard's encoding. The first worker parses it after verifying the proof.
    Claim { hello: Vec<u8>, proof: Proof },
    /// The first worker accepts the joining worker, and only now proves that it knows the secret.
    Welcome { proof: Proof },
    /// The first worker refuses the joining worker.
    Refused { reason: String },
}

/// A message between authenticated sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    /// A trial's order, as JSON. Later messages about the trial carry its number.
    Order { trial: u32, order: String },
    /// An event of the client, as JSON.
    Event { trial: u32, event: String },
    /// Requests the worker's time.
    Ping { number: u32 },
    /// Answers a ping with the worker's CLOCK_MONOTONIC.
    Pong { number: u32, monotonic_ns: u64 },
    /// Makes the client start its ramp at `start_ns` of the worker's CLOCK_MONOTONIC.
    Begin { trial: u32, start_ns: u64 },
    /// The worker has its client's report. `used_ppm` is the utilisation of the client's CPUs, in parts per million.
    Ended { trial: u32, used_ppm: Option<u32> },
    /// Requests the report (as an event) and the samples. Sent when all workers have sent `Ended`.
    Collect { trial: u32 },
    /// A part of the samples file. An empty part marks the end.
    Samples { trial: u32, bytes: Vec<u8> },
    /// Ends the trial and stops its client.
    Dismiss { trial: u32 },
    /// Ends the run.
    End,
}

impl Message {
    /// The trial that the message is about; `None` for other messages.
    pub(super) fn trial(&self) -> Option<u32> {
        match *self {
            Self::Order { trial, .. }
            | Self::Event { trial, .. }
            | Self::Begin { trial, .. }
            | Self::Ended { trial, .. }
            | Self::Collect { trial }
            | Self::Samples { trial, .. }
            | Self::Dismiss { trial } => Some(trial),
            Self::Ping { .. } | Self::Pong { .. } | Self::End => None,
        }
    }
}

/// A worker's description of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    pub(super) host: String,
    /// An identifier that all processes of the machine share, even if they see different host names.
    pub(super) machine: String,
    /// An identifier of the network namespace, whose processes share addresses and ports.
    pub(super) network: u64,
    pub(super) cpus: Vec<usize>,
    /// The number of CPUs of the host; 0 if unknown.
    pub(super) cpus_of_host: u32,
    pub(super) nonce: Nonce,
}

impl HandshakeMessage {
    pub(super) fn send(&self, mut stream: impl Write) -> io::Result<()> {
        stream.write_all(&encode(self)?)
    }

    pub(super) fn receive(stream: impl Read) -> io::Result<Self> {
        decode(&read(stream, HANDSHAKE_BYTES_MAX)?)
    }
}

/// The bytes of a message, with its length.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; LENGTH_BYTES]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let too_long = || format!("{} bytes exceed the limit of {MESSAGE_BYTES_MAX} bytes per message", bytes.len());
    let length = length.ok_or_else(|| io::Error::other(too_long()))?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// The bytes of one message, without its length.
pub(super) fn read(mut stream: impl Read, bytes_max: u32) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > bytes_max {
        return Err(io::Error::other(format!("a message of {length} bytes exceeds the limit of {bytes_max} bytes")));
    }
    // Memory grows with the bytes that arrive, not with the claimed length.
    let mut bytes = Vec::new();
    stream.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(|error| io::Error::other(format!("cannot decode a message: {error}")))
}

/// Decodes a message of an authenticated or unknown peer and encodes it again, for fuzzing; `None` if the message is invalid.
pub fn reencode(bytes: &[u8], is_authenticated: bool) -> Option<Vec<u8>> {
    if is_authenticated {
        encode(&decode::<Message>(&read(bytes, MESSAGE_BYTES_MAX).ok()?).ok()?).ok()
    } else {
        encode(&HandshakeMessage::receive(bytes).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn oversized_handshake_message_is_refused_before_it_is_read() {
        let length = (HANDSHAKE_BYTES_MAX + 1).to_le_bytes();
        assert!(HandshakeMessage::receive(&length[..]).unwrap_err().to_string().contains("16385 bytes"));
    }

    proptest! {
        #[test]
        fn message_read_from_any_bytes_reencodes_stably(bytes: Vec<u8>) {
            let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
            framed.extend(&bytes);
            for is_authenticated in [true, false] {
                if let Some(again) = reencode(&framed, is_authenticated) {
                    prop_assert_eq!(reencode(&again, is_authenticated), Some(again));
                }
            }
        }
    }
}
