//! The options of an architecture.

use schemars::JsonSchema;
use serde::Serialize;

use super::accept::Accept;
use super::busy_poll::BusyPoll;
use super::controllers::Controllers;
use super::datagrams::DatagramOptions;
use super::read_budget::ReadBudget;
use super::stall::Stall;

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
