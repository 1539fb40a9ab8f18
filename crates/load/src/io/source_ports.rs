//! The source addresses of a load: several if one has too few local ports.
//!
//! Each connection to a target uses a port of its source address. If the client closes first, the port stays in TIME_WAIT for a
//! minute (Linux: `TCP_TIMEWAIT_LEN`). With `net.ipv4.tcp_tw_reuse`, the system may reuse the port after a second.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::{LoadConfig, Transport};

/// The length of TIME_WAIT, in seconds (include/net/tcp.h).
const TIME_WAIT_S: f64 = 60.0;
/// The length of TIME_WAIT with reuse, in seconds, if the system does not report it.
const REUSE_DELAY_S: f64 = 1.0;
/// The largest share of an address's ports that a load uses: a free port takes long to find when few are left.
const USED_SHARE_MAX: f64 = 0.9;
/// The assumed new connections per second of a closed loop, whose rate is unknown. No measured machine opened as many.
const CLOSED_OPENED_PER_S: f64 = 60_000.0;
/// The range of ports if the system does not report it.
const PORTS: (u32, u32) = (32_768, 60_999);

/// Returns the source addresses to use in turn; an empty list leaves the choice to the system.
pub fn sources(config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
    sources_in(config, |ports| sources_with(config, ports))
}

/// Like [`sources`]. `choose` returns the source addresses, given the number of ports per address.
pub fn sources_in(
    config: &LoadConfig,
    choose: impl FnOnce(u32) -> Result<Vec<IpAddr>, String>,
) -> Result<Vec<IpAddr>, String> {
    if !config.sources.is_empty() {
        return Ok(config.sources.clone());
    }
    let (start, end) = port_range();
    choose(end.saturating_sub(start) + 1)
}

/// Like [`sources`], for a given number of ports per address.
pub fn sources_with(config: &LoadConfig, ports: u32) -> Result<Vec<IpAddr>, String> {
    let Some(target) = config.target.ip() else { return Ok(Vec::new()) };
    sources_among(config, ports, time_wait_s(target.ip()), || addresses(target))
}

/// Like [`sources`], for a given length of TIME_WAIT and given addresses, best first.
pub fn sources_among(
    config: &LoadConfig,
    ports: u32,
    time_wait_s: f64,
    addresses: impl FnOnce() -> Vec<IpAddr>,
) -> Result<Vec<IpAddr>, String> {
    // Most loads do not need the list of addresses.
    match config.transport() != Transport::Tcp || needed(config, time_wait_s) <= f64::from(ports) * USED_SHARE_MAX {
        true => Ok(Vec::new()),
        false => divide(config, ports, time_wait_s, addresses()),
    }
}

/// Returns the new connections per second; for a closed loop, an upper bound.
fn opened_per_s(config: &LoadConfig) -> f64 {
    match config.requests_per_connection() {
        None => 0.0,
        Some(_) if config.is_closed() => CLOSED_OPENED_PER_S,
        Some(requests) => config.rate_per_s().unwrap_or(0.0) / f64::from(requests.max(1)),
    }
}

/// Returns the largest number of ports that a load uses at once, for a given length of TIME_WAIT.
pub fn needed(config: &LoadConfig, time_wait_s: f64) -> f64 {
    // Connections from before the ramp leave no TIME_WAIT.
    let lasts_s = time_wait_s.min((config.phases.sending_ns() + config.phases.cool_down_ns) as f64 / 1e9);
    f64::from(config.connections_and_idle()) + opened_per_s(config) * lasts_s
}

/// Returns as many of `sources` as the load needs.
fn divide(config: &LoadConfig, ports: u32, time_wait_s: f64, mut sources: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    let needed = needed(config, time_wait_s);
    let wanted = (needed / (f64::from(ports) * USED_SHARE_MAX)).ceil() as usize;
    let had = sources.len();
    sources.truncate(wanted);
    if wanted <= had {
        return Ok(sources);
    }
    let open = config.connections_and_idle();
    let enough = (had.max(1) as f64) * f64::from(ports);
    // A closed loop opens an unknown number of connections; only the number open at once is certain.
    let certain = if config.is_closed() { f64::from(open) } else { needed };
    if certain <= enough {
        return Ok(sources);
    }
    let opened = match opened_per_s(config) {
        0.0 => String::new(),
        per_s => format!(" and {per_s:.0} new ones per second, each {time_wait_s:.0} s in TIME_WAIT,"),
    };
    let remedy = config
        .requests_per_connection()
        .map_or("", |_| "raise the requests per connection, set net.ipv4.tcp_tw_reuse=1, ");
    Err(format!(
        "connections: {open} open at once{opened} take {needed:.0} local ports towards {}, but {} {enough:.0} \
         (net.ipv4.ip_local_port_range: {} per address); widen that range, {remedy}give the interface more addresses, or lower \
         the {}",
        config.target,
        if had <= 1 {
            "the one address of this host has".to_owned()
        } else {
            format!("the {had} addresses of this host have")
        },
        ports,
        if opened_per_s(config) > 0.0 { "rate" } else { "connections" },
    ))
}

/// The length of TIME_WAIT for connections to `target`, in seconds.
fn time_wait_s(target: IpAddr) -> f64 {
    let number = |name: &str| -> Option<f64> {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?.trim().parse().ok()
    };
    let reuses = match number("tcp_tw_reuse") {
        Some(1.0) => true,
        // 2 enables reuse only on loopback.
        Some(2.0) => target.is_loopback(),
        _ => false,
    };
    // Reuse needs TCP timestamps, which distinguish the connections.
    if reuses && number("tcp_timestamps") != Some(0.0) {
        number("tcp_tw_reuse_delay").map_or(REUSE_DELAY_S, |ms| ms / 1e3)
    } else {
        TIME_WAIT_S
    }
}

/// Returns the first and the last port that the system chooses from.
fn port_range() -> (u32, u32) {
    let read = || {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
        let (start, end) = text.trim().split_once(char::is_whitespace)?;
        Some((start.parse().ok()?, end.trim().parse().ok()?))
    };
    read().unwrap_or(PORTS)
}

/// Returns the source addresses with a route to `target`, best first.
fn addresses(target: SocketAddr) -> Vec<IpAddr> {
    match target.ip() {
        // All of 127.0.0.0/8 is this host.
        IpAddr::V4(target) if target.is_loopback() && cfg!(target_os = "linux") => {
            (1..=250).map(|last| Ipv4Addr::new(127, 0, 0, last).into()).collect()
        }
        #[cfg(target_os = "linux")]
        _ => crate::io::interface::addresses_towards(target).unwrap_or_default(),
        #[cfg(not(target_os = "linux"))]
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Loop, Pace, Phases, Schedule, Think};

    fn config(connections: u32, requests: Option<u32>, rate_per_s: f64) -> LoadConfig {
        let phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 600_000_000_000, cool_down_ns: 0 };
        LoadConfig::small(([127, 0, 0, 1], 80)).with(|it| {
            it.connections = connections;
            let pace = Pace::new(Schedule::SlotRandom, rate_per_s);
            it.the_loop = match requests {
                Some(requests_per_connection) => Loop::Sessions { requests_per_connection, pace },
                None => Loop::open(pace),
            };
            it.phases = phases;
        })
    }

    fn divide(config: &LoadConfig, time_wait_s: f64, sources: u8) -> Result<Vec<IpAddr>, String> {
        let sources = (1..=sources).map(|last| Ipv4Addr::new(10, 0, 0, last).into()).collect();
        super::divide(config, 28_232, time_wait_s, sources)
    }

    #[test]
    fn needed_ports_include_time_wait() {
        assert_eq!(needed(&config(400, None, 8_000.0), 60.0), 400.0);
        assert_eq!(needed(&config(400, Some(10), 8_000.0), 60.0), 48_400.0);
        let short = config(400, Some(1), 8_000.0)
            .with(|it| it.phases = Phases { measure_ns: 3_000_000_000, ..config(1, None, 1.0).phases });
        assert_eq!(needed(&short, 60.0), 24_400.0, "a trial of 3 s has 3 s of TIME_WAIT");
    }

    #[test]
    fn several_addresses_are_used_if_one_lacks_ports() {
        assert_eq!(sources(&config(400, Some(1), 8_000.0)), Ok(vec![]), "the system chooses the address");
        assert_eq!(divide(&config(100_000, None, 1.0), 60.0, 250).unwrap().len(), 4);
        assert_eq!(
            divide(&config(28_000, None, 1.0), 60.0, 1).unwrap().len(),
            1,
            "the only address provides all of its ports"
        );
        assert_eq!(divide(&config(400, Some(1), 8_000.0), 60.0, 250).unwrap().len(), 19);
        let closed = config(400, Some(1), 1.0)
            .with(|it| it.the_loop = Loop::ClosedSessions { requests_per_connection: 1, think: Think::default() });
        assert_eq!(divide(&closed, 60.0, 3).unwrap().len(), 3, "a closed loop with an unknown need uses all addresses");
    }

    #[test]
    fn missing_ports_are_reported_with_numbers() {
        let why = divide(&config(100_000, None, 1.0), 60.0, 1).unwrap_err();
        assert!(why.contains("100000 open at once take 100000 local ports towards 127.0.0.1:80"), "{why}");
        assert!(why.contains("the one address of this host has 28232") && !why.contains("TIME_WAIT"), "{why}");
        let why = divide(&config(400, Some(1), 8_000.0), 60.0, 2).unwrap_err();
        assert!(
            why.contains("400 open at once and 8000 new ones per second, each 60 s in TIME_WAIT, take 480400"),
            "{why}"
        );
        assert!(why.contains("net.ipv4.tcp_tw_reuse=1") && why.ends_with("or lower the rate"), "{why}");
    }

    #[test]
    fn loopback_addresses_and_port_range_are_valid() {
        let all = addresses((Ipv4Addr::LOCALHOST, 9).into());
        assert!(all.iter().all(IpAddr::is_loopback) && !all.is_empty(), "{all:?}");
        let (start, end) = port_range();
        assert!(start > 0 && end >= start);
        assert!(time_wait_s(Ipv4Addr::LOCALHOST.into()) <= TIME_WAIT_S);
    }
}
