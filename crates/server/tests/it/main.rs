//! Tests of servers inside this process. They run one at a time, because they count allocations, children and threads of the
//! process.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use muxbench_server::{Accept, Architecture, Controllers, Limits, ReadBudget, ServeConfig, StageCpus};
use wire::ServiceSpec;

#[cfg(target_os = "linux")]
mod accounting;
mod allocations;
#[cfg(target_os = "linux")]
mod controllers;
#[cfg(target_os = "linux")]
mod pinning;
#[cfg(target_os = "linux")]
mod wildcard;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests = allocations::architectures().into_iter().map(|row| {
        test(&format!("requests_allocate_nothing::{row}"), move || allocations::requests_allocate_nothing(row))
    });
    #[cfg(target_os = "linux")]
    let tests = tests.chain([
        test(
            "cpu_time_of_short_lived_children_includes_their_exits",
            accounting::cpu_time_of_short_lived_children_includes_their_exits,
        ),
        test("batching_factor_changes_under_load", controllers::batching_factor_changes_under_load),
        test("each_stage_stays_on_its_cpus", pinning::each_stage_stays_on_its_cpus),
        test(
            "wildcard_server_responds_from_requested_address",
            wildcard::wildcard_server_responds_from_requested_address,
        ),
    ]);
    libtest_mimic::run(&arguments, tests.collect()).exit_code()
}

fn test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

/// The configuration of a server of `service` on a free port of 127.0.0.1, without optional features.
fn config(architecture: Architecture, service: ServiceSpec) -> ServeConfig {
    ServeConfig {
        architecture,
        accept: Accept::default_of(architecture.model),
        service,
        work: None,
        listen: ([127, 0, 0, 1], 0).into(),
        cpus: Vec::new(),
        stage_cpus: StageCpus::default(),
        connections_max: 64,
        read_budget_bytes: ReadBudget::default(),
        controllers: Controllers::default(),
        stall: None,
        limits: Limits::default(),
        tls: None,
        count_syscalls: false,
    }
}
