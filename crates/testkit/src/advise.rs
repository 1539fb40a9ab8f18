//! Constructed races.

use harness::record::{
    AdviseGoal, AdviseLimit, AdvisePart, AdviseWeight, Figure, Run, Strategy, Verdict, VerdictKind, Workload,
};

use crate::runs::{empty_run, finish, record, trial};

/// The experiment of the race.
const EXPERIMENT: &str = "name = \"advise\"\narchitectures = [\"mt\", \"epoll\", \"poll\", \"symped\", \"select\"]\n\
                          [workload]\nconnections = 400\nrequest = \"128B\"\nresponse = \"10KiB\"\nrate = 200\n";

/// The servers from the fastest to the slowest.
const NAMES: [&str; 5] = ["mt", "epoll", "poll", "symped", "select"];

/// Returns a race of five servers, whose service times are each longer than the last by `percent`. `select` saturates, and the third is
/// the best with more connections.
pub fn advise_run(percent: u64) -> Run {
    raced(planned(&NAMES), &NAMES, percent)
}

/// Returns the same race under other traffic, without changed traffic.
pub fn race_run(percent: u64, change: impl Fn(&mut Workload)) -> Run {
    race_of(&NAMES, percent, change)
}

/// Returns the same race of other servers, given from the fastest to the slowest.
pub fn race_of(names: &[&str; 5], percent: u64, change: impl Fn(&mut Workload)) -> Run {
    let mut run = planned(names);
    run.header.trials.truncate(names.len());
    run.header.trials.iter_mut().for_each(|trial| change(&mut trial.workload));
    if let Strategy::Advise(goal) = &mut run.header.strategy {
        goal.variations.clear();
    }
    raced(run, names, percent)
}

/// Returns the plan of a race.
fn planned(names: &[&str; 5]) -> Run {
    let mut run = empty_run();
    run.header.experiment = "advise".into();
    run.header.name = "20260101T000000-advise".into();
    let servers = [400, 800].into_iter().flat_map(|connections| names.map(|name| (name, connections)));
    run.header.trials =
        (0..).zip(servers).map(|(index, (name, connections))| trial(index, 0, name, connections)).collect();
    let part = |name: &str, about: &str, first| AdvisePart {
        name: name.into(),
        about: about.into(),
        first,
        finds_capacity: false,
    };
    run.header.strategy = Strategy::Advise(AdviseGoal {
        objective: vec![AdviseWeight { figure: Figure::P50, weight: 1.0 }],
        limits: vec![AdviseLimit { figure: Figure::P99, value: 5e6 }],
        contestants: names.len() as u32,
        variations: vec![
            part("connections x2", "800 connections", Ok(names.len() as u32)),
            part("work x10", "", Err("the traffic has no simulated work; try --simulated-work".into())),
        ],
        time_max_ns: 90_000_000_000,
        experiment: EXPERIMENT.into(),
    });
    run
}

/// Adds the results of a planned race.
fn raced(mut run: Run, names: &[&str; 5], percent: u64) -> Run {
    let place = |name: &str| names.iter().position(|it| *it == name).expect("the name is known");
    let stride = run.header.trials.len() as u32;
    finish(&mut run, |trial| {
        let at = place(trial.architecture.to_string().split(':').next().unwrap_or_default()) as u64;
        let is_changed = trial.index % stride >= names.len() as u32;
        let slower = if is_changed && at == 2 { 0 } else { (at + u64::from(is_changed)) * percent };
        let noise = (u64::from(trial.index) * 7 + u64::from(trial.repeat) * (3 + at)) % 5;
        let mut record = record(trial, 400 * (100 + slower) + 200 * noise, VerdictKind::Valid, "");
        if let Some(server) = &mut record.server {
            server.totals.cpu_system_ns += at * 400_000;
        }
        if at == 4 {
            record.verdict = Verdict { kind: VerdictKind::Saturated, reason: "made up".into(), checks: Vec::new() };
        }
        record
    });
    run
}
