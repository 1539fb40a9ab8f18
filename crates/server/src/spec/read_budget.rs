//! The read budget: the most bytes that a read takes from one connection in a turn.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

/// The most bytes that one read takes from a connection. Before the next read the server answers these bytes. An event loop
/// then also serves other ready connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
pub struct ReadBudget(u32);

impl ReadBudget {
    /// The largest budget in bytes. With a thread, a coroutine or a receive buffer per connection, 1 000 connections then take
    /// up to 1 GiB.
    pub const BYTES_MAX: u32 = 1 << 20;

    /// Makes a budget of `bytes`; an error names the valid range.
    pub fn new(bytes: u32) -> Result<Self, String> {
        if (1..=Self::BYTES_MAX).contains(&bytes) {
            return Ok(Self(bytes));
        }
        Err(format!(
            "cannot read {bytes} bytes at once: a read budget is 1B to {}MiB; try 64KiB or 256KiB",
            Self::BYTES_MAX >> 20
        ))
    }

    /// The size in bytes.
    pub fn bytes(self) -> usize {
        self.0 as usize
    }

    /// Whether this is [`ReadBudget::default`].
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The budget of a server of `service`: a stream by packets reads at most one packet.
    pub fn of(self, service: &ServiceSpec) -> Self {
        let packet = service.stream().filter(|stream| stream.by_packet).map(|stream| stream.packet_bytes);
        packet.map_or(self, |bytes| self.min(Self(bytes)))
    }

    /// Rejects a non-default budget if the service determines the size of a read.
    pub fn check(self, service: &ServiceSpec) -> Result<(), String> {
        let reason = if self.is_default() {
            return Ok(());
        } else if service.ports().is_some() {
            "of `udp`: each read takes one whole datagram; omit the budget, or choose a service with connections"
        } else if service.stream().is_some_and(|stream| stream.by_packet) {
            "of a stream by packets: each read takes at most one packet; omit the budget, or omit by-packet"
        } else {
            return Ok(());
        };
        Err(format!("cannot set the read budget {reason}"))
    }
}

impl Default for ReadBudget {
    /// 64 KiB, as in stored runs without a read budget.
    fn default() -> Self {
        Self(64 << 10)
    }
}

impl TryFrom<u32> for ReadBudget {
    type Error = String;

    fn try_from(bytes: u32) -> Result<Self, String> {
        Self::new(bytes)
    }
}

impl From<ReadBudget> for u32 {
    fn from(budget: ReadBudget) -> Self {
        budget.0
    }
}

#[cfg(test)]
mod tests {
    use wire::stream::Stream;

    use super::*;

    #[test]
    fn invalid_read_budget_error_states_valid_range() {
        for bytes in [0, ReadBudget::BYTES_MAX + 1, u32::MAX] {
            let error = ReadBudget::new(bytes).unwrap_err();
            assert!(error.contains("1B to 1MiB"), "{error}");
        }
        for bytes in [1, 65_536, ReadBudget::BYTES_MAX] {
            let budget = ReadBudget::new(bytes).unwrap();
            assert_eq!((budget.bytes(), u32::from(budget)), (bytes as usize, bytes));
        }
    }

    #[test]
    fn stream_by_packets_reads_one_packet_at_most() {
        let of = |stream| ReadBudget::default().of(&ServiceSpec::Stream(stream)).bytes();
        let by_packet = Stream { by_packet: true, ..Stream::default() };
        assert_eq!((of(Stream::default()), of(by_packet)), (64 << 10, 8_192));
        assert_eq!(
            of(Stream { packet_bytes: 1 << 20, ..by_packet }),
            64 << 10,
            "a budget bounds reads of large packets"
        );
        let set = ReadBudget::new(8_192).unwrap();
        assert_eq!(set.check(&ServiceSpec::Stream(Stream::default())), Ok(()));
        assert!(set.check(&ServiceSpec::Stream(by_packet)).unwrap_err().contains("omit by-packet"));
    }
}
