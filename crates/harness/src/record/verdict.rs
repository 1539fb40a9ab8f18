//! The stored verdict on a trial: its checks, each with its value and its limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More decimals tell no two numbers apart: an `f64` has 17 significant digits.
const DECIMALS_MORE_MAX: usize = 17;

/// The verdict on a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The class.
    pub kind: VerdictKind,
    /// One sentence with the decisive numbers.
    pub reason: String,
    /// All checks in the order in which they decide. Empty if there was nothing to check.
    pub checks: Vec<Check>,
}

impl Verdict {
    fn failed_checks(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.passed)
    }

    /// Tests whether checks failed, and all failed checks are about the machine or the client.
    pub fn is_blameless_for_server(&self) -> bool {
        let is_beside = |it: &Check| it.decides == VerdictKind::ClientLimited || it.is_of_machine();
        self.failed_checks().next().is_some() && self.failed_checks().all(is_beside)
    }

    /// Tests whether estimates include the trial. Valid trials count. Unsteady trials count too if the cause may be the
    /// server itself, because their exclusion would hide the server's noise.
    pub fn belongs_in_estimates(&self) -> bool {
        let may_be_server = |check: &Check| check.decides == VerdictKind::Unsteady && !check.is_of_machine();
        match self.kind {
            VerdictKind::Valid => true,
            VerdictKind::Unsteady => self.failed_checks().all(may_be_server),
            VerdictKind::ClientLimited | VerdictKind::Saturated | VerdictKind::Failed => false,
        }
    }

    /// Tests whether the only fault of a trial is a window with too few requests.
    pub fn has_too_few_requests(&self) -> bool {
        self.failed_checks().next().is_some() && self.failed_checks().all(|it| it.name == Check::REQUESTS)
    }

    /// Tests whether the server still got faster in the window.
    pub fn is_of_cold_server(&self) -> bool {
        let is_of_warmth =
            |it: &Check| [Check::FASTER, Check::SUDDENLY_FASTER].iter().any(|name| it.name.starts_with(name));
        self.failed_checks().any(is_of_warmth)
    }

    /// Tests whether the only fault of a trial is that requests failed.
    pub fn has_only_errors(&self) -> bool {
        let is_error = |it: &Check| it.name.starts_with(Check::ERRORS) || it.name == Check::UNANSWERED;
        self.failed_checks().next().is_some() && self.failed_checks().all(is_error)
    }

    /// Tests whether the trial could not finish. Its client may have reported before the server failed.
    pub fn is_unfinished(&self) -> bool {
        self.kind == VerdictKind::Failed && self.checks.is_empty()
    }

    /// Returns the verdict on a trial that could not finish.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { kind: VerdictKind::Failed, reason: reason.into(), checks: Vec::new() }
    }
}

/// A condition for a valid trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The quantity.
    pub name: String,
    /// The measured value. Stored as a word if it is not finite.
    #[serde(with = "unbounded")]
    #[schemars(with = "unbounded::Number")]
    pub value: f64,
    /// The limit. Stored as a word if it is not finite.
    #[serde(with = "unbounded")]
    #[schemars(with = "unbounded::Number")]
    pub limit: f64,
    /// The required side of the limit.
    pub bound: Bound,
    /// The unit of value and limit. Empty for a share or a count.
    pub unit: String,
    /// The p-value, if the check is a statistical test.
    pub p_value: Option<f64>,
    /// A statistical test fails only if its p-value is also below this limit.
    pub p_value_min: Option<f64>,
    /// Whether the check passed.
    pub passed: bool,
    /// The verdict if the check fails.
    pub decides: VerdictKind,
}

impl Check {
    /// The name of a check of the machine: the CPU time of other processes.
    pub const TAKEN_BY_OTHERS: &str = "share of the server's CPUs taken by others";
    /// The name of a check of the machine: the delay of reading the server's counters.
    pub const COUNTED_LATE: &str = "time by which the server was counted late at an edge of the window";
    /// The names of the checks that a server was warm.
    pub const FASTER: &str = "fall of the median service time over the window, as of a server that still warms up";
    /// See [`Check::FASTER`].
    pub const SUDDENLY_FASTER: &str =
        "drop of the median service time in the window, as of a server that still warms up";
    /// The name of the check for enough requests in the window.
    pub const REQUESTS: &str = "requests in the window";
    /// The lowest number of requests in the window. Fewer have no meaningful quartiles.
    pub const REQUESTS_MIN: f64 = 20.0;

    /// The beginning of the name of a check for errors of a class.
    pub const ERRORS: &str = "errors of class";
    /// The name of the check for requests that timed out.
    pub const UNANSWERED: &str = "share of unanswered requests";

    /// Formats the value and the limit. Where they would look equal, they have more decimals than `decimals` returns.
    pub fn numbers(&self, decimals: impl Fn(f64) -> usize) -> [String; 2] {
        let number = |value: f64, more: usize| {
            // Whole numbers are exact without more decimals.
            let more = if value.fract() == 0.0 { 0 } else { more };
            format!("{value:.*}", decimals(value) + more)
        };
        let numbers = |more: usize| [number(self.value, more), number(self.limit, more)];
        let differ = |[value, limit]: &[String; 2]| value.parse::<f64>() != limit.parse::<f64>();
        (0..=DECIMALS_MORE_MAX).map(numbers).find(differ).unwrap_or_else(|| numbers(0))
    }

    fn is_of_machine(&self) -> bool {
        [Self::TAKEN_BY_OTHERS, Self::COUNTED_LATE].contains(&self.name.as_str())
    }
}

/// Serialises numbers that may be infinite or NaN, which JSON lacks.
mod unbounded {
    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    pub(super) enum Number {
        Finite(f64),
        Word(String),
    }

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { value.serialize(serializer) } else { value.to_string().serialize(serializer) }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Number::deserialize(deserializer)? {
            Number::Finite(value) => Ok(value),
            Number::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// A side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The limit or more.
    AtLeast,
    /// The limit or less.
    AtMost,
}

/// The classes of verdicts on a trial or on a row of a report. Only `valid` rows are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The figures describe the server.
    Valid,
    /// The server could not keep up with the planned rate.
    Saturated,
    /// The client could not keep up with its schedule.
    ClientLimited,
    /// The window was not in a steady state: the server's times changed, or other processes took its CPUs.
    Unsteady,
    /// The trial did not finish, had errors or too few requests, or its figures are implausible.
    Failed,
}
