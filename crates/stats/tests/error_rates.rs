//! How often the statistics err, with few cases; `examples/error_rates.rs` measures it precisely.

mod simulate;

use simulate::Simulation;

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn intervals_cover_the_truth_in_95_percent_of_cases() {
    let mut simulation = Simulation::new(1);
    for (heats, blocks, rho) in [(1, 8, 0.0), (1, 16, 0.5), (1, 32, 0.3), (2, 32, 0.5), (3, 32, 0.0)] {
        let (share, _) = simulation.coverage_of_pairs(1_000, heats, blocks, rho);
        // The standard error is 0.007.
        assert!((0.91..0.98).contains(&share), "{heats} heats of {blocks} blocks, correlation {rho}: {share}");
    }
    let groups = simulation.coverage_of_groups(1_000, 32, 0.3);
    assert!((0.91..0.98).contains(&groups), "{groups}");
    let (ratios, estimates) = simulation.coverage_of_repeats(1_000, [3, 5], [0.02, 0.06]);
    assert!((0.92..0.985).contains(&ratios) && (0.92..0.98).contains(&estimates), "{ratios}, {estimates}");
}

#[cfg_attr(miri, ignore = "thousands of simulated runs")]
#[test]
fn equal_servers_rarely_differ() {
    let mut simulation = Simulation::new(2);
    let families = simulation.false_families(500, 5, 3);
    let peaks = simulation.false_peaks(300, 8, 3, 0.0);
    assert!(families < 0.08 && peaks < 0.08, "{families}, {peaks}");
    let series: u32 = if std::env::var_os("MUXBENCH_EVERY").is_some() { 2_000 } else { 40 };
    // 5 %, and 2.2 standard errors.
    let limit = 0.05 + 2.2 * (0.05 * 0.95 / f64::from(series)).sqrt();
    let (separations, equalities) = simulation.false_decisions(series, 6, 32, 0.3, 0.01);
    let (reports, _) = simulation.false_reports(series, 32, 0.0, 0.03);
    assert!(
        [separations, equalities, reports].iter().all(|share| *share <= limit),
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
