use proptest::prelude::*;

use super::*;
use crate::config::{Loop, Pace, Phases, RateProfile, Segment, Shape, Think};

fn phases(ramp_ms: u64, hold_ms: u64, measure_ms: u64) -> Phases {
    let ns = |ms| ms * 1_000_000;
    Phases { ramp_ns: ns(ramp_ms), warm_up_ns: ns(hold_ms), measure_ns: ns(measure_ms), cool_down_ns: 0 }
}

fn config(schedule: Schedule, rate_per_s: f64, phases: Phases) -> LoadConfig {
    LoadConfig::small(([127, 0, 0, 1], 0))
        .with(|it| (it.the_loop, it.phases) = (Loop::open(Pace::new(schedule, rate_per_s)), phases))
}

fn active(share: f64) -> impl FnOnce(&mut LoadConfig) {
    move |it| it.requests_mut().unwrap().active = share
}

fn profiled(profile: RateProfile) -> impl FnOnce(&mut LoadConfig) {
    move |it| it.pace_mut().unwrap().rate_profile = Some(profile)
}

fn all(config: &LoadConfig, connections: u32, client: u32) -> Vec<Planned> {
    planned(config, connections, client).collect()
}

proptest! {
    #[test]
    fn each_slot_holds_one_request(
        rate in 1.0f64..20_000.0, ramp in 0u64..2_000, hold in 0u64..500, measure in 1u64..1_000, seed: u64,
    ) {
        for schedule in
            [Schedule::SlotRandom, Schedule::Constant, Schedule::ConstantDrawn, Schedule::ConstantTogether]
        {
            let config = config(schedule, rate, phases(ramp, hold, measure)).with(|it| it.client.seed = seed);
            let all = all(&config, 7, 0);
            prop_assert_eq!(all.len() as u64, count_max(&config));
            let slots = Slots::new(&config);
            for (slot, request) in all.iter().enumerate() {
                let (start, end) = (slots.time_ns(slot as f64), slots.time_ns((slot + 1) as f64));
                prop_assert!(start <= request.at_ns && request.at_ns <= end, "{slot}: {start}..{end}: {request:?}");
                prop_assert!(request.connection < 7);
            }
            let expected = rate * (hold + measure) as f64 / 1e3;
            let level = all.len() as u64 - slots.integral.requests(config.phases.ramp_ns as f64).round() as u64;
            prop_assert!((level as f64 - expected).abs() <= 0.5 + 1e-6, "{level} after the ramp, not {expected}");
        }
    }

    #[test]
    fn slots_of_the_ramp_shorten(rate in 100.0f64..20_000.0, ramp in 100u64..5_000) {
        let slots = Slots::new(&config(Schedule::Constant, rate, phases(ramp, 0, 1)));
        let requests = slots.integral.requests(ramp as f64 * 1e6).round() as u64;
        let starts: Vec<_> = (0..requests).map(|slot| slots.time_ns(slot as f64)).collect();
        let lengths: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        prop_assert!(lengths.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6)));
        if let Some(last) = lengths.last() {
            prop_assert!(*last >= 1e9 / rate * 0.999);
        }
    }

    #[test]
    fn poisson_process_is_ordered_and_fits_its_memory(
        rate in 1.0f64..20_000.0, ramp in 0u64..500, measure in 1u64..500, seed: u64,
    ) {
        let config = config(Schedule::Poisson, rate, phases(ramp, 0, measure)).with(|it| it.client.seed = seed);
        let all = all(&config, 7, 0);
        prop_assert!(all.len() as u64 <= count_max(&config));
        prop_assert!(all.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }

    #[test]
    fn only_the_active_share_is_used(connections in 1u32..500, n in 1u32..100, seed: u64) {
        let share = 1.0 / f64::from(n);
        let config = config(Schedule::SlotRandom, 20_000.0, phases(0, 0, 500))
            .with(active(share))
            .with(|it| (it.client.seed, it.connections) = (seed, connections));
        let mut used: Vec<u32> = all(&config, connections, 0).iter().map(|request| request.connection).collect();
        used.sort_unstable();
        used.dedup();
        let expected = active_count(share, connections);
        prop_assert!(used.len() as u32 <= expected && used.iter().all(|&connection| connection < connections));
        // With at least twenty requests per active connection, each is chosen.
        if expected * 20 <= 10_000 {
            prop_assert_eq!(used.len() as u32, expected);
        }
    }
}

/// Rates of 2 000/s on average: a pause, a ramp up, a spike, waves.
fn profile() -> RateProfile {
    let segment = |ms: u64, shape| Segment { length_ns: ms * 1_000_000, shape };
    let segments = vec![
        segment(2_000, Shape::Hold { per_s: 1_000.0 }),
        segment(1_000, Shape::Hold { per_s: 0.0 }),
        segment(3_000, Shape::Ramp { from_per_s: 0.0, to_per_s: 4_000.0 }),
        segment(500, Shape::Ramp { from_per_s: 4_000.0, to_per_s: 500.0 }),
        segment(3_500, Shape::Sine { low_per_s: 500.0, high_per_s: 5_000.0, period_ns: 1_000_000_000 }),
    ];
    RateProfile { segments }.with_mean(2_000.0)
}

/// The largest difference between the cumulative shares of ascending times in the window and of the profile's requests.
fn distance(times_ns: &[f64], window_start_ns: f64, profile: &RateProfile) -> f64 {
    let (integral, count) = (profile.integral(), times_ns.len() as f64);
    let differences = times_ns.iter().enumerate().map(|(before, at_ns)| {
        let share = integral.requests(at_ns - window_start_ns) / integral.total();
        (share - before as f64 / count).abs().max((share - (before + 1) as f64 / count).abs())
    });
    differences.fold(0.0, f64::max)
}

#[test]
fn requests_follow_the_profile() {
    let profile = profile();
    assert_eq!(profile.length_ns(), 10_000_000_000);
    for (schedule, limit) in [
        // One request in 20 000.
        (Schedule::Constant, 2.0 / 20_000.0),
        (Schedule::SlotRandom, 2.0 / 20_000.0),
        // The Kolmogorov-Smirnov test's distance at p = 0.001.
        (Schedule::Poisson, 1.95 / f64::sqrt(20_000.0)),
    ] {
        for clients in [1, 3] {
            let config = config(schedule, 2_000.0, phases(500, 500, 10_000))
                .with(profiled(profile.clone()))
                .with(|it| it.client.clients = clients);
            let clients: Vec<Vec<Planned>> = (0..clients).map(|client| all(&config, 7, client)).collect();
            assert!(clients.iter().all(|all| all.is_sorted_by(|a, b| a.at_ns <= b.at_ns)));
            assert!(clients.iter().all(|all| all.len() as u64 <= count_max(&config)));
            let mut times: Vec<f64> = clients.iter().flatten().map(|it| it.at_ns).filter(|&ns| ns >= 1e9).collect();
            times.sort_unstable_by(f64::total_cmp);
            let distance = distance(&times, 1e9, &profile);
            let limit = limit * clients.len() as f64;
            assert!(distance <= limit, "{schedule:?} of {} clients: {distance} exceeds {limit}", clients.len());
            let is_in_pause = |ns: &f64| (3.000_001e9..3.999_999e9).contains(ns);
            assert!(!times.iter().any(is_in_pause));
            let before = clients.iter().flatten().filter(|it| (5e8..1e9).contains(&it.at_ns)).count();
            let expected = profile.first_per_s() / 2.0;
            assert!((before as f64 - expected).abs() < 5.0 * expected.sqrt(), "{before}, expected {expected}");
        }
    }
}

#[test]
fn slices_of_a_profile_join_to_the_profile() {
    let slices = Slices {
        heat: 0,
        contestants: 3,
        contestant: 1,
        slice_ns: 10_000_000,
        gap_ns: 0,
        guard_ns: 1_000_000,
        seed: 7,
    };
    let whole = config(Schedule::Poisson, 2_000.0, phases(0, 0, 10_000)).with(profiled(profile()));
    let divided = whole.clone().with(|it| it.client.slices = Some(slices));
    let (whole, divided) = (all(&whole, 7, 0), all(&divided, 7, 0));
    assert_eq!(whole.len(), divided.len());
    for (whole, divided) in whole.iter().zip(&divided) {
        let (round, within) = ((whole.at_ns / 1e7) as u64, whole.at_ns % 1e7);
        assert!((slices.start_ns(round) as f64 + within - divided.at_ns).abs() < 1.0, "{whole:?}: {divided:?}");
    }
}

#[test]
fn profile_with_a_pause_at_the_start_has_no_ramp() {
    let segments = vec![Segment::hold(0.0, 1_000_000_000), Segment::hold(100.0, 1_000_000_000)];
    let config = config(Schedule::SlotRandom, 50.0, phases(500, 500, 2_000)).with(profiled(RateProfile { segments }));
    let all = all(&config, 7, 0);
    assert_eq!((all.len(), all.iter().filter(|it| it.at_ns < 2e9).count()), (100, 0));
}

#[test]
fn poisson_gaps_are_exponential() {
    let config = config(Schedule::Poisson, 1_000.0, phases(0, 0, 100_000));
    let gaps: Vec<f64> = all(&config, 1, 0).windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
    // P(gap > k * mean) = e^-k.
    for k in [0.5, 1.0, 2.0] {
        let share = gaps.iter().filter(|&&gap| gap > k * 1e6).count() as f64 / gaps.len() as f64;
        assert!((share - f64::exp(-k)).abs() < 0.01, "{k}: {share}");
    }
}

#[test]
fn constant_clients_take_turns() {
    let config =
        config(Schedule::Constant, 4_000.0, phases(0, 0, 10)).with(|it| (it.client.clients, it.connections) = (4, 4));
    let mut times: Vec<f64> = (0..4).flat_map(|client| all(&config, 1, client)).map(|p| p.at_ns).collect();
    times.sort_unstable_by(f64::total_cmp);
    assert_eq!(times.len(), 40);
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0] - 250_000.0).abs() < 1e-3), "{times:?}");
}

#[test]
fn constant_clients_start_together_or_at_drawn_offsets() {
    let config = |schedule, seed| {
        config(schedule, 5_000.0, phases(0, 0, 100))
            .with(|it| (it.client.clients, it.connections, it.client.seed) = (5, 5, seed))
    };
    let firsts = |schedule, seed| -> Vec<f64> {
        let of = |client| all(&config(schedule, seed), 1, client);
        // Sends are one interval apart.
        let is_even =
            |all: &[Planned]| all.windows(2).all(|pair| (pair[1].at_ns - pair[0].at_ns - 1_000_000.0).abs() < 1e-3);
        assert!((0..5).all(|client| is_even(&of(client))));
        (0..5).map(|client| of(client)[0].at_ns).collect()
    };
    assert_eq!(firsts(Schedule::ConstantTogether, 1), [0.0; 5]);
    let drawn = firsts(Schedule::ConstantDrawn, 1);
    assert!(drawn.iter().all(|at_ns| (0.0..1_000_000.0).contains(at_ns)), "{drawn:?}");
    assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
    assert_eq!(drawn, firsts(Schedule::ConstantDrawn, 1));
    assert_ne!(drawn, firsts(Schedule::ConstantDrawn, 2), "another seed gives other offsets");
}

#[test]
fn clients_share_the_active_connections() {
    let config = config(Schedule::Constant, 4_000.0, phases(0, 0, 1_000))
        .with(active(1.0 / 64.0))
        .with(|it| (it.client.clients, it.connections) = (4, 400));
    let used = |client| {
        let mut used: Vec<u32> = all(&config, 100, client).iter().map(|request| request.connection).collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    };
    assert_eq!((0..4).map(used).sum::<usize>(), 6, "a 64th of 400 connections");
}

#[test]
fn zipf_shares_fall_with_the_rank() {
    let popularity = Popularity::Zipf { exponent: 1.0 };
    let config = config(Schedule::Constant, 100_000.0, phases(0, 0, 1_000))
        .with(|it| it.requests_mut().unwrap().popularity = popularity);
    let mut counts = [0u32; 10];
    all(&config, 10, 0).iter().for_each(|request| counts[request.connection as usize] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // The tenth harmonic number is 2.929.
    for (rank, count) in counts.into_iter().enumerate() {
        let expected = 100_000.0 / 2.929 / (rank + 1) as f64;
        assert!((f64::from(count) / expected - 1.0).abs() < 0.05, "rank {rank}: {count}, not {expected}");
    }
}

#[test]
fn zipf_exponent_near_one_draws_as_one() {
    let draws = |count: u32, exponent| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut chooser = Chooser::new(count, Popularity::Zipf { exponent }, count, &mut random);
        // The seed also draws the most popular connection.
        let first = chooser.active[0];
        (0..5_000).filter(|_| chooser.next(&mut random) == first).count() as f64
    };
    for count in [2, 4, 10, 1_000] {
        let expected = draws(count, 1.0);
        for power in 20..54 {
            let near = 0.5f64.powi(power);
            for exponent in [1.0 - near, 1.0 + near] {
                let drawn = draws(count, exponent);
                assert!(
                    (drawn / expected - 1.0).abs() < 0.1,
                    "{count} connections, exponent {exponent}: {drawn}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn extreme_zipf_exponent_draws_existing_connections() {
    for exponent in [f64::MIN_POSITIVE, 1e-9, 50.0, 1e17, f64::MAX] {
        for count in [1, 2, 1_000] {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
            let mut chooser = Chooser::new(count, Popularity::Zipf { exponent }, count, &mut random);
            assert!((0..1_000).all(|_| chooser.next(&mut random) < count));
        }
    }
}

#[test]
fn huge_rate_saturates_the_count() {
    for schedule in [Schedule::SlotRandom, Schedule::Constant, Schedule::Poisson] {
        let config = config(schedule, f64::MAX, phases(1_000, 1_000, 1_000)).with(|it| it.client.clients = 2);
        assert_eq!(count_max(&config), u64::MAX);
    }
}

#[test]
fn same_seed_gives_same_requests() {
    let base = config(Schedule::SlotRandom, 1_000.0, phases(100, 0, 500)).with(|it| it.client.clients = 2);
    let all = |seed, client| all(&base.clone().with(|it| it.client.seed = seed), 50, client);
    assert_eq!(all(1, 0), all(1, 0));
    assert_ne!(all(1, 0), all(2, 0));
    assert_ne!(all(1, 1), all(1, 0));
    assert_ne!(all(1, 1), all(2, 0));
}

#[test]
fn closed_loop_memory_is_bounded_and_divided() {
    let closed = |measure_ms, pipeline| {
        let the_loop = Loop::Closed { think: Think::default(), pipeline };
        config(Schedule::Constant, 1.0, phases(0, 0, measure_ms))
            .with(|it| (it.client.clients, it.the_loop) = (3, the_loop))
    };
    assert_eq!(count_max(&closed(3_000, 1)), 500_000);
    assert_eq!(count_max(&closed(3_000, 16)), CLOSED_COUNT_MAX / 3);
    assert_eq!(count_max(&closed(3_000, 2)), 1_000_000);
    assert_eq!(count_max(&closed(3_600_000, 1)), CLOSED_COUNT_MAX / 3);
}
