//! The options of an architecture.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accept::Accept;
use super::busy_poll::BusyPoll;
use super::controllers::Controllers;
use super::datagrams::DatagramOptions;
use super::read_budget::ReadBudget;

/// The options that change the behaviour of an architecture. Reports never merge figures of different options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Options {
    /// The accept strategy.
    pub accept: Accept,
    /// The most bytes that one read takes from a connection.
    pub read_budget_bytes: ReadBudget,
    /// Controllers of the payload stage.
    pub controllers: Controllers,
    /// Periodic stalls of the first network thread.
    pub stall: Option<Stall>,
    /// How a server of `udp` receives and sends.
    pub datagrams: DatagramOptions,
    /// Busy polling of the network interface.
    pub busy_poll: Option<BusyPoll>,
}

/// Periodic stalls of the first network thread, which then serves nothing, as if a request held it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// The time from the start of a stall to the start of the next one.
    pub every_ns: u64,
    /// The duration of a stall.
    pub for_ns: u64,
}
