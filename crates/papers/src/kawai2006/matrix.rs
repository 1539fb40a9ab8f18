//! The paper's architectures and traffic.

use harness::model::Workload;
use harness::spec::transport::Transport;
use load::config::Schedule;
use wire::ServiceSpec;

use crate::workload::is_plain;

/// The architectures, in the order of the paper's columns.
pub(crate) const ARCHITECTURES: [&str; 5] = ["mp", "mt", "select", "poll", "epoll"];

/// The service of the paper's Table 2.
pub(super) const SERVICE: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };

/// Returns whether a workload is the paper's traffic, apart from the matrix's three parameters, the schedule and the
/// phases.
pub(super) fn of_the_paper(workload: &Workload) -> bool {
    is_plain(workload) && workload.service == SERVICE && workload.transport == Transport::Tcp && workload.idle == 0
}

/// Returns whether a workload is the paper's traffic with sends planned at even intervals.
pub(super) fn at_even_intervals(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.schedule == Schedule::Constant
}
