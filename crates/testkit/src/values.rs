//! Runs of built-in experiments with given values.

use std::num::NonZeroU32;

use harness::record::{Bound, Check, Run, Trial, TrialRecord, Verdict, VerdictKind};
use harness::spec::interleave::Interleave;
use load::result::{ChurnResult, Measured, PARTS, StreamResult};
use server::Moved;
use stats::Histogram;

use crate::load_result::HEALTHY;
use crate::runs::{empty_run, record_with};
use crate::threads::Threads;

/// The length of a window: an eighth of it takes 10 s, so that counts give rates to a tenth.
const WINDOW_NS: u64 = 80_000_000_000;

/// Returns a verdict with one check, which decides it.
pub fn verdict_with(kind: VerdictKind, check: &str) -> Verdict {
    let check = Check {
        name: check.into(),
        value: 1.0,
        limit: 0.0,
        bound: Bound::AtMost,
        unit: String::new(),
        p_value: None,
        p_value_min: None,
        passed: kind == VerdictKind::Valid,
        decides: kind,
    };
    Verdict { kind, reason: "made up".into(), checks: vec![check] }
}

/// The values of a trial.
#[derive(Clone, Debug)]
pub struct Values {
    /// The verdict on the trial.
    pub verdict: VerdictKind,
    /// Whether the plan rejects the trial, so that it is not run.
    pub is_infeasible: bool,
    /// Service times, which are the response times too.
    pub service: Histogram,
    /// Send delays.
    pub send_delay: Histogram,
    /// Responses, transactions or bursts per second.
    pub rate_per_s: f64,
    /// Further values of a trial with sessions.
    pub sessions: Option<Sessions>,
    /// The values of a server whose network threads accept.
    pub threads: Option<Threads>,
}

/// The values of a trial with sessions, besides its reply rate.
#[derive(Clone, Copy, Debug)]
pub struct Sessions {
    /// Requests per second.
    pub sent_per_s: f64,
    /// Connections per second.
    pub opened_per_s: f64,
    /// The lowest and the highest reply rate of the eighths of the window.
    pub replies_per_s: [f64; 2],
    /// Bytes per second in both directions.
    pub bytes_per_s: f64,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            verdict: VerdictKind::Valid,
            is_infeasible: false,
            service: [1_000].into_iter().collect(),
            send_delay: [1_000].into_iter().collect(),
            rate_per_s: 1.0,
            sessions: None,
            threads: None,
        }
    }
}

/// Returns three repeats of a built-in experiment at its full scale, without the trials that have no values.
pub fn run_of_values(name: &str, values: impl Fn(&Trial) -> Option<Values>) -> Run {
    let mut experiment = harness::spec::presets::find(name).unwrap().experiment();
    (experiment.repeats, experiment.interleave) = (NonZeroU32::new(3).unwrap(), Interleave::Never);
    let plan = harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap();
    let mut run = empty_run();
    run.header.name = format!("20260101T000000-{name}");
    run.header.experiment = name.into();
    for mut trial in plan.trials {
        let Some(values) = values(&trial) else { continue };
        trial.infeasible = if values.is_infeasible { vec!["made up".into()] } else { Vec::new() };
        if !values.is_infeasible {
            run.records.push(record_of(&trial, values));
        }
        run.header.trials.push(trial);
    }
    run
}

/// Returns the figures of these times, each as often as all their quantiles need.
fn measured(mut histogram: Histogram) -> Measured {
    while (1..1_000).contains(&histogram.count()) {
        histogram.merge(&histogram.clone());
    }
    let Measured { p50_by_part_ns, p90_by_part_ns, .. } = HEALTHY.service;
    Measured { distribution: histogram.distribution(), p50_by_part_ns, p90_by_part_ns, histogram }
}

/// Returns a finished trial with these values.
pub fn record_of(trial: &Trial, values: Values) -> TrialRecord {
    let reason = if values.verdict == VerdictKind::Valid { "" } else { "made up" };
    let (send_delay, service) = (measured(values.send_delay), measured(values.service));
    let mut record = record_with(trial, [send_delay, service.clone(), service], values.verdict, reason);
    let seconds = WINDOW_NS as f64 / 1e9;
    let load = record.load.as_mut().expect("every record has a load report");
    let server = record.server.as_mut().expect("every record has server counters");
    (load.window_ns, server.window_ns) = (WINDOW_NS, WINDOW_NS);
    (load.rate_asked_per_s, load.rate_achieved_per_s) = (trial.workload.rate_per_s(), values.rate_per_s);
    if let Some(threads) = values.threads {
        threads.apply(server);
    }
    if let Some(sessions) = values.sessions {
        load.rate_sent_per_s = sessions.sent_per_s;
        load.churn = Some(ChurnResult {
            requests_per_connection: 100,
            opened: 1,
            opened_per_s: sessions.opened_per_s,
            waited: 0,
            sources: 1,
            connect: Measured::default(),
            first_byte: Measured::default(),
        });
        let count = |eighth: usize| (sessions.replies_per_s[eighth % 2] * seconds / 8.0).round() as u64;
        let part = |part: usize| if part.is_multiple_of(PARTS / 8) { count(part / (PARTS / 8)) } else { 0 };
        load.completed_by_part = std::array::from_fn(part);
        (server.totals.bytes_in, server.totals.bytes_out) =
            (Some((sessions.bytes_per_s * seconds).round() as u64), Some(0));
    }
    if let Some(stream) = trial.workload.service.stream() {
        let bytes_per_s = values.rate_per_s * stream.burst_bytes() as f64;
        let bytes = (bytes_per_s * seconds).round() as u64;
        load.stream = Some(StreamResult {
            bytes,
            bytes_by_part: [bytes / PARTS as u64; PARTS],
            bytes_by_second: Vec::new(),
            fairness: 1.0,
            connection_bytes_min: 1,
            connection_bytes_max: 1,
            sent_bytes: bytes,
            received_bytes: 32,
            ended: 0,
        });
        (server.totals.bytes_in, server.totals.bytes_out) = (Some(bytes), Some(32));
        (server.totals.cpu_user_ns, server.totals.cpu_system_ns) = (0, WINDOW_NS);
        let at = |part: u64| Moved {
            at_ns: part * WINDOW_NS / PARTS as u64,
            bytes_in: (bytes_per_s * seconds * part as f64 / PARTS as f64) as u64,
            bytes_out: 0,
        };
        server.moved = (0..=PARTS as u64).map(at).collect();
    }
    record
}
