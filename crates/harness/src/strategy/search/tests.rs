use load::LoadResult;
use load::result::{DatagramResult, LateSends};
use rand::RngExt;

use super::*;
use crate::judge;
use crate::record::{Check, LatencyLimit, Strategy, Verdict};
use crate::spec::OneOrMany;
use crate::spec::units::Rate;

fn goal() -> SearchGoal {
    SearchGoal {
        limits: vec![
            LatencyLimit { quantile: 0.99, max_ns: 1_000_000 },
            LatencyLimit { quantile: 0.999, max_ns: 5_000_000 },
        ],
        varied: Varied::Rate,
        from: 1_000.0,
        most: 1e6,
        precision: 0.05,
        time_max_ns: 3_600_000_000_000,
    }
}

fn header(goal: SearchGoal) -> RunHeader {
    let mut experiment = crate::spec::presets::find("smoke").unwrap().experiment();
    experiment.architectures.0 = ["epoll", "mt", "poll"].map(|name| name.parse().unwrap()).to_vec();
    experiment.workload.connections.0.truncate(1);
    experiment.workload.rate = Some(OneOrMany(vec![Rate(1_000.0)]));
    experiment.repeats = std::num::NonZeroU32::MIN;
    let plan = crate::plan::plan(&experiment, &crate::host::Host::made_up()).unwrap();
    RunHeader { strategy: Strategy::Capacity(goal), ..RunHeader::made_up(plan) }
}

/// Probes a healthy trial after `change`, with a limit for the median alone.
fn probe(change: impl FnOnce(&mut LoadResult)) -> ProbeResult {
    probe_of(median_goal(), change)
}

/// Probes a healthy trial after `change`, with any goal.
fn probe_of(goal: SearchGoal, change: impl FnOnce(&mut LoadResult)) -> ProbeResult {
    goal.probe(&record(&goal, change))
}

fn record(goal: &SearchGoal, change: impl FnOnce(&mut LoadResult)) -> TrialRecord {
    let mut load = judge::tests::healthy();
    change(&mut load);
    let verdict = judge::judge(&load, None);
    let trial = header(goal.clone()).trials.swap_remove(0);
    TrialRecord {
        separated: None,
        trial,
        started_at: "2026-01-01T00:00:00Z".into(),
        elapsed_ns: 1,
        load: Some(load),
        server: None,
        idle: None,
        warm_up: None,
        network: None,
        cpu_taken_by_others: None,
        profile: None,
        profile_error: None,
        verdict,
    }
}

#[test]
fn poisson_process_with_fewer_requests_meets_its_limits() {
    let of = |planned: u64, achieved_per_s: f64| {
        probe(|load| {
            (load.planned, load.sent, load.completed) = (planned, planned, planned);
            (load.rate_sent_per_s, load.rate_achieved_per_s) = (planned as f64, achieved_per_s);
        })
    };
    assert_eq!(of(1_000, 999.0), ProbeResult::Met);
    assert_eq!(of(900, 899.0), ProbeResult::Met, "all planned requests were answered");
    assert_eq!(of(1_000, 900.0), ProbeResult::Unmet);
}

#[test]
fn window_with_too_few_requests_is_inconclusive() {
    let few = |load: &mut LoadResult| (load.planned, load.sent, load.completed) = (15, 15, 15);
    assert_eq!(probe(few), ProbeResult::Disturbed);
    let and_an_error = |load: &mut LoadResult| {
        few(load);
        load.errors.reset = 1;
    };
    assert_eq!(probe(and_an_error), ProbeResult::Unmet, "an error of the server is conclusive");
}

#[test]
fn only_datagrams_may_be_lost_up_to_one_percent() {
    let lost = |lost: u64| {
        move |load: &mut LoadResult| {
            load.completed -= lost;
            load.datagrams = Some(DatagramResult { ports: 10, lost, duplicates: 0, reordered: 0, dropped: None });
        }
    };
    assert_eq!(probe(lost(10)), ProbeResult::Met);
    assert_eq!(probe(lost(11)), ProbeResult::Unmet);
    let and_an_error = |load: &mut LoadResult| {
        lost(10)(load);
        load.errors.timeout = 1;
    };
    assert_eq!(probe(and_an_error), ProbeResult::Unmet);
    assert_eq!(probe(|load| load.completed -= 1), ProbeResult::Unmet);
}

/// The report of a probe with a limit of 1 ms for the p99: whether it met the limit, and whether the client was late.
fn tail(is_met: bool, is_late: bool) -> impl FnOnce(&mut LoadResult) {
    move |load| {
        load.response.histogram = (0..1_000).map(|at| if at < 20 && !is_met { 5_000_000 } else { 50_000 }).collect();
        let count = if is_late { 9 } else { 0 };
        load.late = LateSends { bound_ns: 100_000, count, sent: 1_000, ..LateSends::default() };
    }
}

#[test]
fn late_client_makes_a_probe_doubtful_whatever_its_result() {
    let of = |is_met, is_late| probe_of(tail_goal(), tail(is_met, is_late));
    assert_eq!([of(true, false), of(false, false)], [ProbeResult::Met, ProbeResult::Unmet]);
    let doubtful = |met, client| ProbeResult::Doubtful { met, client };
    assert_eq!([of(true, true), of(false, true)], [doubtful(true, false), doubtful(false, true)]);
    let limits =
        vec![LatencyLimit { quantile: 0.5, max_ns: 10_000 }, LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }];
    let also_slow = probe_of(SearchGoal { limits, ..goal() }, tail(false, true));
    assert_eq!(also_slow, doubtful(false, false), "the client cannot have caused the median");
    let taken = |is_met| {
        let mut record = record(&tail_goal(), tail(is_met, false));
        let check = Check { name: Check::TAKEN_BY_OTHERS.into(), passed: false, ..record.verdict.checks[0].clone() };
        record.verdict = Verdict { kind: VerdictKind::Unsteady, reason: String::new(), checks: vec![check] };
        tail_goal().probe(&record)
    };
    assert_eq!([taken(true), taken(false)], [doubtful(true, false), doubtful(false, false)]);
}

/// Searches of simulated servers with a capacity of 7 000 requests per second; near it, results are random. In a share of the
/// probes the client is late, and in a tenth of these it makes the server miss its limit. Returns the mean estimate relative to the
/// capacity, and the share of searches whose interval or lower bound is true.
fn with_late_client(share: f64) -> [f64; 2] {
    const SEARCHES: u32 = 150;
    let (capacity, width) = (7_000.0_f64, 0.08);
    let goal = SearchGoal { precision: 0.1, ..tail_goal() };
    let header = header(goal.clone());
    let header = RunHeader { trials: vec![header.trials[0].alone()], ..header };
    let blank = record(&goal, |_| ());
    let (mut ratios, mut is_true) = (Vec::new(), 0);
    for seed in 0..SEARCHES {
        let random = std::cell::RefCell::new(Xoshiro256PlusPlus::seed_from_u64(u64::from(seed)));
        let is_so = |probability: f64| random.borrow_mut().random::<f64>() < probability;
        let outcomes = search(&header, |_, rate| {
            let is_late = is_so(share);
            let is_met = is_so(1.0 / (1.0 + ((rate / capacity).ln() / width).exp())) && !(is_late && is_so(0.1));
            let mut record = blank.clone();
            tail(is_met, is_late)(record.load.as_mut().unwrap());
            goal.probe(&record)
        });
        is_true += u32::from(match searches(&header, &goal, &outcomes)[0].answer().unwrap() {
            CapacityBound::Server { most, interval, .. } => {
                ratios.push((most / capacity).ln());
                interval.low <= capacity && capacity <= interval.high
            }
            CapacityBound::AtLeast { most, .. } => most <= capacity,
        });
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    [mean.exp(), f64::from(is_true) / f64::from(SEARCHES)]
}

#[cfg_attr(miri, ignore = "hundreds of simulated searches")]
#[test]
fn late_client_does_not_bias_the_capacity() {
    for share in [0.0, 0.3, 0.7] {
        let [ratio, is_true] = with_late_client(share);
        println!("late in {share}: estimates {ratio:.3} of the capacity, {is_true:.2} of the answers are true");
        assert!((0.98..1.02).contains(&ratio), "late in {share}: {ratio}");
        assert!(is_true >= 0.9, "late in {share}: {is_true}");
    }
}

/// Searches until the end, where `probe` decides by (architecture, value). Each trial takes a second.
fn search(header: &RunHeader, probe: impl Fn(&str, f64) -> ProbeResult) -> Vec<TrialOutcome> {
    let Strategy::Capacity(goal) = &header.strategy else { panic!("{:?}", header.strategy) };
    let result = |trial: &Trial, value: f64| (value, probe(&trial.architecture.to_string(), value));
    let outcome = |trial: &Trial, contestants: u32| TrialOutcome {
        index: trial.index,
        rate_per_s: trial.workload.rate_per_s(),
        elapsed_ns: u64::from(contestants) * 1_000_000_000,
        contestants,
        probe: goal.value(&trial.workload).map(|value| result(trial, value)),
        ..TrialOutcome::default()
    };
    let mut outcomes: Vec<TrialOutcome> = Vec::new();
    while let Some(heat) = next_heat(header, &outcomes) {
        assert!(outcomes.len() < 1_000, "the search ends");
        let is_new = |trial: &Trial| outcomes.iter().all(|outcome| outcome.index != trial.index);
        assert!(heat.iter().all(is_new), "indices are unique");
        outcomes.extend(heat.iter().map(|trial| outcome(trial, heat.len() as u32)));
    }
    outcomes
}

fn next_heat(header: &RunHeader, outcomes: &[TrialOutcome]) -> Option<Vec<Trial>> {
    Some(crate::strategy::first_heat(header.strategy.due(header, outcomes))).filter(|heat| !heat.is_empty())
}

fn tail_goal() -> SearchGoal {
    SearchGoal { limits: vec![LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }], ..goal() }
}

/// A goal that low rates and short windows decide.
fn median_goal() -> SearchGoal {
    SearchGoal { limits: vec![LatencyLimit { quantile: 0.5, max_ns: 1_000_000 }], ..goal() }
}

fn of<'a>(searches: &'a [RateSearch<'a>], name: &str) -> &'a RateSearch<'a> {
    searches.iter().find(|search| search.first.architecture.to_string() == name).unwrap()
}

#[test]
fn capacities_are_found_in_turns() {
    let header = header(goal());
    let outcomes = search(&header, |name, rate| {
        if rate <= if name == "epoll" { 40_000.0 } else { 700.0 } { ProbeResult::Met } else { ProbeResult::Unmet }
    });
    let searches = searches(&header, &goal(), &outcomes);
    for (name, capacity) in [("epoll", 40_000.0), ("mt", 700.0), ("poll", 700.0)] {
        let search = of(&searches, name);
        assert_eq!(search.ended, Some(SearchEnd::Precise));
        let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
        assert!(interval.low <= capacity && capacity <= interval.high, "{name}: {interval:?}");
    }
    for (round, three) in outcomes.chunks(3).take(8).enumerate() {
        let mut of_round: Vec<u32> = three.iter().map(|outcome| outcome.index).collect();
        of_round.sort_unstable();
        let first = 3 * round as u32;
        assert_eq!(of_round, [first, first + 1, first + 2], "each search probes once per round");
    }
    let order = |round: usize| outcomes[3 * round..3 * round + 3].iter().map(|it| it.index % 3).collect::<Vec<_>>();
    assert!((1..8).any(|round| order(round) != order(0)), "the order changes between rounds");
}

#[test]
fn probes_near_the_capacity_share_windows() {
    let header = header(median_goal());
    let capacity = |name: &str| if name == "epoll" { 40_000.0 } else { 7_000.0 };
    let outcomes =
        search(&header, |name, rate| if rate <= capacity(name) { ProbeResult::Met } else { ProbeResult::Unmet });
    let mut shared = 0;
    for (at, outcome) in outcomes.iter().enumerate() {
        let search = outcome.index % 3;
        let probes = outcomes[..at].iter().filter(|it| it.index % 3 == search).filter_map(|it| it.probe);
        let highest_met = probes.filter(|it| it.1 == ProbeResult::Met).map(|it| it.0).fold(0.0, f64::max);
        let is_near = outcome.rate_per_s.unwrap() <= 1.2 * highest_met;
        assert!(is_near || outcome.contestants == 1, "{outcome:?}");
        shared += usize::from(outcome.contestants > 1);
    }
    assert!(3 * shared > outcomes.len(), "{shared} of {}", outcomes.len());
    let never = RunHeader { trials: header.trials.iter().map(Trial::alone).collect(), ..header };
    assert!(
        search(&never, |_, rate| if rate <= 7_000.0 { ProbeResult::Met } else { ProbeResult::Unmet })
            .iter()
            .all(|outcome| outcome.contestants == 1)
    );
}

#[test]
fn probes_that_share_a_window_have_equal_slices_and_phases() {
    let header = header(median_goal());
    let outcomes = search(&header, |_, rate| if rate <= 7_000.0 { ProbeResult::Met } else { ProbeResult::Unmet });
    let mut heats = std::collections::BTreeSet::new();
    for at in 0..outcomes.len() {
        let Some(heat) = next_heat(&header, &outcomes[..at]).filter(|heat| heat.len() > 1) else { continue };
        let first = heat[0].client.slices.unwrap();
        for (contestant, trial) in (0..).zip(&heat) {
            let slices = Slices { contestant, ..first };
            assert_eq!((trial.client.slices, trial.workload.phases), (Some(slices), heat[0].workload.phases));
            assert_eq!((trial.index / 3, trial.repeat), (heat[0].index / 3, heat[0].repeat));
        }
        heats.insert((first.heat, heat[0].index / 3));
    }
    let rounds: std::collections::BTreeSet<u32> = heats.iter().map(|(_, round)| *round).collect();
    let numbers: std::collections::BTreeSet<u32> = heats.iter().map(|(heat, _)| *heat).collect();
    assert!(!rounds.is_empty() && numbers.len() == rounds.len(), "each round has its own heat: {heats:?}");
}

#[test]
fn probe_with_a_longer_window_runs_separately() {
    let header = header(median_goal());
    let outcomes = search(&header, |_, rate| if rate <= 280.0 { ProbeResult::Met } else { ProbeResult::Unmet });
    // 50 measured requests in four fifths of 200 ms.
    let is_short = |outcome: &TrialOutcome| outcome.rate_per_s >= Some(312.5);
    assert!(outcomes.iter().all(|outcome| outcome.contestants == 1 || is_short(outcome)));
}

#[test]
fn next_probes_depend_only_on_finished_trials() {
    let met = |_: &str, rate: f64| if rate <= 5_000.0 { ProbeResult::Met } else { ProbeResult::Unmet };
    for goal in [goal(), median_goal()] {
        let header = header(goal);
        let outcomes = search(&header, met);
        let mut at = 0;
        while at < outcomes.len() {
            let mut stored = outcomes[..at].to_vec();
            // The store returns trials in the order of their indices.
            stored.sort_by_key(|outcome| outcome.index);
            let heat = next_heat(&header, &stored).unwrap();
            let next: Vec<_> = heat.iter().map(|trial| (trial.index, trial.workload.rate_per_s())).collect();
            let expected = outcomes[at..at + outcomes[at].contestants as usize].iter();
            assert_eq!(next, expected.map(|outcome| (outcome.index, outcome.rate_per_s)).collect::<Vec<_>>(), "{at}");
            at += heat.len();
        }
    }
}

#[test]
fn search_over_connections_keeps_the_rate() {
    let goal = SearchGoal { varied: Varied::Connections, from: 100.0, most: 20_000.0, limits: Vec::new(), ..goal() };
    let header = header(goal.clone());
    let header = RunHeader { trials: header.trials.iter().map(Trial::alone).collect(), ..header };
    let holds = |connections: f64| connections.fract() == 0.0 && connections <= 3_000.0;
    let outcomes =
        search(&header, |_, connections| if holds(connections) { ProbeResult::Met } else { ProbeResult::Unmet });
    assert!(outcomes.iter().all(|outcome| outcome.rate_per_s == Some(1_000.0)));
    for search in searches(&header, &goal, &outcomes) {
        assert_eq!(search.ended, Some(SearchEnd::Precise));
        let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
        assert!(interval.low <= 3_000.0 && 3_000.0 <= interval.high, "{interval:?}");
    }
    let probe = next_heat(&header, &[]).unwrap().remove(0);
    assert_eq!(probe.workload.connections, 100);
    assert!(probe.serve.ours().unwrap().connections_max > 100);
}

#[test]
fn client_without_connections_leaves_the_probe_unmet() {
    let of = |varied| {
        let goal = SearchGoal { varied, ..goal() };
        goal.probe(&TrialRecord { load: None, ..record(&goal, |_| {}) })
    };
    assert_eq!(of(Varied::Rate), ProbeResult::Failed);
    assert_eq!(of(Varied::Connections), ProbeResult::Unmet);
}

#[test]
fn limited_client_gives_a_lower_bound() {
    let header = header(goal());
    let outcomes = search(&header, |name, rate| match name {
        _ if rate <= 9_000.0 => ProbeResult::Met,
        "mt" => ProbeResult::Doubtful { met: false, client: true },
        _ => ProbeResult::Unmet,
    });
    let searches = searches(&header, &goal(), &outcomes);
    let Some(CapacityBound::AtLeast { most, client: true }) = of(&searches, "mt").answer() else {
        panic!("{:?}", of(&searches, "mt").answer())
    };
    assert!((8_000.0..=9_000.0).contains(&most), "{most}");
    assert!(matches!(of(&searches, "epoll").answer(), Some(CapacityBound::Server { .. })));
}

#[test]
fn client_that_pauses_does_not_hide_the_capacity() {
    let header = header(goal());
    let probed = std::cell::RefCell::new(std::collections::BTreeMap::new());
    // In two of three probes of a server the client pauses.
    let outcomes = search(&header, |name, rate| {
        let mut probed = probed.borrow_mut();
        let count = probed.entry(name.to_owned()).or_insert(0);
        *count += 1;
        match rate {
            ..=5_000.0 => ProbeResult::Met,
            _ if *count % 3 > 0 => ProbeResult::Doubtful { met: false, client: true },
            ..=7_000.0 => ProbeResult::Met,
            _ => ProbeResult::Unmet,
        }
    });
    for search in searches(&header, &goal(), &outcomes) {
        let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
        assert!(interval.low <= 7_000.0 && 7_000.0 <= interval.high, "{interval:?}");
        assert!(search.probes.iter().all(|(_, probe)| *probe != ProbeResult::UnmetByTheClient));
    }
}

#[test]
fn searches_end_at_the_time_limit_or_on_failures() {
    let short = SearchGoal { time_max_ns: 10_000_000_000, ..goal() };
    let header = header(short.clone());
    let outcomes = search(&header, |name, _| if name == "mt" { ProbeResult::Failed } else { ProbeResult::Met });
    assert_eq!(outcomes.len(), 10, "each trial takes a second");
    let searches = searches(&header, &short, &outcomes);
    assert_eq!(of(&searches, "mt").ended, Some(SearchEnd::Failed));
    assert_eq!(of(&searches, "mt").answer(), None);
    assert_eq!(of(&searches, "epoll").ended, Some(SearchEnd::Time));
    let Some(CapacityBound::AtLeast { most, client: false }) = of(&searches, "epoll").answer() else {
        panic!("{:?}", of(&searches, "epoll").answer())
    };
    assert!(most >= 4_000.0, "the highest rate that met the limits");
}

#[test]
fn disturbed_probe_is_repeated() {
    let header = header(goal());
    let count = std::cell::Cell::new(0);
    let outcomes = search(&header, |_, rate| {
        count.set(count.get() + 1);
        match count.get() % 3 {
            0 => ProbeResult::Disturbed,
            _ if rate <= 5_000.0 => ProbeResult::Met,
            _ => ProbeResult::Unmet,
        }
    });
    for search in searches(&header, &goal(), &outcomes) {
        let Some(CapacityBound::Server { interval, .. }) = search.answer() else { panic!("{:?}", search.answer()) };
        assert!(interval.low <= 5_000.0 && 5_000.0 <= interval.high, "{interval:?}");
    }
}

#[test]
fn window_suffices_for_the_quantiles() {
    let second = 1_000_000_000;
    let p99 = SearchGoal { limits: vec![goal().limits[0]], ..goal() };
    assert_eq!(p99.measure_ns(second, 10_000.0), second);
    let half = p99.measure_ns(second, 500.0).abs_diff(2 * second);
    assert!(half < 1_000, "1000 requests, ten of them slower");
    assert_eq!(p99.measure_ns(second, 10.0), 10 * second, "the factor is limited");
    let p50 = SearchGoal { limits: vec![LatencyLimit { quantile: 0.5, max_ns: 1 }], ..goal() };
    assert_eq!(p50.measure_ns(second, 10.0), 5 * second, "50 requests, though a median asks for 20");
    assert_eq!(goal().limits.iter().map(LatencyLimit::name).collect::<Vec<_>>(), ["p99", "p99.9"]);
    assert_eq!(goal().limits[0].to_string(), "p99 <= 1ms");
}
