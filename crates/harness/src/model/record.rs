//! What is stored of a run: plain data, serialised as JSON.

use load::LoadReport;
use load::idle::IdleReport;
use serde::{Deserialize, Serialize};
use server::ServerCounters;
use server::metrics::counters::Totals;
use wire::stream::Direction;

use super::network::NetworkReport;
use super::rates;
use super::strategy::Strategy;
use super::trial::Trial;
use super::verdict::Verdict;

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
        Some(server.and_then(|server| rates::server_bytes_per_s(direction, &server.moved)).unwrap_or(client))
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
    #[serde(rename = "course", default, skip_serializing_if = "Strategy::is_whole")]
    pub strategy: Strategy,
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
            strategy: Strategy::Whole,
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
