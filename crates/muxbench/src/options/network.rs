//! Flags of the network between server and clients.

use harness::spec::network::Network;
use harness::spec::units::{Bandwidth, Loss, Size, Time};

use super::set;

/// A lab and its conditions.
#[derive(Debug, clap::Args)]
pub struct NetworkArgs {
    /// Use a lab in place of loopback: network namespaces for the server and one client, or for N clients (needs root):
    /// lab, lab:clients=5
    #[arg(long, value_name = "NETWORK", help_heading = "Network")]
    network: Option<Network>,
    /// Delay of each packet, in each direction, such as 10ms
    #[arg(long, value_name = "TIME", requires = "network", help_heading = "Network")]
    delay: Option<Time>,
    /// Largest random deviation from --delay, such as 1ms
    #[arg(long, value_name = "TIME", requires = "network", help_heading = "Network")]
    jitter: Option<Time>,
    /// Share of packets lost, in each direction, such as 0.1%
    #[arg(long, value_name = "SHARE", requires = "network", help_heading = "Network")]
    loss: Option<Loss>,
    /// Bandwidth of each host's link, such as 1Gbit
    #[arg(long, value_name = "BANDWIDTH", requires = "network", help_heading = "Network")]
    bandwidth: Option<Bandwidth>,
    /// Bytes that an idle host may send at once before --bandwidth limits it, such as 11KiB [default: 1 ms of bandwidth]
    #[arg(long, value_name = "SIZE", requires = "bandwidth", help_heading = "Network")]
    burst: Option<Size>,
}

impl NetworkArgs {
    /// Returns the requested network, if any.
    pub fn network(&self) -> Option<Network> {
        let mut network = self.network.clone()?;
        set(&mut network.delay, self.delay);
        set(&mut network.jitter, self.jitter);
        (network.loss, network.bandwidth, network.burst) = (self.loss, self.bandwidth, self.burst);
        Some(network)
    }
}
