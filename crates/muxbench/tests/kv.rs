//! The service `kv` in every architecture: real clients of memcached's, and what the server's loops owe to it.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{Serve, Theirs, muxbench, peer, prepared};
use server::Architecture;
use wire::ServiceSpec;

/// Does a test with every architecture that can run here and serve `kv`.
fn with_each(test: impl Fn(Architecture) + Sync) {
    common::with_each(&ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 }, 6, test);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text tests of `memccapable`, which waits so long for each answer; what failed, if any did.
fn memccapable(address: SocketAddr, patience_s: u32) -> Result<(), String> {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let output = peer("memccapable", &["-h", &host, "-p", &port, "-a", "-t", &patience_s.to_string()]);
    let said = text(&output.stdout) + &text(&output.stderr);
    let passed = said.lines().filter(|line| line.starts_with("ascii") && line.ends_with("[pass]")).count();
    // As many as libmemcached 1.1.4 has.
    let all = output.status.success() && passed >= 27 && said.contains("All tests passed") && !said.contains("FAIL");
    if all { Ok(()) } else { Err(format!("memccapable ({}): {said}", output.status)) }
}

/// `memcslap` with four connections; what it complained of, or how much is missing.
fn memcslap(address: SocketAddr, test: &str, each: usize) -> Result<(), String> {
    const CONNECTIONS: usize = 4;
    let (server, each_text) = (address.to_string(), each.to_string());
    let connections = CONNECTIONS.to_string();
    let output = peer("memcslap", &["-s", &server, "-t", test, "-c", &connections, "-e", &each_text]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    // It ends well whatever it found, and says how much of it.
    let words: Vec<&str> = out.lines().flat_map(str::split_whitespace).collect();
    let done = words.windows(6).find(|words| words[..3] == ["Time", "to", test] && words[4..] == ["keys", "by"]);
    let done = done.and_then(|words| words[3].parse::<usize>().ok());
    if output.status.success() && err.is_empty() && done == Some(CONNECTIONS * each) {
        return Ok(());
    }
    Err(format!("memcslap -t {test} ({}): {done:?} of {}: {out}{err}", output.status, CONNECTIONS * each))
}

/// Everything that `pymemcache_client.py` does.
fn pymemcache(port: u16) -> Result<(), String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pymemcache_client.py");
    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let output =
        Command::new("timeout").arg("120").arg(interpreter).args([script, &port.to_string()]).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let passed = out.lines().filter(|line| line.ends_with(" passed")).count();
    if output.status.success() && passed == 12 { Ok(()) } else { Err(format!("pymemcache: {out}{err}")) }
}

#[test]
fn memccapable_passes_in_every_architecture() {
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        memccapable(serve.ip(), 60).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    });
}

#[test]
fn memcslap_has_no_error_in_any_architecture() {
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        for test in ["set", "get", "mget"] {
            memcslap(serve.ip(), test, 1000).unwrap_or_else(|error| panic!("{architecture}: {error}"));
        }
        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        assert!(totals["requests"].as_u64().unwrap() >= 4 * 2 * 1000, "{architecture}: {totals}");
    });
}

#[test]
fn pymemcache_gets_what_it_expects_from_every_architecture() {
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        pymemcache(serve.ip().port()).unwrap_or_else(|error| panic!("{architecture}: {error}"));
    });
}

fn memcached() -> Theirs {
    let program = prepared("MUXBENCH_PEERS", "peers").join("memcached");
    Theirs::start("memcached", |port| {
        let mut command = Command::new(&program);
        // Root must say that it wants to be; others are not asked.
        command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
        command
    })
}

#[test]
fn memcached_itself_passes_what_is_asked_of_ours() {
    let memcached = memcached();
    let address = memcached.address;
    memccapable(address, 60).unwrap();
    ["set", "get", "mget"].iter().for_each(|test| memcslap(address, test, 1000).unwrap());
    pymemcache(address.port()).unwrap();
}

#[test]
fn the_client_drives_memcached_as_it_does_ours() {
    let memcached = memcached();
    let ours = Serve::start_kv("epoll".parse().unwrap(), &[]);
    for address in [memcached.address, ours.ip()] {
        let flags = "--service kv --schedule closed --connections 10 --records 200 --measure 1s --drain 60s --json";
        let output = muxbench()
            .args(["load", "--target", &address.to_string()])
            .args(flags.split_whitespace())
            .output()
            .unwrap_or_else(|error| panic!("{address}: {error}"));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{address}: {error}: {}", text(&output.stderr)));
        let told = &said["report"];
        let errors: u64 = told["errors"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(errors, 0, "{address}: {told}");
        assert!(told["completed"].as_u64() > Some(0), "{address}: {told}");
    }
}

/// A server that answers every line but a value's with what `answer` makes of it.
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

#[test]
fn a_server_that_is_wrong_is_found_out() {
    let forgetful = wrong_server(|line| match line.split_whitespace().next() {
        Some("set") => "STORED\r\n",
        Some("version") => "VERSION 1.6.18\r\n",
        _ => "END\r\n",
    });
    memcslap(forgetful, "set", 10).unwrap();
    let deaf = wrong_server(|_| "ERROR\r\n");
    let verdicts = [
        memcslap(forgetful, "get", 10),
        memcslap(forgetful, "mget", 10),
        memcslap(deaf, "set", 10),
        memccapable(deaf, 2),
        pymemcache(forgetful.port()),
        pymemcache(deaf.port()),
    ];
    for verdict in verdicts {
        println!("{}", verdict.expect_err("it is wrong"));
    }
}

/// All that comes until the end.
fn rest(mut stream: TcpStream, architecture: Architecture) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap_or_else(|error| panic!("{architecture}: {error}, after {} bytes", all.len()));
    all
}

#[test]
fn a_connection_that_the_service_ends_is_closed_in_every_architecture() {
    const TOO_LONG: &[u8] = &[b'x'; 4000];
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        // Some with nothing to say, some after an answer; the last comes in two pieces.
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
    });
}

#[test]
fn responses_that_go_on_while_they_are_sent_come_whole_in_every_architecture() {
    const GETS: usize = 12;
    let value: Vec<u8> = (0..1_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let hit = [&b"VALUE big 0 1000000\r\n"[..], &value, b"\r\n"].concat();
    let store = [&b"set big 0 0 1000000\r\n"[..], &value, b"\r\n"].concat();
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        let mut stream = serve.connect();
        stream.write_all(&store).unwrap();
        let mut stored = [0; 8];
        stream.read_exact(&mut stored).unwrap();
        assert_eq!(&stored, b"STORED\r\n", "{architecture}");

        // Many requests, and then one that asks for as much; a line that waits behind each.
        stream.write_all(&[b"get big\r\n".repeat(GETS), b"version\r\n".to_vec()].concat()).unwrap();
        thread::sleep(Duration::from_millis(20));
        let expected = [[&hit[..], b"END\r\n"].concat().repeat(GETS), b"VERSION 1.6.18-muxbench\r\n".to_vec()].concat();
        let mut came = vec![0; expected.len()];
        stream.read_exact(&mut came).unwrap_or_else(|error| panic!("{architecture}: {error}"));
        assert!(came == expected, "{architecture}: not what was stored");

        stream.write_all(&[&b"get"[..], &b" big".repeat(GETS), b"\r\nget none\r\n"].concat()).unwrap();
        // Nor does the end of the requests end the answers.
        stream.shutdown(Shutdown::Write).unwrap();
        thread::sleep(Duration::from_millis(20));
        assert!(rest(stream, architecture) == [&hit.repeat(GETS)[..], b"END\r\nEND\r\n"].concat(), "{architecture}");

        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        assert_eq!(totals["requests"].as_u64(), Some(1 + GETS as u64 + 1 + 2), "{architecture}: each is counted, once");
    });
}

/// A connection that asks in lines.
struct Lines(BufReader<TcpStream>);

impl Lines {
    fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    /// A value of one line, and its number.
    fn gets(&mut self, key: &str) -> (u64, u64) {
        let number = self.ask(&format!("gets {key}\r\n")).split_whitespace().nth(4).unwrap().parse().unwrap();
        let value = self.line().trim().parse().unwrap();
        assert_eq!(self.line(), "END\r\n");
        (value, number)
    }
}

#[test]
fn what_many_connections_change_at_once_adds_up_in_every_architecture() {
    const CONNECTIONS: u64 = 6;
    const ADDS: u64 = 300;
    const SWAPS: u64 = 40;
    with_each(|architecture| {
        let serve = Serve::start_kv(architecture, &[]);
        let connect = || Lines(BufReader::new(serve.connect()));
        let mut first = connect();
        assert_eq!(first.ask("set sum 0 0 1\r\n0\r\n"), "STORED\r\n");
        assert_eq!(first.ask("set swapped 0 0 1\r\n0\r\n"), "STORED\r\n");
        thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut lines = connect();
                    // At once: several may come to be one thread's job.
                    let mut last = lines.ask(&"incr sum 2\r\n".repeat(ADDS as usize));
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
                        match lines.ask(&request).as_str() {
                            "STORED\r\n" => swaps += 1,
                            other => assert_eq!(other, "EXISTS\r\n", "{architecture}"),
                        }
                    }
                });
            }
        });
        assert_eq!(first.gets("sum").0, 2 * CONNECTIONS * ADDS, "{architecture}");
        assert_eq!(first.gets("swapped").0, CONNECTIONS * SWAPS, "{architecture}");
    });
}
