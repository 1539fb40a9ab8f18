//! The network of an experiment: `[network]`, or the flags of `compare` and `lab`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::units::{Bandwidth, Loss, Size, Time};

/// The maximum number of client hosts. Each host has a block of addresses.
pub const CLIENTS_MAX: u32 = 250;
/// The maximum loss. Above it, many connections cannot be established.
const LOSS_MAX: Loss = Loss(0.5);
const DELAY_MAX: Time = Time(10_000_000_000);
/// The minimum bandwidth. A lower one cannot be measured.
const BANDWIDTH_MIN: Bandwidth = Bandwidth(64_000);
/// The minimum burst: two packets with all headers, rounded up.
const BURST_MIN: Size = Size(3_072);

/// A lab on this machine: hosts for the server and the clients, and the conditions of the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Network {
    /// The number of client hosts.
    pub clients: NonZeroU32,
    /// Whether the server's interface has NAPI, so that it can be polled. Packets then cross the lab as over a network card, with
    /// the kernel's processing for each poll. Busy polling sets this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub napi: bool,
    /// The one-way delay of each packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub delay: Time,
    /// The maximum deviation of a packet's delay from `delay`, in either direction.
    #[serde(skip_serializing_if = "is_zero")]
    pub jitter: Time,
    /// The share of packets lost in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// The maximum send rate of each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// The bytes that an idle host can send at once before `bandwidth` limits it. By default, the bytes that pass in 1
    /// ms, but at least two packets. If the burst has the size of one response, the next response waits as on a wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
}

fn is_zero(time: &Time) -> bool {
    time.0 == 0
}

impl Default for Network {
    /// Returns a network of one client host, without delay or loss.
    fn default() -> Self {
        let (clients, zero) = (NonZeroU32::MIN, Time(0));
        Self { clients, napi: false, delay: zero, jitter: zero, loss: None, bandwidth: None, burst: None }
    }
}

impl FromStr for Network {
    type Err = String;

    /// Parses the value of `--network`: `lab`, or `lab:clients=5`, each also with `:napi`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, napi) = text.strip_suffix(":napi").map_or((text, false), |rest| (rest, true));
        let clients = match rest.split_once(':') {
            None if rest == "lab" => Some(NonZeroU32::MIN),
            Some(("lab", rest)) => rest.strip_prefix("clients=").and_then(|count| count.parse().ok()),
            _ => None,
        };
        let clients: NonZeroU32 = clients.ok_or_else(|| {
            format!("invalid network `{text}`: expected lab, or a number of client hosts such as lab:clients=5, each also with :napi")
        })?;
        if clients.get() > CLIENTS_MAX {
            return Err(format!("{clients} client hosts exceed the limit of {CLIENTS_MAX}; lower their number"));
        }
        Ok(Self { clients, napi, ..Self::default() })
    }
}

impl Network {
    /// Checks the limits of each key. An error begins with the key, as `delay: ...`.
    pub fn check(&self) -> Result<(), String> {
        let Self { clients, napi: _, delay, jitter, loss, bandwidth, burst } = self;
        Err(match (loss, bandwidth, burst) {
            _ if clients.get() > CLIENTS_MAX => {
                format!("clients: {clients} exceeds the limit of {CLIENTS_MAX} client hosts; lower it")
            }
            _ if *delay > DELAY_MAX => format!("delay: {delay} exceeds the limit of {DELAY_MAX}; lower it"),
            _ if jitter > delay => format!(
                "jitter: {jitter} exceeds the delay of {delay}: packets would arrive before they are sent; lower it, or raise \
                 the delay"
            ),
            (Some(loss), ..) if loss.0 > LOSS_MAX.0 => {
                format!("loss: {loss} exceeds the limit of {LOSS_MAX}, above which many connections fail; lower it")
            }
            (_, Some(bandwidth), _) if *bandwidth < BANDWIDTH_MIN => {
                format!("bandwidth: {bandwidth} is too low to be measured; raise it to at least {BANDWIDTH_MIN}")
            }
            (_, None, Some(_)) => "burst: there is no bandwidth to exceed; add a bandwidth, or remove the burst".into(),
            (.., Some(burst)) if burst.0 < BURST_MIN.0 => {
                format!("burst: {burst} is less than two packets; raise it to at least {BURST_MIN}")
            }
            _ => return Ok(()),
        })
    }

    /// Returns the flags for this network, such as `--network lab:clients=5 --delay 1ms`.
    pub fn flags(&self) -> String {
        let mut flags = match self.clients.get() {
            1 => "--network lab".to_owned(),
            clients => format!("--network lab:clients={clients}"),
        };
        flags += if self.napi { ":napi" } else { "" };
        let time = |time: Time| (time.0 > 0).then(|| time.to_string());
        for (flag, value) in [
            ("delay", time(self.delay)),
            ("jitter", time(self.jitter)),
            ("loss", self.loss.map(|loss| loss.to_string())),
            ("bandwidth", self.bandwidth.map(|bandwidth| bandwidth.to_string())),
            ("burst", self.burst.map(|burst| burst.to_string())),
        ] {
            flags.extend(value.map(|value| format!(" --{flag} {value}")));
        }
        flags
    }
}

impl fmt::Display for Network {
    /// Writes the network for titles, such as `in a lab, 1ms each way`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clients.get() {
            1 => write!(f, "in a lab")?,
            clients => write!(f, "in a lab of {clients} client hosts")?,
        }
        if self.napi {
            write!(f, " with NAPI")?;
        }
        if self.delay.0 > 0 {
            write!(f, ", {}", self.delay)?;
            if self.jitter.0 > 0 {
                write!(f, " ± {}", self.jitter)?;
            }
            write!(f, " each way")?;
        }
        if let Some(loss) = self.loss {
            write!(f, ", {} % lost each way", (loss.0 * 1e6).round() / 1e4)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn network(delay: &str, jitter: &str) -> Network {
        Network { delay: delay.parse().unwrap(), jitter: jitter.parse().unwrap(), ..Network::default() }
    }

    #[test]
    fn network_flag_is_parsed() {
        assert_eq!("lab".parse(), Ok(Network::default()));
        assert_eq!("lab:clients=5".parse::<Network>().unwrap().clients.get(), 5);
        for name in ["lab:napi", "lab:clients=5:napi"] {
            let network: Network = name.parse().unwrap();
            assert!(network.napi && network.flags() == format!("--network {name}"), "{network:?}");
        }
        for wrong in ["", "Lab", "lab:", "lab:5", "lab:clients=0", "lab:clients=-1", "lab:servers=2", "loopback"] {
            let error = wrong.parse::<Network>().unwrap_err();
            assert!(error.contains("lab:clients=5"), "{wrong}: {error}");
        }
        assert!("lab:clients=250".parse::<Network>().is_ok());
        let error = "lab:clients=251".parse::<Network>().unwrap_err();
        assert_eq!(error, "251 client hosts exceed the limit of 250; lower their number");
    }

    #[test]
    fn value_outside_its_limits_is_rejected_by_key() {
        assert_eq!(network("10ms", "10ms").check(), Ok(()));
        let loss = |share| Some(Loss(share));
        let wrong = [
            ("jitter", network("1ms", "2ms")),
            ("delay", network("1min", "0")),
            ("clients", Network { clients: NonZeroU32::new(251).unwrap(), ..Network::default() }),
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
    fn network_is_displayed_and_read_back_from_toml() {
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
    fn loss_without_unit_is_read_only_from_old_runs() {
        for bare in ["loss = 0.1", "loss = \"0.1\"", "loss = 1"] {
            let error = toml::from_str::<Network>(bare).unwrap_err().to_string();
            assert!(error.contains("0.1% or 1/1000"), "{bare}: {error}");
        }
    }
}
