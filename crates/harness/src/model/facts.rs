//! What a planner knows of a fleet.

use std::net::IpAddr;

use super::network::Applied;
use crate::spec::network::Network;

/// What a planner knows of clients that are ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetFacts {
    /// How many are on this machine, where the server is...
    pub here: u32,
    /// ...and how many CPUs each of those on others has for itself, of the one that has the fewest; `None` if there are none.
    pub elsewhere_cpus: Option<u32>,
    /// Where they reach this machine.
    pub ways: Vec<IpAddr>,
    /// The network of the lab whose hosts theirs are, and how it is made.
    pub lab: Option<(Network, Applied)>,
    /// Those on the server's own host of a network, as ranks: what they send passes none of its links.
    pub beside_server: Vec<u32>,
}

impl FleetFacts {
    /// Whether none is on this machine, which is the server's alone then.
    pub fn are_elsewhere(&self) -> bool {
        self.here == 0
    }

    /// CPUs that every one of them has for itself, where those here divide so many.
    pub fn cpus_each(&self, planned: u32) -> u32 {
        let here = planned.checked_div(self.here);
        here.into_iter().chain(self.elsewhere_cpus).min().unwrap_or(0)
    }
}
