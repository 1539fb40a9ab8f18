//! Which server a client that is started by hand asks, and what for: flags of `load` and `idle`.

use std::num::NonZeroU32;

use ::load::config::{HttpTraffic, LoadConfig};
use anyhow::{Context, anyhow, bail};
use lab::experiment::{List, Service};
use lab::presets;
use wire::{Address, ServiceSpec};

use crate::commands::compare::TrafficArgs;
use crate::commands::url;

/// Where it is, and what it is asked.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// What to ask for, of the service `http`: `http://HOST[:PORT]/PATH`
    #[arg(value_name = "URL", conflicts_with_all = ["target", "path"])]
    url: Option<String>,
    /// The server's address: `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["control", "url"])]
    target: Option<Address>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

impl TargetArgs {
    /// A load of that server, all else as it is without flags.
    ///
    /// # Errors
    /// Flags that are of another service, or cannot be; a host that has no address.
    pub fn config(&self) -> anyhow::Result<LoadConfig> {
        let mut traffic = presets::find("compare").expect("it is in the table").experiment().workload;
        if self.url.is_some() {
            traffic.service = Service::Http;
            // What is there is as long as it is, unless something is said.
            traffic.response = None;
        }
        self.traffic.apply(&mut traffic);
        if traffic.kv.is_some() && traffic.service != Service::Kv {
            bail!("--records and the like are of a key-value store; add --service kv, or leave them out");
        }
        if traffic.http.is_some() && traffic.service != Service::Http {
            bail!(
                "--path, --header and --expect-status are of HTTP; add --service http or give a URL, or leave them out"
            );
        }
        let asked = self.url.as_deref().map(url::read).transpose()?;
        let target = asked.as_ref().map(|asked| asked.target.clone()).or_else(|| self.target.clone());
        let (mut kv, mut http) = (None, None);
        let service = match (traffic.service, traffic.request, traffic.response) {
            (Service::Fixed, Some(request), Some(response)) => {
                ServiceSpec::Fixed { request_bytes: request.0, response_bytes: response.0 }
            }
            (Service::Kv, None, None) => {
                let said = traffic.kv.unwrap_or_default();
                said.check().map_err(|why| anyhow!("--{why}"))?;
                kv = Some(said.traffic());
                said.service()
            }
            (Service::Http, None, response) => {
                let mut said = traffic.http.unwrap_or_default();
                if let Some(asked) = &asked {
                    said.paths = Some(List(vec![asked.path.clone()]));
                }
                let asked_for = said.traffic(response, false).map_err(|why| anyhow!("--{why}"))?;
                http = Some(HttpTraffic { host: asked.map(|asked| asked.host), ..asked_for });
                said.service()
            }
            (Service::Http, ..) => {
                bail!("--request: a request of http is what its path and headers make; leave it out")
            }
            _ => bail!("--request, --response: kv has none; its sizes are those of its records, --value-size"),
        };
        Ok(LoadConfig {
            calls_per_connection: traffic.calls_per_connection.map(NonZeroU32::get),
            think: traffic.think.0,
            kv,
            http,
            ..LoadConfig::new(target.context("--target: where is the server?")?, service)
        })
    }
}
