//! What is stored of a run: plain data, serialised as JSON.

use load::LoadReport;
use load::config::{Choice, HttpTraffic, KvTraffic, LoadConfig, Phases, Schedule, Think};
use load::idle::IdleReport;
use serde::{Deserialize, Serialize};
use server::metrics::counters::Totals;
use server::{Accept, Options, ServerCounters, ServerSpec, Work};
use wire::ServiceSpec;
use wire::stream::Direction;

use crate::contender::Contender;
use crate::course::Course;
use crate::model::network::NetworkReport;
use crate::spec::network::Network;
use crate::stream;
use crate::transport::Transport;
use crate::units::Budget;

/// The traffic of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The service and its sizes.
    pub service: ServiceSpec,
    /// How requests get to the server. Runs stored before there was a choice are all of TCP over IPv4.
    #[serde(default)]
    pub transport: Transport,
    /// The lab that server and client are hosts of; `None` where they talk over loopback.
    #[serde(default, deserialize_with = "crate::spec::network::stored", skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Connections held open; of `udp`, the server's ports.
    pub connections: u32,
    /// Requests a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// When they are sent.
    pub schedule: Schedule,
    /// How long a connection of a closed loop thinks between transactions.
    #[serde(default, skip_serializing_if = "Think::is_none")]
    pub think: Think,
    /// Requests on each connection, after which another follows; `None` where connections stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_connection: Option<u32>,
    /// What is asked of a key-value store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv: Option<KvTraffic>,
    /// What is asked of an HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTraffic>,
    /// The share of the connections that they are sent on.
    pub active: f64,
    /// Connections held open besides, that nothing is sent on.
    pub idle: u32,
    /// How a request's connection is chosen among the active ones.
    pub choice: Choice,
    /// Work that each request is for the server besides its I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// How long each phase lasts.
    pub phases: Phases,
}

impl Workload {
    /// What there are so many of: connections, or ports of datagrams.
    pub fn targets(&self) -> &'static str {
        if self.service.ports().is_some() { "ports" } else { "connections" }
    }

    /// Whether it is a closed loop: what is compared is then how many transactions a second there were.
    pub fn is_closed(&self) -> bool {
        self.schedule == Schedule::Closed
    }
}

/// One row of a plan: everything needed to run it, nothing left to default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the order of execution, from 0.
    pub index: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How the server is built.
    pub architecture: Contender,
    /// The traffic.
    pub workload: Workload,
    /// The server's full configuration; its port, or its socket's folder, is chosen when it starts.
    pub serve: ServerSpec,
    /// The client's full configuration; its target is filled in when the server listens.
    pub load: LoadConfig,
    /// Why this trial cannot run on this host; empty when it can.
    pub impossible: Vec<String>,
}

impl Trial {
    /// Its architecture and, in brackets, options that are not the usual ones: `mt-pool (exclusive, 256KiB reads)`.
    pub fn label(&self) -> String {
        let unusual = self.serve.ours().map_or_else(Vec::new, |serve| {
            let Options { accept, read_budget_bytes } = serve.options();
            let accept = (accept != Accept::default_of(serve.architecture.model)).then(|| accept.to_string());
            let budget = (!read_budget_bytes.is_default()).then(|| format!("{} reads", Budget(read_budget_bytes)));
            accept.into_iter().chain(budget).collect()
        });
        if unusual.is_empty() {
            self.architecture.to_string()
        } else {
            format!("{} ({})", self.architecture, unusual.join(", "))
        }
    }

    /// Whether another is of the same architecture under the same traffic, at this rate or another.
    pub fn is_alike_but_for_the_rate(&self, other: &Self) -> bool {
        let mut workload = other.workload.clone();
        workload.rate_per_s = self.workload.rate_per_s;
        self.architecture == other.architecture
            && self.serve.options() == other.serve.options()
            && self.workload == workload
    }
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
    /// What became of the idle connections; `None` where there were none, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleReport>,
    /// What the lab's network was; `None` over loopback, or where the trial did not get so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkReport>,
    /// The share of the server's CPUs that others than it took during the window; `None` where that is not known, or the
    /// client was on them too.
    pub cpu_taken_by_others: Option<f64>,
    /// What may be believed.
    pub verdict: Verdict,
}

impl TrialRecord {
    /// What can be stored and read again: itself, or, if a figure of it is no number, that it failed for that.
    pub fn readable(self) -> Self {
        let again = serde_json::to_string(&self).and_then(|text| serde_json::from_str::<Self>(&text));
        let Err(error) = again else { return self };
        Self {
            load: None,
            server: None,
            idle: None,
            network: None,
            cpu_taken_by_others: None,
            verdict: Verdict::failed(format!("its figures cannot be stored, for one of them is no number ({error})")),
            ..self
        }
    }

    /// Requests that the server answered while it was counted; of streams bursts, broken ones as the fractions that they are;
    /// `None` when either side gave no account.
    pub fn requests_answered(&self) -> Option<f64> {
        let (server, load) = (self.server.as_ref()?, self.load.as_ref()?);
        let bursts = |sizes: wire::stream::Stream| {
            let Totals { bytes_in, bytes_out, .. } = server.totals;
            let moved = if sizes.direction == Direction::In { bytes_in } else { bytes_out };
            Some(moved? as f64 / sizes.burst_bytes() as f64)
        };
        let bursts = self.trial.workload.service.stream().and_then(bursts);
        Some(bursts.unwrap_or_else(|| requests_answered(server, load)))
    }

    /// Bytes of bursts a second where they arrive: a server that takes them in is asked, or else the client. What a client has
    /// written may still be in sockets, which of a thousand hold gigabytes. `None` of other services.
    pub fn stream_bytes_per_s(&self) -> Option<f64> {
        let direction = self.trial.workload.service.stream()?.direction;
        let load = self.load.as_ref()?;
        let client = load.stream.as_ref()?.bytes_per_s(load.window_ns);
        let server = self.server.as_ref().filter(|_| direction == Direction::In);
        Some(server.and_then(|server| stream::server_bytes_per_s(direction, &server.moved)).unwrap_or(client))
    }

    /// Responses a second; of streams, the bursts that its bytes make.
    pub fn rate_achieved_per_s(&self) -> Option<f64> {
        let load = self.load.as_ref()?;
        let bursts_per_s = || {
            let burst_bytes = self.trial.workload.service.stream()?.burst_bytes() as f64;
            Some(self.stream_bytes_per_s()? / burst_bytes)
        };
        Some(bursts_per_s().unwrap_or(load.rate_achieved_per_s))
    }
}

/// Requests that a server answered while it was counted: as it says, or, if it does not, as many as the client's rate of
/// responses makes in that time.
pub fn requests_answered(server: &ServerCounters, load: &LoadReport) -> f64 {
    let by_the_client = || load.rate_achieved_per_s * server.window_ns as f64 / 1e9;
    server.totals.requests.map_or_else(by_the_client, |requests| requests as f64)
}

impl Verdict {
    /// Whether a trial that is not valid says nothing against its server: the client was late, others took the server's CPUs, or
    /// it was counted at another time, and nothing else was found.
    pub fn is_the_machine_s(&self) -> bool {
        let mut failed = self.checks.iter().filter(|check| !check.passed).peekable();
        failed.peek().is_some()
            && failed.all(|it| {
                let of_machine = [Check::TAKEN_BY_OTHERS, Check::COUNTED_LATE];
                it.decides == VerdictKind::ClientLimited || of_machine.contains(&it.name.as_str())
            })
    }

    /// Whether estimates include the trial: it is valid, or its times changed for a cause that may be the server's own.
    /// Leaving such windows out would hide the server's noise; a cause that was seen elsewhere is no noise of the server.
    pub fn belongs_in_estimates(&self) -> bool {
        let has_other_cause = |check: &Check| {
            let of_machine = [Check::TAKEN_BY_OTHERS, Check::COUNTED_LATE];
            !check.passed && (check.decides != VerdictKind::Unsteady || of_machine.contains(&check.name.as_str()))
        };
        match self.kind {
            VerdictKind::Valid => true,
            VerdictKind::Unsteady => !self.checks.iter().any(has_other_cause),
            VerdictKind::ClientLimited | VerdictKind::Saturated | VerdictKind::Failed => false,
        }
    }

    /// Whether nothing else is wrong with a trial than that its window had too few requests to be judged.
    pub fn has_too_few_requests(&self) -> bool {
        let mut failed = self.checks.iter().filter(|check| !check.passed).peekable();
        failed.peek().is_some() && failed.all(|it| it.name == Check::REQUESTS)
    }

    /// Of a trial that could not be finished.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { kind: VerdictKind::Failed, reason: reason.into(), checks: Vec::new() }
    }
}

/// What may be believed of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The class.
    pub kind: VerdictKind,
    /// One sentence with the numbers that decided it.
    pub reason: String,
    /// Every check that was made, in the order in which they decide; none where there was nothing to check.
    pub checks: Vec<Check>,
}

/// One thing that a trial must fulfil to be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is looked at.
    pub name: String,
    /// What was found; in JSON a word, where it is no number.
    #[serde(with = "unbounded")]
    pub value: f64,
    /// What it is held against; likewise.
    #[serde(with = "unbounded")]
    pub limit: f64,
    /// On which side of the limit it has to be.
    pub bound: Bound,
    /// The unit of both; empty for a share or a count.
    pub unit: String,
    /// The test's p-value, where it is one.
    pub p_value: Option<f64>,
    /// A test fails only if its p-value is below this, too: what is found by chance less often is not taken for chance.
    pub p_value_min: Option<f64>,
    /// Whether the trial fulfils it.
    pub passed: bool,
    /// What the trial is if it does not.
    pub decides: VerdictKind,
}

impl Check {
    /// The name of a check of the machine, and not of the server or the client...
    pub const TAKEN_BY_OTHERS: &str = "share of the server's CPUs taken by others";
    /// ...and of the other: whoever runs the trial was kept from it.
    pub const COUNTED_LATE: &str = "time by which the server was counted late at an edge of the window";
    /// The name of the one check of whether there is enough to be judged.
    pub const REQUESTS: &str = "requests in the window";
}

/// Numbers that may be without bound, or none at all, which JSON has no numbers for.
mod unbounded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Finite(f64),
        Word(String),
        /// As earlier versions wrote it.
        Null(()),
    }

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { value.serialize(serializer) } else { value.to_string().serialize(serializer) }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Number::deserialize(deserializer)? {
            Number::Finite(value) => Ok(value),
            Number::Word(word) => word.parse().map_err(serde::de::Error::custom),
            Number::Null(()) => Ok(f64::NAN),
        }
    }
}

/// A side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The limit or more.
    AtLeast,
    /// The limit or less.
    AtMost,
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
    /// The measured window was not one steady state: the server's times changed within it, or others took its CPUs.
    Unsteady,
    /// The trial did not finish, or its figures cannot be believed.
    Failed,
}

/// What a run is: written when it starts. A search may be given more time later.
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
    /// The trials in order; of a search, the first probe of each.
    pub trials: Vec<Trial>,
    /// How the run goes through them.
    #[serde(default, skip_serializing_if = "Course::is_whole")]
    pub course: Course,
    /// Facts of the host, by name, as text.
    pub host: std::collections::BTreeMap<String, String>,
    /// Where the server and the client were placed, in a sentence.
    pub placement: String,
    /// Whether its clients are ranks of a fleet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fleet_s: bool,
}

#[cfg(test)]
impl RunHeader {
    /// Of a plan, with nothing known of the host.
    pub(crate) fn made_up(plan: crate::plan::Plan) -> Self {
        Self {
            name: "x".into(),
            muxbench: "0".into(),
            command: vec!["muxbench".into()],
            started_at: "2026-01-01T00:00:00Z".into(),
            experiment: plan.experiment,
            seed: plan.seed,
            trials: plan.trials,
            course: Course::Whole,
            host: Default::default(),
            placement: plan.placement,
            is_fleet_s: false,
        }
    }
}

/// A run read back from its store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// What was planned.
    pub header: RunHeader,
    /// What finished, in order of execution.
    pub records: Vec<TrialRecord>,
    /// What is damaged of its store, one sentence each; trials that are left out for it are run again with `--resume`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}
