//! One row a trial, with every parameter and figure.

use std::collections::BTreeMap;

use harness::model::{Run, TrialRecord};
use harness::spec::transport::Transport;
use harness::spec::units::Think;
use load::LoadReport;
use load::config::Schedule;
use load::report::{KernelReport, Measured};
use serde::Serialize;
use server::Accept;
use server::metrics::counters::Totals;
use stats::Distribution;

use crate::format;
use crate::model::client_tail;

#[derive(Serialize)]
struct Row {
    trial: u32,
    repeat: u32,
    architecture: String,
    accept: Option<Accept>,
    read_budget_bytes: Option<u32>,
    transport: Transport,
    /// None of datagrams...
    connections: Option<u32>,
    /// ...which have these.
    ports: Option<u32>,
    active: f64,
    idle: u32,
    choice: String,
    schedule: Schedule,
    think: String,
    service: &'static str,
    records: Option<u32>,
    value_bytes_min: Option<u32>,
    value_bytes_max: Option<u32>,
    get_share: Option<f64>,
    keys: Option<String>,
    rate_asked_per_s: Option<f64>,
    request_bytes: Option<u32>,
    response_bytes: Option<u32>,
    ramp_ns: u64,
    hold_ns: u64,
    measure_ns: u64,
    drain_ns: u64,
    seed: u64,
    started_at: String,
    verdict: &'static str,
    reason: String,
    rate_achieved_per_s: Option<f64>,
    planned: Option<u64>,
    completed: Option<u64>,
    errors: Option<u64>,
    lost: Option<u64>,
    duplicates: Option<u64>,
    reordered: Option<u64>,
    /// Transactions of a closed loop that are counted and no samples.
    unsampled: Option<u64>,
    client_busy_share: Option<f64>,
    /// Of streams: bytes of bursts a second where they arrive, as the client counts them and as the server does, and Jain's
    /// index of the connections.
    bytes_per_s: Option<f64>,
    client_bytes_per_s: Option<f64>,
    server_bytes_per_s: Option<f64>,
    fairness: Option<f64>,
    server_cpu_ns_per_gigabyte: Option<f64>,
    client_cpu_ns_per_gigabyte: Option<f64>,
    server_bytes_per_call: Option<f64>,
    server_calls_per_wait: Option<f64>,
    service_p1_ns: Option<u64>,
    service_p25_ns: Option<u64>,
    service_p50_ns: Option<u64>,
    service_p75_ns: Option<u64>,
    service_p90_ns: Option<u64>,
    service_p95_ns: Option<u64>,
    service_p99_ns: Option<u64>,
    service_p999_ns: Option<u64>,
    service_max_ns: Option<u64>,
    service_mean_ns: Option<f64>,
    service_stddev_ns: Option<f64>,
    lag_p50_ns: Option<u64>,
    lag_p90_ns: Option<u64>,
    lag_p95_ns: Option<u64>,
    lag_p99_ns: Option<u64>,
    lag_p999_ns: Option<u64>,
    lag_max_ns: Option<u64>,
    response_p50_ns: Option<u64>,
    response_p90_ns: Option<u64>,
    response_p95_ns: Option<u64>,
    response_p99_ns: Option<u64>,
    /// Requests that the client sent late, and what late is.
    late: Option<u64>,
    late_bound_ns: Option<u64>,
    /// The lowest quantile of service and response time that may be the client's doing for that, as in `p99`.
    clients_from: Option<&'static str>,
    receiver_busy_share: Option<f64>,
    to_driver_p50_ns: Option<u64>,
    to_driver_p99_ns: Option<u64>,
    from_arrival_p50_ns: Option<u64>,
    from_arrival_p99_ns: Option<u64>,
    kernel_service_p50_ns: Option<u64>,
    kernel_service_p99_ns: Option<u64>,
    server_requests: Option<u64>,
    server_cpu_ns: Option<u64>,
    server_switches: Option<u64>,
    server_syscalls: Option<u64>,
    /// As in `read=1000 write=1000`.
    server_syscalls_by_kind: String,
    server_syscalls_outside: Option<u64>,
    server_syscalls_outside_by_kind: String,
    memory_user_bytes_per_connection: Option<f64>,
    memory_kernel_bytes_per_connection: Option<f64>,
    /// Asked for, with a space between several.
    paths: String,
    calls_per_connection: Option<u32>,
    opened_per_s: Option<f64>,
    connect_p50_ns: Option<u64>,
    connect_p99_ns: Option<u64>,
    first_byte_p50_ns: Option<u64>,
    first_byte_p99_ns: Option<u64>,
    /// The lab, in words; empty over loopback.
    network: String,
    network_round_trip_p50_ns: Option<u64>,
    network_round_trip_p99_ns: Option<u64>,
    network_lost_share: Option<f64>,
}

/// All finished trials, with a heading.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn of(run: &Run) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in &run.records {
        writer.serialize(row(record))?;
    }
    finished(writer)
}

/// What was written, in which nothing is a formula: a text that a spreadsheet would compute has an apostrophe before it.
pub fn finished(writer: csv::Writer<Vec<u8>>) -> anyhow::Result<String> {
    let written = writer.into_inner()?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&written[..]);
    let mut inert = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for record in reader.records() {
        inert.write_record(record?.iter().map(|field| match is_formula(field) {
            true => format!("'{field}"),
            false => field.to_owned(),
        }))?;
    }
    Ok(String::from_utf8(inert.into_inner()?)?)
}

fn is_formula(field: &str) -> bool {
    field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err()
}

fn row(record: &TrialRecord) -> Row {
    let trial = &record.trial;
    let streams = crate::model::stream::Streams::of(&[record]);
    let (request_bytes, response_bytes) = trial.workload.service.fixed().unzip();
    let kv = trial.workload.kv.as_ref();
    let phases = trial.workload.phases;
    let load = record.load.as_ref();
    let late = load.map(LoadReport::late_sends);
    let churn = load.and_then(|load| load.churn.as_ref());
    let targets = trial.workload.http.iter().flat_map(|http| &http.targets);
    let paths: Vec<&str> = targets.map(|target| target.path.as_str()).collect();
    let server = record.server.as_ref();
    let measured = record.network.as_ref().map(|network| &network.measured);
    let datagrams = load.and_then(|load| load.datagrams.as_ref());
    let service = |figure: fn(&Distribution) -> u64| load.map(|load| figure(&load.service.distribution));
    let lag = |figure: fn(&Distribution) -> u64| load.map(|load| figure(&load.lag.distribution));
    let response = |figure: fn(&Distribution) -> u64| load.map(|load| figure(&load.response.distribution));
    let kernel = |time: fn(&KernelReport) -> &Measured, figure: fn(&Distribution) -> u64| {
        Some(figure(&time(load?.kernel.as_ref()?).distribution))
    };
    let by_kind = |figure: fn(&Totals) -> &BTreeMap<String, u64>| {
        let counts = server.into_iter().flat_map(|server| figure(&server.totals));
        counts.map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(" ")
    };
    Row {
        trial: trial.index,
        repeat: trial.repeat,
        architecture: trial.architecture.to_string(),
        accept: trial.serve.ours().map(|serve| serve.accept),
        read_budget_bytes: trial.serve.ours().map(|serve| serve.read_budget_bytes.into()),
        transport: trial.workload.transport,
        connections: trial.workload.service.ports().is_none().then_some(trial.workload.connections),
        ports: trial.workload.service.ports(),
        active: trial.workload.active,
        idle: trial.workload.idle,
        choice: trial.workload.choice.to_string(),
        schedule: trial.workload.schedule,
        think: Think(trial.workload.think).to_string(),
        service: trial.workload.service.name(),
        records: kv.map(|kv| kv.records),
        value_bytes_min: kv.map(|kv| kv.value_bytes_min),
        value_bytes_max: kv.map(|kv| kv.value_bytes_max),
        get_share: kv.map(|kv| kv.get_share),
        keys: kv.map(|kv| kv.keys.to_string()),
        rate_asked_per_s: trial.workload.rate_per_s,
        request_bytes,
        response_bytes,
        ramp_ns: phases.ramp_ns,
        hold_ns: phases.hold_ns,
        measure_ns: phases.measure_ns,
        drain_ns: phases.drain_ns,
        seed: trial.load.seed,
        started_at: record.started_at.clone(),
        verdict: format::verdict(record.verdict.kind),
        reason: record.verdict.reason.clone(),
        rate_achieved_per_s: record.rate_achieved_per_s(),
        planned: load.map(|load| load.planned),
        completed: load.map(|load| load.completed),
        errors: load.map(|load| load.errors.total()),
        lost: datagrams.map(|datagrams| datagrams.lost),
        duplicates: datagrams.map(|datagrams| datagrams.duplicates),
        reordered: datagrams.map(|datagrams| datagrams.reordered),
        unsampled: load.and_then(|load| Some(load.closed.as_ref()?.unsampled)),
        bytes_per_s: streams.map(|streams| streams.bytes_per_s),
        client_bytes_per_s: streams.map(|streams| streams.client_bytes_per_s),
        fairness: streams.map(|streams| streams.fairness),
        server_bytes_per_s: streams.and_then(|streams| streams.server_bytes_per_s),
        server_cpu_ns_per_gigabyte: streams.and_then(|streams| streams.cpu_ns_per_gigabyte),
        client_cpu_ns_per_gigabyte: streams.and_then(|streams| streams.client_cpu_ns_per_gigabyte),
        server_bytes_per_call: streams.and_then(|streams| streams.bytes_per_call),
        server_calls_per_wait: streams.and_then(|streams| streams.calls_per_wait),
        client_busy_share: load.and_then(|load| Some(load.closed.as_ref()?.busy_share)),
        service_p1_ns: service(|d| d.p1_ns),
        service_p25_ns: service(|d| d.p25_ns),
        service_p50_ns: service(|d| d.p50_ns),
        service_p75_ns: service(|d| d.p75_ns),
        service_p90_ns: service(|d| d.p90_ns),
        service_p95_ns: service(|d| d.p95_ns),
        service_p99_ns: service(|d| d.p99_ns),
        service_p999_ns: service(|d| d.p999_ns),
        service_max_ns: service(|d| d.max_ns),
        service_mean_ns: load.map(|load| load.service.distribution.mean_ns),
        service_stddev_ns: load.map(|load| load.service.distribution.stddev_ns),
        lag_p50_ns: lag(|d| d.p50_ns),
        lag_p90_ns: lag(|d| d.p90_ns),
        lag_p95_ns: lag(|d| d.p95_ns),
        lag_p99_ns: lag(|d| d.p99_ns),
        lag_p999_ns: lag(|d| d.p999_ns),
        lag_max_ns: lag(|d| d.max_ns),
        response_p50_ns: response(|d| d.p50_ns),
        response_p90_ns: response(|d| d.p90_ns),
        response_p95_ns: response(|d| d.p95_ns),
        response_p99_ns: response(|d| d.p99_ns),
        late: late.map(|late| late.count),
        late_bound_ns: late.map(|late| late.bound_ns),
        clients_from: late.and_then(|late| client_tail::clients_from(&late)),
        receiver_busy_share: load.and_then(|load| load.receiver_busy_share),
        to_driver_p50_ns: kernel(|k| &k.to_driver, |d| d.p50_ns),
        to_driver_p99_ns: kernel(|k| &k.to_driver, |d| d.p99_ns),
        from_arrival_p50_ns: kernel(|k| &k.from_arrival, |d| d.p50_ns),
        from_arrival_p99_ns: kernel(|k| &k.from_arrival, |d| d.p99_ns),
        kernel_service_p50_ns: kernel(|k| &k.service, |d| d.p50_ns),
        kernel_service_p99_ns: kernel(|k| &k.service, |d| d.p99_ns),
        server_requests: server.and_then(|server| server.totals.requests),
        server_cpu_ns: server.map(|server| server.cpu_ns()),
        server_switches: server.map(|server| server.totals.switches()),
        server_syscalls: server.and_then(|server| server.totals.syscalls()),
        server_syscalls_by_kind: by_kind(|totals| &totals.syscalls),
        server_syscalls_outside: server.and_then(|server| server.totals.syscalls_outside()),
        server_syscalls_outside_by_kind: by_kind(|totals| &totals.syscalls_outside),
        memory_user_bytes_per_connection: server.and_then(|server| server.memory_user_bytes_per_connection),
        memory_kernel_bytes_per_connection: server.and_then(|server| server.memory_kernel_bytes_per_connection),
        paths: paths.join(" "),
        calls_per_connection: trial.workload.calls_per_connection,
        opened_per_s: churn.map(|churn| churn.opened_per_s),
        connect_p50_ns: churn.map(|churn| churn.connect.distribution.p50_ns),
        connect_p99_ns: churn.map(|churn| churn.connect.distribution.p99_ns),
        first_byte_p50_ns: churn.map(|churn| churn.first_byte.distribution.p50_ns),
        first_byte_p99_ns: churn.map(|churn| churn.first_byte.distribution.p99_ns),
        network: trial.workload.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        network_round_trip_p50_ns: measured.map(|it| it.round_trip_p50_ns),
        network_round_trip_p99_ns: measured.map(|it| it.round_trip_p99_ns),
        network_lost_share: measured.map(harness::model::network::Measured::loss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_trial() {
        let run = crate::fixtures::run();
        let text = of(&run).unwrap();
        assert_eq!(text.lines().count(), run.records.len() + 1);
        insta::assert_snapshot!(text.lines().take(2).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn nothing_that_others_wrote_is_computed() {
        let mut run = crate::fixtures::run();
        let formula = "=HYPERLINK(\"http://127.0.0.1/\",\"see\")";
        run.records[0].verdict.reason = formula.into();
        run.records[1].verdict.reason = "-1.5".into();
        let text = of(&run).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let at = reader.headers().unwrap().iter().position(|name| name == "reason").unwrap();
        let reasons: Vec<String> = reader.records().map(|record| record.unwrap()[at].to_owned()).collect();
        assert_eq!(reasons[0], format!("'{formula}"));
        assert_eq!(reasons[1], "-1.5", "a number is one");
    }
}
