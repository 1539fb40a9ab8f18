//! Observations of a trial: counters at the edges of the window, and the reports of the processes.

use std::collections::{BTreeMap, BTreeSet};

use load::LoadResult;
use load::result::PARTS;
use load::tools::idle::IdleResult;
use server::{Moved, ServerCounters, Snapshot};

use crate::host::interrupts::{self, Accounting};
use crate::host::monitors;
use crate::host::ticks::{Reading, Shares};
use crate::record::network::NetworkRecord;
use crate::record::{Profile, Trial, WarmUp, requests_answered};

/// The counters of the server and of the CPUs at an edge of the window.
pub(super) struct Mark {
    pub(super) server: Snapshot,
    /// Read before the request, because a server of thousands of processes uses its CPUs for up to half a second to answer.
    pub(super) ticks_before: Reading,
    pub(super) ticks_after: Reading,
    pub(super) monitors: monitors::Reading,
}

/// The figures of a server over the turns of its heat.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TurnFigures {
    /// The CPU time in the turns of others as a share of the length of its own turns; `None` if unknown.
    pub(super) outside_share: Option<f64>,
    /// The time for which its threads waited for a CPU in each measured part, by round, in nanoseconds; empty if unknown.
    pub(super) waits_ns: BTreeMap<u64, u64>,
}

impl TurnFigures {
    /// Returns the waits in `rounds` rounds, in nanoseconds, by the mean of those that are not `left_out`; `None` if unknown.
    pub(super) fn waits_in(&self, left_out: &BTreeSet<u64>, rounds: u64) -> Option<f64> {
        let known = self.waits_ns.iter().filter(|(round, _)| !left_out.contains(round));
        let (count, sum) = known.fold((0_u64, 0), |(count, sum), (_, ns)| (count + 1, sum + ns));
        (count > 0).then(|| sum as f64 * rounds as f64 / count as f64)
    }
}

/// The observations of a trial; incomplete if the trial failed.
#[derive(Default)]
pub(super) struct Observations {
    /// The counters when the server was ready, before the first connection.
    pub(super) ready: Option<Snapshot>,
    /// The counters after an interleaved contestant's last connection, before the next contestant connects.
    pub(super) connected: Option<Snapshot>,
    /// The counters before and after an external server's first connections, which a warm-up makes. Later ones reuse their memory.
    pub(super) first_connections: Option<[Snapshot; 2]>,
    pub(super) warm_up: Option<WarmUp>,
    /// The median service times of the other contestants in each part of the window, in nanoseconds; 0 without responses.
    pub(super) rivals_ns: Option<[f64; PARTS]>,
    /// The number of trials in the heat.
    pub(super) contestants: u32,
    /// The CPU time of the other contestants' servers in the window, in nanoseconds.
    pub(super) rivals_cpu_ns: u64,
    pub(super) start: Option<Mark>,
    pub(super) end: Option<Mark>,
    /// The times by which `start` and `end` are due: CLOCK_MONOTONIC, in nanoseconds.
    pub(super) due_ns: [u64; 2],
    /// The bytes that a stream server had moved at the edges of the window's parts.
    pub(super) moved: Vec<Moved>,
    /// The time for which threads of a contestant's server waited for a CPU in the measured parts of its slices, in nanoseconds.
    pub(super) waits_ns: Option<f64>,
    /// The counters after the last burst of a stream.
    pub(super) last: Option<Snapshot>,
    pub(super) load: Option<LoadResult>,
    pub(super) idle: Option<IdleResult>,
    pub(super) network: Option<NetworkRecord>,
    /// The sampled stacks, without the CPU time per request.
    pub(super) profile: Option<Profile>,
}

impl Observations {
    /// The counters of the window. A contestant works only in its own slices, so its window is their length.
    pub(super) fn counters(&self) -> Option<ServerCounters> {
        let counters = self.of_whole_window()?;
        let window_ns = (counters.window_ns as f64 * self.active_share()) as u64;
        Some(ServerCounters { moved: self.moved.clone(), window_ns, ..counters })
    }

    fn of_whole_window(&self) -> Option<ServerCounters> {
        let (start, end) = (&self.start.as_ref()?.server, &self.end.as_ref()?.server);
        let counters = ServerCounters::between(self.ready.as_ref()?, self.connected.as_ref(), start, end);
        let Some([ready, connected]) = &self.first_connections else { return Some(counters) };
        let first = ServerCounters::between(ready, Some(connected), start, end);
        Some(ServerCounters { memory_user_bytes_per_connection: first.memory_user_bytes_per_connection, ..counters })
    }

    /// The share of the window in which the contestant was active.
    fn active_share(&self) -> f64 {
        let slices = self.load.as_ref().and_then(|load| load.slices.as_ref());
        slices.map_or(1.0 / self.contestants(), |slices| slices.active_share)
    }

    fn contestants(&self) -> f64 {
        f64::from(self.contestants.max(1))
    }

    /// The profile, with the CPU time per request in its window.
    pub(super) fn take_profile(&mut self) -> Option<Profile> {
        let (counters, load) = (self.counters()?, self.load.as_ref()?);
        let requests = requests_answered(&counters, load);
        let cpu_ns_per_request = (requests > 0.0).then(|| counters.cpu_ns() as f64 / requests);
        Some(Profile { cpu_ns_per_request, ..self.profile.take()? })
    }

    /// The longer delay of the two marks, in nanoseconds of the contestant's own slices, as its window.
    pub(super) fn late_ns(&self) -> u64 {
        let marks = [&self.start, &self.end].into_iter().zip(self.due_ns);
        let late = marks.filter_map(|(mark, due_ns)| Some(mark.as_ref()?.server.at_ns.saturating_sub(due_ns)));
        late.max().unwrap_or(0) / u64::from(self.contestants.max(1))
    }

    /// The time shares of `cpus` over the window, without the time in which the server collected its counters.
    fn shares(&self, cpus: &[usize]) -> Option<Shares> {
        self.start.as_ref()?.ticks_after.until(&self.end.as_ref()?.ticks_before, cpus)
    }

    /// The waits of a contestant's threads, as if all its requests between the two marks had waited as those of the measured parts did:
    /// the waits in guards, and in the turns of others, are not those of any service time.
    pub(super) fn run_delay_ns(&self, counters: &ServerCounters) -> Option<u64> {
        let load = self.load.as_ref().filter(|load| load.completed > 0)?;
        Some((self.waits_ns? / load.completed as f64 * requests_answered(counters, load)) as u64)
    }

    /// The share of the window in which the kernel's memory monitors ran; `None` if none is visible.
    pub(super) fn monitor_share(&self) -> Option<f64> {
        self.start.as_ref()?.monitors.share_until(&self.end.as_ref()?.monitors)
    }

    /// The share of the server's CPUs that other processes took, and the CPU time of interrupts that the server's own time does
    /// not include. `None` if unknown, or if the clients ran on these CPUs too.
    pub(super) fn cpu_beside_server(&self, trial: &Trial, are_clients_remote: bool) -> Option<(f64, Option<u64>)> {
        let counters = self.of_whole_window()?;
        let (cpus, client) = (trial.serve.cpus(), &trial.client.cpus);
        let are_shared = client.is_empty() || cpus.iter().any(|cpu| client.contains(cpu));
        if are_shared && !are_clients_remote {
            return None;
        }
        let (shares, accounting) = (self.shares(cpus)?, interrupts::accounting()?);
        let cpus_ns = counters.window_ns as f64 * cpus.len() as f64;
        let servers_ns = counters.totals.cpu_ns() + self.rivals_cpu_ns;
        let taken = shares.taken_by_others(servers_ns as f64 / cpus_ns, accounting);
        // Interrupts of all contestants' slices are alike.
        let interrupts_ns = (shares.charged_to_nobody(accounting) * cpus_ns / self.contestants()) as u64;
        Some((taken, (accounting == Accounting::Apart).then_some(interrupts_ns)))
    }

    /// Adds interrupts that are charged to no process to a closed loop's busy share. Otherwise clients would seem less busy.
    pub(super) fn add_interrupts_to_client(&mut self, cpus: &[usize]) {
        let accounting = interrupts::accounting();
        let share = accounting.and_then(|accounting| Some(self.shares(cpus)?.charged_to_nobody(accounting)));
        // Interrupts of all contestants' slices are alike.
        let share = share.map(|share| share / self.contestants() / self.active_share());
        let closed = self.load.as_mut().and_then(|load| load.closed.as_mut());
        if let (Some(interrupts), Some(closed)) = (share, closed) {
            let busy_share = closed.busy_share + interrupts * cpus.len() as f64 / f64::from(closed.cpus.max(1));
            closed.busy_share = busy_share.min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_outside_measured_parts_are_no_run_delay() {
        let load = LoadResult { completed: 200, ..LoadResult::default() };
        let observed = |waits_ns| Observations { load: Some(load.clone()), waits_ns, ..Observations::default() };
        // The server counted the requests of guards and of the warm-up too.
        let mut counters = ServerCounters::default();
        (counters.totals.requests, counters.totals.run_delay_ns) = (Some(500), Some(9_000_000));
        assert_eq!(observed(Some(1_000.0)).run_delay_ns(&counters), Some(2_500), "5 ns for each request");
        assert_eq!(observed(None).run_delay_ns(&counters), None);
        assert_eq!(Observations { waits_ns: Some(1.0), ..Observations::default() }.run_delay_ns(&counters), None);
    }

    #[test]
    fn waits_count_only_in_rounds_that_are_not_left_out() {
        let figures = TurnFigures { outside_share: None, waits_ns: [(7, 5), (9, 3)].into() };
        assert_eq!(figures.waits_in(&BTreeSet::new(), 10), Some(40.0), "5 and 3 ns");
        assert_eq!(figures.waits_in(&[7].into(), 10), Some(30.0));
        assert_eq!(figures.waits_in(&[7, 9].into(), 10), None);
    }
}
