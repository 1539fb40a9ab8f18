//! Cost of passing a request to another thread: staged architectures against one thread, at a rate at which nothing queues.

use load::config::{LoadConfig, Phases};

use super::loads::{config, load_report};
use super::process::{SERVER_CPU, Server, Sizes};
use super::seda::switch_us;
use super::spread::{Bound, rounds};

const CONNECTIONS: u32 = 50;
const RATE_PER_S: f64 = 500.0;

pub(super) fn run(count: usize, architectures: &[String]) -> anyhow::Result<()> {
    println!(
        "latency p50 in µs minus epoll's, {RATE_PER_S} requests/s, {CONNECTIONS} connections, median of {count} rounds"
    );
    for architecture in architectures {
        let [added_us] = rounds(count, || Ok([p50_us(architecture)? - p50_us("epoll")?]))?;
        println!("  {architecture:14} {}", added_us.check(Bound::AtMost(2.0)));
    }
    let [switch_us] = rounds(count, || Ok([switch_us([SERVER_CPU; 2])?]))?;
    println!("  waking another thread on the same CPU and waiting for it: {switch_us} µs");
    Ok(())
}

fn p50_us(architecture: &str) -> anyhow::Result<f64> {
    const SIZES: Sizes = (128, 128);
    let server = Server::ours(architecture, SIZES)?;
    let config = LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: Some(RATE_PER_S),
        phases: Phases { ramp_ns: 0, warm_up_ns: 500_000_000, measure_ns: 4_000_000_000, cool_down_ns: 1_000_000_000 },
        ..config(server.address, SIZES)
    };
    Ok(load_report(&config)?.service.distribution.p50_ns as f64 / 1e3)
}
