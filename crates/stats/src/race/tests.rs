use super::*;

/// Races of servers whose scores have noise, and heats whose speed differs.
struct Simulation {
    random: Xoshiro256PlusPlus,
    /// The standard deviation of the noise of a score, for each contestant.
    noise: Vec<f64>,
    /// The share of scores that a pause of the host makes worse by 0.3.
    pauses: f64,
}

impl Simulation {
    fn new(seed: u64, noise: Vec<f64>) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), noise, pauses: 0.0 }
    }

    /// Races contestants with these effects in heats of at most `size`, with looks after repeats 2, 3, 4, 6, 9 and 13. Returns the
    /// standings and the last fit.
    fn race(&mut self, effects: &[f64], size: usize) -> (Vec<Standing>, Fit) {
        let mut race = Race::new(effects.len(), MARGIN);
        let mut scores = Vec::new();
        let mut fit = Fit::of(&[], Noise::default());
        let mut heat = 0;
        for repeat in 1..=13 {
            let mut among: Vec<usize> = (0..effects.len()).filter(|&it| race.standings()[it] == Standing::In).collect();
            rand::seq::SliceRandom::shuffle(among.as_mut_slice(), &mut self.random);
            for group in among.chunks(size) {
                let speed = 0.05 * normal(&mut self.random);
                for &contestant in group {
                    let pause = if self.random.random::<f64>() < self.pauses { 0.3 } else { 0.0 };
                    let noise = self.noise[contestant] * normal(&mut self.random) + pause;
                    scores.push(Score { contestant, heat, value: effects[contestant] + speed + noise });
                }
                heat += 1;
            }
            if [2, 3, 4, 6, 9, 13].contains(&repeat) {
                fit = Fit::of(&scores, Noise::default());
                race.look(&fit, &[]);
            }
        }
        (race.standings().to_vec(), fit)
    }
}

fn survivors(standings: &[Standing]) -> Vec<usize> {
    (0..standings.len()).filter(|&it| standings[it] == Standing::In).collect()
}

const CASES: usize = 200;
/// The margin of `muxbench advise`.
const MARGIN: f64 = 0.02;

/// 27 servers, of which one is better than all others by 7 % or more.
fn spread_out() -> Vec<f64> {
    (0..27).map(|at| if at == 8 { 0.0 } else { 0.07 + 0.04 * f64::from(at) }).collect()
}

#[test]
fn known_best_of_many_wins_its_races() {
    let mut simulation = Simulation::new(1, vec![0.015; 27]);
    let won = (0..CASES).filter(|_| survivors(&simulation.race(&spread_out(), 12).0) == [8]).count();
    assert!(won * 100 >= 95 * CASES, "{won} of {CASES}");
}

#[test]
fn best_contestant_is_rarely_eliminated() {
    // The worst case: all others are better by exactly the margin.
    for (seed, noise, pauses) in [(2, vec![0.02; 12], 0.0), (3, vec![0.02; 12], 0.05), (4, vec![0.05; 3], 0.0)] {
        let mut effects = vec![-MARGIN; noise.len()];
        effects[0] = 0.0;
        let mut simulation = Simulation { pauses, ..Simulation::new(seed, noise) };
        let wrong = (0..CASES).filter(|_| simulation.race(&effects, 6).0[0] != Standing::In).count();
        assert!(wrong * 100 <= 5 * CASES, "{wrong} of {CASES} with {pauses} pauses");
    }
    // The best is four times as noisy as the others.
    let mut effects = vec![0.03; 10];
    effects[4] = 0.0;
    let mut noise = vec![0.01; 10];
    noise[4] = 0.04;
    let mut simulation = Simulation::new(5, noise);
    let lost = (0..CASES).filter(|_| simulation.race(&effects, 10).0[4] != Standing::In).count();
    assert!(lost * 100 <= 5 * CASES, "{lost} of {CASES}");
}

#[test]
fn equal_contestants_share_the_probability() {
    let mut simulation = Simulation::new(6, vec![0.02; 3]);
    let mut sums = vec![0.0; 3];
    for _ in 0..CASES {
        let (_, fit) = simulation.race(&[0.0, 0.0, 0.2], 3);
        let probabilities = fit.probabilities(&[0, 1, 2], 0.0).unwrap();
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9 && probabilities[2] < 0.01);
        let within = fit.probabilities(&[0, 1, 2], 0.1).unwrap();
        assert!(
            within[0] > 0.9 && within[1] > 0.9 && within[2] < 0.1,
            "those equal within a margin are all best: {within:?}"
        );
        sums.iter_mut().zip(probabilities).for_each(|(sum, it)| *sum += it / CASES as f64);
    }
    assert!((0.42..0.58).contains(&sums[0]), "{sums:?}");
}

#[test]
fn probability_to_be_best_is_calibrated() {
    // The leader's mean probability is the share of races in which the leader is the best.
    let mut simulation = Simulation::new(7, vec![0.03; 4]);
    let (mut right, mut sum) = (0.0, 0.0);
    for _ in 0..CASES {
        let effects: Vec<f64> = (0..4).map(|_| 0.015 * normal(&mut simulation.random)).collect();
        let fit = simulation.race(&effects, 4).1;
        let lowest = |values: &[f64]| (0..4).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
        let leader = lowest(&(0..4).map(|it| fit.effect(it).unwrap()).collect::<Vec<_>>());
        right += f64::from(u8::from(leader == lowest(&effects))) / CASES as f64;
        sum += fit.probabilities(&[0, 1, 2, 3], 0.0).unwrap()[leader] / CASES as f64;
    }
    assert!((right - sum).abs() < 0.1, "{right} {sum}");
}

fn scores(heats: &[&[(usize, f64)]]) -> Vec<Score> {
    let heat = |(heat, scores): (u32, &&[(usize, f64)])| -> Vec<Score> {
        scores.iter().map(|&(contestant, value)| Score { contestant, heat, value }).collect()
    };
    (0..).zip(heats).flat_map(heat).collect()
}

#[test]
fn effects_are_those_of_a_balanced_layout() {
    let fit = Fit::of(&scores(&[&[(0, 1.0), (3, 2.0)], &[(0, 1.2), (3, 2.4)]]), Noise::default());
    let ratio = fit.ratio(3, 0).unwrap();
    // The paired differences are 1.0 and 1.2.
    assert!((ratio.ratio.ln() - 1.1).abs() < 1e-9, "{ratio:?}");
    // Their t interval: 1.1 ± 12.706 * 0.1, apart from the heats' share of the residuals.
    assert!((ratio.interval.unwrap().high.ln() - 1.1 - 1.2706).abs() < 0.2, "{ratio:?}");
    assert!(fit.ratio(1, 0).is_none() && fit.effect(1).is_none() && fit.probabilities(&[0, 1], 0.0).is_none());
    let mean = (fit.effect(0).unwrap(), fit.effect(3).unwrap());
    assert!((mean.0 - 1.1).abs() < 1e-6 && (mean.1 - 2.2).abs() < 1e-6, "{mean:?}");
}

#[test]
fn heats_without_common_contestants_are_compared_widely() {
    let within = Fit::of(&scores(&[&[(0, 1.0), (1, 1.3)], &[(0, 2.0), (1, 2.32)]]), Noise::default());
    let noise = within.noise();
    let across = Fit::of(&scores(&[&[(0, 1.0)], &[(1, 1.3)]]), noise);
    let width = |fit: &Fit| fit.ratio(1, 0).unwrap().interval.map(|it| it.high / it.low).unwrap();
    assert!(width(&across) > 4.0 * width(&within), "{} {}", width(&across), width(&within));
}

#[test]
fn one_repeat_decides_only_with_known_noise() {
    let one = scores(&[&[(0, 1.0), (1, 1.5), (2, 1.51)]]);
    assert!(Fit::of(&one, Noise::default()).ratio(1, 0).unwrap().interval.is_none());
    let known = Fit::of(&one, Noise { squares: 0.02 * 0.02 * 20.0, freedom: 20.0 });
    assert!(known.is_worse(1, 0, 0.0, 0.01) && !known.is_worse(2, 1, 0.0, 0.01) && !known.is_worse(1, 0, 0.6, 0.5));
    let equal = Fit::of(&scores(&[&[(0, 1.0), (1, 1.0)], &[(0, 1.0), (1, 1.0)]]), Noise::default());
    assert!(!equal.is_worse(1, 0, 0.0, 0.05));
}

#[test]
fn worse_contestant_has_an_interval_without_1() {
    let fit = |difference: f64| {
        let one = scores(&[&[(0, 1.0), (1, 1.0 + difference)]]);
        Fit::of(&one, Noise { squares: 0.02 * 0.02 * 20.0, freedom: 20.0 })
    };
    // A one-sided test at 5 % needs 1.72 standard errors of 0.0283; the interval has 2.09 on each side.
    for (difference, is_worse) in [(0.054, false), (0.062, true)] {
        let fit = fit(difference);
        let interval = fit.ratio(1, 0).unwrap().interval.unwrap();
        assert_eq!((fit.is_worse(1, 0, 0.0, 0.05), interval.contains(1.0)), (is_worse, !is_worse), "{interval:?}");
    }
}

#[test]
fn limits_eliminate_and_protect() {
    // Contestant 0 is the best, but is far above the limit; 1 is near the limit; 2 is below it.
    let repeats = |values: [f64; 3]| -> Vec<Score> {
        let value = |at: usize, repeat: u32| values[at] + 0.01 * f64::from((at as u32 * 3 + repeat * 7) % 5);
        (0..4)
            .flat_map(|repeat| (0..3).map(move |at| Score { contestant: at, heat: repeat, value: value(at, repeat) }))
            .collect()
    };
    let fit = |values| Fit::of(&repeats(values), Noise::default());
    let limit = Limit { fit: fit([3.0, 2.0, 1.0]), max: 2.02 };
    let mut race = Race::new(3, 0.0);
    let found = race.look(&fit([0.1, 0.2, 0.3]), std::slice::from_ref(&limit)).to_vec();
    assert_eq!(found, [Standing::Exceeds(0), Standing::In, Standing::In], "only contestants within limits eliminate");
    assert_eq!(race.look(&fit([0.1, 0.4, 0.2]), &[limit])[1..], [Standing::Worse, Standing::In]);
    assert_eq!(race.look(&fit([0.0, 0.0, 0.0]), &[])[0], Standing::Exceeds(0), "standings stay");
}
