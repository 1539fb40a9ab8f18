//! By which means a network's conditions can be had here, and the commands that make them so.

use crate::model::network::{Applied, Links, Means};
use crate::spec::network::Network;
use crate::spec::units::{Bandwidth, Time};

/// A packet with all its headers, as Ethernet has it.
const PACKET_BYTES: u64 = 1_514;
/// What a token bucket lets through at once: what comes in this time, in nanoseconds, ...
const BURST_NS: u64 = 1_000_000;
/// ...and what waits before it, at most, as in the buffer of a switch.
const QUEUE_NS: u64 = 50_000_000;
/// Packets that netem holds, at most: it drops what is beyond.
const NETEM_PACKETS: u32 = 1_000_000;

/// Bytes that the kernel counts of a packet besides what IP does: those of Ethernet, which a TUN device has not.
pub(crate) fn link_bytes(applied: &Applied) -> u64 {
    match applied.links {
        Links::Veth => 14,
        Links::Tun => 0,
    }
}

/// What tc(8) is told in each host, of its interface `device`.
pub(crate) fn tc(applied: &Applied, network: &Network, device: &str) -> String {
    let mut lines = String::new();
    let mut parent = "root handle 1:";
    let (delay, loss) = (applied.delay == Some(Means::Netem), applied.loss == Some(Means::Netem));
    if delay || loss {
        lines += &format!("qdisc add dev {device} {parent} netem limit {NETEM_PACKETS}");
        if delay {
            lines += &format!(" delay {}us", us(network.delay));
            if network.jitter.0 > 0 {
                lines += &format!(" {}us", us(network.jitter));
            }
        }
        if let Some(loss) = network.loss.filter(|_| loss) {
            lines += &format!(" loss {}%", loss.0 * 100.0);
        }
        lines += "\n";
        parent = "parent 1:1 handle 2:";
    }
    if let Some(bandwidth) = network.bandwidth.filter(|_| applied.bandwidth == Some(Means::Tbf)) {
        let (burst, queue) = (burst_bytes(network, bandwidth), bytes_in(bandwidth, QUEUE_NS).max(10 * PACKET_BYTES));
        let bits = bandwidth.0;
        lines += &format!("qdisc add dev {device} {parent} tbf rate {bits}bit burst {burst}b limit {queue}b\n");
    }
    lines
}

/// What nft(8) is told in each host: of what comes to it, for a packet that is dropped on its way out is an error of the
/// one who sends it.
pub(crate) fn nft(applied: &Applied, network: &Network, device: &str) -> String {
    let Some(loss) = network.loss.filter(|_| applied.loss == Some(Means::Nft)) else { return String::new() };
    let of_a_million = (loss.0 * 1e6).round().max(1.0);
    format!(
        "add table inet muxbench\n\
         add chain inet muxbench input {{ type filter hook input priority 0; }}\n\
         add rule inet muxbench input iifname \"{device}\" numgen random mod 1000000 < {of_a_million} drop\n"
    )
}

/// In microseconds, as tc(8) reads them.
fn us(time: Time) -> f64 {
    time.0 as f64 / 1e3
}

/// Bytes that pass in a time, at a bandwidth.
fn bytes_in(bandwidth: Bandwidth, ns: u64) -> u64 {
    (u128::from(bandwidth.0) * u128::from(ns) / 8_000_000_000) as u64
}

/// What a network's token bucket lets through at once.
pub(crate) fn burst_bytes(network: &Network, bandwidth: Bandwidth) -> u64 {
    network.burst.map_or_else(|| bytes_in(bandwidth, BURST_NS).max(2 * PACKET_BYTES), |burst| burst.0.into())
}

/// What there is on this host: each with why not, and what may help.
#[derive(Clone, Debug)]
pub struct Found {
    /// Hosts of their own.
    pub namespaces: Result<(), String>,
    /// Pairs of veth devices, and a bridge.
    pub veth: Result<(), String>,
    /// TUN devices.
    pub tun: Result<(), String>,
    /// netem.
    pub netem: Result<(), String>,
    /// TBF.
    pub tbf: Result<(), String>,
    /// nftables, with random numbers.
    pub nft: Result<(), String>,
}

/// Chooses how to make a network of what there is: the kernel's own means where it has them.
///
/// # Errors
/// Every reason why it cannot be made: cause and remedy, each with its key.
pub fn choose(network: &Network, found: &Found) -> Result<Applied, Vec<String>> {
    if let Err(reason) = &found.namespaces {
        return Err(vec![format!("network: {reason}")]);
    }
    let (has_delay, loss) = (network.delay.0 > 0, network.loss);
    let mut reasons = Vec::new();
    let by_kernel = |is_asked: bool, means: &[(Means, &Result<(), String>)]| match is_asked {
        false => Ok(None),
        true => match means.iter().find(|(_, found)| found.is_ok()) {
            Some((means, _)) => Ok(Some(*means)),
            None => Err(means.iter().filter_map(|(_, found)| found.as_ref().err().cloned()).collect::<Vec<_>>()),
        },
    };
    let delay = by_kernel(has_delay, &[(Means::Netem, &found.netem)]);
    let dropped = by_kernel(loss.is_some(), &[(Means::Netem, &found.netem), (Means::Nft, &found.nft)]);
    let (links, delay, dropped) = match (delay, dropped, &found.veth) {
        (Ok(delay), Ok(dropped), Ok(())) => (Links::Veth, delay, dropped),
        _ if found.tun.is_ok() => (Links::Tun, has_delay.then_some(Means::Tun), loss.map(|_| Means::Tun)),
        (delay, dropped, veth) => {
            let tun = found.tun.as_ref().err().cloned().unwrap_or_default();
            if let Err(veth) = veth {
                reasons.push(format!("network: {veth}; and {tun}"));
            }
            if let Err(without) = delay {
                reasons.push(format!("network.delay: {}; and {tun}; or do without", without.join("; ")));
            }
            if let Err(without) = dropped {
                reasons.push(format!("network.loss: {}; and {tun}; or do without", without.join("; ")));
            }
            return Err(reasons);
        }
    };
    let bandwidth = match (&network.bandwidth, &found.tbf) {
        (None, _) => None,
        (Some(_), Ok(())) => Some(Means::Tbf),
        (Some(bandwidth), Err(reason)) => {
            return Err(vec![format!("network.bandwidth: {bandwidth} needs TBF: {reason}; or do without")]);
        }
    };
    Ok(Applied { links, delay, loss: dropped, bandwidth })
}

#[cfg(not(target_os = "linux"))]
impl Found {
    /// Nothing: this is not Linux.
    pub fn here() -> Self {
        let no = || Err("a lab needs Linux; leave the network out".to_owned());
        Self { namespaces: no(), veth: no(), tun: no(), netem: no(), tbf: no(), nft: no() }
    }
}

#[cfg(target_os = "linux")]
impl Found {
    /// Tries everything in a host of its own, which is gone afterwards.
    pub fn here() -> Self {
        use super::namespace::{Namespace, Tool};

        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => {
                let no =
                    || Err(format!("a lab needs hosts of its own, and the kernel allows none ({error}); run as root"));
                return Self { namespaces: no(), veth: no(), tun: no(), netem: no(), tbf: no(), nft: no() };
            }
        };
        let try_it = |tool, commands: &str| namespace.tell(tool, commands).map_err(|error| format!("{error:#}"));
        let ip = try_it(Tool::Ip, "link set lo up\n");
        let veth = try_it(
            Tool::Ip,
            "link add name muxa type veth peer name muxb\nlink add name muxc type bridge\nlink set muxa master muxc\n",
        );
        let tc = |commands: &str| try_it(Tool::Tc, commands).and(try_it(Tool::Tc, "qdisc del dev lo root\n"));
        let netem = tc("qdisc add dev lo root netem delay 1000us 100us loss 1%\n");
        let tbf = tc("qdisc add dev lo root tbf rate 1000000bit burst 3028b limit 15140b\n");
        let without_netem = Applied { links: Links::Veth, delay: None, loss: Some(Means::Nft), bandwidth: None };
        let some = Network { loss: Some(crate::spec::units::Loss(0.5)), ..Network::default() };
        let nft = try_it(Tool::Nft, &nft(&without_netem, &some, "lo"));
        let tun = super::relay::open(&namespace, "muxd").map(drop).map_err(|error| {
            format!("a process that holds packets needs a TUN device ({error}); load the module (modprobe tun)")
        });
        let module = |reason: Result<(), String>, module: &str| {
            reason.map_err(|reason| format!("{reason}: this kernel may be without {module} (modprobe {module})"))
        };
        Self {
            namespaces: ip,
            veth: module(veth, "veth"),
            tun,
            netem: module(netem, "sch_netem"),
            tbf: module(tbf, "sch_tbf"),
            nft,
        }
    }
}

/// CPUs for the relay: those that neither side has, or the client's, as the server is what is measured.
#[cfg(target_os = "linux")]
pub(crate) fn relay_cpus(server: &[usize], client: &[usize]) -> Vec<usize> {
    let free = allowed_cpus().into_iter().filter(|cpu| !server.contains(cpu) && !client.contains(cpu));
    let free: Vec<usize> = free.collect();
    match (server, free.as_slice()) {
        // Placed nowhere.
        ([], _) => Vec::new(),
        (_, []) => client.to_vec(),
        _ => free,
    }
}

#[cfg(target_os = "linux")]
fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(|_| Vec::new(), |set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Without Linux there is no relay.
#[cfg(not(target_os = "linux"))]
pub(crate) fn relay_cpus(_server: &[usize], _client: &[usize]) -> Vec<usize> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::units::Loss;

    fn all() -> Found {
        Found { namespaces: Ok(()), veth: Ok(()), tun: Ok(()), netem: Ok(()), tbf: Ok(()), nft: Ok(()) }
    }

    fn no(what: &str) -> Result<(), String> {
        Err(format!("there is no {what}"))
    }

    fn everything() -> Network {
        Network {
            delay: Time(10_000_000),
            jitter: Time(500_000),
            loss: Some(Loss(0.001)),
            bandwidth: Some(Bandwidth(100_000_000)),
            ..Network::default()
        }
    }

    #[test]
    fn the_kernel_s_own_means_come_first() {
        let kernel = choose(&everything(), &all()).unwrap();
        let expected = Applied {
            links: Links::Veth,
            delay: Some(Means::Netem),
            loss: Some(Means::Netem),
            bandwidth: Some(Means::Tbf),
        };
        assert_eq!(kernel, expected);
        let without = Found { netem: no("netem"), ..all() };
        let tun = choose(&everything(), &without).unwrap();
        assert_eq!((tun.links, tun.delay, tun.loss), (Links::Tun, Some(Means::Tun), Some(Means::Tun)));
        let lossy = Network { loss: Some(Loss(0.5)), ..Network::default() };
        let nft = choose(&lossy, &without).unwrap();
        assert_eq!((nft.links, nft.delay, nft.loss), (Links::Veth, None, Some(Means::Nft)));
        let tun = choose(&lossy, &Found { nft: no("nft"), ..without }).unwrap();
        assert_eq!((tun.links, tun.delay, tun.loss), (Links::Tun, None, Some(Means::Tun)));
        let nothing =
            choose(&Network::default(), &Found { netem: no("netem"), nft: no("nft"), tun: no("TUN"), ..all() });
        assert_eq!(nothing.unwrap(), Applied { links: Links::Veth, delay: None, loss: None, bandwidth: None });
    }

    #[test]
    fn what_cannot_be_had_says_why() {
        let without = Found { netem: no("netem"), tun: no("TUN"), nft: no("nft"), tbf: no("TBF"), ..all() };
        let cases = [
            ("all", everything(), without.clone()),
            ("bandwidth", Network { bandwidth: Some(Bandwidth(1_000_000)), ..Network::default() }, without.clone()),
            ("no veth", Network::default(), Found { veth: no("veth"), ..without.clone() }),
            ("no root", everything(), Found { namespaces: no("permission"), ..without }),
        ];
        let lines = cases.map(|(name, network, found)| format!("{name}: {:#?}", choose(&network, &found).unwrap_err()));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn what_the_tools_are_told() {
        let lossy = Network { loss: Some(Loss(0.25)), ..Network::default() };
        let narrow = Network { bandwidth: Some(Bandwidth(1_000_000)), ..Network::default() };
        let without = Found { netem: no("netem"), ..all() };
        let cases = [
            ("everything, with netem", everything(), all()),
            ("everything, without", everything(), without.clone()),
            ("loss, with netem", lossy.clone(), all()),
            ("loss, without", lossy, without),
            ("bandwidth", narrow.clone(), all()),
            (
                "bandwidth, in small bursts",
                Network { burst: Some(crate::spec::units::Size(11 << 10)), ..narrow },
                all(),
            ),
        ];
        let lines = cases.map(|(name, network, found)| {
            let applied = choose(&network, &found).unwrap();
            let (tc, nft) = (tc(&applied, &network, "eth0"), nft(&applied, &network, "eth0"));
            format!("{name}: {}\ntc: {tc}\nnft: {nft}\n", applied.words())
        });
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_relay_is_kept_from_what_is_measured() {
        let all = allowed_cpus();
        let (first, rest) = all.split_first().unwrap();
        assert_eq!(relay_cpus(&[*first], rest), rest, "with none to spare it has the client's");
        assert_eq!(relay_cpus(&[*first], &[*first]), if rest.is_empty() { vec![*first] } else { rest.to_vec() });
        assert_eq!(relay_cpus(&[], &[]), [0; 0]);
    }
}
