//! The service `http` in every architecture: real clients, and handling of connections.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::symlink;
use std::process::Output;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::{Cases, case};
use crate::common::{Serve, eventually, peer, read_head, text};
use rustix::event::{PollFd, PollFlags};
use server::Architecture;
use wire::ServiceSpec;

const SERVICE: &ServiceSpec = &ServiceSpec::HTTP;

/// The exit status and the output of a tool.
fn printed(name: &str, Output { status, stdout, stderr }: &Output) -> String {
    format!("{name} ({status}): {}{}", text(stdout), text(stderr))
}

/// The number after a word in the output of a tool.
fn number(printed: &str, word: &str) -> Option<u64> {
    let rest = &printed[printed.find(word)? + word.len()..];
    rest.split_whitespace().next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

fn wrk(url: &str) -> Result<(), String> {
    let output = peer("wrk", &["-t1", "-c10", "-d1s", "--timeout", "60s", url]);
    let printed = printed("wrk", &output);
    let requests = printed.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse::<u64>().ok());
    let is_success = output.status.success() && !printed.contains("Socket errors") && !printed.contains("Non-2xx");
    if is_success && requests.is_some_and(|requests| requests > 0) { Ok(()) } else { Err(printed) }
}

fn ab(url: &str, requests: u64, keeps_alive: bool) -> Result<(), String> {
    let count = requests.to_string();
    let keep_alive: &[&str] = if keeps_alive { &["-k"] } else { &[] };
    let output = peer("ab", &[keep_alive, &["-q", "-n", &count, "-c", "10", url]].concat());
    let printed = printed("ab", &output);
    let is_success = output.status.success()
        && number(&printed, "Complete requests:") == Some(requests)
        && number(&printed, "Failed requests:") == Some(0)
        && number(&printed, "Keep-Alive requests:") == keeps_alive.then_some(requests)
        && !printed.contains("Non-2xx");
    if is_success { Ok(()) } else { Err(printed) }
}

fn h2load(url: &str, requests: u64) -> Result<(), String> {
    let output = peer("h2load", &["--h1", "-n", &requests.to_string(), "-c", "10", url]);
    let printed = printed("h2load", &output);
    let all = format!("{requests} done, {requests} succeeded, 0 failed, 0 errored, 0 timeout");
    let is_success = output.status.success() && printed.contains(&all) && printed.contains(&format!("{requests} 2xx"));
    if is_success { Ok(()) } else { Err(printed) }
}

fn httperf(port: u16, path: &str, connections: u64, calls: u64) -> Result<(), String> {
    let (port, count, calls_each) = (port.to_string(), connections.to_string(), calls.to_string());
    let to = ["--hog", "--server", "127.0.0.1", "--port", &port, "--uri", path, "--timeout", "30"];
    let traffic = ["--num-conns", &count, "--num-calls", &calls_each, "--rate", "200"];
    let output = peer("httperf", &[&to[..], &traffic].concat());
    let printed = printed("httperf", &output);
    let replies = connections * calls;
    let is_success = output.status.success()
        && printed.contains("Errors: total 0 ")
        && printed.contains(&format!("2xx={replies} 3xx=0 4xx=0 5xx=0"));
    if is_success { Ok(()) } else { Err(printed) }
}

/// Sends two requests on one connection, HEAD, an HTTP/1.0 request, and requests that the server refuses.
fn curl(base: &str) -> Result<(), String> {
    const REPORT: &str = "%{http_code} %{size_download} %{num_connects}\n";
    let large = format!("--data-binary=@{}", env!("CARGO_BIN_EXE_muxbench"));
    let large = large.split_at("--data-binary".len());
    let cases: [(&[&str], &[&str], &str); 6] = [
        (&[], &["/bytes/1024", "/bytes/3000000"], "200 1024 1\n200 3000000 0\n"),
        (&["--head"], &["/bytes/1024"], "200 0 1\n"),
        (&["--http1.0"], &["/bytes/1024"], "200 1024 1\n"),
        (&[], &["/none", "/bytes/x"], "404 14 1\n404 14 0\n"),
        (&["--request", "DELETE"], &["/bytes/1024"], "405 23 1\n"),
        // The body exceeds the limit, so the response arrives before curl has sent the body.
        (&[large.0, &large.1[1..], "--header", "Expect:"], &["/bytes/1024"], "413 22 1\n"),
    ];
    for (flags, paths, expected) in cases {
        let urls: Vec<String> = paths.iter().map(|path| format!("{base}{path}")).collect();
        let mut arguments = [&["--silent", "--show-error", "--max-time", "60", "--write-out", REPORT], flags].concat();
        urls.iter().for_each(|url| arguments.extend(["--output", "/dev/null", url]));
        let output = peer("curl", &arguments);
        if !output.status.success() || text(&output.stdout) != expected {
            return Err(format!("{flags:?} {paths:?}: {}, not {expected}", printed("curl", &output)));
        }
    }
    Ok(())
}

fn http_tools_end_without_errors(architecture: Architecture) {
    let serve = Serve::start_http(architecture, &[]);
    let (base, url) = (format!("http://{}", serve.ip()), format!("http://{}/bytes/1024", serve.ip()));
    let all = [
        ab(&url, 200, false),
        ab(&url, 500, true),
        h2load(&url, 500),
        httperf(serve.ip().port(), "/bytes/1024", 20, 5),
        curl(&base),
    ];
    for outcome in all {
        outcome.unwrap_or_else(|error| panic!("{architecture}: {error}"));
    }
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert!(totals["requests"].as_u64().unwrap() >= 200 + 500 + 500 + 100 + 8, "{architecture}: {totals}");
    assert_eq!(totals["timed_out"], 0, "{architecture}");
}

fn wrk_ends_without_errors(architecture: Architecture) {
    let serve = Serve::start_http(architecture, &[]);
    wrk(&format!("http://{}/bytes/1024", serve.ip())).unwrap_or_else(|error| panic!("{architecture}: {error}"));
}

fn peer_tools_detect_wrong_server() {
    // The server alternates between a body that is too short and status 404.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in server.incoming().flatten().enumerate() {
            let printed =
                ["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"];
            let _ = (&stream).read(&mut [0; 1024]);
            let _ = (&stream).write_all(printed[number % 2].as_bytes());
        }
    });
    let url = format!("http://{address}/bytes/1024");
    let verdicts = [
        wrk(&url),
        ab(&url, 20, false),
        ab(&url, 20, true),
        h2load(&url, 20),
        httperf(address.port(), "/", 4, 2),
        curl(&format!("http://{address}")),
    ];
    for verdict in verdicts {
        println!("{}", verdict.expect_err("the tool detects the wrong server"));
    }
}

const GET: &[u8] = b"GET /bytes/5 HTTP/1.1\r\nHost: h\r\n\r\n";

/// Status code and body of the next response, which has no body if `is_bare`.
fn response(stream: &mut TcpStream, is_bare: bool) -> (u16, Vec<u8>) {
    let head = read_head(stream);
    let mut body = vec![0; if is_bare { 0 } else { number(&head, "Content-Length:").unwrap() as usize }];
    stream.read_exact(&mut body).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// All bytes until the connection ends, and whether it ends by a reset.
fn rest(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => (all, false),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => (all, true),
        Err(error) => panic!("{error} after {} bytes", all.len()),
    }
}

/// The status codes of all responses.
fn codes(printed: &[u8]) -> Vec<String> {
    let printed = text(printed);
    printed.match_indices("HTTP/1.1 ").map(|(at, line)| printed[at + line.len()..][..3].to_owned()).collect()
}

/// The body of /bytes/N.
fn generated(bytes: usize) -> Vec<u8> {
    static FILL: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..1u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect());
    let mut body = FILL.repeat(bytes.div_ceil(FILL.len()));
    body.truncate(bytes);
    body
}

fn responses_on_one_connection_keep_their_order(architecture: Architecture) {
    let serve = Serve::start_http(architecture, &[]);
    let mut stream = serve.connect();
    for _ in 0..3 {
        stream.write_all(GET).unwrap();
        assert_eq!(response(&mut stream, false), (200, generated(5)), "{architecture}");
    }
    // Pipelined requests. Two have bodies, which the server discards; the last one arrives in two pieces.
    let pipelined = [
        b"HEAD /bytes/70000 HTTP/1.1\r\nHost: h\r\n\r\n",
        &b"GET /bytes/70000 HTTP/1.1\r\nHost: h\r\n\r\n"[..],
        b"GET /none HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345",
        b"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        GET,
    ]
    .concat();
    let (first, last) = pipelined.split_at(pipelined.len() - 7);
    stream.write_all(first).unwrap();
    thread::sleep(Duration::from_millis(20));
    stream.write_all(last).unwrap();
    assert_eq!(response(&mut stream, true).0, 200, "{architecture}");
    assert_eq!(response(&mut stream, false), (200, generated(70_000)), "{architecture}");
    assert_eq!(response(&mut stream, false).0, 404, "{architecture}");
    assert_eq!(response(&mut stream, false).0, 405, "{architecture}");
    assert_eq!(response(&mut stream, false), (200, generated(5)), "{architecture}");
    // After a half-close the response still arrives.
    stream.write_all(GET).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (last, _) = rest(&mut stream);
    assert_eq!(codes(&last), ["200"], "{architecture}");
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["accepted"]), (&9.into(), &1.into()), "{architecture}");
}

fn refused_request_gets_a_status_before_the_close(architecture: Architecture) {
    // The flood exceeds the socket buffers, so the client is still sending when the server responds.
    let flood = vec![b'x'; 2 << 20];
    let line = [&b"GET /"[..], &[b'a'; 9000], b" HTTP/1.1\r\n\r\n"].concat();
    let head = [&b"GET / HTTP/1.1\r\nA: "[..], &[b'a'; 40_000], b"\r\n\r\n"].concat();
    let cases: [(&[u8], &str); 9] = [
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\nHost: h\n\n", "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n", "413"),
        (&line, "414"),
        (&head, "431"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "501"),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505"),
    ];
    let serve = Serve::start_http(architecture, &[]);
    for (request, expected) in cases {
        let mut stream = serve.connect();
        // A valid request before the refused one is answered.
        stream.write_all(&[GET, request].concat()).unwrap();
        // The server reads the flood. Otherwise a reset would discard the response before this client reads it.
        let sent = stream.write_all(&flood);
        sent.unwrap_or_else(|error| panic!("{architecture}: {expected}: {error}"));
        let (printed, is_reset) = rest(&mut stream);
        assert_eq!(codes(&printed), ["200", expected], "{architecture}");
        assert!(!is_reset, "{architecture}: {expected}");
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["accepted"], &totals["timed_out"]), (&9.into(), &0.into()), "{architecture}");
}

fn client_that_never_stops_sending_is_disconnected(architecture: Architecture) {
    let serve = Serve::start_http(architecture, &[]);
    let mut stream = serve.connect();
    stream.write_all(b"GET / HTTP/2.0\r\nHost: h\r\n\r\n").unwrap();
    let piece = [b'x'; 1 << 20];
    let sent = (0..200).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!((8..100).contains(&sent), "{architecture}: {sent} MiB");
}

fn slow_readers_get_large_responses_whole(architecture: Architecture) {
    const BYTES: usize = 6_000_000;
    let expected = generated(BYTES);
    let serve = Serve::start_http(architecture, &[]);
    let mut stream = serve.connect();
    let request = format!("GET /bytes/{BYTES} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut printed = Vec::new();
    loop {
        // Read the first MiB more slowly than the server writes.
        if printed.len() < 1 << 20 {
            thread::sleep(Duration::from_millis(5));
        }
        let mut piece = [0; 32 << 10];
        match stream.read(&mut piece).unwrap_or_else(|error| panic!("{architecture}: {error}")) {
            0 => break,
            count => printed.extend_from_slice(&piece[..count]),
        }
    }
    assert!(printed.ends_with(&expected), "{architecture}: {} bytes", printed.len());
}

/// The time limits of the server, and the time between two actions of a client.
const LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// A client whose connection the server must close: its name, its first bytes, and its action after each pause.
type Slow = (&'static str, &'static [u8], fn(&mut TcpStream) -> std::io::Result<()>);

const SLOW: [Slow; 8] = [
    ("silent", b"", |_| Ok(())),
    ("silent after a response", GET, |_| Ok(())),
    ("a head byte by byte", b"GET /bytes/5 HTTP/1.1\r\nA: ", |stream| stream.write_all(b"a")),
    ("a body byte by byte", b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", |stream| {
        stream.write_all(b"a")
    }),
    ("a second head byte by byte", b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /bytes/5 HTTP/1.1\r\nA: ", |stream| {
        stream.write_all(b"a")
    }),
    ("not reading", b"GET /bytes/100000000 HTTP/1.1\r\nHost: h\r\n\r\n", |_| Ok(())),
    ("refused, but still sending", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n", |stream| {
        stream.write_all(b"a")
    }),
    ("empty lines", GET, |stream| stream.write_all(b"\r\n")),
];

/// Whether the server has closed the connection. Discards bytes that have arrived, unless the client never reads.
fn is_cut_off(stream: &TcpStream, name: &str) -> bool {
    // A refused client reads the end of the stream early. The connection is closed once a reset answers the client's bytes.
    let end = if name == "refused, but still sending" { PollFlags::empty() } else { PollFlags::RDHUP };
    let mut polled = [PollFd::new(stream, end)];
    rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).unwrap();
    let is_gone = !polled[0].revents().is_empty();
    if name != "not reading" && !is_gone {
        stream.set_nonblocking(true).unwrap();
        let _ = (&mut &*stream).read(&mut [0; 4096]);
        stream.set_nonblocking(false).unwrap();
    }
    is_gone
}

fn slow_clients_are_disconnected_active_clients_served(architecture: Architecture) {
    let limit = format!("{}ms", LIMIT.as_millis());
    let mut piece = vec![0; 1 << 20];
    let serve = Serve::start_http(architecture, &["--request-timeout", &limit, "--keepalive-timeout", &limit]);
    let started = Instant::now();
    let mut slow: Vec<_> = SLOW
        .iter()
        .map(|(name, first, next)| {
            let mut stream = serve.connect();
            stream.write_all(first).unwrap();
            (name, stream, next)
        })
        .collect();
    let mut active = serve.connect();
    let mut reader = serve.connect();
    reader.write_all(b"GET /bytes/1000000000 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    while !slow.is_empty() || started.elapsed() < LIMIT * 3 / 2 {
        assert!(started.elapsed() < crate::common::TIMEOUT, "{architecture}: {:?} is cut off in time", slow[0].0);
        slow.retain_mut(|(name, stream, next)| {
            let is_gone = next(stream).is_err() || is_cut_off(stream, name);
            assert!(!is_gone || started.elapsed() >= LIMIT, "{architecture}: {name} is not cut off before the limit");
            !is_gone
        });
        active.write_all(GET).unwrap();
        assert_eq!(response(&mut active, false).0, 200, "{architecture}");
        // Read enough that the server can write: the kernel reports a socket as writable when a third of its buffer is free.
        reader.read_exact(&mut piece).unwrap_or_else(|error| panic!("{architecture}: {error}"));
        thread::sleep(PAUSE);
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["timed_out"], SLOW.len(), "{architecture}");
}

fn client_without_time_limit_stays_connected(architecture: Architecture) {
    let limit = format!("{}ms", LIMIT.as_millis());
    let check = |is_request_off: bool| {
        let (request, keepalive) = if is_request_off { ("off", &*limit) } else { (&*limit, "off") };
        let what = format!("{architecture}: --request-timeout {request} --keepalive-timeout {keepalive}");
        let flags = ["--request-timeout", request, "--keepalive-timeout", keepalive];
        let serve = Serve::start_http(architecture, &flags);
        let (mut idle, mut silent) = (serve.connect(), serve.connect());
        idle.write_all(GET).unwrap();
        assert_eq!(response(&mut idle, false).0, 200, "{what}");
        let (unlimited, limited) = if is_request_off { (&mut silent, &mut idle) } else { (&mut idle, &mut silent) };
        eventually(&what, || is_cut_off(limited, "silent"));
        // By now the unlimited connection has been idle for LIMIT as well. Wait for LIMIT again.
        thread::sleep(LIMIT);
        unlimited.write_all(GET).unwrap();
        assert_eq!(response(unlimited, false).0, 200, "{what}");
    };
    // Both mostly wait.
    thread::scope(|scope| {
        scope.spawn(|| check(true));
        check(false);
    });
}

fn refused_client_frees_its_worker_despite_disabled_limits(architecture: Architecture) {
    let flags = ["--request-timeout", "off", "--keepalive-timeout", "off"];
    let serve = Serve::start_http(architecture, &flags);
    let mut refused = serve.connect();
    refused.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n").unwrap();
    assert_eq!(response(&mut refused, false).0, 413, "{architecture}");
    // The refused client stays connected and sends nothing, yet the pool serves the next client.
    let mut next = serve.connect();
    next.write_all(GET).unwrap();
    assert_eq!(response(&mut next, false).0, 200, "{architecture}");
}

/// Creates a folder with two files and a link to one of them.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("css")).unwrap();
    fs::write(folder.path().join("index.html"), "the front").unwrap();
    fs::write(folder.path().join("css/a b.css"), vec![b'c'; 100_000]).unwrap();
    symlink("css/a b.css", folder.path().join("also.css")).unwrap();
    folder
}

fn get(serve: &Serve, path: &str) -> (u16, Vec<u8>) {
    let mut stream = serve.connect();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
    response(&mut stream, false)
}

fn folder_is_served_from_memory(architecture: Architecture) {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let serve = Serve::start_http(architecture, &["--folder", path]);
    // The server has read all files at its start.
    fs::remove_dir_all(folder.path()).unwrap();
    assert_eq!(get(&serve, "/"), (200, b"the front".to_vec()), "{architecture}");
    for path in ["/css/a%20b.css", "/also.css", "/./css//a%20b.css"] {
        assert_eq!(get(&serve, path), (200, vec![b'c'; 100_000]), "{architecture}: {path}");
    }
    assert_eq!(get(&serve, "/css/").0, 404, "{architecture}");
    assert_eq!(get(&serve, "/bytes/5").0, 404, "{architecture}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.kinds(SERVICE, case!(http_tools_end_without_errors));
    // wrk sends as fast as it can, for at least a second.
    cases.protocol(SERVICE, &["epoll", "io_uring"], case!(wrk_ends_without_errors));
    cases.once(case!(peer_tools_detect_wrong_server));
    cases.serving(SERVICE, case!(responses_on_one_connection_keep_their_order));
    cases.serving(SERVICE, case!(refused_request_gets_a_status_before_the_close));
    let loops = ["epoll", "epoll-et", "io_uring", "mt", "mp-prefork:2", "seda:1+1/epoll", "tokio", "smol", "may"];
    cases.named(&loops, case!(client_that_never_stops_sending_is_disconnected));
    cases.serving(SERVICE, case!(slow_readers_get_large_responses_whole));
    cases.serving(SERVICE, case!(slow_clients_are_disconnected_active_clients_served));
    cases.named(&loops, case!(client_without_time_limit_stays_connected));
    cases.named(&["mt-pool:1", "mp-prefork:1"], case!(refused_client_frees_its_worker_despite_disabled_limits));
    let models = ["epoll", "seda:1+1/epoll", "mp", "mp-prefork:2", "mt-pool:2", "io_uring", "tokio"];
    cases.named(&models, case!(folder_is_served_from_memory));
}
