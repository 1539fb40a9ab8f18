//! The service `redis`: clients of Redis, comparisons with Redis, and handling of connections.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{ExternalServer, Random, Serve, load_without_errors, peer, prepared, text};
use server::Architecture;
use wire::ServiceSpec;

const SERVICE: &ServiceSpec = &ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };

fn redis() -> ExternalServer {
    let program = prepared("MUXBENCH_PEERS", "peers").join("redis-server");
    ExternalServer::start("redis-server", |port| {
        let mut command = Command::new(&program);
        // Write no files.
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning"]);
        command
    })
}

/// Runs `redis-benchmark` with ten connections, each of which sends this number of requests at once.
fn redis_benchmark(address: SocketAddr, at_once: u32) -> Result<(), String> {
    const TESTS: [&str; 6] = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"];
    let (host, port, at_once) = (address.ip().to_string(), address.port().to_string(), at_once.to_string());
    let tests = ["-t", "ping,set,get,incr,mset", "-n", "1000", "-c", "10", "-r", "100", "-d", "500", "--csv"];
    let output = peer("redis-benchmark", &[&["-h", &host, "-p", &port, "-P", &at_once], &tests[..]].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let is_measured = |test: &&str| out.lines().any(|line| line.starts_with(&format!("\"{test}\",\"")));
    let is_success = output.status.success() && err.is_empty() && TESTS.iter().all(is_measured);
    if is_success { Ok(()) } else { Err(format!("redis-benchmark ({}): {out}{err}", output.status)) }
}

fn redis_benchmark_passes(architecture: Architecture) {
    let serve = Serve::start_redis(architecture, &[]);
    for at_once in [1, 16] {
        redis_benchmark(serve.ip(), at_once).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert!(totals["requests"].as_u64().unwrap() >= 2 * 6 * 1000, "{architecture}: {totals}");
}

fn redis_benchmark_detects_wrong_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut inbox = [0; 4096];
                while stream.read(&mut inbox).is_ok_and(|count| count > 0) && stream.write_all(b"-ERR no\r\n").is_ok() {
                }
            });
        }
    });
    println!("{}", redis_benchmark(address, 1).expect_err("the tool detects errors"));
}

/// A connection that reads one reply after the other.
struct Conversation(BufReader<TcpStream>);

impl Conversation {
    fn new(address: SocketAddr) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn send(&mut self, request: &[u8]) -> Vec<u8> {
        self.0.get_mut().write_all(request).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<u8> {
        let mut reply = Vec::new();
        self.0.read_until(b'\n', &mut reply).unwrap();
        let number = || text(&reply[1..]).trim().parse::<i64>().unwrap();
        match reply.first().expect("the connection stays open") {
            b'$' if number() >= 0 => {
                let start = reply.len();
                reply.resize(start + number() as usize + 2, 0);
                self.0.read_exact(&mut reply[start..]).unwrap();
            }
            b'*' => (0..number()).for_each(|_| reply.extend(self.reply())),
            _ => {}
        }
        reply
    }
}

fn array(arguments: &[&str]) -> String {
    let strings: String = arguments.iter().map(|argument| format!("${}\r\n{argument}\r\n", argument.len())).collect();
    format!("*{}\r\n{strings}", arguments.len())
}

impl Random {
    /// A request as an array, or as a line if no argument needs quotes.
    fn request(&mut self) -> String {
        const KEYS: [&str; 3] = ["a", "b", "c"];
        let numbers = ["0", "7", "-1", "9223372036854775806", "-9223372036854775808"];
        let value =
            self.one(&[&numbers[..], &["", "05", "+5", "x y", "hello\r\nGET a", "9223372036854775808"]].concat());
        let [key, other] = [self.one(&KEYS), self.one(&KEYS)];
        let arguments = match self.below(12) {
            0..=1 => vec!["GET", key],
            2..=3 => vec!["set", key, value],
            4..=5 => vec!["INCR", key],
            6 => vec!["MGET", key, other, "none"],
            7 => vec!["MSET", key, value, other, "1"],
            8 => vec!["DEL", key, other],
            9 => vec!["EXISTS", key, key, other],
            10 => vec![self.one(&["PING", "ECHO", "echo", "CONFIG", "FOO", ""]), value],
            _ => vec![self.one(&["PING", "GET", "SET", "MGET", "MSET", "INCR", "DEL", "config", "nothing"])],
        };
        let is_plain = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
        if self.below(3) == 0 && arguments.iter().all(is_plain) {
            return format!("{}{}", arguments.join(self.one(&[" ", "  "])), self.one(&["\r\n", "\n", " \r\n"]));
        }
        array(&arguments)
    }
}

fn random_requests_get_the_responses_of_redis() {
    const REQUESTS: usize = 3_000;
    let (redis, serve) = (redis(), Serve::start_redis("epoll".parse().unwrap(), &[]));
    let [mut reference, mut tested] = [redis.address, serve.ip()].map(Conversation::new);
    let mut random = Random(7);
    for at in 0..REQUESTS {
        let request = random.request();
        let [printed, expected] = [&mut tested, &mut reference].map(|it| text(&it.send(request.as_bytes())));
        assert_eq!(printed, expected, "request {at}: {request:?}");
    }
}

/// Reads until the connection ends.
fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        // A connection with unread input is reset.
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error} after {}", text(&all)),
        _ => text(&all),
    }
}

fn invalid_requests_get_the_errors_of_redis() {
    let (redis, serve) = (redis(), Serve::start_redis("epoll".parse().unwrap(), &[]));
    let long_line = "x".repeat((64 << 10) + 1);
    let requests = [
        "*x\r\n",
        "*01\r\n",
        "*1\n$4\nPING\r\n",
        "*2147483648\r\n",
        "*1\r\nPING\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$x\r\n",
        "*1\r\n$600000000\r\n",
        "PING\r\nQUIT\r\nPING\r\n",
        "POST / HTTP/1.1\r\n\r\n",
        "*1\rx$4\rxPINGxxQUIT\r\n",
        &long_line,
        "*0\r\n*-1\r\n\r\n\nPING\r\nQUIT\r\n",
    ];
    for request in requests {
        let [expected, printed] = [redis.connect(), serve.connect()].map(|mut stream| {
            stream.write_all(request.as_bytes()).unwrap();
            rest(stream)
        });
        assert_eq!(printed, expected, "{request:?}");
    }
}

fn connection_ended_by_the_service_is_closed(architecture: Architecture) {
    let serve = Serve::start_redis(architecture, &[]);
    // The first and the second piece of the requests, and the responses expected before the connection closes.
    let endings = [
        ("QUIT\r\n", "", "+OK\r\n"),
        ("*1\r\n$4\r\nQU", "IT\r\n", "+OK\r\n"),
        ("GET a\r\nquit\r\n", "", "$-1\r\n+OK\r\n"),
        ("PING\r\n*1\r\n", "+4", "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n"),
    ];
    for (first, second, expected) in endings {
        let mut stream = serve.connect();
        stream.write_all(first.as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(if second.is_empty() { 0 } else { 20 }));
        stream.write_all(second.as_bytes()).unwrap();
        assert_eq!(rest(stream), expected, "{architecture}");
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["accepted"], 4, "{architecture}");
}

fn values_beyond_one_batch_arrive_whole(architecture: Architecture) {
    const KEYS: usize = 12;
    let value = "v".repeat(500_000);
    let reply = format!("$500000\r\n{value}\r\n");
    let serve = Serve::start_redis(architecture, &[]);
    let mut stream = serve.connect();
    let keys = [&["MGET"][..], &["big"; KEYS]].concat();
    let requests = [array(&["SET", "big", &value]), array(&keys), array(&["GET", "big"]).repeat(KEYS)].concat();
    stream.write_all(requests.as_bytes()).unwrap();
    // After a half-close the responses still arrive.
    stream.shutdown(Shutdown::Write).unwrap();
    thread::sleep(Duration::from_millis(20));
    let expected = ["+OK\r\n", &format!("*{KEYS}\r\n"), &reply.repeat(2 * KEYS)].concat();
    assert!(rest(stream) == expected, "{architecture}");
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["requests"].as_u64(), Some(2 + KEYS as u64), "{architecture}: each request is counted once");
}

fn concurrent_increments_add_up(architecture: Architecture) {
    const CONNECTIONS: u64 = 6;
    const ADDS: u64 = 300;
    let serve = Serve::start_redis(architecture, &[]);
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut conversation = Conversation(BufReader::new(serve.connect()));
                // Send all requests at once, so that a thread may receive several together.
                conversation.send("INCR sum\r\n".repeat(ADDS as usize).as_bytes());
                (1..ADDS).for_each(|_| assert!(conversation.reply().starts_with(b":"), "{architecture}"));
            });
        }
    });
    let mut last = Conversation(BufReader::new(serve.connect()));
    assert_eq!(text(&last.send(b"INCR sum\r\n")), format!(":{}\r\n", CONNECTIONS * ADDS + 1), "{architecture}");
}

fn client_loads_redis_without_errors() {
    let (redis, serve) = (redis(), Serve::start_redis("epoll".parse().unwrap(), &[]));
    let [of_redis, own] = [redis.address, serve.ip()].map(|address| format!("redis://{address}"));
    load_without_errors(&[&of_redis, "--rate", "500", "--records", "200", "--get-share", "50%"]);
    load_without_errors(&[&own, "--schedule", "closed", "--records", "200", "--pipeline", "8"]);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.kinds(SERVICE, case!(redis_benchmark_passes));
    cases.once(case!(redis_benchmark_detects_wrong_server));
    cases.once(case!(random_requests_get_the_responses_of_redis));
    cases.once(case!(invalid_requests_get_the_errors_of_redis));
    cases.once(case!(client_loads_redis_without_errors));
    cases.kinds(SERVICE, case!(connection_ended_by_the_service_is_closed));
    cases.kinds(SERVICE, case!(values_beyond_one_batch_arrive_whole));
    cases.kinds(SERVICE, case!(concurrent_increments_add_up));
}
