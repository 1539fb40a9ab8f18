//! Highest rates of our servers against the C reference server or against each other.

use super::loads::{closed_config, load_report};
use super::process::{CONNECTIONS, Server, Sizes, reference};
use super::spread::{Bound, rounds};

/// Architectures of the C reference server. Without `--against`, other architectures are compared with our epoll.
const REFERENCES: &[&str] = &["epoll", "poll", "select", "mt", "mp"];

pub(super) fn run(count: usize, architectures: &[String], against: Option<&str>) -> anyhow::Result<()> {
    let reference = reference()?;
    let other = against.unwrap_or("C reference (or our epoll)");
    println!(
        "closed rate, muxbench / {other}, {CONNECTIONS} connections, median of {count} rounds (lowest to highest)"
    );
    for sizes in [(1, 1), (128, 10_240)] {
        for architecture in architectures {
            let [ratio] = rounds(count, || {
                let ours = rate(&Server::ours(architecture, sizes)?, sizes)?;
                let theirs = match against {
                    None if REFERENCES.contains(&architecture.as_str()) => {
                        Server::reference(&reference, architecture, sizes)?
                    }
                    other => Server::ours(other.unwrap_or("epoll"), sizes)?,
                };
                Ok([ours / rate(&theirs, sizes)?])
            })?;
            let bound = bound(architecture, against, sizes);
            let ratio = bound.map_or_else(|| ratio.to_string(), |bound| ratio.check(bound));
            println!("  {architecture:16} {:4} B -> {:5} B  {ratio}", sizes.0, sizes.1);
        }
    }
    Ok(())
}

fn rate(server: &Server, sizes: Sizes) -> anyhow::Result<f64> {
    Ok(load_report(&closed_config(server.address, sizes))?.rate_achieved_per_s)
}

/// Returns the limit of a ratio to the C reference server, or to our epoll for `epoll-et` and for `io_uring` with 1 B requests.
fn bound(architecture: &str, against: Option<&str>, sizes: Sizes) -> Option<Bound> {
    match (architecture, against) {
        (_, None) if REFERENCES.contains(&architecture) => Some(Bound::AtLeast(0.95)),
        ("epoll-et", Some("epoll")) => Some(Bound::AtLeast(0.97)),
        ("io_uring", Some("epoll")) if sizes == (1, 1) => Some(Bound::AtLeast(1.0)),
        _ => None,
    }
}
