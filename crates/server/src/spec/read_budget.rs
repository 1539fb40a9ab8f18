//! The read budget: the most bytes that a read takes from one connection in a turn.

use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

/// The most bytes that one read takes from a connection. Before the next read the server answers these bytes. An event loop
/// then also serves other ready connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

    /// Rejects a non-default budget for `udp`, because a budget does not affect datagrams.
    pub fn check(self, service: &ServiceSpec) -> Result<(), String> {
        if self.is_default() || service.ports().is_none() {
            return Ok(());
        }
        Err("cannot set the read budget of `udp`: each read takes one whole datagram; omit the budget, or choose a service \
             with connections"
            .into())
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
}
