//! The host and the settings of a run.

use harness::host::interrupts;
use harness::record::{Run, Trial};
use harness::spec::transport::Transport;

use crate::analysis::client_tail;
use crate::analysis::summary::planned;
use crate::analysis::warm_up;
use crate::format;

/// Describes the host, the client and the command of a run.
pub(crate) fn host(run: &Run) -> String {
    conditions(run, true, true)
}

/// Does so, with notes on the columns of CPU time and on memory monitors only if the reader needs them.
pub(super) fn conditions(run: &Run, has_cpu: bool, has_monitors: bool) -> String {
    let header = &run.header;
    let fact = |name: &str| header.host.get(name).map_or("unknown", String::as_str);
    let system = harness::host::system(&header.host).unwrap_or_else(|| "unknown system".into());
    let trials = counts(run);
    let client = run.records.iter().find_map(|record| record.load.as_ref()).map_or_else(String::new, |load| {
        let pacing = load.pacing.map_or(String::new(), |pacing| format!(", pacing {}", format::name(&pacing)));
        format!(" Client: {}{pacing}, clock {}.", format::name(&load.roles), load.clock.source)
    });
    let is_unix = |trial: &Trial| trial.workload.transport == Transport::Unix;
    let network = match fact("network") {
        _ if header.trials.iter().all(|trial| trial.workload.network.is_some()) => "namespaces on this host",
        _ if header.trials.iter().all(is_unix) => "none (Unix sockets)",
        network => network,
    };
    format!(
        "Host: {}, {system}, {}. Network: {}.{client}\n\
         {}{}{}\
         Run {} ({trials}, seed {}), muxbench {}: {}",
        fact("cpu"),
        header.placement,
        network,
        if has_cpu { about_interrupts(run) } else { "" },
        warm_up::sentences(run).iter().map(|sentence| format!("{sentence}\n")).collect::<String>(),
        if has_monitors { about_monitors(run) } else { String::new() },
        header.name,
        header.seed,
        header.muxbench,
        format::command(&header.command)
    )
}

/// Names running memory monitors, which work in bursts of 1 to 2 ms, and counts the requests that they hit.
fn about_monitors(run: &Run) -> String {
    let late = client_tail::late(run.records.iter().filter_map(|record| record.load.as_ref()));
    if run.header.host.get("memory monitors").is_none_or(|state| state != "on") && late.monitored == 0 {
        return String::new();
    }
    format!(
        "The kernel monitored memory accesses (DAMON): its bursts of work hit about {} of {} requests. To stop it, see \
         `muxbench doctor`.\n",
        late.monitored, late.sent
    )
}

/// Counts the finished trials of a run. The probes of searches count apart.
pub(crate) fn counts(run: &Run) -> String {
    let strategy = &run.header.strategy;
    let probes = run.records.iter().filter(|record| strategy.is_probe(&record.trial)).count();
    match run.records.len() - probes {
        trials if !strategy.is_open_ended() => format!("{trials} of {} trials", planned(run)),
        0 if probes > 0 => format!("{probes} probes"),
        trials if probes > 0 => format!("{trials} trials after {probes} probes"),
        trials => format!("{trials} trials"),
    }
}

/// States whether CPU time includes interrupts, if the kernel charges them to no process.
fn about_interrupts(run: &Run) -> &'static str {
    let fact = run.header.host.get(interrupts::FACT).map_or("", String::as_str);
    let mut servers = run.records.iter().filter_map(|record| record.server.as_ref());
    match fact.starts_with(interrupts::CHARGED_TO_NOBODY) {
        false => "",
        true if servers.all(|server| server.interrupts_ns.is_some()) => {
            "CPU time includes interrupts on the server's CPUs, which this kernel charges to no process.\n"
        }
        true => {
            "CPU time lacks interrupts in some trials, because this kernel charges them to no process. To include them, give \
             the server and the client separate CPUs (--server-cpus, --client-cpus).\n"
        }
    }
}
