//! The client's report of a healthy trial.

use std::sync::LazyLock;

use load::config::{Pacing, Roles, Transport};
use load::result::{ClockFacts, Errors, LateSends, LoadResult, Measured, Outstanding, PARTS};
use stats::Histogram;

/// Returns latencies that are constant within each tenth of the window.
pub fn measured(tenths_ns: [u64; 10]) -> Measured {
    let histogram: Histogram = tenths_ns.iter().flat_map(|&ns| [ns; 10]).collect();
    let p50_by_part_ns = std::array::from_fn(|part| tenths_ns[part * 10 / PARTS]);
    Measured { distribution: histogram.distribution(), p50_by_part_ns, p90_by_part_ns: p50_by_part_ns, histogram }
}

/// Returns the report of a healthy trial: 1 000 requests in a second over 10 connections.
pub fn load_result() -> LoadResult {
    HEALTHY.clone()
}

/// The report of a healthy trial. Tests construct thousands of reports, and their histograms are large.
pub(crate) static HEALTHY: LazyLock<LoadResult> = LazyLock::new(|| LoadResult {
    clock: ClockFacts {
        source: "tsc".into(),
        reason: "made up".into(),
        frequency_hz: 1e9,
        drift_ppm: 0.0,
        went_back: 0,
    },
    pacing: Some(Pacing::Spin),
    roles: Roles::OneLoop,
    transport: Transport::Tcp,
    connections: 10,
    active: 10,
    connect_ns: 1,
    window_ns: 1_000_000_000,
    rate_asked_per_s: Some(1_000.0),
    planned: 1_000,
    sent: 1_000,
    completed: 1_000,
    rate_achieved_per_s: 999.0,
    completed_by_part: [0; PARTS],
    planned_by_part: None,
    rate_sent_per_s: 1_000.0,
    outstanding: Outstanding { at_start: 1, at_end: 2, after_cool_down: 0 },
    errors: Errors::default(),
    trial_requests: 1_000,
    closed_by_server: 0,
    queued_share: None,
    first_wrong: None,
    late: LateSends { bound_ns: 100_000, sent: 100, ..LateSends::default() },
    receiver_busy_share: None,
    stalled_ns: None,
    monitor_share: None,
    send_delay: measured([200; 10]),
    service: measured([50_000; 10]),
    response: measured([50_200; 10]),
    goodput: None,
    pauses: Vec::new(),
    slices: None,
    fit: None,
    closed: None,
    churn: None,
    http: None,
    tls: None,
    datagrams: None,
    stream: None,
    kernel: None,
    memory_bytes_per_connection: 48.0,
    processes: Vec::new(),
    begun_late_ns: 0,
    cpu_ns: 1,
    involuntary_switches: 0,
});
