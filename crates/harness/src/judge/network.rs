//! Checks of a lab's network: measured right before the trial and, where a relay carries the packets, counted during it.

use super::check::{at_least, at_most};
use super::limits::{
    BANDWIDTH_SHARE_MAX, BURST_LATE_US, LOSS_BESIDE, LOSS_DEVIATIONS_MAX, RELAY_DROPPED_SHARE_MAX, RELAY_LATE_MS_MAX,
    RELAY_LATE_P99_TIMES, RELAY_LATE_SHARE_MAX, ROUND_TRIP_BESIDE_MS, ROUND_TRIP_BITS, ROUND_TRIP_LONG_SHARE_MAX,
    ROUND_TRIP_SHORT_SHARE_MAX,
};
use crate::record::Check;
use crate::record::VerdictKind::Failed;
use crate::record::network::{Links, NetworkRecord, RelayCounts};
use crate::spec::network::Network;

/// Checks that the network applied the configured conditions and no others.
pub(super) fn checks(configured: &Network, report: &NetworkRecord) -> Vec<Check> {
    let measured = &report.measured;
    let mut checks = Vec::new();
    let mut within = |name: &str, value: f64, (low, high): (f64, f64), unit: &str| {
        checks.extend([at_least(name, value, low, unit, Failed), at_most(name, value, high, unit, Failed)]);
    };
    let both_ways_ms = 2.0 * configured.delay.0 as f64 / 1e6;
    let sent_ms = configured.bandwidth.map_or(0.0, |bandwidth| 2.0 * 1e3 * ROUND_TRIP_BITS / bandwidth.0 as f64);
    let low = both_ways_ms * (1.0 - ROUND_TRIP_SHORT_SHARE_MAX) - 0.2 * configured.jitter.0 as f64 / 1e6;
    let high = both_ways_ms * (1.0 + ROUND_TRIP_LONG_SHARE_MAX) + sent_ms + ROUND_TRIP_BESIDE_MS;
    within("median round trip of the lab", measured.round_trip_p50_ns as f64 / 1e6, (low, high), "ms");
    let loss = configured.loss.map_or(0.0, |loss| loss.0);
    let deviations = LOSS_DEVIATIONS_MAX * (loss * (1.0 - loss) / f64::from(measured.sent.max(1))).sqrt();
    let bounds = ((loss - deviations).max(0.0), loss + deviations + LOSS_BESIDE);
    let host = measured.host.map(|host| format!(" (client host {host})")).unwrap_or_default();
    within(&format!("share of datagrams lost in the lab{host}"), measured.loss(), bounds, "");
    if let (Some(bandwidth), Some(found)) = (configured.bandwidth, measured.bandwidth_bits_per_s) {
        let mbit_per_s = bandwidth.0 as f64 / 1e6;
        // A full bucket loses the tokens that arrive until the kernel's timer fires.
        let kept = configured.burst.map_or(1.0, |burst| {
            let fills_us = f64::from(burst.0) * 8.0 / mbit_per_s;
            fills_us / (fills_us + BURST_LATE_US)
        });
        let low = mbit_per_s * (1.0 - BANDWIDTH_SHARE_MAX) * kept;
        let bounds = (low, mbit_per_s * (1.0 + BANDWIDTH_SHARE_MAX));
        within(&format!("bandwidth to the lab's server{host}"), found[0] / 1e6, bounds, "Mbit/s");
        within(&format!("bandwidth from the lab's server{host}"), found[1] / 1e6, bounds, "Mbit/s");
    }
    if report.applied.links == Links::Tun {
        let reports = f64::from(u8::from(report.relay.is_some()));
        checks.push(at_least("reports from the lab's relay", reports, 1.0, "", Failed));
    }
    checks.extend(report.relay.iter().flat_map(|relay| relay_checks(configured, relay)));
    checks
}

fn relay_checks(configured: &Network, relay: &RelayCounts) -> [Check; 3] {
    let dropped_max = RELAY_DROPPED_SHARE_MAX * relay.packets as f64;
    let late_ms = RELAY_LATE_MS_MAX + RELAY_LATE_SHARE_MAX * configured.delay.0 as f64 / 1e6;
    let late = |quantile: &str, ns: u64, limit_ms: f64| {
        at_most(format!("{quantile} of the delay added by the lab's relay"), ns as f64 / 1e6, limit_ms, "ms", Failed)
    };
    [
        at_most(
            "packets dropped by the lab's relay besides the configured loss",
            relay.dropped as f64,
            dropped_max,
            "",
            Failed,
        ),
        late("median", relay.late_p50_ns, late_ms),
        late("p99", relay.late_p99_ns, RELAY_LATE_P99_TIMES * late_ms),
    ]
}
