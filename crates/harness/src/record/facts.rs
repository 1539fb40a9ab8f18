//! Facts about a distributed run, for the planner.

use std::net::IpAddr;

use super::network::Applied;
use crate::spec::network::Network;

/// Facts about the workers of a distributed run, for the planner.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetFacts {
    /// The number of workers on the server's machine.
    pub here: u32,
    /// The lowest number of CPUs of a worker on another machine. `None` without such workers.
    pub elsewhere_cpus: Option<u32>,
    /// The addresses at which workers reach this machine.
    pub addresses: Vec<IpAddr>,
    /// The network of the lab that the workers run in, and its means. `None` without a lab.
    pub lab: Option<(Network, Applied)>,
    /// The largest error of the comparisons of the workers' clocks with this host's, in nanoseconds; `None` if unknown.
    pub clock_error_ns: Option<u64>,
    /// The workers on the server's host of a lab. Their requests cross no link of the lab.
    pub beside_server: Vec<u32>,
}

impl FleetFacts {
    /// Tests whether all workers are on other machines.
    pub fn are_elsewhere(&self) -> bool {
        self.here == 0
    }

    /// Returns the lowest number of CPUs of a worker. Workers on this machine divide `planned` CPUs among themselves.
    pub fn cpus_each(&self, planned: u32) -> u32 {
        let here = planned.checked_div(self.here);
        here.into_iter().chain(self.elsewhere_cpus).min().unwrap_or(0)
    }
}

/// The part of a guard that the error of a worker's clock may take.
const CLOCK_ERROR_PART: u64 = 4;

/// Returns the largest error of a worker's clock with which slices do not overlap, in nanoseconds.
pub fn clock_error_max_ns(guard_ns: u64) -> u64 {
    guard_ns / CLOCK_ERROR_PART
}
