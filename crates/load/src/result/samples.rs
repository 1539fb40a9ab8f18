//! Samples, and the figures computed from them.

use stats::TestResult;

use super::{GoodputBin, GoodputResult, Hardware, KernelResult, LateSends, Measured, PARTS};

/// One request of the window. Times are integer nanoseconds since the start of the window, on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// t1: the planned time. In a closed loop, the end of the previous response plus the think time.
    pub planned_ns: i64,
    /// t2: just before the write of the request.
    pub sent_ns: i64,
    /// t3: after reading the whole response; [`Sample::NEVER`] without one.
    pub complete_ns: i64,
    /// The time when the packet scheduler got the request; [`Sample::NEVER`] if unknown, as in the next three fields.
    pub scheduler_ns: i64,
    /// t2k: the time when the driver got the request.
    pub driver_ns: i64,
    /// t3k: the time when the kernel got the response's last packet.
    pub arrived_ns: i64,
    /// Service time on the wire, by the interface's clock.
    pub hardware_service_ns: i64,
    /// The connection, from 0. After a merge, its number among the connections of all processes.
    pub connection: u32,
    /// The process, from 0.
    pub client: u32,
    /// Whether figures count the request: in an interleaved trial, only those planned in the measured parts of its turns.
    pub is_counted: bool,
}

impl Sample {
    /// An unknown time, such as the completion of a response that never arrived.
    pub const NEVER: i64 = i64::MAX;

    /// A sample without known times.
    pub const UNKNOWN: Self = Self {
        planned_ns: 0,
        sent_ns: Self::NEVER,
        complete_ns: Self::NEVER,
        scheduler_ns: Self::NEVER,
        driver_ns: Self::NEVER,
        arrived_ns: Self::NEVER,
        hardware_service_ns: Self::NEVER,
        connection: 0,
        client: 0,
        is_counted: true,
    };
}

/// Computes the distribution of `difference`. Takes samples in order of planned time, and skips those without a difference.
pub fn measured(samples: &[Sample], window_ns: u64, difference: impl Fn(&Sample) -> Option<i64>) -> Measured {
    let mut figures = Measured::default();
    for (part, these) in parts(samples, window_ns, PARTS).enumerate() {
        let mut values = values(these, &difference);
        figures.histogram.extend(values.iter().copied());
        [figures.p50_by_part_ns[part], figures.p90_by_part_ns[part]] = quantiles(&mut values, [0.5, 0.9]);
    }
    Measured { distribution: figures.histogram.distribution(), ..figures }
}

/// Divides samples in order of planned time into `count` parts of the window, by planned time.
pub fn parts(samples: &[Sample], window_ns: u64, count: usize) -> impl Iterator<Item = &[Sample]> {
    let mut rest = samples;
    (1..=count).map(move |part| {
        let end_ns = (u128::from(window_ns) * part as u128 / count as u128) as i64;
        let length = if part == count { rest.len() } else { rest.partition_point(|sample| sample.planned_ns < end_ns) };
        let (these, others) = rest.split_at(length);
        rest = others;
        these
    })
}

/// Counts the requests planned in each part of the window.
pub fn planned_by_part(samples: &[Sample], window_ns: u64) -> [u64; PARTS] {
    let mut counts = parts(samples, window_ns, PARTS).map(|these| these.len() as u64);
    std::array::from_fn(|_| counts.next().unwrap_or(0))
}

/// The shortest bin of goodput, in nanoseconds.
const BIN_NS_MIN: u64 = 100_000_000;
/// The most bins of a window.
const BINS_MAX: u64 = 1_000;

/// Counts the requests answered in time. Takes samples in order of planned time, in which late responses are already none.
pub fn goodput(samples: &[Sample], window_ns: u64, timeout_ns: u64) -> GoodputResult {
    let bin_ns = window_ns.div_ceil(BINS_MAX).next_multiple_of(BIN_NS_MIN).max(BIN_NS_MIN);
    let mut rest = samples;
    let bin = |number: u64| {
        let end_ns = ((number + 1) * bin_ns) as i64;
        let (these, others) = rest.split_at(rest.partition_point(|sample| sample.planned_ns < end_ns));
        rest = others;
        let mut times = values(these, response_ns);
        let in_time = times.len() as u64;
        GoodputBin { planned: these.len() as u64, in_time, response_p50_ns: quantiles(&mut times, [0.5])[0] }
    };
    let bins = (0..window_ns.div_ceil(bin_ns)).map(bin).collect();
    GoodputResult { timeout_ns, timeouts: 0, retries: 0, bin_ns, bins }
}

/// Returns the known differences in nanoseconds. Replaces negative times with 0: `went_back` and `out_of_order` count them.
pub fn values(samples: &[Sample], difference: impl Fn(&Sample) -> Option<i64>) -> Vec<u64> {
    samples.iter().filter_map(difference).map(|ns| ns.max(0) as u64).collect()
}

/// Returns quantiles, given their shares in ascending order; 0 without values. Changes the order of the values.
pub fn quantiles<const COUNT: usize>(values: &mut [u64], shares: [f64; COUNT]) -> [u64; COUNT] {
    let (mut found, count) = ([0; COUNT], values.len());
    // All lower values are in front of a selected one.
    let mut rest = values;
    for (share, quantile) in shares.into_iter().zip(&mut found).rev() {
        let Some(at) = rank(share, count) else { continue };
        *quantile = *rest.select_nth_unstable(at).1;
        rest = &mut rest[..=at];
    }
    found
}

/// Returns the index of a quantile among `count` values in order; `None` without values.
fn rank(share: f64, count: usize) -> Option<usize> {
    (count > 0).then(|| ((share * count as f64).ceil() as usize).clamp(1, count) - 1)
}

/// Returns `later` − `earlier` if both are known.
fn between(earlier: i64, later: i64) -> Option<i64> {
    (earlier != Sample::NEVER && later != Sample::NEVER).then(|| later.saturating_sub(earlier))
}

/// Send delay: t2 − t1.
pub fn send_delay_ns(sample: &Sample) -> Option<i64> {
    between(sample.planned_ns, sample.sent_ns)
}

/// Service time: t3 − t2.
pub fn service_ns(sample: &Sample) -> Option<i64> {
    between(sample.sent_ns, sample.complete_ns)
}

/// Response time: t3 − t1.
pub fn response_ns(sample: &Sample) -> Option<i64> {
    between(sample.planned_ns, sample.complete_ns)
}

/// Counts the samples during which the clock went backwards.
pub fn went_back(samples: &[Sample]) -> u64 {
    let is_negative = |sample: &&Sample| {
        [send_delay_ns, service_ns, response_ns].iter().any(|time_ns| time_ns(sample).is_some_and(|ns| ns < 0))
    };
    samples.iter().filter(is_negative).count() as u64
}

/// Facts about the kernel's timestamps.
#[derive(Debug)]
pub struct KernelFacts {
    /// The interface that sent the requests.
    pub interface: String,
    /// The state of the interface's hardware timestamps.
    pub hardware: Hardware,
    /// Whether the wall clock was set during the trial.
    pub wall_clock_stepped: bool,
}

impl KernelFacts {
    /// Computes the kernel's figures of `samples`.
    pub fn report(&self, samples: &[Sample], window_ns: u64) -> KernelResult {
        let count = |is: fn(&Sample) -> bool| samples.iter().filter(|sample| is(sample)).count() as u64;
        let hardware = measured(samples, window_ns, |sample| between(0, sample.hardware_service_ns));
        KernelResult {
            interface: self.interface.clone(),
            hardware: self.hardware,
            to_scheduler: measured(samples, window_ns, |sample| between(sample.sent_ns, sample.scheduler_ns)),
            to_driver: measured(samples, window_ns, |sample| between(sample.sent_ns, sample.driver_ns)),
            from_arrival: measured(samples, window_ns, |sample| between(sample.arrived_ns, sample.complete_ns)),
            service: measured(samples, window_ns, |sample| between(sample.driver_ns, sample.arrived_ns)),
            hardware_service: (hardware.distribution.count > 0).then_some(hardware),
            unstamped_sent: count(|sample| sample.sent_ns != Sample::NEVER && sample.driver_ns == Sample::NEVER),
            unstamped_arrived: count(|sample| {
                sample.complete_ns != Sample::NEVER && sample.arrived_ns == Sample::NEVER
            }),
            out_of_order: count(|sample| {
                let times =
                    [sample.sent_ns, sample.scheduler_ns, sample.driver_ns, sample.arrived_ns, sample.complete_ns];
                let known = times.into_iter().filter(|&ns| ns != Sample::NEVER).collect::<Vec<_>>();
                known.windows(2).any(|pair| pair[0].saturating_sub(pair[1]) > CLOCKS_APART_NS_MAX)
            }),
            wall_clock_stepped: self.wall_clock_stepped,
        }
    }
}

/// The largest plausible error between the client's clock and the wall clock, which diverge between two comparisons.
const CLOCKS_APART_NS_MAX: i64 = 5_000;

/// Tests whether the requests were sent as planned.
pub fn fit(samples: &[Sample], interval_ns: f64) -> Option<TestResult> {
    let planned: Vec<i64> = samples.iter().map(|sample| sample.planned_ns).collect();
    let sent: Vec<i64> = samples.iter().map(|sample| sample.sent_ns).filter(|&ns| ns != Sample::NEVER).collect();
    stats::fit::sends_against_plan(&planned, &sent, interval_ns)
}

/// Counts late sends from the histograms, which also cover requests without a sample.
pub fn late(send_delay: &Measured, service: &Measured, samples: &[Sample]) -> LateSends {
    let times = samples.iter().map(|sample| (send_delay_ns(sample), service_ns(sample)));
    LateSends::of(&send_delay.histogram, &service.histogram).with_on_time(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(planned_ns: i64, service_ns: Option<i64>) -> Sample {
        let sent_ns = planned_ns + 10;
        Sample {
            planned_ns,
            sent_ns,
            complete_ns: service_ns.map_or(Sample::NEVER, |service_ns| sent_ns + service_ns),
            ..Sample::UNKNOWN
        }
    }

    #[test]
    fn times_are_measured_per_part() {
        // One request per microsecond for 100 µs. Those in the second half take twice as long. One request gets no response.
        let samples: Vec<_> =
            (0..100).map(|at| sample(at * 1_000, (at != 30).then_some(if at < 50 { 100 } else { 200 }))).collect();
        let service = measured(&samples, 100_000, service_ns);
        assert_eq!(service.distribution.count, 99);
        assert_eq!(service.p90_by_part_ns, service.p50_by_part_ns);
        assert_eq!(service.p50_by_part_ns[..PARTS / 2], [100; PARTS / 2]);
        assert_eq!(service.p50_by_part_ns[PARTS / 2..], [200; PARTS / 2]);
        assert_eq!(measured(&samples, 100_000, send_delay_ns).distribution.p99_ns, 10);
        assert_eq!(measured(&samples, 100_000, response_ns).distribution.max_ns, 210);
    }

    #[test]
    fn backward_clock_is_counted_once_per_request() {
        let times = |sent_ns, complete_ns| Sample { planned_ns: 100, sent_ns, complete_ns, ..Sample::UNKNOWN };
        let in_order =
            [times(100, 100), times(150, 200), times(150, Sample::NEVER), times(Sample::NEVER, Sample::NEVER)];
        assert_eq!(went_back(&in_order), 0);
        let back = [times(99, 200), times(150, 149), times(90, 80), times(99, Sample::NEVER)];
        assert_eq!(went_back(&[&in_order[..], &back].concat()), 4);
    }

    #[test]
    fn no_samples_give_empty_figures() {
        let nothing = measured(&[], 1_000, send_delay_ns);
        assert_eq!(nothing.distribution.count, 0);
        assert_eq!((nothing.p50_by_part_ns, nothing.p90_by_part_ns), ([0; PARTS], [0; PARTS]));
    }

    #[test]
    fn request_counts_in_the_bin_of_its_planned_time() {
        let sample = |planned_ms: i64, response_ms: Option<i64>| Sample {
            planned_ns: planned_ms * 1_000_000,
            complete_ns: response_ms.map_or(Sample::NEVER, |ms| (planned_ms + ms) * 1_000_000),
            ..Sample::UNKNOWN
        };
        let samples =
            [sample(0, Some(250)), sample(50, Some(20)), sample(99, None), sample(100, Some(3)), sample(240, None)];
        let report = goodput(&samples, 250_000_000, 7);
        let bin = |planned, in_time, ms: u64| GoodputBin { planned, in_time, response_p50_ns: ms * 1_000_000 };
        assert_eq!((report.timeout_ns, report.bin_ns), (7, BIN_NS_MIN));
        assert_eq!(report.bins, [bin(3, 2, 20), bin(1, 1, 3), bin(1, 0, 0)]);
        assert_eq!(goodput(&samples, 250_000_000_000, 7).bin_ns, 300_000_000, "at most 1 000 bins");
    }
}
