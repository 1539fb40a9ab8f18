//! How often the statistics err, with few cases unless the environment has MUXBENCH_EVERY. `examples/error_rates.rs` prints tables.

mod simulate;

use simulate::{Noise, Simulation};

/// Whether to simulate enough cases for the precise limits.
fn is_every() -> bool {
    std::env::var_os("MUXBENCH_EVERY").is_some()
}

/// Heats whose effect is none, or larger than the noise within them; with independent and with correlated parts.
const NOISES: [Noise; 4] = [
    Noise { rho: 0.0, heat_effect: 0.0 },
    Noise { rho: 0.5, heat_effect: 1.5 },
    Noise { rho: 0.3, heat_effect: 2.0 },
    Noise { rho: 0.0, heat_effect: 3.0 },
];

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn intervals_cover_the_truth_in_95_percent_of_cases() {
    let mut simulation = Simulation::new(1);
    // The standard error of few cases is 0.007, that of many 0.0015.
    let (cases, range) = if is_every() { (20_000, 0.94..0.96) } else { (1_000, 0.925..0.975) };
    for noise in NOISES {
        for heats in [3, 6] {
            let shares = simulation.coverage_of_pairs(cases, heats, noise);
            assert!(shares.iter().all(|it| range.contains(it)), "{heats} heats, {}: {shares:?}", noise.heat_effect);
        }
        let groups = simulation.coverage_of_groups(cases, 6, noise);
        assert!(range.contains(&groups), "{groups}");
    }
    let (ratios, estimates) = simulation.coverage_of_repeats(cases, [3, 5], [0.02, 0.06]);
    assert!((0.92..0.985).contains(&ratios) && (0.92..0.98).contains(&estimates), "{ratios}, {estimates}");
}

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn equal_servers_rarely_differ() {
    let mut simulation = Simulation::new(2);
    let (cases_of_families, cases_of_peaks, series) = if is_every() { (5_000, 2_000, 2_000) } else { (500, 300, 100) };
    // 5 %, and 2.2 standard errors.
    let limit = |cases: u32| 0.05 + 2.2 * (0.05 * 0.95 / f64::from(cases)).sqrt();
    let peaks = simulation.false_peaks(cases_of_peaks, 8, 3, 0.0);
    assert!(peaks <= limit(cases_of_peaks), "{peaks}");
    for noise in NOISES {
        let families = simulation.false_families(cases_of_families, 5, 6, noise);
        let (separations, equalities) = simulation.false_decisions(series, 20, noise, 0.01);
        let (reports, _) = simulation.false_reports(series, noise, 0.03, 20);
        assert!(families <= limit(cases_of_families), "{families}");
        assert!(
            [separations, equalities, reports].iter().all(|share| *share <= limit(series)),
            "{separations} {equalities} {reports}"
        );
    }
}

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn gates_rarely_err_with_recorded_noise() {
    let mut simulation = Simulation::new(3);
    let equal = simulation.gates(2_000, "", 0.0);
    assert!(equal.alarms <= 0.05, "{equal:?}");
    for figure in ["p50", "p90", "cpu"] {
        let at_the_limit = simulation.gates(2_000, figure, 1.0);
        assert!(at_the_limit.alarms <= 0.05 && at_the_limit.passes <= 0.05, "{figure}: {at_the_limit:?}");
        let slower = simulation.gates(2_000, figure, 2.0);
        assert!(slower.alarms >= 0.95 && slower.passes <= 0.05, "{figure}: {slower:?}");
    }
}
