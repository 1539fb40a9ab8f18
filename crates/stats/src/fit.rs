//! Goodness of fit of the sent load to the planned load.

use crate::significance::{TestResult, kolmogorov_tail};

/// The minimum mean length of a span. A tenth of it is 20 µs, the 99th percentile of the send delay that kawai2008 claims.
const SPAN_NS_MIN: f64 = 200_000.0;

/// The minimum width of a cell: the send delay that kawai2008 claims.
const CELL_NS_MIN: f64 = 20_000.0;

/// The minimum number of spans, both in the plan and in the sends, for an accurate asymptotic p.
const SPANS_MIN: usize = 20;

/// Goodness of fit of the sends to their plan: a two-sample Kolmogorov-Smirnov test (Smirnov 1939) of spans. A span is the
/// duration of k consecutive requests, in the plan or in the sends. Requests are planned `interval_ns` apart on average.
/// `planned_ns` and `sent_ns` may be in any order.
///
/// - k is the smallest number of requests that take at least 200 µs on average. Spans do not overlap.
/// - If k exceeds 1, spans of k + 1 requests are tested too, because bunches whose size divides k do not change spans of k. The
///   larger difference counts, and its p is doubled.
/// - Spans are rounded to cells of a tenth of the mean span, at least 20 µs, so that send delays well below the resolution of
///   kawai2008 have no effect. Send delays that are uniform from 0 to 20 µs give D = 0.12 in a constant schedule. In a random
///   schedule most of them cancel out (Poisson: D = 0.01). Judge by D.
///
/// `statistic` and `effect` are both D, the largest difference between the cumulative shares of spans: 0 if the sends equal the
/// plan, 1 if all sent spans are longer, or all are shorter, than every planned one. `count` is the number of sent spans. p
/// comes from the asymptotic distribution for independent samples. These are dependent and have ties, so p is conservative.
///
/// Returns `None` if the plan or the sends have fewer than 20 spans, or if the interval is not positive and finite. The test
/// shows neither a constant delay nor missing requests at the end; the send delay and the counts do.
pub fn sends_against_plan(planned_ns: &[i64], sent_ns: &[i64], interval_ns: f64) -> Option<TestResult> {
    if !(interval_ns > 0.0 && interval_ns.is_finite()) {
        return None;
    }
    let (planned, sent) = (sorted(planned_ns), sorted(sent_ns));
    let k = (SPAN_NS_MIN / interval_ns).ceil().max(1.0) as usize;
    let mut compared = Vec::with_capacity(2);
    for requests in k..=if k == 1 { 1 } else { k.saturating_add(1) } {
        let cell_ns = (requests as f64 * interval_ns / 10.0).max(CELL_NS_MIN);
        let (plan, actual) = (spans(&planned, requests, cell_ns), spans(&sent, requests, cell_ns));
        if plan.len().min(actual.len()) < SPANS_MIN {
            return None;
        }
        compared.push((difference(&plan, &actual), plan.len() as f64, actual.len()));
    }
    // Of equal differences, take that of the shorter spans, which are more.
    let (d, plan, actual) = compared.iter().rev().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let size = plan * actual as f64 / (plan + actual as f64);
    Some(TestResult {
        name: "Kolmogorov-Smirnov test of sends against plan".to_owned(),
        statistic: d,
        p_value: (kolmogorov_tail(size.sqrt() * d) * compared.len() as f64).min(1.0),
        effect: d,
        count: actual as u64,
    })
}

fn sorted<T: Ord + Copy>(values: &[T]) -> Vec<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Returns the durations of spans of `requests` requests, rounded to cells, in ascending order.
fn spans(times_ns: &[i64], requests: usize, cell_ns: f64) -> Vec<i64> {
    let ends: Vec<i64> = times_ns.iter().copied().step_by(requests).collect();
    let cells = ends.windows(2).map(|pair| (pair[1].saturating_sub(pair[0]) as f64 / cell_ns).round() as i64);
    sorted(&cells.collect::<Vec<_>>())
}

/// Returns the largest difference between the cumulative shares of two ascending samples.
fn difference(a: &[i64], b: &[i64]) -> f64 {
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        i += a[i..].iter().take_while(|&&other| other == value).count();
        j += b[j..].iter().take_while(|&&other| other == value).count();
        largest = largest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const RATES: [f64; 3] = [125.0, 2_000.0, 50_000.0];

    fn interval_ns(rate: f64) -> f64 {
        1e9 / rate
    }

    /// Returns plans of three schedules at the same rate: constant, one random time in each interval, Poisson.
    fn plans(rate: f64, count: usize, random: &mut Xoshiro256PlusPlus) -> [(&'static str, Vec<i64>); 3] {
        let interval = interval_ns(rate);
        let constant = (0..count).map(|i| (i as f64 * interval) as i64).collect();
        let slots = (0..count).map(|i| ((i as f64 + random.random::<f64>()) * interval) as i64).collect();
        let mut now = 0.0;
        let poisson = (0..count).map(|_| {
            now -= (1.0 - random.random::<f64>()).ln() * interval;
            now as i64
        });
        let poisson = poisson.collect();
        [("constant", constant), ("slot-random", slots), ("poisson", poisson)]
    }

    /// Runs the test for each plan at each rate with altered sends.
    fn each(alter: impl Fn(&[i64], f64, &mut Xoshiro256PlusPlus) -> Vec<i64>, check: impl Fn(&TestResult) -> bool) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for rate in RATES {
            for (name, planned) in plans(rate, 20_000, &mut random) {
                let sent = alter(&planned, interval_ns(rate), &mut random);
                let result = sends_against_plan(&planned, &sent, interval_ns(rate)).unwrap();
                assert!(check(&result), "{name} at {rate}/s: {result:?}");
            }
        }
    }

    /// Delays each request to the next multiple of `intervals` intervals.
    fn bunched(planned: &[i64], interval_ns: f64, intervals: f64) -> Vec<i64> {
        let bunch_ns = interval_ns * intervals;
        planned.iter().map(|&planned| ((planned as f64 / bunch_ns).ceil() * bunch_ns) as i64).collect()
    }

    proptest! {
        #[test]
        fn difference_matches_the_definition(
            a in prop::collection::vec(0i64..20, 1..60), b in prop::collection::vec(0i64..20, 1..60),
        ) {
            let share = |of: &[i64], value| of.iter().filter(|&&v| v <= value).count() as f64 / of.len() as f64;
            let expected = (0..20).map(|value| (share(&a, value) - share(&b, value)).abs()).fold(0.0, f64::max);
            prop_assert_eq!(difference(&sorted(&a), &sorted(&b)), expected);
        }

        #[test]
        fn result_matches_the_definition(
            planned in prop::collection::vec(0i64..100_000_000, 70..200),
            sent in prop::collection::vec(0i64..100_000_000, 70..200), interval in 80_000.0f64..1e6,
        ) {
            let k = (1..).find(|&k| f64::from(k) * interval >= 200_000.0).unwrap();
            let mut expected = (0.0, 0.0);
            for requests in if k == 1 { vec![1] } else { vec![k, k + 1] } {
                let cell = f64::max(f64::from(requests) * interval / 10.0, 20_000.0);
                let requests = requests as usize;
                let cells = |times: &[i64]| -> Vec<f64> {
                    let times = sorted(times);
                    (requests..times.len())
                        .step_by(requests)
                        .map(|i| ((times[i] - times[i - requests]) as f64 / cell).round())
                        .collect()
                };
                let (a, b) = (cells(&planned), cells(&sent));
                if a.len().min(b.len()) < 20 {
                    prop_assert_eq!(sends_against_plan(&planned, &sent, interval), None);
                    return Ok(());
                }
                let (n, m) = (a.len() as f64, b.len() as f64);
                for &value in a.iter().chain(&b) {
                    let share = |of: &[f64]| of.iter().filter(|&&v| v <= value).count() as f64 / of.len() as f64;
                    let d = (share(&a) - share(&b)).abs();
                    if d > expected.0 {
                        let p = kolmogorov_tail(d * (n * m / (n + m)).sqrt()) * if k == 1 { 1.0 } else { 2.0 };
                        expected = (d, p.min(1.0));
                    }
                }
            }
            let result = sends_against_plan(&planned, &sent, interval).unwrap();
            prop_assert!((result.statistic - expected.0).abs() < 1e-12);
            prop_assert!((result.p_value - expected.1).abs() < 1e-9, "{result:?}, expected (D, p): {expected:?}");
            prop_assert_eq!(result.effect, result.statistic);
        }

        #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
        #[test]
        fn bunches_of_any_size_are_found(size in 2i64..60, rate in 5_000u32..80_000) {
            let interval = interval_ns(f64::from(rate));
            let planned: Vec<i64> = (0..20_000).map(|i| (i as f64 * interval) as i64).collect();
            let sent: Vec<i64> = (0..20_000).map(|i| ((i - i % size) as f64 * interval) as i64).collect();
            let result = sends_against_plan(&planned, &sent, interval).unwrap();
            // Shorter delays may vanish in the rounding to cells.
            if (size - 1) as f64 * interval > 60_000.0 {
                prop_assert!(result.effect > 0.05 && result.p_value < 1e-3, "{:?}", result);
            }
        }
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn plan_fits_itself_in_any_order() {
        each(
            |planned, _, _| planned.iter().rev().copied().collect(),
            |result| result.effect == 0.0 && result.p_value == 1.0,
        );
        each(|planned, _, _| planned.iter().map(|t| t + 3_000_000).collect(), |result| result.effect == 0.0);
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn bunches_do_not_fit() {
        each(
            |planned, interval_ns, _| bunched(planned, interval_ns, 10.0),
            |result| result.effect > 0.2 && result.p_value < 1e-6,
        );
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn jitter_below_a_cell_fits() {
        each(
            |planned, _, random| planned.iter().map(|t| t + random.random_range(0..=5_000)).collect(),
            |result| result.effect < 0.1,
        );
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn missing_requests_do_not_fit() {
        each(
            |planned, _, random| planned.iter().copied().filter(|_| random.random::<f64>() > 0.2).collect(),
            |result| result.effect > 0.05 && result.p_value < 1e-3,
        );
    }

    #[test]
    fn doubling_half_of_the_spans_gives_a_difference_of_half() {
        // 30 spans of 1 ms. The sends alternate between spans of 1 ms and 2 ms.
        let planned: Vec<i64> = (0..31).map(|i| i * 1_000_000).collect();
        let sent: Vec<i64> = (0..31).map(|i| (i + i / 2) * 1_000_000).collect();
        let result = sends_against_plan(&planned, &sent, 1e6).unwrap();
        assert_eq!((result.statistic, result.effect, result.count), (0.5, 0.5, 30));
        // p is the tail of the Kolmogorov distribution at 0.5 sqrt(15) = 1.94.
        assert!((result.p_value - 0.00111).abs() < 1e-4, "{result:?}");
    }

    #[test]
    fn too_few_spans_give_no_result() {
        let times: Vec<i64> = (0..21).map(|i| i * 1_000_000).collect();
        assert!(sends_against_plan(&times, &times, 1e6).is_some());
        assert_eq!(sends_against_plan(&times, &times[1..], 1e6), None);
        assert_eq!(sends_against_plan(&times[1..], &times, 1e6), None);
        assert_eq!(sends_against_plan(&times, &[], 1e6), None);
        for interval in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
            assert_eq!(sends_against_plan(&times, &times, interval), None);
        }
    }
}
