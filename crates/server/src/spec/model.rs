//! Models: the mapping of accept, network and payload to threads and processes. The models themselves are rows of
//! [`crate::registry`].

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The description of a model in [`crate::registry`].
#[derive(Debug)]
pub struct ModelRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// The places of the stages, for event-driven models.
    pub stages: Option<Stages>,
    /// The numbers of threads or processes that a name may have, as in `mt-pool:64`.
    pub threads: ThreadSpec,
    /// Whether the server counts its own system calls. It cannot see those of a runtime.
    pub counts_syscalls: bool,
    /// The cost of each connection besides a descriptor.
    pub per_connection: PerConnection,
    /// Kernel features beyond those of every Linux; empty for most.
    pub needs: &'static str,
    /// Returns why it cannot run here, and the remedy.
    pub can_run: fn() -> Result<(), String>,
}

/// The places of the stages of an event-driven server (voras2009). One thread accepts, unless each network thread has its own
/// listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Reading, and writing what did not fit.
    pub network: NetworkStage,
    /// Making and writing responses.
    pub payload: PayloadStage,
}

/// The place of the network stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkStage {
    /// In the accept thread.
    InAccept,
    /// In the number of threads in the name; none is in the accept thread.
    Threads,
}

/// The place of the payload stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadStage {
    /// In the network thread.
    InNetwork,
    /// In threads that get connections in turn.
    Threads,
    /// In one thread for each network thread.
    Paired,
}

/// The numbers of threads or processes in a model's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadSpec {
    /// None.
    Nothing,
    /// A number, or none for the model's own behaviour.
    NumberOrNothing,
    /// A number of network threads.
    Number {
        /// The number if the name has none.
        default: u32,
    },
    /// The numbers of threads of both stages.
    NetworkAndPayload {
        /// The possible numbers of network threads.
        network: RangeInclusive<u32>,
        /// The numbers if the name has none.
        default: (u32, u32),
    },
}

/// The most threads of a stage.
pub const THREADS_MAX: u32 = 1024;

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
    /// The values that most models share; name and description are empty.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        about: "",
        stages: None,
        threads: ThreadSpec::Nothing,
        counts_syscalls: true,
        per_connection: PerConnection::Nothing,
        needs: "",
        can_run: || Ok(()),
    };

    /// Whether one thread serves many connections over a mechanism.
    pub fn multiplexes(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether its threads or processes exist before the first connection and serve one at a time.
    pub fn is_pool(&self) -> bool {
        self.threads == ThreadSpec::NumberOrNothing
            && matches!(self.per_connection, PerConnection::Thread | PerConnection::Process)
    }

    /// Whether a thread or process begins and ends with each connection.
    pub fn has_worker_per_connection(&self) -> bool {
        matches!(self.per_connection, PerConnection::Thread | PerConnection::Process) && !self.is_pool()
    }

    /// Whether other threads than the network's make the responses.
    pub fn has_payload_threads(&self) -> bool {
        self.stages.is_some_and(|stages| stages.payload != PayloadStage::InNetwork)
    }

    /// Whether it can serve datagrams: one thread watches all ports, or each port has a thread or process. A pool shares
    /// connections out, and stages hand them over; a runtime would need other tasks.
    pub fn serves_datagrams(&self) -> bool {
        let one_thread = Stages { network: NetworkStage::InAccept, payload: PayloadStage::InNetwork };
        self.stages == Some(one_thread) || self.has_worker_per_connection()
    }

    /// Whether several of its threads could accept.
    pub fn has_network_threads(&self) -> bool {
        let may_have_none =
            matches!(&self.threads, ThreadSpec::NetworkAndPayload { network, .. } if network.contains(&0));
        !may_have_none && self.stages.is_some_and(|stages| stages.network == NetworkStage::Threads)
    }
}

/// The numbers of threads or processes of an architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Threads of the network stage, or all threads if there are no stages. 0 is the accept thread alone.
    pub network: u32,
    /// Threads of the payload stage, if named.
    pub payload: Option<u32>,
}

impl Threads {
    /// `count` threads of one kind.
    pub const fn all(count: u32) -> Self {
        Self { network: count, payload: None }
    }

    /// The default of `model`.
    pub(crate) fn default_of(model: &ModelRow) -> Option<Self> {
        match model.threads {
            ThreadSpec::Nothing | ThreadSpec::NumberOrNothing => None,
            ThreadSpec::Number { default } => Some(Self::all(default)),
            ThreadSpec::NetworkAndPayload { default: (network, payload), .. } => {
                Some(Self { network, payload: Some(payload) })
            }
        }
    }

    /// Parses the numbers in a name of `model`.
    pub(crate) fn parse(text: &str, model: &ModelRow) -> Result<Self, String> {
        let name = model.name;
        // The plan checks the size of a pool.
        let most = if model.multiplexes() { THREADS_MAX } else { u32::MAX };
        let number = |text: &str| text.parse::<u32>().ok().filter(|count| *count <= most);
        let above_0 = |text: &str| number(text).filter(|count| *count > 0);
        match &model.threads {
            ThreadSpec::Nothing => Err(format!("`{name}` takes no number of threads")),
            ThreadSpec::NumberOrNothing | ThreadSpec::Number { .. } => above_0(text).map(Self::all).ok_or_else(|| {
                format!("invalid number of threads `{text}`: expected a whole number above 0, as in {name}:4")
            }),
            ThreadSpec::NetworkAndPayload { network, default } => {
                let parts = text.split_once('+').and_then(|(first, payload)| {
                    let first = number(first).filter(|count| network.contains(count))?;
                    Some(Self { network: first, payload: Some(above_0(payload)?) })
                });
                parts.ok_or_else(|| {
                    format!(
                        "invalid number of threads `{text}`: expected NETWORK+PAYLOAD, NETWORK from {} to {}, as in {name}:{}+{}",
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

/// CPUs of each stage's threads; empty means all of the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageCpus {
    /// CPUs of the accept thread and everything in it.
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
