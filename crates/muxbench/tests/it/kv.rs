//! The service `kv` in every architecture: clients of memcached, comparisons with memcached, and handling of connections.

#[path = "../../../wire/src/kv/tests/recorded.rs"]
mod recorded;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{ExternalServer, Random, Serve, load_without_errors, peer, prepared, text};
use recorded::RECORDED;
use server::Architecture;
use wire::ServiceSpec;

const SERVICE: &ServiceSpec = &ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 };

/// Runs the text tests of `memccapable` with a time limit per response.
fn memccapable(address: SocketAddr, timeout_s: u32) -> Result<(), String> {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let output = peer("memccapable", &["-h", &host, "-p", &port, "-a", "-t", &timeout_s.to_string()]);
    let printed = text(&output.stdout) + &text(&output.stderr);
    let passed = printed.lines().filter(|line| line.starts_with("ascii") && line.ends_with("[pass]")).count();
    // libmemcached 1.1.4 has 27 text tests.
    let is_success =
        output.status.success() && passed >= 27 && printed.contains("All tests passed") && !printed.contains("FAIL");
    if is_success { Ok(()) } else { Err(format!("memccapable ({}): {printed}", output.status)) }
}

/// Runs `memcslap` with four connections.
fn memcslap(address: SocketAddr, test: &str, each: usize) -> Result<(), String> {
    const CONNECTIONS: usize = 4;
    let (server, each_text) = (address.to_string(), each.to_string());
    let connections = CONNECTIONS.to_string();
    let output = peer("memcslap", &["-s", &server, "-t", test, "-c", &connections, "-e", &each_text]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // The exit code of memcslap does not depend on the responses, so check the number of keys that it prints.
    let words: Vec<&str> = out.lines().flat_map(str::split_whitespace).collect();
    let done = words.windows(6).find(|words| words[..3] == ["Time", "to", test] && words[4..] == ["keys", "by"]);
    let done = done.and_then(|words| words[3].parse::<usize>().ok());
    if output.status.success() && err.is_empty() && done == Some(CONNECTIONS * each) {
        return Ok(());
    }
    Err(format!("memcslap -t {test} ({}): {done:?} of {}: {out}{err}", output.status, CONNECTIONS * each))
}

/// Runs Python with these arguments. Returns whether it succeeded, and its output.
fn python(arguments: &[&str]) -> (bool, String) {
    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let output = Command::new("timeout").arg("120").arg(interpreter).arg("-B").args(arguments).output().unwrap();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// Runs all 12 parts of a client script.
fn all_parts(script: &str, port: u16) -> Result<(), String> {
    let path = format!("{}/tests/{script}", env!("CARGO_MANIFEST_DIR"));
    let (is_success, printed) = python(&[&path, &port.to_string()]);
    let passed = printed.lines().filter(|line| line.ends_with(" passed")).count();
    if is_success && passed == 12 { Ok(()) } else { Err(format!("{script}: {printed}")) }
}

/// Runs `pymemcache_client.py`.
fn pymemcache(port: u16) -> Result<(), String> {
    all_parts("pymemcache_client.py", port)
}

/// Runs `meta_client.py`: meta commands.
fn meta_memcache(port: u16) -> Result<(), String> {
    all_parts("meta_client.py", port)
}

/// Runs the integration tests of the package pymemcache.
fn pymemcache_tests(port: u16) -> Result<(), String> {
    let (_, package) = python(&["-c", "import pymemcache.test as test; print(test.__path__[0])"]);
    let tests = format!("{}/test_integration.py", package.trim());
    let (port, rootdir) = (port.to_string(), package.trim());
    let run = |only: &str, count: u32| {
        // The package lacks its settings file, which only enables coverage. Write no cache into the package.
        let runner = ["-B", "-m", "pytest", "-q", "-c", "/dev/null", "-W", "ignore", "-p", "no:cacheprovider"];
        let options = ["--rootdir", rootdir, &tests, "--server", "127.0.0.1", "--port", &port, "-k", only];
        let (is_success, printed) = python(&[&runner[..], &options].concat());
        let all_passed = is_success && printed.contains(&format!("\n{count} passed"));
        if all_passed { Ok(()) } else { Err(format!("pymemcache's tests: {printed}")) }
    };
    // pymemcache 4.0.0 has 94 + 6 tests without TLS.
    run("not test_touch", 94)?;
    // Items of these tests expire at the next full second, as in memcached. A busy machine may be too slow: repeat the tests.
    (0..10).find_map(|_| run("test_touch", 6).ok()).map_or_else(|| run("test_touch", 6), Ok)
}

fn memccapable_passes(architecture: Architecture) {
    let serve = Serve::start_kv(architecture, &[]);
    memccapable(serve.ip(), 60).unwrap_or_else(|error| panic!("{architecture}: {error}"));
}

fn memcslap_has_no_error(architecture: Architecture) {
    let serve = Serve::start_kv(architecture, &[]);
    for test in ["set", "get", "mget"] {
        memcslap(serve.ip(), test, 1000).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert!(totals["requests"].as_u64().unwrap() >= 4 * 2 * 1000, "{architecture}: {totals}");
}

fn pymemcache_passes(architecture: Architecture) {
    let serve = Serve::start_kv(architecture, &[]);
    pymemcache(serve.ip().port()).unwrap_or_else(|error| panic!("{architecture}: {error}"));
}

fn meta_memcache_passes(architecture: Architecture) {
    let serve = Serve::start_kv(architecture, &[]);
    meta_memcache(serve.ip().port()).unwrap_or_else(|error| panic!("{architecture}: {error}"));
}

fn tests_of_pymemcache_pass(architecture: Architecture) {
    let serve = Serve::start_kv(architecture, &[]);
    pymemcache_tests(serve.ip().port()).unwrap_or_else(|error| panic!("{architecture}: {error}"));
}

fn memcached() -> ExternalServer {
    let program = prepared("MUXBENCH_PEERS", "peers").join("memcached");
    ExternalServer::start("memcached", |port| {
        let mut command = Command::new(&program);
        // memcached refuses to run as root without -u; for other users it ignores the flag.
        command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
        // Disable features that `kv` lacks.
        command.args(["-W", "-o", "no_lru_crawler,no_lru_maintainer,no_slab_reassign"]);
        command
    })
}

fn memcached_passes_the_checks_of_kv() {
    let memcached = memcached();
    let address = memcached.address;
    memccapable(address, 60).unwrap();
    ["set", "get", "mget"].iter().for_each(|test| memcslap(address, test, 1000).unwrap());
    pymemcache(address.port()).unwrap();
    meta_memcache(address.port()).unwrap();
    pymemcache_tests(address.port()).unwrap();
}

/// A connection that sends one command at a time.
struct Conversation(BufReader<TcpStream>);

impl Conversation {
    /// Sends a command with its value, then `mn`. Returns all responses, up to and including the response to `mn`.
    fn send(&mut self, command: &[u8]) -> String {
        self.0.get_mut().write_all(&[command, b"mn\r\n"].concat()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"MN\r\n") {
            let count = self.0.read_until(b'\n', &mut answer).unwrap();
            assert!(count > 0, "the connection ended after {}", text(&answer));
        }
        text(&answer)
    }
}

/// A response without the parts that depend on clock, allocator or version.
fn comparable(answer: &str) -> String {
    let is_number = |word: &str| word.parse::<i64>().is_ok();
    let word = |word: &str| -> String {
        let (letter, number) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        match letter {
            // Seconds differ, because the two servers' clocks tick at different moments.
            "l" if is_number(number) => "l".into(),
            "t" => match number.parse::<u32>() {
                // An expired time wraps around.
                Ok(seconds) if seconds > i32::MAX as u32 => "t0".into(),
                Ok(seconds) if seconds > 0 => "t".into(),
                _ => word.into(),
            },
            _ if ["la=", "exp=", "cls=", "size="].iter().any(|name| word.starts_with(name)) => "".into(),
            _ => word.into(),
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    answer.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n")
}

/// Decodes base64 keys in a response. When an item changes, memcached forgets that its key was base64, unlike muxbench.
fn without_base64(answer: &str) -> String {
    let keys = [(" kYQ== b", " ka"), (" kYg== b", " kb"), ("ME YQ== ", "ME a "), ("ME Yg== ", "ME b ")];
    keys.iter().fold(answer.into(), |answer: String, (base64, key)| answer.replace(base64, key))
}

impl Random {
    /// A recent item number, which may be that of the stored item.
    fn number(&mut self, last: u64) -> u64 {
        last.saturating_sub(self.below(6) as u64)
    }

    fn flags(&mut self, choices: &[&str], last: u64) -> String {
        (0..self.below(6)).fold(String::new(), |flags, _| match self.one(choices) {
            "C" => format!("{flags} C{}", self.number(last)),
            flag => format!("{flags} {flag}"),
        })
    }

    /// A command with its value; `last` is approximately the last item number.
    fn command(&mut self, last: u64) -> Vec<u8> {
        const COMMON: [&str; 9] = ["k", "q", "O1", "Oab", "P", "Lx", "c", "t", "T100"];
        // A key, as it is or in base64.
        let (key, is_binary) =
            [("a", false), ("b", false), ("c", false), ("YQ==", true), ("Yg==", true)][self.below(5)];
        let b = if is_binary { " b" } else { "" };
        let value = self.one(&["", "x", "7", "99", "18446744073709551615", "12 ab", "hello\r\nEND"]);
        let bytes = value.len();
        let noreply = self.one(&["", "", " noreply"]);
        let line = match self.below(24) {
            0..=6 => {
                let more = ["v", "v", "s", "f", "h", "l", "u", "N60", "R30", "R200", "T0", "T-1", "T20", "Z", "Nx"];
                format!("mg {key}{b}{}", self.flags(&[&COMMON[..], &more].concat(), last))
            }
            7..=11 => {
                let more = ["C", "C", "F5", "I", "ME", "MA", "MP", "MR", "MS", "MX", "T-1", "Fx"];
                let choices: Vec<_> = COMMON.iter().chain(&more).copied().collect();
                format!("ms {key} {bytes}{b}{}\r\n{value}", self.flags(&choices, last))
            }
            12..=13 => {
                format!("md {key}{b}{}", self.flags(&[&COMMON[..], &["C", "I", "I", "T30", "Z"]].concat(), last))
            }
            14..=16 => {
                // Omit `T100`, because memcached loses the expiry when the value gets another digit.
                let common = COMMON.iter().filter(|&&flag| flag != "T100");
                let more = ["C", "v", "v", "N0", "N90", "J13", "D10", "MI", "MD", "M+", "M-", "MX", "Dx"];
                let choices: Vec<_> = common.chain(&more).copied().collect();
                format!("ma {key}{b}{}", self.flags(&choices, last))
            }
            17 => format!("me {key}{b}"),
            18 => format!("{} a b c", self.one(&["get", "gets", "gat 100", "gats 0", "gat -1"])),
            19 => {
                let verb = self.one(&["set", "add", "replace", "append", "prepend"]);
                format!("{verb} a 3 {} {bytes}{noreply}\r\n{value}", self.one(&["0", "100", "-1"]))
            }
            20 => format!("cas b 0 0 {bytes} {}{noreply}\r\n{value}", self.number(last)),
            21 => format!(
                "{} a {}{noreply}",
                self.one(&["incr", "decr"]),
                self.one(&["1", "1000", "18446744073709551615", "x"])
            ),
            22 => format!("{} a{noreply}", self.one(&["delete", "touch", "delete b 0 ", "touch b 100"])),
            _ => self
                .one(&["flush_all", "verbosity 1", "stats sizes", "lru mode flat", "cache_memlimit 64", "mg", "me"])
                .into(),
        };
        format!("{line}\r\n").into()
    }
}

fn random_commands_get_the_responses_of_memcached() {
    const SEEDS: u64 = 8;
    const COMMANDS: usize = 1_500;
    for seed in 0..SEEDS {
        let memcached = memcached();
        let serve = Serve::start_kv("epoll".parse().unwrap(), &[]);
        let [mut reference, mut tested] = [memcached.address, serve.ip()]
            .map(|address| Conversation(BufReader::new(TcpStream::connect(address).unwrap())));
        // Before the first meta command, muxbench does not record whether an item was fetched.
        for conversation in [&mut tested, &mut reference] {
            conversation.send(b"mg nothing\r\n");
        }
        let (mut random, mut last) = (Random(seed), 0);
        for at in 0..COMMANDS {
            let command = random.command(last);
            let [printed, expected] = [tested.send(&command), reference.send(&command)];
            let line = text(&command);
            let is_about_item = line.starts_with("mg") || line.starts_with("me");
            let [printed, expected] =
                [printed, expected].map(|answer| if is_about_item { without_base64(&answer) } else { answer });
            assert_eq!(comparable(&printed), comparable(&expected), "seed {seed}, command {at}: {line}");
            let numbers = expected.split_whitespace().filter_map(|word| word.strip_prefix('c')?.parse().ok());
            last = numbers.fold(last, u64::max);
        }
    }
}

/// Returns memcached's responses to these lines.
fn conversation_with_memcached(input: &str) -> String {
    let memcached = memcached();
    let mut stream = TcpStream::connect(memcached.address).unwrap();
    stream.set_nodelay(true).unwrap();
    // Send line by line: memcached responds differently while an item is incomplete.
    for line in input.as_bytes().split_inclusive(|&byte| byte == b'\n') {
        // memcached may have closed the connection.
        let _ = stream.write_all(line);
        thread::sleep(Duration::from_millis(5));
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut printed = Vec::new();
    let _ = stream.read_to_end(&mut printed);
    text(&printed)
}

fn recorded_conversations_match_memcached() {
    for (input, output) in RECORDED {
        // While memcached's own threads examine an item, a changed number becomes a new item without hits. Then try again.
        let mut answer = conversation_with_memcached(input);
        for _ in 0..4 {
            if answer != *output {
                answer = conversation_with_memcached(input);
            }
        }
        assert_eq!(answer, *output, "{input}");
    }
}

fn client_loads_memcached_without_errors() {
    let memcached = memcached();
    let serve = Serve::start_kv("epoll".parse().unwrap(), &[]);
    for address in [memcached.address, serve.ip()] {
        let target = address.to_string();
        load_without_errors(&["--target", &target, "--service", "kv", "--schedule", "closed", "--records", "200"]);
    }
}

/// Starts a server that responds to each command line with the result of `answer`. It skips the value of a `set`.
fn wrong_server(answer: fn(&str) -> &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut lines = BufReader::new(&stream);
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    let words = text(&line);
                    if words.starts_with("set ") {
                        let value_bytes: usize = words.split_whitespace().nth(4).unwrap().parse().unwrap();
                        lines.read_exact(&mut vec![0; value_bytes + 2]).unwrap();
                    }
                    if words.starts_with("quit") || (&stream).write_all(answer(&words).as_bytes()).is_err() {
                        break;
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

fn peer_tools_detect_wrong_server() {
    let forgetful = wrong_server(|line| match line.split_whitespace().next() {
        Some("set") => "STORED\r\n",
        Some("version") => "VERSION 1.6.18\r\n",
        _ => "END\r\n",
    });
    memcslap(forgetful, "set", 10).unwrap();
    let failing = wrong_server(|_| "ERROR\r\n");
    let verdicts = [
        memcslap(forgetful, "get", 10),
        memcslap(forgetful, "mget", 10),
        memcslap(failing, "set", 10),
        memccapable(failing, 2),
        pymemcache(forgetful.port()),
        pymemcache(failing.port()),
        meta_memcache(failing.port()),
        pymemcache_tests(forgetful.port()),
    ];
    for (at, verdict) in verdicts.iter().enumerate() {
        assert!(verdict.is_err(), "check {at} does not notice that the server is wrong");
    }
}

/// All bytes until the connection ends.
fn rest(mut stream: TcpStream, architecture: Architecture) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap_or_else(|error| panic!("{architecture}: {error}, after {} bytes", all.len()));
    all
}

fn connection_ended_by_the_service_is_closed(architecture: Architecture) {
    const TOO_LONG: &[u8] = &[b'x'; 4000];
    let serve = Serve::start_kv(architecture, &[]);
    // The first and the second piece of the requests, and the responses expected before the connection closes.
    let endings: [(&[u8], &[u8], &str); 5] = [
        (b"quit\r\n", b"", ""),
        (b"get a\r\nquit\r\n", b"", "END\r\n"),
        (TOO_LONG, b"", ""),
        (b"version\r\nset ", TOO_LONG, "VERSION 1.6.18-muxbench\r\n"),
        (b"qu", b"it\r\n", ""),
    ];
    for (first, second, expected) in endings {
        let mut stream = serve.connect();
        stream.write_all(first).unwrap();
        thread::sleep(Duration::from_millis(if second.is_empty() { 0 } else { 20 }));
        stream.write_all(second).unwrap();
        assert_eq!(text(&rest(stream, architecture)), expected, "{architecture}");
    }
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(totals["accepted"], 5, "{architecture}");
}

fn responses_that_grow_while_sent_arrive_whole(architecture: Architecture) {
    const GETS: usize = 12;
    let value: Vec<u8> = (0..1_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hit = [&b"VALUE big 0 1000000\r\n"[..], &value, b"\r\n"].concat();
    let store = [&b"set big 0 0 1000000\r\n"[..], &value, b"\r\n"].concat();
    let serve = Serve::start_kv(architecture, &[]);
    let mut stream = serve.connect();
    stream.write_all(&store).unwrap();
    let mut stored = [0; 8];
    stream.read_exact(&mut stored).unwrap();
    assert_eq!(&stored, b"STORED\r\n", "{architecture}");

    // Request the item many times, then the version. Below, request the item as many times in one command.
    stream.write_all(&[b"get big\r\n".repeat(GETS), b"version\r\n".to_vec()].concat()).unwrap();
    thread::sleep(Duration::from_millis(20));
    let expected = [[&hit[..], b"END\r\n"].concat().repeat(GETS), b"VERSION 1.6.18-muxbench\r\n".to_vec()].concat();
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    assert!(received == expected, "{architecture}: all responses have the stored value");

    stream.write_all(&[&b"get"[..], &b" big".repeat(GETS), b"\r\nget none\r\n"].concat()).unwrap();
    // After a half-close the responses still arrive.
    stream.shutdown(Shutdown::Write).unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(rest(stream, architecture) == [&hit.repeat(GETS)[..], b"END\r\nEND\r\n"].concat(), "{architecture}");

    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!(
        totals["requests"].as_u64(),
        Some(1 + GETS as u64 + 1 + 2),
        "{architecture}: each request is counted once"
    );
}

/// A connection that sends lines.
struct Lines(BufReader<TcpStream>);

impl Lines {
    fn send(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    /// Returns the value of a key, which is a number, and its item number.
    fn gets(&mut self, key: &str) -> (u64, u64) {
        let number = self.send(&format!("gets {key}\r\n")).split_whitespace().nth(4).unwrap().parse().unwrap();
        let value = self.line().trim().parse().unwrap();
        assert_eq!(self.line(), "END\r\n");
        (value, number)
    }
}

fn concurrent_changes_add_up_in_every_architecture(architecture: Architecture) {
    const CONNECTIONS: u64 = 6;
    const ADDS: u64 = 300;
    const SWAPS: u64 = 40;
    let serve = Serve::start_kv(architecture, &[]);
    let connect = || Lines(BufReader::new(serve.connect()));
    let mut first = connect();
    assert_eq!(first.send("set sum 0 0 1\r\n0\r\n"), "STORED\r\n");
    assert_eq!(first.send("set swapped 0 0 1\r\n0\r\n"), "STORED\r\n");
    thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut lines = connect();
                // Send all requests at once, so that a thread may receive several together.
                let mut last = lines.send(&"incr sum 2\r\n".repeat(ADDS as usize));
                for _ in 1..ADDS {
                    let next = lines.line();
                    assert!(next.trim().parse::<u64>().unwrap() > last.trim().parse().unwrap(), "{architecture}");
                    last = next;
                }
                let mut swaps = 0;
                while swaps < SWAPS {
                    let (value, number) = lines.gets("swapped");
                    let next = (value + 1).to_string();
                    let request = format!("cas swapped 0 0 {} {number}\r\n{next}\r\n", next.len());
                    match lines.send(&request).as_str() {
                        "STORED\r\n" => swaps += 1,
                        other => assert_eq!(other, "EXISTS\r\n", "{architecture}"),
                    }
                }
            });
        }
    });
    assert_eq!(first.gets("sum").0, 2 * CONNECTIONS * ADDS, "{architecture}");
    assert_eq!(first.gets("swapped").0, CONNECTIONS * SWAPS, "{architecture}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.kinds(SERVICE, case!(memccapable_passes));
    cases.kinds(SERVICE, case!(memcslap_has_no_error));
    // Each check starts Python, which takes about a second of CPU time.
    cases.protocol(SERVICE, &["epoll", "mt"], case!(pymemcache_passes));
    cases.protocol(SERVICE, &["epoll", "mt"], case!(meta_memcache_passes));
    cases.protocol(SERVICE, &["epoll"], case!(tests_of_pymemcache_pass));
    cases.once(case!(memcached_passes_the_checks_of_kv));
    cases.once(case!(random_commands_get_the_responses_of_memcached));
    cases.once(case!(recorded_conversations_match_memcached));
    cases.once(case!(client_loads_memcached_without_errors));
    cases.once(case!(peer_tools_detect_wrong_server));
    cases.serving(SERVICE, case!(connection_ended_by_the_service_is_closed));
    cases.serving(SERVICE, case!(responses_that_grow_while_sent_arrive_whole));
    cases.serving(SERVICE, case!(concurrent_changes_add_up_in_every_architecture));
}
