use super::*;
use crate::host::Host;
use crate::plan::plan;
use crate::record::{FigureMap, Strategy};
use crate::spec::Experiment;

const SECOND_NS: u64 = 1_000_000_000;

/// A gate of `epoll` and `mt` with two limits, of which the second may be left out. The budget is 40 repeats of a second.
fn header(figures: [Figure; 2]) -> RunHeader {
    let text = "name = \"x\"\narchitectures = [\"epoll\", \"mt\"]\nrepeats = 60\n\
                [workload]\nconnections = 10\nrequest = \"1B\"\nresponse = \"2B\"\nrate = 1000\n\
                [phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"900ms\"\n";
    let plan = plan(&Experiment::of(text), &Host::made_up()).unwrap();
    let limit = |figure, is_required| GateLimit { figure, tolerance: 0.05, is_required };
    let limits = vec![limit(figures[0], true), limit(figures[1], false)];
    let goal = GateGoal { old: "epoll".parse().unwrap(), limits, time_max_ns: 100 * SECOND_NS };
    RunHeader { strategy: Strategy::Gate(goal), ..RunHeader::made_up(plan) }
}

/// Runs a gate, where `values` returns the values of the new build's figures in a repeat; those of the old one are 100. Returns
/// the outcome, the last decisions, and the number of repeats.
fn gate(figures: [Figure; 2], values: impl Fn(u32) -> [Option<f64>; 2]) -> (GateOutcome, Vec<Excess>, u32) {
    let header = header(figures);
    let Strategy::Gate(goal) = &header.strategy else { panic!("the run is a gate") };
    let (mut outcomes, mut repeats) = (Vec::new(), 0);
    while let [trial, ..] = header.strategy.due(&header, &outcomes).as_slice() {
        let values = if goal.is_old(trial) { [Some(100.0); 2] } else { values(trial.repeat) };
        outcomes.push(TrialOutcome {
            index: trial.index,
            elapsed_ns: 2 * SECOND_NS,
            contestants: 2,
            values: figures
                .into_iter()
                .zip(values)
                .fold(FigureMap::default(), |all, (figure, it)| all.with(figure, it)),
            ..Default::default()
        });
        repeats = trial.repeat + 1;
    }
    let findings = findings(&header, &outcomes, goal);
    (outcome(&findings), findings.iter().map(|it| it.excess).collect(), repeats)
}

/// A value near `mean` with noise of 2 %.
fn near(mean: f64, repeat: u32) -> Option<f64> {
    Some(mean * (1.0 + 0.01 * (f64::from(repeat * 7 % 5) - 2.0)))
}

#[test]
fn outcomes_follow_the_figures() {
    use Excess::{Beyond, Open, Within};
    use Figure::{Cpu, Errors, P50, Rate};
    use GateOutcome::{NotSlower, Slower, Undecided};
    type PairValues = fn(u32) -> [Option<f64>; 2];
    let cases: [(&str, [Figure; 2], PairValues, GateOutcome, [Excess; 2]); 9] = [
        ("equal builds", [P50, Cpu], |at| [near(100.0, at), near(100.0, at + 1)], NotSlower, [Within, Within]),
        ("a faster build", [P50, Cpu], |at| [near(80.0, at), near(90.0, at)], NotSlower, [Within, Within]),
        ("one figure is worse", [P50, Cpu], |at| [near(100.0, at), near(120.0, at)], Slower, [Within, Beyond]),
        ("a lower rate is worse", [Rate, Cpu], |at| [near(80.0, at), near(100.0, at)], Slower, [Beyond, Within]),
        ("a figure at its limit", [P50, Cpu], |at| [near(105.0, at), near(100.0, at)], Undecided, [Open, Within]),
        ("an optional figure is unknown", [P50, Cpu], |at| [near(100.0, at), None], NotSlower, [Within, Open]),
        ("a required figure is unknown", [P50, Cpu], |at| [None, near(100.0, at)], Undecided, [Open, Within]),
        ("each trial of the new build fails", [P50, Errors], |_| [None, Some(101.0)], Slower, [Open, Beyond]),
        ("all trials fail alike", [P50, Errors], |_| [None, Some(100.0)], Undecided, [Open, Within]),
    ];
    for (name, figures, values, expected, decisions) in cases {
        let (outcome, found, _) = gate(figures, values);
        assert_eq!((outcome, found), (expected, decisions.to_vec()), "{name}");
    }
}

#[test]
fn old_build_that_does_not_run_ends_the_gate_at_once() {
    let header = header([Figure::P50, Figure::Errors]);
    let Strategy::Gate(goal) = &header.strategy else { panic!("the run is a gate") };
    let mut outcomes: Vec<TrialOutcome> = Vec::new();
    while let [trial, ..] = header.strategy.due(&header, &outcomes).as_slice() {
        outcomes.push(TrialOutcome { index: trial.index, is_past: goal.is_old(trial), ..Default::default() });
    }
    assert!(outcomes.len() <= 2, "{} trials ran", outcomes.len());
}

#[test]
fn gate_ends_when_decided_hopeless_or_late() {
    let figures = [Figure::P50, Figure::Errors];
    let repeats = |values: fn(u32) -> [Option<f64>; 2]| gate(figures, values).2;
    assert_eq!(repeats(|at| [near(200.0, at), Some(100.0)]), 3, "clearly slower");
    assert_eq!(repeats(|_| [Some(100.0), Some(100.0)]), 3, "equal for certain");
    assert_eq!(repeats(|_| [None, Some(101.0)]), 3, "each trial of the new build fails");
    assert_eq!(repeats(|_| [None, Some(100.0)]), 8, "no trial is usable");
    let late = repeats(|at| [near(105.0, at), Some(100.0)]);
    assert!((30..60).contains(&late), "the budget ends it: {late}");
}
