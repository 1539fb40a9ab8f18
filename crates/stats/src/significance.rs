//! What statistical tests have in common: the form of their result, and the distributions their p values come from.

use std::f64::consts::{PI, SQRT_2};

use serde::{Deserialize, Serialize};

/// What a statistical test found. With many values a test finds differences too small to matter, so judge by `effect`
/// too, never by `p_value` alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// The test, as it is named wherever its result is shown; the function that does it cites its source.
    pub name: String,
    /// The test's statistic, as the test's source defines it.
    pub statistic: f64,
    /// How often a statistic at least so extreme would come about if there were nothing to find.
    pub p_value: f64,
    /// How large what was found is; each test says in what terms.
    pub effect: f64,
    /// Number of values tested.
    pub count: u64,
}

/// How often a standard normal value is at least as far from 0 as `z`, on either side.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / SQRT_2)
}

/// How often a value of the Kolmogorov distribution exceeds `x`.
pub(crate) fn kolmogorov_tail(x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    // Two series of the one distribution. From 1 on, the terms of the first left out are below 2 exp(-2 * 6²); up to
    // 1, those of the second below exp(-9² π² / 8).
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
        fn the_normal_tails_are_the_integral_of_the_density(z in -6.0f64..6.0) {
            let between = integral(|x| (-x * x / 2.0).exp() / (2.0 * PI).sqrt(), -z.abs(), z.abs());
            prop_assert!((normal_two_sided(z) - (1.0 - between)).abs() < 1e-9);
        }

        #[test]
        fn the_kolmogorov_tail_is_its_series(x in 0.05f64..3.0) {
            let series: f64 =
                (1..=2_000).map(|j| 2.0 * (-1f64).powi(j - 1) * (-2.0 * f64::from(j * j) * x * x).exp()).sum();
            prop_assert!((kolmogorov_tail(x) - series).abs() < 1e-9, "{x}: {} or {series}", kolmogorov_tail(x));
        }
    }

    /// From the tables of both.
    #[test]
    fn known_quantiles() {
        for (z, p) in [(0.0, 1.0), (1.959_964, 0.05), (2.575_829, 0.01), (-3.290_527, 0.001)] {
            assert!((normal_two_sided(z) - p).abs() < 1e-6, "{z}");
        }
        for (x, p) in [(0.0, 1.0), (1.2238, 0.10), (1.3581, 0.05), (1.6276, 0.01), (1.9495, 0.001)] {
            assert!((kolmogorov_tail(x) - p).abs() < 1e-4, "{x}");
        }
        assert!(kolmogorov_tail(1e-9) == 1.0 && kolmogorov_tail(100.0) == 0.0);
    }
}
