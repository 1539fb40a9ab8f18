//! `[workload]`: the traffic of an experiment.

use std::num::NonZeroU32;

use load::config::{Choice, KvTraffic, Schedule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

use super::http::Http;
use super::one_or_many::OneOrMany;
use super::schema::ScheduleName;
use super::stream::Stream;
use super::transport::Transport;
use super::units::{Rate, Share, Size, Sizes, Think, Work};

/// The traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// What the server does with bytes.
    #[serde(default)]
    pub service: Service,
    /// How requests get to the server.
    #[serde(default, skip_serializing_if = "is_tcp")]
    pub transport: Transport,
    /// Connections held open; `udp` has ports instead.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    pub connections: OneOrMany<NonZeroU32>,
    /// Ports that the server listens on, of `udp`.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    pub ports: OneOrMany<NonZeroU32>,
    /// Requests a second; a closed loop has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<OneOrMany<Rate>>,
    /// Size of a request, of `fixed` and `udp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Size>,
    /// Size of a response, of `fixed` and `udp`; of `http`, of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Size>,
    /// When requests are sent: in `closed`, on each connection when the response to the last one has come.
    /// Clients at constant intervals take turns (constant), begin at times of their own (constant-drawn), or send at the same
    /// moment (constant-together).
    #[serde(default = "slot_random")]
    #[schemars(with = "OneOrMany<ScheduleName>")]
    pub schedule: OneOrMany<Schedule>,
    /// How long a connection of a closed loop waits from a response to its next request: TIME or TIME,exponential.
    #[serde(default, skip_serializing_if = "is_thoughtless")]
    pub think: Think,
    /// What is stored and asked for, of `kv`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<Kv>,
    /// What is asked for, of `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// The bursts, of `stream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Requests on each connection, after which it ends and another follows; without it connections stay. In an open loop
    /// they are sessions: each connects at its planned time and sends its requests one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "requests-per-connection")]
    pub calls_per_connection: Option<NonZeroU32>,
    /// The share of the connections that requests are sent on: a fixed subset, drawn by the seed.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub active: OneOrMany<Share>,
    /// Connections held open besides, that nothing is sent on.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub idle: OneOrMany<u32>,
    /// Work that each request is for the server, besides its I/O: cpu=TIME or sleep=TIME, then perhaps ,exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "simulated-work")]
    pub work: Option<Work>,
    /// How a request's connection is chosen among the active ones: uniform, or zipf:EXPONENT.
    #[serde(default, skip_serializing_if = "is_uniform")]
    #[schemars(with = "String")]
    #[serde(alias = "popularity")]
    pub choice: Choice,
}

/// A service's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// Requests and responses of fixed sizes.
    #[default]
    Fixed,
    /// A key-value store, in the memcached text protocol.
    Kv,
    /// HTTP/1.1 for content in memory.
    Http,
    /// Datagrams of fixed sizes to many ports, matched by id.
    Udp,
    /// Bursts of packets, each acknowledged.
    Stream,
}

impl Workload {
    /// How many connections the trials are to have or, of `udp`, ports.
    pub fn targets(&self) -> &[NonZeroU32] {
        if self.service == Service::Udp { &self.ports.0 } else { &self.connections.0 }
    }

    /// Whether it is a closed loop.
    pub fn is_closed(&self) -> bool {
        self.schedule.0.contains(&Schedule::Closed)
    }
}

/// What is stored and asked for, of `kv`. Without a word, the data set of voras2009.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Kv {
    /// Records, all of which are stored before the ramp.
    pub records: NonZeroU32,
    /// Sizes of their values, evenly distributed over the logarithm.
    pub value_size: Sizes,
    /// The share of requests that get a record; the others set one, to the value that it has.
    pub get_share: Share,
    /// How a request's record is chosen: uniform, or zipf:EXPONENT.
    #[schemars(with = "String")]
    pub keys: Choice,
    /// The server's memory for records.
    pub memory: Size,
    /// Most that a record may take of it, at most a quarter.
    pub item_max: Size,
}

impl Default for Kv {
    /// voras2009 section III, with a share of gets and memory that it does not name.
    fn default() -> Self {
        Self {
            records: NonZeroU32::new(30_000).expect("not 0"),
            value_size: Sizes { least: Size(10), most: Size(1_000) },
            get_share: Share(0.9),
            keys: Choice::Uniform,
            memory: Size(64 << 20),
            item_max: Size(1 << 20),
        }
    }
}

/// Bytes that a record takes besides its value, rounded up.
const RECORD_BYTES: f64 = 200.0;

impl Kv {
    /// What the client asks for.
    pub fn traffic(&self) -> KvTraffic {
        KvTraffic {
            records: self.records.get(),
            value_bytes_min: self.value_size.least.0,
            value_bytes_max: self.value_size.most.0,
            get_share: self.get_share.0,
            keys: self.keys,
        }
    }

    /// What the server runs.
    pub fn service(&self) -> ServiceSpec {
        ServiceSpec::Kv { memory_max_bytes: self.memory.0.into(), item_max_bytes: self.item_max.0 }
    }

    /// # Errors
    /// When the records would not all stay in the server's memory: as `memory: ...`.
    pub fn check(&self) -> Result<(), String> {
        let Sizes { least, most } = self.value_size;
        let (least, most) = (f64::from(least.0), f64::from(most.0));
        // The mean of sizes that are even over the logarithm.
        let mean = if most > least { (most - least) / (most / least).ln() } else { least };
        let needed = f64::from(self.records.get()) * (mean + RECORD_BYTES);
        if most + RECORD_BYTES > f64::from(self.item_max.0) {
            let (value, item) = (self.value_size.most, self.item_max);
            return Err(format!("item-max: {item} has no room for a value of {value}; raise it, or lower value-size"));
        }
        if u64::from(self.item_max.0) > u64::from(self.memory.0) / 4 {
            return Err(format!("item-max: {} is more than a quarter of the memory, {}", self.item_max, self.memory));
        }
        if 2.0 * needed > f64::from(self.memory.0) {
            let (records, memory) = (self.records, self.memory);
            let mib = (2.0 * needed / f64::from(1 << 20)).ceil();
            return Err(format!(
                "memory: {records} records may not all stay in {memory}, and one that is evicted is an error; give {mib}MiB, \
                 twice what they take, or lower the records"
            ));
        }
        Ok(())
    }
}

/// No list at all: one that is written has something in it.
fn nothing() -> OneOrMany<NonZeroU32> {
    OneOrMany(Vec::new())
}

pub(super) fn is_nothing(list: &OneOrMany<NonZeroU32>) -> bool {
    list.0.is_empty()
}

fn all() -> OneOrMany<Share> {
    OneOrMany(vec![Share(1.0)])
}

pub(super) fn is_all(active: &OneOrMany<Share>) -> bool {
    *active == all()
}

fn is_tcp(transport: &Transport) -> bool {
    *transport == Transport::Tcp
}

fn none() -> OneOrMany<u32> {
    OneOrMany(vec![0])
}

pub(super) fn is_none(idle: &OneOrMany<u32>) -> bool {
    idle.0 == [0]
}

pub(super) fn is_uniform(choice: &Choice) -> bool {
    *choice == Choice::Uniform
}

fn is_thoughtless(think: &Think) -> bool {
    think.0.is_none()
}

fn slot_random() -> OneOrMany<Schedule> {
    OneOrMany(vec![Schedule::SlotRandom])
}
