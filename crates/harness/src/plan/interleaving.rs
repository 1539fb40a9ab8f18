//! The choice of trials that share a window: all architectures of a workload whose servers do not disturb each other while idle.

use std::collections::{BTreeMap, BTreeSet};

use load::config::{Schedule, Slices, Think};
use server::service::work::Times;
use server::spec::mechanism::Spins;

use super::limits::{ServerResources, bytes_per_connection};
use crate::host::Host;
use crate::record::{FleetFacts, Trial, clock_error_max_ns};
use crate::spec::Experiment;
use crate::spec::interleave::Interleave;
use crate::spec::network::Network;
use crate::spec::units::Time;

const MS: u64 = 1_000_000;
/// Slices are multiples of this length. The speed of a busy host changes within 10 ms, so a round must be short.
const SLICE_STEP_NS: u64 = 5 * MS / 2;
/// The number of requests in a slice of an open loop, unless the slice would be longer than [`SLICE_NS_MAX`].
const SLICE_REQUESTS: f64 = 5.0;
const SLICE_NS_MAX: u64 = 100 * MS;
/// The number of Poisson arrivals in a slice. Their queue begins empty, and settles within the guard if the server is busy for up to 0.6
/// of its time.
const SLICE_REQUESTS_POISSON: f64 = 50.0;
/// The fewest requests in the measured part of a slice. With fewer, constant intervals may put all of them into guards.
const MEASURED_REQUESTS_MIN: f64 = 2.0;
/// The part of a slice for each connection, for a scan of all.
const SLICE_NS_PER_CONNECTION: u64 = 5_000;
/// The CPU time of a request in a closed loop, in which the requests of all connections wait for each other.
const CLOSED_REQUEST_NS: u64 = 20_000;
/// The shortest slice of a closed loop. Its guard holds responses of 2 ms.
const CLOSED_SLICE_NS_MIN: u64 = 10 * MS;
/// A think time is a whole number of slices and this part, the golden ratio: so connections send at all times of their slices alike,
/// in guards and after them.
const THINK_PART: f64 = 0.618;
/// Slices of think times are multiples of this length.
const THINK_STEP_NS: u64 = 1_000;
/// The shortest slice of a distributed run. Its guard is four times the largest error of a worker's clock, 1 ms.
const SLICE_NS_FLEET: u64 = 20 * MS;
/// The gap after a slice, as a part of the slice. In a closed loop all connections wait for responses at the end of a slice, for up
/// to 4 ms with 100 processes on a slow host.
const GAP_SHARE: u64 = 20;
const CLOSED_GAP_SHARE: u64 = 2;
/// The longest round trip of a lab's network. Gaps and slices become as long, and slices of closed loops five times as long.
const ROUND_TRIP_NS_MAX: u64 = 20 * MS;
/// The part of a slice that is its guard.
const GUARD_SHARE: u64 = 5;
/// The number of periods in a guard from which a part of a period changes the counted requests by at most 1 %.
const GUARD_PERIODS_MIN: f64 = 25.0;
/// The part of a period that a guard with a whole number of periods may be too long or too short.
const PERIOD_ERROR_MAX: f64 = 1e-3;
/// The fewest slices of each contestant in a window. With fewer, rounding to whole slices changes the phases too much.
const SLICES_MIN: u64 = 10;
/// The fewest requests of each contestant in a window, unless the experiment sets the length of slices.
const REQUESTS_MIN: f64 = 200.0;
/// The reason of [`have_room`].
const NO_ROOM: &str = "this host has too little memory, too few processes or too few ports";
/// The most contestants of a heat. A round of more would be longer than the host's speed stays the same.
const CONTESTANTS_MAX: usize = 12;
/// The time of select(2) and poll(2) for each connection. With 2 000 connections a request takes 0.49 ms of CPU time.
const SCAN_NS_PER_CONNECTION: f64 = 250.0;
const SCAN_SHARE_MAX: f64 = 0.5;
/// The share of the available memory that all servers of a heat may need.
const MEMORY_SHARE: f64 = 0.5;

/// Assigns slices to the trials that can share a window. Appends the references of further groups. Returns sentences about the
/// choice.
pub(super) fn assign(trials: &mut Vec<Trial>, experiment: &Experiment, host: &Host) -> Result<Vec<String>, String> {
    if experiment.interleave == Interleave::Never {
        return Ok(Vec::new());
    }
    let mut separate: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut interleaved: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut groupings = BTreeSet::new();
    // The rivals of each repeat and workload.
    let mut contests: Vec<Vec<usize>> = Vec::new();
    for at in 0..trials.len() {
        let trial = &trials[at];
        if !trial.infeasible.is_empty() {
            continue;
        }
        if let Some(reason) = reason_to_separate(trial, experiment, host) {
            separate.entry(reason).or_default().push(trial.label());
            continue;
        }
        // The trials of a repeat follow each other.
        let is_of_repeat = |contest: &&mut Vec<usize>| trials[contest[0]].repeat == trial.repeat;
        let mut of_repeat = contests.iter_mut().rev().take_while(is_of_repeat);
        match of_repeat.find(|contest| trials[contest[0]].workload == trial.workload) {
            Some(contest) => contest.push(at),
            None => contests.push(vec![at]),
        }
    }
    let mut heat = 0;
    for mut contest in contests.into_iter().filter(|contest| contest.len() > 1) {
        let has_room = |group: &[usize]| have_room(group.iter().map(|&at| &trials[at]), host);
        let in_order = |at: &usize| {
            let (architecture, ours) = (&trials[*at].architecture, trials[*at].serve.ours());
            let accepts = experiment.server.accept.as_ref();
            let accept =
                ours.zip(accepts).and_then(|(ours, accepts)| accepts.0.iter().position(|it| *it == ours.accept));
            let polls = experiment.server.busy_polls();
            let poll = ours.and_then(|ours| polls.iter().position(|it| *it == ours.busy_poll));
            (experiment.architectures.0.iter().position(|it| it == architecture), accept, poll)
        };
        let reference = (0..contest.len()).min_by_key(|&at| (trials[contest[at]].is_placebo, in_order(&contest[at])));
        contest.swap(0, reference.expect("a contest has trials"));
        let Some(groups) = groups(&contest, |group| group.len() <= CONTESTANTS_MAX && has_room(group)) else {
            separate
                .entry(format!("{NO_ROOM} for two servers at once"))
                .or_default()
                .extend(contest.iter().map(|&at| trials[at].label()));
            continue;
        };
        if groups.len() > 1 {
            let reason = match has_room(&contest) {
                true => format!("a window has at most {CONTESTANTS_MAX} servers"),
                false => format!("{NO_ROOM} for more at once"),
            };
            let (servers, reference) = (contest.len(), trials[contest[0]].label());
            groupings.insert(format!(
                "{servers} servers form {} groups, because {reason}: {reference} runs in each group, and links the groups' figures",
                groups.len()
            ));
        }
        let slice_ns = slice_ns(&trials[contest[0]], experiment, host);
        for (number, mut group) in groups.into_iter().enumerate() {
            if number > 0 {
                let index = trials.len();
                trials.push(Trial { index: index as u32, is_reference: true, ..trials[group[0]].clone() });
                group[0] = index;
            }
            // The order of the plan is random.
            group.sort_unstable();
            for (contestant, &at) in (0..).zip(&group) {
                trials[at].client.slices = Some(Slices {
                    heat,
                    contestants: group.len() as u32,
                    contestant,
                    slice_ns,
                    gap_ns: gap_ns(&trials[at], slice_ns),
                    guard_ns: slice_ns / GUARD_SHARE,
                    seed: trials[at].client.seed,
                });
            }
            heat += 1;
            *interleaved.entry((group.len() as u64, slice_ns)).or_default() += 1;
        }
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
    Ok(together.chain(groupings).chain(alone).collect())
}

/// Divides a contest into the fewest groups that fit. Each group begins with the first trial of the contest; the other trials are in
/// one group each. Returns `None` if not even pairs fit.
fn groups(contest: &[usize], fits: impl Fn(&[usize]) -> bool) -> Option<Vec<Vec<usize>>> {
    let (reference, others) = contest.split_first()?;
    let group = |count: usize, number: usize| -> Vec<usize> {
        let part = others.len() * number / count..others.len() * (number + 1) / count;
        [reference].into_iter().chain(&others[part]).copied().collect()
    };
    let divided = |count: usize| (0..count).map(|number| group(count, number)).collect::<Vec<_>>();
    (1..=others.len()).map(divided).find(|groups| groups.iter().all(|group| fits(group)))
}

/// Returns why a trial cannot share its window.
fn reason_to_separate(trial: &Trial, experiment: &Experiment, host: &Host) -> Option<String> {
    let workload = &trial.workload;
    let slice_ns = slice_ns(trial, experiment, host);
    let mechanism = trial.architecture.ours().and_then(|architecture| architecture.mechanism);
    let reason = if mechanism.is_some_and(|mechanism| mechanism.spins != Spins::Nothing) {
        "the server uses its CPU even without load"
    } else if trial.serve.ours().and_then(|serve| serve.busy_poll?.suspend_ns).is_some() {
        "suspended interrupts would delay the packets to other servers"
    } else if let Some(reason) = workload.network.as_ref().and_then(network_problem) {
        reason
    } else if longest_wait_ns(trial).is_none_or(|wait_ns| wait_ns > ROUND_TRIP_NS_MAX) {
        "requests that wait in the server would be answered in the slices of other servers"
    } else if workload.service.stream().is_some() {
        "streams fill buffers, which empty in the next slice"
    } else if workload.requests_per_connection().is_some() {
        "connections would end in the slices of other servers"
    } else if workload.is_varied() && experiment.interleave != Interleave::Always {
        "requests that wait at a peak of the rate would be answered in the slices of other servers"
    } else if workload.request_timeout().is_some() {
        "retries and late responses would fall into the slices of other servers"
    } else if mechanism.is_some_and(|mechanism| mechanism.scans) && scan_share(trial) > SCAN_SHARE_MAX {
        "the rate is near the capacity of a server that scans all connections"
    } else if measured_requests(trial, slice_ns).is_some_and(|requests| requests < MEASURED_REQUESTS_MIN) {
        "a slice has too few requests"
    } else if has_uneven_guards(trial, slice_ns) {
        "constant intervals would put more or fewer requests than their share into guards"
    } else if experiment.slice.is_none() && has_few_requests(trial) {
        return Some(format!("the window has fewer than {REQUESTS_MIN} requests"));
    } else if workload.phases.measure_ns < SLICES_MIN * slice_ns {
        let slice = Time(slice_ns);
        return Some(format!("the window is shorter than {SLICES_MIN} slices of {slice}"));
    } else if let Some(fleet) = &host.fleet {
        return clock_problem(fleet, slice_ns / GUARD_SHARE);
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// Returns why a lab's network delays responses beyond the slices of their server.
fn network_problem(network: &Network) -> Option<&'static str> {
    if network.loss.is_some() {
        Some("lost packets are repeated in the slices of other servers")
    } else if network.bandwidth.is_some() {
        Some("packets that wait for the lab's bandwidth arrive in the slices of other servers")
    } else if round_trip_ns(network) > ROUND_TRIP_NS_MAX {
        Some("the gaps for the lab's round trips would be longer than the slices")
    } else {
        None
    }
}

fn round_trip_ns(network: &Network) -> u64 {
    2 * network.delay.0.saturating_add(network.jitter.0)
}

/// The longest wait of a connection in the server, with those of the requests of a pipeline; `None` without a limit.
fn longest_wait_ns(trial: &Trial) -> Option<u64> {
    let Some(times) = trial.workload.work.as_ref().and_then(|work| work.wait.as_ref()) else { return Some(0) };
    Some(times.longest_ns()?.saturating_mul(trial.workload.pipeline().into()))
}

/// The time in which a request is under way without CPU time: the round trip of a trial's lab, which is 0 over loopback, and the
/// longest wait in the server.
fn idle_ns(trial: &Trial) -> u64 {
    let round_trip_ns = trial.workload.network.as_ref().map_or(0, round_trip_ns);
    round_trip_ns.saturating_add(longest_wait_ns(trial).unwrap_or(0))
}

/// Returns why the clocks of workers are too inexact for slices with this guard.
fn clock_problem(fleet: &FleetFacts, guard_ns: u64) -> Option<String> {
    let max_ns = clock_error_max_ns(guard_ns);
    let Some(error_ns) = fleet.clock_error_ns else { return Some("the clocks of the workers are unknown".to_owned()) };
    let (error, max) = (Time(error_ns), Time(max_ns));
    (error_ns > max_ns).then(|| format!("the clocks of the workers are known to within {error}, and slices need {max}"))
}

/// The share of a CPU that the scans of all connections take, one for each request.
fn scan_share(trial: &Trial) -> f64 {
    let rate_per_s = trial.workload.peak_per_s().unwrap_or(0.0);
    rate_per_s * f64::from(trial.workload.connections_and_idle()) * SCAN_NS_PER_CONNECTION / 1e9
}

/// Whether an open loop sends too few requests in a window for figures that repeats compare.
fn has_few_requests(trial: &Trial) -> bool {
    let window_s = trial.workload.phases.measure_ns as f64 / 1e9;
    trial.workload.rate_per_s().is_some_and(|rate_per_s| rate_per_s * window_s < REQUESTS_MIN)
}

/// The number of requests in the measured part of a slice; `None` in a closed loop.
fn measured_requests(trial: &Trial, slice_ns: u64) -> Option<f64> {
    Some(trial.workload.rate_per_s()? * (slice_ns - slice_ns / GUARD_SHARE) as f64 / 1e9)
}

/// The length of a slice: some requests, and much longer than the service time, but short enough for the host's speed to stay the
/// same over a round.
fn slice_ns(trial: &Trial, experiment: &Experiment, host: &Host) -> u64 {
    if let Some(slice) = experiment.slice {
        return slice.0;
    }
    let connections = u64::from(trial.workload.connections);
    let shortest_ns = match trial.workload.rate_per_s() {
        None => CLOSED_SLICE_NS_MIN.max(GUARD_SHARE * response_ns(trial)),
        Some(rate_per_s) => {
            let is_poisson = trial.workload.schedule() == Some(Schedule::Poisson);
            let requests = if is_poisson { SLICE_REQUESTS_POISSON } else { SLICE_REQUESTS };
            let requests_ns = (requests / rate_per_s * 1e9) as u64;
            requests_ns.min(SLICE_NS_MAX).max(connections * SLICE_NS_PER_CONNECTION)
        }
    };
    let of_clocks_ns = if host.fleet.is_some() { SLICE_NS_FLEET } else { 0 };
    let shortest_ns = shortest_ns.max(idle_ns(trial)).max(of_clocks_ns);
    let periods_ns = period_ns(trial).map(|ns| (ns * GUARD_SHARE as f64) as u64);
    let step_ns = periods_ns.filter(|ns| (1..=SLICE_NS_MAX).contains(ns)).unwrap_or(SLICE_STEP_NS);
    let slice_ns = shortest_ns.max(SLICE_STEP_NS).div_ceil(step_ns) * step_ns;
    match trial.workload.think() {
        Think { mean_ns: think_ns @ 1.., exponential: false } => slice_of_think_ns(think_ns, slice_ns),
        _ => slice_ns,
    }
}

/// The expected response time of a closed loop: the CPU time of all connections on one CPU, sleeps and waits, and the lab's round
/// trip. A pipeline has the work of all its requests.
fn response_ns(trial: &Trial) -> u64 {
    let connections = u64::from(trial.workload.connections);
    let work_ns = trial.workload.work.as_ref().map_or(0.0, |work| {
        let mean_ns = |times: &Option<Times>| times.as_ref().map_or(0.0, Times::mean_ns);
        let cpu_ns = connections as f64 * (mean_ns(&work.cpu) + mean_ns(&work.busy));
        f64::from(trial.workload.pipeline()) * (cpu_ns + mean_ns(&work.sleep))
    });
    connections * CLOSED_REQUEST_NS + work_ns as u64 + idle_ns(trial)
}

/// The length of slices for constant think times, at least `shortest_ns`. A guard holds a whole short think time.
fn slice_of_think_ns(think_ns: u64, shortest_ns: u64) -> u64 {
    let slices = think_ns as f64 / shortest_ns as f64;
    let slice_ns = match slices < THINK_PART {
        true => shortest_ns.max(GUARD_SHARE * think_ns),
        false => (think_ns as f64 / ((slices - THINK_PART).floor() + THINK_PART)) as u64,
    };
    slice_ns.div_ceil(THINK_STEP_NS) * THINK_STEP_NS
}

/// The time after which the pattern of constant sends repeats; `None` for other schedules, and if the rate changes.
fn period_ns(trial: &Trial) -> Option<f64> {
    let requests = match trial.workload.schedule()? {
        Schedule::Constant => 1.0,
        Schedule::ConstantDrawn | Schedule::ConstantTogether => f64::from(trial.client.all_clients()),
        _ => return None,
    };
    if trial.workload.is_varied() {
        return None;
    }
    Some(requests / trial.workload.rate_per_s()? * 1e9)
}

/// Whether the guards of constant sends hold more or fewer than their share of the requests. Such sends have the same phase in each
/// slice, so a short guard must have a whole number of periods.
fn has_uneven_guards(trial: &Trial, slice_ns: u64) -> bool {
    period_ns(trial).is_some_and(|period_ns| {
        let periods = (slice_ns / GUARD_SHARE) as f64 / period_ns;
        periods < GUARD_PERIODS_MIN && (periods - periods.round().max(1.0)).abs() > PERIOD_ERROR_MAX
    })
}

/// The length of the gap after a slice: responses take the lab's round trip, and some time in the server.
fn gap_ns(trial: &Trial, slice_ns: u64) -> u64 {
    let share = if trial.workload.is_closed() { CLOSED_GAP_SHARE } else { GAP_SHARE };
    slice_ns / share + idle_ns(trial)
}

/// Whether all servers of a heat have room at the same time.
fn have_room<'a>(heat: impl Iterator<Item = &'a Trial>, host: &Host) -> bool {
    let (mut tasks, mut bytes, mut ports) = (0, 0.0, 0);
    for trial in heat {
        let needs = ServerResources::of(trial);
        tasks += needs.tasks;
        bytes += f64::from(trial.workload.connections_and_idle()) * bytes_per_connection(needs.per_connection) as f64;
        ports += u64::from(trial.workload.service.ports().unwrap_or(0));
    }
    tasks <= host.tasks_max.0 && bytes <= host.memory_bytes as f64 * MEMORY_SHARE && ports <= host.ports
}

#[cfg(test)]
mod tests;
