//! Measures how often intervals, families and repeated looks err, and prints tables. Takes some minutes; build it with
//! `--release`.

#[path = "../tests/simulate/mod.rs"]
mod simulate;

use simulate::{Noise, Simulation};

fn main() {
    let mut simulation = Simulation::new(1);
    let noises = [(0.0, 0.0), (0.5, 0.0), (0.0, 1.5), (0.3, 2.0), (0.5, 3.0)]
        .map(|(rho, heat_effect)| Noise { rho, heat_effect });
    println!("Share of 95 % intervals that hold the true ratio, and the true added time\n");
    println!(
        "| correlation of parts, heat effect | 3 heats | 6 heats | 12 heats | two groups of 6 heats |\n|---|---|---|---|---|"
    );
    for noise in noises {
        let mut share = |heats| {
            let [ratio, added] = simulation.coverage_of_pairs(20_000, heats, noise);
            format!("{ratio:.3}, {added:.3}")
        };
        let shares = [3, 6, 12].map(&mut share).join(" | ");
        let groups = simulation.coverage_of_groups(20_000, 6, noise);
        println!("| {}, {} | {shares} | {groups:.3} |", noise.rho, noise.heat_effect);
    }
    println!("\nSeparate repeats\n\n| repeats | standard deviations | ratio | one figure |\n|---|---|---|---|");
    for (repeats, sigmas) in
        [([3, 3], [1, 1]), ([5, 5], [1, 1]), ([3, 10], [1, 1]), ([3, 3], [1, 3]), ([10, 3], [3, 1])]
    {
        let (ratio, estimate) =
            simulation.coverage_of_repeats(20_000, repeats, sigmas.map(|sigma| f64::from(sigma) * 0.02));
        println!("| {repeats:?} | {sigmas:?} | {ratio:.3} | {estimate:.3} |");
    }
    println!("\nShare of comparisons of equal servers with any significant difference\n");
    println!("| contestants | 3 heats | 6 heats |\n|---|---|---|");
    for contestants in [3, 5, 10, 20] {
        let share = |heats| format!("{:.3}", simulation.false_families(5_000, contestants, heats, noises[3]));
        println!("| {contestants} | {} |", [3, 6].map(share).join(" | "));
    }
    println!("\nShare of joint intervals of equal peaks that miss 1 (other cells equal, and 5 % lower)\n");
    println!("| cells on each side | 3 repeats | 5 repeats |\n|---|---|---|");
    for cells in [1, 8] {
        let share = |repeats| {
            let [equal, lower] = [0.0, 0.05].map(|below| simulation.false_peaks(5_000, cells, repeats, below));
            format!("{equal:.3}, {lower:.3}")
        };
        println!("| {cells} | {} |", [3, 5].map(share).join(" | "));
    }
    println!(
        "\nShare of 2 000 series of six equal servers with a false decision of any pair, at up to 20 looks, and of reports with a"
    );
    println!("significant difference after looks until all pairs are decided with a margin of 2 %\n");
    println!(
        "| correlation, heat effect | false separation | false equality at a margin of 1 % | false report | mean number of looks |"
    );
    println!("|---|---|---|---|---|");
    for noise in noises {
        let (separations, equalities) = simulation.false_decisions(2_000, 20, noise, 0.01);
        let (reports, looks) = simulation.false_reports(2_000, noise, 0.02, 60);
        println!(
            "| {}, {} | {separations:.4} | {equalities:.4} | {reports:.4} | {looks:.1} |",
            noise.rho, noise.heat_effect
        );
    }
    println!(
        "\nShare of 2 000 gates with recorded noise that end with an alarm (and that pass), by slowdown in tolerances\n"
    );
    println!("| slower figure | 0 | 0.5 | 1 | 1.5 | 2 |\n|---|---|---|---|---|---|");
    for figure in ["p50", "p90", "cpu"] {
        let shares = [0.0, 0.5, 1.0, 1.5, 2.0].map(|times| {
            let shares = simulation.gates(2_000, figure, times);
            format!("{:.3} ({:.3})", shares.alarms, shares.passes)
        });
        println!("| {figure} | {} |", shares.join(" | "));
    }
}
