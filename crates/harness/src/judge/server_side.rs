//! The server's side of a trial.

use load::report::PARTS;
use server::ServerCounters;

use super::limits::BUSY_SHARE_MIN;

/// Facts about the server during the window.
#[derive(Clone, Copy, Debug)]
pub struct ServerSide<'a> {
    /// Its counters, its own or those of an observer.
    pub counters: &'a ServerCounters,
    /// CPUs that it can use at once.
    pub cpus: usize,
    /// The larger delay of the two readings of its counters, at the window's edges, in nanoseconds.
    pub late_ns: u64,
    /// The share of its CPUs that others took, where known.
    pub taken: Option<f64>,
    /// Whether it keeps its CPUs busy while it has nothing to do.
    pub spins: bool,
    /// Bytes a second that it received of streams, in each part of the window, where it counted them.
    pub took_in: Option<[f64; PARTS]>,
}

impl ServerSide<'_> {
    /// The share of its CPUs that it used.
    pub(super) fn busy_share(&self) -> f64 {
        self.counters.cpu_ns() as f64 / (self.counters.window_ns as f64 * self.cpus as f64)
    }

    /// Whether it worked for at least this share of its CPUs' time. The CPU time of a server that spins proves no work.
    pub(super) fn has_worked(&self, share_min: f64) -> bool {
        !self.spins && self.busy_share() >= share_min
    }

    /// Whether it had hardly any CPU to spare.
    pub(super) fn is_busy(&self) -> bool {
        self.has_worked(BUSY_SHARE_MIN)
    }
}
