//! Models: how connections and stages map to threads and processes. [`crate::registry`] lists the models.

use std::fmt;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The description of a model.
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// The description in `muxbench list`.
    pub about: &'static str,
    /// The stages of an event-driven model; `None` for other models.
    pub stages: Option<Stages>,
    /// Whether a layer above the sockets copies each packet. Such a model runs only in experiments that name it.
    pub is_buffered: bool,
    /// The numbers of threads or processes that a name may contain, as in `mt-pool:64`.
    pub threads: ThreadSpec,
    /// Whether the server counts its system calls. It cannot count those of a runtime.
    pub counts_syscalls: bool,
    /// The cost of each connection besides a descriptor.
    pub per_connection: PerConnection,
    /// Whether each of several threads accepts from a listener of its own (SO_REUSEPORT), whatever the accept strategy.
    pub has_own_listeners: bool,
    /// Whether the blocking calls of a runtime's tasks run in its pool for them.
    pub has_blocking_pool: bool,
    /// Required kernel features, beyond those of every supported Linux; empty for most.
    pub needs: &'static str,
    /// Returns an error with the reason and the remedy if the model cannot run on this host.
    pub can_run: fn() -> Result<(), String>,
}

/// The stages of an event-driven server after accept (voras2009). One thread accepts, unless the accept strategy lets each
/// network thread do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Reads requests, and writes the rest of responses that did not fit into a socket.
    pub network: NetworkStage,
    /// Makes and writes responses.
    pub payload: PayloadStage,
    /// Whether a network thread queues the jobs of a turn under one lock per queue, and an accept thread closes connections.
    pub coalesces: bool,
}

/// The threads of the network stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkStage {
    /// The accept thread.
    InAccept,
    /// As many threads as the name says, besides the accept thread.
    Threads,
}

/// The threads of the payload stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadStage {
    /// The network thread.
    InNetwork,
    /// Threads that get connections in turn.
    Threads,
    /// One thread for each network thread.
    Paired,
    /// The network thread, except that other threads make its blocking calls.
    Offloading,
}

/// The numbers of threads or processes that the name of a model may contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadSpec {
    /// None.
    Nothing,
    /// An optional number.
    NumberOrNothing,
    /// A number of network threads.
    Number {
        /// The number for a name without one.
        default: u32,
    },
    /// A number of threads for each stage.
    NetworkAndPayload {
        /// The valid numbers of network threads.
        network: RangeInclusive<u32>,
        /// The numbers for a name without them.
        default: (u32, u32),
    },
}

/// The most threads of a stage.
pub const THREADS_MAX: u32 = 1024;

/// The most descriptors of a thread that serves many connections, such as its listener, its waker and its epoll instance. A thread
/// of glommio has three rings, an eventfd, a listener and a duplicate of it.
pub const DESCRIPTORS_PER_NETWORK: u32 = 8;

/// The cost of a connection besides a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerConnection {
    /// Nothing.
    Nothing,
    /// A user-level stack, which takes memory mappings.
    Stack,
    /// A thread.
    Thread,
    /// A process.
    Process,
}

impl ModelRow {
    /// The values that most models share.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        about: "",
        stages: None,
        is_buffered: false,
        threads: ThreadSpec::Nothing,
        counts_syscalls: true,
        per_connection: PerConnection::Nothing,
        has_own_listeners: false,
        has_blocking_pool: false,
        needs: "",
        can_run: || Ok(()),
    };

    /// The values that the models over runtimes share.
    pub const RUNTIME: Self = Self { threads: ThreadSpec::NumberOrNothing, counts_syscalls: false, ..Self::DEFAULT };

    /// Whether each thread serves many connections over a mechanism.
    pub fn multiplexes(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether threads or processes exist before the first connection, and each serves one connection at a time.
    pub fn is_pool(&self) -> bool {
        self.threads == ThreadSpec::NumberOrNothing
            && matches!(self.per_connection, PerConnection::Thread | PerConnection::Process)
    }

    /// Whether the model is a pool that can grow under load and shrink again.
    pub fn grows(&self) -> bool {
        self.is_pool() && self.per_connection == PerConnection::Thread
    }

    /// Whether each connection has a thread or process of its own, which ends with the connection.
    pub fn has_worker_per_connection(&self) -> bool {
        matches!(self.per_connection, PerConnection::Thread | PerConnection::Process) && !self.is_pool()
    }

    /// Whether threads other than the network threads make responses.
    pub fn has_payload_threads(&self) -> bool {
        self.stages.is_some_and(|stages| matches!(stages.payload, PayloadStage::Threads | PayloadStage::Paired))
    }

    /// Whether other threads make the blocking calls of those that serve.
    pub fn offloads(&self) -> bool {
        self.has_blocking_pool || self.stages.is_some_and(|stages| stages.payload == PayloadStage::Offloading)
    }

    /// Whether the model is an async or coroutine runtime.
    pub fn is_runtime(&self) -> bool {
        !self.counts_syscalls
    }

    /// Whether the model can serve datagrams: each thread watches all ports, or each port has a thread or process.
    pub fn serves_datagrams(&self) -> bool {
        let is_one_stage = |it: Stages| it.payload == PayloadStage::InNetwork;
        self.stages.is_some_and(is_one_stage) || self.has_worker_per_connection() && !self.is_buffered
    }

    /// Whether the model may have several network threads. These can accept.
    pub fn has_network_threads(&self) -> bool {
        let has_one = matches!(&self.threads, ThreadSpec::NetworkAndPayload { network, .. } if network.contains(&0));
        !has_one && self.stages.is_some_and(|stages| stages.network == NetworkStage::Threads)
    }
}

/// The numbers of threads or processes of an architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads of the network stage (0: the accept thread), or all threads of a model without stages.
    pub network: u32,
    /// Threads of the payload stage, in models whose names give their number, such as `seda:2+4`.
    pub payload: Option<u32>,
    /// The most threads of a pool that grows, such as `mt-pool:4..64`.
    pub most: Option<u32>,
}

impl Threads {
    /// `count` threads of one kind.
    pub const fn all(count: u32) -> Self {
        Self { network: count, payload: None, most: None }
    }

    pub(crate) fn default_of(model: &ModelRow) -> Option<Self> {
        match model.threads {
            ThreadSpec::Nothing | ThreadSpec::NumberOrNothing => None,
            ThreadSpec::Number { default } => Some(Self::all(default)),
            ThreadSpec::NetworkAndPayload { default: (network, payload), .. } => {
                Some(Self { network, payload: Some(payload), most: None })
            }
        }
    }

    /// Parses the numbers in a name of `model`.
    pub(crate) fn parse(text: &str, model: &ModelRow) -> Result<Self, String> {
        let name = model.name;
        // The plan checks the size of a pool against the host.
        let most = if model.multiplexes() { THREADS_MAX } else { u32::MAX };
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= most);
        let above_0 = |text: &str| number(text).filter(|count| *count > 0);
        match &model.threads {
            ThreadSpec::Nothing => Err(format!("`{name}` takes no number of threads")),
            ThreadSpec::NumberOrNothing if model.grows() && text.contains("..") => {
                let parts = text.split_once("..").and_then(|(least, most)| Some((above_0(least)?, above_0(most)?)));
                let parts = parts.filter(|(least, most)| least < most);
                parts.map(|(least, most)| Self { most: Some(most), ..Self::all(least) }).ok_or_else(|| {
                    format!("invalid numbers of threads `{text}`: expected FEWEST..MOST, as in {name}:4..64")
                })
            }
            ThreadSpec::NumberOrNothing | ThreadSpec::Number { .. } => above_0(text).map(Self::all).ok_or_else(|| {
                format!("invalid number of threads `{text}`: expected a whole number above 0, as in {name}:4")
            }),
            ThreadSpec::NetworkAndPayload { network, default } => {
                let parts = text.split_once('+').and_then(|(first, payload)| {
                    let first = number(first).filter(|count| network.contains(count))?;
                    Some(Self { network: first, payload: Some(above_0(payload)?), most: None })
                });
                parts.ok_or_else(|| {
                    let (from, to, (first, payload)) = (network.start(), network.end(), default);
                    format!(
                        "invalid number of threads `{text}`: expected NETWORK+PAYLOAD, NETWORK from {from} to {to}, as in \
                         {name}:{first}+{payload}"
                    )
                })
            }
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.payload, self.most) {
            (Some(payload), _) => write!(f, "{}+{payload}", self.network),
            (None, Some(most)) => write!(f, "{}..{most}", self.network),
            (None, None) => write!(f, "{}", self.network),
        }
    }
}

/// CPUs of each stage's threads; empty for all CPUs of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageCpus {
    /// CPUs of the accept thread and of all stages that run in it.
    pub accept: Vec<usize>,
    /// CPUs of the network threads.
    pub network: Vec<usize>,
    /// CPUs of the payload threads.
    pub payload: Vec<usize>,
}

impl StageCpus {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
