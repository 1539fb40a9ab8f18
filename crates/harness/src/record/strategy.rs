//! Strategies: the order in which a run executes trials, and the effect of finished trials on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Histogram;

use super::advise::AdviseGoal;
use super::gate::GateGoal;
use super::overload::OverloadGoal;
use super::search::SearchGoal;

/// The order in which a run executes trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Executes all trials in the plan's order.
    Whole,
    /// Executes trials by ascending rate. Stops an architecture after several consecutive rates past saturation.
    Sweep {
        /// The number of consecutive rates past saturation. `None` never stops.
        past: Option<u32>,
    },
    /// Executes repeats until each pair of architectures is separated or equal in practice.
    Until {
        /// Architectures whose ratio is within this distance of 1 are equal in practice.
        margin: f64,
        /// The total time, in nanoseconds, within which repeats end. The first repeat always runs.
        time_max_ns: u64,
    },
    /// Executes repeats of two builds until each figure of the new one is known to be within its limit, or one to be beyond.
    Gate(GateGoal),
    /// Races architectures for an objective, and then races the best ones under changed traffic. The plan has the first repeat of
    /// each part; results determine the later ones.
    Advise(AdviseGoal),
    /// Searches for the highest rate, or the most connections, that meet the goal. The plan has the first probe of each search;
    /// results determine the next ones.
    Capacity(SearchGoal),
    /// Loads each server beyond its capacity for a pulse, after a search unless the capacity is known. The plan has a trial of each
    /// server, as for a search.
    Overload(OverloadGoal),
}

impl Strategy {
    /// Tests whether results determine the rates of later trials, so that the plan has only the first ones.
    pub fn is_search(&self) -> bool {
        matches!(self, Self::Capacity(_) | Self::Overload(_))
    }
}

/// The result of a finished trial, for a strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOutcome {
    /// The index of the trial.
    pub index: u32,
    /// The rate in requests per second. `None` in a closed loop.
    pub rate_per_s: Option<f64>,
    /// The total duration, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the trial was past saturation or failed.
    pub is_past: bool,
    /// The number of trials that shared the window.
    pub contestants: u32,
    /// The heat, which these trials share.
    pub heat: u32,
    /// The metric that ranks architectures, for a run that goes on until it is decided; `None` without a usable value.
    pub metric: Option<f64>,
    /// The values of a gate's figures, in the order of its limits, or of all figures for a race; empty for other strategies.
    pub values: Vec<Option<f64>>,
    /// The service times, for a race, which merges those of all repeats.
    pub times: Option<Histogram>,
    /// Whether the trial ran separately, and did not fail.
    pub is_alone: bool,
    /// Whether the trial ran separately because its slices made a heat void.
    pub is_separated: bool,
    /// The rate or the number of connections of the probe, and its result. `None` if the trial is not a probe of a search; the only
    /// other trials of an overload have a pulse.
    pub probe: Option<(f64, ProbeResult)>,
}

/// The result of one probe of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeResult {
    /// The trial met the limits.
    Met,
    /// The trial exceeded a limit, missed its rate or had errors. The server appears to be the cause.
    Unmet,
    /// The trial exceeded a limit or missed its rate, and the client may be the cause.
    UnmetByTheClient,
    /// The client was late, or other processes took the server's CPUs. A search settles whether the result counts by the probes
    /// before it, never by the result itself: to discard only those that missed would raise the estimate.
    Doubtful {
        /// Whether the trial met the limits.
        met: bool,
        /// Whether the client may be the only cause of exceeded limits.
        client: bool,
    },
    /// Inconclusive: a doubtful result that does not count, or a window with too few requests.
    Disturbed,
    /// The trial did not finish.
    Failed,
}

impl ProbeResult {
    /// Tests whether the trial met the limits.
    pub fn is_met(self) -> bool {
        matches!(self, Self::Met | Self::Doubtful { met: true, .. })
    }
}
