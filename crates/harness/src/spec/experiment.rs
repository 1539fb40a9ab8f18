//! What the user says: an experiment file, or the flags of `compare`, which make the same value.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use load::config::{Choice, ClockChoice, KvTraffic, Pacing, Roles, Schedule, Timestamps};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use server::external::config::PLACEHOLDERS;
use server::{Accept, StageCpus};
use wire::ServiceSpec;

use crate::spec::candidate::{self, Candidate};
use crate::spec::error::ExperimentError;
use crate::spec::http::Http;
use crate::spec::network::Network;
use crate::spec::one_or_many::OneOrMany;
use crate::spec::stream::Stream;
use crate::spec::transport::Transport;
use crate::spec::units::{Budget, Cpus, Rate, Share, Size, Sizes, Think, Time, Work};

/// An experiment: architectures × connections × rates × repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Its name: the beginning of its runs' names.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub about: String,
    /// How the servers are built: `MODEL[:THREADS][/MECHANISM]`, or `exec:NAME`, the command of the table `exec.NAME`.
    #[schemars(with = "OneOrMany<String>")]
    pub architectures: OneOrMany<Candidate>,
    /// How often each trial is run, on the same schedule. Intervals come from repeats.
    #[serde(default = "one")]
    pub repeats: NonZeroU32,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// The traffic.
    pub workload: Workload,
    /// How long each phase lasts.
    pub phases: Phases,
    /// A lab on this machine: hosts of their own for the server and its clients. Without it they talk over loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// How the servers are built, besides their architectures.
    #[serde(default, skip_serializing_if = "Server::is_default")]
    pub server: Server,
    /// Somebody else's servers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exec: BTreeMap<String, Exec>,
    /// How the client is built.
    #[serde(default)]
    pub client: Client,
    /// Where server and client run.
    #[serde(default)]
    pub placement: Placement,
    /// What `--quick` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Quick>,
}

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
    pub calls_per_connection: Option<NonZeroU32>,
    /// The share of the connections that requests are sent on: a fixed subset, drawn by the seed.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub active: OneOrMany<Share>,
    /// Connections held open besides, that nothing is sent on.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub idle: OneOrMany<u32>,
    /// Work that each request is for the server, besides its I/O: cpu=TIME or sleep=TIME, then perhaps ,exponential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// How a request's connection is chosen among the active ones: uniform, or zipf:EXPONENT.
    #[serde(default, skip_serializing_if = "is_uniform")]
    #[schemars(with = "String")]
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

/// How long each phase lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phases {
    /// The rate grows exponentially to its target.
    pub ramp: Time,
    /// The target rate is held.
    pub hold: Time,
    /// Requests planned now are the result.
    pub measure: Time,
    /// At most this long is waited for responses.
    #[serde(default = "two_seconds")]
    pub drain: Time,
}

/// How the servers are built, besides their architectures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Server {
    /// How connections are accepted; without it each model does as it always does: shared in pools, else single.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AcceptName>")]
    pub accept: Option<Accept>,
    /// CPUs of the accept thread, among the server's; without it, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_cpus: Option<Cpus>,
    /// CPUs of the network threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_cpus: Option<Cpus>,
    /// CPUs of the payload threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_cpus: Option<Cpus>,
    /// The most bytes that one read takes from a connection, 1B to 1MiB, before other connections have their turn; without it
    /// 64KiB. It is the same in every architecture of a trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_budget: Option<Budget>,
    /// Whether the kernel counts the servers' system calls too, of runtimes as well. That makes each call dearer, so that
    /// figures with it and without are not comparable.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_syscalls: bool,
}

impl Server {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// CPUs of each stage's threads.
    pub fn stage_cpus(&self) -> StageCpus {
        let listed = |cpus: &Option<Cpus>| cpus.as_ref().map(|cpus| cpus.0.clone()).unwrap_or_default();
        StageCpus {
            accept: listed(&self.accept_cpus),
            network: listed(&self.network_cpus),
            payload: listed(&self.payload_cpus),
        }
    }
}

/// Somebody else's server: a command. No shell is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Exec {
    /// The program and its arguments. In each, `{port}`, `{request}` and `{response}` are replaced: the port of 127.0.0.1 (or,
    /// with the transport tcp6, ::1) to listen on, and the sizes in bytes; with the transport unix also `{socket}`, the path
    /// of the socket to listen on. `{address}` is where the port is of: 127.0.0.1, ::1, or with a network the server's host.
    pub command: Vec<String>,
    /// Where it is started; without it, where muxbench is. A program with a `/` in its name is looked for from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// What is put into its environment, with the same replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// It must accept a connection within this time.
    #[serde(default = "ten_seconds")]
    pub start_timeout: Time,
}

impl Exec {
    /// # Errors
    /// What is wrong in it, as `command: ...`.
    fn check(&self, transport: Transport) -> Result<(), String> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err("command: names no program; write it like [\"python3\", \"server.py\", \"{port}\"]".into());
        }
        let texts = || self.command.iter().chain(self.environment.values());
        for text in texts() {
            // What looks like a placeholder; braces around anything else are the text's own.
            for (at, _) in text.match_indices('{') {
                let Some((name, _)) = text[at + 1..].split_once('}') else { continue };
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                if is_name && !PLACEHOLDERS.contains(&name) {
                    let known = PLACEHOLDERS.join("}, {");
                    return Err(format!("command: unknown placeholder `{{{name}}}`; there are {{{known}}}"));
                }
            }
        }
        let place = transport.placeholder();
        if !texts().skip(1).any(|text| text.contains(place)) {
            return Err(format!(
                "command: no argument has `{place}` in it, which is where the server must listen; add it"
            ));
        }
        if transport != Transport::Unix && texts().any(|text| text.contains(Transport::Unix.placeholder())) {
            return Err(
                "command: `{socket}` has a path only with `transport = \"unix\"` in [workload]; add that, or use \
                        `{port}` alone"
                    .into(),
            );
        }
        if self.start_timeout.0 == 0 {
            return Err("start-timeout: 0 lets no server start; write a time above 0, like 10s".into());
        }
        if let Some(name) = self.environment.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(format!("environment.{name}: that cannot name a variable"));
        }
        if texts().any(|text| text.contains('\0')) {
            return Err("command: a program can be given no text with a zero byte in it".into());
        }
        Ok(())
    }
}

/// How the client is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Client {
    /// How a sender waits for the next planned time.
    #[schemars(with = "PacingName")]
    pub pacing: Pacing,
    /// Whether sending and receiving are two threads or one loop.
    #[schemars(with = "RolesName")]
    pub roles: Roles,
    /// Independent clients; connections and rate are divided among them. Without it one, and in a closed loop one for each of
    /// the client's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<NonZeroU32>,
    /// Processes that divide connections and rate among themselves, each with so many clients; without it one, in a lab one on
    /// each of its clients' hosts. In a fleet there
    /// are as many as it has ranks besides the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<NonZeroU32>,
    /// The clock of timestamps.
    #[schemars(with = "ClockName")]
    pub clock: ClockChoice,
    /// Who takes timestamps: the client alone, or the kernel too.
    #[schemars(with = "TimestampsName")]
    pub timestamps: Timestamps,
    /// A connection that takes longer than this to be made and served fails the trial.
    pub timeout: Time,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            pacing: Pacing::Auto,
            roles: Roles::Auto,
            clients: None,
            processes: None,
            clock: ClockChoice::Auto,
            timestamps: Timestamps::Client,
            timeout: Time(10_000_000_000),
        }
    }
}

/// Where server and client run. What is not said is chosen: disjoint halves of the CPUs where there are two or more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Placement {
    /// The server's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Cpus>,
    /// The client's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Cpus>,
}

/// What `--quick` changes; the matrix stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quick {
    /// Instead of `phases.ramp`; and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Time>,
    /// Instead of `phases.hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Time>,
    /// Instead of `phases.measure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Time>,
    /// Instead of `phases.drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Time>,
    /// Instead of `repeats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<NonZeroU32>,
}

/// No list at all: one that is written has something in it.
fn nothing() -> OneOrMany<NonZeroU32> {
    OneOrMany(Vec::new())
}

fn is_nothing(list: &OneOrMany<NonZeroU32>) -> bool {
    list.0.is_empty()
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn all() -> OneOrMany<Share> {
    OneOrMany(vec![Share(1.0)])
}

fn is_all(active: &OneOrMany<Share>) -> bool {
    *active == all()
}

fn is_tcp(transport: &Transport) -> bool {
    *transport == Transport::Tcp
}

fn none() -> OneOrMany<u32> {
    OneOrMany(vec![0])
}

fn is_none(idle: &OneOrMany<u32>) -> bool {
    idle.0 == [0]
}

fn is_uniform(choice: &Choice) -> bool {
    *choice == Choice::Uniform
}

fn is_thoughtless(think: &Think) -> bool {
    think.0.is_none()
}

fn slot_random() -> OneOrMany<Schedule> {
    OneOrMany(vec![Schedule::SlotRandom])
}

fn ten_seconds() -> Time {
    Time(10_000_000_000)
}

fn two_seconds() -> Time {
    Time(2_000_000_000)
}

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// The first thing wrong in it: syntax, an unknown key, a value without its unit, an impossible number.
    pub fn parse(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let experiment: Self = toml::from_str(text).map_err(|error| ExperimentError::parsing(file, text, &error))?;
        experiment.check().map_err(|message| ExperimentError::checking(file, text, message))?;
        Ok(experiment)
    }

    /// What no single value shows.
    ///
    /// # Errors
    /// Key, value and remedy.
    pub fn check(&self) -> Result<(), String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || !self.name.chars().all(good) || self.name.starts_with('.') {
            return Err(format!("name: `{}` cannot name a folder; use letters, digits and `-`", self.name));
        }
        if self.phases.measure.0 == 0 {
            return Err("phases.measure: 0 measures nothing; write a time above 0, like 10s".into());
        }
        for (name, exec) in &self.exec {
            candidate::check_name(name).map_err(|why| format!("exec.{name}.command: {why}"))?;
            exec.check(self.workload.transport).map_err(|why| format!("exec.{name}.{why}"))?;
            if !self.architectures.0.contains(&Candidate::Exec(name.clone())) {
                return Err(format!(
                    "exec.{name}.command: nobody runs it; add exec:{name} to `architectures`, or remove it"
                ));
            }
        }
        for contender in &self.architectures.0 {
            if let Candidate::Exec(name) = contender
                && !self.exec.contains_key(name)
            {
                return Err(format!(
                    "architectures: {contender} is not defined; add a table [exec.{name}] with its `command` to the file"
                ));
            }
        }
        if self.server.read_budget.is_some() && !self.architectures.0.iter().any(|it| it.ours().is_some()) {
            return Err(
                "server.read-budget: external servers do not know it; remove it, or add an architecture, like epoll"
                    .into(),
            );
        }
        let clients = self.client.clients.unwrap_or(NonZeroU32::MIN);
        let processes = self.processes();
        let what = if self.workload.service == Service::Udp { "ports" } else { "connections" };
        if let Some(few) = self.workload.targets().iter().find(|targets| **targets < clients) {
            return Err(format!("client.clients: {clients} clients cannot share {few} {what}; lower the clients"));
        }
        // Each has a whole number of them, perhaps one fewer than the next.
        let is_few = |targets: &&NonZeroU32| targets.get() / processes < clients.get();
        if let Some(few) = self.workload.targets().iter().find(is_few) {
            return Err(format!(
                "client.processes: {processes} processes of {clients} clients each cannot share {few} {what}; lower the \
                 processes"
            ));
        }
        if processes > NonZeroU32::MIN && !is_uniform(&self.workload.choice) {
            return Err(
                "client.processes: several processes each have a most popular connection of their own; remove it, \
                        or workload.choice"
                    .into(),
            );
        }
        self.check_schedule()?;
        self.check_churn()?;
        self.check_network()?;
        self.check_service()
    }

    /// Processes that measure: in a lab, when nothing is said, one for each of its clients' hosts.
    pub fn processes(&self) -> NonZeroU32 {
        let hosts = self.network.as_ref().map(|network| network.clients);
        self.client.processes.or(hosts).unwrap_or(NonZeroU32::MIN)
    }

    /// What makes no sense between hosts.
    fn check_network(&self) -> Result<(), String> {
        let Some(network) = &self.network else { return Ok(()) };
        if self.workload.transport == Transport::Unix {
            return Err(
                "workload.transport: a Unix socket joins processes of one host; take tcp or tcp6, or leave the \
                        network out"
                    .into(),
            );
        }
        network.check().map_err(|why| format!("network.{why}"))
    }

    /// What an open loop needs and a closed one has not, and the other way round.
    fn check_schedule(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if workload.schedule.0.len() > 1 && workload.is_closed() {
            return Err("workload.schedule: a closed loop has no rate, and others have; write \"closed\" alone".into());
        }
        if !workload.is_closed() {
            if workload.rate.is_none() {
                return Err(
                    "workload.rate: missing; write requests a second, like 2000, or take the schedule \"closed\""
                        .into(),
                );
            }
            if !workload.think.0.is_none() {
                return Err(
                    "workload.think: only a closed loop thinks; remove it, or take the schedule \"closed\"".into()
                );
            }
            return Ok(());
        }
        if workload.rate.is_some() {
            return Err(
                "workload.rate: a closed loop has none, its rate is the result; remove it, or take another schedule"
                    .into(),
            );
        }
        for (key, is_set, why) in [
            (
                "workload.active",
                !is_all(&workload.active),
                "every connection sends in a closed loop; remove it, or see idle",
            ),
            ("workload.choice", !is_uniform(&workload.choice), "every connection sends in a closed loop; remove it"),
            (
                "client.pacing",
                client.pacing != Pacing::Auto,
                "a closed loop waits for responses, not for times; remove it",
            ),
            ("client.roles", client.roles != Roles::Auto, "each client of a closed loop is one loop; remove it"),
            (
                "client.timestamps",
                client.timestamps != Timestamps::Client,
                "a closed loop has only the client's; remove it",
            ),
        ] {
            if is_set {
                return Err(format!("{key}: {why}"));
            }
        }
        Ok(())
    }

    /// What makes no sense where connections come and go.
    fn check_churn(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if workload.calls_per_connection.is_none() {
            return Ok(());
        }
        for (key, is_set, why) in [
            ("workload.active", !is_all(&workload.active), "connections that come and go all send; remove it"),
            ("workload.choice", !is_uniform(&workload.choice), "connections that come and go all send; remove it"),
            (
                "client.roles",
                client.roles == Roles::TwoThreads,
                "a client whose connections come and go is one loop; remove it",
            ),
            (
                "client.timestamps",
                client.timestamps != Timestamps::Client,
                "the kernel's are of connections that stay; remove it, or workload.calls-per-connection",
            ),
        ] {
            if is_set {
                return Err(format!("{key}: {why}"));
            }
        }
        Ok(())
    }

    /// What each service needs, and has not.
    fn check_service(&self) -> Result<(), String> {
        let workload = &self.workload;
        let sizes = [("workload.request", &workload.request), ("workload.response", &workload.response)];
        for (table, is_there, service) in [
            ("kv", workload.kv.is_some(), Service::Kv),
            ("http", workload.http.is_some(), Service::Http),
            ("stream", workload.stream.is_some(), Service::Stream),
        ] {
            if is_there && workload.service != service {
                return Err(format!(
                    "workload.{table}: the service is another; remove the table, or take the service \"{table}\""
                ));
            }
        }
        if workload.service != Service::Udp && !is_nothing(&workload.ports) {
            return Err("workload.ports: only udp has ports; remove it, or take the service \"udp\"".into());
        }
        if workload.service != Service::Udp && is_nothing(&workload.connections) {
            return Err("workload.connections: missing; write how many, like 400".into());
        }
        match workload.service {
            Service::Fixed | Service::Udp => {
                if workload.service == Service::Udp {
                    self.check_udp()?;
                }
                if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_none()) {
                    return Err(format!("{key}: missing; write a size, like \"128B\""));
                }
            }
            Service::Kv => {
                if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_some()) {
                    return Err(format!(
                        "{key}: kv's sizes are those of its records, workload.kv.value-size; remove it"
                    ));
                }
                self.kv().check().map_err(|why| format!("workload.kv.{why}"))?;
            }
            Service::Http => {
                if workload.request.is_some() {
                    return Err(
                        "workload.request: a request of http is what its path and headers make; remove it".into()
                    );
                }
                self.http().traffic(workload.response, true).map_err(|why| format!("workload.http.{why}"))?;
            }
            Service::Stream => {}
        }
        if workload.service == Service::Stream {
            self.check_stream(&sizes)?;
        }
        let needs_sizes = |exec: &Exec| {
            let texts = exec.command.iter().chain(exec.environment.values());
            texts.into_iter().any(|text| text.contains("{request}") || text.contains("{response}"))
        };
        let has_sizes = workload.service == Service::Fixed;
        if let Some((name, _)) = self.exec.iter().find(|(_, exec)| !has_sizes && needs_sizes(exec)) {
            let service = self.service_name();
            return Err(format!(
                "exec.{name}.command: {service} has no sizes for {{request}} and {{response}}; remove them"
            ));
        }
        Ok(())
    }

    fn service_name(&self) -> &'static str {
        match self.workload.service {
            Service::Fixed => "fixed",
            Service::Kv => "kv",
            Service::Http => "http",
            Service::Udp => "udp",
            Service::Stream => "stream",
        }
    }

    /// What is asked for, of `http`.
    pub fn http(&self) -> Http {
        self.workload.http.clone().unwrap_or_default()
    }

    /// The bursts, of `stream`.
    pub fn stream(&self) -> Stream {
        self.workload.stream.clone().unwrap_or_default()
    }

    /// What streams need, and what they have not.
    fn check_stream(&self, sizes: &[(&str, &Option<Size>)]) -> Result<(), String> {
        let workload = &self.workload;
        if let Some((key, _)) = sizes.iter().find(|(_, size)| size.is_some()) {
            return Err(format!("{key}: stream's sizes are workload.stream.packet, packets and ack; remove it"));
        }
        if let Some(name) = self.exec.keys().next() {
            return Err(format!("exec.{name}.command: a command knows nothing of bursts; remove it, or take fixed"));
        }
        for (key, is_set, why) in [
            ("workload.schedule", !workload.is_closed(), "a burst follows the one before; write schedule = \"closed\""),
            ("workload.think", !workload.think.0.is_none(), "streams do not pause; remove it"),
            ("workload.calls-per-connection", workload.calls_per_connection.is_some(), "streams stay; remove it"),
            ("phases.drain", self.phases.drain.0 == 0, "streams are ended in it, and counted; write a time like 5s"),
        ] {
            if is_set {
                return Err(format!("{key}: {why}"));
            }
        }
        Ok(())
    }

    /// What datagrams need, and what they have not.
    fn check_udp(&self) -> Result<(), String> {
        let (workload, client) = (&self.workload, &self.client);
        if is_nothing(&workload.ports) {
            return Err("workload.ports: missing; write how many the server listens on, like [10, 1000]".into());
        }
        if let Some(name) = self.exec.keys().next() {
            return Err(format!("exec.{name}.command: a command cannot be told of many ports; remove it, or udp"));
        }
        for (key, is_set, why) in [
            ("workload.connections", !is_nothing(&workload.connections), "udp has none; write ports in its place"),
            (
                "workload.idle",
                !is_none(&workload.idle),
                "udp has no connections; see active, the share of the ports in use",
            ),
            (
                "workload.calls-per-connection",
                workload.calls_per_connection.is_some(),
                "udp has no connections; remove it",
            ),
            ("workload.transport", workload.transport != Transport::Tcp, "udp goes over IPv4 alone so far; remove it"),
            (
                "workload.schedule",
                workload.is_closed(),
                "a datagram that is lost would end a closed loop; \
              take another",
            ),
            ("client.roles", client.roles == Roles::TwoThreads, "each client of udp is one loop; remove it"),
            ("client.timestamps", client.timestamps != Timestamps::Client, "udp has only the client's; remove it"),
        ] {
            if is_set {
                return Err(format!("{key}: {why}"));
            }
        }
        for (key, size) in [("workload.request", workload.request), ("workload.response", workload.response)] {
            if let Some(size) = size.filter(|size| !wire::udp::is_size(size.0)) {
                let most = wire::udp::DATAGRAM_BYTES_MAX;
                return Err(format!("{key}: a datagram has from 8 to {most} bytes, not {size}; choose another size"));
            }
        }
        Ok(())
    }

    /// What is stored and asked for, of `kv`.
    pub fn kv(&self) -> Kv {
        self.workload.kv.clone().unwrap_or_default()
    }

    /// The same at the scale of `[quick]`.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let quick = self.quick.take().unwrap_or_default();
        let phases = &mut self.phases;
        for (time, instead) in [
            (&mut phases.ramp, quick.ramp),
            (&mut phases.hold, quick.hold),
            (&mut phases.measure, quick.measure),
            (&mut phases.drain, quick.drain),
        ] {
            *time = instead.unwrap_or(*time);
        }
        self.repeats = quick.repeats.unwrap_or(self.repeats);
        self
    }

    /// The JSON Schema (draft 2020-12) of an experiment file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

/// Names of values of another crate's types, for the schema alone.
macro_rules! names_for_the_schema {
    ($($type:ident: $($name:literal)+;)+) => {$(
        struct $type;

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"enum": [$($name),+]})
            }
        }
    )+};
}

names_for_the_schema! {
    ScheduleName: "slot-random" "constant" "constant-drawn" "constant-together" "poisson" "closed";
    PacingName: "auto" "yield" "spin" "sleep-spin";
    RolesName: "auto" "one-loop" "two-threads";
    ClockName: "auto" "tsc" "monotonic";
    TimestampsName: "client" "kernel";
    AcceptName: "single" "shared" "reuseport" "exclusive";
}

#[cfg(test)]
mod tests {
    use server::Architecture;

    use super::*;

    const GOOD: &str = r#"
name = "x"
architectures = "epoll"
[workload]
connections = 10
rate = [100, 200.5]
request = "1B"
response = "10KiB"
[phases]
ramp = "0"
hold = "0"
measure = "1s"
"#;

    /// What a closed loop of kv has something else for.
    const CLOSED_OF: &str = "rate = [100, 200.5]\nrequest = \"1B\"\nresponse = \"10KiB\"\n[phases]";

    #[test]
    fn a_closed_loop_of_kv_and_its_defaults() {
        let text =
            GOOD.replace(CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\nthink = \"1ms,exponential\"\n[phases]");
        let experiment = Experiment::parse(&text, "x.toml").unwrap();
        assert_eq!(experiment.kv(), Kv::default());
        assert!(experiment.workload.think.0.exponential);
        let mut experiment = experiment;
        experiment.workload.kv = Some(Kv { keys: Choice::Zipf { exponent: 0.99 }, ..Kv::default() });
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(Experiment::parse(&again, "again").unwrap(), experiment);
    }

    #[test]
    fn read_budget_of_external_servers_alone_is_refused() {
        let text = GOOD.replace("architectures = \"epoll\"", "architectures = \"exec:it\"");
        let text = format!("{text}[exec.it]\ncommand = [\"sh\", \"{{port}}\"]\n[server]\nread-budget = \"256KiB\"\n");
        let error = Experiment::parse(&text, "x.toml").unwrap_err().to_string();
        assert!(error.contains("server.read-budget: external servers do not know it"), "{error}");
        let mixed = text.replace("\"exec:it\"", "[\"epoll\", \"exec:it\"]");
        let experiment = Experiment::parse(&mixed, "x.toml").unwrap();
        assert_eq!(experiment.server.read_budget.unwrap().to_string(), "256KiB");
        let large = Experiment::parse(&mixed.replace("256KiB", "2MiB"), "x.toml").unwrap_err().to_string();
        assert!(large.contains("`2MiB` is no read budget from 1B to 1MiB"), "{large}");
    }

    #[test]
    fn a_small_file_and_its_defaults() {
        let experiment = Experiment::parse(GOOD, "x.toml").unwrap();
        assert_eq!(experiment.workload.rate.as_ref().unwrap().0, [Rate(100.0), Rate(200.5)]);
        assert_eq!(experiment.repeats, one());
        assert_eq!(experiment.client, Client::default());
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(Experiment::parse(&again, "again").unwrap(), experiment);
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let wrong = [
            ("connections = 10", "conections = 10"),
            ("connections = 10", "connections = 0"),
            ("connections = 10", "connections = -5"),
            ("connections = 10", "connections = []"),
            ("connections = 10", "connections = [10, 10]"),
            ("connections = 10", "connections = 1.5"),
            ("rate = [100, 200.5]", "rate = [100, 0]"),
            ("rate = [100, 200.5]", "rate = nan"),
            ("rate = [100, 200.5]", "rate = \"fast\""),
            ("rate = [100, 200.5]", "rate = true"),
            ("request = \"1B\"", "request = 1"),
            ("request = \"1B\"", ""),
            ("request = \"1B\"", "request = \"1\""),
            ("request = \"1B\"", "request = \"0B\""),
            ("measure = \"1s\"", "measure = \"1 parsec\""),
            ("measure = \"1s\"", "measure = \"0\""),
            ("\"epoll\"", "\"epol\""),
            ("\"epoll\"", "\"mt/epoll\""),
            ("name = \"x\"", "name = \"../x\""),
            ("name = \"x\"", "name = \"x\"\nrepeats = 0"),
            ("name = \"x\"", "name = \"x\"\nseed = -1"),
            ("[phases]", "[phases"),
            ("[phases]", "active = 0\n[phases]"),
            ("[phases]", "active = [\"1/64\", \"150%\"]\n[phases]"),
            ("[phases]", "idle = -1\n[phases]"),
            ("[phases]", "choice = \"pareto\"\n[phases]"),
            ("[phases]", "schedule = \"random\"\n[phases]"),
            ("rate = [100, 200.5]", ""),
            ("rate = [100, 200.5]", "rate = 100\nthink = \"1ms\""),
            ("rate = [100, 200.5]", "rate = 100\nschedule = \"closed\""),
            ("rate = [100, 200.5]", "rate = 100\nschedule = [\"constant\", \"closed\"]"),
            ("rate = [100, 200.5]", "schedule = \"closed\"\nthink = \"1ms,normal\""),
            ("rate = [100, 200.5]", "schedule = \"closed\"\nactive = \"1/2\""),
            ("[phases]", "service = \"kv\"\n[phases]"),
            ("[phases]", "[workload.kv]\nrecords = 10\n[phases]"),
            ("[phases]", "service = \"http\"\n[phases]"),
            ("request = \"1B\"\nresponse = \"10KiB\"\n[phases]", "service = \"http\"\n[phases]"),
            (
                "request = \"1B\"\nresponse = \"10KiB\"\n[phases]",
                "service = \"http\"\n[workload.http]\npaths = \"bytes\"\n[phases]",
            ),
            ("request = \"1B\"\n", "service = \"http\"\n[workload.http]\nheaders = [\"Accept\"]\n"),
            ("[phases]", "[workload.http]\npaths = \"/\"\n[phases]"),
            ("[phases]", "calls-per-connection = 0\n[phases]"),
            ("[phases]", "calls-per-connection = 1\nactive = \"1/2\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 0\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"9B..2B\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nkeys = \"first\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 3000000\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"2MiB\"\n[phases]"),
            ("[phases]", "[client]\ntimestamps = \"hardware\"\n[phases]"),
            ("[phases]", "[client]\nclients = 11\n[phases]"),
            ("[phases]", "[server]\naccept = \"thundering\"\n[phases]"),
            ("[phases]", "[faces]"),
            ("[phases]", "[network]\nclients = 0\n[phases]"),
            ("[phases]", "[network]\ndelay = 10\n[phases]"),
            ("[phases]", "[network]\ndelay = \"1ms\"\njitter = \"2ms\"\n[phases]"),
            ("[phases]", "[network]\nloss = 0\n[phases]"),
            ("[phases]", "[network]\nloss = \"60%\"\n[phases]"),
            ("[phases]", "[network]\nbandwidth = \"1GB\"\n[phases]"),
            ("[phases]", "[network]\nlatency = \"1ms\"\n[phases]"),
            ("[phases]", "transport = \"unix\"\n[network]\n[phases]"),
            ("\"epoll\"", "\"exec:go\""),
            ("\"epoll\"", "\"exec:\""),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "[exec.\"g o\"]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = \"go {port}\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = []\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{size}\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{socket}\"]\n[phases]"),
            ("[phases]", "transport = \"unix\"\n[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "transport = \"udp\"\n[phases]"),
            ("connections = 10", ""),
            ("connections = 10", "connections = 10\nports = 10"),
            ("connections = 10", "service = \"udp\""),
            ("connections = 10", "service = \"udp\"\nports = []"),
            ("connections = 10", "service = \"udp\"\nports = 10\nconnections = 10"),
            ("connections = 10", "service = \"udp\"\nports = 10"),
            ("connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n", "service = \"udp\"\nports = 10\nrate = 10\n"),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nrate = 10\nrequest = \"8B\"\ntransport = \"tcp6\"\n",
            ),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nschedule = \"closed\"\nrequest = \"8B\"\n",
            ),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nrate = 10\nidle = 5\nrequest = \"8B\"\n",
            ),
            ("[phases]", "[exec.go]\nprogram = \"go\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nstart-timeout = \"0\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nenvironment = {\"A=B\" = \"1\"}\n[phases]"),
        ];
        // Which there are depends on the features that are compiled in.
        let known = Architecture::all().iter().map(Architecture::to_string).collect::<Vec<_>>().join(", ");
        let messages: Vec<String> = wrong
            .iter()
            .map(|(good, bad)| {
                assert!(GOOD.contains(good));
                let error = Experiment::parse(&GOOD.replace(good, bad), "x.toml").unwrap_err();
                let error = error.to_string().replace(&known, "[all architectures]");
                format!("{bad}\n    {}", error.replace('\n', "\n    "))
            })
            .collect();
        // A new row of the server's tables is in the message, and no change of it.
        let known: Vec<String> = Architecture::all().iter().map(Architecture::to_string).collect();
        insta::assert_snapshot!(messages.join("\n").replace(&known.join(", "), "(every row)"));
    }

    #[test]
    fn the_schema_names_every_key() {
        let schema = Experiment::schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["additionalProperties"], false);
        let keys = [
            "name",
            "architectures",
            "workload",
            "phases",
            "network",
            "server",
            "client",
            "placement",
            "quick",
            "exec",
        ];
        for key in keys {
            assert!(schema["properties"][key].is_object(), "{key}");
        }
    }
}
