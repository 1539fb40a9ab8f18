use std::collections::BTreeMap;

use std::net::IpAddr;

use load::config::Timestamps;
use server::spec::model::PerConnection;
use server::{Architecture, ReadBudget};

use super::*;
use crate::record::network::{Applied, Links};
use crate::spec::OneOrMany;
use crate::spec::network::Network;
use crate::spec::presets::PRESETS;
use crate::spec::transport::Transport;
use crate::spec::units::Rate;

fn line(trial: &Trial) -> String {
    let Trial { index, repeat, workload, infeasible, .. } = trial;
    let label = trial.label();
    let (connections, active) = (workload.connections, crate::spec::units::Share(workload.active()));
    let rate = workload.rate_per_s().map_or("closed".into(), |rate_per_s| format!("{rate_per_s}/s"));
    format!("{index} repeat {repeat}: {label} {connections} x {rate} active {active} {infeasible:?}")
}

/// Removes the lab, which needs root.
fn without_lab(experiment: Experiment) -> Experiment {
    Experiment { network: None, ..experiment }
}

/// Plans on a made-up host, as root: the kernel's programs that steer connections need it.
fn plan_as_root(experiment: &Experiment) -> Plan {
    let mut plan = plan(experiment, &Host::made_up()).unwrap();
    let is_steered = |trial: &&mut Trial| trial.serve.ours().is_some_and(|serve| serve.accept.steers_by_state());
    plan.trials.iter_mut().filter(is_steered).for_each(|trial| trial.infeasible.clear());
    plan
}

#[test]
fn presets_are_planned() {
    for preset in PRESETS {
        let experiment = without_lab(preset.experiment());
        let plan = plan_as_root(&experiment);
        let quick = plan_as_root(&experiment.quick());
        let minutes = |plan: &Plan| plan.duration_ns() as f64 / 60e9;
        let lines: Vec<String> = plan.trials.iter().map(line).collect();
        insta::assert_snapshot!(
            preset.name,
            format!(
                "{}\n{:.1} min, quick {:.1} min\n{}",
                plan.placement,
                minutes(&plan),
                minutes(&quick),
                lines.join("\n")
            )
        );
    }
}

#[test]
fn presets_plan_every_configuration_once_per_repeat() {
    for preset in PRESETS {
        let experiment = without_lab(preset.experiment());
        let plan = plan_as_root(&experiment);
        let workload = &experiment.workload;
        let rates = workload.rate.as_ref().map_or(1, |rates| rates.0.len());
        let configurations = workload.targets().len()
            * workload.idle.0.len()
            * workload.active.0.len()
            * rates
            * workload.schedule.0.len()
            * experiment.architectures.0.len()
            * experiment.server.accept.as_ref().map_or(1, |accepts| accepts.0.len());
        assert_eq!(plan.trials.len(), configurations * experiment.repeats.get() as usize, "{}", preset.name);
        assert!(plan.trials.iter().all(|trial| trial.infeasible.is_empty()), "{}", preset.name);
    }
    assert_eq!(
        plan(&crate::spec::presets::find("kawai2008-http").unwrap().experiment(), &Host::made_up())
            .unwrap()
            .trials
            .len(),
        45
    );
}

#[test]
fn closed_loop_has_a_client_for_each_cpu() {
    let mut experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
    experiment.placement.shared = false;
    let clients = |experiment: &Experiment, cpus: usize| {
        let cores = (0..cpus).map(|cpu| vec![cpu]).collect();
        let plan = plan(experiment, &Host { cores, ..Host::made_up() }).unwrap();
        let mut clients: Vec<u32> = plan.trials.iter().map(|trial| trial.client.clients).collect();
        clients.dedup();
        clients
    };
    assert_eq!(clients(&experiment, 2), [4], "the experiment sets it");
    experiment.client.clients = None;
    assert_eq!((clients(&experiment, 2), clients(&experiment, 8)), (vec![1], vec![4]));
    experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(3).unwrap()];
    assert_eq!(clients(&experiment, 8), [3]);
    let open = crate::spec::presets::find("compare").unwrap().experiment();
    assert_eq!(clients(&open, 8), [1]);
}

/// Facts of a distributed run with `here` workers on this machine.
fn workers(here: u32) -> FleetFacts {
    FleetFacts {
        here,
        elsewhere_cpus: None,
        addresses: Vec::new(),
        lab: None,
        clock_error_ns: None,
        beside_server: Vec::new(),
    }
}

#[test]
fn lab_of_workers_must_match_network_and_hosts() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.client.processes = std::num::NonZeroU32::new(2);
    let network: Network = "lab:clients=2".parse().unwrap();
    // The test chooses this combination; no kernel reported it.
    let applied =
        Applied { links: Links::Tun, delay: None, loss: Some(crate::record::network::Means::Tbf), bandwidth: None };
    let lossy = Network { loss: Some(crate::spec::units::Loss(0.01)), bandwidth: None, ..network.clone() };
    let delayed = Network { delay: crate::spec::units::Time(1_000_000), ..lossy.clone() };
    let planned = |configured: &Network, beside_server: &[u32]| {
        let lab = Some((lossy.clone(), applied));
        let fleet = FleetFacts { lab, beside_server: beside_server.to_vec(), ..workers(2) };
        let experiment = Experiment { network: Some(configured.clone()), ..experiment.clone() };
        let plan = plan(&experiment, &Host { fleet: Some(fleet), ..Host::made_up() }).unwrap();
        (plan.network, plan.trials[0].infeasible.join("\n"))
    };
    let (words, why) = planned(&lossy, &[]);
    assert!(why.is_empty() && words.unwrap().contains("loss by TBF"), "{why}");
    let (_, why) = planned(&lossy, &[1, 2]);
    assert!(why.contains("worker 1 is on the server's host of the lab") && why.contains("srun -N3"), "{why}");
    let (_, why) = planned(&delayed, &[]);
    assert!(why.contains("the workers are in a lab of 2 client hosts, 1 % lost each way, but"), "{why}");
    assert!(why.ends_with("`muxbench lab --network lab:clients=2 --delay 1ms --loss 1/100`"), "{why}");
}

#[test]
fn closed_loop_of_workers_uses_lowest_cpu_count() {
    let mut experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
    (experiment.client.clients, experiment.client.processes) = (None, std::num::NonZeroU32::new(3));
    experiment.placement.shared = false;
    let clients = |experiment: &Experiment, here, elsewhere_cpus| {
        let cores = (0..8).map(|cpu| vec![cpu]).collect();
        let fleet = FleetFacts { elsewhere_cpus, ..workers(here) };
        let plan = plan(experiment, &Host { cores, fleet: Some(fleet), ..Host::made_up() }).unwrap();
        plan.trials[0].client.clients
    };
    assert_eq!(clients(&experiment, 0, Some(6)), 6, "workers on other hosts use all their CPUs");
    assert_eq!(clients(&experiment, 3, None), 1, "three workers divide four CPUs of this host");
    assert_eq!((clients(&experiment, 1, Some(6)), clients(&experiment, 1, Some(2))), (4, 2));
    experiment.client.clients = std::num::NonZeroU32::new(5);
    assert_eq!(clients(&experiment, 0, Some(6)), 5, "the experiment sets it");
}

#[test]
fn workers_reject_a_transport_that_one_of_them_lacks() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.client.processes = std::num::NonZeroU32::new(2);
    let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap());
    let reasons = |experiment: &Experiment, here, addresses: &[IpAddr]| {
        let fleet =
            FleetFacts { elsewhere_cpus: (here < 2).then_some(2), addresses: addresses.to_vec(), ..workers(here) };
        let host = Host { cores: vec![vec![0], vec![1]], ..Host::made_up() };
        let trial = &plan(experiment, &host).unwrap().trials[0];
        infeasible_for_workers(trial, &fleet)
    };
    assert_eq!(reasons(&experiment, 0, &[v4]), [""; 0]);
    let why = reasons(&experiment, 1, &[v4, v6]).join("\n");
    assert!(why.contains("tcp is TCP over IPv4") && why.contains("at fd00::1") && why.contains("use tcp6"), "{why}");
    experiment.workload.transport = Transport::Tcp6;
    assert_eq!(reasons(&experiment, 0, &[v6]), [""; 0]);
    let why = reasons(&experiment, 2, &[v4]).join("\n");
    assert!(why.contains("tcp6 is TCP over IPv6") && why.contains("at 192.0.2.1"), "{why}");
    experiment.workload.transport = Transport::Unix;
    assert_eq!(reasons(&experiment, 2, &[v4]), [""; 0]);
    for here in [0, 1] {
        assert!(reasons(&experiment, here, &[v4])[0].contains("a Unix socket cannot connect two machines"));
    }
    experiment.workload.transport = Transport::Tcp;
    experiment.network = Some(Network::default());
    for here in 0..=2 {
        let why = &reasons(&experiment, here, &[v4])[0];
        let start = "network: the workers are not in a lab; start the launcher in one (`muxbench lab --network lab -- LAUNCHER...`";
        assert!(why.starts_with(start), "{why}");
    }
}

#[test]
fn planned_closed_loop_of_kv_survives_json() {
    let experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
    let plan = plan(&experiment, &Host::made_up()).unwrap();
    assert_eq!(plan.trials.len(), 22 * 6 * 5);
    for trial in &plan.trials {
        assert_eq!(trial.workload.rate_per_s(), None);
        assert_eq!(trial.serve.ours().unwrap().service, trial.workload.service);
        assert_eq!(trial.workload.kv.as_ref().unwrap().records, 30_000);
        let text = serde_json::to_string(trial).unwrap();
        assert!(!text.contains("\"think\""), "{text}");
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), *trial);
    }
}

#[test]
fn plan_of_an_earlier_version_is_read() {
    let plan = plan(&crate::spec::presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
    let text = serde_json::to_string(&plan.trials[0]).unwrap();
    // Trials from before closed loops have a rate, but neither `kv` nor `think`.
    assert!(text.contains("\"rate_per_s\":2000.0") && !text.contains("kv") && !text.contains("think"), "{text}");
    assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), plan.trials[0]);
}

#[test]
fn order_is_seeded() {
    let experiment = crate::spec::presets::find("compare").unwrap().experiment();
    let plan = |seed| super::plan(&Experiment { seed, ..experiment.clone() }, &Host::made_up()).unwrap();
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1).trials, plan(2).trials);
}

#[test]
fn second_repeat_reverses_the_order_of_the_first() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.repeats = 4.try_into().unwrap();
    let plan = plan(&experiment, &Host::made_up()).unwrap();
    let order = |repeat| -> Vec<_> {
        let trials = plan.trials.iter().filter(|trial| trial.repeat == repeat);
        trials.map(|trial| (trial.workload.connections, trial.architecture.to_string())).collect()
    };
    for first in [0, 2] {
        let reversed: Vec<_> = order(first + 1).into_iter().rev().collect();
        assert_eq!(order(first), reversed);
    }
    assert_ne!(order(0), order(2));
}

#[test]
fn architectures_of_one_comparison_see_the_same_schedule() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.repeats = 6.try_into().unwrap();
    let plan = plan(&experiment, &Host::made_up()).unwrap();
    let mut seeds: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for trial in &plan.trials {
        seeds.entry((trial.workload.connections, trial.repeat)).or_default().push(trial.client.seed);
    }
    assert_eq!(seeds.len(), 6);
    assert!(seeds.values().all(|seeds| seeds.iter().all(|seed| *seed == seeds[0])));
    let mut distinct: Vec<u64> = seeds.values().map(|seeds| seeds[0]).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 6, "each repeat of a workload has its own seed");
}

#[test]
fn infeasible_trials_state_reasons() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(40_000).unwrap()];
    experiment.repeats = std::num::NonZeroU32::MIN;
    let mut plan = plan(&experiment, &Host { memory_bytes: 4 << 30, ..Host::made_up() }).unwrap();
    plan.trials.sort_by_key(|trial| trial.architecture.to_string());
    let reasons: Vec<String> =
        plan.trials.iter().map(|trial| format!("{}:\n{}", trial.architecture, trial.infeasible.join("\n"))).collect();
    insta::assert_snapshot!(reasons.join("\n"));
    assert_eq!(plan.duration_ns(), 0);
}

#[test]
fn limit_of_architecture_is_where_plans_become_infeasible() {
    let preset = crate::spec::presets::find("compare").unwrap().experiment();
    let hosts = [
        Host::made_up(),
        Host { tasks_max: (700, "ulimit -u".into()), memory_bytes: 1 << 40, ..Host::made_up() },
        Host { mappings_max: 1_000, memory_bytes: 1 << 40, ..Host::made_up() },
    ];
    for (host, architecture) in hosts.iter().flat_map(|host| Architecture::all().into_iter().map(move |it| (host, it)))
    {
        let Limit { connections, by } = limit(architecture, host);
        let reasons = |connections: u64| -> Vec<String> {
            let mut experiment = preset.clone();
            experiment.architectures.0 = vec![architecture.to_string().parse().unwrap()];
            experiment.workload.connections.0 = vec![u32::try_from(connections).unwrap().try_into().unwrap()];
            let trial = plan(&experiment, host).unwrap().trials.remove(0);
            trial.infeasible.into_iter().filter(|reason| reason.contains(&by)).collect()
        };
        assert_eq!(reasons(connections), [""; 0], "{architecture}");
        assert!(!reasons(connections + 1).is_empty(), "{architecture}: {by} at {connections}");
    }
}

#[test]
fn descriptors_of_each_network_thread_count() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(400).unwrap()];
    let host = Host { descriptors_max: 4_096, ..Host::made_up() };
    let mut needed = |architecture: &str| -> Vec<String> {
        experiment.architectures.0 = vec![architecture.parse().unwrap()];
        let reasons = plan(&experiment, &host).unwrap().trials.remove(0).infeasible;
        reasons.into_iter().filter(|reason| reason.contains(" descriptors, ")).collect()
    };
    assert_eq!((needed("symped:400"), needed("mt-pool:1000")), (Vec::new(), Vec::new()));
    let reasons = needed("symped:1000").join("\n");
    assert!(reasons.contains("need 8464 descriptors, but the hard limit is 4096"), "{reasons}");
}

#[test]
fn infeasible_pools_and_accept_strategies_state_reasons() {
    let preset = crate::spec::presets::find("compare").unwrap().experiment();
    let tried = [
        ("mt-pool", None, 400),
        ("mt-pool:64", None, 400),
        ("mp-prefork:400", None, 400),
        ("mp-prefork:40000", None, 400),
        ("mt-pool:40000", None, 400),
        ("mt-pool", Some(Accept::Exclusive), 15_000),
        ("mt-pool", Some(Accept::Single), 400),
        ("mp-prefork", Some(Accept::Single), 400),
        ("mp-prefork", Some(Accept::Reuseport), 400),
        ("mt-pool:80", Some(Accept::Reuseport), 2),
        ("mt-pool:1000", Some(Accept::Reuseport), 2),
        ("epoll", Some(Accept::Shared), 400),
        ("epoll", Some(Accept::Single), 400),
        ("symped:2", Some(Accept::Exclusive), 400),
        ("symped:2/poll", Some(Accept::Exclusive), 400),
        ("mt-pool", Some(Accept::ReuseportLeast), 400),
        ("symped:65", Some(Accept::Hermes), 400),
        ("mt-pool:4..400", Some(Accept::Single), 400),
    ];
    let lines = tried.map(|(architecture, accept, connections)| {
        let mut experiment = preset.clone();
        experiment.architectures.0 = vec![architecture.parse().unwrap()];
        experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(connections).unwrap()];
        experiment.server.accept = accept.map(|accept| OneOrMany(vec![accept]));
        let plan = plan(&experiment, &Host::made_up()).unwrap();
        let accept = accept.map(|accept| format!(" {accept}")).unwrap_or_default();
        format!("{architecture}{accept} {connections}: {:#?}", plan.trials[0].infeasible)
    });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn transport_rejects_only_features_that_it_lacks() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.repeats = std::num::NonZeroU32::MIN;
    let reasons = |experiment: &Experiment| plan(experiment, &Host::made_up()).unwrap().trials[0].infeasible.clone();
    let seed = |experiment: &Experiment| plan(experiment, &Host::made_up()).unwrap().trials[0].client.seed;
    experiment.architectures.0 = vec!["epoll".parse().unwrap()];
    experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(19_900).unwrap()];
    let few_ports = Host { ports: 50, ..Host::made_up() };
    assert_eq!(plan(&experiment, &few_ports).unwrap().trials[0].infeasible.len(), 1);
    let of_tcp = seed(&experiment);
    experiment.workload.transport = Transport::Unix;
    assert_eq!(plan(&experiment, &few_ports).unwrap().trials[0].infeasible, [""; 0]);
    assert_eq!(seed(&experiment), of_tcp, "the same requests at the same times over each transport");
    experiment.client.timestamps = Timestamps::Kernel;
    assert!(reasons(&experiment)[0].starts_with("client.timestamps: "), "{:?}", reasons(&experiment));
    experiment.client.timestamps = Timestamps::Client;
    experiment.architectures.0 = vec!["mt-pool:30000".parse().unwrap()];
    experiment.server.accept = Some(OneOrMany(vec![Accept::Reuseport]));
    let found = reasons(&experiment);
    assert!(
        found.iter().any(|reason| reason.starts_with("server.accept: cannot use the accept strategy `reuseport`")),
        "{found:?}"
    );
    for name in server::spec::mechanism::NEEDS_NETWORK {
        let Ok(contender) = name.parse() else { continue };
        experiment.architectures.0 = vec![contender];
        experiment.server.accept = None;
        let found = reasons(&experiment);
        assert!(found.iter().any(|reason| reason.contains("Unix socket")), "{name}: {found:?}");
    }
}

#[test]
fn datagrams_need_a_datagram_server_and_no_client_ports() {
    let mut experiment = crate::spec::presets::find("maharjan2012-udp").unwrap().experiment();
    experiment.repeats = std::num::NonZeroU32::MIN;
    experiment.architectures.0 =
        ["epoll", "mt", "mp", "mt-pool", "symped:2", "seda:1+1"].map(|name| name.parse().unwrap()).into();
    let planned = |experiment: &Experiment, host: &Host| {
        let mut trials = plan(experiment, host).unwrap().trials;
        trials.sort_by_key(|trial| trial.architecture.to_string());
        let of = |trial: &Trial| format!("{}: {:#?}", trial.architecture, trial.infeasible);
        trials.iter().map(of).collect::<Vec<_>>().join("\n")
    };
    let (list, rate) = (|count| vec![std::num::NonZeroU32::new(count).unwrap()], vec![Rate(100.0)]);
    experiment.workload.rate = Some(crate::spec::OneOrMany(rate));
    experiment.workload.ports.0 = list(5_000);
    let few_ports = planned(&experiment, &Host { ports: 100, ..Host::made_up() });
    experiment.workload.ports.0 = list(65_000);
    let many = planned(&experiment, &Host::made_up());
    insta::assert_snapshot!(format!("{few_ports}\n\n{many}"));
}

#[test]
fn controllers_reach_staged_servers_or_are_rejected() {
    let mut experiment = crate::spec::presets::find("voras2009").unwrap().experiment();
    experiment.architectures.0 = ["seda:1+2", "seda-s:2", "epoll"].map(|name| name.parse().unwrap()).to_vec();
    experiment.server.pool_control = Some("max=8".parse().unwrap());
    experiment.server.admission = Some("target=10ms".parse().unwrap());
    experiment.assert_reads_back();
    for trial in plan(&experiment, &Host::made_up()).unwrap().trials {
        assert_eq!(trial.label(), format!("{} (pool max=8, admission target=10ms)", trial.architecture));
        let is_rejected = |reason: &String| reason.contains("server.pool-control: `epoll` has no payload threads");
        let is_staged = trial.architecture.to_string().starts_with("seda");
        assert_eq!(trial.infeasible.iter().any(is_rejected), !is_staged, "{:?}", trial.infeasible);
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
    }
    experiment.server.pool_control = Some("max=1".parse().unwrap());
    let few = plan(&experiment, &Host::made_up()).unwrap().trials.into_iter().flat_map(|trial| trial.infeasible);
    assert!(few.into_iter().any(|reason| reason.contains("a pool that starts with 2 threads cannot have at most 1")));
}

#[test]
fn stage_cpus_are_those_of_the_server() {
    let planned = |key: &str, cpus: &str| {
        let experiment = Experiment::of(&format!(
            "architectures = \"seda:1+1\"\nrepeats = 1\n[server]\n{key} = \"{cpus}\"\n[placement]\nserver = \"0-1\"\n"
        ));
        let host = Host { cores: (0..4).map(|cpu| vec![cpu]).collect(), ..Host::made_up() };
        plan(&experiment, &host).map(|plan| plan.trials[0].infeasible.join("\n"))
    };
    for key in ["accept-cpus", "network-cpus", "payload-cpus"] {
        assert_eq!(planned(key, "0-1"), Ok(String::new()), "{key}");
        let error = planned(key, "1-2").unwrap_err();
        let start = format!("server.{key}: the server may not use CPU 2; choose from 0-1, or ");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn busy_polling_acts_only_in_labs_with_napi() {
    let planned = |keys: &str| {
        let text = format!("architectures = [\"epoll\", \"poll\"]\nrepeats = 1\n[server]\nbusy-poll = {keys}\n");
        let experiment = Experiment::of(&text);
        experiment.assert_reads_back();
        plan(&experiment, &Host::made_up()).unwrap().trials
    };
    let reasons = |trial: &Trial, words: &str| trial.infeasible.iter().filter(|it| it.contains(words)).count();
    let loopback = planned("[\"off\", \"50us\"]");
    assert_eq!(loopback.len(), 4, "each architecture with each value");
    for trial in &loopback {
        let polls = trial.serve.ours().unwrap().busy_poll.is_some();
        assert_eq!(
            reasons(trial, "server.busy-poll: cannot poll loopback"),
            usize::from(polls),
            "{:?}",
            trial.infeasible
        );
        assert_eq!(trial.label().ends_with(" (polls 50us)"), polls);
    }
    let lab = planned("[\"off\", \"50us:suspend=20ms\"]\n[network]");
    assert!(lab.iter().all(|trial| trial.workload.network.as_ref().unwrap().napi), "all servers have the same network");
    for trial in &lab {
        let is_refused = trial.label().starts_with("poll (");
        assert_eq!(reasons(trial, "net.core.busy_poll"), usize::from(is_refused), "{:?}", trial.infeasible);
        assert_eq!(reasons(trial, "loopback"), 0, "{:?}", trial.infeasible);
    }
    let suspended = planned("\"50us:suspend=20ms\"");
    assert!(suspended.iter().all(|trial| reasons(trial, "write `prefer` instead of `suspend`") == 1));
}

#[test]
fn datagram_options_reach_each_server_or_are_rejected() {
    let text = "architectures = [\"poll\", \"symped:4/poll\"]\nrepeats = 1\n[workload]\nservice = \"udp\"\nports = 2\n[server]\n\
                datagram-batch = 32\ndatagram-offload = true\naccept = [\"single\", \"reuseport\"]\n";
    let experiment = Experiment::of(text);
    experiment.assert_reads_back();
    let plan = plan(&experiment, &Host::made_up()).unwrap();
    for trial in &plan.trials {
        let label = trial.label();
        assert!(label.contains("batches of 32, offload"), "{label}");
        let is_feasible = ["poll (batches", "symped:4/poll (reuseport"].iter().any(|start| label.starts_with(start));
        assert_eq!(trial.infeasible.is_empty(), is_feasible, "{label}: {:?}", trial.infeasible);
        let stored = serde_json::to_string(trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&stored).unwrap(), *trial);
    }
    let warned = plan.warnings.iter().filter(|it| it.contains("reach at most 2 of the 4 threads of symped:4/poll"));
    assert_eq!(warned.count(), 1, "{:?}", plan.warnings);
}

#[test]
fn read_budget_reaches_each_server_or_is_rejected() {
    let budget = crate::spec::units::Budget(ReadBudget::new(256 << 10).unwrap());
    let planned = |preset: &str, architectures: &[&str]| {
        let mut experiment = crate::spec::presets::find(preset).unwrap().experiment();
        experiment.architectures.0 = architectures.iter().map(|name| name.parse().unwrap()).collect();
        experiment.server.read_budget = Some(budget);
        experiment.quick = None;
        // A stream by packets rejects a budget.
        experiment.workload.stream = None;
        experiment.assert_reads_back();
        plan(&experiment, &Host::made_up()).unwrap().trials
    };
    for trial in planned("welsh2001-connections", &["epoll", "mt", "mp"]) {
        assert_eq!(trial.serve.ours().unwrap().read_budget_bytes, budget.0);
        assert_eq!(trial.label(), format!("{} (256KiB reads)", trial.architecture));
        assert!(trial.infeasible.is_empty(), "{:?}", trial.infeasible);
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
        let usual = serde_json::from_str::<Trial>(&text.replace(",\"read_budget_bytes\":262144", "")).unwrap();
        assert_eq!(usual.serve.ours().unwrap().read_budget_bytes, ReadBudget::default());
        assert!(!usual.differs_only_in_rate(&trial), "another read budget is another configuration");
    }
    for trial in planned("maharjan2012-udp", &["epoll"]) {
        let is_rejected =
            |reason: &String| reason.starts_with("server.read-budget: cannot set the read budget of `udp`");
        assert!(trial.infeasible.iter().any(is_rejected), "{:?}", trial.infeasible);
    }
    let few = |preset: &str, host: Host| {
        let mut experiment = crate::spec::presets::find(preset).unwrap().experiment();
        experiment.architectures.0 = vec!["mt".parse().unwrap()];
        experiment.server.read_budget = Some(budget);
        experiment.workload.stream = None;
        plan(&experiment, &host).unwrap().trials.into_iter().flat_map(|trial| trial.infeasible).collect::<Vec<_>>()
    };
    // 1 000 threads with three mappings each, and 512 other mappings. Each thread's buffer is 192 KiB larger than by default.
    let reasons = few("welsh2001-connections", Host { mappings_max: 3_000, ..Host::made_up() });
    assert!(reasons.iter().any(|reason| reason.contains("1000 connections need 3512 mappings")), "{reasons:?}");
    let reasons = few("welsh2001-connections", Host { memory_bytes: 256 << 20, ..Host::made_up() });
    assert!(reasons.iter().any(|reason| reason.contains("MiB of memory, but 256 MiB are available")), "{reasons:?}");
}

#[test]
fn planned_streams_survive_json_and_name_the_thread_limit() {
    let mut experiment = crate::spec::presets::find("welsh2001-connections").unwrap().experiment();
    let plan = |experiment: &Experiment| {
        plan(experiment, &Host { tasks_max: (700, "ulimit -u".into()), ..Host::made_up() }).unwrap()
    };
    let by_packet = wire::stream::Stream { by_packet: true, ..Default::default() };
    for trial in plan(&experiment).trials {
        let stream = trial.workload.service.stream().unwrap();
        assert_eq!((stream, trial.workload.rate_per_s()), (by_packet, None));
        assert_eq!(trial.serve.ours().unwrap().service, trial.workload.service);
        let text = serde_json::to_string(&trial).unwrap();
        assert_eq!(serde_json::from_str::<Trial>(&text).unwrap(), trial);
        let is_beyond = trial.architecture.to_string().starts_with("mt") && trial.workload.connections >= 700;
        let expected = is_beyond.then(|| {
            let connections = trial.workload.connections;
            let needed = connections + 256;
            format!(
                "workload.connections: {connections} connections need {needed} threads, but ulimit -u is 700; use fewer, or raise \
                 that limit"
            )
        });
        assert_eq!(trial.infeasible, Vec::from_iter(expected), "{}", trial.architecture);
    }
    experiment.workload.stream = None;
    assert_eq!(
        plan(&experiment).trials[0].workload.service,
        wire::ServiceSpec::Stream(wire::stream::Stream::default()),
        "the default burst is that of welsh2001"
    );
}

#[test]
fn spinning_architectures_cause_warnings_on_few_cpus() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.architectures.0 =
        ["epoll", "spin", "io_uring-sqpoll", "amped:1+2", "symped:4/io_uring"].map(|name| name.parse().unwrap()).into();
    let cases = [("one CPU", 1), ("two CPUs", 2), ("four CPUs", 4)].map(|(name, cpus)| {
        let cores = (0..cpus).map(|cpu| vec![cpu]).collect();
        let plan = plan(&experiment, &Host { cores, ..Host::made_up() }).unwrap();
        format!("{name}: {:#?}", plan.warnings)
    });
    insta::assert_snapshot!(cases.join("\n"));
}

#[test]
fn each_accept_strategy_is_planned_with_each_architecture() {
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.architectures.0 = ["symped:2", "mt-pool", "symped:3"].map(|name| name.parse().unwrap()).into();
    experiment.server.accept = Some(OneOrMany(vec![Accept::Exclusive, Accept::Single]));
    (experiment.placebo, experiment.repeats) = (true, std::num::NonZeroU32::MIN);
    experiment.workload.connections.0.truncate(1);
    let plan = plan(&experiment, &Host::made_up()).unwrap();
    let mut labels: Vec<String> = plan.trials.iter().filter(|it| !it.is_reference).map(Trial::label).collect();
    labels.sort();
    let expected = [
        "mt-pool (exclusive)",
        "mt-pool (single)",
        "symped:2/epoll",
        "symped:2/epoll (exclusive)",
        "symped:2/epoll (placebo, exclusive)",
        "symped:3/epoll",
        "symped:3/epoll (exclusive)",
    ];
    assert_eq!(labels, expected);
}

#[test]
fn workers_of_cpus_without_client_cause_a_warning() {
    let warnings = |accept, architecture: &str, client: &str| {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.architectures.0 = vec![architecture.parse().unwrap()];
        experiment.server.accept = Some(OneOrMany(vec![accept]));
        experiment.placement.server = Some("0-1".parse().unwrap());
        experiment.placement.client = Some(client.parse().unwrap());
        let cores = (0..4).map(|cpu| vec![cpu]).collect();
        plan(&experiment, &Host { cores, ..Host::made_up() }).unwrap().warnings.join("\n")
    };
    let only = "so only 1 of the 2 workers of symped:2/epoll get connections";
    for accept in [Accept::ReuseportCpu, Accept::IncomingCpu] {
        assert!(warnings(accept, "symped:2", "3").contains(only), "{accept}");
        assert!(!warnings(accept, "symped:2", "2-3").contains(only), "{accept}");
        assert!(!warnings(accept, "mt-pool:2", "3").contains("SYN"), "{accept}: infeasible anyway");
    }
    assert!(!warnings(Accept::ReuseportLeast, "symped:2", "3").contains("SYN"));
}

#[test]
fn shared_cpu_or_core_causes_a_warning() {
    let warnings = |cores: &[&[usize]], server: &str, client: &str| {
        let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
        experiment.placement.server = Some(server.parse().unwrap());
        experiment.placement.client = Some(client.parse().unwrap());
        let cores = cores.iter().map(|core| core.to_vec()).collect();
        plan(&experiment, &Host { cores, ..Host::made_up() }).unwrap().warnings.join("\n")
    };
    assert!(warnings(&[&[0], &[1]], "0", "0").contains("share CPU 0, "));
    assert!(warnings(&[&[0], &[1], &[2]], "0-1", "1-2").contains("share CPU 1, "));
    assert!(warnings(&[&[0, 2], &[1, 3]], "0", "2").contains("share a core (CPUs 0,2), "));
    assert!(!warnings(&[&[0, 2], &[1, 3]], "0,2", "1,3").contains("share"));
}

#[test]
fn built_in_servers_without_the_content_cause_a_warning() {
    let warnings = |servers: &str, http: &str| {
        let text = format!(
            "architectures = [{servers}]\n[exec.it]\ncommand = [\"sh\", \"{{port}}\"]\n[workload]\nservice = \"http\"\n{http}\n"
        );
        let experiment = Experiment::of(&text);
        plan(&experiment, &Host::made_up()).unwrap().warnings.join("\n")
    };
    let mixed = "\"epoll\", \"exec:it\"";
    for (http, words) in [
        ("http.paths = \"/?a=1\"", "answer /?a=1 with a small page of their own, so"),
        ("http.paths = [\"/bytes/1\", \"/a\"]", "answer /a with 404, so"),
    ] {
        let warned = warnings(mixed, http);
        assert!(warned.contains(words) && warned.contains("--folder"), "{warned}");
    }
    for (servers, http) in [
        (mixed, ""),
        (mixed, "http.paths = \"/bytes/1\""),
        (mixed, "response = \"128B\"\nhttp.paths = \"/\""),
        (mixed, "http = { paths = \"/lib.rs\", folder = \"src\" }"),
        ("\"exec:it\"", "http.paths = \"/\""),
    ] {
        assert!(!warnings(servers, http).contains("built-in servers"), "{http}");
    }
}

#[test]
fn stacks_need_mappings() {
    let Some(model) = server::registry::MODELS.iter().find(|row| row.per_connection == PerConnection::Stack) else {
        println!("no model with a stack per connection is compiled in");
        return;
    };
    let mut experiment = crate::spec::presets::find("compare").unwrap().experiment();
    experiment.architectures.0 = vec![format!("{}:2", model.name).parse().unwrap()];
    experiment.workload.connections.0 = vec![std::num::NonZeroU32::new(19_000).unwrap()];
    let plan = |mappings_max| {
        plan(&experiment, &Host { mappings_max, ..Host::made_up() }).unwrap().trials[0].infeasible.clone()
    };
    assert_eq!(plan(65_530), [""; 0]);
    let why = "workload.connections: 19000 connections need 38512 mappings, but vm.max_map_count is 30000; use fewer, or raise it";
    assert_eq!(plan(30_000), [why]);
}

#[test]
fn default_comparison_takes_less_than_a_minute() {
    let plan = plan(&crate::spec::presets::find("compare").unwrap().experiment(), &Host::made_up()).unwrap();
    assert!(plan.duration_ns() < 60_000_000_000, "{}", plan.duration_ns());
}
