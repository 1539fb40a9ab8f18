//! A rule that the workloads of all papers share.

use harness::model::Workload;
use load::config::Popularity;

/// Returns whether a workload has only features that the papers know: no lab network, no simulated work, and uniform
/// connection popularity.
pub(super) fn is_plain(workload: &Workload) -> bool {
    workload.network.is_none() && workload.work.is_none() && workload.popularity == Popularity::Uniform
}
