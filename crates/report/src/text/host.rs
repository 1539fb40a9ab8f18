//! The host and the settings of a run.

use harness::host::interrupts;
use harness::model::{Run, Strategy, Trial};
use harness::spec::transport::Transport;

use crate::format;
use crate::list::distinct;
use crate::model::client_tail;
use crate::model::summary::planned;

/// Describes the host, the client and the command of a run.
pub(crate) fn host(run: &Run) -> String {
    let header = &run.header;
    let fact = |name: &str| header.host.get(name).map_or("unknown", String::as_str);
    let system = harness::host::system(&header.host).unwrap_or_else(|| "unknown system".into());
    let trials = counts(run);
    let client = run.records.iter().find_map(|record| record.load.as_ref()).map_or_else(String::new, |load| {
        let pacing = load.pacing.map_or(String::new(), |pacing| format!(", pacing {}", format::name(&pacing)));
        format!("Client: {}{pacing}, clock {}.\n", format::name(&load.roles), load.clock.source)
    });
    let is_unix = |trial: &Trial| trial.workload.transport == Transport::Unix;
    let network = match fact("network") {
        _ if header.trials.iter().all(|trial| trial.workload.network.is_some()) => "namespaces on this host",
        _ if header.trials.iter().all(is_unix) => "none (Unix sockets)",
        network => network,
    };
    format!(
        "Host: {}, {system}, {}. Network: {}.\n\
         {}{}{client}{}\
         Run {} ({trials}, seed {}), muxbench {}: {}",
        fact("cpu"),
        header.placement,
        network,
        about_interrupts(run),
        about_warm_ups(run),
        about_monitors(run),
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

/// States how long each external server was warmed, and in how many windows a server still got faster; empty without either.
pub(crate) fn about_warm_ups(run: &Run) -> String {
    let about = |name: &String| {
        let records = || run.records.iter().filter(|record| record.trial.label() == *name);
        let warm_ups = || records().filter_map(|record| record.warm_up).filter(|warm_up| !warm_up.is_earlier);
        let times = || warm_ups().map(|warm_up| warm_up.elapsed_ns as f64 / 1e9);
        let (shortest, longest) = (times().reduce(f64::min), times().fold(0.0, f64::max));
        let warmed = shortest.map(|shortest| {
            let range = if longest - shortest < 0.1 { String::new() } else { format!("{shortest:.1} to ") };
            let growing = warm_ups().filter(|warm_up| warm_up.is_growing).count();
            let growing = if growing > 0 { ", the longest time, and still got faster" } else { "" };
            format!("warmed for {range}{longest:.1} s{growing}")
        });
        let cold = records().filter(|record| record.verdict.is_of_cold_server()).count();
        let cold = (cold > 0).then(|| format!("still got faster in {cold} of {} windows", records().count()));
        let facts: Vec<String> = warmed.into_iter().chain(cold).collect();
        (!facts.is_empty()).then(|| format!("{name}: {}.\n", facts.join("; ")))
    };
    let names = distinct(run.records.iter().map(|record| record.trial.label()));
    names.iter().filter_map(about).collect()
}

/// Counts the finished trials of a run. The probes of searches count apart.
pub(crate) fn counts(run: &Run) -> String {
    let finished = run.records.len();
    match run.header.strategy {
        Strategy::Capacity(_) => format!("{finished} probes"),
        Strategy::Overload(_) => {
            let pulses = run.records.iter().filter(|record| record.trial.workload.profile.is_some()).count();
            let probes = match finished - pulses {
                0 => String::new(),
                probes => format!(" after {probes} probes"),
            };
            format!("{pulses} trials{probes}")
        }
        Strategy::Advise(_) => format!("{finished} trials"),
        Strategy::Whole | Strategy::Sweep { .. } | Strategy::Until { .. } | Strategy::Gate(_) => {
            format!("{finished} of {} trials", planned(run))
        }
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

#[cfg(test)]
mod tests {
    use harness::model::{Check, WarmUp};

    use super::*;

    #[test]
    fn warm_ups_are_shown_for_each_server() {
        let mut run = testkit::run();
        assert_eq!(about_warm_ups(&run), "");
        let name = run.records[0].trial.label();
        let own: Vec<usize> = (0..run.records.len()).filter(|at| run.records[*at].trial.label() == name).collect();
        let warm_up = WarmUp { elapsed_ns: 2_100_000_000, is_growing: false, is_earlier: false };
        own.iter().for_each(|at| run.records[*at].warm_up = Some(WarmUp { is_earlier: *at > own[0], ..warm_up }));
        assert_eq!(about_warm_ups(&run), format!("{name}: warmed for 2.1 s.\n"));
        run.records[own[1]].warm_up = Some(WarmUp { elapsed_ns: 10_000_000_000, is_growing: true, ..warm_up });
        let check = Check { name: Check::FASTER.into(), passed: false, ..run.records[0].verdict.checks[0].clone() };
        run.records[own[0]].verdict.checks.push(check);
        let text = format!(
            "{name}: warmed for 2.1 to 10.0 s, the longest time, and still got faster; still got faster in 1 of {} windows.\n",
            own.len()
        );
        assert_eq!(about_warm_ups(&run), text);
        assert!(host(&run).contains(&text));
    }
}
