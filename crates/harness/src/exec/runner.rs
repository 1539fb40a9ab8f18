//! Runs the heats of a plan one after the other, each with new processes. Commits the trials of a heat as it ends.

use std::time::Instant;

use anyhow::{Context, bail};
use netns::Testbed;
use process::stop::Stop;

use super::event::{RunEnd, RunEvent};
use super::heat::{Contestant, HeatRun};
use super::kept::KeptServers;
use super::launch::Launch;
use super::marks::Observations;
use super::{outcome, profiled};
use crate::clients::Fleet;
use crate::record::{RunHeader, Trial, TrialOutcome, TrialRecord, VerdictKind};
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
    let mut pruned = header.strategy.pruned(header, &outcomes);
    let mut kept = Kept::default();
    loop {
        let heat = strategy::first_heat(header.strategy.due(header, &outcomes));
        if heat.is_empty() {
            return Ok(RunEnd::Complete);
        }
        if options.stop.is_requested() {
            return Ok(RunEnd::Stopped);
        }
        let finished = run_heat((&heat, false), header, store, options, fleet, &mut kept, on_event);
        let committed = finished.and_then(|records| {
            let Some(records) = records else { return Ok(false) };
            for record in records {
                store.commit(&record)?;
                outcomes.push(TrialOutcome::new(&record, &header.strategy));
                on_event(RunEvent::Finished(&record));
            }
            Ok(true)
        });
        if committed.is_err() {
            // A failed commit leaves the drafts of the heat's later trials.
            remove_drafts(&heat, store);
        }
        if !committed? {
            return Ok(RunEnd::Stopped);
        }
        let pruned_before = std::mem::replace(&mut pruned, header.strategy.pruned(header, &outcomes));
        let is_new = |trial: &&Trial| pruned.contains(&trial.index) && !pruned_before.contains(&trial.index);
        header.trials.iter().filter(is_new).for_each(|trial| on_event(RunEvent::Pruned(trial)));
        if fleet.must_end_run() {
            return Ok(RunEnd::WorkerLost);
        }
    }
}

/// What heats leave to later ones.
#[derive(Default)]
struct Kept {
    /// Consecutive trials with the same network share a testbed, because removing one would disturb the next trial.
    testbed: Option<Testbed>,
    servers: KeptServers,
}

/// Runs the trials of a heat. Returns their records, which the caller commits; `None` if a stop aborted the heat.
///
/// If a contestant fails, only its record is returned: the others run again without it. If responses of a contestant arrive in
/// the slices of others, or its rate contradicts its response times, the heat is void. That contestant then runs on its own, and only
/// its record is returned. If the host caused this, all contestants run again, once; if it still takes the CPUs, the heat counts.
fn run_heat(
    (heat, is_repeat): (&[Trial], bool),
    header: &RunHeader,
    store: &Store,
    options: &Options<'_>,
    fleet: &mut dyn Fleet,
    kept: &mut Kept,
    on_event: &mut dyn FnMut(RunEvent<'_>),
) -> anyhow::Result<Option<Vec<TrialRecord>>> {
    let start = (jiff::Timestamp::now(), Instant::now());
    for trial in heat {
        check_cpus(trial, header)?;
    }
    heat.iter().for_each(|trial| on_event(RunEvent::Started(trial)));
    let samples = |trial: &Trial| store.samples_draft(trial.index);
    let mut observations = Observations::default();
    let prepared = prepare_testbed(&heat[0], options, fleet, &mut kept.testbed, &mut observations);
    let mut contestants: Vec<Contestant<'_>> =
        heat.iter().map(|trial| Contestant::new(trial, samples(trial), Observations::default())).collect();
    contestants[0].observations = observations;
    let mut outcomes = match prepared {
        Ok(()) => {
            let Options { launch, stop } = *options;
            let Kept { servers, testbed } = kept;
            let kept = header.strategy.is_search().then_some(servers);
            let testbed = testbed.as_ref();
            HeatRun { launch, stop, testbed, fleet, kept, is_profiled: false, on_event }.run(&mut contestants)
        }
        Err(error) => vec![Some(Err(error))],
    };
    let failed = outcomes.iter().flatten().find_map(|outcome| outcome.as_ref().err());
    if failed.is_some() && options.stop.is_aborted() {
        remove_drafts(heat, store);
        return Ok(None);
    }
    read_relay_counts(&mut kept.testbed, fleet, &mut contestants[0].observations);
    // All contestants of a heat share the network.
    let network = contestants[0].observations.network.clone();
    contestants.iter_mut().for_each(|contestant| contestant.observations.network.clone_from(&network));
    // These failures would affect all later trials.
    let unwritten = failed.and_then(|error| error.downcast_ref::<Unwritten>());
    let fatal = unwritten.map_or_else(
        || heat.iter().try_for_each(|trial| check_cpus(trial, header)),
        |error| Err(anyhow::anyhow!("{error}")),
    );
    fatal?;
    let remote = fleet.are_all_remote();
    let cpu_ns = |contestant: &Contestant<'_>| contestant.observations.counters().map_or(0, |it| it.totals.cpu_ns());
    let cpu_ns: Vec<u64> = contestants.iter().map(cpu_ns).collect();
    for (contestant, own_ns) in contestants.iter_mut().zip(&cpu_ns) {
        contestant.observations.rivals_cpu_ns = cpu_ns.iter().sum::<u64>() - own_ns;
    }
    if failed.is_none() && heat.len() > 1 {
        let reason = |it: &Contestant<'_>| strategy::reason_to_separate(header, it.slices()?);
        let alone = contestants.iter().filter_map(|it| Some((vec![it.trial.alone()], Some(reason(it)?))));
        let alone: Vec<Replacement> = alone.collect();
        let has_lost_cpus = contestants.iter().any(|it| it.lost_cpus(remote));
        let again = replacements((heat, is_repeat), alone, has_lost_cpus, header.strategy.is_search());
        if !again.is_empty() {
            remove_drafts(heat, store);
            drop(contestants);
            let void_ns = start.1.elapsed().as_nanos() as u64;
            let mut records = Vec::new();
            for (heat, reason) in again {
                let finished = run_heat((&heat, true), header, store, options, fleet, kept, on_event)?;
                let Some(finished) = finished else { break };
                let because = |it: TrialRecord| TrialRecord { separated: reason.clone().or(it.separated), ..it };
                records.extend(finished.into_iter().map(because));
            }
            if records.is_empty() {
                return Ok(None);
            }
            // Limits of the run's time count the void heat too.
            records[0].elapsed_ns += void_ns;
            return Ok(Some(records));
        }
    }
    let mut records: Vec<TrialRecord> = Vec::new();
    for (contestant, outcome) in contestants.into_iter().zip(&mut outcomes) {
        let Some(outcome) = outcome.take() else {
            let _ = std::fs::remove_file(contestant.samples);
            continue;
        };
        let record = outcome::record(contestant.trial, start, &outcome, contestant.observations, remote);
        if record.verdict.kind == VerdictKind::Failed {
            // The next probe gets a new server.
            kept.servers.end(&record.trial.serve);
        }
        records.push(record);
    }
    if header.is_profiled && records.iter().all(|record| record.verdict.kind != VerdictKind::Failed) {
        let means = (options.launch, options.stop, kept.testbed.as_ref());
        let profiles = profiled::run(heat, store, means, fleet, on_event);
        if options.stop.is_aborted() {
            remove_drafts(heat, store);
            return Ok(None);
        }
        for (record, profile) in records.iter_mut().zip(profiles) {
            (record.profile, record.profile_error) = (profile.as_ref().ok().cloned(), profile.err());
        }
        let elapsed_ns = start.1.elapsed().as_nanos() as u64;
        records.iter_mut().for_each(|record| record.elapsed_ns = elapsed_ns);
    }
    Ok(Some(records))
}

/// A heat that replaces a void one, and why it is separate.
type Replacement = (Vec<Trial>, Option<String>);

/// Returns the heats that replace a finished one; empty if it counts. `alone` are those of the contestants whose slices made it void.
fn replacements(
    (heat, is_repeat): (&[Trial], bool),
    alone: Vec<Replacement>,
    has_lost_cpus: bool,
    is_search: bool,
) -> Vec<Replacement> {
    // Probes of a search overrun together if all are near their capacity.
    let have_most_overrun = 2 * alone.len() > heat.len() && !is_search;
    match is_repeat {
        _ if alone.is_empty() => Vec::new(),
        false if have_most_overrun || has_lost_cpus => vec![(heat.to_vec(), None)],
        // Separate trials would lose the CPUs too, and their ratios would have no common heats.
        true if has_lost_cpus => Vec::new(),
        _ => alone,
    }
}

/// Removes the samples of uncommitted trials.
fn remove_drafts(heat: &[Trial], store: &Store) {
    heat.iter().for_each(|trial| drop(std::fs::remove_file(store.samples_draft(trial.index))));
}

/// Checks that the CPUs of a trial are available. Workers check the CPUs of their clients.
fn check_cpus(trial: &Trial, header: &RunHeader) -> anyhow::Result<()> {
    let clients: &[usize] = if header.is_distributed { &[] } else { &trial.client.cpus };
    let allowed = server::platform::cpus();
    let is_withheld = |cpu: &&usize| !allowed.is_empty() && !allowed.contains(cpu);
    match trial.serve.placed_cpus().iter().chain(clients).find(is_withheld) {
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
    let poll = trial.serve.ours().and_then(|serve| serve.busy_poll);
    ready.suspend(poll.and_then(|poll| poll.suspend_ns).unwrap_or(0)).context("the lab")?;
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
