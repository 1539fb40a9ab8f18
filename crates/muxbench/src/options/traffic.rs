//! Flags of the service and its requests.

use std::num::NonZeroU32;

use anyhow::bail;
use harness::spec::units::{Size, Think, count};
use harness::spec::{Service, WorkloadSpec};

use super::http::HttpArgs;
use super::settings::{KvArgs, StreamArgs};
use super::tls::TlsArgs;
use super::{named, set};

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct TrafficArgs {
    /// Think time of a connection in a closed loop, fixed or random: 1ms, or 1ms,exponential [default: 0]
    #[arg(long, value_name = "THINK")]
    think: Option<Think>,
    /// Requests that each connection of a closed loop sends at once; the next ones follow the last response [default: 1]
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU32>)]
    pipeline: Option<NonZeroU32>,
    /// Requests on each connection before a new connection replaces it. In an open loop the schedule starts sessions with
    /// this number of requests, and --connections limits the open sessions [default: unlimited]
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU32>)]
    requests_per_connection: Option<NonZeroU32>,
    /// fixed, kv, redis, http, udp, stream [default: fixed]
    ///
    /// Messages of fixed size (fixed), a key-value store (kv), HTTP, datagrams to many ports (udp), or bursts at full speed
    /// (stream). The URL of a target may select the service. `idle` and `overload` refuse udp; `sweep`, `capacity` and `overload`
    /// refuse stream
    #[arg(long, value_name = "SERVICE", value_parser = named::<Service>)]
    service: Option<Service>,
    /// Request size of `fixed` and `udp` [default: 128B]
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub(super) request: Vec<Size>,
    /// Response size [default: 10KiB; udp: 128B]
    ///
    /// The size of responses of `fixed` and `udp`, and of the bodies of `http`
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub(super) response: Vec<Size>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    stream: StreamArgs,
}

impl TrafficArgs {
    /// The service that the user requested.
    pub fn service(&self) -> Option<Service> {
        self.service
    }

    /// Overwrites the settings whose flags the user gave, and drops sizes that the service does not have. Fails if a flag has
    /// several values. `has_file` tells whether the workload comes from a file.
    pub fn apply(&self, workload: &mut WorkloadSpec, has_file: bool) -> anyhow::Result<()> {
        check_single("--request", &self.request)?;
        check_single("--response", &self.response)?;
        set(&mut workload.think, self.think);
        set(&mut workload.service, self.service);
        set(&mut workload.requests_per_connection, self.requests_per_connection);
        set(&mut workload.pipeline, self.pipeline);
        match workload.service {
            Service::Kv | Service::Redis | Service::Stream => (workload.request, workload.response) = (None, None),
            Service::Http => {
                workload.request = None;
                workload.response = workload.response.filter(|_| !self.http.has_requests());
            }
            // Without a file, a response is as large as the preset's request, so that it fits in one packet of any network.
            Service::Udp if !has_file => workload.response = workload.request,
            Service::Udp | Service::Fixed => {}
        }
        set(&mut workload.request, self.request.first().copied());
        set(&mut workload.response, self.response.first().copied());
        update(&mut workload.tls, self.tls.tls, |tls| self.tls.apply(tls));
        update(&mut workload.http, false, |http| self.http.apply(http));
        update(&mut workload.stream, workload.service == Service::Stream, |stream| self.stream.apply(stream));
        update(&mut workload.kv, workload.service.has_records(), |kv| self.kv.apply(kv));
        Ok(())
    }
}

/// Fails if a flag has several values, which only a grid can have.
pub(super) fn check_single<T>(flag: &str, values: &[T]) -> anyhow::Result<()> {
    if values.len() > 1 {
        bail!(
            "{flag} has {} values; give one and repeat the command for each, or try `muxbench atlas`, which has grids",
            values.len()
        );
    }
    Ok(())
}

/// Changes the settings of one service. Absent settings that keep their defaults stay absent, unless `needed`.
fn update<T: Clone + Default + PartialEq>(settings: &mut Option<T>, needed: bool, change: impl FnOnce(&mut T)) {
    let before = settings.clone().unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if needed || after != before {
        *settings = Some(after);
    }
}
