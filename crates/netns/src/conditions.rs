//! Chooses how to emulate a network's delay, loss and bandwidth (netem, TBF, nftables or the relay), and writes the tc(8) and
//! nft(8) commands.

use wire::units::Bandwidth;

use crate::network::Network;
use crate::record::{Applied, Links, Means};

/// The length of a full packet with its Ethernet header, in bytes.
const PACKET_BYTES: u64 = 1_514;
/// The default burst of a token bucket: the bytes that pass in this time, in nanoseconds.
const BURST_NS: u64 = 1_000_000;
/// The length of a token bucket's queue, similar to a switch's: the bytes that pass in this time, in nanoseconds.
const QUEUE_NS: u64 = 50_000_000;
/// The number of packets that netem queues before it drops further ones.
const NETEM_PACKETS: u32 = 1_000_000;

/// The commands for tc(8) in each host, for its interface `device`.
pub(crate) fn tc(applied: &Applied, network: &Network, device: &str) -> String {
    let mut lines = String::new();
    let mut parent = "root handle 1:";
    let (delay, loss) = (applied.delay == Some(Means::Netem), applied.loss == Some(Means::Netem));
    if delay || loss {
        lines += &format!("qdisc add dev {device} {parent} netem limit {NETEM_PACKETS}");
        if delay {
            lines += &format!(" delay {}us", network.delay.0 as f64 / 1e3);
            if network.jitter.0 > 0 {
                lines += &format!(" {}us", network.jitter.0 as f64 / 1e3);
            }
        }
        if let Some(loss) = network.loss.filter(|_| loss) {
            lines += &format!(" loss {}%", loss.0 * 100.0);
        }
        lines += "\n";
        parent = "parent 1:1 handle 2:";
    }
    if let Some(bandwidth) = network.bandwidth.filter(|_| applied.bandwidth == Some(Means::Tbf)) {
        let burst = burst_bytes(network, bandwidth);
        let (bits, queue) = (bandwidth.0, bytes_in(bandwidth, QUEUE_NS).max(10 * PACKET_BYTES));
        lines += &format!("qdisc add dev {device} {parent} tbf rate {bits}bit burst {burst}b limit {queue}b\n");
    }
    lines
}

/// The commands for nft(8) in each host. They drop received packets, because a sender sees a drop on transmission as an error.
pub(crate) fn nft(applied: &Applied, network: &Network, device: &str) -> String {
    let Some(loss) = network.loss.filter(|_| applied.loss == Some(Means::Nft)) else { return String::new() };
    let dropped_per_million = (loss.0 * 1e6).round().max(1.0);
    format!(
        "add table inet muxbench\n\
         add chain inet muxbench input {{ type filter hook input priority 0; }}\n\
         add rule inet muxbench input iifname \"{device}\" numgen random mod 1000000 < {dropped_per_million} drop\n"
    )
}

/// The bytes that pass in `ns` at a bandwidth.
fn bytes_in(bandwidth: Bandwidth, ns: u64) -> u64 {
    (u128::from(bandwidth.0) * u128::from(ns) / 8_000_000_000) as u64
}

/// The burst of a network's token bucket, in bytes.
pub(crate) fn burst_bytes(network: &Network, bandwidth: Bandwidth) -> u64 {
    network.burst.map_or_else(|| bytes_in(bandwidth, BURST_NS).max(2 * PACKET_BYTES), |burst| burst.0.into())
}

/// The means that this host has. An error states why a means is missing; those of ip(8) and nft(8) name no remedy.
#[derive(Clone, Debug)]
pub struct HostCapabilities {
    /// Network namespaces.
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

/// Chooses the means of a network's conditions, and prefers the kernel's means to the relay. An error lists the missing means,
/// each with the key of its condition. It lists TBF only if nothing else is missing.
pub fn choose(network: &Network, found: &HostCapabilities) -> Result<Applied, Vec<String>> {
    if let Err(reason) = &found.namespaces {
        return Err(vec![format!("network: {reason}")]);
    }
    let (has_delay, loss) = (network.delay.0 > 0, network.loss);
    let by_kernel = |is_needed: bool, means: &[(Means, &Result<(), String>)]| match is_needed {
        false => Ok(None),
        true => match means.iter().find(|(_, found)| found.is_ok()) {
            Some((means, _)) => Ok(Some(*means)),
            None => Err(means.iter().filter_map(|(_, found)| found.as_ref().err().cloned()).collect::<Vec<_>>()),
        },
    };
    let delay = by_kernel(has_delay, &[(Means::Netem, &found.netem)]);
    let dropped = by_kernel(loss.is_some(), &[(Means::Netem, &found.netem), (Means::Nft, &found.nft)]);
    let (links, delay, dropped) = match (delay, dropped, &found.veth, &found.tun) {
        (Ok(delay), Ok(dropped), Ok(()), _) => (Links::Veth, delay, dropped),
        (.., Ok(())) => (Links::Tun, has_delay.then_some(Means::Tun), loss.map(|_| Means::Tun)),
        (delay, dropped, veth, Err(tun)) => {
            let veth = veth.as_ref().err().map(|veth| format!("network: {veth}; or, instead of veth: {tun}"));
            let missing = |key, reasons: Vec<String>| {
                format!("network.{key}: {}; or, instead: {tun}; or remove `{key}`", reasons.join("; "))
            };
            let (delay, dropped) =
                (delay.err().map(|it| missing("delay", it)), dropped.err().map(|it| missing("loss", it)));
            return Err([veth, delay, dropped].into_iter().flatten().collect());
        }
    };
    let bandwidth = match (&network.bandwidth, &found.tbf) {
        (None, _) => None,
        (Some(_), Ok(())) => Some(Means::Tbf),
        (Some(bandwidth), Err(reason)) => {
            return Err(vec![format!("network.bandwidth: {bandwidth} needs TBF: {reason}; or remove `bandwidth`")]);
        }
    };
    Ok(Applied { links, delay, loss: dropped, bandwidth })
}

impl HostCapabilities {
    fn nothing(reason: &str) -> Self {
        let no = || Err(reason.to_owned());
        Self { namespaces: no(), veth: no(), tun: no(), netem: no(), tbf: no(), nft: no() }
    }

    /// Finds no means: a lab needs Linux.
    #[cfg(not(target_os = "linux"))]
    pub fn here() -> Self {
        Self::nothing("a lab needs Linux; remove the network")
    }

    /// Tries each means in a namespace that is removed afterwards.
    #[cfg(target_os = "linux")]
    pub fn here() -> Self {
        use super::namespace::{Namespace, Tool};

        let refused =
            |error| format!("a lab needs network namespaces, which the kernel refuses ({error}); run as root");
        let namespace = match Namespace::new().map_err(refused) {
            Ok(namespace) => namespace,
            Err(reason) => return Self::nothing(&reason),
        };
        let run = |tool, commands: &str| namespace.run_tool(tool, commands).map_err(|error| format!("{error:#}"));
        let namespaces = run(Tool::IP, "link set lo up\n");
        let bridge = "link add name muxc type bridge\nlink set muxa master muxc\n";
        let veth = run(Tool::IP, &format!("link add name muxa type veth peer name muxb\n{bridge}"));
        let tc = |commands: &str| run(Tool::TC, commands).and(run(Tool::TC, "qdisc del dev lo root\n"));
        let netem = tc("qdisc add dev lo root netem delay 1000us 100us loss 1%\n");
        let tbf = tc("qdisc add dev lo root tbf rate 1000000bit burst 3028b limit 15140b\n");
        let by_nft = Applied { links: Links::Veth, delay: None, loss: Some(Means::Nft), bandwidth: None };
        let lossy = Network { loss: Some(wire::units::Loss(0.5)), ..Network::default() };
        let nft = run(Tool::NFT, &nft(&by_nft, &lossy, "lo"));
        let no_tun = |error| format!("the relay needs a TUN device ({error}); load the module (modprobe tun)");
        let tun = super::relay::open_tun(&namespace, "muxd").map(drop).map_err(no_tun);
        let module = |outcome: Result<(), String>, module: &str| {
            outcome.map_err(|reason| format!("{reason}: this kernel may lack {module} (modprobe {module})"))
        };
        let (veth, netem, tbf) = (module(veth, "veth"), module(netem, "sch_netem"), module(tbf, "sch_tbf"));
        Self { namespaces, veth, tun, netem, tbf, nft }
    }
}

/// The CPUs of the relay: those that neither server nor clients use. If all are in use, the relay shares the clients' CPUs, not
/// those of the measured server. Without placement the relay may use all CPUs, and the list is empty.
pub fn relay_cpus(server: &[usize], client: &[usize]) -> Vec<usize> {
    if server.is_empty() {
        return Vec::new();
    }
    let mut free = server::platform::cpus();
    free.retain(|cpu| !server.contains(cpu) && !client.contains(cpu));
    if free.is_empty() { client.to_vec() } else { free }
}

#[cfg(test)]
mod tests {
    use wire::units::{Loss, Time};

    use super::*;

    fn all() -> HostCapabilities {
        HostCapabilities { namespaces: Ok(()), veth: Ok(()), tun: Ok(()), netem: Ok(()), tbf: Ok(()), nft: Ok(()) }
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
    fn kernel_means_are_preferred_to_the_relay() {
        let kernel = choose(&everything(), &all()).unwrap();
        let expected = Applied {
            links: Links::Veth,
            delay: Some(Means::Netem),
            loss: Some(Means::Netem),
            bandwidth: Some(Means::Tbf),
        };
        assert_eq!(kernel, expected);
        let without = HostCapabilities { netem: no("netem"), ..all() };
        let tun = choose(&everything(), &without).unwrap();
        assert_eq!((tun.links, tun.delay, tun.loss), (Links::Tun, Some(Means::Tun), Some(Means::Tun)));
        let lossy = Network { loss: Some(Loss(0.5)), ..Network::default() };
        let nft = choose(&lossy, &without).unwrap();
        assert_eq!((nft.links, nft.delay, nft.loss), (Links::Veth, None, Some(Means::Nft)));
        let tun = choose(&lossy, &HostCapabilities { nft: no("nft"), ..without }).unwrap();
        assert_eq!((tun.links, tun.delay, tun.loss), (Links::Tun, None, Some(Means::Tun)));
        let bare = HostCapabilities { netem: no("netem"), nft: no("nft"), tun: no("TUN"), ..all() };
        let nothing = choose(&Network::default(), &bare);
        assert_eq!(nothing.unwrap(), Applied { links: Links::Veth, delay: None, loss: None, bandwidth: None });
    }

    #[test]
    fn missing_means_are_reported_with_their_keys() {
        let without = HostCapabilities { netem: no("netem"), tun: no("TUN"), nft: no("nft"), tbf: no("TBF"), ..all() };
        let cases = [
            ("delay, loss and bandwidth", everything(), without.clone()),
            ("bandwidth", Network { bandwidth: Some(Bandwidth(1_000_000)), ..Network::default() }, without.clone()),
            ("no veth", Network::default(), HostCapabilities { veth: no("veth"), ..without.clone() }),
            ("no root", everything(), HostCapabilities { namespaces: no("permission"), ..without }),
        ];
        let lines = cases.map(|(name, network, found)| format!("{name}: {:#?}", choose(&network, &found).unwrap_err()));
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn commands_apply_each_condition() {
        let lossy = Network { loss: Some(Loss(0.25)), ..Network::default() };
        let narrow = Network { bandwidth: Some(Bandwidth(1_000_000)), ..Network::default() };
        let without = HostCapabilities { netem: no("netem"), ..all() };
        let cases = [
            ("everything, with netem", everything(), all()),
            ("everything, without", everything(), without.clone()),
            ("loss, with netem", lossy.clone(), all()),
            ("loss, without", lossy, without),
            ("bandwidth", narrow.clone(), all()),
            ("bandwidth, with a chosen burst", Network { burst: Some(wire::units::Size(11 << 10)), ..narrow }, all()),
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
    fn relay_avoids_the_cpus_of_the_server() {
        let all = server::platform::cpus();
        let (first, rest) = all.split_first().unwrap();
        assert_eq!(relay_cpus(&[*first], rest), rest, "the relay shares the clients' CPUs if none is free");
        assert_eq!(relay_cpus(&[*first], &[*first]), if rest.is_empty() { vec![*first] } else { rest.to_vec() });
        assert_eq!(relay_cpus(&[], &[]), [0; 0]);
    }
}
