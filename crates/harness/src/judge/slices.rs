//! Checks of the slices of an interleaved trial.

use load::result::SliceResult;

use super::check::at_most;
use super::limits::{
    LAW_DEVIATION_MAX, LAW_DEVIATIONS, LEFT_OUT_SHARE_MAX, OUTSIDE_SHARE_MAX, OVERRUN_SHARE_MAX,
    SERVICE_GROWTH_FLOOR_NS, SETTLING_GUARDS_MAX, SLICE_GROWTH_MAX,
};
use crate::record::Check;
use crate::record::VerdictKind::{ClientLimited, Saturated, Unsteady};

pub(crate) fn checks(report: &SliceResult) -> Vec<Check> {
    let share = |count: u64, all: u64| count as f64 / all.max(1) as f64;
    let overrun = share(report.overrun, report.measured_rounds());
    let paused = share(report.left_out, report.rounds + report.left_out);
    let [first_ns, second_ns] = report.p50_by_half_ns.map(|ns| ns as f64);
    let second_max_ns = (SLICE_GROWTH_MAX * first_ns).max(SERVICE_GROWTH_FLOOR_NS);
    let checks = [
        at_most("share of rounds in which a client paused", paused, LEFT_OUT_SHARE_MAX, "", ClientLimited),
        at_most("share of slices with responses after the next guard", overrun, OVERRUN_SHARE_MAX, "", Unsteady),
        at_most("median service time late in slices", second_ns / 1e6, second_max_ns / 1e6, "ms", Saturated),
    ];
    let outside = "CPU time in the turns of other servers, as a share of its own turns";
    let outside = report.outside_share.map(|share| at_most(outside, share, OUTSIDE_SHARE_MAX, "", Unsteady));
    let settling = "time in which the queue of random arrivals settles, in guards";
    let settling = report.settling_guards.map(|it| at_most(settling, it, SETTLING_GUARDS_MAX, "", Unsteady));
    checks.into_iter().chain(outside).chain(settling).chain(law(report)).collect()
}

/// Returns the time in which a queue forgets its start: the relaxation time of M/M/1 (Cohen 1982, "The single server queue", II.2), for a
/// server that is busy for this share of its time and works for `service_ns` on each request.
pub(crate) fn settling_ns(busy_share: f64, service_ns: f64) -> f64 {
    service_ns / (1.0 - busy_share.min(1.0).sqrt()).powi(2)
}

/// Checks whether a closed loop obeys the interactive response time law; `None` for other loops. It does not if its slices are too
/// short for its responses.
fn law(report: &SliceResult) -> Option<Check> {
    let expected = report.law_responses?;
    let deviation = (report.responses as f64 / expected - 1.0).abs();
    let max = LAW_DEVIATION_MAX + LAW_DEVIATIONS / expected.sqrt();
    let name = "deviation of the rate from connections / (response + think time)";
    Some(at_most(name, deviation, max, "", Unsteady))
}

#[cfg(test)]
mod queues;

#[cfg(test)]
mod tests {
    use super::*;

    /// The failed checks of a report.
    fn failed(report: SliceResult) -> Vec<&'static str> {
        let name = |check: &Check| {
            ["a client paused", "after the next guard", "late in slices", "turns of other", "settles", "think time"]
                .into_iter()
                .find(|it| check.name.contains(it))
        };
        checks(&report).iter().filter(|check| !check.passed).filter_map(name).collect()
    }

    #[test]
    fn overruns_gaps_and_growing_queues_fail_checks() {
        let healthy = SliceResult {
            active_share: 0.5,
            rounds: 100,
            left_out: 50,
            overrun: 25,
            p50_by_half_ns: [700_000, 1_400_000],
            outside_share: Some(0.02),
            settling_guards: Some(1.3),
            law_responses: Some(1_200_000.0),
            responses: 1_000_000,
        };
        assert_eq!(failed(healthy.clone()), [""; 0]);
        assert_eq!(failed(SliceResult { overrun: 26, ..healthy.clone() }), ["after the next guard"]);
        assert_eq!(failed(SliceResult { outside_share: Some(0.021), ..healthy.clone() }), ["turns of other"]);
        assert_eq!(checks(&SliceResult { outside_share: None, ..healthy.clone() }).len(), 5, "unknown");
        for settling_guards in [1.4, f64::INFINITY].map(Some) {
            assert_eq!(failed(SliceResult { settling_guards, ..healthy.clone() }), ["settles"]);
        }
        assert!((settling_ns(0.25, 1_000.0) - 4_000.0).abs() < 1e-6 && settling_ns(1.1, 1.0).is_infinite());
        for law_responses in [1_300_000.0, 800_000.0, f64::INFINITY].map(Some) {
            assert_eq!(failed(SliceResult { law_responses, ..healthy.clone() }), ["think time"]);
        }
        assert_eq!(
            failed(SliceResult { law_responses: Some(160.0), responses: 100, ..healthy.clone() }),
            [""; 0],
            "chance"
        );
        assert_eq!(checks(&SliceResult { law_responses: None, ..healthy.clone() }).len(), 5);
        assert_eq!(failed(SliceResult { left_out: 101, ..healthy.clone() }), ["a client paused"]);
        assert_eq!(failed(SliceResult { p50_by_half_ns: [700_000, 1_500_000], ..healthy.clone() }), ["late in slices"]);
        assert_eq!(
            failed(SliceResult { p50_by_half_ns: [100_000, 900_000], ..healthy }),
            [""; 0],
            "short times may vary"
        );
    }
}
