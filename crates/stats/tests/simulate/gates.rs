//! Simulated gates with recorded noise.

use muxbench_stats::excess::{Excess, ExcessLooks, looks};
use rand::RngExt;

use super::Simulation;

/// Logarithms of the ratios of equal builds, one for each repeat, in a line for each figure. `cargo xtask bench gate --record`
/// wrote them on two CPUs of a shared virtual machine.
const NOISE: &str = include_str!("../gate-noise.txt");

/// The repeats that fit into the default budget of a gate.
const REPEATS: u32 = 20;

/// The default limits of `muxbench gate`, as logarithms. Equal builds have equal rates, memory and errors, whose limits matter only
/// because all figures divide the error.
const FIGURES: [(&str, f64); 6] =
    [("p50", 0.025), ("p90", 0.35), ("cpu", 0.1), ("rate", 0.05), ("memory", 0.1), ("errors", 0.001)];

/// The shares of gates that end with an alarm, and that pass.
#[derive(Debug)]
pub struct Shares {
    pub alarms: f64,
    pub passes: f64,
}

impl Simulation {
    /// Simulates gates whose new build is slower in one figure by a multiple of its tolerance.
    pub fn gates(&mut self, cases: u32, slower: &str, times: f64) -> Shares {
        let noise = FIGURES.map(|(name, _)| noise(name));
        let mut passes = 0.0;
        let alarms = self.share(cases, |it| {
            let added =
                FIGURES.map(|(name, tolerance)| if name == slower { (1.0 + times * tolerance).ln() } else { 0.0 });
            let mut series = ExcessLooks::new(FIGURES.map(|(_, tolerance)| tolerance.ln_1p()).to_vec());
            let mut differences = vec![Vec::new(); FIGURES.len()];
            let (mut looks, mut next) = (looks(), None);
            for repeat in 1..=REPEATS {
                for (figure, values) in differences.iter_mut().enumerate() {
                    values.push(added[figure] + it.draw(&noise[figure]));
                }
                let due = *next.get_or_insert_with(|| looks.next().unwrap());
                if repeat == due || repeat == REPEATS {
                    next = None;
                    let found = series.look(&differences);
                    if found.contains(&Excess::Beyond) {
                        return true;
                    }
                    if found.iter().all(|it| *it == Excess::Within) {
                        passes += 1.0 / f64::from(cases);
                        return false;
                    }
                }
            }
            false
        });
        Shares { alarms, passes }
    }

    /// Draws a recorded value. Either of two equal builds may be the new one, so the sign is random.
    fn draw(&mut self, noise: &[f64]) -> f64 {
        let Some(last) = noise.len().checked_sub(1) else { return 0.0 };
        noise[self.0.random_range(0..=last)] * if self.0.random() { 1.0 } else { -1.0 }
    }
}

fn noise(figure: &str) -> Vec<f64> {
    if ["rate", "memory", "errors"].contains(&figure) {
        return Vec::new();
    }
    let line = NOISE.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no noise of {figure}; run `cargo xtask bench gate --record`"));
    line.split(' ').map(|value| value.parse().unwrap()).collect()
}
