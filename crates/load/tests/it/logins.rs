//! Key-value stores that let a connection in only after a login, and the password of HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use muxbench_load::config::{HttpTarget, HttpTraffic, KvTraffic, Login, Loop, Phases, Popularity, Think};
use muxbench_load::{Address, LoadConfig, ServiceSpec};
use wire::kv::KvConfig;
use wire::redis::{Redis, RedisConn};
use wire::{Service, secret};

use crate::server::{http, read_head, server};

const REDIS: ServiceSpec = ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };
const KV: ServiceSpec = ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };

/// The requests of a login, and the answer to each, of which the server sends the halves separately.
type Expected = &'static [(&'static str, &'static str)];

/// Returns whether a connection begins with these requests.
fn lets_in(stream: &mut (impl Read + Write), expected: Expected, refusal: &str) -> Option<()> {
    for (request, answer) in expected {
        let mut received = vec![0; request.len()];
        stream.read_exact(&mut received).ok()?;
        if received != request.as_bytes() {
            let _ = stream.write_all(refusal.as_bytes());
            return None;
        }
        let (first, second) = answer.split_at(2);
        for half in [first, second] {
            stream.write_all(half.as_bytes()).ok()?;
            stream.flush().ok()?;
        }
    }
    Some(())
}

/// Starts a Redis that needs a login, and closes each connection that is idle for 200 ms.
fn redis(expected: Expected) -> Address {
    let redis = Arc::new(Redis::new(&KvConfig::default(), Box::new(|| 1)));
    let serve = move |mut stream: TcpStream| -> Option<()> {
        lets_in(&mut stream, expected, "-WRONGPASS invalid username-password pair\r\n")?;
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (mut conn, mut inbox) = (RedisConn::default(), vec![0; 64 << 10]);
        loop {
            let count = stream.read(&mut inbox).ok().filter(|count| *count > 0)?;
            redis.receive(&mut conn, &inbox[..count]);
            let response = redis.unsent(&conn).to_vec();
            stream.write_all(&response).ok()?;
            redis.sent(&mut conn, response.len());
        }
    };
    server(move |stream| {
        serve(stream);
    })
    .into()
}

fn config(target: Address, service: ServiceSpec, login: Login) -> LoadConfig {
    LoadConfig::new(target, service).with(|it| {
        it.connections = 5;
        it.set_rate(Some(200.0));
        it.phases = Phases { ramp_ns: 0, warm_up_ns: 0, measure_ns: 1_000_000_000, cool_down_ns: 60_000_000_000 };
        it.client.timeout_ns = 60_000_000_000;
        it.client.login = Some(login);
        it.kv = Some(KvTraffic {
            records: 50,
            value_bytes_min: 10,
            value_bytes_max: 10,
            get_share: 0.5,
            keys: Popularity::Uniform,
        });
    })
}

fn login(user: &str, password: &str, database: Option<u32>) -> Login {
    Login { user: user.into(), password: secret::conceal(password), database }
}

/// An open loop, a closed loop, and short-lived connections in both.
fn loops(open: &LoadConfig, think: Think) -> [LoadConfig; 4] {
    let pace = open.pace().unwrap().clone();
    let loops = [
        Loop::Sessions { requests_per_connection: 2, pace },
        Loop::ClosedSessions { requests_per_connection: 2, think: Think::default() },
        open.the_loop.clone(),
        Loop::Closed { think, pipeline: 1 },
    ];
    loops.map(|the_loop| open.clone().with(|it| it.the_loop = the_loop))
}

#[test]
fn each_connection_to_redis_logs_in_and_selects_its_database() {
    const LOGIN: Expected = &[
        ("*3\r\n$4\r\nAUTH\r\n$3\r\nali\r\n$11\r\nopen sesame\r\n", "+OK\r\n"),
        ("*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n", "+OK\r\n"),
    ];
    // Lasting connections are idle for half a second.
    let open = config(redis(LOGIN), REDIS, login("ali", "open sesame", Some(2))).with(|it| {
        it.set_rate(Some(10.0));
        it.phases.measure_ns = 2_000_000_000;
    });
    for config in loops(&open, Think { mean_ns: 500_000_000, exponential: false }) {
        let report = muxbench_load::run(&config, &mut |_| ()).unwrap().report;
        // On a busy machine, the server may close a connection with a request under way.
        let (errors, closed) = (&report.errors, report.closed_by_server);
        assert_eq!(errors.total(), errors.short + errors.reset, "{errors:?}");
        assert!(report.completed > 5, "{} completed", report.completed);
        assert!(report.churn.is_some() || closed > 0, "{closed} closed, {errors:?}");
    }
}

#[test]
fn password_and_database_are_optional() {
    for (expected, own) in [
        (&[("*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n", "+OK\r\n")] as Expected, login("", "p", None)),
        (&[("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n", "+OK\r\n")], login("", "", Some(0))),
    ] {
        let report = muxbench_load::run(&config(redis(expected), REDIS, own), &mut |_| ()).unwrap().report;
        assert_eq!((report.completed, report.errors.total()), (report.planned, 0));
    }
}

#[test]
fn refused_login_quotes_the_server() {
    const LOGIN: Expected = &[("*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n", "+OK\r\n")];
    let error = |target, service, login| {
        muxbench_load::run(&config(target, service, login), &mut |_| ()).map(drop).unwrap_err().to_string()
    };
    let wrong = error(redis(LOGIN), REDIS, login("", "q", None));
    assert!(wrong.contains("wrong (the server answered `-WRONGPASS invalid username-password pair`)"), "{wrong}");
    assert!(wrong.contains("check the user, the password and the database in the URL"), "{wrong}");
    let unknown = Login { password: "{secret:0123456789abcdef}".into(), ..Login::default() };
    assert!(error(redis(LOGIN), REDIS, unknown).contains("is not stored; add it with --secret"));
    let kv = server(|mut stream| {
        lets_in(&mut stream, &[("set auth 0 0 5\r\na b c\r\n", "STORED\r\n")], "");
    });
    let ended = error(kv.into(), KV, login("a", "b c", None));
    assert!(ended.contains("short") || ended.contains("reset"), "it was let in, and then closed: {ended}");
    let refused = server(|mut stream| {
        lets_in(&mut stream, &[("set auth 0 0 3\r\na b\r\n", "")], "CLIENT_ERROR authentication failure\r\n");
    });
    let refused = error(refused.into(), KV, login("a", "c", None));
    assert!(refused.contains("`CLIENT_ERROR authentication failure`"), "{refused}");
}

#[test]
fn http_requests_have_the_password_unless_a_header_has_another() {
    let run = |headers: Vec<(String, String)>| {
        let (sender, heads) = mpsc::channel();
        let target = server(move |mut stream| {
            while let Some(head) = read_head(&mut stream) {
                sender.send(head).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        });
        let traffic = HttpTraffic { headers, ..HttpTraffic::new(vec![HttpTarget::get("/", None)]) };
        let config = config(target.into(), ServiceSpec::HTTP, login("ali", "open sesame", None));
        let config = config.with(|it| (it.kv, it.http) = (None, Some(traffic)));
        assert_eq!(muxbench_load::run(&config, &mut |_| ()).unwrap().report.errors.total(), 0);
        heads.recv().unwrap()
    };
    let head = run(Vec::new());
    assert!(head.contains("\r\nAuthorization: Basic YWxpOm9wZW4gc2VzYW1l\r\n"), "{head}");
    let head = run(vec![("authorization".into(), format!("Bearer {}", secret::conceal("barley")))]);
    assert!(head.contains("\r\nauthorization: Bearer barley\r\n") && !head.contains("Basic"), "{head}");
}

/// Each loop spreads its connections over two listeners, which are addresses of one name.
#[test]
fn connections_are_spread_over_all_addresses() {
    let counters: [Arc<AtomicU64>; 2] = Default::default();
    let [first, second] = counters.each_ref().map(|counter| {
        let (counter, serve) = (counter.clone(), http(u32::MAX));
        server(move |mut stream| {
            counter.fetch_add(1, SeqCst);
            (0..).all(|number| serve(&mut stream, number).is_some());
        })
    });
    let traffic = HttpTraffic::new(vec![HttpTarget::get("/", None)]);
    let config = config(first.into(), ServiceSpec::HTTP, Login::default()).with(|it| {
        (it.kv, it.http, it.client.login) = (None, Some(traffic), None);
        it.connections = 10;
        it.others = vec![second];
    });
    for config in loops(&config, Think::default()) {
        let report = muxbench_load::run(&config, &mut |_| ()).unwrap().report;
        assert_eq!(report.errors.total(), 0, "{:?}", report.errors);
        let counts = counters.each_ref().map(|counter| counter.swap(0, SeqCst));
        let (total, difference) = (counts[0] + counts[1], counts[0].abs_diff(counts[1]));
        assert!(total >= 10 && difference <= 2 && counts[1] > 0, "{counts:?}");
    }
}
