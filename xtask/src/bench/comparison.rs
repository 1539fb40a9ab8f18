//! Comparison of one of our servers with another server under the same load.

use super::spread::{Bound, rounds};

/// The figures of one server.
pub(super) struct Figures {
    pub rate_per_s: f64,
    /// CPU time of the server's threads.
    pub cpu_ns_per_request: f64,
    /// The server's CPU time as a share of one CPU. If it is low, the CPU did not limit the rate, or other processes used it.
    pub busy: f64,
}

/// Measures both servers `count` times, in turn (A B A B), and prints the ratios of our server to the other one after `name`.
/// `rate_min` is the limit of the ratio of the rates.
pub(super) fn compare(
    name: &str,
    count: usize,
    rate_min: f64,
    ours: impl Fn() -> anyhow::Result<Figures>,
    theirs: impl Fn() -> anyhow::Result<Figures>,
) -> anyhow::Result<()> {
    let [rate, cost, busy] = rounds(count, || {
        let (ours, theirs) = (ours()?, theirs()?);
        let cost = ours.cpu_ns_per_request / theirs.cpu_ns_per_request;
        Ok([ours.rate_per_s / theirs.rate_per_s, cost, ours.busy.min(theirs.busy)])
    })?;
    let rate = rate.check(Bound::AtLeast(rate_min));
    println!("  {name} rate {rate}; CPU per request {cost}; lower CPU share of the two servers {busy}");
    Ok(())
}

/// Explains the last figure of [`compare`].
pub(super) fn print_note() {
    println!("  the rates are valid if the lower CPU share is nearly 1");
}
