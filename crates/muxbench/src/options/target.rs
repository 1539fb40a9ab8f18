//! The single server that `load` and `idle` connect to.

use clap::error::ErrorKind;
use harness::spec::Service;
use harness::spec::target::TargetUrl;
use wire::Address;

use super::servers::Servers;

#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// URL of the server, such as http://127.0.0.1:8080/index.html
    ///
    /// Also https://HOST, memcached://HOST:PORT, redis://HOST:PORT, tcp://HOST:PORT, unix:/PATH and, for `load`,
    /// udp://HOST:PORT
    #[arg(value_name = "URL", conflicts_with = "target")]
    url: Option<TargetUrl>,
    /// Address of the server: `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
    #[arg(long, value_name = "ADDRESS", help_heading = "Load", hide_short_help = true)]
    target: Option<Address>,
}

impl TargetArgs {
    /// Returns the server. `service` is the requested service.
    pub fn server(&self, service: Option<Service>) -> anyhow::Result<Servers> {
        match (&self.url, &self.target) {
            (Some(url), _) => Ok(Servers::target(url)),
            (None, Some(address)) => Servers::at(address, service),
            (None, None) => {
                let reason = "the server is missing: add its URL, or --target ADDRESS";
                Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, reason).into())
            }
        }
    }
}
