//! Constructors of checks, and the facts about the server that they need.

use load::result::PARTS;
use server::ServerCounters;
use stats::TestResult;

use crate::record::{Bound, Check, VerdictKind};

/// Facts about the server during the window.
#[derive(Clone, Copy, Debug)]
pub struct ServerSide<'a> {
    /// The server's counters, counted by the server itself or by an observer.
    pub counters: &'a ServerCounters,
    /// The number of CPUs that it can use at once.
    pub cpus: usize,
    /// The longer of the two delays with which its counters were read at the window's edges, in nanoseconds.
    pub late_ns: u64,
    /// The share of its CPUs that other processes took. `None` if unknown.
    pub taken: Option<f64>,
    /// Whether it keeps its CPUs busy while idle.
    pub spins: bool,
    /// The bytes per second that it received from streams, in each part of the window. `None` if not counted.
    pub took_in: Option<[f64; PARTS]>,
}

impl ServerSide<'_> {
    /// Returns the share of its CPUs that it used.
    pub(super) fn busy_share(&self) -> f64 {
        // The counters are read a little before and after the window.
        (self.counters.cpu_ns() as f64 / (self.counters.window_ns as f64 * self.cpus as f64)).min(1.0)
    }

    /// Tests whether it worked for at least this share of its CPUs' time. The CPU time of a spinning server proves no work.
    pub(super) fn has_worked(&self, share_min: f64) -> bool {
        !self.spins && self.busy_share() >= share_min
    }
}

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
