//! The server's side of a trial.

use load::result::PARTS;
use server::ServerCounters;

/// Facts about the server during the window.
#[derive(Clone, Copy, Debug)]
pub struct ServerSide<'a> {
    /// The server's counters, counted by the server itself or by an observer.
    pub counters: &'a ServerCounters,
    /// The number of CPUs that it can use at once.
    pub cpus: usize,
    /// The longer of the two delays with which its counters were read at the window's edges, in nanoseconds.
    pub late_ns: u64,
    /// The share of its CPUs that other processes took. `None` if unknown.
    pub taken: Option<f64>,
    /// Whether it keeps its CPUs busy while idle.
    pub spins: bool,
    /// The bytes per second that it received from streams, in each part of the window. `None` if not counted.
    pub took_in: Option<[f64; PARTS]>,
}

impl ServerSide<'_> {
    /// Returns the share of its CPUs that it used.
    pub(super) fn busy_share(&self) -> f64 {
        // The counters are read a little before and after the window.
        (self.counters.cpu_ns() as f64 / (self.counters.window_ns as f64 * self.cpus as f64)).min(1.0)
    }

    /// Tests whether it worked for at least this share of its CPUs' time. The CPU time of a spinning server proves no work.
    pub(super) fn has_worked(&self, share_min: f64) -> bool {
        !self.spins && self.busy_share() >= share_min
    }
}
