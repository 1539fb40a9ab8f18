//! The configuration of a load as plain data.

mod client;
pub mod http;
mod login;
pub mod partition;
pub mod profile;
pub mod request_timeout;
pub mod slices;
mod tls;
pub mod trace;
mod traffic;
pub mod validate;

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut, Range};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Address, Ports, ServiceSpec};

pub use client::{ClientConfig, ClockChoice, Pacing, Roles, Timestamps};
pub use http::{Body, ExpectedStatus, HttpTarget, HttpTraffic};
pub use login::Login;
use partition::{partition, partition_indices};
pub use profile::{RateProfile, Segment, Shape};
pub use request_timeout::RequestTimeout;
pub use slices::Slices;
pub use tls::{Identity, TlsConfig};
pub use trace::{Arrival, Sizes, Trace};
pub use traffic::{KvTraffic, Loop, Pace, Phases, Popularity, Requests, Schedule, Think, Traffic};

/// The ramp begins at this fraction of the target rate, or at one request per second if that is more and below the target.
const RAMP_START: f64 = 1.0 / 1000.0;

/// The load of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadConfig {
    /// The server's address. Its kind selects the transport, unless the traffic consists of datagrams.
    pub target: Address,
    /// The server's ports, for the service `udp`. If absent, the ports are consecutive and start at `target`'s port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Further addresses of the server. The connections use them and `target` in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<SocketAddr>,
    /// Source addresses, used in turn. If empty, [`crate::io::source_ports`] computes how many the connections need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// The requests and their connections.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The client that sends them.
    pub client: ClientConfig,
    /// This process's part of the load, if several processes divide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// A load has the fields of its traffic.
impl Deref for LoadConfig {
    type Target = Traffic;

    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

impl DerefMut for LoadConfig {
    fn deref_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}

impl LoadConfig {
    /// Returns the load of `muxbench load` without flags: 400 streams, 2 000 requests per second for 5 s.
    pub fn new(target: impl Into<Address>, service: ServiceSpec) -> Self {
        Self {
            target: target.into(),
            ports: None,
            others: Vec::new(),
            sources: Vec::new(),
            traffic: Traffic::new(service),
            client: ClientConfig::default(),
            part: None,
        }
    }

    /// Returns such a load of requests and responses of one byte.
    pub fn small(target: impl Into<Address>) -> Self {
        Self::new(target, ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 })
    }

    /// Returns the load with changes.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The transport of requests.
    pub fn transport(&self) -> Transport {
        match self.target {
            Address::Ip(_) if matches!(self.the_loop, Loop::Datagrams(_)) => Transport::Udp,
            Address::Ip(_) => Transport::Tcp,
            Address::Unix(_) => Transport::Unix,
        }
    }

    /// The window, in nanoseconds after the start.
    pub fn window_ns(&self) -> Range<u64> {
        self.client.window_ns(&self.phases)
    }

    /// The sizes of a request and a response in bytes.
    pub(crate) fn fixed(&self) -> (u32, u32) {
        self.service.fixed().expect("the configuration was checked: the service has fixed sizes")
    }

    /// Returns the rates of one client of an open loop over ramp, warm-up and window; without the window if it replays a trace. In the
    /// ramp, the rate grows exponentially to the first rate of the window, which the warm-up keeps.
    pub(crate) fn rates(&self) -> RateProfile {
        let all_per_s = self.rate_per_s().expect("the configuration was checked: an open loop has a rate");
        let rate_per_s = all_per_s / f64::from(self.client.clients);
        let Phases { ramp_ns, warm_up_ns, measure_ns, .. } = self.phases;
        let window = self.rate_profile().map(|profile| profile.with_mean(rate_per_s));
        let window = window.unwrap_or_else(|| RateProfile::constant(rate_per_s, measure_ns));
        let first_per_s = window.first_per_s();
        let initial_per_s = (first_per_s * RAMP_START).max(1.0).min(first_per_s);
        let ramp = match first_per_s {
            0.0 => Shape::Hold { per_s: 0.0 },
            _ => Shape::Growth { from_per_s: initial_per_s, to_per_s: first_per_s },
        };
        let before = [Segment { length_ns: ramp_ns, shape: ramp }, Segment::hold(first_per_s, warm_up_ns)];
        let before = before.into_iter().filter(|segment| segment.length_ns > 0);
        let window = if self.trace().is_none() { window.segments } else { Vec::new() };
        RateProfile { segments: before.chain(window).collect() }
    }

    /// Divides the connections, active connections and rate among the processes.
    pub fn parts(&self) -> Vec<Self> {
        if self.client.processes == 1 {
            return vec![self.clone()];
        }
        let active = active_count(self.active(), self.connections);
        let part = |number: u32| {
            let count = |total: u32, range: Range<u64>| (range.end - range.start).min(total.into()) as u32;
            let share = |total: u32| partition(total.into(), self.client.processes.into(), number.into());
            let first_connection = share(self.connections).start as u32;
            let connections = count(self.connections, share(self.connections));
            let service = match self.service.clone() {
                ServiceSpec::Udp { request_bytes, response_bytes, .. } => {
                    ServiceSpec::Udp { ports: connections, request_bytes, response_bytes }
                }
                other => other,
            };
            let part = Part {
                number,
                first_client: number * self.client.clients,
                clients: self.client.all_clients(),
                first_connection,
                connections_of_all: self.connections,
            };
            self.clone().with(|it| {
                it.service = service;
                it.ports = self.ports.as_ref().map(|ports| ports.part(first_connection, connections));
                it.connections = connections;
                if let Some(requests) = it.requests_mut() {
                    requests.active = f64::from(count(active, share(active))) / f64::from(connections.max(1));
                }
                it.set_rate(self.rate_per_s().map(|rate_per_s| rate_per_s / f64::from(self.client.processes)));
                it.client.processes = 1;
                it.part = Some(part);
            })
        };
        (0..self.client.processes).map(part).collect()
    }

    /// Returns the index of the first connection of each client of this process.
    pub(crate) fn first_connections(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0..self.client.clients)
            .map(|number| partition_indices(self.connections, self.client.clients, number).start as u32)
    }

    /// Converts a client's number in this process to its number among all processes' clients.
    pub(crate) fn client_number(&self, number: u32) -> u32 {
        self.part.map_or(0, |part| part.first_client) + number
    }

    /// The number of clients in all processes.
    pub fn all_clients(&self) -> u32 {
        self.part.map_or_else(|| self.client.all_clients(), |part| part.clients)
    }

    /// The connections of all processes, without idle ones.
    pub(crate) fn connections_of_all(&self) -> u32 {
        self.part.map_or(self.connections, |part| part.connections_of_all)
    }
}

/// Returns the number of active connections: rounded to the nearest, at least one.
pub fn active_count(active: f64, connections: u32) -> u32 {
    ((f64::from(connections) * active).round() as u32).clamp(1, connections.max(1))
}

/// One process's part of a trial's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The number of the process, from 0.
    pub number: u32,
    /// The number of the process's first client among those of all processes.
    pub first_client: u32,
    /// The number of clients in all processes.
    pub clients: u32,
    /// The number of the process's first connection among those of all processes.
    pub first_connection: u32,
    /// The connections of all processes, without idle ones.
    pub connections_of_all: u32,
}

/// The transport of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One stream per connection.
    #[default]
    Tcp,
    /// One datagram per request and per response. Except for the service `udp`, each connection is a connected socket.
    Udp,
    /// One stream per connection, between processes of one host (unix(7)).
    Unix,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_sum_to_the_whole() {
        let whole = LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| {
            it.connections = 403;
            it.idle = 7;
            let pace = Pace::new(Schedule::Poisson, 1_000.0);
            it.the_loop = Loop::open(Requests { active: 1.0 / 64.0, ..pace.into() });
            it.client.clients = 2;
            it.client.processes = 3;
        });
        let parts = whole.parts();
        assert_eq!(parts.iter().map(|part| part.connections).collect::<Vec<_>>(), [134, 134, 135]);
        let active = |part: &LoadConfig| active_count(part.active(), part.connections);
        assert_eq!(parts.iter().map(active).sum::<u32>(), active(&whole), "a 64th of 403 connections");
        assert!((parts.iter().filter_map(|part| part.rate_per_s()).sum::<f64>() - 1_000.0).abs() < 1e-9);
        let places = parts.iter().filter_map(|part| part.part);
        let places: Vec<_> = places.map(|part| (part.number, part.first_client, part.first_connection)).collect();
        assert_eq!(places, [(0, 0, 0), (1, 2, 134), (2, 4, 268)]);
        assert!(parts.iter().all(|part| part.all_clients() == 6 && part.connections_of_all() == 403));
        assert_eq!(
            whole.clone().with(|it| it.client.processes = 1).parts(),
            [whole.with(|it| it.client.processes = 1)]
        );
    }

    #[test]
    fn parts_divide_the_ports() {
        let service = ServiceSpec::Udp { ports: 5, request_bytes: 8, response_bytes: 8 };
        let whole = LoadConfig::new(([127, 0, 0, 1], 70), service).with(|it| {
            it.connections = 5;
            it.ports = Some("70-72,80,90".parse().unwrap());
            it.client.processes = 2;
        });
        let ports = |part: &LoadConfig| (part.service.ports(), part.ports.as_ref().map(ToString::to_string));
        let parts: Vec<_> = whole.parts().iter().map(ports).collect();
        assert_eq!(parts, [(Some(2), Some("70-71".into())), (Some(3), Some("72,80,90".into()))]);
    }

    #[test]
    fn popularity_round_trips_and_invalid_text_is_rejected() {
        for popularity in [Popularity::Uniform, Popularity::Zipf { exponent: 1.0 }, Popularity::Zipf { exponent: 0.8 }]
        {
            assert_eq!(popularity.to_string().parse(), Ok(popularity));
        }
        assert_eq!("zipf".parse(), Ok(Popularity::Zipf { exponent: 1.0 }));
        for wrong in ["", "pareto", "zipf:", "zipf:0", "zipf:-1", "zipf:nan", "uniform:1"] {
            assert!(wrong.parse::<Popularity>().is_err(), "{wrong}");
        }
    }
}
