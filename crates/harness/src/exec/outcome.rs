//! Makes the record of a finished trial from its observations.

use std::time::Instant;

use server::ServerCounters;
use server::spec::mechanism::Spins;
use wire::stream::Direction;

use super::marks::Observations;
use crate::judge::{Judgement, ServerSide};
use crate::record::{Trial, TrialRecord, Verdict, rates};

/// Makes a trial's record from its `outcome` and its observations, with a verdict.
pub(super) fn record(
    trial: &Trial,
    (started_at, started): (jiff::Timestamp, Instant),
    outcome: &anyhow::Result<()>,
    mut observations: Observations,
    are_clients_remote: bool,
) -> TrialRecord {
    let mut counters = observations.counters().map(|counters| without_meaningless(counters, trial));
    if let (Some(counters), Some(_)) = (counters.as_mut(), trial.client.slices) {
        counters.totals.run_delay_ns = observations.run_delay_ns(counters);
    }
    let (taken, interrupts_ns) = observations.cpu_beside_server(trial, are_clients_remote).unzip();
    if let Some(counters) = counters.as_mut() {
        counters.interrupts_ns = interrupts_ns.flatten();
    }
    if !are_clients_remote {
        observations.add_interrupts_to_client(&trial.client.cpus);
    }
    let monitor_share = observations.monitor_share();
    observations.load.iter_mut().for_each(|load| load.monitor_share = monitor_share);
    let verdict = match outcome {
        Ok(()) => judge(trial, &observations, counters.as_ref(), taken),
        Err(error) => Verdict::failed(format!("{error:#}")),
    };
    TrialRecord {
        trial: trial.clone(),
        started_at: started_at.to_string(),
        elapsed_ns: started.elapsed().as_nanos() as u64,
        separated: None,
        server: counters,
        warm_up: observations.warm_up,
        idle: observations.idle,
        network: observations.network,
        cpu_taken_by_others: taken,
        profile: None,
        profile_error: None,
        load: observations.load,
        verdict,
    }
    .readable()
}

/// Removes the counters that have no meaning for this trial's workload.
fn without_meaningless(mut counters: ServerCounters, trial: &Trial) -> ServerCounters {
    if trial.serve.target().is_some() || trial.workload.kv.is_some() {
        // A running process reuses the memory of earlier connections. With `kv` the memory includes the data set, which the clients
        // stored after connecting.
        counters.memory_user_bytes_per_connection = None;
    }
    if trial.workload.requests_per_connection().is_some() {
        // The number of connections varies.
        counters.memory_user_bytes_per_connection = None;
        counters.memory_kernel_bytes_per_connection = None;
        // The counter omits most of the waiting time of threads and processes that end with their connection.
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
    let mechanism = trial.architecture.ours().and_then(|architecture| architecture.mechanism);
    let server = counters.map(|counters| ServerSide {
        counters,
        cpus: cpus_at_once(trial),
        late_ns: observations.late_ns(),
        taken,
        spins: mechanism.is_some_and(|mechanism| mechanism.spins != Spins::Nothing),
        took_in: is_received.then(|| rates::server_bytes_per_s_by_part(Direction::In, &counters.moved)).flatten(),
    });
    let mut judgement = Judgement::new(report, server.as_ref());
    if let (Some(sizes), Some(stream), Some(last)) = (stream, &report.stream, &observations.last) {
        judgement.add_byte_counts(sizes, trial.workload.idle, stream, &last.totals);
    }
    if let Some(idle) = &observations.idle {
        judgement.add_idle(idle);
    }
    judgement.add_clients(report, trial.workload.phases);
    if trial.serve.ours().is_none() {
        judgement.add_warmth(report, observations.rivals_ns.as_ref());
    }
    if let (Some(network), Some(report)) = (&trial.workload.network, &observations.network) {
        judgement.add_network(network, report);
    }
    judgement.decide()
}

/// The number of CPUs that the trial's server can use at once.
pub(super) fn cpus_at_once(trial: &Trial) -> usize {
    let cpus = match trial.serve.cpus().len() {
        // Without placement the server may use all CPUs.
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // The number of threads of an external server is unknown.
    let threads = trial.architecture.ours().and_then(|architecture| architecture.threads_at_once());
    threads.map_or(cpus, |threads| cpus.min(threads as usize))
}
