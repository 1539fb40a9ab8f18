//! The choice of trials that share a window: all architectures of a workload whose servers do not disturb each other while idle.

use std::collections::BTreeMap;

use load::config::Slices;
use server::spec::mechanism::Spins;

use super::limits::{ServerResources, bytes_per_connection};
use crate::host::Host;
use crate::model::Trial;
use crate::spec::Experiment;
use crate::spec::interleave::Interleave;
use crate::spec::units::Time;

const MS: u64 = 1_000_000;
/// Slices are multiples of this length.
const SLICE_STEP_NS: u64 = 10 * MS;
/// The number of requests in a slice of an open loop, unless the slice would be longer than [`SLICE_NS_MAX`].
const SLICE_REQUESTS: f64 = 20.0;
const SLICE_NS_MAX: u64 = 100 * MS;
/// The part of a slice for each connection: for a scan of all connections, and in a closed loop for several turns of all.
const SLICE_NS_PER_CONNECTION: u64 = 5_000;
const SLICE_NS_PER_CLOSED_CONNECTION: u64 = 150_000;
/// The gap after a slice, as a part of the slice. In a closed loop all connections wait for responses at the end of a slice.
const GAP_SHARE: u64 = 20;
const CLOSED_GAP_SHARE: u64 = 4;
/// The part of a slice that is its guard.
const GUARD_SHARE: u64 = 5;
/// The fewest slices of each contestant in a window. With fewer, rounding to whole slices changes the phases too much.
const SLICES_MIN: u64 = 10;
/// The most contestants of a heat. A round of more would be longer than the host's speed stays the same.
const CONTESTANTS_MAX: usize = 12;
/// The time of select(2) and poll(2) for each connection. With 2 000 connections a request takes 0.49 ms of CPU time.
const SCAN_NS_PER_CONNECTION: f64 = 250.0;
const SCAN_SHARE_MAX: f64 = 0.5;
/// The share of the available memory that all servers of a heat may need.
const MEMORY_SHARE: f64 = 0.5;

/// Assigns slices to the trials that can share a window. Returns sentences about the choice.
pub(super) fn assign(trials: &mut [Trial], experiment: &Experiment, host: &Host) -> Result<Vec<String>, String> {
    if experiment.interleave == Interleave::Never {
        return Ok(Vec::new());
    }
    let mut separate: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut interleaved: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    // The trials of each heat, by repeat and workload.
    let mut heats: Vec<Vec<usize>> = Vec::new();
    for at in 0..trials.len() {
        let trial = &trials[at];
        if !trial.infeasible.is_empty() {
            continue;
        }
        if let Some(reason) = reason_to_separate(trial, experiment, host) {
            separate.entry(reason).or_default().push(trial.label());
            continue;
        }
        let is_same = |heat: &&mut Vec<usize>| {
            let first = &trials[heat[0]];
            heat.len() < CONTESTANTS_MAX && first.repeat == trial.repeat && first.workload == trial.workload
        };
        match heats.iter_mut().find(is_same) {
            Some(heat) => heat.push(at),
            None => heats.push(vec![at]),
        }
    }
    for (number, heat) in (0..).zip(&heats) {
        if heat.len() < 2 {
            continue;
        }
        if !have_room(heat.iter().map(|&at| &trials[at]), host) {
            let reason = "this host has too little memory, or too few processes, for all servers at once".to_owned();
            separate.entry(reason).or_default().extend(heat.iter().map(|&at| trials[at].label()));
            continue;
        }
        let slice_ns = slice_ns(&trials[heat[0]], experiment);
        for (contestant, &at) in (0..).zip(heat) {
            trials[at].load.slices = Some(Slices {
                heat: number,
                contestants: heat.len() as u32,
                contestant,
                slice_ns,
                gap_ns: slice_ns / if trials[at].workload.is_closed() { CLOSED_GAP_SHARE } else { GAP_SHARE },
                guard_ns: slice_ns / GUARD_SHARE,
                seed: trials[at].load.seed,
            });
        }
        *interleaved.entry((heat.len() as u64, slice_ns)).or_default() += 1;
    }
    if let (Interleave::Always, Some((reason, labels))) = (experiment.interleave, separate.first_key_value()) {
        return Err(format!("interleave: cannot interleave {}: {reason}; use `auto`", labels[0]));
    }
    let together = interleaved.into_iter().map(|((contestants, slice_ns), heats)| {
        let (slice, guard) = (Time(slice_ns), Time(slice_ns / GUARD_SHARE));
        let windows = if heats == 1 { "one window".to_owned() } else { format!("each of {heats} windows") };
        format!("{contestants} servers share {windows}, in turns of {slice} of which the first {guard} do not count")
    });
    let alone = separate.into_iter().map(|(reason, mut labels)| {
        labels.sort();
        labels.dedup();
        format!("separate: {}: {reason}", labels.join(", "))
    });
    Ok(together.chain(alone).collect())
}

/// Returns why a trial cannot share its window.
fn reason_to_separate(trial: &Trial, experiment: &Experiment, host: &Host) -> Option<String> {
    let (workload, load) = (&trial.workload, &trial.load);
    let mechanism = trial.architecture.ours().and_then(|architecture| architecture.mechanism);
    let reason = if mechanism.is_some_and(|mechanism| mechanism.spins != Spins::Nothing) {
        "the server uses its CPU even without load"
    } else if host.fleet.is_some() {
        "workers on other hosts have other clocks"
    } else if workload.network.is_some() {
        "a lab's network has one server at a time"
    } else if workload.service.stream().is_some() {
        "streams fill buffers, which empty in the next slice"
    } else if load.requests_per_connection.is_some() {
        "connections would end in the slices of other servers"
    } else if mechanism.is_some_and(|mechanism| mechanism.scans) && scan_share(trial) > SCAN_SHARE_MAX {
        "the rate is near the capacity of a server that scans all connections"
    } else if load.phases.measure_ns < SLICES_MIN * slice_ns(trial, experiment) {
        let slice = Time(slice_ns(trial, experiment));
        return Some(format!("the window is shorter than {SLICES_MIN} slices of {slice}"));
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// The share of a CPU that the scans of all connections take, one for each request.
fn scan_share(trial: &Trial) -> f64 {
    let rate_per_s = trial.workload.rate_per_s.unwrap_or(0.0);
    rate_per_s * f64::from(trial.load.connections_and_idle()) * SCAN_NS_PER_CONNECTION / 1e9
}

/// The length of a slice: some tens of requests, and much longer than the service time, but short enough for the host's speed to
/// stay the same over a round.
fn slice_ns(trial: &Trial, experiment: &Experiment) -> u64 {
    if let Some(slice) = experiment.slice {
        return slice.0;
    }
    let connections = u64::from(trial.workload.connections);
    let shortest_ns = match trial.workload.rate_per_s {
        None => connections * SLICE_NS_PER_CLOSED_CONNECTION,
        Some(rate_per_s) => {
            let requests_ns = (SLICE_REQUESTS / rate_per_s * 1e9) as u64;
            requests_ns.min(SLICE_NS_MAX).max(connections * SLICE_NS_PER_CONNECTION)
        }
    };
    shortest_ns.div_ceil(SLICE_STEP_NS).max(1) * SLICE_STEP_NS
}

/// Whether all servers of a heat have room at the same time.
fn have_room<'a>(heat: impl Iterator<Item = &'a Trial>, host: &Host) -> bool {
    let (mut tasks, mut bytes) = (0, 0.0);
    for trial in heat {
        let needs = ServerResources::of(trial);
        tasks += needs.tasks;
        bytes += f64::from(trial.load.connections_and_idle()) * bytes_per_connection(needs.per_connection) as f64;
    }
    tasks <= host.tasks_max.0 && bytes <= host.memory_bytes as f64 * MEMORY_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, plan};

    fn planned(changes: &str) -> Result<Plan, String> {
        planned_for("\"epoll\", \"mt\", \"spin\"", changes)
    }

    fn planned_for(architectures: &str, changes: &str) -> Result<Plan, String> {
        let text = format!(
            "name = \"x\"\narchitectures = [{architectures}]\nrepeats = 2\n{changes}\n\
             [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"1s\"\n"
        );
        plan(&Experiment::parse(&text, "x.toml").unwrap(), &Host::made_up())
    }

    const WORKLOAD: &str = "[workload]\nconnections = [10, 20]\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000";

    #[test]
    fn architectures_share_windows_except_spinning_ones() {
        let plan = planned(WORKLOAD).unwrap();
        for trial in &plan.trials {
            let is_spinning = trial.architecture.to_string() == "spin";
            assert_eq!(trial.load.slices.is_none(), is_spinning, "{}", trial.label());
            let Some(slices) = trial.load.slices else { continue };
            let rivals = plan.trials.iter().filter(|it| it.load.slices.is_some_and(|it| it.heat == slices.heat));
            let rivals: Vec<&Trial> = rivals.collect();
            assert_eq!((rivals.len(), slices.contestants), (2, 2));
            assert!(rivals.iter().all(|it| it.workload == trial.workload && it.repeat == trial.repeat));
            assert_eq!((slices.slice_ns, slices.guard_ns), (20 * MS, 4 * MS));
        }
        let expected = [
            "2 servers share each of 4 windows, in turns of 20ms of which the first 4ms do not count",
            "separate: spin: the server uses its CPU even without load",
        ];
        assert_eq!(plan.interleaving, expected);
    }

    #[test]
    fn choice_of_the_experiment_is_obeyed() {
        let never = planned(&format!("interleave = \"never\"\n{WORKLOAD}")).unwrap();
        assert!(never.interleaving.is_empty() && never.trials.iter().all(|trial| trial.load.slices.is_none()));
        let error = planned(&format!("interleave = \"always\"\n{WORKLOAD}")).unwrap_err();
        assert_eq!(error, "interleave: cannot interleave spin: the server uses its CPU even without load; use `auto`");
    }

    #[test]
    fn short_windows_and_short_lived_connections_are_separate() {
        let slow = planned(&WORKLOAD.replace("rate = 1000", "rate = 100")).unwrap();
        assert_eq!(
            slow.interleaving[0],
            "2 servers share each of 4 windows, in turns of 100ms of which the first 20ms do not count"
        );
        let closed = "[workload]\nconnections = 1000\nrequest = \"1B\"\nresponse = \"2B\"\nschedule = \"closed\"";
        assert!(planned(closed).unwrap().interleaving[1].ends_with("the window is shorter than 10 slices of 150ms"));
        let churn = format!("{WORKLOAD}\nrequests-per-connection = 1");
        let scans = WORKLOAD.replace("[10, 20]", "[2000]").replace("rate = 1000", "rate = 2000");
        let scans = planned_for("\"epoll\", \"mt\", \"poll\", \"select\"", &scans).unwrap().interleaving;
        assert!(scans[1].starts_with("separate: poll, select: the rate is near"), "{scans:?}");
        assert!(planned(&churn).unwrap().interleaving[0].starts_with("separate: epoll, mt: connections"));
    }
}
