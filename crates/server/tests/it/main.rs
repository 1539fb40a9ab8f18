//! Tests of servers inside this process. They run one at a time, because they count allocations, children and threads of the
//! process.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use muxbench_server::{Accept, Architecture, ServeConfig};
use wire::ServiceSpec;

#[cfg(target_os = "linux")]
mod accounting;
mod allocations;
#[cfg(target_os = "linux")]
mod controllers;
#[path = "../../examples/run.rs"]
mod example;
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
    let tests = tests.chain([test("example_runs_a_server", || example::main().unwrap())]);
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
    let accept = match service {
        ServiceSpec::Udp { .. } if architecture.model.has_network_threads() => Accept::Reuseport,
        _ => Accept::default_of(architecture.model),
    };
    ServeConfig { accept, connections_max: 64, ..ServeConfig::new(architecture, service) }
}
