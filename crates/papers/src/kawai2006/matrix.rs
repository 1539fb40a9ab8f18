//! The paper's architectures and its traffic.

use harness::model::Workload;
use harness::spec::transport::Transport;
use load::config::Schedule;
use wire::ServiceSpec;

use crate::workload::is_plain;

/// In the order of the paper's columns.
pub(crate) const ARCHITECTURES: [&str; 5] = ["mp", "mt", "select", "poll", "epoll"];

/// The paper's Table 2.
pub(super) const SERVICE: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };

/// The paper's traffic, in all but the three parameters of its matrix, the schedule and the phases.
pub(super) fn of_the_paper(workload: &Workload) -> bool {
    is_plain(workload) && workload.service == SERVICE && workload.transport == Transport::Tcp && workload.idle == 0
}

/// Those of it whose sends are meant to be at even intervals.
pub(super) fn at_even_intervals(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.schedule == Schedule::Constant
}

pub(super) fn busiest(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.connections == 10_000 && workload.rate_per_s == Some(2_000.0)
}
