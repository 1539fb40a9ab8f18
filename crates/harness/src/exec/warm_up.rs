//! Warms external servers before they are measured. A just-in-time compiler makes a server faster for seconds, and a trial that
//! begins with a cold server measures the compiler.
//!
//! The server gets a closed loop over the trial's connections, which takes fewer seconds than the trial's own rate would. Its
//! responses per second show when the service time is steady.

use load::LoadResult;
use load::config::{LoadConfig, Loop, Pacing, Phases, Roles, Think, Timestamps, Transport};

/// The length of a round of load. A server may fail if its clients leave before its responses, so each round ends as a trial does.
const ROUND_NS: u64 = 1_000_000_000;
/// The highest number of rounds.
const ROUNDS_MAX: usize = 10;
/// A server is steady if its rate grows by less than this share from one round to the next, beside chance.
const GROWTH_MAX: f64 = 0.05;
/// The allowance for chance, in standard deviations of a Poisson process.
const DEVIATIONS: f64 = 2.0;

/// Returns the load of a round; `None` for datagrams, which have no closed loop.
pub(super) fn warming(trial: &LoadConfig) -> Option<LoadConfig> {
    let the_loop = match (&trial.the_loop, trial.requests_per_connection()) {
        (Loop::Stream, _) => Loop::Stream,
        (_, None) => Loop::Closed { think: Think::default(), pipeline: trial.pipeline() },
        (_, Some(requests_per_connection)) => Loop::ClosedSessions { requests_per_connection, think: Think::default() },
    };
    let phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: ROUND_NS, ..trial.phases };
    (trial.transport() != Transport::Udp).then(|| {
        trial.clone().with(|it| {
            it.the_loop = the_loop;
            it.client.pacing = Pacing::Auto;
            it.client.roles = Roles::Auto;
            it.client.timestamps = Timestamps::Client;
            it.client.slices = None;
            it.phases = phases;
        })
    })
}

/// The responses, or the bytes of streams, in each round of a warm-up.
#[derive(Debug, Default)]
pub(super) struct Warmth(Vec<u64>);

impl Warmth {
    /// Adds a round by the reports of its clients.
    pub(super) fn add<'a>(&mut self, reports: impl Iterator<Item = &'a LoadResult>) {
        let done = |report: &LoadResult| match &report.stream {
            Some(stream) => stream.bytes,
            None => report.completed_by_part.iter().sum(),
        };
        self.0.push(reports.map(done).sum());
    }

    /// Whether the warm-up is over.
    pub(super) fn is_over(&self) -> bool {
        self.0.len() >= ROUNDS_MAX || self.growth().is_some_and(|growth| growth <= GROWTH_MAX)
    }

    /// Whether the server still got faster.
    pub(super) fn is_growing(&self) -> bool {
        self.growth().is_some_and(|growth| growth > GROWTH_MAX)
    }

    /// The growth of the rate over the last two rounds, less the allowance for chance; `None` before two rounds.
    fn growth(&self) -> Option<f64> {
        let &[.., before, last] = &self.0[..] else { return None };
        let (before, last) = (before as f64, last as f64);
        let chance = DEVIATIONS * (1.0 / before.max(1.0) + 1.0 / last.max(1.0)).sqrt();
        // A server that has not answered yet is not warm.
        Some(if last == 0.0 { f64::INFINITY } else { last / before - 1.0 - chance })
    }
}

#[cfg(test)]
mod tests {
    use load::result::PARTS;

    use super::*;

    fn report(parts: [u64; PARTS]) -> LoadResult {
        LoadResult { completed_by_part: parts, ..LoadResult::default() }
    }

    /// Warms a server with these responses in each round. Returns the number of rounds and whether the server still got faster.
    fn warmed(responses: impl Fn(usize) -> f64) -> (usize, bool) {
        let mut warmth = Warmth::default();
        while !warmth.is_over() {
            warmth.add([report([(responses(warmth.0.len()) / PARTS as f64) as u64; PARTS])].iter());
        }
        (warmth.0.len(), warmth.is_growing())
    }

    #[test]
    fn warm_up_ends_when_the_server_is_steady() {
        assert_eq!(warmed(|_| 50_000.0), (2, false), "a warm server");
        assert_eq!(warmed(|round| if round < 1 { 1_000.0 } else { 50_000.0 }), (3, false), "slow for a second");
        assert_eq!(warmed(|round| [30e3, 66e3, 79e3, 80e3][round]), (4, false), "a compiler");
        assert_eq!(warmed(|round| 1_000.0 * 1.2_f64.powi(round as i32)), (10, true), "faster to the end");
        assert_eq!(warmed(|_| 0.0), (10, true), "without responses");
        assert_eq!(warmed(|round| 200.0 + 40.0 * (round % 3) as f64), (2, false), "chance in few responses");
    }

    #[test]
    fn clients_are_added() {
        let mut warmth = Warmth::default();
        warmth.add([report([1; PARTS]), report([2; PARTS])].iter());
        assert_eq!(warmth.0, [3 * PARTS as u64]);
    }

    #[test]
    fn every_load_over_streams_has_a_valid_warm_up() {
        use crate::spec::presets;
        for preset in presets::PRESETS {
            let plan = crate::plan::plan(&preset.experiment(), &crate::host::Host::made_up());
            for trial in plan.into_iter().flat_map(|plan| plan.trials) {
                let Some(config) = warming(&trial.load()) else { continue };
                assert_eq!(load::config::validate::check(&config), Ok(()), "{}", preset.name);
            }
        }
    }
}
