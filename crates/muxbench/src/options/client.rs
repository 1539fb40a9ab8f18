//! Flags of the client.

use std::num::NonZeroU32;

use harness::spec::Client;
use harness::spec::units::Time;
use load::config::{ClockChoice, Pacing, Roles, Timestamps};

use super::{named, set};

/// The client's threads, clocks and time limit.
#[derive(Debug, clap::Args)]
pub struct ClientArgs {
    /// How a sender waits for the next planned send time: auto, yield, spin, sleep-spin [default: auto]
    #[arg(long, value_name = "PACING", value_parser = named::<Pacing>, help_heading = "Client")]
    pacing: Option<Pacing>,
    /// Threads for sending and receiving: auto, one-loop, two-threads [default: auto]
    #[arg(long, value_name = "ROLES", value_parser = named::<Roles>, help_heading = "Client")]
    roles: Option<Roles>,
    /// Independent clients, which share connections and rate evenly [default: 1; in a closed loop one per CPU]
    #[arg(long, value_name = "N", help_heading = "Client")]
    clients: Option<NonZeroU32>,
    /// Clock of the timestamps: auto, tsc, monotonic [default: auto]
    #[arg(long, value_name = "CLOCK", value_parser = named::<ClockChoice>, help_heading = "Client")]
    clock: Option<ClockChoice>,
    /// Source of the timestamps: client; kernel, which records when a request left [default: client]
    #[arg(long, value_name = "SOURCE", value_parser = named::<Timestamps>, help_heading = "Client")]
    timestamps: Option<Timestamps>,
    /// Longest time to connect and get the first response; a slower connection fails the trial [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Client")]
    timeout: Option<Time>,
}

impl ClientArgs {
    /// Overwrites the settings with flags that the user gave.
    pub fn apply(&self, client: &mut Client) {
        set(&mut client.pacing, self.pacing);
        set(&mut client.roles, self.roles);
        client.clients = self.clients.or(client.clients);
        set(&mut client.clock, self.clock);
        set(&mut client.timestamps, self.timestamps);
        set(&mut client.timeout, self.timeout);
    }
}
