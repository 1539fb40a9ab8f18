//! The rule that all papers' workloads have in common.

use harness::model::Workload;
use load::config::Choice;

/// Whether nothing is added to a workload that no paper had: a lab's network, work for each request, connections that are not
/// chosen alike.
pub(super) fn is_plain(workload: &Workload) -> bool {
    workload.network.is_none() && workload.work.is_none() && workload.choice == Choice::Uniform
}
