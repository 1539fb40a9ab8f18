//! Steadiness of a figure during its measurement. The values describe some tens of equal consecutive parts of the window.
//!
//! [`trend`] finds a continuing rise or fall, [`change_point`] a single shift of level, [`excursion`] a temporary change. One
//! or two extreme values do not make a result significant. The tests return `None` if there are fewer than 8 values, if a value
//! is not finite, or if the median is not positive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::interval::median;
use crate::significance::{TestResult, normal_two_sided};

/// The minimum number of values for accurate approximations of p.
const COUNT_MIN: usize = 8;

/// A shift of level and its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The test's result.
    pub result: TestResult,
    /// The number of values before the shift, even if `result` makes a shift unlikely.
    pub at: usize,
}

/// Mann-Kendall test for a monotone trend (Mann 1945, Kendall 1975), two-sided by the normal approximation, corrected for ties
/// and for continuity. `statistic` is S, the number of rising pairs minus the number of falling pairs. `effect` is the change
/// over the window relative to the median, from the median slope of all pairs (Theil 1950, Sen 1968): 0.1 is a rise by 10 %.
pub fn trend(values: &[f64]) -> Option<TestResult> {
    let level = level(values)?;
    let n = values.len() as f64;
    let s: i64 = pairs(values).map(|(_, earlier, later)| rise(earlier, later)).sum();

    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    // 18 times the variance of S over all orders of n values; ties of t values reduce it.
    let spread = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|equal| spread(equal.len() as f64)).sum();
    let variance = (spread(n) - ties) / 18.0;
    // Correct for continuity by half a step towards 0, as S has steps of 2. If all values are equal, S and its variance are 0.
    let p_value = if s == 0 { 1.0 } else { normal_two_sided((s.abs() - 1) as f64 / variance.sqrt()) };

    let slopes: Vec<f64> = pairs(values).map(|(distance, earlier, later)| (later - earlier) / distance).collect();
    let effect = median(&slopes)? * (n - 1.0) / level;
    let name = "Mann-Kendall trend test".to_owned();
    Some(TestResult { name, statistic: s as f64, p_value, effect, count: values.len() as u64 })
}

/// Pettitt's test for a single shift of level (Pettitt 1979). Its approximation of p, 2 exp(-6 K² / (n³ + n²)), is accurate up
/// to 0.5 and limited to 1. `statistic` is K. `effect` is the median after the shift relative to the median before it, minus 1:
/// 0.1 is a rise by 10 %.
pub fn change_point(values: &[f64]) -> Option<ChangePoint> {
    level(values)?;
    let n = values.len() as f64;
    let (mut at, mut k) = (1, -1);
    let mut u: i64 = 0;
    for t in 1..values.len() {
        // The value before t moves to the other side of the shift, which changes u by its comparisons with all values.
        u += values.iter().map(|&other| rise(values[t - 1], other)).sum::<i64>();
        if u.abs() > k {
            (at, k) = (t, u.abs());
        }
    }
    let statistic = k as f64;
    let p_value = (2.0 * (-6.0 * statistic * statistic / (n * n * n + n * n)).exp()).min(1.0);
    let (before, after) = values.split_at(at);
    let effect = median(after)? / median(before).filter(|&m| m > 0.0)? - 1.0;
    let name = "Pettitt change-point test".to_owned();
    Some(ChangePoint { result: TestResult { name, statistic, p_value, effect, count: values.len() as u64 }, at })
}

/// Longest-run test for a temporary change. A run consists of consecutive values that all exceed the median by more than the
/// share `beyond`, or all fall below it by more than this share. `statistic` is the length of the longest run. `p_value` is the
/// probability of a run of this length if the same values were in random order (Feller 1968, XIII.7, for rare runs). `effect`
/// is the median of the run relative to the median of all values, minus 1.
pub fn excursion(values: &[f64], beyond: f64) -> Option<TestResult> {
    let level = level(values)?;
    let n = values.len() as f64;
    let side = |value: f64| i8::from(value > level * (1.0 + beyond)) - i8::from(value < level * (1.0 - beyond));
    let runs = values.chunk_by(|&a, &b| side(a) == side(b)).filter(|run| side(run[0]) != 0);
    let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
    let (p_value, effect) = match longest.first() {
        None => (1.0, 0.0),
        Some(&first) => {
            let off = values.iter().filter(|&&value| side(value) == side(first)).count() as f64;
            let share = off / n;
            let beginnings = (n - off + 1.0).max(1.0);
            let chance = 1.0 - (1.0 - share.powi(longest.len() as i32)).powf(beginnings);
            (chance, median(longest)? / level - 1.0)
        }
    };
    let name = "longest-run test".to_owned();
    Some(TestResult { name, statistic: longest.len() as f64, p_value, effect, count: values.len() as u64 })
}

/// Returns the median if the values meet the conditions of the tests.
fn level(values: &[f64]) -> Option<f64> {
    let usable = values.len() >= COUNT_MIN && values.iter().all(|value| value.is_finite());
    median(values).filter(|&m| usable && m > 0.0)
}

/// Returns all pairs as (distance, earlier value, later value).
fn pairs(values: &[f64]) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
    (0..values.len()).flat_map(move |i| (i + 1..values.len()).map(move |j| ((j - i) as f64, values[i], values[j])))
}

/// Returns 1 for a rise, -1 for a fall, 0 for a tie.
fn rise(earlier: f64, later: f64) -> i64 {
    i64::from(later > earlier) - i64::from(later < earlier)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few distinct values, so that ties occur.
    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((1u32..12).prop_map(f64::from), 8..30)
    }

    /// A figure that varies by 2 % around a level.
    fn steady() -> Vec<f64> {
        (0..20).map(|i| 100.0 + [0.0, 1.5, -1.0, 0.5, -1.5][i * 7 % 5] + 0.01 * [3.0, 1.0, 4.0, 2.0][i % 4]).collect()
    }

    fn sign(x: f64) -> f64 {
        if x == 0.0 { 0.0 } else { x.signum() }
    }

    #[test]
    fn temporary_change_is_a_significant_run() {
        let slow = |from: usize, to: usize| -> Vec<f64> {
            (0..32).map(|at| if (from..to).contains(&at) { 10.0 } else { 1.0 + 0.02 * (at % 3) as f64 }).collect()
        };
        // A quarter of the values at the end or at the beginning, a third in the middle, an eighth anywhere.
        for (from, to) in [(24, 32), (0, 8), (11, 21), (5, 9), (28, 32)] {
            let found = excursion(&slow(from, to), 0.5).unwrap();
            assert_eq!(found.statistic, (to - from) as f64);
            assert!(found.p_value < 0.01 && found.effect > 5.0, "{from}..{to}: {found:?}");
        }
        let short = excursion(&slow(10, 12), 0.5).unwrap();
        assert!(short.p_value > 0.01, "a run of two values is not significant: {short:?}");
        let none = excursion(&slow(0, 0), 0.5).unwrap();
        assert_eq!((none.statistic, none.p_value, none.effect), (0.0, 1.0, 0.0));
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn random_order_makes_no_significant_run() {
        use rand::{SeedableRng, seq::SliceRandom};
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        for off in [4usize, 8, 12] {
            let mut found = 0;
            for _ in 0..2_000 {
                let mut values: Vec<f64> = (0..32).map(|at| if at < off { 10.0 } else { 1.0 }).collect();
                values.shuffle(&mut random);
                found += usize::from(excursion(&values, 0.5).unwrap().p_value < 0.01);
            }
            assert!(found <= 40, "{found} of 2000 random orders have a significant run; {off} of 32 values are high");
        }
    }

    proptest! {
        #[test]
        fn longest_run_matches_the_definition(values in prop::collection::vec(1u32..12, 8..30)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let middle = median(&values).unwrap();
            let mut longest = 0;
            for from in 0..values.len() {
                for to in from + 1..=values.len() {
                    let all = |off: &dyn Fn(f64) -> bool| values[from..to].iter().all(|&value| off(value));
                    if all(&|value| value > 1.5 * middle) || all(&|value| value < 0.5 * middle) {
                        longest = longest.max(to - from);
                    }
                }
            }
            let found = excursion(&values, 0.5).unwrap();
            prop_assert_eq!(found.statistic as usize, longest);
            prop_assert!((0.0..=1.0).contains(&found.p_value));
        }

        #[test]
        fn trend_matches_the_definition(values in values()) {
            let n = values.len();
            let (mut s, mut slopes, mut ties) = (0.0, Vec::new(), BTreeMap::<u64, f64>::new());
            for j in 0..n {
                *ties.entry(values[j] as u64).or_default() += 1.0;
                for i in 0..j {
                    s += sign(values[j] - values[i]);
                    slopes.push((values[j] - values[i]) / (j - i) as f64);
                }
            }
            let n = n as f64;
            let mut variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
            for t in ties.values() {
                variance -= t * (t - 1.0) * (2.0 * t + 5.0) / 18.0;
            }
            let z = if s == 0.0 { 0.0 } else { (s - sign(s)) / variance.sqrt() };
            let effect = median(&slopes).unwrap() * (n - 1.0) / median(&values).unwrap();

            let result = trend(&values).unwrap();
            prop_assert_eq!(result.statistic, s);
            prop_assert!((result.p_value - normal_two_sided(z)).abs() < 1e-9);
            prop_assert!((result.effect - effect).abs() < 1e-9);
            prop_assert_eq!(result.count, values.len() as u64);
        }

        #[test]
        fn change_point_matches_the_definition(values in values()) {
            let n = values.len();
            let u = |t: usize| -> f64 {
                (0..t).flat_map(|i| (t..n).map(move |j| (i, j))).map(|(i, j)| sign(values[i] - values[j])).sum()
            };
            let k = (1..n).map(|t| u(t).abs()).fold(0.0, f64::max);
            let at = (1..n).find(|&t| u(t).abs() == k).unwrap();
            let p = (2.0 * f64::exp(-6.0 * k * k / (n.pow(3) + n.pow(2)) as f64)).min(1.0);

            let found = change_point(&values).unwrap();
            prop_assert_eq!(found.result.statistic, k);
            prop_assert_eq!(found.at, at);
            prop_assert!((found.result.p_value - p).abs() < 1e-9);
            let effect = median(&values[at..]).unwrap() / median(&values[..at]).unwrap() - 1.0;
            prop_assert!((found.result.effect - effect).abs() < 1e-9);
        }

        #[test]
        fn reversed_values_have_the_opposite_trend(values in values()) {
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            let (there, back) = (trend(&values).unwrap(), trend(&reversed).unwrap());
            prop_assert_eq!(there.statistic, -back.statistic);
            prop_assert_eq!(there.p_value, back.p_value);
            prop_assert!((there.effect + back.effect).abs() < 1e-9);
        }

        #[test]
        fn results_do_not_depend_on_the_unit(values in values(), scale in 1e-3f64..1e9) {
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let (one, other) = (trend(&values).unwrap(), trend(&scaled).unwrap());
            prop_assert!(one.p_value == other.p_value && (one.effect - other.effect).abs() < 1e-9);
            let (one, other) = (change_point(&values).unwrap(), change_point(&scaled).unwrap());
            prop_assert!(one.at == other.at && (one.result.effect - other.result.effect).abs() < 1e-9);
        }

        #[test]
        fn two_extreme_values_are_not_significant(a in 0usize..20, b in 0usize..20, factor in 2.0f64..1e6) {
            let mut values = steady();
            values[a] *= factor;
            values[b] *= factor;
            prop_assert!(trend(&values).unwrap().p_value > 0.05);
            prop_assert!(change_point(&values).unwrap().result.p_value > 0.05);
        }
    }

    #[test]
    fn rise_is_a_trend() {
        // S = 28 of 28 pairs, its variance 8 * 7 * 21 / 18, z = 27 / 8.083.
        let result = trend(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        assert_eq!((result.statistic, result.count), (28.0, 8));
        assert!((result.p_value - 0.000_836_5).abs() < 1e-6, "{result:?}");
        assert!((result.effect - 7.0 / 4.5).abs() < 1e-12);
        // Four ties of two: S = 24, its variance (1176 - 4 * 18) / 18, z = 23 / 7.832.
        let tied = trend(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]).unwrap();
        assert_eq!(tied.statistic, 24.0);
        assert!((tied.p_value - 0.003_316).abs() < 1e-5, "{tied:?}");
    }

    #[test]
    fn step_is_a_change_point() {
        let values = [vec![1.0; 10], vec![2.0; 10]].concat();
        let found = change_point(&values).unwrap();
        assert_eq!((found.at, found.result.statistic, found.result.effect), (10, 100.0, 1.0));
        assert!((found.result.p_value - 2.0 * (-60_000.0f64 / 8_400.0).exp()).abs() < 1e-12);
    }

    #[test]
    fn steady_values_have_no_trend_or_shift() {
        for values in [steady(), vec![5.0; 20]] {
            let (trend, shift) = (trend(&values).unwrap(), change_point(&values).unwrap().result);
            assert!(trend.p_value > 0.05 && trend.effect.abs() < 0.05, "{trend:?}");
            assert!(shift.p_value > 0.05 && shift.effect.abs() < 0.05, "{shift:?}");
        }
        assert_eq!(trend(&[5.0; 20]).unwrap().p_value, 1.0);
    }

    #[test]
    fn untestable_values_give_no_result() {
        let infinite = [1.0, 2.0, 3.0, 4.0, f64::INFINITY, 6.0, 7.0, 8.0];
        for values in [&[1.0; 7][..], &[0.0; 8], &infinite, &infinite.map(|v| v - f64::INFINITY)] {
            assert_eq!((trend(values), change_point(values)), (None, None), "{values:?}");
        }
    }
}
