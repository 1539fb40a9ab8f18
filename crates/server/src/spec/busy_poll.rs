//! Busy polling, as plain data: a thread that would wait polls the network interface itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Address;

/// Busy polling of a network interface's queues (NAPI).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct BusyPoll {
    /// The longest time that a waiting thread polls before it sleeps, in microseconds.
    pub time_us: u32,
    /// The most packets of a poll. The kernel's default is 8; more than 64 need CAP_NET_ADMIN.
    pub budget: u16,
    /// Whether busy polling keeps the interface's own processing off, as long as the interface defers its interrupts.
    pub is_preferred: bool,
    /// The time for which the interface's interrupts stay off after a poll that found packets, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_ns: Option<u64>,
}

impl BusyPoll {
    /// The kernel's default budget (BUSY_POLL_BUDGET).
    pub const BUDGET: u16 = 8;

    /// Checks whether the packets to `listen` cross an interface that can be polled.
    pub fn check_address(self, listen: &Address) -> Result<(), String> {
        let path = match listen {
            Address::Unix(_) => "a Unix socket",
            Address::Ip(address) if address.ip().is_loopback() => "loopback",
            Address::Ip(_) => return Ok(()),
        };
        Err(format!(
            "cannot poll {path}: it has no interface with NAPI, so busy polling cannot act; run in a lab (--network lab), listen on \
             the address of a network interface, or omit the option"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_unix_sockets_cannot_be_polled() {
        let poll = BusyPoll { time_us: 50, budget: BusyPoll::BUDGET, is_preferred: false, suspend_ns: None };
        for listen in ["127.0.0.1:1", "[::1]:1", "unix:/tmp/x"] {
            let error = poll.check_address(&listen.parse().unwrap()).unwrap_err();
            assert!(error.contains("cannot act") && error.contains("--network lab"), "{error}");
        }
        assert_eq!(poll.check_address(&"198.18.0.1:1".parse().unwrap()), Ok(()));
    }
}
