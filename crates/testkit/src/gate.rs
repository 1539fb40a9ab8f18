//! Constructed gates.

use harness::record::{Figure, GateGoal, GateLimit, Run, Strategy, Verdict, VerdictKind};

use crate::runs::{empty_run, finish, record, trial};

/// Returns a gate of `mt` against `epoll`, whose service times are longer by `percent`, with noise of a percent.
pub fn gate_run(percent: u64) -> Run {
    let mut run = empty_run();
    run.header.experiment = "gate".into();
    run.header.name = "20260101T000000-gate".into();
    let architectures = ["epoll", "mt"];
    let repeats = (0..20).flat_map(|repeat| architectures.map(|name| (repeat, name)));
    run.header.trials = (0..).zip(repeats).map(|(index, (repeat, name))| trial(index, repeat, name, 400)).collect();
    let limit = |figure: Figure| Some(GateLimit { figure, tolerance: figure.tolerance()?, is_required: false });
    let limits = Figure::limited().filter_map(limit).collect();
    let old = run.header.trials[0].architecture.clone();
    run.header.strategy = Strategy::Gate(GateGoal { old, limits, time_max_ns: 60_000_000_000 });
    finish(&mut run, |trial| {
        let is_new = trial.index % 2 == 1;
        let slower = if is_new { percent } else { 0 };
        let noise = (u64::from(trial.index) * 7 + 3) % 5;
        let mut record = record(trial, 400 * (100 + slower) + 200 * noise, VerdictKind::Valid, "");
        if is_new && trial.repeat == 1 {
            record.verdict = Verdict { kind: VerdictKind::ClientLimited, reason: "made up".into(), checks: Vec::new() };
        }
        record
    });
    run
}
