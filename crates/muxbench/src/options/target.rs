//! The single server that `load` and `idle` connect to.

use clap::error::ErrorKind;
use harness::spec::Service;
use harness::spec::candidate::UNNAMED_TARGET;
use harness::spec::target::TargetUrl;
use wire::Address;

use super::given::Options;

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
    /// Adds the server to the options.
    pub fn add_to(&self, options: &Options) -> anyhow::Result<Options> {
        let url = match (&self.url, &self.target) {
            (Some(url), _) => url.to_string(),
            (None, Some(address @ Address::Unix(_))) => address.to_string(),
            (None, Some(address)) if options.get("service") == Some(Service::Udp) => format!("udp://{address}"),
            (None, Some(address)) => format!("tcp://{address}"),
            (None, None) => {
                let reason = "the server is missing: add its URL, or --target ADDRESS";
                return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, reason).into());
            }
        };
        let mut options = options.clone();
        options.add("target", &format!("{UNNAMED_TARGET}={url}"))?;
        Ok(options)
    }
}
