//! The trials of a run as CSV: a row for each trial, with its parameters and statistics. Also the writer of all CSV.

use std::collections::BTreeMap;

use harness::record::{Run, Trial, TrialRecord};
use harness::spec::busy_poll::BusyPolling;
use harness::spec::controllers;
use harness::spec::stall::Stall;
use harness::spec::units::{Think, Work};
use load::LoadResult;
use load::config::Transport;
use load::result::{KernelResult, Measured};
use serde::Serialize;
use serde_json::Value;
use server::metrics::counters::Totals;
use stats::Distribution;

use crate::analysis::client_tail::{self, P1, P25, P50, P75, P90, P95, P99, P999, Quantile};
use crate::analysis::stream::Streams;
use crate::analysis::workload::over_time;
use crate::format;

/// A row of CSV: fields with the names of their columns.
#[derive(Default)]
pub struct CsvRow {
    names: Vec<String>,
    fields: Vec<String>,
}

impl CsvRow {
    /// Appends a field: empty for `None`, otherwise the value as JSON without quotes.
    pub fn put(&mut self, name: impl Into<String>, value: impl Serialize) {
        self.names.push(name.into());
        self.fields.push(match serde_json::to_value(value).unwrap_or_default() {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        });
    }

    /// Appends quantiles, which are empty if the time has no values.
    fn put_quantiles(&mut self, name: &str, time: Option<&Distribution>, quantiles: &[NamedQuantile]) {
        let time = time.filter(|time| time.count > 0);
        for (quantile, (_, ns)) in quantiles {
            self.put(format!("{name}_{quantile}_ns"), time.map(ns));
        }
    }
}

type NamedQuantile = (&'static str, Quantile);

/// Writes a heading, then the rows, which all have the same columns. Without rows, writes nothing.
pub fn of_rows(rows: impl IntoIterator<Item = CsvRow>) -> String {
    let mut rows = rows.into_iter().peekable();
    let heading = rows.peek().map(|row| row.names.clone());
    of_records(heading.into_iter().chain(rows.map(|row| row.fields)))
}

/// Writes the heading of a row without values, then the rows, which all have its columns.
pub fn of_rows_under(heading: CsvRow, rows: impl IntoIterator<Item = CsvRow>) -> String {
    of_records([heading.names].into_iter().chain(rows.into_iter().map(|row| row.fields)))
}

/// Writes records, including the heading. Prefixes text with an apostrophe if a spreadsheet would parse it as a formula.
pub fn of_records<F: AsRef<str>>(records: impl IntoIterator<Item = impl IntoIterator<Item = F>>) -> String {
    let inert = |field: F| match field.as_ref() {
        formula if is_formula(formula) => format!("'{formula}"),
        text => text.to_owned(),
    };
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for record in records {
        writer.write_record(record.into_iter().map(inert)).expect("writing to memory cannot fail");
    }
    let written = writer.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(written).expect("every field is text")
}

fn is_formula(field: &str) -> bool {
    field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err()
}

/// Writes all finished trials.
pub fn of(run: &Run) -> String {
    let rows = run.records.iter().map(|record| row(&record.trial, Some(record)));
    // Without finished trials, a planned one names the columns.
    match run.header.trials.first() {
        Some(planned) => of_rows_under(row(planned, None), rows),
        None => of_rows(rows),
    }
}

fn row(trial: &Trial, record: Option<&TrialRecord>) -> CsvRow {
    let workload = &trial.workload;
    let serve = trial.serve.ours();
    let rate_achieved_per_s = record.and_then(TrialRecord::rate_achieved_per_s);
    let streams = record.and_then(|record| Streams::of(&[record], rate_achieved_per_s));
    let (request_bytes, response_bytes) = workload.service.fixed().unzip();
    let kv = workload.kv.as_ref();
    let load = record.and_then(|record| record.load.as_ref());
    let late = load.map(LoadResult::late_sends);
    let datagrams = load.and_then(|load| load.datagrams.as_ref());
    let goodput = load.and_then(|load| load.goodput.as_ref());
    let closed = load.and_then(|load| load.closed.as_ref());
    let churn = load.and_then(|load| load.churn.as_ref());
    let http = load.and_then(|load| load.http.as_ref());
    let paths = workload.http.iter().flat_map(|http| &http.targets).map(|target| target.path.as_str());
    let server = record.and_then(|record| record.server.as_ref());
    let network = record.and_then(|record| record.network.as_ref()).map(|network| &network.measured);
    let by_kind = |counts: fn(&Totals) -> &BTreeMap<String, u64>| {
        let counts = server.into_iter().flat_map(|server| counts(&server.totals));
        counts.map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(" ")
    };
    let mut row = CsvRow::default();
    row.put("trial", trial.index);
    row.put("repeat", trial.repeat);
    row.put("architecture", trial.architecture.to_string());
    row.put("placebo", trial.is_placebo);
    row.put("reference", trial.is_reference);
    row.put("accept", serve.map(|serve| serve.accept));
    row.put("read_budget_bytes", serve.map(|serve| u32::from(serve.read_budget_bytes)));
    row.put("controllers", serve.map(|serve| controllers::describe(&serve.controllers).join("; ")));
    match trial.load.transport() {
        Transport::Udp => row.put("transport", Transport::Udp),
        // The workload also tells IPv6 from IPv4.
        Transport::Tcp | Transport::Unix => row.put("transport", workload.transport),
    }
    row.put("connections", workload.service.ports().is_none().then_some(workload.connections));
    row.put("ports", workload.service.ports());
    row.put("active", workload.active);
    row.put("idle", workload.idle);
    row.put("popularity", workload.popularity.to_string());
    row.put("schedule", workload.trace.is_none().then_some(workload.schedule));
    row.put("think", Think(workload.think).to_string());
    row.put("service", workload.service.name());
    row.put("records", kv.map(|kv| kv.records));
    row.put("value_bytes_min", kv.map(|kv| kv.value_bytes_min));
    row.put("value_bytes_max", kv.map(|kv| kv.value_bytes_max));
    row.put("get_share", kv.map(|kv| kv.get_share));
    row.put("keys", kv.map(|kv| kv.keys.to_string()));
    row.put("rate_asked_per_s", workload.rate_per_s);
    row.put("rate_over_time", over_time(workload, ToString::to_string));
    row.put("request_bytes", request_bytes);
    row.put("response_bytes", response_bytes);
    row.put("ramp_ns", workload.phases.ramp_ns);
    row.put("warm_up_ns", workload.phases.warm_up_ns);
    row.put("measure_ns", workload.phases.measure_ns);
    row.put("cool_down_ns", workload.phases.cool_down_ns);
    row.put("seed", trial.load.seed);
    row.put("started_at", record.map(|record| &record.started_at));
    row.put("verdict", record.map(|record| format::verdict(record.verdict.kind)));
    row.put("reason", record.map(|record| &record.verdict.reason));
    row.put("rate_achieved_per_s", rate_achieved_per_s);
    row.put("planned", load.map(|load| load.planned));
    row.put("completed", load.map(|load| load.completed));
    row.put("errors", load.map(|load| load.errors.total()));
    row.put("attempts_timed_out", goodput.map(|it| it.timeouts));
    row.put("retries", goodput.map(|it| it.retries));
    row.put("lost", datagrams.map(|it| it.lost));
    row.put("duplicates", datagrams.map(|it| it.duplicates));
    row.put("reordered", datagrams.map(|it| it.reordered));
    // Transactions of a closed loop that were counted but not sampled.
    row.put("unsampled", closed.map(|closed| closed.unsampled));
    row.put("client_busy_share", closed.map(|closed| closed.busy_share));
    row.put("bytes_per_s", streams.map(|it| it.bytes_per_s));
    row.put("client_bytes_per_s", streams.map(|it| it.client_bytes_per_s));
    row.put("server_bytes_per_s", streams.and_then(|it| it.server_bytes_per_s));
    row.put("fairness", streams.map(|it| it.fairness));
    row.put("server_cpu_ns_per_gigabyte", streams.and_then(|it| it.cpu_ns_per_gigabyte));
    row.put("client_cpu_ns_per_gigabyte", streams.and_then(|it| it.client_cpu_ns_per_gigabyte));
    row.put("server_bytes_per_call", streams.and_then(|it| it.bytes_per_call));
    row.put("server_calls_per_wait", streams.and_then(|it| it.calls_per_wait));
    const USUAL: [NamedQuantile; 4] = [("p50", P50), ("p90", P90), ("p95", P95), ("p99", P99)];
    let [p50, p90, p95, p99] = USUAL;
    let (p999, max): (NamedQuantile, NamedQuantile) = (("p999", P999), ("max", (1.0, |it| it.max_ns)));
    let service = load.map(|load| &load.service.distribution).filter(|it| it.count > 0);
    row.put_quantiles("service", service, &[("p1", P1), ("p25", P25), p50, ("p75", P75), p90, p95, p99, p999, max]);
    row.put("service_mean_ns", service.map(|it| it.mean_ns));
    row.put("service_stddev_ns", service.map(|it| it.stddev_ns));
    row.put_quantiles("send_delay", load.map(|load| &load.send_delay.distribution), &[p50, p90, p95, p99, p999, max]);
    row.put_quantiles("response", load.map(|load| &load.response.distribution), &USUAL);
    row.put("late", late.map(|late| late.count));
    row.put("late_bound_ns", late.map(|late| late.bound_ns));
    row.put("clients_from", late.and_then(|late| client_tail::clients_from(&late)));
    row.put("receiver_busy_share", load.and_then(|load| load.receiver_busy_share));
    let kernel_times: [(&str, fn(&KernelResult) -> &Measured); 3] = [
        ("to_driver", |kernel| &kernel.to_driver),
        ("from_arrival", |kernel| &kernel.from_arrival),
        ("kernel_service", |kernel| &kernel.service),
    ];
    for (name, time) in kernel_times {
        let kernel = load.and_then(|load| load.kernel.as_ref());
        row.put_quantiles(name, kernel.map(|kernel| &time(kernel).distribution), &USUAL);
    }
    row.put("server_requests", server.and_then(|server| server.totals.requests));
    row.put("server_cpu_ns", server.map(|server| server.cpu_ns()));
    row.put("server_switches", server.map(|server| server.totals.switches()));
    row.put("server_syscalls", server.and_then(|server| server.totals.syscalls()));
    row.put("server_syscalls_by_kind", by_kind(|totals| &totals.syscalls));
    row.put("server_syscalls_outside", server.and_then(|server| server.totals.syscalls_outside()));
    row.put("server_syscalls_outside_by_kind", by_kind(|totals| &totals.syscalls_outside));
    row.put("memory_user_bytes_per_connection", server.and_then(|server| server.memory_user_bytes_per_connection));
    row.put("memory_kernel_bytes_per_connection", server.and_then(|server| server.memory_kernel_bytes_per_connection));
    row.put("paths", paths.collect::<Vec<_>>().join(" "));
    row.put("requests_per_connection", workload.requests_per_connection);
    row.put("pipeline", workload.pipeline);
    row.put("opened_per_s", churn.map(|churn| churn.opened_per_s));
    row.put_quantiles("connect", churn.map(|churn| &churn.connect.distribution), &USUAL);
    row.put_quantiles("first_byte", churn.map(|churn| &churn.first_byte.distribution), &USUAL);
    row.put_quantiles("ttfb", http.map(|http| &http.first_byte.distribution), &USUAL);
    let statuses = http.map(|http| http.statuses.iter().map(|(status, count)| format!("{status}={count}")));
    row.put("statuses", statuses.map(|it| it.collect::<Vec<_>>().join(" ")));
    row.put("reconnects", http.map(|http| http.reconnects));
    let tls = load.and_then(|load| load.tls.as_ref());
    row.put("tls_cipher", tls.map(|tls| &tls.cipher));
    for (name, times) in [("tls_full", tls.map(|tls| &tls.full)), ("tls_resumed", tls.map(|tls| &tls.resumed))] {
        let times = times.map(|times| &times.distribution);
        row.put(format!("{name}_handshakes"), times.map(|times| times.count));
        row.put_quantiles(name, times, &USUAL);
    }
    row.put("network", workload.network.as_ref().map(ToString::to_string));
    row.put("network_round_trip_p50_ns", network.map(|it| it.round_trip_p50_ns));
    row.put("network_round_trip_p99_ns", network.map(|it| it.round_trip_p99_ns));
    row.put("network_lost_share", network.map(harness::record::network::Measured::loss));
    // Readers may know columns by their position, so further ones are the last.
    let options = serve.map(|serve| serve.datagrams).filter(|_| workload.service.ports().is_some());
    row.put("stall", serve.and_then(|serve| serve.stall).map(|stall| Stall(stall).to_string()));
    row.put("datagram_batch", options.map(|it| it.batch));
    row.put("datagram_offload", options.map(|it| it.offload));
    row.put("busy_poll", serve.map(|serve| BusyPolling(serve.busy_poll).to_string()));
    row.put("work", workload.work.map(|work| Work(work).to_string()));
    row
}

#[cfg(test)]
mod tests {
    use harness::spec::ServerSpec;
    use server::{BusyPoll, DatagramOptions, ServiceSpec};

    use super::*;

    #[test]
    fn csv_has_a_row_for_each_trial() {
        let run = testkit::run();
        let text = of(&run);
        assert_eq!(text.lines().count(), run.records.len() + 1);
        insta::assert_snapshot!(text.lines().take(2).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn csv_without_finished_trials_has_its_heading() {
        let mut run = testkit::run();
        let full = of(&run);
        run.records.clear();
        assert_eq!(of(&run).lines().collect::<Vec<_>>(), [full.lines().next().unwrap()]);
    }

    #[test]
    fn options_that_change_figures_have_columns() {
        let mut run = testkit::run();
        let trial = &mut run.records[0].trial;
        trial.workload.service = ServiceSpec::Udp { ports: 2, request_bytes: 16, response_bytes: 16 };
        trial.workload.work = Some("cpu=50us".parse::<Work>().unwrap().0);
        let ServerSpec::Ours(serve) = &mut trial.serve else { panic!("{:?}", trial.serve) };
        serve.stall = Some(server::Stall { every_ns: 1_000_000_000, for_ns: 200_000_000 });
        serve.datagrams = DatagramOptions { batch: 32, offload: true };
        serve.busy_poll = Some(BusyPoll { time_us: 50, budget: 16, is_preferred: false, suspend_ns: None });
        let text = of(&run);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headings = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(|row| row.unwrap()).collect();
        let value = |row: usize, name: &str| &rows[row][headings.iter().position(|it| it == name).unwrap()];
        for (name, expected, usual) in [
            ("stall", "every=1s,for=200ms", ""),
            ("datagram_batch", "32", ""),
            ("datagram_offload", "true", ""),
            ("busy_poll", "50us:budget=16", "off"),
            ("work", "cpu=50us", ""),
        ] {
            assert_eq!((value(0, name), value(1, name)), (expected, usual), "{name}");
        }
    }

    #[test]
    fn transport_of_datagrams_is_udp() {
        let mut run = testkit::run();
        run.records[0].trial.load.service = ServiceSpec::Udp { ports: 2, request_bytes: 16, response_bytes: 16 };
        run.records[1].trial.workload.transport = harness::spec::transport::Transport::Tcp6;
        let text = of(&run);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let at = reader.headers().unwrap().iter().position(|name| name == "transport").unwrap();
        let transports: Vec<String> = reader.records().take(3).map(|row| row.unwrap()[at].to_owned()).collect();
        assert_eq!(transports, ["udp", "tcp6", "tcp"]);
    }

    #[test]
    fn times_without_responses_are_empty() {
        let mut run = testkit::run();
        let load = run.records[0].load.as_mut().unwrap();
        (load.service, load.response) = (Measured::default(), Measured::default());
        let text = of(&run);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headings = reader.headers().unwrap().clone();
        let row = reader.records().next().unwrap().unwrap();
        let times = headings
            .iter()
            .zip(&row)
            .filter(|(name, _)| ["service_", "response_"].iter().any(|it| name.starts_with(it)));
        let times: Vec<(&str, &str)> = times.filter(|(name, _)| name.ends_with("_ns")).collect();
        assert!(times.len() == 15 && times.iter().all(|(_, value)| value.is_empty()), "{times:?}");
        assert!(headings.iter().zip(&row).any(|(name, value)| name == "send_delay_p50_ns" && !value.is_empty()));
    }

    #[test]
    fn formula_in_text_gets_an_apostrophe() {
        let mut run = testkit::run();
        let formula = "=HYPERLINK(\"http://127.0.0.1/\",\"see\")";
        run.records[0].verdict.reason = formula.into();
        run.records[1].verdict.reason = "-1.5".into();
        let text = of(&run);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let at = reader.headers().unwrap().iter().position(|name| name == "reason").unwrap();
        let reasons: Vec<String> = reader.records().map(|record| record.unwrap()[at].to_owned()).collect();
        assert_eq!(reasons[0], format!("'{formula}"));
        assert_eq!(reasons[1], "-1.5", "a negative number stays a number");
    }
}
