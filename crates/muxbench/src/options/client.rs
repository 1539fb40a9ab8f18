//! Flags of the client.

use std::num::NonZeroU32;

use harness::experiment::Client;
use harness::units::Time;
use load::config::{ClockChoice, Pacing, Roles, Timestamps};

use super::{named, set};

/// Flags of the client, for `compare` and `load`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// How a sender waits for the next planned time: auto, yield, spin, sleep-spin [default: auto]
    #[arg(long, value_name = "PACING", value_parser = named::<Pacing>)]
    pub pacing: Option<Pacing>,
    /// Send and receive in one loop or two threads: auto, one-loop, two-threads [default: auto]
    #[arg(long, value_name = "ROLES", value_parser = named::<Roles>)]
    pub roles: Option<Roles>,
    /// Independent clients, which divide connections and rate [default: 1, in a closed loop one for each CPU]
    #[arg(long, value_name = "N")]
    pub clients: Option<NonZeroU32>,
    /// Clock of timestamps: auto, tsc, monotonic [default: auto]
    #[arg(long, value_name = "CLOCK", value_parser = named::<ClockChoice>)]
    pub clock: Option<ClockChoice>,
    /// Who takes timestamps: client; kernel, which proves when a request left [default: client]
    #[arg(long, value_name = "WHO", value_parser = named::<Timestamps>)]
    pub timestamps: Option<Timestamps>,
    /// A connection that takes longer to be made and served fails the trial [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Time>,
}

impl ClientArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, client: &mut Client) {
        set(&mut client.pacing, self.pacing);
        set(&mut client.roles, self.roles);
        client.clients = self.clients.or(client.clients);
        set(&mut client.clock, self.clock);
        set(&mut client.timestamps, self.timestamps);
        set(&mut client.timeout, self.timeout);
    }
}
