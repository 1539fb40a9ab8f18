//! Comparing clocks with the workers, and how early they must learn the start time.

/// Clock comparisons with each worker before a trial: the fastest answer is the most exact...
pub(super) const PINGS: u32 = 8;
/// Time from the last worker being ready to the start, in nanoseconds: for sending the start time to all, ...
const LEAD_NS: u64 = 50_000_000;
/// ...so much more for each of them, ...
const LEAD_NS_PER_WORKER: u64 = 5_000_000;
/// ...so many round trips, ...
const LEAD_ROUND_TRIPS: u64 = 2;
/// ...and this if packets may be lost: the kernel notices a loss after 200 ms, and a second one after 400 ms more.
const LEAD_NS_WITH_LOSS: u64 = 500_000_000;
/// One answer that took so much longer than another hints at a lost packet.
const LOSS_HINT_NS: u64 = 100_000_000;

/// One clock comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClockSample {
    /// The time from question to answer, in nanoseconds.
    pub(super) round_trip_ns: u64,
    /// How far the worker's CLOCK_MONOTONIC is ahead of ours, in nanoseconds, to within half the round trip.
    pub(super) ahead_ns: i64,
}

/// The clock comparisons with one worker.
#[derive(Default)]
pub(super) struct ClockSamples(pub(super) Vec<ClockSample>);

impl ClockSamples {
    /// The fastest, which is the most exact.
    pub(super) fn best(&self) -> ClockSample {
        *self.0.iter().min().expect("each worker was asked")
    }

    fn hint_at_loss(&self) -> bool {
        let lowest_ns = self.best().round_trip_ns;
        self.0.iter().any(|sample| sample.round_trip_ns >= lowest_ns + LOSS_HINT_NS)
    }
}

/// The time that sending the start time to all workers may take, in nanoseconds.
pub(super) fn lead_ns(workers: &[ClockSamples], has_loss: bool) -> u64 {
    let round_trip_ns = workers.iter().map(|samples| samples.best().round_trip_ns).max().unwrap_or(0);
    let for_loss = if has_loss || workers.iter().any(ClockSamples::hint_at_loss) { LEAD_NS_WITH_LOSS } else { 0 };
    LEAD_NS + LEAD_NS_PER_WORKER * workers.len() as u64 + LEAD_ROUND_TRIPS * round_trip_ns + for_loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lead_covers_the_slowest_worker_and_losses() {
        let samples = |ms: &[u64]| {
            let sample = |ms: &u64| ClockSample { round_trip_ns: ms * 1_000_000, ahead_ns: 7 };
            ClockSamples(ms.iter().map(sample).collect())
        };
        let lead_ms = |all: &[ClockSamples], has_loss| lead_ns(all, has_loss) / 1_000_000;
        assert_eq!(lead_ms(&[samples(&[0; 8]), samples(&[0; 8])], false), 60);
        assert_eq!(lead_ms(&[samples(&[200, 299]), samples(&[3, 4])], false), 60 + 400, "the slowest of the best");
        assert_eq!(lead_ms(&[samples(&[200, 299]), samples(&[3, 103])], false), 60 + 400 + 500, "a packet was lost");
        assert_eq!(lead_ms(&[samples(&[1])], true), 55 + 2 + 500);
    }
}
