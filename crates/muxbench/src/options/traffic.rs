//! Flags of the service and its requests.

use std::num::{NonZeroU16, NonZeroU32};

use harness::experiment::{List, Service, Workload};
use harness::http::Header;
use harness::stream::Stream;
use harness::units::{Share, Size, Sizes, Think};
use load::config::Choice;
use wire::ServiceSpec;
use wire::stream::Direction;

use super::{named, set};

/// Flags of the service and of closed loops, for `compare` and `load`.
#[derive(Debug, clap::Args)]
pub struct TrafficArgs {
    /// How long a connection of a closed loop thinks: 1ms, and with random times 1ms,exponential [default: 0]
    #[arg(long, value_name = "THINK")]
    think: Option<Think>,
    /// Requests on each connection, after which another takes its place; in an open loop sessions of so many requests begin
    /// by the schedule, and --connections is the most that are open at once [default: connections stay]
    #[arg(long, value_name = "N")]
    calls_per_connection: Option<NonZeroU32>,
    /// What the server does with bytes: fixed; kv, a key-value store; http; udp, datagrams to many ports; stream, bursts
    /// as fast as they go [default: fixed]
    #[arg(long, value_name = "SERVICE", value_parser = named::<Service>)]
    service: Option<Service>,
    /// Size of a request, of `fixed` and `udp` [default: 128B]
    #[arg(long, value_name = "SIZE")]
    request: Option<Size>,
    /// Size of a response, of `fixed` and `udp`; of `http`, of its content [default: 10KiB, of udp 128B]
    #[arg(long, value_name = "SIZE")]
    response: Option<Size>,
    /// Path that `http` asks for; several are asked for in turn [default: /bytes/N, N as --response says]
    #[arg(long, value_name = "PATH", help_heading = "HTTP")]
    pub path: Vec<String>,
    /// Header sent with each request, as in `Accept: text/html`; may be given several times
    #[arg(long, value_name = "HEADER", help_heading = "HTTP")]
    header: Vec<Header>,
    /// What each response's status must be [default: 200]
    #[arg(long, value_name = "STATUS", help_heading = "HTTP")]
    expect_status: Option<NonZeroU16>,
    /// Records of `kv`, all of them stored before the ramp [default: 30000]
    #[arg(long, value_name = "N", help_heading = "Key-value store")]
    records: Option<NonZeroU32>,
    /// Sizes of their values, even over the logarithm [default: 10B..1000B]
    #[arg(long, value_name = "SIZE..SIZE", help_heading = "Key-value store")]
    value_size: Option<Sizes>,
    /// Share of requests that get a record; the others set one [default: 90%]
    #[arg(long, value_name = "SHARE", help_heading = "Key-value store")]
    get_share: Option<Share>,
    /// How a request's record is chosen: uniform, zipf (exponent 1), zipf:0.99 [default: uniform]
    #[arg(long, value_name = "CHOICE", help_heading = "Key-value store")]
    keys: Option<Choice>,
    /// The server's memory for records [default: 64MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    memory: Option<Size>,
    /// Most that a record may take of it, at most a quarter [default: 1MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Key-value store")]
    item_max: Option<Size>,
    #[command(flatten)]
    stream: StreamArgs,
}

/// Flags of the service `stream`, for the server's side and the client's.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub struct StreamArgs {
    /// Size of a packet of `stream` [default: 8KiB]
    #[arg(long, value_name = "SIZE")]
    packet: Option<Size>,
    /// Packets of a burst [default: 1000]
    #[arg(long, value_name = "N")]
    packets: Option<NonZeroU32>,
    /// What each burst is answered with or, if the server sends, asked for with [default: 32B]
    #[arg(long, value_name = "SIZE")]
    ack: Option<Size>,
    /// Who sends the bursts: in, the clients; out, the server [default: in]
    #[arg(long, value_name = "DIRECTION", value_parser = named::<Direction>)]
    direction: Option<Direction>,
}

impl StreamArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, stream: &mut Stream) {
        set(&mut stream.packet, self.packet);
        set(&mut stream.packets, self.packets);
        set(&mut stream.ack, self.ack);
        set(&mut stream.direction, self.direction);
    }
}

impl TrafficArgs {
    /// Whether the sizes of what is sent were said.
    pub fn says_sizes(&self) -> bool {
        self.request.is_some() || self.stream.packet.is_some() && self.stream.ack.is_some()
    }

    /// Puts what a server says that it serves in place of what was there, and then what was said.
    pub fn apply_served(&self, workload: &mut Workload, served: &ServiceSpec) {
        let served_as = match served {
            ServiceSpec::Fixed { .. } => Service::Fixed,
            ServiceSpec::Kv { .. } => Service::Kv,
            ServiceSpec::Http { .. } => Service::Http,
            ServiceSpec::Udp { .. } => Service::Udp,
            ServiceSpec::Stream(_) => Service::Stream,
        };
        workload.service = served_as;
        if self.service.unwrap_or(served_as) == served_as {
            workload.stream = served.stream().map(Stream::from);
        }
        self.apply(workload);
        if workload.service == served_as
            && let Some((request_bytes, response_bytes)) = served.fixed()
        {
            workload.request = self.request.or(Some(Size(request_bytes)));
            workload.response = self.response.or(Some(Size(response_bytes)));
        }
    }

    /// Whether it was said which service that is, or how large its messages are.
    pub fn says_what_is_served(&self) -> bool {
        self.service.is_some() || self.request.is_some() || self.response.is_some()
    }

    /// Puts what was said in place of what was there.
    pub fn apply(&self, workload: &mut Workload) {
        set(&mut workload.think, self.think);
        set(&mut workload.service, self.service);
        workload.calls_per_connection = self.calls_per_connection.or(workload.calls_per_connection);
        if matches!(workload.service, Service::Kv | Service::Stream) {
            // What was there is of another service; what was said is refused.
            (workload.request, workload.response) = (None, None);
        }
        if workload.service == Service::Http {
            workload.request = None;
            if !self.path.is_empty() {
                workload.response = None;
            }
        }
        if workload.service == Service::Udp {
            // What fits in one packet of any network.
            workload.response = workload.request;
        }
        workload.request = self.request.or(workload.request);
        workload.response = self.response.or(workload.response);
        let mut http = workload.http.clone().unwrap_or_default();
        let before = http.clone();
        http.paths = (!self.path.is_empty()).then(|| List(self.path.clone())).or(http.paths);
        http.headers.extend(self.header.iter().cloned());
        http.status = self.expect_status.or(http.status);
        if http != before {
            workload.http = Some(http);
        }
        let mut bursts = workload.stream.clone().unwrap_or_default();
        let before = bursts.clone();
        self.stream.apply(&mut bursts);
        if workload.service == Service::Stream || bursts != before {
            workload.stream = Some(bursts);
        }
        let mut kv = workload.kv.clone().unwrap_or_default();
        let before = kv.clone();
        set(&mut kv.records, self.records);
        set(&mut kv.value_size, self.value_size);
        set(&mut kv.get_share, self.get_share);
        set(&mut kv.keys, self.keys);
        set(&mut kv.memory, self.memory);
        set(&mut kv.item_max, self.item_max);
        if workload.service == Service::Kv || kv != before {
            workload.kv = Some(kv);
        }
    }
}
