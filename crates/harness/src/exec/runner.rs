//! Runs the trials of a plan one after the other, each with new processes. Commits each trial as it ends.

use std::time::Instant;

use anyhow::{Context, bail};

use super::event::{RunEnd, RunEvent};
use super::launch::Launch;
use super::marks::Observations;
use super::outcome;
use super::trial::TrialRun;
use crate::fleet::Fleet;
use crate::host::placement;
use crate::model::{RunHeader, Trial, TrialOutcome, TrialRecord};
use crate::netns::Testbed;
use crate::process::stop::Stop;
use crate::samples::Unwritten;
use crate::store::Store;
use crate::strategy;

/// The means to start processes and to stop a run.
pub struct Options<'a> {
    /// Starts the processes of each trial.
    pub launch: &'a dyn Launch,
    /// Requests to stop. The run keeps finished trials.
    pub stop: &'a Stop,
}

/// Runs the feasible trials of `header` that are not in `done`, in the strategy's order. Commits failed trials too. The run
/// fails if a trial's results cannot be stored or one of its CPUs is no longer available. A resumed run repeats this trial.
pub fn run(
    header: &RunHeader,
    done: &[TrialRecord],
    store: &Store,
    options: &Options<'_>,
    fleet: &mut dyn Fleet,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> anyhow::Result<RunEnd> {
    let mut outcomes: Vec<TrialOutcome> =
        done.iter().map(|record| TrialOutcome::new(record, &header.strategy)).collect();
    let mut pruned = strategy::pruned(header, &outcomes);
    // Consecutive trials with the same network share a testbed, because removing one would disturb the next trial.
    let mut testbed = None;
    while let Some(trial) = strategy::next(header, &outcomes) {
        if options.stop.is_requested() {
            return Ok(RunEnd::Stopped);
        }
        check_cpus(&trial, header)?;
        on_event(RunEvent::Started(&trial));
        let Some(record) = run_trial(&trial, header, store, options, fleet, &mut testbed, on_event)? else {
            return Ok(RunEnd::Stopped);
        };
        store.commit(&record)?;
        outcomes.push(TrialOutcome::new(&record, &header.strategy));
        on_event(RunEvent::Finished(&record));
        let pruned_before = std::mem::replace(&mut pruned, strategy::pruned(header, &outcomes));
        let is_new = |trial: &&Trial| pruned.contains(&trial.index) && !pruned_before.contains(&trial.index);
        header.trials.iter().filter(is_new).for_each(|trial| on_event(RunEvent::Pruned(trial)));
        if fleet.must_end_run() {
            return Ok(RunEnd::WorkerLost);
        }
    }
    Ok(RunEnd::Complete)
}

/// Runs one trial; returns `None` if a stop aborted it. The caller commits the record.
fn run_trial(
    trial: &Trial,
    header: &RunHeader,
    store: &Store,
    options: &Options<'_>,
    fleet: &mut dyn Fleet,
    testbed: &mut Option<Testbed>,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> anyhow::Result<Option<TrialRecord>> {
    let start = (jiff::Timestamp::now(), Instant::now());
    let samples = store.samples_draft(trial.index);
    let mut observations = Observations::default();
    let outcome = prepare_testbed(trial, options, fleet, testbed, &mut observations).and_then(|()| {
        let Options { launch, stop } = *options;
        let (testbed, observations) = (testbed.as_ref(), &mut observations);
        TrialRun { trial, samples: &samples, launch, stop, testbed, fleet, observations, on_event }.run()
    });
    if outcome.is_err() && options.stop.is_aborted() {
        let _ = std::fs::remove_file(&samples);
        return Ok(None);
    }
    read_relay_counts(testbed, fleet, &mut observations);
    // These failures would affect all later trials.
    let unwritten = outcome.as_ref().err().and_then(|error| error.downcast_ref::<Unwritten>());
    let fatal = unwritten.map_or_else(|| check_cpus(trial, header), |error| Err(anyhow::anyhow!("{error}")));
    if fatal.is_err() {
        let _ = std::fs::remove_file(&samples);
        fatal?;
    }
    Ok(Some(outcome::record(trial, start, &outcome, observations, fleet.are_all_remote())))
}

/// Checks that the CPUs of a trial are available. Workers check the CPUs of their clients.
fn check_cpus(trial: &Trial, header: &RunHeader) -> anyhow::Result<()> {
    let clients: &[usize] = if header.is_distributed { &[] } else { &trial.load.cpus };
    match placement::first_unavailable(trial.serve.cpus().iter().chain(clients)) {
        None => Ok(()),
        Some(cpu) => bail!(
            "cannot run trial {}: its CPU {cpu} is off-line, or taskset or a cgroup withholds it; make it available again, \
             or begin another run",
            trial.index
        ),
    }
}

/// Starts the testbed of a trial, unless it exists, and measures its network.
fn prepare_testbed(
    trial: &Trial,
    options: &Options<'_>,
    fleet: &dyn Fleet,
    testbed: &mut Option<Testbed>,
    observations: &mut Observations,
) -> anyhow::Result<()> {
    let Some(network) = &trial.workload.network else {
        *testbed = None;
        return Ok(());
    };
    if let Some(surrounding) = fleet.surrounding() {
        if surrounding.network != *network {
            bail!("the workers' lab has another network than the trial: {}, not {network}", surrounding.network);
        }
        observations.network = Some(surrounding.measure(options.stop).context("the lab")?);
        return Ok(());
    }
    // A testbed whose measurement fails is dropped.
    let mut ready = match testbed.take().filter(|testbed| testbed.network() == network) {
        Some(testbed) => testbed,
        None => options.launch.testbed(network, trial, options.stop).context("the lab")?,
    };
    observations.network = Some(ready.measure(options.stop).context("the lab")?);
    *testbed = Some(ready);
    Ok(())
}

/// Adds the relay's counts since the network was measured. Drops a testbed whose relay has failed.
fn read_relay_counts(testbed: &mut Option<Testbed>, fleet: &dyn Fleet, observations: &mut Observations) {
    let Some(report) = &mut observations.network else { return };
    if let Some(surrounding) = fleet.surrounding() {
        report.relay = surrounding.relay_counts().ok().flatten();
        return;
    }
    match testbed.as_mut().map(Testbed::relay_counts).transpose() {
        Ok(counts) => report.relay = counts.flatten(),
        Err(_) => *testbed = None,
    }
}

#[cfg(test)]
mod tests;
