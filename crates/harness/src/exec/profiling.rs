//! Samples the stacks of a heat's servers, each in the measured parts of its own slices.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use load::config::Slices;
use profile::Calls;
use profile::sampling::{Event, Sampler};
use profile::symbols::Symbols;
use server::external::procfs_stats::{Root, parent_of};

use crate::record::Profile;
use crate::spec::units::Cpus;

/// The time between readings of the samples, which fill their memory in 2 s.
const READ_INTERVAL: Duration = Duration::from_millis(200);

/// Which contestant's measured part a time belongs to.
pub(super) struct Turns {
    slices: Option<Slices>,
    /// In nanoseconds after the start.
    window: Range<u64>,
    start_ns: u64,
    /// The latest round, with the contestants in their order.
    round: (u64, Vec<u32>),
}

impl Turns {
    pub(super) fn new(slices: Option<Slices>, window: Range<u64>, start_ns: u64) -> Self {
        Self { slices, window, start_ns, round: (u64::MAX, Vec::new()) }
    }

    /// Returns the contestant in whose measured part this time of CLOCK_MONOTONIC is. `None` in guards, in gaps, and outside the window.
    fn contestant_at(&mut self, at_ns: u64) -> Option<usize> {
        let at_ns = at_ns.checked_sub(self.start_ns).filter(|at_ns| self.window.contains(at_ns))?;
        let Some(slices) = &self.slices else { return Some(0) };
        let (round, in_round_ns) = (at_ns / slices.round_ns(), at_ns % slices.round_ns());
        if self.round.0 != round {
            self.round = (round, slices.order(round));
        }
        let turn_ns = slices.slice_ns + slices.gap_ns;
        let is_measured = (slices.guard_ns..slices.slice_ns).contains(&(in_round_ns % turn_ns));
        is_measured.then(|| self.round.1[(in_round_ns / turn_ns) as usize] as usize)
    }
}

/// The processes of the contestants' servers.
struct Owners {
    roots: Vec<Option<Root>>,
    known: HashMap<u32, Option<usize>>,
}

impl Owners {
    /// Returns the contestant to whose server a process belongs.
    fn of(&mut self, pid: u32) -> Option<usize> {
        if let Some(owner) = self.known.get(&pid) {
            return *owner;
        }
        let is_root = |root: &Option<Root>| matches!(root, Some(Root::Server(root)) if *root == pid as i32);
        let owner = self.roots.iter().position(is_root).or_else(|| {
            let parent = parent_of(pid as i32).filter(|parent| *parent > 1)?;
            self.of_child(parent as u32)
        });
        self.known.insert(pid, owner);
        owner
    }

    /// Returns the contestant to whose server the children of a process belong.
    fn of_child(&mut self, parent: u32) -> Option<usize> {
        let is_supervisor =
            |root: &Option<Root>| matches!(root, Some(Root::Supervisor(root)) if *root == parent as i32);
        self.roots.iter().position(is_supervisor).or_else(|| self.of(parent))
    }
}

/// What was sampled for a contestant.
#[derive(Clone, Default)]
struct Account {
    /// The samples by process and addresses.
    chains: HashMap<(u32, Vec<u64>), u32>,
    idle: u32,
    others: u32,
}

/// A thread that reads samples.
pub(super) struct Profiling {
    roots: Vec<Option<Root>>,
    thread: JoinHandle<(Vec<Account>, u64)>,
    /// Without it, the thread ends.
    alive: Arc<()>,
}

impl Profiling {
    /// Starts to sample `cpus`, or all if there are none. `roots` has an entry for each contestant.
    pub(super) fn start(roots: Vec<Option<Root>>, turns: Turns, cpus: Vec<usize>) -> Result<Self, String> {
        let cpus = if cpus.is_empty() { online()? } else { cpus };
        let sampler = Sampler::start(&cpus)?;
        let alive = Arc::new(());
        let is_alive = Arc::downgrade(&alive);
        let owners = Owners { roots: roots.clone(), known: HashMap::new() };
        let read = move || {
            let (mut reader, mut sampler) = (Reader::new(owners, turns), sampler);
            while is_alive.strong_count() > 0 {
                thread::sleep(READ_INTERVAL);
                sampler.read(&mut |event| reader.add(&event));
            }
            (reader.accounts, reader.lost)
        };
        let thread = thread::Builder::new().name("profile".into()).spawn(read).map_err(|error| error.to_string())?;
        Ok(Self { roots, thread, alive })
    }

    /// Returns the profile of each contestant. Its processes must still exist.
    pub(super) fn end(self) -> Vec<Profile> {
        let Self { roots, thread, alive } = self;
        drop(alive);
        let (accounts, lost) = thread.join().unwrap_or_default();
        let mut symbols = Symbols::new();
        let profile = |(account, root): (Account, Option<Root>)| {
            let root = root.map_or(0, |(Root::Server(pid) | Root::Supervisor(pid))| pid);
            let stacks = Calls::of(symbols.stacks(root as u32, &account.chains));
            Profile { stacks, idle: account.idle, others: account.others, lost, cpu_ns_per_request: None }
        };
        accounts.into_iter().zip(roots).map(profile).collect()
    }
}

/// Assigns samples to contestants.
struct Reader {
    owners: Owners,
    turns: Turns,
    accounts: Vec<Account>,
    lost: u64,
}

impl Reader {
    fn new(owners: Owners, turns: Turns) -> Self {
        Self { accounts: vec![Account::default(); owners.roots.len()], lost: 0, owners, turns }
    }

    fn add(&mut self, event: &Event<'_>) {
        match *event {
            Event::Sample { at_ns, pid, chain } => {
                let Some(contestant) = self.turns.contestant_at(at_ns) else { return };
                let owner = if pid == 0 { None } else { self.owners.of(pid) };
                let account = &mut self.accounts[contestant];
                match owner {
                    _ if pid == 0 => account.idle += 1,
                    // Contestants may share a server that was not started for them.
                    Some(owner) if self.owners.roots[owner] == self.owners.roots[contestant] => {
                        *account.chains.entry((pid, chain.to_vec())).or_default() += 1;
                    }
                    _ => account.others += 1,
                }
            }
            Event::Fork { parent, child } => {
                let owner = self.owners.of_child(parent);
                self.owners.known.insert(child, owner);
            }
            Event::Lost(count) => self.lost += count,
        }
    }
}

/// Returns the CPUs that are on-line.
fn online() -> Result<Vec<usize>, String> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into());
    text.trim().parse::<Cpus>().map(|cpus| cpus.0).map_err(|error| format!("/sys/devices/system/cpu/online: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_measured_parts_of_the_window_belong_to_contestants() {
        let (slice_ns, gap_ns, guard_ns) = (100, 20, 30);
        let slices = Slices { heat: 0, contestants: 2, contestant: 0, slice_ns, gap_ns, guard_ns, seed: 3 };
        let mut turns = Turns::new(Some(slices), 240..720, 1_000);
        for round in 1..3 {
            let begin_ns = 1_000 + round * 240;
            for (place, contestant) in (0..).zip(slices.order(round)) {
                let at = |ns: u64| begin_ns + place * 120 + ns;
                let found = [0, 29, 30, 99, 100, 119].map(|ns| turns.contestant_at(at(ns)));
                let own = Some(contestant as usize);
                assert_eq!(found, [None, None, own, own, None, None], "round {round}");
            }
        }
        assert_eq!([999, 1_239, 1_720].map(|ns| turns.contestant_at(ns)), [None; 3], "outside the window");
        assert_eq!(Turns::new(None, 0..9, 0).contestant_at(8), Some(0));
    }

    #[test]
    fn contestants_with_the_same_server_have_their_own_turns_of_it() {
        let own = std::process::id();
        let slices = Slices { heat: 0, contestants: 2, contestant: 0, slice_ns: 100, gap_ns: 0, guard_ns: 0, seed: 3 };
        let owners = Owners { roots: vec![Some(Root::Server(own as i32)); 2], known: HashMap::new() };
        let mut reader = Reader::new(owners, Turns::new(Some(slices), 0..200, 0));
        [50, 150].into_iter().for_each(|at_ns| reader.add(&Event::Sample { at_ns, pid: own, chain: &[1] }));
        let found: Vec<_> = reader.accounts.iter().map(|it| (it.chains.len(), it.others)).collect();
        assert_eq!(found, [(1, 0); 2]);
    }

    #[test]
    fn processes_belong_to_the_server_that_forked_them() {
        let own = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let owners = |root| Owners { roots: vec![None, Some(root)], known: HashMap::new() };
        for (root, own_owner) in [(Root::Server(own as i32), Some(1)), (Root::Supervisor(own as i32), None)] {
            let turns = Turns::new(None, 0..u64::MAX, 0);
            let mut reader = Reader::new(owners(root), turns);
            assert_eq!([child.id(), own, 1].map(|pid| reader.owners.of(pid)), [Some(1), own_owner, None]);
            reader.add(&Event::Fork { parent: child.id(), child: u32::MAX });
            assert_eq!(reader.owners.of(u32::MAX), Some(1), "a process that has ended");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
