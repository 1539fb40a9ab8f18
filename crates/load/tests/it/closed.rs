//! The closed loop against a key-value store in this process, and against servers with known faults.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use muxbench_load::config::{KvTraffic, Loop, Pace, Phases, Popularity, Roles, Schedule, Think, Timestamps};
use muxbench_load::{Event, LoadConfig, LoadError, Outcome, Sample};
use wire::kv::{Kv, KvConfig, KvConn};
use wire::{Service, ServiceSpec};

use crate::server::{REQUEST, RESPONSE, answer_one, server, service};

/// The length of the first of a store's responses.
fn first_bytes(responses: &[u8]) -> usize {
    let line = responses.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let words = String::from_utf8_lossy(&responses[..line]).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if words[0] == "VALUE" { line + words[3].parse::<usize>().unwrap() + b"\r\nEND\r\n".len() } else { line }
}

/// Starts a key-value store and passes each response through `change`. A read may return several requests of a late client.
fn store(change: fn(&mut Vec<u8>)) -> SocketAddr {
    let kv = Kv::new(KvConfig::default(), Box::new(|| 1));
    server(move |mut stream| {
        let (mut conn, mut inbox) = (KvConn::default(), vec![0; 64 << 10]);
        while let Ok(count @ 1..) = stream.read(&mut inbox) {
            kv.receive(&mut conn, &inbox[..count]);
            let mut responses = kv.unsent(&conn).to_vec();
            kv.sent(&mut conn, responses.len());
            let mut changed = Vec::new();
            while !responses.is_empty() {
                let mut response: Vec<u8> = responses.drain(..first_bytes(&responses)).collect();
                change(&mut response);
                changed.append(&mut response);
            }
            if stream.write_all(&changed).is_err() {
                return;
            }
        }
    })
}

/// Answers the first `limit` requests of each connection.
fn honest(limit: u32) -> SocketAddr {
    server(move |mut stream| {
        let _ = (0..limit).try_for_each(|_| answer_one(&mut stream));
    })
}

fn closed(target: SocketAddr, service: ServiceSpec) -> LoadConfig {
    LoadConfig::new(target, service).with(|it| {
        it.connections = 10;
        it.the_loop = Loop::CLOSED;
        it.phases =
            Phases { ramp_ns: 50_000_000, warm_up_ns: 0, measure_ns: 200_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
    })
}

/// Extends the window, so that a busy machine serves every connection in it.
fn for_long(config: LoadConfig) -> LoadConfig {
    config.with(|it| it.phases.measure_ns = 2_000_000_000)
}

fn fixed(target: SocketAddr) -> LoadConfig {
    closed(target, service())
}

fn kv(target: SocketAddr) -> LoadConfig {
    let traffic = KvTraffic {
        records: 2_000,
        value_bytes_min: 10,
        value_bytes_max: 1_000,
        get_share: 0.9,
        keys: Popularity::Zipf { exponent: 0.99 },
    };
    let service = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
    closed(target, service).with(|it| it.kv = Some(traffic))
}

/// Converts a load to an open loop with 600 requests per second.
fn open(config: LoadConfig) -> LoadConfig {
    config.with(|it| it.the_loop = Loop::open(Pace::new(Schedule::SlotRandom, 600.0)))
}

fn run(config: &LoadConfig) -> Outcome {
    muxbench_load::run(config, &mut |_| ()).unwrap()
}

/// Asserts at most one outstanding request per connection: each is due at least `think_ns` after the previous response.
fn assert_closed(samples: &[Sample], connections: u32, think_ns: i64) {
    let mut used: Vec<u32> = samples.iter().map(|sample| sample.connection).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), connections as usize, "{used:?}");
    for connection in used {
        let these: Vec<&Sample> = samples.iter().filter(|sample| sample.connection == connection).collect();
        for pair in these.windows(2) {
            // Times are rounded to nanoseconds.
            assert!(pair[1].planned_ns - pair[0].complete_ns >= think_ns - 1, "{pair:?}");
            assert!(pair[1].planned_ns <= pair[1].sent_ns && pair[1].sent_ns < pair[1].complete_ns, "{pair:?}");
        }
    }
}

#[test]
fn pipeline_sends_several_requests_at_once() {
    for config in [fixed(honest(u32::MAX)), kv(store(|_| ()))] {
        let Outcome { report, samples, .. } =
            run(&for_long(config).with(|it| it.the_loop = Loop::Closed { think: Think::default(), pipeline: 4 }));
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        let mut batches = BTreeMap::<(u32, i64), u32>::new();
        samples.iter().for_each(|it| *batches.entry((it.connection, it.sent_ns)).or_default() += 1);
        assert!(!batches.is_empty() && batches.values().all(|&count| count == 4), "{batches:?}");
    }
}

#[test]
fn pipeline_loses_all_outstanding_requests() {
    // After the request that verifies the connection, one batch has all responses, and the next one has only the first.
    let failing = run(&fixed(honest(6)).with(|it| it.the_loop = Loop::Closed { think: Think::default(), pipeline: 4 }));
    assert_eq!(failing.report.errors.total(), 30, "{:?}", failing.report.errors);
}

#[test]
fn each_connection_has_one_request_outstanding() {
    let target = honest(u32::MAX);
    for clients in [1, 3] {
        let Outcome { report, samples, connections } =
            run(&for_long(fixed(target).with(|it| it.client.clients = clients)));
        assert_eq!((report.errors.total(), connections.len()), (0, 10), "{:?}", report.errors);
        assert_eq!((report.planned, report.completed), (samples.len() as u64, samples.len() as u64));
        assert_eq!((report.rate_asked_per_s, report.pacing, report.fit.is_none()), (None, None, true));
        assert_closed(&samples, 10, 0);
        let closed = report.closed.unwrap();
        let completed: u64 = report.completed_by_part.iter().sum();
        assert_eq!(report.rate_achieved_per_s, completed as f64 / 2.0);
        assert!(
            completed.abs_diff(report.completed) <= 20,
            "{completed} and {} differ only by transactions at the edges",
            report.completed
        );
        assert_eq!(closed.unsampled, 0);
        assert!(closed.busy_share > 0.0, "{closed:?}");
        assert_eq!((report.outstanding.after_cool_down, report.roles), (0, muxbench_load::config::Roles::OneLoop));
        assert!(report.memory_bytes_per_connection <= 256.0, "{}", report.memory_bytes_per_connection);
    }
}

#[test]
fn response_beyond_the_timeout_ends_its_connection() {
    let target = server(|mut stream| {
        let _ = (0..2).try_for_each(|_| answer_one(&mut stream));
        while let Ok(1..) = stream.read(&mut [0; 1024]) {}
    });
    let report = run(&fixed(target).with(|it| it.client.timeout_ns = 1_000_000_000)).report;
    assert_eq!((report.errors.timeout, report.errors.total()), (10, 10), "{:?}", report.errors);
    assert_eq!(report.outstanding.after_cool_down, 0, "the trial does not wait for its cool-down of a minute");
}

#[test]
fn connections_think_between_transactions() {
    let target = honest(u32::MAX);
    for exponential in [false, true] {
        let think = Think { mean_ns: 10_000_000, exponential };
        let Outcome { report, samples, .. } = run(&for_long(fixed(target).with(|it| {
            (it.the_loop, it.client.clients) = (Loop::Closed { think, pipeline: 1 }, 2);
        })));
        assert_eq!(report.errors.total(), 0);
        assert_closed(&samples, 10, if exponential { 0 } else { 10_000_000 });
        // Ten connections with a think time of 10 ms send at most a thousand requests per second; random times allow a few
        // more.
        assert!(
            report.rate_achieved_per_s < if exponential { 1_400.0 } else { 1_050.0 },
            "{}",
            report.rate_achieved_per_s
        );
        assert_eq!(report.closed.unwrap().think_ns, 10_000_000);
    }
}

#[test]
fn values_are_stored_and_verified() {
    let mut prepared = 0;
    let mut connected = false;
    let config = for_long(kv(store(|_| ())));
    let outcome = muxbench_load::run(&config, &mut |event| match event {
        Event::Preparing { done, total: 2_000 } => prepared = done,
        Event::Connected { .. } => connected = true,
        _ => {}
    });
    let Outcome { report, samples, .. } = outcome.unwrap();
    assert!(connected && prepared <= 2_000);
    assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
    assert_closed(&samples, 10, 0);
    assert!(report.memory_bytes_per_connection <= 256.0, "{}", report.memory_bytes_per_connection);
}

#[test]
fn wrong_responses_of_a_store_are_counted_by_class() {
    // Flip a bit at the end of each value. Responses to sets stay correct.
    let target = store(|response| {
        if response.starts_with(b"VALUE") {
            let at = response.len() - b"x\r\nEND\r\n".len();
            response[at] ^= 1;
        }
    });
    let report = run(&for_long(kv(target))).report;
    assert!(report.errors.wrong > 0, "{:?}", report.errors);
    assert_eq!(report.errors.wrong, report.errors.total());
    assert!(report.completed > report.connections.into(), "a wrong value ends no connection");

    let report = run(&for_long(kv(store(|response| {
        if response.starts_with(b"VALUE") {
            *response = b"END\r\n".to_vec();
        }
    }))))
    .report;
    assert!(report.errors.miss > 0 && report.errors.miss == report.errors.total(), "{:?}", report.errors);

    let report = run(&for_long(kv(store(|response| {
        if response.starts_with(b"VALUE") {
            *response = b"SERVER_ERROR busy\r\n".to_vec();
        }
    }))))
    .report;
    assert!(report.errors.rejected > 0 && report.errors.rejected == report.errors.total(), "{:?}", report.errors);

    let started = Instant::now();
    let report = run(&kv(store(|response| {
        if response.starts_with(b"VALUE") {
            *response = b"HTTP/1.1 200 OK\r\n".to_vec();
        }
    })))
    .report;
    assert_eq!((report.errors.wrong, report.errors.total()), (10, 10), "each connection ends: {:?}", report.errors);
    assert!(started.elapsed() < Duration::from_secs(8), "the load ends early");
}

#[test]
fn open_loop_verifies_responses_of_a_store() {
    let target = store(|_| ());
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        for timestamps in [Timestamps::Client, Timestamps::Kernel] {
            let config = open(kv(target))
                .with(|it| (it.client.roles, it.client.timestamps, it.client.clients) = (roles, timestamps, 2));
            let Outcome { report, .. } = run(&config);
            assert_eq!((report.completed, report.errors.total()), (120, 0), "{roles:?}: {:?}", report.errors);
            // Requests differ in length. Each has a timestamp, except for those that a late client wrote into one packet.
            assert!(
                report.kernel.map_or(0, |kernel| kernel.unstamped_sent) < 120,
                "{roles:?}: no request has a timestamp"
            );
        }
    }
    let liar = store(|response| {
        if response.starts_with(b"VALUE") {
            *response = b"END\r\n".to_vec();
        }
    });
    let report = run(&open(kv(liar))).report;
    // Nine in ten of the 120 requests are gets.
    assert!(report.errors.miss > 60 && report.errors.miss == report.errors.total(), "{:?}", report.errors);
    assert_eq!(report.completed, 120, "a miss is a response, and ends no connection");
}

#[test]
fn requests_larger_than_the_socket_buffer_arrive_whole() {
    // A store that pauses reading after the data set is stored.
    let kv_store = Kv::new(KvConfig { memory_max_bytes: 256 << 20, ..KvConfig::default() }, Box::new(|| 1));
    let target = server(move |mut stream| {
        let (mut conn, mut inbox, mut answered) = (KvConn::default(), vec![0; 64 << 10], 0);
        let mut is_rested = false;
        while let Ok(count @ 1..) = stream.read(&mut inbox) {
            answered += kv_store.receive(&mut conn, &inbox[..count]);
            if answered >= 22 && !is_rested {
                is_rested = true;
                thread::sleep(Duration::from_millis(300));
            }
            while !kv_store.unsent(&conn).is_empty() {
                let response = kv_store.unsent(&conn).to_vec();
                answered += kv_store.sent(&mut conn, response.len());
                if stream.write_all(&response).is_err() {
                    return;
                }
            }
        }
    });
    let traffic = KvTraffic {
        records: 20,
        value_bytes_min: 1,
        value_bytes_max: 300_000,
        get_share: 0.0,
        keys: Popularity::Uniform,
    };
    for roles in [Roles::OneLoop, Roles::TwoThreads] {
        let config =
            open(kv(target)).with(|it| (it.connections, it.kv, it.client.roles) = (1, Some(traffic.clone()), roles));
        let Outcome { report, .. } = run(&config);
        assert_eq!((report.completed, report.errors.total()), (120, 0), "{roles:?}: {:?}", report.errors);
        assert!(report.service.distribution.max_ns > 50_000_000, "service time includes the wait for the socket");
    }
}

#[test]
fn unstored_data_set_fails_the_load() {
    // A server that stores three records per connection, and then has no memory.
    let target = server(|stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).split(b'\n');
        let mut stream = stream;
        let mut number = 0;
        // Count commands instead of lines, because values may contain line ends.
        while let Some(Ok(line)) = lines.next() {
            if !line.starts_with(b"set record-") {
                continue;
            }
            number += 1;
            let answer: &[u8] = if number <= 3 { b"STORED\r\n" } else { b"SERVER_ERROR out of memory\r\n" };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    });
    let error = muxbench_load::run(&kv(target), &mut |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Store { number: 3, total: 2_000, class: "rejected", .. }), "{error}");
    assert!(
        error.to_string().contains("rejected (the server answered `SERVER_ERROR out of memory`); raise"),
        "{error}"
    );
}

#[test]
fn request_without_response_or_connection_counts_once() {
    let mut config = fixed(server(|mut stream| {
        for number in 0.. {
            if stream.read_exact(&mut [0; REQUEST]).is_err() {
                return;
            }
            // Responses from the fourth on are incomplete.
            let bytes = if number < 3 { RESPONSE } else { RESPONSE - 1 };
            if stream.write_all(&vec![0; bytes]).is_err() {
                return;
            }
        }
    }));
    // Each connection has a request outstanding at the end of the window.
    config.phases = Phases { ramp_ns: 0, measure_ns: 2_000_000_000, cool_down_ns: 50_000_000, ..config.phases };
    let Outcome { report, .. } = run(&config);
    assert_eq!((report.errors.timeout, report.errors.total()), (10, 10), "{:?}", report.errors);
    assert_eq!((report.outstanding.at_end, report.outstanding.after_cool_down), (10, 10));
    assert_eq!(report.planned - report.completed, 10);

    let started = Instant::now();
    let mut config = fixed(honest(50));
    config.phases.measure_ns = 20_000_000_000;
    let Outcome { report, .. } = run(&config);
    assert!(started.elapsed() < Duration::from_secs(10), "the load ends before the window does");
    assert_eq!(report.errors.short + report.errors.reset, 10, "{:?}", report.errors);
    assert_eq!(report.errors.total(), 10, "{:?}", report.errors);
}

#[test]
fn partly_accepted_requests_arrive_whole() {
    let request_bytes = 8 << 20;
    let target = server(move |mut stream| {
        let (mut request, expected) = (vec![0; request_bytes], vec![0x5a; request_bytes]);
        while stream.read_exact(&mut request).is_ok() {
            if request != expected || stream.write_all(&[1]).is_err() {
                return;
            }
        }
    });
    let service = ServiceSpec::Fixed { request_bytes: request_bytes as u32, response_bytes: 1 };
    let mut config = closed(target, service).with(|it| it.connections = 2);
    // Long enough for one transaction per connection in the window, even on a busy machine.
    config.phases.measure_ns = 2_000_000_000;
    let Outcome { report, samples, .. } = run(&config);
    assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
    assert_closed(&samples, 2, 0);
}

#[test]
fn same_seed_sends_same_requests() {
    let requested = |seed| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let target = server(move |mut stream| {
            // One connection: its greeting, its data set, then requests determined by the seed.
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
                let words: Vec<String> = String::from_utf8_lossy(&line).split_whitespace().map(str::to_owned).collect();
                line.clear();
                if words[0] == "set" {
                    reader.read_exact(&mut vec![0; words[4].parse::<usize>().unwrap() + 2]).unwrap();
                }
                sender.send(words[..2].join(" ")).unwrap();
                let answer: &[u8] = if words[0] == "set" { b"STORED\r\n" } else { b"END\r\n" };
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
        run(&for_long(kv(target).with(|it| (it.connections, it.client.seed) = (1, seed))));
        let mut requested = (0..2_101)
            .map(|_| receiver.recv_timeout(Duration::from_secs(30)).expect("the server gets enough requests"));
        requested.by_ref().take(2_001).for_each(drop);
        requested.collect::<Vec<_>>()
    };
    assert_eq!(requested(3), requested(3));
    assert_ne!(requested(3), requested(4));
}
