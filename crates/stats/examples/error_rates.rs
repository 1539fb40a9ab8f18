//! Measures how often intervals, families and repeated looks err, and prints tables. Takes some minutes; build it with
//! `--release`.

#[path = "../tests/simulate/mod.rs"]
mod simulate;

use simulate::Simulation;

fn main() {
    let mut simulation = Simulation::new(1);
    let heats = [(1, 8), (1, 16), (2, 8), (3, 8), (1, 32), (2, 16), (1, 64), (2, 32), (1, 96), (3, 32)];
    println!("Share of 95 % intervals that hold the true ratio (and their width in standard deviations of a block)\n");
    println!("| heats x blocks | correlation 0 | 0.3 | 0.5 |\n|---|---|---|---|");
    for (heats, blocks) in heats {
        let share = |rho| {
            let (share, width) = simulation.coverage_of_pairs(20_000, heats, blocks, rho);
            format!("{share:.3} ({width:.2})")
        };
        println!("| {heats} x {blocks} | {} |", [0.0, 0.3, 0.5].map(share).join(" | "));
    }
    println!("\nContestants of two groups with a common reference\n");
    println!("| blocks | correlation 0 | 0.3 | 0.5 |\n|---|---|---|---|");
    for blocks in [16, 32, 64] {
        let share = |rho| format!("{:.3}", simulation.coverage_of_groups(20_000, blocks, rho));
        println!("| {blocks} | {} |", [0.0, 0.3, 0.5].map(share).join(" | "));
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
    println!("| contestants | 3 repeats | 5 repeats |\n|---|---|---|");
    for contestants in [3, 5, 10, 20] {
        let share = |repeats| format!("{:.3}", simulation.false_families(5_000, contestants, repeats));
        println!("| {contestants} | {} |", [3, 5].map(share).join(" | "));
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
        "\nShare of 2 000 series of six equal servers whose report has a significant difference, after looks until all pairs"
    );
    println!(
        "are decided with a margin of 2 %\n\n| blocks a look | correlation | false report | mean number of looks |"
    );
    println!("|---|---|---|---|");
    for (blocks, rho) in [(32, 0.0), (32, 0.3), (32, 0.5)] {
        let (share, looks) = simulation.false_reports(2_000, blocks, rho, 0.02);
        println!("| {blocks} | {rho} | {share:.4} | {looks:.1} |");
    }
    println!("\nShare of 2 000 series of six equal servers, up to 12 looks, with a false decision of any pair\n");
    println!(
        "| blocks a look | correlation | false separation | false equality at a margin of 1 % |\n|---|---|---|---|"
    );
    for (blocks, rho) in [(32, 0.0), (32, 0.3), (32, 0.5), (8, 0.0), (8, 0.3)] {
        let (separations, equalities) = simulation.false_decisions(2_000, 12, blocks, rho, 0.01);
        println!("| {blocks} | {rho} | {separations:.4} | {equalities:.4} |");
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
