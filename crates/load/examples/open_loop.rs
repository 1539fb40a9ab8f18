//! Drives an open loop for half a second against a server that answers after 200 µs.

use std::error::Error;
use std::time::Duration;

use muxbench_load::config::{Phases, Transport};
use muxbench_load::tools::reflector::Reflector;
use muxbench_load::{LoadConfig, ServiceSpec, run};

/// Prints the median of each time of a request.
pub fn main() -> Result<(), Box<dyn Error>> {
    let service = ServiceSpec::Fixed { request_bytes: 16, response_bytes: 100 };
    let server = Reflector::start(Transport::Tcp, &service, None, || Duration::from_micros(200))?;
    let mut load = LoadConfig::new(server.address().clone(), service);
    load.connections = 10;
    load.set_rate(Some(1000.0));
    load.phases = Phases { measure_ns: 500_000_000, ..load.phases };
    let outcome = run(&load, &mut |_event| ())?;
    let report = outcome.report;
    for (name, time) in [("send delay", report.send_delay), ("service", report.service), ("response", report.response)]
    {
        println!("{name:10} p50 {:7.1} µs", time.distribution.p50_ns as f64 / 1000.0);
    }
    println!("{} of {} requests completed", report.completed, report.planned);
    Ok(())
}
