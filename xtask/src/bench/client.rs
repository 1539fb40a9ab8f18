//! The client alone: send delay, memory, summaries, timestamps.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use load::Sample;
use load::config::Timestamps;
use load::report::samples;
use load::tools::cost;

use super::loads::{config, load_report};
use super::process::{CLIENT_CPU, CONNECTIONS, MEASURED, Server, answer, muxbench};
use super::spread::{Bound, Spread, rounds};

pub(super) fn send_delay(count: usize) -> anyhow::Result<()> {
    let [p50, p99] = rounds(count, || {
        let server = Server::ours("epoll", (1, 1))?;
        let delay = load_report(&config(server.address, (1, 1)))?.send_delay.distribution;
        Ok([delay.p50_ns, delay.p99_ns].map(|ns| ns as f64 / 1e3))
    })?;
    println!(
        "send delay in µs at 8000 requests/s, {CONNECTIONS} connections, 1 B -> 1 B, epoll, median of {count} rounds"
    );
    println!("  p50 {}", p50.check(Bound::AtMost(0.5)));
    println!("  p99 {}", p99.check(Bound::AtMost(20.0)));
    Ok(())
}

pub(super) fn timestamps(count: usize) -> anyhow::Result<()> {
    const REQUESTS: usize = 20_000;
    let [ratio, added_us] = rounds(count, || {
        let without_ns = cost::per_request_ns(Timestamps::Client, REQUESTS, Some(CLIENT_CPU))?;
        let with_ns = cost::per_request_ns(Timestamps::Kernel, REQUESTS, Some(CLIENT_CPU))?;
        Ok([with_ns / without_ns, (with_ns - without_ns) / 1e3])
    })?;
    println!("time of a request in the client with and without the kernel's timestamps, median of {count} rounds");
    println!("  with / without {ratio}");
    println!("  added µs {}", added_us.check(Bound::AtMost(1.5)));
    Ok(())
}

pub(super) fn memory() -> anyhow::Result<()> {
    let mut command = Command::new(muxbench()?);
    command.args(["compare", "--arch", "select,poll,epoll", "--connections", "5000", "--repeats", "1"]);
    let result: serde_json::Value = answer(command.args(["--json", "--quiet"]), MEASURED)?;
    println!("user memory per connection in bytes, 5000 connections");
    for trial in result["trials"].as_array().context("`compare` reports no trials")? {
        let architecture = trial["trial"]["architecture"].as_str().unwrap_or_default();
        for (name, side, figure, bytes_max) in [
            ("server", "server", "memory_user_bytes_per_connection", 512.0),
            ("client", "load", "memory_bytes_per_connection", 256.0),
        ] {
            let bytes = Spread::of(trial[side][figure].as_f64().into_iter().collect());
            println!("  {architecture:7} {name} {}", bytes.check(Bound::AtMost(bytes_max)));
        }
    }
    Ok(())
}

pub(super) fn summary(count: usize) -> anyhow::Result<()> {
    const SAMPLES: i64 = 5_000_000;
    const LIMIT_S: f64 = 2.0;
    let samples: Vec<Sample> = (0..SAMPLES)
        .map(|at| {
            // A multiplicative hash spreads service times from 20 µs to 1.07 ms.
            let spread = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            let planned_ns = at * 125_000;
            let sent_ns = planned_ns + (spread & 0xff) as i64;
            let complete_ns = sent_ns + 20_000 + spread as i64;
            Sample { planned_ns, sent_ns, complete_ns, connection: at as u32 % 400, ..Sample::UNKNOWN }
        })
        .collect();
    let window_ns = SAMPLES as u64 * 125_000;
    let [share] = rounds(count, || {
        let started = Instant::now();
        for difference in [samples::send_delay_ns, samples::service_ns, samples::response_ns] {
            let measured = samples::measured(&samples, window_ns, difference);
            ensure!(measured.distribution.count == SAMPLES as u64, "not all samples are in the window");
        }
        Ok([started.elapsed().as_secs_f64() / LIMIT_S])
    })?;
    println!("time to summarise 5 million samples (send delay, service and response time), as a share of {LIMIT_S} s");
    println!("  {}", share.check(Bound::AtMost(1.0)));
    Ok(())
}
