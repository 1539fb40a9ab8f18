//! The threads of each stage run on the stage's CPUs.

use std::time::{Duration, Instant};
use std::{fs, thread};

use muxbench_server::{ServeConfig, Server, StageCpus};
use wire::ServiceSpec;

use crate::config;

/// The name of each thread of this process, and the kernel's list of the CPUs that it may run on.
fn cpus_of_threads() -> Vec<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let value = |status: &str, field: &str| {
        status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
    };
    // A thread may have ended meanwhile: skip it.
    let statuses = tasks.filter_map(|path| fs::read_to_string(path.join("status")).ok());
    statuses.map(|status| (value(&status, "Name:"), value(&status, "Cpus_allowed_list:"))).collect()
}

pub fn each_stage_stays_on_its_cpus() {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    let (first, last) = (allowed[0], *allowed.last().unwrap());
    for name in ["seda:2+2", "seda-s:2", "amped:1+2", "symped:2"] {
        let service = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
        let stage_cpus = StageCpus { accept: vec![first], network: vec![last], payload: vec![first] };
        let config = ServeConfig { stage_cpus, ..config(name.parse().unwrap(), service) };
        let server = Server::start(&config).unwrap();
        // For each stage: the prefix of its threads' names, their number and their CPU.
        let network = if name.starts_with("amped") { 1 } else { 2 };
        let payload = if name.starts_with("symped") { 0 } else { 2 };
        let expected = [("accept", 1, first), ("network-", network, last), ("payload-", payload, first)];
        let is_pinned = |threads: &[(String, String)]| {
            expected.iter().all(|(stage, count, cpu)| {
                let named = || threads.iter().filter(|(name, _)| name.starts_with(stage));
                named().count() == *count && named().all(|(_, cpus)| *cpus == cpu.to_string())
            })
        };
        // Each thread sets its name and its CPUs itself: wait for them.
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut threads = cpus_of_threads();
        while !is_pinned(&threads) {
            assert!(Instant::now() < deadline, "{name}: {threads:?}, expected {expected:?}");
            thread::sleep(Duration::from_millis(5));
            threads = cpus_of_threads();
        }
        server.stop().unwrap();
    }
}
