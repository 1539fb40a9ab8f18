//! Options of the service of datagrams, as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

/// How a server of `udp` receives and sends datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct DatagramOptions {
    /// The most messages of a system call (recvmmsg, sendmmsg). With 1 and without offload, the calls are recvfrom and sendto.
    pub batch: u32,
    /// Whether a message may have several datagrams of one peer: the kernel coalesces those that it receives (UDP_GRO), and
    /// segments those that it sends (UDP_SEGMENT).
    pub offload: bool,
}

impl DatagramOptions {
    /// The largest batch: the most messages that the kernel takes at once (UIO_MAXIOV).
    pub const BATCH_MAX: u32 = 1024;
    /// The largest response with offload: what a packet of 1 500 bytes holds besides the headers of IPv6 and UDP.
    pub const SEGMENT_BYTES_MAX: u32 = 1_452;

    /// Whether these are the options of a server that takes one datagram with each system call.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks whether the server of a service can have these options.
    pub fn check(self, service: &ServiceSpec) -> Result<(), String> {
        let ServiceSpec::Udp { response_bytes, .. } = *service else { return Ok(()) };
        if !(1..=Self::BATCH_MAX).contains(&self.batch) {
            return Err(format!("cannot use batches of {}: expected 1 to {}, such as 32", self.batch, Self::BATCH_MAX));
        }
        if self.offload && response_bytes > Self::SEGMENT_BYTES_MAX {
            return Err(format!(
                "cannot segment responses of {response_bytes}B: each must fit a packet; choose at most {}B, or omit the offload",
                Self::SEGMENT_BYTES_MAX
            ));
        }
        Ok(())
    }
}

impl Default for DatagramOptions {
    /// One datagram with each system call, as in stored runs without these options.
    fn default() -> Self {
        Self { batch: 1, offload: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_batches_are_refused_with_the_reason() {
        let check = |batch, offload, response_bytes| {
            let udp = ServiceSpec::Udp { ports: 1, request_bytes: 16, response_bytes };
            DatagramOptions { batch, offload }.check(&udp)
        };
        assert_eq!(check(1024, true, 1_452), Ok(()));
        assert_eq!(check(2, false, 60_000), Ok(()));
        assert!(check(1025, false, 8).unwrap_err().contains("1 to 1024"));
        assert!(check(0, true, 8).unwrap_err().contains("1 to 1024"));
        assert!(check(1, true, 1_453).unwrap_err().contains("at most 1452B"));
    }
}
