//! Models: how accept, network and payload map to threads and processes. The models themselves are rows of
//! [`crate::registry`].

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A model as [`crate::registry`] describes it.
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Of models in which one thread serves many connections over a mechanism of ours: where its stages run.
    pub stages: Option<Stages>,
    /// Whether its name may say how many threads or processes it has, as in `mt-pool:64`.
    pub threads: ThreadSpec,
    /// Whether it counts its own system calls. A runtime makes them out of our sight: only from outside could they be
    /// counted, so its snapshots have none.
    pub counts_syscalls: bool,
    /// What each connection takes besides a descriptor of the server's process.
    pub per_connection: PerConnection,
    /// What it needs of the kernel, besides what every Linux has; empty for most.
    pub needs: &'static str,
    /// Whether it can run here; if not, why, and what may help.
    pub can_run: fn() -> Result<(), String>,
}

/// Where the stages of an event-driven server run (voras2009). Accepting is always one thread's, unless each network thread
/// has a listener of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Reading, and writing what is left.
    pub network: NetworkStage,
    /// Working out responses, and writing them.
    pub payload: PayloadStage,
}

/// Where the network stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkStage {
    /// In the accept thread.
    InAccept,
    /// In as many threads as the name says; none is in the accept thread.
    Threads,
}

/// Where the payload stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadStage {
    /// In the network thread.
    InNetwork,
    /// In threads that get work in turn.
    Threads,
    /// In one thread for each network thread.
    Paired,
}

/// What a model's name says of threads or processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadSpec {
    /// Nothing.
    Nothing,
    /// A number, or nothing, which is what the model does by itself.
    NumberOrNothing,
    /// A number of network threads.
    Number {
        /// Without a number.
        default: u32,
    },
    /// How many threads each stage has.
    NetworkAndPayload {
        /// How many network threads it can have.
        network: RangeInclusive<u32>,
        /// Without numbers.
        default: (u32, u32),
    },
}

/// Most threads of a stage.
pub const THREADS_MAX: u32 = 1024;

/// What a connection costs besides a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerConnection {
    /// Nothing.
    Nothing,
    /// A stack of user level, which is mappings of memory.
    Stack,
    /// A thread.
    Thread,
    /// A process.
    Process,
}

impl ModelRow {
    /// Whether one thread serves many connections, over a mechanism of ours.
    pub fn multiplexes(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether its threads or processes are there before the first connection, and serve one at a time.
    pub fn is_pool(&self) -> bool {
        self.threads == ThreadSpec::NumberOrNothing
            && matches!(self.per_connection, PerConnection::Thread | PerConnection::Process)
    }

    /// Whether a thread or process begins and ends with each connection.
    pub fn has_worker_per_connection(&self) -> bool {
        matches!(self.per_connection, PerConnection::Thread | PerConnection::Process) && !self.is_pool()
    }

    /// Whether payload is worked out in other threads than the network's.
    pub fn hands_over(&self) -> bool {
        self.stages.is_some_and(|stages| stages.payload != PayloadStage::InNetwork)
    }

    /// Whether it can serve datagrams: one thread that watches all ports, or a thread or process that is made for each. A pool
    /// shares connections out, and stages hand them over; a runtime would need tasks of another kind.
    pub fn serves_datagrams(&self) -> bool {
        let one_thread = Stages { network: NetworkStage::InAccept, payload: PayloadStage::InNetwork };
        self.stages == Some(one_thread) || self.has_worker_per_connection()
    }

    /// Whether several threads of it could accept.
    pub fn has_network_threads(&self) -> bool {
        let may_have_none =
            matches!(&self.threads, ThreadSpec::NetworkAndPayload { network, .. } if network.contains(&0));
        !may_have_none && self.stages.is_some_and(|stages| stages.network == NetworkStage::Threads)
    }
}

/// How many threads or processes an architecture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Of the network stage; where there are no stages, all of them. None is the accept thread alone.
    pub network: u32,
    /// Of the payload stage, where the name says it.
    pub payload: Option<u32>,
}

impl Threads {
    /// So many, all of a kind.
    pub const fn all(count: u32) -> Self {
        Self { network: count, payload: None }
    }

    /// What `model` has if its name says no more.
    pub(crate) fn default_of(model: &ModelRow) -> Option<Self> {
        match model.threads {
            ThreadSpec::Nothing | ThreadSpec::NumberOrNothing => None,
            ThreadSpec::Number { default } => Some(Self::all(default)),
            ThreadSpec::NetworkAndPayload { default: (network, payload), .. } => {
                Some(Self { network, payload: Some(payload) })
            }
        }
    }

    /// Reads what a name says of `model`.
    pub(crate) fn parse(text: &str, model: &ModelRow) -> Result<Self, String> {
        let name = model.name;
        // What a pool may have the plan checks.
        let most = if model.multiplexes() { THREADS_MAX } else { u32::MAX };
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= most);
        let above_0 = |text: &str| number(text).filter(|count| *count > 0);
        match &model.threads {
            ThreadSpec::Nothing => Err(format!("`{name}` takes no number of threads")),
            ThreadSpec::NumberOrNothing | ThreadSpec::Number { .. } => above_0(text).map(Self::all).ok_or_else(|| {
                format!("`{text}` is no number of threads; write a whole number above 0, as in {name}:4")
            }),
            ThreadSpec::NetworkAndPayload { network, default } => {
                let parts = text.split_once('+').and_then(|(first, payload)| {
                    let first = number(first).filter(|count| network.contains(count))?;
                    Some(Self { network: first, payload: Some(above_0(payload)?) })
                });
                parts.ok_or_else(|| {
                    format!(
                        "`{text}` is no number of threads; write NETWORK+PAYLOAD, NETWORK from {} to {}, as in {name}:{}+{}",
                        network.start(),
                        network.end(),
                        default.0,
                        default.1
                    )
                })
            }
        }
    }
}

impl fmt::Display for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payload {
            None => write!(f, "{}", self.network),
            Some(payload) => write!(f, "{}+{payload}", self.network),
        }
    }
}

/// CPUs that the threads of each stage may run on; empty is all of the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageCpus {
    /// The accept thread's, and what runs in it.
    pub accept: Vec<usize>,
    /// The network threads'.
    pub network: Vec<usize>,
    /// The payload threads'.
    pub payload: Vec<usize>,
}

impl StageCpus {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
