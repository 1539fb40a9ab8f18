//! Strategies: how a run goes through its plan, and what a finished trial means to it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spec::units::Time;

/// How a run goes through its plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every trial, in the plan's order.
    #[default]
    Whole,
    /// By ascending rates; an architecture is left out once so many steps in a row were past saturation.
    Sweep {
        /// See above; `None`: it never is.
        past: Option<u32>,
    },
    /// The plan has one trial for each search, its first probe; the others follow from what was found.
    Capacity(SearchGoal),
}

impl Strategy {
    /// Whether it is that of a plan without more ado.
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// What a course needs to know of a finished trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOutcome {
    /// The trial.
    pub index: u32,
    /// Its rate, in requests a second; `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// How long it took in all, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether it was past saturation, or failed.
    pub is_past: bool,
    /// As a probe of a search.
    pub probe: Option<ProbeResult>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchGoal {
    /// What a response time (t3 - t1) must stay within; all of them.
    pub limits: Vec<LatencyLimit>,
    /// The first rate, in requests a second.
    pub from_per_s: f64,
    /// The highest rate that is tried.
    pub most_per_s: f64,
    /// The interval is to be within this share of the rate, on either side.
    pub precision: f64,
    /// No probe is begun once all have taken so long, in nanoseconds.
    pub time_max_ns: u64,
}

/// A limit of a quantile of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyLimit {
    /// Which quantile, as a share.
    pub quantile: f64,
    /// What it must not exceed, in nanoseconds.
    pub max_ns: u64,
}

impl LatencyLimit {
    /// As in `p99.9`.
    pub fn name(&self) -> String {
        // In tenths of a percent: 99.9, and not what is next to it.
        format!("p{}", (self.quantile * 1e3).round() / 10.0)
    }
}

impl fmt::Display for LatencyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.name(), Time(self.max_ns))
    }
}

/// What a trial says to the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeResult {
    /// The limits were met, though the client may have been late.
    Met,
    /// They were not, or not at that rate, or not without errors: by the server's doing as far as can be told.
    Unmet,
    /// They were not, and it was the client that could not keep up.
    UnmetByTheClient,
    /// They were not, while others took the server's CPUs, or too few requests came to be judged: it says nothing.
    Spoilt,
    /// The trial came to nothing.
    Failed,
}
