//! The verdict on a trial, as it is stored: its checks, each with its value and its limit.

use serde::{Deserialize, Serialize};

/// What may be believed of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The class.
    pub kind: VerdictKind,
    /// One sentence with the numbers that decided it.
    pub reason: String,
    /// Every check that was made, in the order in which they decide; none where there was nothing to check.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Whether a trial that is not valid says nothing against its server: the client was late, others took the server's CPUs, or
    /// it was counted at another time, and nothing else was found.
    pub fn is_the_machine_s(&self) -> bool {
        let mut failed = self.checks.iter().filter(|check| !check.passed).peekable();
        failed.peek().is_some()
            && failed.all(|it| {
                let of_machine = [Check::TAKEN_BY_OTHERS, Check::COUNTED_LATE];
                it.decides == VerdictKind::ClientLimited || of_machine.contains(&it.name.as_str())
            })
    }

    /// Whether estimates include the trial: it is valid, or its times changed for a cause that may be the server's own.
    /// Leaving such windows out would hide the server's noise; a cause that was seen elsewhere is no noise of the server.
    pub fn belongs_in_estimates(&self) -> bool {
        let has_other_cause = |check: &Check| {
            let of_machine = [Check::TAKEN_BY_OTHERS, Check::COUNTED_LATE];
            !check.passed && (check.decides != VerdictKind::Unsteady || of_machine.contains(&check.name.as_str()))
        };
        match self.kind {
            VerdictKind::Valid => true,
            VerdictKind::Unsteady => !self.checks.iter().any(has_other_cause),
            VerdictKind::ClientLimited | VerdictKind::Saturated | VerdictKind::Failed => false,
        }
    }

    /// Whether nothing else is wrong with a trial than that its window had too few requests to be judged.
    pub fn has_too_few_requests(&self) -> bool {
        let mut failed = self.checks.iter().filter(|check| !check.passed).peekable();
        failed.peek().is_some() && failed.all(|it| it.name == Check::REQUESTS)
    }

    /// Of a trial that could not be finished.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { kind: VerdictKind::Failed, reason: reason.into(), checks: Vec::new() }
    }
}

/// One thing that a trial must fulfil to be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What is looked at.
    pub name: String,
    /// What was found; in JSON a word, where it is no number.
    #[serde(with = "unbounded")]
    pub value: f64,
    /// What it is held against; likewise.
    #[serde(with = "unbounded")]
    pub limit: f64,
    /// On which side of the limit it has to be.
    pub bound: Bound,
    /// The unit of both; empty for a share or a count.
    pub unit: String,
    /// The test's p-value, where it is one.
    pub p_value: Option<f64>,
    /// A test fails only if its p-value is below this, too: what is found by chance less often is not taken for chance.
    pub p_value_min: Option<f64>,
    /// Whether the trial fulfils it.
    pub passed: bool,
    /// What the trial is if it does not.
    pub decides: VerdictKind,
}

impl Check {
    /// The name of a check of the machine, and not of the server or the client...
    pub const TAKEN_BY_OTHERS: &str = "share of the server's CPUs taken by others";
    /// ...and of the other: whoever runs the trial was kept from it.
    pub const COUNTED_LATE: &str = "time by which the server was counted late at an edge of the window";
    /// The name of the one check of whether there is enough to be judged.
    pub const REQUESTS: &str = "requests in the window";
}

/// Numbers that may be without bound, or none at all, which JSON has no numbers for.
mod unbounded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Finite(f64),
        Word(String),
        /// As earlier versions wrote it.
        Null(()),
    }

    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { value.serialize(serializer) } else { value.to_string().serialize(serializer) }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Number::deserialize(deserializer)? {
            Number::Finite(value) => Ok(value),
            Number::Word(word) => word.parse().map_err(serde::de::Error::custom),
            Number::Null(()) => Ok(f64::NAN),
        }
    }
}

/// A side of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The limit or more.
    AtLeast,
    /// The limit or less.
    AtMost,
}

/// The classes of verdicts. Only `valid` trials are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// The figures are the server's.
    Valid,
    /// The server could not keep up with the rate asked.
    Saturated,
    /// The client could not keep up with its schedule.
    ClientLimited,
    /// The measured window was not one steady state: the server's times changed within it, or others took its CPUs.
    Unsteady,
    /// The trial did not finish, or its figures cannot be believed.
    Failed,
}
