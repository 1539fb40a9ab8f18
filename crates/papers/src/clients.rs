//! The clients of kawai2008 and kawai2006: five hosts on gigabit Ethernet, each with a thread that sends and one that receives.

use std::collections::BTreeSet;

use harness::record::{Run, Workload};
use harness::spec::network::Network;
use harness::spec::units::Bandwidth;
use load::config::Roles;

use crate::figure::{has_plain_requests, is_plain};
use report::format::counted;

/// Returns whether the clients are five hosts behind gigabit links without other impairments.
pub fn are_five_hosts(workload: &Workload) -> bool {
    let is_gigabit = |network: &Network| {
        let is_plain = network.delay.0 == 0 && network.loss.is_none();
        is_plain && network.clients.get() == 5 && network.bandwidth == Some(Bandwidth(1_000_000_000))
    };
    workload.network.as_ref().is_some_and(is_gigabit) && has_plain_requests(workload)
}

/// Returns whether a workload is plain over loopback or on the authors' network.
pub fn are_suitable(workload: &Workload) -> bool {
    is_plain(workload) || are_five_hosts(workload)
}

/// Describes the clients of the finished trials, such as "1 client with one loop"; empty without any.
pub fn words<'a>(runs: impl IntoIterator<Item = &'a Run>) -> String {
    let records = runs.into_iter().flat_map(|run| &run.records);
    let kinds: BTreeSet<(u32, bool)> = records
        .filter_map(|record| {
            let load = &record.trial.load;
            Some((load.clients * load.processes, record.load.as_ref()?.roles == Roles::TwoThreads))
        })
        .collect();
    let kind = |&(clients, has_two): &(u32, bool)| {
        let clients = counted(clients as usize, "client", "clients");
        format!("{clients} with {}", if has_two { "two threads" } else { "one loop" })
    };
    kinds.iter().map(kind).collect::<Vec<_>>().join(" or ")
}
