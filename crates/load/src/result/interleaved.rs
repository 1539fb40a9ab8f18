//! The report of an interleaved trial: the measured parts of the contestant's slices, joined to one window.

use std::collections::BTreeSet;

use super::samples::{self as figures, KernelFacts};
use super::{ClosedResult, DatagramResult, LoadResult, Outstanding, PARTS, Sample, SliceResult};
use crate::config::{LoadConfig, Slices, active_count};

/// The measured parts of a contestant's slices. Times are in nanoseconds since the start of the window.
struct Joined {
    slices: Slices,
    /// The start of the window, in nanoseconds after the start of the trial.
    from_ns: u64,
    /// For each round of the window: the start of the contestant's slice in the trial, and its place in the joined window.
    rounds: Vec<(u64, Option<u64>)>,
    measured: u64,
    /// Whether responses count at the planned times of their requests, as in an open loop. By the times of responses, those of the
    /// guard would count too, and a slow server would exceed the planned rate.
    counts_by_plan: bool,
}

impl Joined {
    fn new(config: &LoadConfig, slices: Slices, left_out: &BTreeSet<u64>) -> Self {
        let window = config.window_ns();
        let mut measured = 0;
        let mut place = |round: u64| {
            let place = (!left_out.contains(&round)).then_some(measured);
            measured += u64::from(place.is_some());
            (slices.start_ns(round), place)
        };
        let rounds = window.start / slices.round_ns()..window.end / slices.round_ns();
        let rounds = rounds.map(&mut place).collect();
        Self { slices, from_ns: window.start, rounds, measured, counts_by_plan: config.rate_per_s().is_some() }
    }

    fn measured_ns(&self) -> u64 {
        self.slices.slice_ns - self.slices.guard_ns
    }

    fn window_ns(&self) -> u64 {
        self.measured * self.measured_ns()
    }

    /// Returns the time from the start of the contestant's slice to `ns` in the same round, and the slice's place.
    fn locate(&self, ns: i64) -> Option<(i64, Option<u64>)> {
        let ns = self.from_ns.checked_add_signed(ns)?;
        let round = (ns / self.slices.round_ns()).checked_sub(self.from_ns / self.slices.round_ns())?;
        let (start_ns, place) = *self.rounds.get(round as usize)?;
        Some((ns as i64 - start_ns as i64, place))
    }

    /// Converts a time to the joined window; `None` if it is outside of the measured parts.
    fn join(&self, ns: i64) -> Option<i64> {
        let (since_ns, place) = self.locate(ns)?;
        let is_measured = (self.slices.guard_ns as i64..self.slices.slice_ns as i64).contains(&since_ns);
        Some(place.filter(|_| is_measured)? as i64 * self.measured_ns() as i64 + since_ns - self.slices.guard_ns as i64)
    }

    /// Returns the time at which a response counts, in the joined window; `None` if it is outside of the measured parts.
    fn completed_ns(&self, sample: &Sample) -> Option<i64> {
        let ns = if self.counts_by_plan { sample.planned_ns } else { sample.complete_ns };
        self.join(ns).filter(|_| sample.complete_ns != Sample::NEVER)
    }

    fn sample(&self, sample: &Sample) -> Option<Sample> {
        let planned_ns = self.join(sample.planned_ns)?;
        let shifted = |ns: i64| if ns == Sample::NEVER { ns } else { ns - sample.planned_ns + planned_ns };
        Some(Sample {
            planned_ns,
            sent_ns: shifted(sample.sent_ns),
            complete_ns: shifted(sample.complete_ns),
            scheduler_ns: shifted(sample.scheduler_ns),
            driver_ns: shifted(sample.driver_ns),
            arrived_ns: shifted(sample.arrived_ns),
            ..*sample
        })
    }

    /// Returns the increase of outstanding requests over a measured part, as the median over the slices times their number. A
    /// saturated server has such an increase in each slice. A pause of the host delays the responses of one slice only.
    fn pile_up(&self, samples: &[Sample]) -> u64 {
        let mut increases = vec![0_i64; self.measured as usize];
        for sample in samples.iter().filter(|sample| sample.sent_ns != Sample::NEVER) {
            let Some((since_ns, Some(place))) = self.locate(sample.planned_ns) else { continue };
            for (step, edge_ns) in [(-1, self.slices.guard_ns), (1, self.slices.slice_ns)] {
                let edge_ns = sample.planned_ns - since_ns + edge_ns as i64;
                let is_outstanding = sample.sent_ns < edge_ns && sample.complete_ns > edge_ns;
                increases[place as usize] += if is_outstanding { step } else { 0 };
            }
        }
        increases.sort_unstable();
        let median = increases.get(increases.len() / 2).copied().unwrap_or_default();
        median.max(0) as u64 * self.measured
    }

    /// Returns the share of the window in which the contestant was active: its slices, each until its last response or the end of its
    /// gap.
    fn active_share(&self, samples: &[Sample]) -> f64 {
        let Slices { slice_ns, gap_ns, .. } = self.slices;
        let mut active_ns = vec![slice_ns; self.measured as usize];
        for sample in samples.iter().filter(|sample| sample.complete_ns != Sample::NEVER) {
            let Some((since_ns, Some(place))) = self.locate(sample.planned_ns) else { continue };
            let end_ns = (since_ns + sample.complete_ns - sample.planned_ns).max(0) as u64;
            let active_ns = &mut active_ns[place as usize];
            *active_ns = end_ns.min(slice_ns + gap_ns).max(*active_ns);
        }
        let all_ns = active_ns.len().max(1) as u64 * self.slices.round_ns();
        active_ns.iter().sum::<u64>().max(slice_ns) as f64 / all_ns as f64
    }

    /// Returns the place of a request's slice, if the request was outstanding beyond the guard of the next slice.
    fn overran(&self, sample: &Sample) -> Option<u64> {
        let end_ns = (self.slices.slice_ns + self.slices.gap_ns + self.slices.guard_ns) as i64;
        let (since_ns, place) = self.locate(sample.planned_ns)?;
        let is_over = sample.sent_ns != Sample::NEVER && sample.complete_ns > sample.planned_ns - since_ns + end_ns;
        place.filter(|_| is_over)
    }
}

/// Returns the rounds of a trial in which a client paused.
pub fn rounds_with_pauses<'a>(config: &LoadConfig, reports: impl Iterator<Item = &'a LoadResult>) -> BTreeSet<u64> {
    let Some(slices) = config.client.slices else { return BTreeSet::new() };
    let window = config.window_ns();
    let round = |ns: i64| window.start.saturating_add_signed(ns) / slices.round_ns();
    reports.flat_map(|report| &report.pauses).flat_map(|pause| round(pause.start)..=round(pause.end)).collect()
}

/// Returns the report of the measured parts, without the rounds in `left_out`. `report` and `samples` cover the whole window,
/// including the guards; the samples that count are marked.
pub fn joined(config: &LoadConfig, report: LoadResult, samples: &mut [Sample], left_out: &BTreeSet<u64>) -> LoadResult {
    let Some(slices) = config.client.slices else { return report };
    let window = config.window_ns();
    let all_rounds = (window.end - window.start) / slices.round_ns();
    let pauses = left_out.range(window.start / slices.round_ns()..window.end / slices.round_ns()).count() as u64;
    let none = BTreeSet::new();
    let joined = Joined::new(config, slices, if 2 * pauses > all_rounds { &none } else { left_out });
    let window_ns = joined.window_ns();
    let window_s = window_ns as f64 / 1e9;
    samples.iter_mut().for_each(|sample| sample.is_counted = joined.join(sample.planned_ns).is_some());
    let samples = &*samples;
    let whole: Vec<Sample> = samples.iter().filter_map(|sample| joined.sample(sample)).collect();
    let of_samples = |difference: fn(&Sample) -> Option<i64>| figures::measured(&whole, window_ns, difference);
    let (send_delay, service) = (of_samples(figures::send_delay_ns), of_samples(figures::service_ns));
    let mut completed_by_part = [0; PARTS];
    let mut sent_in_time = 0_u64;
    for sample in samples {
        if let Some(ns) = joined.completed_ns(sample) {
            completed_by_part[(ns as u128 * PARTS as u128 / u128::from(window_ns)) as usize] += 1;
        }
        sent_in_time += u64::from(sample.sent_ns != Sample::NEVER && joined.join(sample.sent_ns).is_some());
    }
    let overrun = samples.iter().filter_map(|sample| joined.overran(sample)).collect::<BTreeSet<u64>>().len() as u64;
    let active_share = joined.active_share(samples);
    let busy = |share: f64| (share / active_share).min(1.0);
    let known = |time: fn(&Sample) -> i64| whole.iter().filter(|sample| time(sample) != Sample::NEVER).count() as u64;
    let unanswered = known(|sample| sample.sent_ns).saturating_sub(known(|sample| sample.complete_ns));
    let in_window = completed_by_part.iter().sum::<u64>();
    let pile_up = joined.pile_up(samples);
    let answered = config.rate_per_s().map_or(in_window, |_| known(|sample| sample.sent_ns).saturating_sub(pile_up));
    LoadResult {
        window_ns,
        planned: whole.len() as u64,
        planned_by_part: report.planned_by_part.map(|_| figures::planned_by_part(&whole, window_ns)),
        sent: known(|sample| sample.sent_ns),
        completed: known(|sample| sample.complete_ns),
        rate_achieved_per_s: answered as f64 / window_s,
        completed_by_part,
        rate_sent_per_s: sent_in_time as f64 / window_s,
        datagrams: report.datagrams.clone().map(|it| DatagramResult { lost: it.lost.min(unanswered), ..it }),
        outstanding: Outstanding { at_start: 0, at_end: pile_up, ..report.outstanding },
        late: figures::late(&send_delay, &service, &whole),
        receiver_busy_share: report.receiver_busy_share.map(busy),
        fit: config.rate_per_s().and_then(|rate_per_s| figures::fit(&whole, 1e9 / rate_per_s)),
        closed: report.closed.clone().map(|closed| ClosedResult { busy_share: busy(closed.busy_share), ..closed }),
        kernel: report.kernel.as_ref().map(|kernel| {
            let (interface, hardware) = (kernel.interface.clone(), kernel.hardware);
            KernelFacts { interface, hardware, wall_clock_stepped: kernel.wall_clock_stepped }.report(&whole, window_ns)
        }),
        slices: Some(SliceResult {
            rounds: all_rounds - pauses,
            left_out: pauses,
            overrun,
            active_share,
            outside_share: None,
            settling_guards: None,
            p50_by_half_ns: halves(&joined, &whole),
            law_responses: (report.closed.is_some() && config.pipeline() == 1)
                .then(|| window_s * law_per_s(config, &whole)),
            responses: in_window,
        }),
        response: of_samples(figures::response_ns),
        send_delay,
        service,
        ..report
    }
}

/// Returns the transactions per second of a closed loop by the interactive response time law.
fn law_per_s(config: &LoadConfig, whole: &[Sample]) -> f64 {
    let connections = active_count(config.active(), config.connections);
    let response_ns = figures::values(whole, figures::response_ns);
    let mean_ns = response_ns.iter().sum::<u64>() as f64 / response_ns.len().max(1) as f64;
    f64::from(connections) / (mean_ns + config.think().mean_ns as f64) * 1e9
}

/// Returns the median service times in the first and in the second halves of the measured parts.
fn halves(joined: &Joined, whole: &[Sample]) -> [u64; 2] {
    let measured_ns = joined.measured_ns() as i64;
    [0, 1].map(|half| {
        let is_in = |sample: &&Sample| (sample.planned_ns % measured_ns) * 2 / measured_ns == half;
        let whole: Vec<Sample> = whole.iter().filter(is_in).copied().collect();
        figures::quantiles(&mut figures::values(&whole, figures::service_ns), [0.5])[0]
    })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::config::{Loop, Pace, Phases, Schedule, Think};

    const MS: u64 = 1_000_000;

    fn config() -> LoadConfig {
        let slices =
            Slices { heat: 0, contestants: 2, contestant: 0, slice_ns: 10 * MS, gap_ns: 0, guard_ns: 2 * MS, seed: 1 };
        let phases = Phases { ramp_ns: 0, warm_up_ns: 10 * MS, measure_ns: 320 * MS, cool_down_ns: 0 };
        let the_loop = Loop::open(Pace::new(Schedule::SlotRandom, 1_000.0));
        LoadConfig::small(([127, 0, 0, 1], 80))
            .with(|it| (it.client.slices, it.phases, it.the_loop) = (Some(slices), phases, the_loop))
    }

    /// One request per millisecond of the contestant's slices. Each takes a microsecond per millisecond since its slice began.
    fn samples(config: &LoadConfig) -> Vec<Sample> {
        let slices = config.client.slices.unwrap();
        let window = config.window_ns();
        let rounds = window.start / slices.round_ns()..window.end / slices.round_ns();
        let sample = |round: u64, at: u64| {
            let planned_ns = (slices.start_ns(round) + at * MS) as i64 - window.start as i64;
            let sent_ns = planned_ns + 1_000;
            Sample { planned_ns, sent_ns, complete_ns: sent_ns + at as i64 * 1_000, ..Sample::UNKNOWN }
        };
        rounds.flat_map(|round| (0..10).map(move |at| sample(round, at))).collect()
    }

    #[test]
    fn guards_and_other_slices_are_not_measured() {
        let (config, mut samples) = (config(), samples(&config()));
        let report = joined(&config, LoadResult::default(), &mut samples, &BTreeSet::new());
        assert_eq!((report.window_ns, report.planned, report.sent, report.completed), (256 * MS, 256, 256, 256));
        assert!((report.rate_achieved_per_s - 1_000.0).abs() < 1e-6, "{}", report.rate_achieved_per_s);
        assert!((report.rate_sent_per_s - 1_000.0).abs() < 1e-6);
        assert_eq!(report.completed_by_part, [8; PARTS], "a part is a round");
        assert_eq!(report.service.p50_by_part_ns, [5_000; PARTS], "2 to 9 us in each");
        let slices = report.slices.unwrap();
        assert_eq!((slices.rounds, slices.left_out, slices.overrun), (32, 0, 0));
        assert!((slices.active_share - 0.5).abs() < 1e-9, "{}", slices.active_share);
        assert_eq!(slices.p50_by_half_ns, [3_000, 7_000]);
        assert_eq!(samples.iter().filter(|sample| sample.is_counted).count(), 256, "8 of 10 of a slice");
        assert_eq!(slices.responses, 256);
        assert_eq!(report.outstanding, Outstanding::default());
    }

    #[test]
    fn slow_responses_of_guards_do_not_raise_the_rate() {
        let config = config();
        let mut samples = samples(&config);
        // Requests of the guard are answered in the measured part.
        samples
            .iter_mut()
            .filter(|it| it.complete_ns - it.sent_ns < 2_000)
            .for_each(|it| it.complete_ns += 2 * MS as i64);
        let rates = |config: &LoadConfig| {
            let report = joined(config, LoadResult::default(), &mut samples.clone(), &BTreeSet::new());
            [report.slices.unwrap().responses, report.completed_by_part.iter().sum::<u64>()]
        };
        assert_eq!(rates(&config), [256; 2], "as planned");
        assert_eq!(rates(&config.with(|it| it.the_loop = Loop::CLOSED)), [320; 2], "a closed loop has no plan");
    }

    #[test]
    fn closed_loop_is_compared_with_interactive_response_time_law() {
        let thinking = |think_ns, pipeline| {
            let think = Think { mean_ns: think_ns, exponential: false };
            config().with(|it| (it.connections, it.the_loop) = (3, Loop::Closed { think, pipeline }))
        };
        let config = thinking(2 * MS, 1);
        let closed = ClosedResult { unsampled: 0, busy_share: 0.5, cpus: 1, think_ns: 2 * MS };
        let report = LoadResult { closed: Some(closed), ..LoadResult::default() };
        // Three connections send every 3 ms: a response takes 1 ms, and the think time 2 ms.
        let mut samples = samples(&config);
        for (at, sample) in samples.iter_mut().enumerate() {
            (sample.connection, sample.complete_ns) = (at as u32 % 3, sample.planned_ns + MS as i64);
        }
        let expected = |config: &LoadConfig, samples: &[Sample]| {
            joined(config, report.clone(), &mut samples.to_vec(), &BTreeSet::new()).slices.unwrap().law_responses
        };
        assert_eq!(expected(&config, &samples), Some(256.0), "one for each millisecond");
        assert!(expected(&thinking(8 * MS, 1), &samples).is_some_and(|it| (it - 256.0 / 3.0).abs() < 1e-9));
        assert_eq!(expected(&thinking(2 * MS, 2), &samples), None);
        assert_eq!(expected(&config, &[]), Some(384.0), "at most one for each think time");
    }

    #[test]
    fn rounds_with_pauses_are_left_out() {
        let (config, samples) = (config(), samples(&config()));
        let pause = |from: i64, to: i64| from * MS as i64..to * MS as i64;
        let with = |pauses: Vec<Range<i64>>| LoadResult { pauses, ..LoadResult::default() };
        let reports = [with(vec![pause(1, 2), pause(639, 640)]), with(vec![pause(39, 61)])];
        let left_out = rounds_with_pauses(&config, reports.iter());
        // Rounds of 20 ms; the window begins with round 1.
        assert_eq!(left_out, [1, 2, 3, 4, 32, 33].into());
        let report = joined(&config, LoadResult::default(), &mut samples.clone(), &left_out);
        assert_eq!((report.window_ns, report.planned), (27 * 8 * MS, 27 * 8));
        assert_eq!(report.slices.unwrap().left_out, 5);
        // With too many pauses, all rounds are measured.
        let report = joined(&config, LoadResult::default(), &mut samples.clone(), &(0..18).collect());
        assert_eq!((report.window_ns, report.slices.map(|it| (it.rounds, it.left_out))), (256 * MS, Some((15, 17))));
    }

    #[test]
    fn requests_beyond_the_next_guard_are_overruns() {
        let (config, mut samples) = (config(), samples(&config()));
        let last_of_slice = samples[9].planned_ns;
        // The slice ends 1 ms after the last request; the guard of the next slice, 3 ms after it.
        samples[9].complete_ns = last_of_slice + 2_900_000;
        let of = |samples: &[Sample]| joined(&config, LoadResult::default(), &mut samples.to_vec(), &BTreeSet::new());
        assert_eq!(of(&samples).slices.unwrap().overrun, 0);
        samples[9].complete_ns = last_of_slice + 3_100_000;
        assert_eq!(of(&samples).slices.unwrap().overrun, 1);
        samples[9].complete_ns = Sample::NEVER;
        assert_eq!((of(&samples).slices.unwrap().overrun, of(&samples).completed), (1, 255));
    }

    #[test]
    fn pauses_of_some_slices_do_not_count_as_an_increase() {
        let config = config();
        // The last two requests of every `period`th slice are answered after its end.
        let of = |period: usize| {
            let mut samples = samples(&config);
            let late = |at: usize| at % 10 >= 8 && (at / 10).is_multiple_of(period);
            for (_, sample) in samples.iter_mut().enumerate().filter(|(at, _)| late(*at)) {
                sample.complete_ns += 3 * MS as i64;
            }
            let report = joined(&config, LoadResult::default(), &mut samples.clone(), &BTreeSet::new());
            (report.outstanding.at_end, report.rate_achieved_per_s.round() as u64)
        };
        assert_eq!((of(3), of(1)), ((0, 1_000), (64, 750)));
    }

    #[test]
    fn report_without_slices_is_unchanged() {
        let config = config().with(|it| it.client.slices = None);
        let report = LoadResult { planned: 7, ..LoadResult::default() };
        assert_eq!(joined(&config, report, &mut [], &BTreeSet::new()).planned, 7);
    }
}
