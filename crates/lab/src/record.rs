//! What is stored of a run: plain data, serialised as JSON.

use load::LoadReport;
use load::config::{LoadConfig, Phases, Schedule};
use serde::{Deserialize, Serialize};
use server::{Architecture, ServeConfig, ServerCounters};
use wire::ServiceSpec;

/// The traffic of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The service and its sizes.
    pub service: ServiceSpec,
    /// Connections held open.
    pub connections: u32,
    /// Requests a second.
    pub rate_per_s: f64,
    /// When they are sent.
    pub schedule: Schedule,
    /// How long each phase lasts.
    pub phases: Phases,
}

/// One row of a plan: everything needed to run it, nothing left to default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the order of execution, from 0.
    pub index: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How the server is built.
    pub architecture: Architecture,
    /// The traffic.
    pub workload: Workload,
    /// The server's full configuration; its port is chosen by the kernel.
    pub serve: ServeConfig,
    /// The client's full configuration; its target is filled in when the server listens.
    pub load: LoadConfig,
    /// Why this trial cannot run on this host; empty when it can.
    pub impossible: Vec<String>,
}

/// One finished trial.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialRecord {
    /// What was planned.
    pub trial: Trial,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took in all, in nanoseconds.
    pub elapsed_ns: u64,
    /// The client's account; `None` if it gave none.
    pub load: Option<LoadReport>,
    /// The server's account; `None` if it gave none.
    pub server: Option<ServerCounters>,
    /// What may be believed.
    pub verdict: Verdict,
}

/// What may be believed of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The class.
    pub kind: VerdictKind,
    /// One sentence with the numbers that decided it.
    pub reason: String,
}

/// The classes of verdicts. Only `valid` trials are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The figures are the server's.
    Valid,
    /// The server could not keep up with the rate asked.
    Saturated,
    /// The client could not keep up with its schedule.
    ClientLimited,
    /// The measured window was not steady.
    Unsteady,
    /// The trial did not finish, or its figures cannot be believed.
    Failed,
}

/// What a run is: written once, when it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunHeader {
    /// The run's name: its folder under `results/`.
    pub name: String,
    /// The version of muxbench that ran it.
    pub muxbench: String,
    /// The command that reproduces it.
    pub command: Vec<String>,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
    /// The experiment's name.
    pub experiment: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The trials in order.
    pub trials: Vec<Trial>,
    /// Facts of the host, by name, as text.
    pub host: std::collections::BTreeMap<String, String>,
    /// Where the server and the client were placed, in a sentence.
    pub placement: String,
}

/// A run read back from its store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What was planned.
    pub header: RunHeader,
    /// What finished, in order of execution.
    pub records: Vec<TrialRecord>,
}
