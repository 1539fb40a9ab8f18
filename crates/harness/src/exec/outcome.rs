//! The record of a finished trial, from what was observed of it.

use std::time::Instant;

use server::ServerCounters;
use server::spec::mechanism::Spins;
use wire::stream::Direction;

use super::marks::Observations;
use crate::judge::{Judgement, ServerSide};
use crate::model::rates;
use crate::model::{Trial, TrialRecord, Verdict};

/// When a trial began.
pub(super) struct TrialStart {
    /// RFC 3339 in UTC.
    timestamp: String,
    instant: Instant,
}

impl TrialStart {
    pub(super) fn now() -> Self {
        Self { timestamp: jiff::Timestamp::now().to_string(), instant: Instant::now() }
    }
}

/// The record of a trial: its `outcome`, and its observations with a verdict on them.
pub(super) fn record(
    trial: &Trial,
    start: TrialStart,
    outcome: &anyhow::Result<()>,
    mut observations: Observations,
    are_clients_remote: bool,
) -> TrialRecord {
    let mut counters = observations.counters().map(|counters| without_meaningless(counters, trial));
    let (taken, interrupts_ns) = observations.cpu_beside_server(trial, are_clients_remote).unzip();
    if let Some(counters) = counters.as_mut() {
        counters.interrupts_ns = interrupts_ns.flatten();
    }
    if !are_clients_remote {
        observations.add_interrupts_to_client(&trial.load.cpus);
    }
    let verdict = match outcome {
        Ok(()) => judge(trial, &observations, counters.as_ref(), taken),
        Err(error) => Verdict::failed(format!("{error:#}")),
    };
    let record = TrialRecord {
        trial: trial.clone(),
        started_at: start.timestamp,
        elapsed_ns: start.instant.elapsed().as_nanos() as u64,
        server: counters,
        idle: observations.idle,
        network: observations.network,
        cpu_taken_by_others: taken,
        load: observations.load,
        verdict,
    };
    record.readable()
}

/// The counters without those that have no meaning for this trial's workload.
fn without_meaningless(mut counters: ServerCounters, trial: &Trial) -> ServerCounters {
    if trial.load.kv.is_some() {
        // It includes the data set, which was stored after the connections were made.
        counters.memory_user_bytes_per_connection = None;
    }
    if trial.load.requests_per_connection.is_some() {
        // The number of connections varies.
        counters.memory_user_bytes_per_connection = None;
        counters.memory_kernel_bytes_per_connection = None;
        // Threads and processes that end with their connection take most of their waiting time with them.
        if trial.architecture.ours().is_none_or(|architecture| architecture.model.has_worker_per_connection()) {
            counters.totals.run_delay_ns = None;
        }
    }
    counters
}

fn judge(trial: &Trial, observations: &Observations, counters: Option<&ServerCounters>, taken: Option<f64>) -> Verdict {
    let Some(report) = &observations.load else { return Verdict::failed("the client sent no report") };
    let stream = trial.workload.service.stream();
    let is_received = stream.is_some_and(|sizes| sizes.direction == Direction::In);
    let server = counters.map(|counters| ServerSide {
        counters,
        cpus: cpus_at_once(trial),
        late_ns: observations.late_ns(),
        taken,
        spins: is_spinning(trial),
        took_in: is_received.then(|| rates::server_bytes_per_s_by_part(Direction::In, &counters.moved)).flatten(),
    });
    let mut judgement = Judgement::new(report, server.as_ref());
    if let (Some(sizes), Some(stream), Some(last)) = (stream, &report.stream, &observations.last) {
        judgement.add_byte_counts(sizes, trial.workload.idle, stream, &last.totals);
    }
    if let Some(idle) = &observations.idle {
        judgement.add_idle(idle);
    }
    judgement.add_clients(report, trial.load.phases);
    if let (Some(asked), Some(network)) = (&trial.workload.network, &observations.network) {
        judgement.add_network(asked, network);
    }
    judgement.decide()
}

/// The number of CPUs that the trial's server can use at once.
fn cpus_at_once(trial: &Trial) -> usize {
    let cpus = match trial.serve.cpus().len() {
        // Without placement it may use all.
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // The number of threads of an external server is unknown.
    let threads = trial.architecture.ours().and_then(|architecture| architecture.threads_at_once());
    threads.map_or(cpus, |threads| cpus.min(threads as usize))
}

/// Whether the trial's server keeps its CPUs busy while it waits.
fn is_spinning(trial: &Trial) -> bool {
    let mechanism = trial.architecture.ours().and_then(|architecture| architecture.mechanism);
    mechanism.is_some_and(|mechanism| mechanism.spins != Spins::Nothing)
}
