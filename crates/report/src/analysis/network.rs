//! The conditions of a network in sentences.

use harness::record::network::NetworkRecord;

use crate::format;

/// Describes the setup of the network, the measurements before the trials (median round trips, total loss and lowest bandwidth),
/// and the relay during the trials (highest p99 of the packets' lateness, total of dropped packets). Returns `None` without
/// reports, for example over loopback.
pub fn sentence<'a>(reports: impl Iterator<Item = &'a NetworkRecord>) -> Option<String> {
    let reports: Vec<&NetworkRecord> = reports.collect();
    let first = reports.first()?;
    let median = |figure: fn(&NetworkRecord) -> u64| {
        let mut figures: Vec<u64> = reports.iter().map(|report| figure(report)).collect();
        figures.sort_unstable();
        stats::quantile(&figures, 0.5).unwrap_or_default() as f64
    };
    let ms = |ns: f64| format!("{} ms", format::significant(ns / 1e6));
    let (sent, lost) = reports.iter().fold((0, 0), |(sent, lost), report| {
        (sent + u64::from(report.measured.sent), lost + u64::from(report.measured.lost))
    });
    let mut words = vec![
        format!("round trip p50 {}", ms(median(|report| report.measured.round_trip_p50_ns))),
        format!("p99 {}", ms(median(|report| report.measured.round_trip_p99_ns))),
        format!("{} lost of {sent} datagrams", format::percent(lost as f64 / sent.max(1) as f64)),
    ];
    if first.measured.bandwidth_bits_per_s.is_some() {
        let rates = reports.iter().filter_map(|report| report.measured.bandwidth_bits_per_s).flatten();
        words.push(format!("{} Mbit/s", format::significant(rates.fold(f64::INFINITY, f64::min) / 1e6)));
    }
    let mut hosts: Vec<u32> = reports.iter().filter_map(|report| report.measured.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if let [first, others @ ..] = hosts.as_slice() {
        let others: String = others.iter().map(|host| format!(", {host}")).collect();
        words
            .push(format!("loss and bandwidth measured on one client host per trial, in turns (host {first}{others})"));
    }
    let relay = reports.iter().filter_map(|report| Some(report.relay?.late_p99_ns)).max().map(|late_ns| {
        let dropped: u64 = reports.iter().filter_map(|report| Some(report.relay?.dropped)).sum();
        let dropped = match dropped {
            0 => String::new(),
            dropped => format!(", {dropped} packets dropped, for example by a full queue"),
        };
        format!(" Relay during the trials: p99 of packets' lateness {}{dropped}.", ms(late_ns as f64))
    });
    let (setup, measured) = (first.applied.words(), words.join(", "));
    Some(format!("Network: {setup}. Measured before each trial: {measured}.{}", relay.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use harness::record::network::{Applied, Links, Means, Measured, RelayCounts};

    use super::*;

    #[test]
    fn network_is_described_by_setup_and_measurements() {
        assert_eq!(sentence([].iter()), None);
        let report = |round_trip_p50_ns, late| NetworkRecord {
            applied: Applied { links: Links::Tun, delay: Some(Means::Tun), loss: None, bandwidth: Some(Means::Tbf) },
            setup_ns: 50_000_000,
            measured: Measured {
                round_trips: 200,
                round_trip_p50_ns,
                round_trip_p99_ns: 21_000_000,
                host: None,
                sent: 2_000,
                lost: 1,
                bandwidth_bits_per_s: Some([99.5e6, 98.25e6]),
            },
            relay: Some(RelayCounts { late_p99_ns: late, dropped: late / 100_000, ..RelayCounts::default() }),
        };
        let mut reports = [20_100_000, 20_200_000, 20_900_000].map(|ns| report(ns, ns / 100));
        insta::assert_snapshot!(sentence(reports.iter()).unwrap());
        for (report, host) in reports.iter_mut().zip([2, 1, 2]) {
            report.measured.host = Some(host);
        }
        let sentence = sentence(reports.iter()).unwrap();
        let hosts = ", loss and bandwidth measured on one client host per trial, in turns (host 1, 2). Relay";
        assert!(sentence.contains(hosts), "{sentence}");
    }
}
