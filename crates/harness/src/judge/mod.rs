//! Verdicts: whether a trial's figures describe its server.
//!
//! A verdict is a list of checks, each with its value and its limit. The first failed check decides.
//!
//! # Layout
//! - [`Judgement`]: the checks of a trial, and its verdict; [`ServerSide`]: facts about its server
//! - `open`, `closed`: checks of each kind of load, with streams; `clients`, `network`: of clients and network
//! - `slices`: of the slices of an interleaved trial
//! - `sufficient`: enough requests, plausible figures; `steady`: one steady state
//! - `limits`: all limits, with their reasons; `check`: constructors of checks

mod check;
mod clients;
mod closed;
mod limits;
mod network;
mod open;
mod slices;
mod steady;
mod sufficient;
#[cfg(test)]
pub(crate) mod tests;

use load::LoadResult;
use load::config::Phases;
use load::result::{PARTS, StreamResult};
use load::tools::idle::IdleResult;
use server::metrics::counters::Totals;
use wire::stream::Stream;

use crate::record::network::NetworkRecord;
use crate::record::{Check, Verdict, VerdictKind};
use crate::spec::network::Network;
pub use check::ServerSide;
pub(crate) use check::in_words;
pub(crate) use limits::{LOST_SHARE_MAX, TAKEN_SHARE_MAX_INTERLEAVED};
pub(crate) use slices::{checks as slice_checks, settling_ns};

/// Judges a trial by its load and the facts about its server.
pub fn judge(report: &LoadResult, server: Option<&ServerSide<'_>>) -> Verdict {
    Judgement::new(report, server).decide()
}

/// The checks of a trial, in the order in which they decide.
#[derive(Debug)]
pub struct Judgement {
    checks: Vec<Check>,
    /// The reason shown for a valid trial. An error states why the trial cannot be judged.
    reason: Result<String, String>,
    /// What is wrong with the first wrong response.
    wrong: Option<String>,
}

impl Judgement {
    /// Starts with the checks of the load.
    pub fn new(report: &LoadResult, server: Option<&ServerSide<'_>>) -> Self {
        let (load, reason) = match (&report.closed, &report.stream, report.rate_asked_per_s) {
            (Some(closed), Some(stream), _) => closed::of_stream(report, closed, stream, server),
            (Some(closed), None, _) => closed::checks(report, closed, server),
            (None, _, Some(rate_per_s)) => open::checks(report, rate_per_s, server),
            (None, _, None) => {
                let reason = "the client's report has no schedule: neither a rate nor a closed loop".into();
                return Self { checks: Vec::new(), reason: Err(reason), wrong: None };
            }
        };
        let mut checks = sufficient::plausible(report, server);
        checks.extend(report.slices.as_ref().map(slices::checks).into_iter().flatten());
        checks.extend(load);
        // Append this check: a failure of the load explains more than counters that were read late.
        checks.extend(server.map(|server| sufficient::counted_late(report, server)));
        let wrong = report.first_wrong.clone().filter(|_| report.errors.wrong > 0);
        Self { checks, reason: Ok(reason), wrong }
    }

    /// Adds checks that client and server each received every byte of the streams that the other sent.
    pub fn add_byte_counts(&mut self, sizes: Stream, idle: u32, stream: &StreamResult, server: &Totals) {
        let checks = closed::byte_counts(sizes, idle, stream, server);
        // An earlier failure explains missing bytes.
        let has_failed = self.first_failed().is_some_and(|check| check.decides == VerdictKind::Failed);
        let at = if has_failed { self.checks.len() } else { 0 };
        self.checks.splice(at..at, checks);
    }

    /// Adds the check that all idle connections stayed open. Fewer connections would be a different trial.
    pub fn add_idle(&mut self, idle: &IdleResult) {
        let (alive, held) = (f64::from(idle.alive), f64::from(idle.held));
        self.prepend(vec![check::at_least("idle connections alive at the end", alive, held, "", VerdictKind::Failed)]);
    }

    /// Adds checks of each client's CPUs and start order.
    pub fn add_clients(&mut self, report: &LoadResult, phases: Phases) {
        self.checks.extend(clients::checks(report, phases));
    }

    /// Adds checks that a server that muxbench did not write was warm. `rivals_ns` has the median service times of the other
    /// contestants of an interleaved trial by part of the window.
    pub fn add_warmth(&mut self, report: &LoadResult, rivals_ns: Option<&[f64; PARTS]>) {
        self.checks.extend(steady::warmth(report, rivals_ns));
    }

    /// Adds checks of the lab's network. Different conditions would be a different trial.
    pub fn add_network(&mut self, configured: &Network, report: &NetworkRecord) {
        self.prepend(network::checks(configured, report));
    }

    /// Returns the verdict, with all failed checks of the deciding kind.
    pub fn decide(self) -> Verdict {
        let kind = self.first_failed().map_or(VerdictKind::Valid, |check| check.decides);
        let failed = self.checks.iter().filter(|check| !check.passed && check.decides == kind);
        let mut failed: Vec<String> = failed.map(check::in_words).collect();
        failed.extend(self.wrong.filter(|_| kind == VerdictKind::Failed));
        match self.reason {
            Err(reason) => Verdict::failed(reason),
            Ok(_) if !failed.is_empty() => Verdict { kind, reason: failed.join("; "), checks: self.checks },
            Ok(reason) => Verdict { kind, reason, checks: self.checks },
        }
    }

    fn first_failed(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passed)
    }

    fn prepend(&mut self, checks: Vec<Check>) {
        self.checks.splice(0..0, checks);
    }
}
