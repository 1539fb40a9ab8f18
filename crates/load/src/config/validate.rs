//! The table of rules for a configuration. Each row has a key of an experiment file, a condition and a reason.

use std::fmt;
use std::net::SocketAddr;

use wire::udp::{DATAGRAM_BYTES_MAX, is_size};
use wire::{Ports, ServiceSpec};

use super::{LoadConfig, Loop, Popularity, Roles, Timestamps, Transport, active_count};
use crate::time::schedule::records_max;

/// A row of [`RULES`].
#[derive(Clone, Copy)]
pub struct Rule {
    /// The key in an experiment file.
    pub key: &'static str,
    /// Tells whether a configuration breaks the rule, given that it keeps all earlier rules.
    pub is_broken: fn(&LoadConfig) -> bool,
    /// Reason and remedy.
    pub reason: &'static str,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)
    }
}

macro_rules! rules {
    ($($key:literal, |$config:ident| $is_broken:expr, $reason:literal;)+) => {
        &[$(Rule { key: $key, is_broken: |$config: &LoadConfig| $is_broken, reason: $reason }),+]
    };
}

/// The largest number of different HTTP requests.
const REQUESTS_MAX: usize = 100_000;

/// The largest number of requests that a connection sends at once.
const PIPELINE_MAX: u32 = 1_024;

/// The most retries of a request, for which the client reserves memory.
const RETRIES_MAX: u32 = 10;

/// The rules in the order in which they are checked.
pub const RULES: &[Rule] = rules! {
    "client.clients", |it| it.client.clients == 0 || it.connections < it.client.clients,
        "must be at least 1 and at most the number of connections";
    "workload.trace.speed", |it| it.trace().is_some_and(|trace| !(trace.speed > 0.0 && trace.speed.is_finite())),
        "must be a finite number above 0, such as 2";
    "workload.trace.speed", |it| it.trace().is_some_and(|trace| trace.window_ns() == 0),
        "the replay would last less than 1 ns; lower it";
    "phases.measure", |it| it.phases.measure_ns == 0, "must be longer than 0";
    "workload.rate", |it| !it.is_closed() && !it.rate_per_s().is_some_and(|rate| rate.is_finite() && rate > 0.0),
        "must be a number of requests per second above 0";
    "workload.rate-profile", |it| it.rate_profile().is_some_and(|profile| !profile.is_valid()),
        "has no requests, or an impossible rate or time; give rates of at least 0 and times above 0, such as hold:2000:10s";
    "phases.measure", |it| it.rate_profile().is_some_and(|profile| profile.length_ns() != it.phases.measure_ns),
        "must equal the length of the profile";
    "phases.measure", |it| it.trace().is_some_and(|trace| trace.window_ns() != it.phases.measure_ns),
        "must equal the length of the replay";
    "workload.active", |it| !(it.active() > 0.0 && it.active() <= 1.0),
        "must be a share of the connections above 0 and at most 1";
    "workload.popularity", |it| !it.popularity().is_defined(), "its exponent must be a finite number above 0, such as zipf:1";

    // Services.
    "workload.service", |it| it.service.fixed().is_some_and(|(request, response)| request == 0 || response == 0),
        "a request and a response must have at least 1 byte each";
    "workload.transport", |it| has_datagrams(it) && (it.service.fixed().is_none() || it.target.path().is_some()),
        "datagrams need requests of fixed sizes and an address with a port; use tcp";
    "workload.transport", |it| has_datagrams(it) && it.service.fixed().is_some_and(|(a, b)| a.max(b) > DATAGRAM_BYTES_MAX),
        "a datagram holds at most 65507 bytes; lower the sizes, or use tcp";
    "workload.kv", |it| it.service.has_records() && it.kv.is_none(), "missing; the service needs records to request";
    "workload.http", |it| is_http(it) && it.http.is_none(), "missing; the service `http` needs paths to request";
    "workload.http", |it| it.http.as_ref().is_some_and(|http| http.targets.is_empty()), "name at least one path";
    "workload.http.requests", |it| it.http.as_ref().is_some_and(|http| http.targets.iter().any(|it| it.weight == 0)),
        "a weight must be at least 1";
    "workload.http.requests", |it| it.http.as_ref().is_some_and(|http| http.targets.len() > REQUESTS_MAX),
        "more than 100 000 requests; shorten the list";
    "workload.kv.records", |it| it.kv.as_ref().is_some_and(|kv| kv.records == 0), "must be at least 1";
    "workload.kv.value-size", |it| it.kv.as_ref().is_some_and(|kv| kv.value_bytes_min == 0), "must be at least 1 byte";
    "workload.kv.value-size", |it| it.kv.as_ref().is_some_and(|kv| kv.value_bytes_min > kv.value_bytes_max),
        "the smallest value exceeds the largest one; swap them";
    "workload.kv.keys", |it| it.kv.as_ref().is_some_and(|kv| !kv.keys.is_defined()),
        "its exponent must be a finite number above 0, such as zipf:1";
    "workload.kv.get-share", |it| it.kv.as_ref().is_some_and(|kv| !(0.0..=1.0).contains(&kv.get_share)),
        "must be a share of the requests, from 0 to 1";

    // Datagrams to several ports.
    "workload.request", |it| is_udp(it) && it.service.fixed().is_some_and(|(request, _)| !is_size(request)),
        "a datagram has from 8 to 65507 bytes; choose another size";
    "workload.response", |it| is_udp(it) && it.service.fixed().is_some_and(|(_, response)| !is_size(response)),
        "a datagram has from 8 to 65507 bytes; choose another size";
    "workload.connections", |it| is_udp(it) && it.service.ports() != Some(it.connections),
        "must equal the number of ports";
    "workload.schedule", |it| is_udp(it) && !has_datagrams(it),
        "a lost datagram would end a closed loop; choose another schedule";

    // Streams.
    "workload.stream", |it| it.service.stream().is_some_and(|it| it.packet_bytes == 0 || it.packets == 0 || it.ack_bytes == 0),
        "packet, packets and ack must be at least 1";
    "workload.schedule", |it| is_stream(it) != (it.the_loop == Loop::Stream), "the service `stream` has a loop of its own; use `Loop::Stream`";
    "phases.cool-down", |it| is_stream(it) && it.phases.cool_down_ns == 0,
        "streams need a cool-down to end; use 1s, for example";

    "workload.tls", |it| it.client.tls.is_some() && has_datagrams(it),
        "datagrams have no TLS; remove it, or choose a service over TCP, such as `fixed`";
    "workload.tls", |it| it.client.tls.is_some() && is_stream(it),
        "streams measure the bandwidth of plain text; remove it, or choose `fixed` with large responses";

    "workload.pipeline", |it| it.pipeline() == 0, "must be at least 1";
    "workload.pipeline", |it| it.pipeline() > PIPELINE_MAX, "more than 1024 requests at once; lower it";
    "workload.requests-per-connection", |it| it.requests_per_connection() == Some(0), "must be at least 1";

    // Several clients.
    "client.clients", |it| active_count(it.active(), it.connections) < it.client.clients,
        "each client needs an active connection; lower the clients, or raise `active` or the connections";
    "workload.popularity", |it| it.all_clients() > 1 && it.popularity() != Popularity::Uniform,
        "each of several clients would have its own most popular connection; use one client";
    "client.timestamps", |it| is_stamped(it) && cfg!(not(target_os = "linux")),
        "kernel timestamps (SO_TIMESTAMPING) need Linux; set timestamps = \"client\"";
    "client.timestamps", |it| is_stamped(it) && (it.requests().is_none() || is_udp(it) || has_retries(it)),
        "kernel timestamps need an open loop over lasting connections, without retries; set timestamps = \"client\"";
    "client.timestamps", |it| is_stamped(it) && (it.transport() == Transport::Unix || it.client.tls.is_some()),
        "kernel timestamps count the bytes of plain text over IP; set timestamps = \"client\", or use neither a Unix socket nor TLS";

    // Requests that do not overlap.
    "workload.no-overlap", |it| it.no_overlap() && it.trace().is_some_and(|trace| trace.has_connections),
        "the trace selects the connections; ignore its column (ignore = \"connection\", --trace-ignore connection)";
    "workload.no-overlap", |it| it.no_overlap() && has_retries(it),
        "a retry goes to the next connection, free or not; remove one of the two";
    "workload.no-overlap", |it| it.no_overlap() && it.client.roles == Roles::TwoThreads,
        "the thread that reads a response sends the next request; remove the roles (--roles)";
    "client.timestamps", |it| it.no_overlap() && is_stamped(it),
        "the kernel's times would include waits for a free connection; remove no-overlap, or set timestamps = \"client\"";

    // Timeouts and retries.
    "client.timeout", |it| it.client.timeout_ns == 0, "must be longer than 0, such as 10s";
    "client.request-timeout", |it| it.request_timeout().is_some_and(|it| it.timeout_ns == 0), "must be longer than 0";
    "client.retries", |it| it.request_timeout().is_some_and(|it| it.retries > RETRIES_MAX),
        "more than 10 retries of a request; lower it";
    "client.retry-budget", |it| it.request_timeout().and_then(|it| it.retry_budget).is_some_and(|it| !(it > 0.0 && it <= 1.0)),
        "must be a share of the requests above 0 and at most 1, such as 20%";
    "client.retries", |it| has_retries(it) && it.active() < 1.0,
        "a retry may take any connection; remove `active`";

    // A record number has 32 bits, and 0 means no record.
    "workload.rate", |it| records_max(it) >= u64::from(u32::MAX),
        "exceeds 4 294 967 294 requests for one client; lower the rate or the duration, or use more clients";
};

fn has_datagrams(config: &LoadConfig) -> bool {
    matches!(config.the_loop, Loop::Datagrams(_))
}

fn is_stamped(config: &LoadConfig) -> bool {
    config.client.timestamps == Timestamps::Kernel
}

fn has_retries(config: &LoadConfig) -> bool {
    config.request_timeout().is_some_and(|it| it.retries > 0)
}

fn is_udp(config: &LoadConfig) -> bool {
    matches!(config.service, ServiceSpec::Udp { .. })
}

fn is_http(config: &LoadConfig) -> bool {
    matches!(config.service, ServiceSpec::Http { .. })
}

fn is_stream(config: &LoadConfig) -> bool {
    config.service.stream().is_some()
}

/// Returns the first rule that a configuration breaks.
pub fn broken(config: &LoadConfig) -> Option<&'static Rule> {
    RULES.iter().find(|rule| (rule.is_broken)(config))
}

/// Checks all rules, and the ports of the service `udp`.
pub fn check(config: &LoadConfig) -> Result<(), String> {
    match broken(config) {
        Some(rule) => Err(rule.to_string()),
        None if is_udp(config) => targets(config).map(drop),
        None => Ok(()),
    }
}

/// Checks only the rules for timestamps.
pub fn check_timestamps(config: &LoadConfig) -> Result<(), String> {
    let is_broken = |rule: &&Rule| rule.key == "client.timestamps" && (rule.is_broken)(config);
    RULES.iter().find(is_broken).map_or(Ok(()), |rule| Err(rule.to_string()))
}

/// Returns the addresses of the server's UDP ports, in order.
pub fn targets(config: &LoadConfig) -> Result<Vec<SocketAddr>, String> {
    let target = config
        .target
        .ip()
        .ok_or("workload.transport: datagrams need an address with a port; a Unix socket is a stream")?;
    let count = config.connections;
    let ports = match &config.ports {
        Some(ports) if ports.count() == count => ports.clone(),
        Some(ports) => {
            return Err(format!("workload.ports: {ports} lists {} ports, not {count}; list each port", ports.count()));
        }
        None => Ports::consecutive(target.port(), count).ok_or_else(|| {
            let first = target.port();
            format!("workload.ports: {count} ports do not fit above {first}; use fewer, or a lower first port")
        })?,
    };
    Ok(ports.iter().map(|port| SocketAddr::new(target.ip(), port)).collect())
}

#[cfg(test)]
mod tests {
    use wire::Address;
    use wire::stream::{Direction, Stream};

    use super::*;
    use crate::config::{
        HttpTarget, HttpTraffic, KvTraffic, Pace, RateProfile, RequestTimeout, Schedule, Think, TlsConfig, Trace,
    };

    #[test]
    fn each_rule_has_a_key_and_a_reason() {
        for rule in RULES {
            let (section, key) = rule.key.split_once('.').expect(rule.key);
            assert!(["workload", "client", "phases"].contains(&section) && !key.is_empty(), "{rule}");
            assert!(!rule.reason.is_empty() && !rule.reason.ends_with('.'), "{rule}");
        }
    }

    #[test]
    fn invalid_configuration_is_rejected_with_its_key() {
        let zipf = |exponent| Popularity::Zipf { exponent };
        let load = |service| LoadConfig::new(([127, 0, 0, 1], 80), service);
        let as_datagrams = |it: &mut LoadConfig| it.the_loop = Loop::Datagrams(it.requests().unwrap().clone());
        let sessions = |requests_per_connection| {
            let pace = Pace::new(Schedule::Poisson, 1.0);
            move |it: &mut LoadConfig| it.the_loop = Loop::Sessions { requests_per_connection, pace }
        };
        let closed =
            |pipeline| move |it: &mut LoadConfig| it.the_loop = Loop::Closed { think: Think::default(), pipeline };
        let profiled = |profile| move |it: &mut LoadConfig| it.pace_mut().unwrap().rate_profile = Some(profile);
        let active = |share| move |it: &mut LoadConfig| it.requests_mut().unwrap().active = share;
        let popular = |exponent| move |it: &mut LoadConfig| it.requests_mut().unwrap().popularity = zipf(exponent);
        let fixed = |request_bytes| load(ServiceSpec::Fixed { request_bytes, response_bytes: 1 });
        let open = fixed(1);
        let looped = open.clone().with(closed(1));
        let measure_ns = open.phases.measure_ns;
        let steps = RateProfile::constant(1.0, measure_ns);
        let trace = Trace {
            file: "x.csv".into(),
            from_ns: 0,
            length_ns: measure_ns,
            speed: 1.0,
            requests: 10,
            has_connections: true,
            sizes: Vec::new(),
        };
        let replay_of = |trace| open.clone().with(|it| it.requests_mut().unwrap().trace = Some(trace));
        let replay = replay_of(trace.clone());
        let varied = open.clone().with(profiled(steps));
        let churn = open.clone().with(sessions(1));
        let without_overlap = |it: &mut LoadConfig| match &mut it.the_loop {
            Loop::Open { no_overlap, .. } => *no_overlap = true,
            _ => unreachable!(),
        };
        let free = open.clone().with(without_overlap);
        let unix = open.clone().with(|it| it.target = Address::Unix("x".into()));
        let udp = |ports, request_bytes| {
            load(ServiceSpec::Udp { ports, request_bytes, response_bytes: 8 }).with(|it| it.connections = 2)
        };
        let datagrams = udp(2, 8);
        let sizes =
            Stream { packet_bytes: 1_000, packets: 100, ack_bytes: 8, direction: Direction::In, by_packet: false };
        let stream_of = |sizes| load(ServiceSpec::Stream(sizes));
        let stream = stream_of(sizes);
        let traffic =
            KvTraffic { records: 1, value_bytes_min: 1, value_bytes_max: 9, get_share: 0.9, keys: Popularity::Uniform };
        let service = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
        let kv = load(service).with(|it| it.kv = Some(traffic.clone()));
        let kv_of = |traffic| kv.clone().with(|it| it.kv = Some(traffic));
        let target = HttpTarget::get("/", None);
        let weightless = HttpTarget { weight: 0, ..target.clone() };
        let pages = HttpTraffic::new(vec![target.clone()]);
        let http_of = |pages| load(ServiceSpec::HTTP).with(|it| it.http = Some(pages));
        let http = http_of(pages.clone());
        let tls = Some(TlsConfig::default());
        let timeout = RequestTimeout { timeout_ns: 1, retries: 0, retry_budget: None };
        let retries = RequestTimeout { retries: 1, ..timeout };
        let with = |load: &LoadConfig, it| {
            let requests = load.requests().unwrap().clone();
            load.clone()
                .with(|own| own.the_loop = Loop::Open { requests, request_timeout: Some(it), no_overlap: false })
        };
        assert_eq!(check(&with(&open, RequestTimeout { retry_budget: Some(0.1), ..retries })), Ok(()));
        for valid in [&open, &varied, &replay, &free, &looped, &churn, &unix, &datagrams, &stream, &kv, &http] {
            assert_eq!(check(valid), Ok(()), "{valid:?}");
        }
        let rows = [
            (open.clone().with(|it| it.client.clients = 0), "client.clients"),
            (open.clone().with(|it| it.client.clients = 401), "client.clients"),
            (open.clone().with(|it| it.set_rate(Some(0.0))), "workload.rate"),
            (open.clone().with(|it| it.set_rate(Some(f64::NAN))), "workload.rate"),
            (open.clone().with(|it| it.set_rate(Some(f64::INFINITY))), "workload.rate"),
            (open.clone().with(|it| it.set_rate(Some(f64::MAX))), "workload.rate"),
            (open.clone().with(|it| it.set_rate(Some(1e15))), "workload.rate"),
            (open.clone().with(profiled(RateProfile::constant(0.0, measure_ns))), "workload.rate-profile"),
            (open.clone().with(profiled(RateProfile::constant(1.0, 1))), "phases.measure"),
            (replay_of(Trace { speed: f64::NAN, ..trace.clone() }), "workload.trace.speed"),
            (replay_of(Trace { speed: 1e300, ..trace.clone() }), "workload.trace.speed"),
            (replay_of(Trace { speed: 2.0, ..trace }), "phases.measure"),
            (open.clone().with(active(0.0)), "workload.active"),
            (open.clone().with(active(f64::NAN)), "workload.active"),
            (open.clone().with(popular(-1.0)), "workload.popularity"),
            (open.clone().with(popular(f64::INFINITY)), "workload.popularity"),
            (fixed(0), "workload.service"),
            (fixed(70_000).with(as_datagrams), "workload.transport"),
            (load(ServiceSpec::HTTP), "workload.http"),
            (http_of(HttpTraffic { targets: Vec::new(), ..pages.clone() }), "workload.http"),
            (http_of(HttpTraffic { targets: vec![weightless], ..pages.clone() }), "workload.http.requests"),
            (
                open.clone().with(|it| (it.client.timestamps, it.client.tls) = (Timestamps::Kernel, tls.clone())),
                "client.timestamps",
            ),
            (datagrams.clone().with(|it| it.client.tls = tls.clone()), "workload.tls"),
            (stream.clone().with(|it| it.client.tls = tls), "workload.tls"),
            (http_of(HttpTraffic { targets: vec![target; REQUESTS_MAX + 1], ..pages }), "workload.http.requests"),
            (open.clone().with(|it| it.client.timeout_ns = 0), "client.timeout"),
            (with(&open, RequestTimeout { timeout_ns: 0, ..timeout }), "client.request-timeout"),
            (with(&open, RequestTimeout { retries: 11, ..timeout }), "client.retries"),
            (with(&open, RequestTimeout { retry_budget: Some(f64::NAN), ..retries }), "client.retry-budget"),
            (with(&open, retries).with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (with(&open, retries).with(active(0.5)), "client.retries"),
            (with(&open, retries).with(without_overlap), "workload.no-overlap"),
            (replay.clone().with(without_overlap), "workload.no-overlap"),
            (free.clone().with(|it| it.client.roles = Roles::TwoThreads), "workload.no-overlap"),
            (free.with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (open.clone().with(|it| it.phases.measure_ns = 0), "phases.measure"),
            (open.clone().with(active(0.0025)).with(|it| it.client.clients = 2), "client.clients"),
            (open.clone().with(popular(1.0)).with(|it| it.client.clients = 2), "workload.popularity"),
            (unix.clone().with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (unix.clone().with(as_datagrams), "workload.transport"),
            (kv.clone().with(as_datagrams), "workload.transport"),
            (kv.clone().with(|it| it.kv = None), "workload.kv"),
            (kv_of(KvTraffic { records: 0, ..traffic.clone() }), "workload.kv.records"),
            (kv_of(KvTraffic { value_bytes_min: 0, ..traffic.clone() }), "workload.kv.value-size"),
            (kv_of(KvTraffic { value_bytes_min: 10, ..traffic.clone() }), "workload.kv.value-size"),
            (kv_of(KvTraffic { get_share: f64::NAN, ..traffic.clone() }), "workload.kv.get-share"),
            (kv_of(KvTraffic { get_share: 1.1, ..traffic.clone() }), "workload.kv.get-share"),
            (kv_of(KvTraffic { keys: zipf(0.0), ..traffic.clone() }), "workload.kv.keys"),
            (kv_of(KvTraffic { keys: zipf(f64::NAN), ..traffic }), "workload.kv.keys"),
            (open.clone().with(|it| it.set_rate(None)), "workload.rate"),
            (looped.with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (open.clone().with(closed(0)), "workload.pipeline"),
            (open.clone().with(closed(1_025)), "workload.pipeline"),
            (open.clone().with(|it| it.the_loop = Loop::Stream), "workload.schedule"),
            (open.with(sessions(0)), "workload.requests-per-connection"),
            (churn.with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (datagrams.clone().with(|it| it.connections = 3), "workload.connections"),
            (udp(3, 8), "workload.connections"),
            (udp(2, 7), "workload.request"),
            (
                datagrams
                    .clone()
                    .with(|it| it.service = ServiceSpec::Udp { ports: 2, request_bytes: 8, response_bytes: 7 }),
                "workload.response",
            ),
            (datagrams.clone().with(|it| it.client.timestamps = Timestamps::Kernel), "client.timestamps"),
            (datagrams.clone().with(closed(1)), "workload.schedule"),
            (datagrams.clone().with(|it| it.target = Address::Unix("x".into())), "workload.transport"),
            (datagrams.clone().with(|it| it.ports = Some(Ports::list(&[7_000]))), "workload.ports"),
            (datagrams.with(|it| it.target = ([127, 0, 0, 1], 65_535).into()), "workload.ports"),
            (stream_of(Stream { packets: 0, ..sizes }), "workload.stream"),
            (stream_of(Stream { ack_bytes: 0, ..sizes }), "workload.stream"),
            (stream.clone().with(closed(1)), "workload.schedule"),
            (stream.with(|it| it.phases.cool_down_ns = 0), "phases.cool-down"),
        ];
        for (wrong, key) in &rows {
            let error = check(wrong).unwrap_err();
            assert!(error.starts_with(&format!("{key}: ")), "{key}: {error}");
        }
        let is_broken = |rule: &&Rule| {
            rows.iter().any(|(wrong, _)| broken(wrong).is_some_and(|it| it.reason == rule.reason && it.key == rule.key))
        };
        // The kernel timestamps of other systems cannot be tested on Linux.
        let untested = RULES.iter().filter(|rule| !is_broken(rule) && !rule.reason.contains("SO_TIMESTAMPING"));
        assert_eq!(untested.map(Rule::to_string).collect::<Vec<_>>(), [""; 0]);
    }
}
