//! Comparisons of this host's clock with the workers' clocks, and the time from the `Begin` messages to the start.

/// The number of clock comparisons with each worker before a trial. The fastest answer is the most exact.
pub(super) const PINGS: u32 = 8;
/// The time from the `Begin` messages to the start: a constant part, a part for each client, and a number of round trips.
const LEAD_NS: u64 = 50_000_000;
const LEAD_NS_PER_CLIENT: u64 = 5_000_000;
const LEAD_ROUND_TRIPS: u64 = 2;
/// The additional time if the network loses packets. It covers one loss (200 ms), but not a second (400 ms more).
const LEAD_NS_WITH_LOSS: u64 = 500_000_000;
/// The difference between two round trips that indicates a lost packet.
const LOSS_HINT_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClockSample {
    /// The time from request to answer, in nanoseconds.
    pub(super) round_trip_ns: u64,
    /// The worker's CLOCK_MONOTONIC minus this host's, in nanoseconds, to within half the round trip.
    pub(super) ahead_ns: i64,
}

impl ClockSample {
    /// The largest error of `ahead_ns`.
    pub(super) fn error_ns(&self) -> u64 {
        self.round_trip_ns / 2
    }

    /// Returns by how much a clock has certainly moved since `before`, in nanoseconds.
    pub(super) fn moved_ns(&self, before: Self) -> u64 {
        self.ahead_ns.abs_diff(before.ahead_ns).saturating_sub(self.error_ns() + before.error_ns())
    }
}

/// The fastest and most exact of the comparisons with one worker.
pub(super) fn best(samples: &[ClockSample]) -> ClockSample {
    *samples.iter().min().expect("each worker has answered")
}

fn hint_at_loss(samples: &[ClockSample]) -> bool {
    let limit_ns = best(samples).round_trip_ns + LOSS_HINT_NS;
    samples.iter().any(|sample| sample.round_trip_ns >= limit_ns)
}

/// The time from the `Begin` messages to the start, in nanoseconds. The messages must reach all workers before the start. Each worker has
/// a client for each contestant.
pub(super) fn lead_ns(workers: &[Vec<ClockSample>], contestants: usize, has_loss: bool) -> u64 {
    let round_trip_ns = workers.iter().map(|samples| best(samples).round_trip_ns).max().unwrap_or(0);
    let for_loss = if has_loss || workers.iter().any(|samples| hint_at_loss(samples)) { LEAD_NS_WITH_LOSS } else { 0 };
    LEAD_NS + LEAD_NS_PER_CLIENT * (workers.len() * contestants) as u64 + LEAD_ROUND_TRIPS * round_trip_ns + for_loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_has_moved_only_beyond_the_errors() {
        let sample = |round_trip_ns, ahead_ns| ClockSample { round_trip_ns, ahead_ns };
        assert_eq!(sample(200, 1_000).moved_ns(sample(100, 850)), 0);
        assert_eq!(sample(200, 1_000).moved_ns(sample(100, -850)), 1_850 - 150);
        assert_eq!(sample(0, i64::MIN).moved_ns(sample(u64::MAX - 1, i64::MAX)), u64::MAX / 2 + 1);
    }

    #[test]
    fn lead_covers_the_slowest_worker_and_losses() {
        let samples = |ms: &[u64]| {
            let sample = |ms: &u64| ClockSample { round_trip_ns: ms * 1_000_000, ahead_ns: 7 };
            ms.iter().map(sample).collect::<Vec<_>>()
        };
        let lead_ms = |all: &[Vec<ClockSample>], has_loss| lead_ns(all, 1, has_loss) / 1_000_000;
        assert_eq!(lead_ms(&[samples(&[0; 8]), samples(&[0; 8])], false), 60);
        assert_eq!(
            lead_ms(&[samples(&[200, 299]), samples(&[3, 4])], false),
            60 + 400,
            "the slowest worker's best answer counts"
        );
        assert_eq!(lead_ms(&[samples(&[200, 299]), samples(&[3, 103])], false), 60 + 400 + 500, "a packet was lost");
        assert_eq!(lead_ms(&[samples(&[1])], true), 55 + 2 + 500);
        assert_eq!(lead_ns(&[samples(&[0]), samples(&[0])], 7, false), 120_000_000, "14 clients");
    }
}
