//! `[workload]`: the traffic of an experiment.

use std::num::NonZeroU32;

use load::config::{self, KvTraffic, Popularity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use super::candidate::Candidate;
use super::http::Http;
use super::one_or_many::OneOrMany;
use super::profile::Profile;
use super::stream::Stream;
use super::tls::Tls;
use super::trace::Trace;
use super::transport::Transport;
use super::units::{Rate, Share, Size, Sizes, Think, Work};

/// The traffic of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default, expecting = "a table")]
pub struct WorkloadSpec {
    /// The service that the server runs.
    pub service: Service,
    /// The transport of requests.
    #[serde(skip_serializing_if = "is_default")]
    pub transport: Transport,
    /// TLS of all connections, except those to `http://` targets. By default, only `https://` targets have TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The number of open connections, by default 400. `udp` has `ports` instead.
    #[serde(skip_serializing_if = "is_default")]
    pub connections: OneOrMany<NonZeroU32>,
    /// The number of ports that the server listens on, by default 10. Only for `udp`.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: OneOrMany<NonZeroU32>,
    /// The rate in requests per second, by default 2000: with a rate profile, the mean. A closed loop has none.
    pub rate: Option<OneOrMany<Rate>>,
    /// The rate profile: the rates over the window, such as "hold:2000:10s,ramp:2000..8000:5s". The window lasts as long as the
    /// profile. A rate scales the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_profile: Option<Profile>,
    /// The recorded arrivals to replay. The window has the length of the replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The size of a request, by default 128B. Only for `fixed` and `udp`.
    pub request: Option<Size>,
    /// The size of a response, for `fixed` and `udp`. For `http`, the size of its content. By default 10KiB, for `udp` 128B.
    pub response: Option<Size>,
    /// The schedule of requests, by default `slot-random`: one request in each slot of equal length, at a random moment.
    /// `poisson` has random intervals, as independent users have. In `closed`, each connection sends its next request after the
    /// last response; `stream` needs it.
    /// Three schedules have constant intervals. Several clients then take turns (constant), start at random offsets drawn
    /// with the seed (constant-drawn), or all send at the same time (constant-together).
    pub schedule: OneOrMany<Schedule>,
    /// Whether a request of an open loop waits for a free connection, one without a request in flight. By default requests leave at
    /// their planned times, and may overlap on a connection.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_overlap: bool,
    /// The think time of a closed loop, between a response and the connection's next request: TIME or TIME,exponential.
    #[serde(skip_serializing_if = "is_default")]
    pub think: Think,
    /// The number of requests that each connection of a closed loop sends at once, by default 1. The next ones follow the last
    /// response.
    #[serde(skip_serializing_if = "is_default")]
    pub pipeline: Option<NonZeroU32>,
    /// The records and requests of `kv` and `redis`.
    pub kv: Option<Kv>,
    /// The requests of `http`.
    pub http: Option<Http>,
    /// The bursts of `stream`.
    pub stream: Option<Stream>,
    /// The number of requests on each connection. After the last one, the client closes the connection and opens
    /// another. By default, connections stay open.
    /// In an open loop, each connection is a session. The session connects at its planned time and sends its requests
    /// one after the other.
    pub requests_per_connection: Option<NonZeroU32>,
    /// The share of connections that carry requests: a fixed subset, drawn with the seed.
    #[serde(skip_serializing_if = "is_default")]
    pub active: OneOrMany<Share>,
    /// The number of additional open connections that carry no requests.
    #[serde(skip_serializing_if = "is_default")]
    pub idle: OneOrMany<u32>,
    /// The simulated work of the server for each request, besides its I/O: cpu=TIME, busy=TIME (by the clock), sleep=TIME
    /// (blocks the thread) and wait=TIME (the response is ready later, and the thread may serve others), each optionally
    /// followed by ,exponential, or with a list of times and their shares such as wait=1ms:90%,100ms:10%. At the end,
    /// connections=SHARE: only the requests of this share of the connections take the work.
    pub simulated_work: Option<Work>,
    /// The connection popularity, which selects an active connection for each request: uniform, or zipf:EXPONENT.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "String")]
    pub popularity: Popularity,
}

/// A schedule of an open loop, or a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "those of `config::Schedule`, and a closed loop")]
pub enum Schedule {
    SlotRandom,
    Constant,
    ConstantDrawn,
    ConstantTogether,
    Poisson,
    Closed,
}

impl Schedule {
    /// The schedule of an open loop; `None` for a closed loop.
    pub fn open(self) -> Option<config::Schedule> {
        Some(match self {
            Self::SlotRandom => config::Schedule::SlotRandom,
            Self::Constant => config::Schedule::Constant,
            Self::ConstantDrawn => config::Schedule::ConstantDrawn,
            Self::ConstantTogether => config::Schedule::ConstantTogether,
            Self::Poisson => config::Schedule::Poisson,
            Self::Closed => return None,
        })
    }
}

/// The service that a server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Requests and responses of fixed sizes.
    #[default]
    Fixed,
    /// A key-value store with the memcached text protocol.
    Kv,
    /// A key-value store with RESP2, the protocol of Redis.
    Redis,
    /// HTTP/1.1 with content from memory.
    Http,
    /// Datagrams of fixed sizes to many ports. An id matches responses to requests.
    Udp,
    /// Bursts of packets. The receiver acknowledges each burst.
    Stream,
}

impl Service {
    /// Tests whether the service is a key-value store.
    pub fn has_records(self) -> bool {
        matches!(self, Self::Kv | Self::Redis)
    }
}

impl WorkloadSpec {
    /// Returns the numbers of connections to try, or of ports for `udp`.
    pub fn targets(&self) -> &[NonZeroU32] {
        if self.service == Service::Udp { &self.ports.0 } else { &self.connections.0 }
    }

    /// Tests whether the workload is a closed loop.
    pub fn is_closed(&self) -> bool {
        self.service == Service::Stream || self.schedule.0.contains(&Schedule::Closed)
    }
}

/// The records and requests of `kv` and `redis`. By default, the data set of voras2009.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Kv {
    /// The number of records. The client stores all of them before the ramp.
    pub records: NonZeroU32,
    /// The range of value sizes. The logarithm of the size is uniformly distributed.
    pub value_size: Sizes,
    /// The share of requests that read a record. The other requests write a record with its present value.
    pub get_share: Share,
    /// The distribution that selects a record for each request: uniform, or zipf:EXPONENT.
    #[schemars(with = "String")]
    pub keys: Popularity,
    /// The server's memory for all records.
    pub memory: Size,
    /// The maximum memory of one record. At most a quarter of `memory`.
    pub item_max: Size,
}

impl Default for Kv {
    /// Returns the data set of voras2009, section III. The paper gives neither the share of reads nor the memory.
    fn default() -> Self {
        Self {
            records: NonZeroU32::new(30_000).expect("not 0"),
            value_size: Sizes { least: Size(10), most: Size(1_000) },
            get_share: Share(0.9),
            keys: Popularity::Uniform,
            memory: Size(64 << 20),
            item_max: Size(1 << 20),
        }
    }
}

/// The memory of a record besides its value, in bytes, rounded up.
const RECORD_BYTES: f64 = 200.0;

impl Kv {
    /// Returns the client's traffic.
    pub fn traffic(&self) -> KvTraffic {
        KvTraffic {
            records: self.records.get(),
            value_bytes_min: self.value_size.least.0,
            value_bytes_max: self.value_size.most.0,
            get_share: self.get_share.0,
            keys: self.keys,
        }
    }

    /// Returns the server's service `kv`.
    pub fn kv(&self) -> ServiceSpec {
        ServiceSpec::Kv { memory_max_bytes: self.memory.0.into(), item_max_bytes: self.item_max.0 }
    }

    /// Returns the server's service `redis`.
    pub fn redis(&self) -> ServiceSpec {
        ServiceSpec::Redis { memory_max_bytes: self.memory.0.into(), item_max_bytes: self.item_max.0 }
    }

    /// Checks that the server's memory can store all records. An error begins with the key, as `memory: ...`.
    pub fn check(&self) -> Result<(), String> {
        let Sizes { least, most } = self.value_size;
        let (least, most) = (f64::from(least.0), f64::from(most.0));
        // The mean of a log-uniform distribution.
        let mean = if most > least { (most - least) / (most / least).ln() } else { least };
        let needed = f64::from(self.records.get()) * (mean + RECORD_BYTES);
        let Self { records, memory, item_max, value_size, .. } = self;
        if most + RECORD_BYTES > f64::from(item_max.0) {
            let value = value_size.most;
            return Err(format!(
                "item-max: {item_max} is too small for a value of {value}; raise it, or lower value-size"
            ));
        }
        if item_max.0 > memory.0 / 4 {
            return Err(format!("item-max: {item_max} exceeds a quarter of the memory of {memory}; lower it"));
        }
        if 2.0 * needed > f64::from(memory.0) {
            let mib = (2.0 * needed / f64::from(1 << 20)).ceil();
            return Err(format!(
                "memory: {records} records may exceed {memory}, and an evicted record is an error; raise it to {mib}MiB, twice \
                 the size of the records, or lower the records"
            ));
        }
        Ok(())
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Implements `Default` for lists of a workload.
macro_rules! list_defaults {
    ($($type:ty: $list:expr;)+) => {$(
        impl Default for OneOrMany<$type> {
            fn default() -> Self {
                Self($list)
            }
        }
    )+};
}

list_defaults! {
    // For servers, connections and ports, an empty list means that the key is missing: a written list is never empty.
    NonZeroU32: Vec::new();
    Candidate: Vec::new();
    Share: vec![Share(1.0)];
    u32: vec![0];
    Schedule: vec![Schedule::SlotRandom];
}
