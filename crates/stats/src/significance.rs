//! Results of statistical tests, and the distributions behind their p values.

use std::f64::consts::{PI, SQRT_2};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a statistical test. With many values, even negligible differences are significant: judge by `effect` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TestResult {
    /// The name of the test in reports. The test's function cites the source.
    pub name: String,
    /// The statistic as the source defines it.
    pub statistic: f64,
    /// Probability of a statistic at least as extreme under the null hypothesis.
    pub p_value: f64,
    /// Size of the effect, in a unit that each test defines.
    pub effect: f64,
    /// Number of values tested.
    pub count: u64,
}

/// Returns the probability that a standard normal value is at least as far from 0 as `z`.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / SQRT_2)
}

/// Returns the probability that a value of Student's t distribution is at least as far from 0 as `t`.
pub(crate) fn student_t_two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the value that a value of Student's t distribution exceeds, in either direction, with probability `alpha`.
pub(crate) fn student_t_critical(alpha: f64, freedom: f64) -> f64 {
    let exceeds = |t: f64| student_t_two_sided(t, freedom) > alpha;
    let mut high = 1.0;
    while exceeds(high) {
        high *= 2.0;
    }
    let mut low = 0.0;
    // 60 halvings reach the precision of the numbers.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        *if exceeds(middle) { &mut low } else { &mut high } = middle;
    }
    high
}

/// Returns the regularised incomplete beta function I_x(a, b), by its continued fraction (Abramowitz and Stegun 1964, 26.5.8).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        // The fraction converges fast on the other side.
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let factor = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (1.0 - x).ln();
    let term = |m: usize| {
        let half = (m / 2) as f64;
        let numerator = if m.is_multiple_of(2) { half * (b - half) } else { -(a + half) * (a + b + half) };
        numerator * x / ((a + m as f64 - 1.0) * (a + m as f64))
    };
    // The number of terms that matter grows as the square root of the parameters.
    let terms = 50 + 5 * a.max(b).sqrt() as usize;
    let fraction = (1..terms).rev().fold(1.0, |rest, m| 1.0 + term(m) / rest);
    factor.exp() / a / fraction
}

/// Returns the probability that a value of the Kolmogorov distribution exceeds `x`.
pub(crate) fn kolmogorov_tail(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    // Both series have the same sum, and each converges fast on its side of 1. The omitted terms are below 1e-30.
    if x >= 1.0 {
        let term = |j: f64| (-2.0 * j * j * x * x).exp();
        2.0 * (term(1.0) - term(2.0) + term(3.0) - term(4.0) + term(5.0))
    } else {
        let term = |odd: f64| (-(odd * PI / x).powi(2) / 8.0).exp();
        1.0 - (2.0 * PI).sqrt() / x * (term(1.0) + term(3.0) + term(5.0) + term(7.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simpson's rule.
    fn integral(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
        let (steps, width) = (2_000, (to - from) / 2_000.0);
        (0..=steps)
            .map(|i| {
                let weight = if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
                weight * f(from + f64::from(i) * width)
            })
            .sum::<f64>()
            * width
            / 3.0
    }

    proptest! {
        #[test]
        fn normal_tails_match_the_integral_of_the_density(z in -6.0f64..6.0) {
            let between = integral(|x| (-x * x / 2.0).exp() / (2.0 * PI).sqrt(), -z.abs(), z.abs());
            prop_assert!((normal_two_sided(z) - (1.0 - between)).abs() < 1e-9);
        }

        #[test]
        fn kolmogorov_tail_matches_its_series(x in 0.05f64..3.0) {
            let series: f64 =
                (1..=2_000).map(|j| 2.0 * (-1f64).powi(j - 1) * (-2.0 * f64::from(j * j) * x * x).exp()).sum();
            prop_assert!((kolmogorov_tail(x) - series).abs() < 1e-9, "at {x}: {}, expected {series}", kolmogorov_tail(x));
        }
    }

    #[test]
    fn student_t_matches_published_tables() {
        // Two-sided critical values (Pearson and Hartley 1966, Table 12), and the closed forms for 1 and 2 degrees of freedom.
        let table = [
            (0.05, [12.706, 4.303, 3.182, 2.571, 2.228, 2.042, 1.980]),
            (0.01, [63.657, 9.925, 5.841, 4.032, 3.169, 2.750, 2.617]),
            (0.001, [636.62, 31.599, 12.924, 6.869, 4.587, 3.646, 3.373]),
        ];
        for (alpha, criticals) in table {
            for (freedom, critical) in [1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 120.0].into_iter().zip(criticals) {
                let found = student_t_critical(alpha, freedom);
                assert!((found / critical - 1.0).abs() < 3e-4, "{alpha}, {freedom}: {found}, expected {critical}");
            }
        }
        for t in [1e-3, 0.5, 1.0, 3.0, 40.0, 1e6] {
            let one = 1.0 - 2.0 / PI * f64::atan(t);
            let two = 1.0 - t / f64::sqrt(2.0 + t * t);
            assert!(
                (student_t_two_sided(t, 1.0) - one).abs() < 1e-12 && (student_t_two_sided(-t, 2.0) - two).abs() < 1e-12
            );
        }
        assert!((student_t_two_sided(1.96, 1e6) - normal_two_sided(1.96)).abs() < 1e-6);
        assert_eq!((student_t_two_sided(0.0, 3.0), student_t_two_sided(f64::INFINITY, 3.0)), (1.0, 0.0));
        // The far tail with 4 degrees of freedom is 6 / t^4.
        assert!((student_t_critical(6e-8, 4.0) / 100.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn tails_match_published_tables() {
        for (z, p) in [(0.0, 1.0), (1.959_964, 0.05), (2.575_829, 0.01), (-3.290_527, 0.001)] {
            assert!((normal_two_sided(z) - p).abs() < 1e-6, "{z}");
        }
        for (x, p) in [(0.0, 1.0), (1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01), (1.9495, 0.001)] {
            assert!((kolmogorov_tail(x) - p).abs() < 1e-4, "{x}");
        }
        assert!(kolmogorov_tail(1e-9) == 1.0 && kolmogorov_tail(100.0) == 0.0);
    }
}
