//! CPU times of a heat's servers in their turns and between them. Work that a server starts in its slice and does later, such as a
//! garbage collection, is missing in its own figures, and its rivals pay for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use load::config::Slices;
use process::stop::POLL_INTERVAL;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use server::external::procfs_stats::{CpuClocks, Root};
use server::metrics::PriorityBoost;

use super::marks::TurnFigures;
use crate::clients::instant_of;
use crate::spec::ServerSpec;

/// The most processes of a server whose CPU times are read twice in each slice. A reading takes half a microsecond for each.
const PROCESSES_MAX: usize = 32;
/// The part of a guard after which the turn before is over, and the measured part begins: responses may arrive until the guard ends, and
/// the readings themselves must not disturb the measured part. With 400 threads of a server they take up to 80 us on a busy host.
const GUARD_PART: f64 = 0.8;

/// A server of the heat.
pub(super) struct Watched {
    clocks: CpuClocks,
    /// The number of CPUs that it can use at once.
    cpus: u64,
}

impl Watched {
    /// Finds the processes of a server. `pid` is the process that muxbench started for it. `None` if they are unknown or too many.
    pub(super) fn find(serve: &ServerSpec, pid: i32, cpus: usize) -> Option<Self> {
        Some(Self { clocks: CpuClocks::find(root_of(serve, pid)?, PROCESSES_MAX)?, cpus: cpus as u64 })
    }
}

/// Returns the root of a server's processes. `pid` is the process that muxbench started for it. `None` if it is unknown.
pub(super) fn root_of(serve: &ServerSpec, pid: i32) -> Option<Root> {
    Some(match serve {
        ServerSpec::Ours(_) => Root::Server(pid),
        ServerSpec::External(_) => Root::Supervisor(pid),
        ServerSpec::Target(target) => Root::Server(target.pid?),
    })
}

/// A thread that reads the servers' CPU times at the edges of slices.
pub(super) struct TurnWatch {
    thread: JoinHandle<Vec<TurnFigures>>,
    /// Without it, the thread ends.
    alive: Arc<()>,
}

impl TurnWatch {
    /// Starts the thread on `cpus`, which are the servers'. `slices` are those of any contestant, `window` is in nanoseconds after
    /// `start_ns`, and `servers` has an entry for each contestant.
    pub(super) fn start(
        mut servers: Vec<Option<Watched>>,
        slices: Slices,
        window: Range<u64>,
        start_ns: u64,
        cpus: &[usize],
    ) -> std::io::Result<Self> {
        // Two targets may be the same process.
        let clocks = |at: usize| servers[at].as_ref().map(|it| &it.clocks);
        let overlaps = |at: usize, other: usize| clocks(at).zip(clocks(other)).is_some_and(|(a, b)| a.overlap(b));
        let all = 0..servers.len();
        let shared: Vec<bool> =
            all.clone().map(|at| all.clone().any(|other| other != at && overlaps(at, other))).collect();
        servers.iter_mut().zip(shared).filter(|(_, is_shared)| *is_shared).for_each(|(it, _)| *it = None);
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        let has_cpus = !cpus.is_empty();
        let alive = Arc::new(());
        let is_alive = Arc::downgrade(&alive);
        let watch = move || {
            // A server that runs on another CPU has a stale clock.
            let _ = has_cpus.then(|| sched_setaffinity(None, &set));
            let _ = set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
            let _boost = PriorityBoost::start();
            let begin = instant_of(start_ns);
            let wait = |ns: u64| wait_until(begin + Duration::from_nanos(ns), &is_alive);
            watch(servers, slices, window, wait)
        };
        Ok(Self { thread: thread::Builder::new().name("turns".into()).spawn(watch)?, alive })
    }

    /// Returns the figures of each contestant.
    pub(super) fn end(self) -> Vec<TurnFigures> {
        let Self { thread, alive: _alive } = self;
        thread.join().unwrap_or_default()
    }
}

/// Sleeps until `at`. Returns by how much the sleep was too long; `None` if the heat ended meanwhile.
fn wait_until(at: Instant, is_alive: &Weak<()>) -> Option<u64> {
    // A wait for a message would first spin and yield, on the server's CPU.
    while let Some(left) = at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        thread::sleep(left.min(POLL_INTERVAL));
        if is_alive.strong_count() == 0 {
            return None;
        }
    }
    Some(at.elapsed().as_nanos() as u64)
}

/// Reads the servers' clocks where turns and measured parts begin and end. `wait` waits for a time in nanoseconds after the start of the
/// trial.
fn watch(
    mut servers: Vec<Option<Watched>>,
    slices: Slices,
    window: Range<u64>,
    wait: impl Fn(u64) -> Option<u64>,
) -> Vec<TurnFigures> {
    let mut accounts: Vec<Account> = servers.iter().map(|_| Account::default()).collect();
    let mut before: Option<usize> = None;
    let turn_ns = slices.slice_ns + slices.gap_ns;
    let rounds = window.start / slices.round_ns()..window.end / slices.round_ns();
    let turns = rounds.flat_map(|round| {
        let start_ns = round * slices.round_ns();
        (0..).zip(slices.order(round)).map(move |(place, it)| (round, start_ns + place * turn_ns, it as usize))
    });
    for (round, start_ns, contestant) in turns {
        // The last of a round may be the first of the next one. Its turn goes on.
        let is_new = before != Some(contestant);
        if is_new {
            let Some(late_ns) = wait(start_ns) else { break };
            if let Some(server) = &mut servers[contestant] {
                accounts[contestant].begin(server.clocks.read_ns(), late_ns * server.cpus);
            }
        }
        let Some(_) = wait(start_ns + (GUARD_PART * slices.guard_ns as f64) as u64) else { break };
        if let Some((server, before)) = before.and_then(|before| Some((servers[before].as_mut()?, before))) {
            if is_new {
                accounts[before].end(server.clocks.read_ns());
            }
            accounts[before].end_measured(server.clocks.read_waits_ns());
        }
        if let Some(server) = &mut servers[contestant] {
            accounts[contestant].measured = server.clocks.read_waits_ns().map(|ns| (round, ns));
        }
        before = Some(contestant);
    }
    let figures = |it: Account| TurnFigures { outside_share: it.share(slices.slice_ns), waits_ns: it.waits_ns };
    accounts.into_iter().map(figures).collect()
}

/// The CPU time of a server between its turns, and the waits of its threads in them.
#[derive(Default)]
struct Account {
    /// The server's CPU time at the end of its last turn.
    ended_ns: Option<u64>,
    outside_ns: u64,
    /// The number of times between two turns.
    pauses: u64,
    /// The round of the current measured part, and the waits before it.
    measured: Option<(u64, u64)>,
    waits_ns: BTreeMap<u64, u64>,
}

impl Account {
    /// A turn begins. The server may have worked in it for `own_ns`, because the reading was late.
    fn begin(&mut self, cpu_ns: u64, own_ns: u64) {
        let Some(ended_ns) = self.ended_ns.take() else { return };
        self.outside_ns += cpu_ns.saturating_sub(ended_ns + own_ns);
        self.pauses += 1;
    }

    fn end(&mut self, cpu_ns: u64) {
        self.ended_ns = Some(cpu_ns);
    }

    fn end_measured(&mut self, waited_ns: Option<u64>) {
        if let Some(((round, before_ns), waited_ns)) = self.measured.take().zip(waited_ns) {
            self.waits_ns.insert(round, waited_ns.saturating_sub(before_ns));
        }
    }

    fn share(&self, slice_ns: u64) -> Option<f64> {
        (self.pauses > 0).then(|| self.outside_ns as f64 / (self.pauses * slice_ns) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_between_turns_counts() {
        let mut account = Account::default();
        account.begin(5_000, 0);
        assert_eq!(account.share(100), None, "the work before the first turn");
        for (end_ns, begin_ns, late_ns) in [(6_000, 6_010, 0), (7_000, 7_030, 30), (7_500, 7_500, 40)] {
            account.end(end_ns);
            account.begin(begin_ns, late_ns);
        }
        assert_eq!(account.share(100), Some(10.0 / 300.0), "a late reading counts nothing of the turn");
    }

    #[test]
    fn waits_count_only_in_measured_parts() {
        let mut account = Account::default();
        account.end_measured(Some(3));
        for (round, waits_ns) in [(7, [Some(10), Some(15)]), (8, [Some(90), None]), (9, [Some(100), Some(103)])] {
            account.measured = waits_ns[0].map(|ns| (round, ns));
            account.end_measured(waits_ns[1]);
        }
        assert_eq!(account.waits_ns, [(7, 5), (9, 3)].into());
    }

    /// A process that works for as long as the test runs, on any CPU.
    struct Worker(std::process::Child);

    impl Worker {
        fn start(script: &str) -> Self {
            let mut command = std::process::Command::new("sh");
            Self(command.args(["-c", script]).spawn().unwrap())
        }

        fn watched(&self) -> Option<Watched> {
            let clocks = CpuClocks::find(Root::Server(self.0.id() as i32), PROCESSES_MAX)?;
            Some(Watched { clocks, cpus: 1 })
        }
    }

    impl Drop for Worker {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn server_that_works_in_the_turns_of_others_is_found() {
        let workers = [Worker::start("while :; do :; done"), Worker::start("exec sleep 1000")];
        let (slice_ns, gap_ns, guard_ns) = (20_000_000, 0, 4_000_000);
        let slices = Slices { heat: 0, contestants: 2, contestant: 0, slice_ns, gap_ns, guard_ns, seed: 1 };
        let watched = || workers.iter().map(Worker::watched).collect();
        let start = |servers| {
            TurnWatch::start(servers, slices, 0..50 * slices.round_ns(), load::time::clock::monotonic_ns(), &[])
                .unwrap()
        };
        let figures = start(watched()).end();
        let shares = [0, 1].map(|at: usize| figures[at].outside_share);
        // Other programs may use the CPUs too.
        assert!(
            shares[0].is_some_and(|share| share > 0.05) && shares[1].is_some_and(|share| share < 0.01),
            "{shares:?}"
        );
        assert!(figures.iter().all(|it| it.waits_ns.is_empty() || it.waits_ns.len() >= 49), "{figures:?}");
        let twice = vec![workers[0].watched(), workers[0].watched()];
        let watch = start(twice);
        drop(watch.alive);
        assert_eq!(
            watch.thread.join().unwrap(),
            [TurnFigures::default(), TurnFigures::default()],
            "two rows of one process, and a heat that ends early"
        );
    }
}
