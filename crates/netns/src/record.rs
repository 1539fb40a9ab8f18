//! The means and the measurements of a trial's network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::forward::RelayCounts;

/// The means of a network condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The kernel's netem, for the packets that each host sends.
    Netem,
    /// A process between the hosts' TUN devices, which delays or drops packets.
    Tun,
    /// A rule of nftables, for the packets that each host receives.
    Nft,
    /// The kernel's token bucket (TBF), for the packets that each host sends.
    Tbf,
}

/// The links between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// Pairs of veth devices, and a bridge.
    Veth,
    /// TUN devices, and a process that forwards packets between them.
    Tun,
}

/// The means of each condition of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The links between hosts.
    pub links: Links,
    /// The means of delay and jitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Means>,
    /// The means of loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Means>,
    /// The means of limiting the bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Means>,
}

impl Means {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Netem => "netem",
            Self::Tun => "a TUN process",
            Self::Nft => "nftables",
            Self::Tbf => "TBF",
        }
    }
}

impl Applied {
    /// Describes the network, as in `veth pairs and a bridge; delay by netem`.
    pub fn words(&self) -> String {
        let links = match self.links {
            Links::Veth => "veth pairs and a bridge",
            Links::Tun => "TUN devices and a process between them",
        };
        let mut words = vec![links.to_owned()];
        for (condition, means) in [("delay", self.delay), ("loss", self.loss), ("bandwidth", self.bandwidth)] {
            words.extend(means.map(|means| format!("{condition} by {}", means.name())));
        }
        words.join("; ")
    }
}

/// The network of a trial: its means, and the measurements right before the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkRecord {
    /// The means of the links and conditions.
    pub applied: Applied,
    /// The time that the testbed took to start, in nanoseconds.
    pub setup_ns: u64,
    /// Measurements between the client hosts and the server's host, before the trial.
    pub measured: Measured,
    /// The relay's counters over the trial. `None` without a relay, or if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayCounts>,
}

/// Measurements of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The number of small datagrams that returned when round trips were measured.
    pub round_trips: u32,
    /// The median round-trip time, in nanoseconds.
    pub round_trip_p50_ns: u64,
    /// The 99th percentile of the round-trip time, in nanoseconds.
    pub round_trip_p99_ns: u64,
    /// The client host that the following fields describe. `None` with a single host; several hosts take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// Datagrams sent to measure loss, in both directions together.
    pub sent: u32,
    /// Datagrams that did not arrive.
    pub lost: u32,
    /// The throughput at the server and at the client in bits per second, including headers. `None` without a bandwidth
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bits_per_s: Option<[f64; 2]>,
}

impl Measured {
    /// Returns the share of lost datagrams, with both directions together.
    pub fn loss(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.sent.max(1))
    }
}
