//! Stages stay on the CPUs that they were given.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};
use std::{fs, thread};

use muxbench_server::{Accept, Architecture, ServeConfig, Server, StageCpus};
use wire::ServiceSpec;

/// CPUs that a thread may run on, as the kernel lists them, of each of this process's threads by name.
fn cpus_of_threads() -> Vec<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let of = |status: &str, field: &str| {
        status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
    };
    // A thread may end meanwhile.
    let statuses = tasks.filter_map(|path| fs::read_to_string(path.join("status")).ok());
    statuses.map(|status| (of(&status, "Name:"), of(&status, "Cpus_allowed_list:"))).collect()
}

#[test]
fn each_stage_stays_on_its_cpus() {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    let (first, last) = (allowed[0], *allowed.last().unwrap());
    for name in ["seda:2+2", "seda-s:2", "amped:1+2", "symped:2"] {
        let architecture: Architecture = name.parse().unwrap();
        let config = ServeConfig {
            architecture,
            accept: Accept::default_of(architecture.model),
            service: ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 },
            work: None,
            listen: ([127, 0, 0, 1], 0).into(),
            cpus: Vec::new(),
            stage_cpus: StageCpus { accept: vec![first], network: vec![last], payload: vec![first] },
            connections_max: 8,
            read_budget_bytes: muxbench_server::ReadBudget::default(),
            limits: muxbench_server::Limits::default(),
            count_syscalls: false,
        };
        let server = Server::start(&config).unwrap();
        // By a thread's name: how many, and where.
        let network = if name.starts_with("amped") { 1 } else { 2 };
        let payload = if name.starts_with("symped") { 0 } else { 2 };
        let expected = [("accept", 1, first), ("network-", network, last), ("payload-", payload, first)];
        let is_so = |threads: &[(String, String)]| {
            expected.iter().all(|(stage, count, cpu)| {
                let of = || threads.iter().filter(|(name, _)| name.starts_with(stage));
                of().count() == *count && of().all(|(_, cpus)| *cpus == cpu.to_string())
            })
        };
        // A thread gives itself its name and its CPUs.
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut threads = cpus_of_threads();
        while !is_so(&threads) {
            assert!(Instant::now() < deadline, "{name}: {threads:?}, not {expected:?}");
            thread::sleep(Duration::from_millis(5));
            threads = cpus_of_threads();
        }
        server.stop().unwrap();
    }
}
