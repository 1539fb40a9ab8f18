//! Flags of the network between server and clients.

use harness::spec::network::Network;
use harness::units::{Bandwidth, Loss, Size, Time};

use super::set;

/// Flags of the network between server and client.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkArgs {
    /// A lab in place of loopback: hosts of their own on this machine for the server and its client, or for so many clients'
    /// hosts: lab, lab:clients=5
    #[arg(long, value_name = "NETWORK")]
    network: Option<Network>,
    /// How long each packet is on its way, each way, as in 10ms
    #[arg(long, value_name = "TIME", requires = "network")]
    delay: Option<Time>,
    /// By how much that may be less or more
    #[arg(long, value_name = "TIME", requires = "network")]
    jitter: Option<Time>,
    /// Share of packets that are lost, each way, as in 0.1%
    #[arg(long, value_name = "SHARE", requires = "network")]
    loss: Option<Loss>,
    /// What each host can send, as in 1Gbit
    #[arg(long, value_name = "BANDWIDTH", requires = "network")]
    bandwidth: Option<Bandwidth>,
    /// What a host that was silent sends at once, before the bandwidth holds it back, as in 11KiB [default: that of 1 ms]
    #[arg(long, value_name = "SIZE", requires = "bandwidth")]
    burst: Option<Size>,
}

impl NetworkArgs {
    /// The network that was said, if any was.
    pub fn network(&self) -> Option<Network> {
        let mut network = self.network.clone()?;
        set(&mut network.delay, self.delay);
        set(&mut network.jitter, self.jitter);
        network.loss = self.loss;
        network.bandwidth = self.bandwidth;
        network.burst = self.burst;
        Some(network)
    }
}
