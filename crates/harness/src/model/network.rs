//! How the network of a trial was made, and what was measured of it.

use serde::{Deserialize, Serialize};

/// By what a condition is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The kernel's netem, for what each host sends.
    Netem,
    /// A process that holds packets or drops them, between the hosts' TUN devices.
    Tun,
    /// A rule of nftables, for what each host receives.
    Nft,
    /// The kernel's token bucket, for what each host sends.
    Tbf,
}

/// How hosts are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// Pairs of veth devices, and a bridge.
    Veth,
    /// TUN devices, and a process that takes packets from one to another.
    Tun,
}

/// How a network is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// How hosts are linked.
    pub links: Links,
    /// Delay and jitter, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Means>,
    /// Loss, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Means>,
    /// Bandwidth, if it is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Means>,
}

impl Means {
    /// Its name, for the reader.
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
    /// In words: `veth pairs and a bridge; delay by netem`.
    pub fn words(&self) -> String {
        let links = match self.links {
            Links::Veth => "veth pairs and a bridge",
            Links::Tun => "TUN devices and a process between them",
        };
        let mut words = vec![links.to_owned()];
        for (what, means) in [("delay", self.delay), ("loss", self.loss), ("bandwidth", self.bandwidth)] {
            words.extend(means.map(|means| format!("{what} by {}", means.name())));
        }
        words.join("; ")
    }
}

/// What a network was in a trial: how it was made, and what it was seen to do right before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkReport {
    /// By which means.
    pub applied: Applied,
    /// How long the lab took to come up, in nanoseconds.
    pub setup_ns: u64,
    /// What was measured between the clients' hosts and the server's, before the trial.
    pub measured: Measured,
    /// What the relay did in the trial; `None` where there is none, or it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayCounts>,
}

/// What a relay did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayCounts {
    /// Packets that were to be taken to a host.
    pub packets: u64,
    /// Those that were lost, as was asked.
    pub lost: u64,
    /// Those that were dropped, because too many were held, their host did not take them, or they waited in front of the relay
    /// and there was no more room.
    pub dropped: u64,
    /// How late packets were written, in nanoseconds: the median, ...
    pub late_p50_ns: u64,
    /// ...and the 99th percentile.
    pub late_p99_ns: u64,
}

/// What was measured of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Datagrams that came back, of the small ones that were sent to see how long that takes.
    pub round_trips: u32,
    /// Median time there and back, in nanoseconds.
    pub round_trip_p50_ns: u64,
    /// Its 99th percentile.
    pub round_trip_p99_ns: u64,
    /// The client's host, of several, that what follows is of: before each trial another's, in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// Datagrams sent one way to count those that arrive, both ways together.
    pub sent: u32,
    /// Those that did not arrive.
    pub lost: u32,
    /// Bits a second that arrived at the server and at the client, all headers included; `None` where the network has no
    /// bandwidth of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bits_per_s: Option<[f64; 2]>,
}

impl Measured {
    /// The share of datagrams that were lost, each way.
    pub fn loss(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.sent.max(1))
    }
}
