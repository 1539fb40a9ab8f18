//! Loads of benches, and their runs in this process.

use std::net::SocketAddr;

use anyhow::{bail, ensure};
use load::config::{LoadConfig, Loop, Phases};
use load::{Event, LoadResult};
use wire::ServiceSpec;

use crate::process::CLIENT_CPU;

pub const CONNECTIONS: u32 = 400;

/// Bytes of a request and of a response.
pub type Sizes = (u32, u32);

/// The flags of a server for such requests.
pub fn flags((request_bytes, response_bytes): Sizes) -> [String; 2] {
    [format!("--request={request_bytes}B"), format!("--response={response_bytes}B")]
}

/// An open loop at 8 000 requests per second.
pub fn config(target: SocketAddr, (request_bytes, response_bytes): Sizes) -> LoadConfig {
    LoadConfig::new(target, ServiceSpec::Fixed { request_bytes, response_bytes }).with(|it| {
        it.connections = CONNECTIONS;
        it.set_rate(Some(8_000.0));
        it.phases = phases([500, 500, 4_000, 1_000]);
        it.client.cpus = vec![CLIENT_CPU];
    })
}

/// Returns this load as a closed loop, which measures a server's highest rate.
pub fn closed(phases: Phases, load: LoadConfig) -> LoadConfig {
    load.with(|it| {
        it.the_loop = Loop::CLOSED;
        it.phases = phases;
        it.client.cpus = vec![CLIENT_CPU];
    })
}

/// Phases with these lengths in milliseconds: ramp, warm-up, window and cool-down.
pub fn phases(lengths_ms: [u64; 4]) -> Phases {
    let [ramp_ns, warm_up_ns, measure_ns, cool_down_ns] = lengths_ms.map(|ms| ms * 1_000_000);
    Phases { ramp_ns, warm_up_ns, measure_ns, cool_down_ns }
}

/// Runs a load; returns an error if a request fails.
pub fn load_result(config: &LoadConfig) -> anyhow::Result<LoadResult> {
    follow(config, &mut |_| ())
}

fn follow(config: &LoadConfig, on_event: &mut dyn FnMut(Event)) -> anyhow::Result<LoadResult> {
    let report = load::run(config, on_event)?.report;
    ensure!(report.errors.total() == 0, "requests failed: {:?}", report.errors);
    Ok(report)
}

/// Like [`load_result`]. Also returns the first and the last progress report in the window: the time in nanoseconds, the number
/// of completed requests, and the value that `read` returned at that moment.
pub fn load_read<T: Copy>(
    config: &LoadConfig,
    read: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<(LoadResult, [(u64, u64, T); 2])> {
    let mut readings = Vec::new();
    let report = follow(config, &mut |event| {
        if let Event::Progress { phase, elapsed_ns, completed, .. } = event
            && phase == "measure"
            && let Ok(value) = read()
        {
            readings.truncate(1);
            readings.push((elapsed_ns, completed, value));
        }
    })?;
    let &[first, last] = readings.as_slice() else {
        bail!("the client reported progress fewer than two times in the window")
    };
    Ok((report, [first, last]))
}
