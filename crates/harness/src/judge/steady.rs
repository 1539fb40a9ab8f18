//! Tests of whether the window was one steady state.

use load::LoadResult;
use load::result::PARTS;
use stats::{TestResult, steadiness};

use super::ServerSide;
use super::check::{at_most, effect};
use super::limits::{
    SERVICE_CHANGE_MAX, SERVICE_FALL_MAX, SERVICE_FALL_MAX_INTERLEAVED, SERVICE_P90_CHANGE_MAX, STEADINESS_P_VALUE_MIN,
    TAKEN_SHARE_MAX, TAKEN_SHARE_MAX_INTERLEAVED, THROUGHPUT_CHANGE_MAX,
};
use crate::record::{Check, VerdictKind};

/// Checks the service time of the window's parts. Rejects a trend, a shift or a temporary change of the median, and a shift of the
/// p90, which can occur while the median stays. Also rejects a server that was slow throughout because other processes took its CPUs.
pub(super) fn service(report: &LoadResult, server: Option<&ServerSide<'_>>) -> Vec<Check> {
    if report.slices.is_some() || report.planned_by_part.is_some() {
        // All contestants share a change of the host's speed, and ratios of paired parts do not contain it. If the rate changes,
        // so does the service time.
        return taken_cpus(report, server).into_iter().collect();
    }
    let known = |parts: &[u64]| -> Vec<f64> { parts.iter().filter(|&&ns| ns > 0).map(|&ns| ns as f64).collect() };
    let (medians, p90s) = (known(&report.service.p50_by_part_ns), known(&report.service.p90_by_part_ns));
    let checks = tests([
        ("trend of the median service time over the window", steadiness::trend(&medians), SERVICE_CHANGE_MAX),
        ("shift of the median service time in the window", shift(&medians), SERVICE_CHANGE_MAX),
        (
            "temporary change of the median service time",
            steadiness::excursion(&medians, SERVICE_CHANGE_MAX),
            SERVICE_CHANGE_MAX,
        ),
        ("shift of the 90th percentile of the service time in the window", shift(&p90s), SERVICE_P90_CHANGE_MAX),
    ]);
    checks.chain(taken_cpus(report, server)).collect()
}

/// Checks that a server no longer got faster: a just-in-time compiler, or a cache that fills, makes the first figures those of a
/// cold server. `rivals_ns` has the median service times of the other contestants in each part of an interleaved trial.
pub(super) fn warmth(report: &LoadResult, rivals_ns: Option<&[f64; PARTS]>) -> Vec<Check> {
    if report.planned_by_part.is_some() {
        return Vec::new();
    }
    let limit = if rivals_ns.is_some() { SERVICE_FALL_MAX_INTERLEAVED } else { SERVICE_FALL_MAX };
    let rivals_ns = rivals_ns.unwrap_or(&[1.0; PARTS]);
    let parts = report.service.p50_by_part_ns.iter().zip(rivals_ns).filter(|(own, rivals)| **own > 0 && **rivals > 0.0);
    let medians: Vec<f64> = parts.map(|(own, rivals)| *own as f64 / rivals).collect();
    let fall = |result: Option<TestResult>| result.map(|it| TestResult { effect: it.effect.min(0.0), ..it });
    tests([
        (Check::FASTER, fall(steadiness::trend(&medians)), limit),
        (Check::SUDDENLY_FASTER, fall(shift(&medians)), limit),
    ])
    .collect()
}

/// Checks the throughput of the window's parts.
pub(super) fn throughput(what: &str, parts: &[f64; PARTS]) -> Vec<Check> {
    let limit = THROUGHPUT_CHANGE_MAX;
    tests([
        (&format!("trend of the {what} over the window"), steadiness::trend(parts), limit),
        (&format!("shift of the {what} in the window"), shift(parts), limit),
        (&format!("temporary change of the {what}"), steadiness::excursion(parts, limit), limit),
    ])
    .collect()
}

/// Checks the share of the server's CPUs that other processes took, if known.
pub(super) fn taken_cpus(report: &LoadResult, server: Option<&ServerSide<'_>>) -> Option<Check> {
    let taken = server?.taken?;
    let share_max = if report.slices.is_some() { TAKEN_SHARE_MAX_INTERLEAVED } else { TAKEN_SHARE_MAX };
    Some(at_most(Check::TAKEN_BY_OTHERS, taken, share_max, "", VerdictKind::Unsteady))
}

fn shift(values: &[f64]) -> Option<TestResult> {
    steadiness::change_point(values).map(|it| it.result)
}

fn tests<const N: usize>(tests: [(&str, Option<TestResult>, f64); N]) -> impl Iterator<Item = Check> {
    let check = |(what, result, limit): (&str, Option<TestResult>, f64)| {
        result.map(|result| effect(what, &result, limit, STEADINESS_P_VALUE_MIN, VerdictKind::Unsteady))
    };
    tests.map(check).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a server is cold whose median service time changes by these shares: evenly over the window, and at once in its middle.
    fn are_cold(own: f64, rivals: Option<f64>) -> [bool; 2] {
        let even = |change: f64| move |part: usize| 100e3 * (1.0 + change * part as f64 / PARTS as f64);
        let at_once = |change: f64| move |part: usize| 100e3 * if part < PARTS / 2 { 1.0 } else { 1.0 + change };
        let is_cold = |own: &dyn Fn(usize) -> f64, rivals: Option<&dyn Fn(usize) -> f64>| {
            let mut report = super::super::tests::healthy();
            // A little noise.
            report.service.p50_by_part_ns =
                std::array::from_fn(|part| (own(part) * (1.0 + 0.002 * (part % 3) as f64)) as u64);
            let rivals = rivals.map(std::array::from_fn);
            warmth(&report, rivals.as_ref()).iter().any(|check| !check.passed)
        };
        [
            is_cold(&even(own), rivals.map(even).as_ref().map(|it| it as _)),
            is_cold(&at_once(own), rivals.map(at_once).as_ref().map(|it| it as _)),
        ]
    }

    #[test]
    fn server_that_gets_faster_is_cold() {
        assert_eq!(are_cold(-0.35, None), [true; 2]);
        assert_eq!(are_cold(-0.15, None), [false; 2], "the host may have become faster");
        assert_eq!(are_cold(-0.15, Some(0.0)), [true; 2], "its rivals show that the host has not");
        assert_eq!(are_cold(-0.35, Some(-0.35)), [false; 2], "the host has become faster");
        assert_eq!(are_cold(0.0, Some(0.2)), [true; 2]);
        assert_eq!([are_cold(0.35, None), are_cold(0.15, Some(0.0))], [[false; 2]; 2], "slower is not cold");
    }
}
