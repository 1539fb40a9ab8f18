//! Strategies: the order in which a run executes trials, and the effect of finished trials on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Histogram;

use super::advise::AdviseGoal;
use super::figure::FigureMap;
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
    Sweep(SweepGoal),
    /// Executes repeats until each pair of architectures is separated or equal in practice.
    Until(UntilGoal),
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

/// The goal of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepGoal {
    /// The number of consecutive rates past saturation. `None` never stops.
    pub past: Option<u32>,
}

/// The goal of a comparison that ends when it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UntilGoal {
    /// Architectures whose ratio is within this distance of 1 are equal in practice.
    pub margin: f64,
    /// The total time, in nanoseconds, within which repeats end. The first repeat always runs.
    pub time_max_ns: u64,
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
    /// Whether the trial was past saturation or failed, for a strategy that then stops the server. In a gate: whether it did not finish.
    pub is_past: bool,
    /// The number of trials that shared the window.
    pub contestants: u32,
    /// The heat, which these trials share.
    pub heat: u32,
    /// The values of the figures on which the strategy decides, where they are known.
    pub values: FigureMap<f64>,
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

impl Default for TrialOutcome {
    /// The outcome of a trial that ran separately.
    fn default() -> Self {
        Self {
            index: 0,
            rate_per_s: None,
            elapsed_ns: 0,
            is_past: false,
            contestants: 1,
            heat: 0,
            values: FigureMap::default(),
            times: None,
            is_alone: true,
            is_separated: false,
            probe: None,
        }
    }
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
