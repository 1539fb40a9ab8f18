//! Constructors of checks.

use stats::TestResult;

use crate::record::{Bound, Check, VerdictKind};

/// Requires a value of at most `limit`.
pub(super) fn at_most(name: impl Into<String>, value: f64, limit: f64, unit: &str, decides: VerdictKind) -> Check {
    check(name.into(), value, Bound::AtMost, limit, unit, decides)
}

/// Requires a value of at least `limit`.
pub(super) fn at_least(name: impl Into<String>, value: f64, limit: f64, unit: &str, decides: VerdictKind) -> Check {
    check(name.into(), value, Bound::AtLeast, limit, unit, decides)
}

/// Requires a count of 0. Otherwise the trial has failed.
pub(super) fn none(name: impl Into<String>, count: u64) -> Check {
    at_most(name, count as f64, 0.0, "", VerdictKind::Failed)
}

/// Requires a statistical test to have an effect of at most `limit`, or a p-value of at least `p_value_min`.
pub(super) fn effect(what: &str, result: &TestResult, limit: f64, p_value_min: f64, decides: VerdictKind) -> Check {
    let check = at_most(format!("{what} ({})", result.name), result.effect.abs(), limit, "", decides);
    let passed = check.passed || result.p_value >= p_value_min;
    Check { p_value: Some(result.p_value), p_value_min: Some(p_value_min), passed, ..check }
}

fn check(name: String, value: f64, bound: Bound, limit: f64, unit: &str, decides: VerdictKind) -> Check {
    let passed = match bound {
        Bound::AtLeast => value >= limit,
        Bound::AtMost => value <= limit,
    };
    Check { name, value, limit, bound, unit: unit.to_owned(), p_value: None, p_value_min: None, passed, decides }
}

/// Formats a failed check with its value and its limit.
pub(crate) fn in_words(check: &Check) -> String {
    let decimals = |value: f64| match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 1.0 => 1,
        _ => 3,
    };
    let side = match check.bound {
        Bound::AtLeast => "is below",
        Bound::AtMost => "exceeds",
    };
    // A colon separates the name from a number without a unit.
    let (colon, unit) = if check.unit.is_empty() { (":", String::new()) } else { ("", format!(" {}", check.unit)) };
    let p_value = check.p_value.map(|p| format!(" (p {p:.1e})")).unwrap_or_default();
    let [value, limit] = check.numbers(decimals);
    format!("{}{colon} {value}{unit}{p_value} {side} the limit of {limit}{unit}", check.name)
}
