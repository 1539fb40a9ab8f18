//! How often the statistics err, with few cases unless the environment has MUXBENCH_EVERY. `examples/error_rates.rs` prints tables.

mod simulate;

use simulate::Simulation;

/// Whether to simulate enough cases for the precise limits.
fn is_every() -> bool {
    std::env::var_os("MUXBENCH_EVERY").is_some()
}

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn intervals_cover_the_truth_in_95_percent_of_cases() {
    let mut simulation = Simulation::new(1);
    // The standard error of few cases is 0.007, that of many 0.0015.
    let (cases, of_blocks, of_repeats) = match is_every() {
        true => (20_000, 0.93..0.97, [0.93..0.97, 0.93..0.97]),
        false => (1_000, 0.91..0.98, [0.92..0.985, 0.92..0.98]),
    };
    for (heats, blocks, rho) in [(1, 8, 0.0), (1, 16, 0.5), (1, 32, 0.3), (2, 32, 0.5), (3, 32, 0.0)] {
        let (share, _) = simulation.coverage_of_pairs(cases, heats, blocks, rho);
        assert!(of_blocks.contains(&share), "{heats} heats of {blocks} blocks, correlation {rho}: {share}");
    }
    let groups = simulation.coverage_of_groups(cases, 32, 0.3);
    assert!(of_blocks.contains(&groups), "{groups}");
    let (ratios, estimates) = simulation.coverage_of_repeats(cases, [3, 5], [0.02, 0.06]);
    assert!(of_repeats[0].contains(&ratios) && of_repeats[1].contains(&estimates), "{ratios}, {estimates}");
}

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn equal_servers_rarely_differ() {
    let mut simulation = Simulation::new(2);
    let (cases_of_families, cases_of_peaks, series) = if is_every() { (5_000, 2_000, 2_000) } else { (500, 300, 40) };
    // 5 %, and 2.2 standard errors.
    let limit = |cases: u32| 0.05 + 2.2 * (0.05 * 0.95 / f64::from(cases)).sqrt();
    let families = simulation.false_families(cases_of_families, 5, 3);
    let peaks = simulation.false_peaks(cases_of_peaks, 8, 3, 0.0);
    assert!(families <= limit(cases_of_families) && peaks <= limit(cases_of_peaks), "{families}, {peaks}");
    let (separations, equalities) = simulation.false_decisions(series, 6, 32, 0.3, 0.01);
    let (reports, _) = simulation.false_reports(series, 32, 0.0, 0.03);
    assert!(
        [separations, equalities, reports].iter().all(|share| *share <= limit(series)),
        "{separations} {equalities} {reports}"
    );
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
