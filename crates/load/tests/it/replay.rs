//! Replays of recorded arrivals.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use muxbench_load::config::{Arrival, HttpTarget, HttpTraffic, Loop, Pace, Phases, Requests, Schedule, Sizes, Trace};
use muxbench_load::{Arrivals, Event, Listener, LoadConfig, LoadError, Outcome};
use wire::ServiceSpec;

use crate::server::{answer_all, read_head, server, service};

/// Arrivals from memory instead of a file.
struct Recorded(Vec<Arrival>);

impl Listener for Recorded {
    fn on(&mut self, _event: Event) {}

    fn arrivals(&mut self, trace: &Trace) -> Result<Arrivals, String> {
        assert_eq!(trace.file, Path::new("a.csv"));
        Ok(Box::new(self.0.clone().into_iter().map(Ok)))
    }
}

/// Creates a replay of 200 arrivals in 200 ms, of which every second one comes 0.3 ms early.
fn replay(config: LoadConfig) -> (LoadConfig, Vec<Arrival>) {
    let arrival = |at: u64| {
        let at_ns = (at * 1_000_000 - at % 2 * 300_000) as f64;
        Arrival { at_ns, connection: None, sizes: Sizes::default() }
    };
    let trace = Trace {
        file: "a.csv".into(),
        from_ns: 0,
        length_ns: 400_000_000,
        speed: 2.0,
        requests: 200,
        has_connections: false,
        sizes: Vec::new(),
    };
    let phases = Phases {
        ramp_ns: 50_000_000,
        warm_up_ns: 50_000_000,
        measure_ns: trace.window_ns(),
        cool_down_ns: 60_000_000_000,
    };
    let pace = Pace::new(Schedule::SlotRandom, trace.rate_per_s());
    let timeout_ns = 60_000_000_000;
    let config = config.with(|it| {
        it.connections = 10;
        it.the_loop = Loop::open(Requests { trace: Some(trace), ..pace.into() });
        it.phases = phases;
        it.client.timeout_ns = timeout_ns;
    });
    (config, (0..200).map(arrival).collect())
}

fn run(config: &LoadConfig, arrivals: &[Arrival]) -> Result<Outcome, LoadError> {
    muxbench_load::run_with(config, &mut Recorded(arrivals.to_vec()))
}

#[test]
fn each_client_sends_its_share_at_the_recorded_times() {
    let (config, arrivals) = replay(LoadConfig::new(server(answer_all), service()));
    for clients in [1, 3] {
        let Outcome { report, samples, .. } =
            run(&config.clone().with(|it| it.client.clients = clients), &arrivals).unwrap();
        assert_eq!((report.planned, report.completed, report.errors.total()), (200, 200, 0), "{report:?}");
        assert_eq!(report.planned_by_part.unwrap().iter().sum::<u64>(), 200);
        assert!(report.fit.is_some(), "the sends are tested against the recorded times");
        for (sample, arrival) in samples.iter().zip(&arrivals) {
            assert!((sample.planned_ns - arrival.at_ns as i64).abs() < 1_000, "{sample:?}: {arrival:?}");
        }
    }
}

#[test]
fn recorded_connections_are_used_over_all_clients() {
    let (mut config, mut arrivals) = replay(LoadConfig::new(server(answer_all), service()));
    for (number, arrival) in (0..).zip(&mut arrivals) {
        arrival.connection = Some(number * 7);
    }
    config.requests_mut().unwrap().trace.as_mut().unwrap().has_connections = true;
    for clients in [1, 4] {
        let Outcome { samples, .. } = run(&config.clone().with(|it| it.client.clients = clients), &arrivals).unwrap();
        let used: Vec<u32> = samples.iter().map(|sample| sample.connection).collect();
        let expected: Vec<u32> = (0..200).map(|number| number * 7 % 10).collect();
        assert_eq!(used, expected, "{clients} clients");
    }
    // Two processes divide the connections. For each, those of the other are idle ones, as on a host with two workers.
    let mut parts = config.with(|it| it.client.processes = 2).parts();
    parts.iter_mut().for_each(|part| part.idle = 5);
    let counts: Vec<usize> = parts.iter().map(|part| run(part, &arrivals).unwrap().samples.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 200);
    assert_eq!(counts, [100, 100]);
}

/// Answers HTTP requests to `/bytes/N`, and notes the sizes.
fn answer_sizes(mut stream: TcpStream, sizes: &Mutex<Vec<usize>>) -> Option<()> {
    loop {
        let head = read_head(&mut stream)?;
        let bytes = head.split(' ').nth(1)?.strip_prefix("/bytes/")?.parse().ok()?;
        sizes.lock().unwrap().push(bytes);
        let body = "x".repeat(bytes);
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{body}").as_bytes()).ok()?;
    }
}

#[test]
fn recorded_sizes_select_the_requests() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let target = server(move |stream| _ = answer_sizes(stream, &seen));
    let targets = [3, 50].map(|bytes| HttpTarget::get(format!("/bytes/{bytes}"), Some(bytes)));
    let http = HttpTraffic::new(targets.to_vec());
    let service = ServiceSpec::HTTP;
    let (mut config, mut arrivals) = replay(LoadConfig::new(target, service).with(|it| it.http = Some(http)));
    config.phases = Phases { ramp_ns: 0, warm_up_ns: 0, ..config.phases };
    let sizes_of = |bytes| Sizes { request_bytes: None, response_bytes: Some(bytes) };
    config.requests_mut().unwrap().trace.as_mut().unwrap().sizes = [3, 50].map(sizes_of).to_vec();
    for (number, arrival) in arrivals.iter_mut().enumerate() {
        arrival.sizes = sizes_of(if number % 5 == 0 { 50 } else { 3 });
    }
    let Outcome { report, .. } = run(&config, &arrivals).unwrap();
    assert_eq!((report.planned, report.completed, report.errors.total()), (200, 200, 0), "{report:?}");
    // Each of the 10 connections was verified by a request in turn.
    let large = sizes.lock().unwrap().iter().filter(|&&bytes| bytes == 50).count();
    assert_eq!((large, sizes.lock().unwrap().len()), (40 + 5, 200 + 10));
    arrivals[7].sizes = sizes_of(4);
    assert!(run(&config, &arrivals).unwrap_err().to_string().contains("a.csv has changed since the plan was made"));
}

#[test]
fn changed_file_is_refused() {
    let (config, arrivals) = replay(LoadConfig::new(server(answer_all), service()));
    let longer = [&arrivals[..], &arrivals[199..]].concat();
    for changed in [&arrivals[1..], &longer[..]] {
        let error = run(&config, changed).unwrap_err().to_string();
        assert_eq!(error, "workload.trace: a.csv has changed since the plan was made; start a new run");
    }
    let error = muxbench_load::run(&config, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("this client does not read a.csv"), "{error}");
}
