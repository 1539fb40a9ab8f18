//! Flags of the service and its requests.

use std::num::{NonZeroU16, NonZeroU32};

use harness::spec::http::Header;
use harness::spec::stream::Stream;
use harness::spec::units::{Share, Size, Sizes, Think};
use harness::spec::{OneOrMany, Service, Workload};
use load::config::Popularity;
use wire::ServiceSpec;
use wire::stream::Direction;

use super::{named, set};

/// Flags of the service and of the requests.
#[derive(Debug, clap::Args)]
pub struct TrafficArgs {
    /// Think time of a connection in a closed loop, fixed or random: 1ms, or 1ms,exponential [default: 0]
    #[arg(long, value_name = "THINK")]
    think: Option<Think>,
    /// Requests on each connection before a new connection replaces it. In an open loop the schedule starts sessions of
    /// that many requests, and --connections limits how many are open at once [default: unlimited]
    #[arg(long, value_name = "N", alias = "calls-per-connection")]
    requests_per_connection: Option<NonZeroU32>,
    /// Service: fixed (fixed-size messages); kv (key-value store); http; udp (datagrams to many ports); stream (bursts at
    /// full speed) [default: fixed]
    #[arg(long, value_name = "SERVICE", value_parser = named::<Service>)]
    service: Option<Service>,
    /// Request size of `fixed` and `udp` [default: 128B]
    #[arg(long, value_name = "SIZE")]
    request: Option<Size>,
    /// Response size of `fixed` and `udp`; body size of `http` [default: 10KiB; udp: 128B]
    #[arg(long, value_name = "SIZE")]
    response: Option<Size>,
    /// Path to request from `http`; several are requested in turn [default: /bytes/N with N from --response]
    #[arg(long, value_name = "PATH", help_heading = "HTTP")]
    path: Vec<String>,
    /// Header of each request, such as `Accept: text/html`; may be repeated
    #[arg(long, value_name = "HEADER", help_heading = "HTTP")]
    header: Vec<Header>,
    /// Expected status of each response [default: 200]
    #[arg(long, value_name = "STATUS", help_heading = "HTTP")]
    expect_status: Option<NonZeroU16>,
    /// Records of `kv`, all stored before the ramp [default: 30000]
    #[arg(long, value_name = "N", help_heading = "Key-value store")]
    records: Option<NonZeroU32>,
    /// Range of value sizes, log-uniform [default: 10B..1000B]
    #[arg(long, value_name = "SIZE..SIZE", help_heading = "Key-value store")]
    value_size: Option<Sizes>,
    /// Share of the requests that get a record; the others set one [default: 90%]
    #[arg(long, value_name = "SHARE", help_heading = "Key-value store")]
    get_share: Option<Share>,
    /// Key popularity: uniform, zipf (exponent 1), zipf:0.99 [default: uniform]
    #[arg(long, value_name = "POPULARITY", help_heading = "Key-value store")]
    keys: Option<Popularity>,
    /// Memory of the server for records [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    memory: Option<Size>,
    /// Largest record, at most a quarter of --memory [default: 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    item_max: Option<Size>,
    #[command(flatten)]
    stream: StreamArgs,
}

/// Flags of the service `stream`, for server and client.
#[derive(Debug, clap::Args)]
pub struct StreamArgs {
    /// Packet size of `stream` [default: 8KiB]
    #[arg(long, value_name = "SIZE", help_heading = "Streams")]
    packet: Option<Size>,
    /// Packets of a burst [default: 1000]
    #[arg(long, value_name = "N", help_heading = "Streams")]
    packets: Option<NonZeroU32>,
    /// Size of the acknowledgement of a burst or, with --direction out, of the request for one [default: 32B]
    #[arg(long, value_name = "SIZE", help_heading = "Streams")]
    ack: Option<Size>,
    /// Sender of the bursts: in (the clients), out (the server) [default: in]
    #[arg(long, value_name = "DIRECTION", value_parser = named::<Direction>, help_heading = "Streams")]
    direction: Option<Direction>,
}

impl StreamArgs {
    /// Overwrites the settings with flags that the user gave.
    pub fn apply(&self, stream: &mut Stream) {
        set(&mut stream.packet, self.packet);
        set(&mut stream.packets, self.packets);
        set(&mut stream.ack, self.ack);
        set(&mut stream.direction, self.direction);
    }
}

impl TrafficArgs {
    /// Returns whether flags set all sizes of the requests.
    pub fn has_request_size(&self) -> bool {
        self.request.is_some() || self.stream.packet.is_some() && self.stream.ack.is_some()
    }

    /// Returns whether flags set the service or a message size.
    pub fn has_service(&self) -> bool {
        self.service.is_some() || self.request.is_some() || self.response.is_some()
    }

    /// Applies the service that a server advertises, then the flags.
    pub fn apply_advertised(&self, workload: &mut Workload, advertised: &ServiceSpec) {
        let service = match advertised {
            ServiceSpec::Fixed { .. } => Service::Fixed,
            ServiceSpec::Kv { .. } => Service::Kv,
            ServiceSpec::Http { .. } => Service::Http,
            ServiceSpec::Udp { .. } => Service::Udp,
            ServiceSpec::Stream(_) => Service::Stream,
        };
        workload.service = service;
        if self.service.unwrap_or(service) == service {
            workload.stream = advertised.stream().map(Stream::from);
        }
        self.apply(workload);
        if workload.service == service
            && let Some((request_bytes, response_bytes)) = advertised.fixed()
        {
            workload.request = self.request.or(Some(Size(request_bytes)));
            workload.response = self.response.or(Some(Size(response_bytes)));
        }
    }

    /// Overwrites the settings with flags that the user gave, and drops sizes that the service does not have.
    pub fn apply(&self, workload: &mut Workload) {
        set(&mut workload.think, self.think);
        set(&mut workload.service, self.service);
        workload.requests_per_connection = self.requests_per_connection.or(workload.requests_per_connection);
        match workload.service {
            Service::Kv | Service::Stream => (workload.request, workload.response) = (None, None),
            Service::Http => {
                workload.request = None;
                workload.response = workload.response.filter(|_| self.path.is_empty());
            }
            // A response of the request's size fits in one packet of any network.
            Service::Udp => workload.response = workload.request,
            Service::Fixed => {}
        }
        workload.request = self.request.or(workload.request);
        workload.response = self.response.or(workload.response);
        update(&mut workload.http, false, |http| {
            http.paths = (!self.path.is_empty()).then(|| OneOrMany(self.path.clone())).or(http.paths.take());
            http.headers.extend(self.header.iter().cloned());
            http.status = self.expect_status.or(http.status);
        });
        update(&mut workload.stream, workload.service == Service::Stream, |stream| self.stream.apply(stream));
        update(&mut workload.kv, workload.service == Service::Kv, |kv| {
            set(&mut kv.records, self.records);
            set(&mut kv.value_size, self.value_size);
            set(&mut kv.get_share, self.get_share);
            set(&mut kv.keys, self.keys);
            set(&mut kv.memory, self.memory);
            set(&mut kv.item_max, self.item_max);
        });
    }
}

/// Changes the settings of one service. Settings that are absent and stay at their defaults remain absent, unless
/// `needed`.
fn update<T: Clone + Default + PartialEq>(place: &mut Option<T>, needed: bool, change: impl FnOnce(&mut T)) {
    let before = place.clone().unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if needed || after != before {
        *place = Some(after);
    }
}
