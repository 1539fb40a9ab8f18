//! Cost of passing a request to another thread: staged architectures against one thread, at a rate without queues.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use anyhow::Context;
use load::config::{LoadConfig, Phases};
use wire::ServiceSpec;

use super::process::{SERVER_CPU, Server, config};
use super::spread::{Bound, Spread};

const CONNECTIONS: u32 = 50;
const RATE_PER_S: f64 = 500.0;

pub(super) fn run(rounds: usize, architectures: &[String]) -> anyhow::Result<()> {
    let service = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 128 };
    println!(
        "latency p50 in µs minus epoll's, {RATE_PER_S} requests/s, {CONNECTIONS} connections, median of {rounds} rounds"
    );
    for architecture in architectures {
        let mut added_us = Vec::new();
        for _ in 0..rounds {
            added_us.push(p50_us(architecture, &service)? - p50_us("epoll", &service)?);
        }
        println!("  {architecture:14} {}", Spread::of(added_us).check(Bound::AtMost(2.0)));
    }
    let switches = (0..rounds).map(|_| switch_us()).collect::<anyhow::Result<Vec<_>>>()?;
    println!("  waking another thread on the same CPU and waiting for it: {}", Spread::of(switches));
    Ok(())
}

fn p50_us(architecture: &str, service: &ServiceSpec) -> anyhow::Result<f64> {
    let server = Server::ours(architecture, service)?;
    let config = LoadConfig {
        connections: CONNECTIONS,
        rate_per_s: Some(RATE_PER_S),
        phases: Phases { ramp_ns: 0, warm_up_ns: 500_000_000, measure_ns: 4_000_000_000, cool_down_ns: 1_000_000_000 },
        ..config(server.address, service)
    };
    let outcome = load::run(&config, &mut |_| ())?;
    Ok(outcome.report.service.distribution.p50_ns as f64 / 1e3)
}

/// Returns the minimum cost of a hand-off on one CPU: two threads alternate with the primitives of the stages'
/// queues.
fn switch_us() -> anyhow::Result<f64> {
    const TURNS: u32 = 20_000;
    let mut cpu = rustix::thread::CpuSet::new();
    cpu.set(SERVER_CPU.parse()?);
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    let started = Instant::now();
    std::thread::scope(|scope| {
        let run = |odd: u32| {
            rustix::thread::sched_setaffinity(None, &cpu)?;
            loop {
                let mut turn = turn.lock().expect("nobody panics");
                while *turn % 2 != odd {
                    turn = changed.wait(turn).expect("nobody panics");
                }
                let is_last = *turn >= TURNS;
                *turn += 1;
                drop(turn);
                changed.notify_one();
                if is_last {
                    return Ok::<(), rustix::io::Errno>(());
                }
            }
        };
        let threads = [0, 1].map(|odd| scope.spawn(move || run(odd)));
        threads.into_iter().try_for_each(|thread| thread.join().expect("nobody panics"))
    })
    .context("cannot run on the server's CPU")?;
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS))
}
