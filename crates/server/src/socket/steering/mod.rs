//! The choice of a network thread for each new connection, by a program in the kernel.

mod assembler;
mod bpf;
mod programs;
mod state;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;

use self::state::{LostConnections, Row, Table};
use crate::metrics::workers::Counters;
use crate::platform::monotonic_ns;
use crate::spec::accept::Accept;

/// The longest wait of a worker with [`Accept::Hermes`], as in the paper. Otherwise no worker would notice that another one hangs.
const WAIT_MAX: Duration = Duration::from_millis(5);
/// The most CPU time of the end of a turn. A longer time belongs to a thread that interrupted this one.
const TURN_END_NS_MAX: u64 = 5_000;

/// The state of all network threads that accept, which steers new connections.
#[derive(Debug)]
pub(crate) struct Steering {
    table: Table,
    accept: Accept,
    /// The time of a reading of the clock, in nanoseconds.
    clock_ns: u64,
}

/// The kernel's measurement of the time that it spends in a program.
#[derive(Debug)]
pub(crate) struct ProgramTime {
    program: OwnedFd,
    _measuring: OwnedFd,
}

impl ProgramTime {
    /// The time so far, in nanoseconds.
    pub(crate) fn read_ns(&self) -> Option<u64> {
        bpf::run_time_ns(&self.program).ok()
    }
}

impl Steering {
    /// Makes the kernel choose among `listeners` as `accept` says. Sets `time` if the process may measure the program's time. Returns
    /// `None` for strategies without state.
    pub(crate) fn start(
        accept: Accept,
        listeners: &[OwnedFd],
        time: &OnceLock<ProgramTime>,
    ) -> io::Result<Option<Self>> {
        let Some(first) = listeners.first() else { return Ok(None) };
        match accept {
            Accept::Single | Accept::Shared | Accept::Exclusive | Accept::Reuseport => return Ok(None),
            Accept::ReuseportCpu => {
                bpf::attach_classic(first, &mut programs::by_cpu(listeners.len()))?;
                return Ok(None);
            }
            Accept::IncomingCpu => {
                let mut numbered = listeners.iter().enumerate();
                numbered.try_for_each(|(cpu, listener)| bpf::set_incoming_cpu(listener, cpu))?;
                return Ok(None);
            }
            Accept::ReuseportLeast | Accept::Hermes => {}
        }
        let table = Table::new(listeners.len())?;
        let map = bpf::map_listeners(listeners)?;
        // The program keeps the maps, and the listeners keep the program.
        let program = load(accept, &table, &map, listeners.len())?;
        bpf::attach(first, &program)?;
        if let Ok(measuring) = bpf::measure_programs() {
            let _ = time.set(ProgramTime { program, _measuring: measuring });
        }
        Ok(Some(Self { table, accept, clock_ns: clock_ns() }))
    }

    /// The part of the worker with this number.
    pub(crate) fn worker(&self, number: usize) -> WorkerState<'_> {
        WorkerState { steering: self, row: &self.table.rows()[number], lost: LostConnections::default() }
    }
}

fn load(accept: Accept, table: &Table, listeners: &OwnedFd, workers: usize) -> io::Result<OwnedFd> {
    let (state, listeners) = (table.map(), listeners.as_raw_fd());
    bpf::load(&match accept {
        Accept::Hermes => programs::hermes(state, listeners),
        _ => programs::least(state, listeners, workers),
    })
}

/// Checks whether this process may load the program of `accept` for this number of workers.
pub(crate) fn can_load(accept: Accept, workers: usize) -> Result<(), String> {
    let loaded = || load(accept, &Table::new(workers)?, &bpf::empty_listener_map(workers)?, workers);
    let Err(error) = loaded() else { return Ok(()) };
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => "run as root, or with CAP_BPF",
        Some(Errno::NOSYS | Errno::INVAL) => "take Linux 5.12 or newer, built with CONFIG_BPF_SYSCALL",
        _ => "raise the limits of memory and descriptors",
    };
    Err(format!(
        "the kernel refused the BPF program of the accept strategy `{accept}` ({error}); {remedy}, or choose reuseport"
    ))
}

/// The state of a worker, which its loop reports.
#[derive(Debug)]
pub(crate) struct WorkerState<'a> {
    steering: &'a Steering,
    row: &'a Row,
    lost: LostConnections,
}

impl WorkerState<'_> {
    /// The longest wait; `None` for any.
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        (self.steering.accept == Accept::Hermes).then_some(WAIT_MAX)
    }

    /// Begins a turn after a wait that reported `events`.
    #[inline]
    pub(crate) fn begin_turn(&self, events: usize) {
        if self.steering.accept == Accept::Hermes {
            self.row.pending.store(events as u64, Relaxed);
            self.row.entered_ns.store(monotonic_ns(), Relaxed);
        }
    }

    /// Ends a turn: publishes the worker's connections and, for [`Accept::Hermes`], all eligible workers.
    #[inline]
    pub(crate) fn end_turn(&mut self, counters: &Counters) {
        let (accepted, ended) = (counters.accepted.get(), counters.ended.get());
        if self.steering.accept == Accept::Hermes {
            let (table, started_ns) = (&self.steering.table, monotonic_ns());
            self.row.connections.store(accepted.saturating_sub(ended), Relaxed);
            self.row.pending.store(0, Relaxed);
            self.row.entered_ns.store(0, Relaxed);
            table.eligible().store(state::eligible(table.rows(), started_ns), Relaxed);
            // Without the last reading, the turn would have two; the time between these two has one.
            let spent_ns = monotonic_ns() - started_ns + self.steering.clock_ns;
            counters.steering_ns.add(spent_ns.min(TURN_END_NS_MAX));
        } else {
            let lost = self.lost.after_turn(self.row.steered.load(Relaxed), accepted);
            self.row.settled.store(ended + lost, Relaxed);
        }
    }
}

/// The time of a reading of the clock in nanoseconds: the shortest of many, which contains no interrupt.
fn clock_ns() -> u64 {
    let readings: Vec<u64> = (0..100).map(|_| monotonic_ns()).collect();
    readings.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default()
}

#[cfg(test)]
mod tests;
