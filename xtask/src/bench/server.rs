//! Highest rates of our servers against the C reference server or against each other.

use anyhow::ensure;
use wire::ServiceSpec;

use super::process::{CONNECTIONS, Server, closed_config, reference};
use super::spread::{Bound, Spread};

/// Architectures of the C reference server. Others are compared with our epoll.
const REFERENCES: &[&str] = &["epoll", "poll", "select", "mt", "mp"];

pub(super) fn run(rounds: usize, architectures: &[String], against: Option<&str>) -> anyhow::Result<()> {
    let reference = reference()?;
    let other = against.unwrap_or("C reference (or our epoll)");
    println!(
        "closed rate, muxbench / {other}, {CONNECTIONS} connections, median of {rounds} rounds (lowest to highest)"
    );
    for (request_bytes, response_bytes) in [(1, 1), (128, 10_240)] {
        let service = ServiceSpec::Fixed { request_bytes, response_bytes };
        for architecture in architectures {
            let mut ratios = Vec::new();
            for _ in 0..rounds {
                let ours = rate(&Server::ours(architecture, &service)?, &service)?;
                let theirs = match against {
                    Some(ours) => Server::ours(ours, &service)?,
                    None if REFERENCES.contains(&architecture.as_str()) => {
                        Server::reference(&reference, architecture, &service)?
                    }
                    None => Server::ours("epoll", &service)?,
                };
                ratios.push(ours / rate(&theirs, &service)?);
            }
            let ratio = Spread::of(ratios);
            let bound = bound(architecture, against, &service);
            let ratio = bound.map_or_else(|| ratio.to_string(), |bound| ratio.check(bound));
            println!("  {architecture:16} {request_bytes:4} B -> {response_bytes:5} B  {ratio}");
        }
    }
    Ok(())
}

fn rate(server: &Server, service: &ServiceSpec) -> anyhow::Result<f64> {
    let report = load::run(&closed_config(server.address, service), &mut |_| ())?.report;
    ensure!(report.errors.total() == 0, "{:?}", report.errors);
    Ok(report.rate_achieved_per_s)
}

/// Returns the limit: against the C reference for all, and against epoll for epoll-et and (only with small requests)
/// io_uring.
fn bound(architecture: &str, against: Option<&str>, service: &ServiceSpec) -> Option<Bound> {
    let is_small = service.fixed() == Some((1, 1));
    match (architecture, against) {
        (_, None) if REFERENCES.contains(&architecture) => Some(Bound::AtLeast(0.95)),
        ("epoll-et", Some("epoll")) => Some(Bound::AtLeast(0.97)),
        ("io_uring", Some("epoll")) if is_small => Some(Bound::AtLeast(1.0)),
        _ => None,
    }
}
