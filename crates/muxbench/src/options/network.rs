//! Flags of the network between server and clients.

use harness::spec::network::Network;

use super::settings::ConditionArgs;

/// A lab and its conditions.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// Use a lab in place of loopback: network namespaces for the server and for one client, or for N clients. Needs root: lab,
    /// lab:clients=5
    #[arg(long, value_name = "NETWORK", help_heading = "Network")]
    network: Option<Network>,
    #[command(flatten)]
    conditions: ConditionArgs,
}

impl NetworkArgs {
    /// Returns the requested network, if any.
    pub fn network(&self) -> Option<Network> {
        let mut network = self.network.clone()?;
        self.conditions.apply(&mut network);
        Some(network)
    }
}
