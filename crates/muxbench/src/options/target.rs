//! The server that `load` and `idle` connect to, and the requests they send.

use std::num::NonZeroU32;
use std::str::FromStr;

use ::load::config::{HttpTraffic, LoadConfig};
use anyhow::{Context, anyhow, bail};
use harness::description;
use harness::spec::{OneOrMany, Service, Workload, presets};
use wire::{Address, Ports, ServiceSpec};

use super::traffic::TrafficArgs;
use super::url;
use crate::output;

const CONNECTIONS_DEFAULT: u32 = 400;
const PORTS_DEFAULT: u32 = 10;

#[derive(Debug, clap::Args)]
pub struct TargetArgs {
    /// URL to request from an `http` server: `http://HOST[:PORT]/PATH`
    #[arg(value_name = "URL", conflicts_with_all = ["target", "path"])]
    url: Option<String>,
    /// Address of the server: `127.0.0.1:7007`, `[::1]:7007` or `unix:/tmp/muxbench.sock`
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["control", "url"])]
    target: Option<Address>,
    /// Open connections [default: 400]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroU32>,
    /// Ports of a `udp` server: a count of consecutive ports that starts at the target's port, or the list that `serve`
    /// prints, such as 7000-7004,7010-7014 [default: 10]
    #[arg(long, value_name = "N|PORTS", conflicts_with = "connections")]
    ports: Option<PortsArg>,
    #[command(flatten)]
    traffic: TrafficArgs,
}

#[derive(Clone, Debug)]
enum PortsArg {
    Count(NonZeroU32),
    List(Ports),
}

impl FromStr for PortsArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count) => Ok(Self::Count(count)),
            Err(_) if text.contains(['-', ',']) => text.parse().map(Self::List),
            Err(_) => Err(format!("invalid ports `{text}`: expected a number above 0, or ports such as 7000-7099")),
        }
    }
}

impl TargetArgs {
    /// Returns a load configuration with the server and the requests of these flags, and defaults for the rest.
    pub fn config(&self) -> anyhow::Result<LoadConfig> {
        let mut traffic = presets::find("compare").expect("the preset exists").experiment().workload;
        if self.url.is_some() {
            // The body may have any length unless a flag sets it.
            (traffic.service, traffic.response) = (Service::Http, None);
        }
        // `serve` advertises its service; a URL may belong to any server.
        let advertised = self.target.as_ref().and_then(Address::ip).and_then(description::ask);
        self.traffic.apply_advertised(&mut traffic, advertised.as_ref())?;
        self.check(&traffic)?;
        let url = self.url.as_deref().map(url::resolve).transpose()?;
        let target = url.as_ref().map(|url| url.target.clone()).or_else(|| self.target.clone());
        let (count, ports) = match (&self.ports, advertised.as_ref().and_then(|it| it.ports.clone())) {
            (Some(PortsArg::Count(count)), _) => (count.get(), None),
            (Some(PortsArg::List(ports)), _) => (ports.count(), Some(ports.clone())),
            (None, Some(ports)) => (ports.count(), Some(ports)),
            (None, None) => (PORTS_DEFAULT, None),
        };
        let is_udp = traffic.service == Service::Udp;
        let connections = if is_udp { count } else { self.connections.map_or(CONNECTIONS_DEFAULT, NonZeroU32::get) };
        let (mut kv, mut http) = (None, None);
        let service = match (traffic.service, traffic.request, traffic.response) {
            (Service::Fixed, Some(request), Some(response)) => {
                ServiceSpec::Fixed { request_bytes: request.0, response_bytes: response.0 }
            }
            (Service::Udp, Some(request), Some(response)) => {
                ServiceSpec::Udp { ports: count, request_bytes: request.0, response_bytes: response.0 }
            }
            (Service::Stream, None, None) => traffic.stream.unwrap_or_default().service(),
            (Service::Kv, None, None) => {
                let store = traffic.kv.unwrap_or_default();
                store.check().map_err(|reason| anyhow!("--{reason}"))?;
                kv = Some(store.traffic());
                store.service()
            }
            (Service::Http, None, response) => {
                let mut pages = traffic.http.unwrap_or_default();
                if let Some(url) = &url {
                    pages.paths = Some(OneOrMany(vec![url.path.clone()]));
                }
                let requests = pages.traffic(response, false).map_err(|reason| anyhow!("--{reason}"))?;
                http = Some(HttpTraffic { host: url.map(|url| url.host), ..requests });
                pages.service()
            }
            (Service::Http, ..) => bail!("--request: not used by http; set --path and --header"),
            (Service::Stream, ..) => {
                bail!("--request, --response: not used by stream; set --packet, --packets and --ack")
            }
            _ => bail!("--request, --response: not used by kv; set --value-size"),
        };
        match (&advertised, &self.target) {
            (Some(advertised), _) => advertised.check(&service)?,
            (None, Some(Address::Ip(address))) if !self.traffic.has_service() => {
                output::note(description::note_without_description(*address, &service));
            }
            _ => {}
        }
        Ok(LoadConfig {
            connections,
            ports,
            requests_per_connection: traffic.requests_per_connection.map(NonZeroU32::get),
            think: traffic.think.0,
            kv,
            http,
            ..LoadConfig::new(target.context("--target: the server's address is missing")?, service)
        })
    }

    /// Rejects flags that the service of `traffic` does not use.
    fn check(&self, traffic: &Workload) -> anyhow::Result<()> {
        for (is_given, service, flags) in [
            (traffic.kv.is_some(), Service::Kv, "--records and the other flags of a key-value store"),
            (traffic.http.is_some(), Service::Http, "--path, --header and --expect-status"),
            (traffic.stream.is_some(), Service::Stream, "--packet, --packets, --ack, --direction and --by-packet"),
            (self.ports.is_some(), Service::Udp, "--ports"),
        ] {
            if is_given && traffic.service != service {
                let name = report::format::name(&service);
                bail!("{flags}: only {name} uses these flags; add --service {name}, or omit the flags");
            }
        }
        if traffic.service == Service::Udp && self.connections.is_some() {
            bail!("--connections: udp has no connections; try --ports");
        }
        Ok(())
    }
}
