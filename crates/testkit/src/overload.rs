//! Constructed overloads.

use harness::record::{
    CapacitySource, LatencyLimit, OverloadGoal, Pulse, Run, SearchGoal, Strategy, Trial, TrialRecord, Varied,
    VerdictKind,
};
use load::config::RequestTimeout;
use load::result::{Errors, GoodputBin, GoodputResult};

use crate::runs::{empty_run, finish, probe, record, trial};

const S: u64 = 1_000_000_000;
const BIN_NS: u64 = 100_000_000;

/// Returns an overload of three servers: `epoll` recovers 1.2 s after the pulse, `mt` never, and `mp` cannot run.
pub fn overload_run() -> Run {
    let mut run = empty_run();
    run.header.experiment = "overload".into();
    let pulse = Pulse { base: 0.7, peak: 1.5, before_ns: 3 * S, length_ns: 2 * S, after_ns: 5 * S };
    let search = SearchGoal {
        limits: vec![LatencyLimit { quantile: 0.99, max_ns: 1_000_000 }],
        varied: Varied::Rate,
        from: 1_000.0,
        most: 1_000_000.0,
        precision: 0.05,
        time_max_ns: 600 * S,
    };
    let request_timeout = RequestTimeout { timeout_ns: S / 2, retries: 2, retry_budget: Some(0.1) };
    let goal = OverloadGoal { capacity: CapacitySource::Search(search), pulse, request_timeout };
    run.header.strategy = Strategy::Overload(goal.clone());
    for (index, architecture) in ["epoll", "mt", "mp"].into_iter().enumerate() {
        let mut first = trial(index as u32, 0, architecture, 400);
        first.workload.set_rate(Some(1_000.0));
        if architecture == "mp" {
            first.infeasible = vec!["workload.connections: made up".into()];
        }
        run.header.trials.push(first);
    }
    finish(&mut run, |trial| if trial.workload.rate_profile().is_some() { pulsed(trial, &goal) } else { probe(trial) });
    run
}

fn pulsed(trial: &Trial, goal: &OverloadGoal) -> TrialRecord {
    let mut record = record(trial, 700_000, VerdictKind::Saturated, "made up");
    let recovers = trial.architecture.to_string() == "epoll";
    let profile = trial.workload.rate_profile().expect("the trial has a pulse").integral();
    let pulse = goal.pulse.range_ns();
    let bins = (0..trial.workload.phases.measure_ns / BIN_NS).map(|at| {
        let begin_ns = at * BIN_NS;
        let planned = profile.requests((begin_ns + BIN_NS) as f64) - profile.requests(begin_ns as f64);
        let (share, response_ms) = match begin_ns {
            ns if ns < pulse.start + S / 2 => (1.0, 1),
            ns if pulse.contains(&ns) => (0.4, 300),
            ns if recovers && ns >= pulse.end + 12 * BIN_NS => (1.0, 1),
            ns if recovers && ns >= pulse.end + 6 * BIN_NS => (1.0, 40),
            _ => (0.3, 400),
        };
        GoodputBin {
            planned: planned.round() as u64,
            in_time: (share * planned).round() as u64,
            response_p50_ns: response_ms * 1_000_000,
        }
    });
    let bins: Vec<GoodputBin> = bins.collect();
    let load = record.load.as_mut().expect("every record has a load report");
    let sum = |count: fn(&GoodputBin) -> u64| bins.iter().map(count).sum::<u64>();
    (load.planned, load.completed, load.window_ns) = (sum(|it| it.planned), sum(|it| it.in_time), 10 * S);
    load.rate_asked_per_s = trial.workload.rate_per_s();
    let timeout = load.planned - load.completed;
    load.errors = Errors { timeout, reset: if recovers { 0 } else { 3 }, ..Errors::default() };
    let retries = load.planned / 10;
    let timeout_ns = goal.request_timeout.timeout_ns;
    load.goodput = Some(GoodputResult { timeout_ns, timeouts: timeout + retries, retries, bin_ns: BIN_NS, bins });
    record
}
