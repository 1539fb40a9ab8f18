//! The stored data of a run, serialised as JSON.

use load::LoadResult;
use load::tools::idle::IdleResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::ServerCounters;
use server::metrics::counters::Totals;
use wire::stream::Direction;

use super::network::NetworkRecord;
use super::profile::Profile;
use super::rates;
use super::strategy::Strategy;
use super::trial::Trial;
use super::verdict::Verdict;
use super::warm_up::WarmUp;
use crate::spec::interleave::Interleave;

/// One finished trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TrialRecord {
    /// The trial as planned.
    pub trial: Trial,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The total duration, in nanoseconds. Includes a void heat before the trial.
    pub elapsed_ns: u64,
    /// Why the trial ran separately although its plan shares a window: the check that its slices in a void heat failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separated: Option<String>,
    /// The client's report. `None` if it did not send one.
    pub load: Option<LoadResult>,
    /// The server's counters. `None` if it did not send them.
    pub server: Option<ServerCounters>,
    /// The warm-up of an external server. `None` for other servers, over datagrams, or if the trial failed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<WarmUp>,
    /// The last check of the idle connections. `None` without idle connections or without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleResult>,
    /// The lab's network. `None` over loopback, or if the trial failed before the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRecord>,
    /// The share of the server's CPUs that other processes took during the window. `None` if unknown, or if the client
    /// shared these CPUs.
    pub cpu_taken_by_others: Option<f64>,
    /// What the server's CPU time was spent for. `None` without `profile`, or if sampling failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Why sampling failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_error: Option<String>,
    /// The verdict on the trial.
    pub verdict: Verdict,
}

impl TrialRecord {
    /// Returns a record that can be stored and read again. If a required figure is not a finite number, the record
    /// becomes a failed trial.
    pub fn readable(self) -> Self {
        let again = serde_json::to_string(&self).and_then(|text| serde_json::from_str::<Self>(&text));
        let Err(error) = again else { return self };
        Self {
            load: None,
            server: None,
            warm_up: None,
            idle: None,
            network: None,
            cpu_taken_by_others: None,
            profile: None,
            verdict: Verdict::failed(format!("the figures cannot be stored, because one is not a number ({error})")),
            ..self
        }
    }

    /// Returns the end of the trial in seconds since 1970. `None` if the stored start is not a time.
    pub fn ended_at_s(&self) -> Option<f64> {
        let start: jiff::Timestamp = self.started_at.parse().ok()?;
        Some(start.as_microsecond() as f64 / 1e6 + self.elapsed_ns as f64 / 1e9)
    }

    /// Returns the requests that the server answered between the two readings of its counters. For streams, returns bursts,
    /// with fractions for incomplete ones. `None` without the server's counters or the client's report.
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

    /// Returns the bytes of bursts per second at their receiver. If the server receives, its counters give the rate;
    /// otherwise the client's report does. Bytes that a client wrote may still be in socket buffers, which hold
    /// gigabytes for a thousand connections. `None` for other services.
    pub fn stream_bytes_per_s(&self) -> Option<f64> {
        let direction = self.trial.workload.service.stream()?.direction;
        let load = self.load.as_ref()?;
        let client = load.stream.as_ref()?.bytes_per_s(load.window_ns);
        let server = self.server.as_ref().filter(|_| direction == Direction::In);
        Some(server.and_then(|server| rates::server_bytes_per_s(direction, &server.moved)).unwrap_or(client))
    }

    /// Returns the responses per second. For streams, the bursts per second, computed from their bytes.
    pub fn rate_achieved_per_s(&self) -> Option<f64> {
        let load = self.load.as_ref()?;
        let bursts_per_s = || {
            let burst_bytes = self.trial.workload.service.stream()?.burst_bytes() as f64;
            Some(self.stream_bytes_per_s()? / burst_bytes)
        };
        Some(bursts_per_s().unwrap_or(load.rate_achieved_per_s))
    }
}

/// Returns the requests that a server answered between the two readings of its counters. If the server did not count them, the
/// client's response rate gives an estimate.
pub fn requests_answered(server: &ServerCounters, load: &LoadResult) -> f64 {
    let by_the_client = || load.rate_achieved_per_s * server.window_ns as f64 / 1e9;
    server.totals.requests.map_or_else(by_the_client, |requests| requests as f64)
}

/// The description of a run, written when it starts. Later only the strategy's time limit and the feasibility of
/// trials may change.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunHeader {
    /// The name of the run and of its folder under `results/`.
    pub name: String,
    /// The version of muxbench.
    pub muxbench: String,
    /// The command that reproduces the run.
    pub command: Vec<String>,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The name of the experiment.
    pub experiment: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The trials in order. A capacity run lists only the first probe of each search; results determine the later probes.
    pub trials: Vec<Trial>,
    /// The order of execution.
    pub strategy: Strategy,
    /// Whether architectures share a window.
    pub interleave: Interleave,
    /// Facts of the host, by name, as text.
    pub host: std::collections::BTreeMap<String, String>,
    /// The placement of the server and the client, in one sentence.
    pub placement: String,
    /// Whether idle CPUs of this host poll during the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle_cpus_poll: bool,
    /// Whether stacks of the servers are sampled after each measured heat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_profiled: bool,
    /// Whether the run is distributed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_distributed: bool,
}

#[cfg(test)]
impl RunHeader {
    /// Returns a header for a plan, with a made-up name, version, command and start time, and without facts of the host.
    pub(crate) fn made_up(plan: crate::plan::Plan) -> Self {
        Self {
            name: "x".into(),
            muxbench: "0".into(),
            command: vec!["muxbench".into()],
            started_at: "2026-01-01T00:00:00Z".into(),
            experiment: plan.experiment,
            seed: plan.seed,
            trials: plan.trials,
            strategy: Strategy::Whole,
            interleave: plan.interleave,
            host: Default::default(),
            placement: plan.placement,
            idle_cpus_poll: plan.idle_cpus_poll,
            is_profiled: plan.is_profiled,
            is_distributed: false,
        }
    }
}

/// A run read back from its store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The description of the run.
    pub header: RunHeader,
    /// The finished trials, sorted by index.
    pub records: Vec<TrialRecord>,
    /// Damage to the stored run, one sentence each. `--resume` repeats the trials that are missing because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}
