//! Comparison of one of our servers with another server under the same load.

use super::spread::{Bound, rounds};

/// The figures of one server.
pub(super) struct Figures {
    pub rate_per_s: f64,
    /// CPU time of the server's threads.
    pub cpu_ns_per_request: f64,
    /// CPU time as a share of one CPU. A low share, due to other processes, invalidates the rate.
    pub busy: f64,
}

/// Measures both servers `count` times, A B A B, and prints the ratios after `name`.
pub(super) fn compare(
    name: &str,
    count: usize,
    ours: impl Fn() -> anyhow::Result<Figures>,
    theirs: impl Fn() -> anyhow::Result<Figures>,
) -> anyhow::Result<()> {
    let [rate, cost, busy] = rounds(count, || {
        let (ours, theirs) = (ours()?, theirs()?);
        let cost = ours.cpu_ns_per_request / theirs.cpu_ns_per_request;
        Ok([ours.rate_per_s / theirs.rate_per_s, cost, ours.busy.min(theirs.busy)])
    })?;
    let rate = rate.check(Bound::AtLeast(1.0));
    println!("  {name} rate {rate}; CPU a request {cost}; share of the server's CPU {busy}");
    Ok(())
}

/// Explains the last figure of [`compare`].
pub(super) fn print_note() {
    println!("  the rates are valid if both servers had nearly all of the server's CPU");
}
