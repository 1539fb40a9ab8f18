use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::host::Host;
use crate::plan::plan;
use crate::record::{AdviseLimit, AdviseWeight, FigureMap, Workload};
use crate::spec::Experiment;

const SECOND_NS: u64 = 1_000_000_000;
const NAMES: [&str; 4] = ["mt", "epoll", "poll", "select"];

/// A race of these servers, with all changes of the traffic.
fn header(names: &[&str], objective: Figure, limits: &[(Figure, f64)], budget_s: u64) -> RunHeader {
    let text = format!(
        "name = \"x\"\narchitectures = [{}]\n\
         [workload]\nconnections = 20\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000\nsimulated-work = \"cpu=1us\"\n\
         [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"900ms\"\n",
        names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    );
    let (experiment, host) = (Experiment::of(&text), Host::made_up());
    let (plan, contestants, variations) = variations::planned(plan(&experiment, &host).unwrap(), &experiment, &host);
    let goal = AdviseGoal {
        objective: vec![AdviseWeight { figure: objective, weight: 1.0 }],
        limits: limits.iter().map(|&(figure, value)| AdviseLimit { figure, value }).collect(),
        contestants,
        variations,
        time_max_ns: budget_s * SECOND_NS,
        experiment: text,
    };
    RunHeader { strategy: Strategy::Advise(goal), ..RunHeader::made_up(plan) }
}

/// The value of a figure of a server under a workload; `None` if the trial is past saturation.
type Value = fn(&str, Figure, &Workload) -> Option<f64>;

/// Runs the strategy, with noise of 1 % and heats whose speed differs. Returns the heats as names with the workload, and the outcomes.
fn run(header: &RunHeader, value: Value) -> (Vec<(Vec<String>, Workload)>, Vec<TrialOutcome>) {
    let (mut outcomes, mut heats): (Vec<TrialOutcome>, Vec<_>) = Default::default();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    while let heat @ [_, ..] = crate::strategy::first_heat(header.strategy.due(header, &outcomes)).as_slice() {
        let speed = random.random_range(0.9..1.1);
        let contestants = heat.len() as u32;
        heats.push((heat.iter().map(|it| it.architecture.to_string()).collect(), heat[0].workload.clone()));
        for trial in heat {
            assert!(outcomes.iter().all(|outcome| outcome.index != trial.index), "indices are unique");
            let (name, noise) = (trial.architecture.to_string(), random.random_range(0.99..1.01));
            let values = FigureMap::of(|figure| Some(value(&name, figure, &trial.workload)? * speed * noise));
            outcomes.push(TrialOutcome {
                index: trial.index,
                elapsed_ns: u64::from(contestants) * SECOND_NS,
                is_past: values[Figure::P50].is_none(),
                contestants,
                heat: crate::record::figures::heat(trial),
                values,
                is_alone: trial.client.slices.is_none(),
                is_separated: trial.client.slices.is_none(),
                ..Default::default()
            });
        }
        assert!(heats.len() < 1_000, "the race ends");
    }
    (heats, outcomes)
}

fn apart(name: &str, _: Figure, _: &Workload) -> Option<f64> {
    Some(100.0 + 20.0 * NAMES.iter().position(|it| *it == name).unwrap() as f64)
}

#[test]
fn repeats_lose_contestants_until_the_best_is_left() {
    let header = header(&NAMES, Figure::P50, &[], 1_000);
    let (heats, outcomes) = run(&header, apart);
    let advice = advice(&header, &outcomes).unwrap();
    assert_eq!(heats[0].0.len(), 4, "the first repeat runs all");
    assert!(advice.is_ended && advice.repeats <= 4, "{} repeats", advice.repeats);
    assert_eq!(advice.out, [None, Some(Out::Worse), Some(Out::Worse), Some(Out::Worse)]);
    let choice = advice.choice.as_ref().unwrap();
    assert_eq!((choice.winner, choice.tie_break, choice.others.as_slice()), (0, None, &[1, 2, 3][..]));
    assert_eq!(choice.probability(), Some(1.0));
    let ratio = advice.ratio(1, 0).unwrap();
    assert!((ratio.ratio - 1.2).abs() < 0.03, "{ratio:?}");
    assert!((advice.value(Figure::P50, 2).unwrap() / 140.0 - 1.0).abs() < 0.1);
    assert!(advice.variations.iter().all(|it| it.change == Change::Stays || it.name.starts_with("rate")));
}

#[test]
fn equal_servers_tie_and_cost_or_order_decides() {
    let cases: [(Figure, Value, &str, TieBreak); 4] = [
        (
            Figure::P50,
            |name, figure, _| Some(if figure == Figure::Cpu && name == "poll" { 50.0 } else { 100.0 }),
            "poll",
            TieBreak::Figure(Figure::Cpu),
        ),
        (
            Figure::Cpu,
            |name, figure, _| Some(if figure == Figure::Memory && name == "mt" { 1e6 } else { 2e6 }),
            "mt",
            TieBreak::Figure(Figure::Memory),
        ),
        (Figure::P50, |_, _, _| Some(100.0), "mt", TieBreak::Order(Some(Figure::Cpu))),
        (
            Figure::P50,
            |name, figure, _| (figure != Figure::Cpu || name != "poll").then_some(100.0),
            "mt",
            TieBreak::Order(None),
        ),
    ];
    for (objective, value, winner, tie_break) in cases {
        let header = header(&["select", "poll", "mt"], objective, &[], 60);
        let (_, outcomes) = run(&header, value);
        let advice = advice(&header, &outcomes).unwrap();
        let choice = advice.choice.unwrap();
        assert_eq!(advice.contestants[choice.winner].architecture.to_string(), winner);
        assert_eq!((choice.tied.len(), choice.tie_break), (3, Some(tie_break)));
    }
}

#[test]
fn winner_of_a_tie_is_about_as_probable_as_any() {
    let header = header(&["mt", "epoll"], Figure::P50, &[], 1);
    let (_, outcomes) = run(&header, |_, _, _| Some(100.0));
    // epoll is 9 % slower as measured, with noise that does not exclude equality, and costs half.
    let (differences, mut outcomes) = ([0.05, 0.09, 0.13], outcomes);
    for (at, outcome) in outcomes.iter_mut().enumerate() {
        let is_mt = outcome.index.is_multiple_of(header.trials.len() as u32);
        let time = 100.0 * f64::exp(if is_mt { 0.0 } else { differences[at / 2] });
        outcome.values = FigureMap::of(|figure| Some(if figure == Figure::Cpu && !is_mt { 50.0 } else { time }));
    }
    let choice = advice(&header, &outcomes).unwrap().choice.unwrap();
    assert_eq!((choice.winner, choice.tied.len(), choice.tie_break), (0, 2, Some(TieBreak::Probability)));
    let all = choice.probabilities.as_ref().unwrap();
    assert!(all.iter().all(|(_, it)| *it <= choice.probability().unwrap()), "{all:?}");
}

#[test]
fn winner_has_only_intervals_without_1() {
    let header = header(&["mt", "epoll"], Figure::P50, &[], 1);
    let (_, outcomes) = run(&header, |_, _, _| Some(100.0));
    assert_eq!(outcomes.len(), 6);
    // The differences of three repeats: 3.9 standard errors, where the interval has 4.3 on each side; then 7.4.
    for (differences, is_tie) in [([0.05, 0.09, 0.13], true), ([0.023, 0.030, 0.037], false)] {
        let mut outcomes = outcomes.clone();
        for (at, outcome) in outcomes.iter_mut().enumerate() {
            let is_mt = outcome.index.is_multiple_of(header.trials.len() as u32);
            let difference = if is_mt { 0.0 } else { differences[at / 2] };
            outcome.values = FigureMap::of(|_| Some(100.0 * f64::exp(difference)));
        }
        let advice = advice(&header, &outcomes).unwrap();
        let interval = advice.ratio(1, 0).unwrap().interval.unwrap();
        assert_eq!(advice.out, [None, None]);
        let tied = advice.choice.unwrap().tied.len();
        assert_eq!((tied > 1, interval.contains(1.0)), (is_tie, is_tie), "{interval:?}");
    }
}

#[test]
fn changed_traffic_flips_the_answer() {
    let header = header(&NAMES, Figure::P50, &[], 1_000);
    let (heats, outcomes) = run(&header, |name, figure, workload| {
        let many = workload.connections >= 40;
        match (name, figure) {
            (_, Figure::Rate) => Some(5_000.0),
            ("mt", _) if workload.rate_per_s().is_some_and(|rate| rate > 1_000.0) => None,
            ("mt", _) => Some(if many { 300.0 } else { 100.0 }),
            _ => apart(name, figure, workload),
        }
    });
    let advice = advice(&header, &outcomes).unwrap();
    let change = |name: &str| &advice.variations.iter().find(|it| it.name == name).unwrap().change;
    assert_eq!(advice.choice.as_ref().unwrap().winner, 0);
    for name in ["connections x2", "connections x5"] {
        let Change::Flips { to: 1, ratio: Some(ratio) } = change(name) else { panic!("{:?}", change(name)) };
        assert!((ratio.ratio - 2.5).abs() < 0.2, "{ratio:?}");
    }
    assert_eq!(change("active share / 4"), &Change::Stays);
    assert_eq!(change("work x10"), &Change::Stays);
    assert_eq!(change("rate 0.8 of capacity"), &Change::Flips { to: 1, ratio: None }, "the winner cannot keep up");
    let rates: BTreeSet<Option<u64>> = heats.iter().map(|(_, it)| it.rate_per_s().map(|it| it as u64)).collect();
    assert!(rates.contains(&None) && rates.len() == 3, "{rates:?}");
    let rate = advice.variations.iter().find(|it| it.name.starts_with("rate")).unwrap();
    assert!(rate.about.ends_with("requests/s") && (rate.capacity_per_s.unwrap() / 5_000.0 - 1.0).abs() < 0.12);
}

#[test]
fn limits_and_saturation_exclude_contestants() {
    // mt is the cheapest, but slow; epoll cannot keep up.
    let header = header(&NAMES, Figure::Cpu, &[(Figure::P99, 200.0)], 300);
    let (_, outcomes) = run(&header, |name, figure, workload| match (name, figure) {
        ("epoll", _) => None,
        ("mt", Figure::P99) => Some(900.0),
        (_, Figure::P99) => Some(90.0),
        _ => apart(name, figure, workload),
    });
    let advice = advice(&header, &outcomes).unwrap();
    assert_eq!(advice.out[..2], [Some(Out::Exceeds(Figure::P99)), Some(Out::CannotKeepUp)]);
    assert_eq!(advice.contestants[advice.choice.unwrap().winner].architecture.to_string(), "poll");
    // Only poll has values, because the client disturbed the others.
    let (_, mut outcomes) = run(&header, apart);
    outcomes.iter_mut().filter(|it| it.index % 4 != 2).for_each(|it| it.values = FigureMap::default());
    let advice = super::advice(&header, &outcomes).unwrap();
    assert!(advice.out[0].is_none() && advice.choice.is_none(), "a contestant alone wins nothing");
    let (_, outcomes) = run(&header, |_, _, _| None);
    let advice = super::advice(&header, &outcomes).unwrap();
    assert!(advice.is_ended && advice.choice.is_none() && outcomes.len() == 8, "two repeats show that none keeps up");
}

#[test]
fn budget_ends_the_race_after_three_repeats() {
    let header = header(&NAMES, Figure::P50, &[], 1);
    let (_, outcomes) = run(&header, |_, _, _| Some(100.0));
    let advice = advice(&header, &outcomes).unwrap();
    assert_eq!((outcomes.len(), advice.repeats, advice.choice.unwrap().tied.len()), (12, 3, 4));
    assert!(advice.variations.iter().all(|it| matches!(it.change, Change::NotMeasured(_))));
}

#[test]
fn separate_contestants_race_and_failed_ones_run_again() {
    let header = header(&["spin", "mt", "epoll"], Figure::P50, &[], 60);
    let heats = |outcomes: &[TrialOutcome]| {
        let of = |heat: &[Trial]| {
            let names = heat.iter().map(|it| it.architecture.to_string()).collect::<BTreeSet<_>>();
            (names, heat[0].client.slices.map(|it| it.contestants))
        };
        let heat = |trial: &Trial| trial.client.slices.map_or(trial.index, |slices| 1_000 + slices.heat);
        let due = header.strategy.due(&header, outcomes);
        due.chunk_by(|a, b| heat(a) == heat(b)).map(of).collect::<Vec<_>>()
    };
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(heats(&[]), [(set(&["epoll", "mt"]), Some(2)), (set(&["spin"]), None)]);
    // A heat in which mt failed has only its outcome.
    let failed = run(&header, |_, _, _| Some(100.0)).1.into_iter().find(|it| it.index == 1).unwrap();
    assert_eq!(heats(&[failed]), [(set(&["epoll"]), None), (set(&["spin"]), None)]);
    let (_, outcomes) = run(&header, |name, _, _| Some(if name == "spin" { 50.0 } else { 100.0 }));
    let advice = advice(&header, &outcomes).unwrap();
    assert_eq!(advice.contestants[advice.choice.unwrap().winner].architecture.to_string(), "spin");
}

#[test]
fn impossible_changes_have_reasons() {
    let text = "name = \"x\"\narchitectures = [\"mt\", \"epoll\"]\n\
                [workload]\nconnections = 3\nservice = \"http\"\nschedule = \"closed\"\nhttp.paths = \"/\"\n\
                [phases]\nramp = \"0\"\nmeasure = \"900ms\"\n";
    let (experiment, host) = (Experiment::of(text), Host::made_up());
    let (_, _, parts) = variations::planned(plan(&experiment, &host).unwrap(), &experiment, &host);
    let reasons: Vec<_> = parts.iter().filter_map(|part| Some((&*part.name, part.first.as_ref().err()?))).collect();
    for (name, words) in [
        ("active share / 4", "less than one"),
        ("rate 0.8 of capacity", "a closed loop is at capacity already"),
        ("work x10", "try --simulated-work"),
        ("size x10", "the requests determine the size"),
    ] {
        assert!(reasons.iter().any(|(of, reason)| *of == name && reason.contains(words)), "{name}: {reasons:?}");
    }
    assert_eq!(parts.iter().filter(|part| part.first.is_ok()).count(), 3, "more connections and waits are possible");
}

#[test]
fn confirmation_compares_the_winner_with_its_rival() {
    let header = header(&NAMES, Figure::P50, &[], 60);
    let (_, outcomes) = run(&header, apart);
    let experiment = confirmation(&header, &advice(&header, &outcomes).unwrap()).unwrap();
    let servers: Vec<String> = experiment.architectures.0.iter().map(ToString::to_string).collect();
    assert_eq!((servers, experiment.repeats.get()), (vec!["mt".to_owned(), "epoll".to_owned()], 5));
    assert_eq!(experiment.phases.measure.to_string(), "2s");
    experiment.assert_reads_back();
}
