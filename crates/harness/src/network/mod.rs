//! A lab: hosts on this machine, one of the server and one of each client, and what the network between them does to packets.
//!
//! A host is a network namespace without a name: a descriptor of ours keeps it, and the processes in it. When we end, however
//! we end, so do they, and with the last of them the namespace and all its interfaces go.
//!
//! # Layout
//! - here: what the user says, the hosts' addresses, and what is stored
//! - [`conditions`]: by which means it can be had here, and what tc(8) and nft(8) are told
//! - `namespace`: makes hosts, and puts processes into them
//! - [`relay`]: the process that holds packets where the kernel has no netem
//! - [`lab`]: all of that together; `probe`: what it really does
//! - [`surrounding`]: a lab that is kept for a command, which runs on its hosts

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "elsewhere there are no links to be told"))]
pub mod conditions;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
pub mod lab;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
pub mod relay;
pub mod surrounding;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::str::FromStr;

use load::LoadConfig;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use wire::Address;

pub use conditions::Applied;
pub use lab::{Host, Lab};

use crate::transport::Transport;
use crate::units::{Bandwidth, Loss, Size, Time};

/// Most clients' hosts: each has a block of addresses of its own.
pub const CLIENTS_MAX: u32 = 250;
/// More than this lost, and connections do not come about.
const LOSS_MAX: Loss = Loss(0.5);
/// A packet is held no longer.
const DELAY_MAX: Time = Time(10_000_000_000);
/// Less, and not even the probes get through.
const BANDWIDTH_MIN: Bandwidth = Bandwidth(64_000);
/// Two packets with all their headers, rounded up.
const BURST_MIN: Size = Size(3_072);
/// Addresses of one host to connect from.
const ADDRESSES: u8 = 254;
/// How long a port stays in TIME_WAIT between hosts of a lab, in seconds: `tcp_tw_reuse` is set there.
const TIME_WAIT_S: f64 = 1.0;

/// A lab on this machine: hosts, and what happens to packets between any two of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Network {
    /// Clients' hosts, besides the server's.
    #[serde(default = "one")]
    pub clients: NonZeroU32,
    /// How long each packet is on its way, each way.
    #[serde(default = "no_time", skip_serializing_if = "is_no_time")]
    pub delay: Time,
    /// By how much a packet may be earlier or later than the delay, at most.
    #[serde(default = "no_time", skip_serializing_if = "is_no_time")]
    pub jitter: Time,
    /// The share of packets that are lost, each way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// What each host can send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// What a host that was silent sends at once, before the bandwidth holds it back; without it, what passes in 1 ms. With as
    /// much as one response, each that follows at once waits as on a wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn no_time() -> Time {
    Time(0)
}

fn is_no_time(time: &Time) -> bool {
    time.0 == 0
}

impl Default for Network {
    /// One client's host, and packets that arrive at once.
    fn default() -> Self {
        Self { clients: one(), delay: no_time(), jitter: no_time(), loss: None, bandwidth: None, burst: None }
    }
}

impl FromStr for Network {
    type Err = String;

    /// As a flag has it: `lab`, or `lab:clients=5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let clients = match text.split_once(':') {
            None if text == "lab" => Some(one()),
            Some(("lab", rest)) => rest.strip_prefix("clients=").and_then(|count| count.parse().ok()),
            _ => None,
        };
        let clients = clients.ok_or_else(|| {
            format!("`{text}` is no network; write it like lab, or lab:clients=5 for five clients' hosts")
        })?;
        Ok(Self { clients, ..Self::default() })
    }
}

impl Network {
    /// # Errors
    /// What makes no sense in it, as `delay: ...`.
    pub fn check(&self) -> Result<(), String> {
        if self.clients.get() > CLIENTS_MAX {
            return Err(format!("clients: a lab has at most {CLIENTS_MAX} clients' hosts, not {}", self.clients));
        }
        if self.delay > DELAY_MAX {
            return Err(format!("delay: a packet is held for at most {DELAY_MAX}, not {}; lower it", self.delay));
        }
        if self.jitter > self.delay {
            return Err(format!(
                "jitter: {} either way of a delay of {} would have packets arrive before they were sent; lower it, or \
                 raise the delay",
                self.jitter, self.delay
            ));
        }
        if let Some(loss) = self.loss.filter(|loss| loss.0 > LOSS_MAX.0) {
            return Err(format!(
                "loss: {loss} exceeds the limit of {LOSS_MAX}, beyond which nothing gets through; lower it"
            ));
        }
        if let Some(bandwidth) = self.bandwidth.filter(|bandwidth| *bandwidth < BANDWIDTH_MIN) {
            return Err(format!("bandwidth: {bandwidth} is too little to be measured; give at least {BANDWIDTH_MIN}"));
        }
        match (self.burst, self.bandwidth) {
            (Some(_), None) => return Err("burst: nothing holds a host back; give a bandwidth, or leave it out".into()),
            (Some(burst), _) if burst.0 < BURST_MIN.0 => {
                return Err(format!("burst: {burst} is not even two packets; give at least {BURST_MIN}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// As flags have it: `--network lab:clients=5 --delay 1ms`.
    pub fn flags(&self) -> String {
        let mut flags = match self.clients.get() {
            1 => "--network lab".to_owned(),
            clients => format!("--network lab:clients={clients}"),
        };
        let time = |time: Time| (time.0 > 0).then(|| time.to_string());
        let others = [
            ("delay", time(self.delay)),
            ("jitter", time(self.jitter)),
            ("loss", self.loss.map(|loss| loss.to_string())),
            ("bandwidth", self.bandwidth.map(|bandwidth| bandwidth.to_string())),
            ("burst", self.burst.map(|burst| burst.to_string())),
        ];
        for (flag, value) in others.into_iter().filter_map(|(flag, value)| Some((flag, value?))) {
            flags += &format!(" --{flag} {value}");
        }
        flags
    }

    /// Where the server listens, on a port that the kernel will choose.
    pub fn server_address(transport: Transport) -> Address {
        (address(0, transport == Transport::Tcp6, 1), 0).into()
    }

    /// Addresses that `config`'s connections come from in turn, those of the first client's host; none where the kernel can
    /// choose. `ports` is how many an address has.
    ///
    /// # Errors
    /// When even all of them have too few ports.
    pub fn sources(config: &LoadConfig, ports: u32) -> Result<Vec<IpAddr>, String> {
        let is_v6 = config.target.ip().is_some_and(|target| target.is_ipv6());
        let addresses = || (1..=ADDRESSES).map(|last| address(1, is_v6, last)).collect();
        load::ports::sources_among(config, ports, TIME_WAIT_S, addresses)
    }
}

/// A network as a stored run has it. Runs of version 0.1.0 hold a loss without its unit, as a fraction.
///
/// # Errors
/// Those of the stored text.
pub fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Network>, D::Error> {
    let mut value = Option::<serde_json::Value>::deserialize(deserializer)?;
    if let Some(loss) = value.as_mut().and_then(|network| network.get_mut("loss"))
        && let Some(bare) = loss.as_str().filter(|text| text.parse::<Loss>().is_err())
    {
        *loss = format!("{bare}/1").into();
    }
    value.map(|network| serde_json::from_value(network).map_err(D::Error::custom)).transpose()
}

impl fmt::Display for Network {
    /// In words, for titles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clients.get() {
            1 => write!(f, "in a lab")?,
            clients => write!(f, "in a lab of {clients} client hosts")?,
        }
        if self.delay.0 > 0 {
            write!(f, ", {}", self.delay)?;
            if self.jitter.0 > 0 {
                write!(f, " ± {}", self.jitter)?;
            }
            write!(f, " each way")?;
        }
        if let Some(loss) = self.loss {
            write!(f, ", {} lost each way", percent(loss.0))?;
        }
        if let Some(bandwidth) = self.bandwidth {
            write!(f, ", {bandwidth}/s")?;
        }
        if let Some(burst) = self.burst {
            write!(f, " after {burst} at once")?;
        }
        Ok(())
    }
}

/// A share, as short as it can be.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

/// The addresses of host `number`, of which 0 is the server: those set aside for measuring networks (RFC 2544, RFC 5180), so
/// that they can be taken for nothing else. `last` tells those of one host apart.
pub(crate) fn address(number: u32, is_v6: bool, last: u8) -> IpAddr {
    match is_v6 {
        false => Ipv4Addr::new(198, 18, number as u8, last).into(),
        true => Ipv6Addr::new(0x2001, 2, 0, number as u16, 0, 0, 0, last.into()).into(),
    }
}

/// The same addresses as `of_the_first` client's host, of another.
pub(crate) fn sources_of(host: u32, of_the_first: &[IpAddr]) -> Vec<IpAddr> {
    let last = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    of_the_first.iter().map(|ip| address(host, ip.is_ipv6(), last(ip))).collect()
}

/// What a network was in a trial: how it was made, and what it was seen to do right before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkReport {
    /// By which means.
    pub applied: Applied,
    /// How long the lab took to come up, in nanoseconds.
    pub setup_ns: u64,
    /// What was measured between the clients' hosts and the server's, before the trial.
    pub measured: Measured,
    /// What the relay did in the trial; `None` where there is none, or it did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<Account>,
}

/// What a relay did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Packets that were to be taken to a host.
    pub packets: u64,
    /// Those that were lost, as was asked.
    pub lost: u64,
    /// Those that were dropped, because too many were held, their host did not take them, or they waited in front of the relay
    /// and there was no more room.
    pub dropped: u64,
    /// How late packets were written, in nanoseconds: the median, ...
    pub late_p50_ns: u64,
    /// ...and the 99th percentile.
    pub late_p99_ns: u64,
}

/// What was measured of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Datagrams that came back, of the small ones that were sent to see how long that takes.
    pub round_trips: u32,
    /// Median time there and back, in nanoseconds.
    pub round_trip_p50_ns: u64,
    /// Its 99th percentile.
    pub round_trip_p99_ns: u64,
    /// The client's host, of several, that what follows is of: before each trial another's, in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// Datagrams sent one way to count those that arrive, both ways together.
    pub sent: u32,
    /// Those that did not arrive.
    pub lost: u32,
    /// Bits a second that arrived at the server and at the client, all headers included; `None` where the network has no
    /// bandwidth of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bits_per_s: Option<[f64; 2]>,
}

impl Measured {
    /// The share of datagrams that were lost, each way.
    pub fn loss(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.sent.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(delay: &str, jitter: &str) -> Network {
        Network { delay: delay.parse().unwrap(), jitter: jitter.parse().unwrap(), ..Network::default() }
    }

    #[test]
    fn a_flag_names_it() {
        assert_eq!("lab".parse(), Ok(Network::default()));
        assert_eq!("lab:clients=5".parse::<Network>().unwrap().clients.get(), 5);
        for wrong in ["", "Lab", "lab:", "lab:5", "lab:clients=0", "lab:clients=-1", "lab:servers=2", "loopback"] {
            let error = wrong.parse::<Network>().unwrap_err();
            assert!(error.contains("lab:clients=5"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        assert_eq!(network("10ms", "10ms").check(), Ok(()));
        let loss = |share| Some(Loss(share));
        let wrong = [
            ("jitter", network("1ms", "2ms")),
            ("delay", network("1min", "0")),
            ("clients", "lab:clients=251".parse().unwrap()),
            ("loss", Network { loss: loss(0.6), ..Network::default() }),
            ("bandwidth", Network { bandwidth: Some(Bandwidth(1_000)), ..Network::default() }),
            ("burst", Network { burst: Some(Size(65_536)), ..Network::default() }),
            (
                "burst",
                Network { bandwidth: Some(Bandwidth(1_000_000)), burst: Some(Size(1_514)), ..Network::default() },
            ),
        ];
        for (key, network) in wrong {
            let error = network.check().unwrap_err();
            assert!(error.starts_with(&format!("{key}: ")), "{error}");
        }
    }

    #[test]
    fn it_is_told_in_words_and_read_as_it_was_stored() {
        let all = Network {
            clients: NonZeroU32::new(5).unwrap(),
            loss: Some(Loss(0.001)),
            bandwidth: Some(Bandwidth(1_000_000_000)),
            burst: Some(Size(11 << 10)),
            ..network("10ms", "1ms")
        };
        let words = "in a lab of 5 client hosts, 10ms ± 1ms each way, 0.1 % lost each way, 1Gbit/s after 11KiB at once";
        assert_eq!(all.to_string(), words);
        assert_eq!(Network::default().to_string(), "in a lab");
        for network in [all, Network::default()] {
            let text = toml::to_string(&network).unwrap();
            assert_eq!(toml::from_str::<Network>(&text).unwrap(), network, "{text}");
        }
        assert_eq!(toml::from_str::<Network>("").unwrap(), Network::default());
    }

    #[test]
    fn loss_without_unit_is_refused_but_read_from_old_runs() {
        for bare in ["loss = 0.1", "loss = \"0.1\"", "loss = 1"] {
            let error = toml::from_str::<Network>(bare).unwrap_err().to_string();
            assert!(error.contains("0.1% or 1/1000"), "{bare}: {error}");
        }
        #[derive(Deserialize)]
        struct Stored(#[serde(deserialize_with = "stored")] Option<Network>);
        let loss = |json: &str| serde_json::from_str::<Stored>(json).unwrap().0.unwrap().loss;
        assert_eq!(loss(r#"{"loss": "0.025"}"#), Some(Loss(0.025)), "as version 0.1.0 wrote it");
        assert_eq!(loss(r#"{"loss": "1/1000"}"#), Some(Loss(0.001)));
        assert_eq!(loss(r#"{"loss": "2.5%"}"#), Some(Loss(0.025)));
        assert_eq!(loss(r#"{"clients": 2}"#), None);
    }

    #[test]
    fn no_two_hosts_share_an_address() {
        let mut all: Vec<IpAddr> = (0..=CLIENTS_MAX)
            .flat_map(|number| [false, true].map(|is_v6| (number, is_v6)))
            .flat_map(|(number, is_v6)| (1..=ADDRESSES).map(move |last| address(number, is_v6, last)))
            .collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(Network::server_address(Transport::Tcp).to_string(), "198.18.0.1:0");
        assert_eq!(Network::server_address(Transport::Tcp6).to_string(), "[2001:2::1]:0");
    }

    #[test]
    fn many_connections_come_from_many_addresses() {
        let service = wire::ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let config = |connections, transport| {
            let target = Network::server_address(transport);
            LoadConfig { connections, rate_per_s: Some(1.0), ..LoadConfig::new(target, service.clone()) }
        };
        assert_eq!(Network::sources(&config(100, Transport::Tcp), 28_000), Ok(Vec::new()));
        for transport in [Transport::Tcp, Transport::Tcp6] {
            let sources = Network::sources(&config(60_000, transport), 28_000).unwrap();
            assert_eq!(sources, [1, 2, 3].map(|last| address(1, transport == Transport::Tcp6, last)));
        }
    }
}
