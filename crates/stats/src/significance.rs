//! Results of statistical tests, and the distributions behind their p values.

use std::f64::consts::{PI, SQRT_2};

use serde::{Deserialize, Serialize};

/// The result of a statistical test. With many values, even negligible differences are significant: judge by `effect` too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
