//! Which server a client that is started by hand asks, and what for: flags of `load` and `idle`.

use std::num::NonZeroU32;
use std::str::FromStr;

use ::load::config::{HttpTraffic, LoadConfig};
use anyhow::{Context, anyhow, bail};
use harness::description;
use harness::experiment::{List, Service};
use harness::presets;
use wire::{Address, Ports, ServiceSpec};

use super::traffic::TrafficArgs;
use super::url;
use crate::output;

/// Connections where nothing is said of them.
const CONNECTIONS: u32 = 400;
/// Ports likewise, as `serve` has them.
const PORTS: u32 = 10;

/// Where it is, and what it is asked.
#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// What to ask for, of the service `http`: `http://HOST[:PORT]/PATH`
    #[arg(value_name = "URL", conflicts_with_all = ["target", "path"])]
    url: Option<String>,
    /// The server's address: `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["control", "url"])]
    target: Option<Address>,
    /// Connections held open [default: 400]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroU32>,
    /// Ports of `udp`: how many from that of the target on [default: 10], or which, as `serve` says: 7000-7004,7010-7014
    #[arg(long, value_name = "N|PORTS", conflicts_with = "connections")]
    ports: Option<PortsArg>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

/// How many ports, or which.
#[derive(Clone, Debug)]
enum PortsArg {
    Count(NonZeroU32),
    These(Ports),
}

impl FromStr for PortsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) if text.contains(['-', ',']) => text.parse().map(Self::These),
            Err(_) => Err(format!("`{text}` is no number of ports; write one above 0, or ports like 7000-7099")),
        }
    }
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
        // A URL is of any server; one that is named by its address may be ours, and say what it serves.
        let served = match (&self.url, &self.target) {
            (None, Some(Address::Ip(address))) => description::ask(*address),
            _ => None,
        };
        if let Some(served) = &served
            && !self.traffic.says_sizes()
        {
            served.check_sizes()?;
        }
        match &served {
            Some(served) => self.traffic.apply_served(&mut traffic, &served.service),
            None => self.traffic.apply(&mut traffic),
        }
        if traffic.kv.is_some() && traffic.service != Service::Kv {
            bail!("--records and the like are of a key-value store; add --service kv, or leave them out");
        }
        if traffic.http.is_some() && traffic.service != Service::Http {
            bail!(
                "--path, --header and --expect-status are of HTTP; add --service http or give a URL, or leave them out"
            );
        }
        if traffic.stream.is_some() && traffic.service != Service::Stream {
            bail!("--packet, --packets, --ack and --direction are of streams; add --service stream, or leave them out");
        }
        let asked = self.url.as_deref().map(url::read).transpose()?;
        let target = asked.as_ref().map(|asked| asked.target.clone()).or_else(|| self.target.clone());
        if traffic.service == Service::Udp && self.connections.is_some() {
            bail!("--connections: udp has none; give --ports in its place");
        }
        if traffic.service != Service::Udp && self.ports.is_some() {
            bail!("--ports: only udp has ports; add --service udp");
        }
        let served_ports = served.as_ref().and_then(|served| served.ports.clone());
        let (count, ports) = match &self.ports {
            None => served_ports.map_or((PORTS, None), |ports| (ports.count(), Some(ports))),
            Some(PortsArg::Count(count)) => (count.get(), None),
            Some(PortsArg::These(ports)) => (ports.count(), Some(ports.clone())),
        };
        let connections =
            if traffic.service == Service::Udp { count } else { self.connections.map_or(CONNECTIONS, NonZeroU32::get) };
        let (mut kv, mut http) = (None, None);
        let service = match (traffic.service, traffic.request, traffic.response) {
            (Service::Fixed, Some(request), Some(response)) => {
                ServiceSpec::Fixed { request_bytes: request.0, response_bytes: response.0 }
            }
            (Service::Udp, Some(request), Some(response)) => {
                ServiceSpec::Udp { ports: count, request_bytes: request.0, response_bytes: response.0 }
            }
            (Service::Stream, None, None) => traffic.stream.unwrap_or_default().service(),
            (Service::Stream, ..) => {
                bail!("--request, --response: stream has none; its sizes are --packet, --packets and --ack")
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
        match (&served, &self.target) {
            (Some(served), _) => served.check(&service)?,
            (None, Some(Address::Ip(address))) if !self.traffic.says_what_is_served() => {
                output::tell(format_args!("muxbench: {}", description::nobody_says(*address, &service)));
            }
            _ => {}
        }
        Ok(LoadConfig {
            connections,
            ports,
            calls_per_connection: traffic.calls_per_connection.map(NonZeroU32::get),
            think: traffic.think.0,
            kv,
            http,
            ..LoadConfig::new(target.context("--target: where is the server?")?, service)
        })
    }
}
