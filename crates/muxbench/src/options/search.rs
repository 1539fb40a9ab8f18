//! The goal of a search for a capacity.

use harness::record::{LatencyLimit, SearchGoal, Varied};
use harness::spec::units::{Rate, Share, Time};

use super::given::Actions;

/// Returns the limits of the response time.
pub fn limits(options: &Actions) -> Vec<LatencyLimit> {
    let limits = [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p999")];
    let limit = |(quantile, name)| Some(LatencyLimit { quantile, max_ns: options.get::<Time>(name)?.0 });
    limits.into_iter().filter_map(limit).collect()
}

/// Returns the goal of a command's search up to `most`.
pub fn goal(options: &Actions, command: &str, varied: Varied, most: f64) -> SearchGoal {
    SearchGoal {
        limits: limits(options),
        varied,
        from: options.get_or_default::<Rate>("from", command).0,
        most,
        precision: options.get_or_default::<Share>("precision", command).0,
        time_max_ns: options.get_or_default::<Time>("time-max", command).0,
    }
}
