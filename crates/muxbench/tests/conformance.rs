//! What every architecture must do, checked for each row of the tables.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use common::{Serve, eventually, exchange, is_alive};
use rustix::net::sockopt;
use server::Architecture;

/// Every architecture, and runtimes with two threads as well, whose tasks may change threads. The name of the one under
/// test is printed, so that a failure names it.
fn each() -> impl Iterator<Item = Architecture> {
    let all = Architecture::all();
    let is_runtime = |row: &&Architecture| server::runtime::FEATURES.contains(&row.model.name);
    let in_two = all.iter().filter(is_runtime).map(|&row| Architecture { threads: NonZeroU32::new(2), ..row });
    all.iter().copied().chain(in_two).collect::<Vec<_>>().into_iter().inspect(|architecture| println!("{architecture}"))
}

#[test]
fn answers_each_request_with_a_whole_response() {
    for architecture in each() {
        let serve = Serve::start(architecture, 128, 10_240);
        let mut streams: Vec<_> = (0..10).map(|_| serve.connect()).collect();
        for _ in 0..3 {
            for stream in &mut streams {
                exchange(stream, 128, 10_240);
            }
        }
        // A byte may be here a moment before it is counted there.
        std::thread::sleep(Duration::from_millis(100));
        drop(streams);
        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        assert_eq!(totals["requests"], 30);
        assert_eq!(totals["accepted"], 10);
        assert_eq!(totals["bytes_in"], 30 * 128);
        assert_eq!(totals["bytes_out"], 30 * 10_240);
        for kind in ["read", "write"] {
            let count = totals["syscalls"][kind].as_u64();
            // Those of a runtime are not told at all: a part would be taken for the whole.
            assert_eq!(count.is_some(), architecture.model.counts_syscalls, "{architecture}");
            assert!(count.is_none_or(|count| count >= 30), "{architecture}: {count:?}");
        }
    }
}

#[test]
fn says_nothing_before_a_request_is_whole() {
    for architecture in each() {
        let serve = Serve::start(architecture, 10, 5);
        let mut stream = serve.connect();
        stream.write_all(&[1; 9]).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0; 1]).is_err(), "answered 9 bytes of 10");
        stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    }
}

#[test]
fn takes_requests_one_byte_at_a_time() {
    for architecture in each() {
        let serve = Serve::start(architecture, 50, 3);
        let mut stream = serve.connect();
        for _ in 0..2 {
            for _ in 0..50 {
                stream.write_all(&[1]).unwrap();
            }
            stream.read_exact(&mut [0; 3]).unwrap();
        }
    }
}

#[test]
fn answers_pipelined_requests_all() {
    for architecture in each() {
        let serve = Serve::start(architecture, 100, 300);
        let mut stream = serve.connect();
        // A thousand and a half: the half is answered when its rest comes.
        stream.write_all(&[1; 100_050]).unwrap();
        stream.read_exact(&mut vec![0; 300_000]).unwrap();
        stream.write_all(&[1; 50]).unwrap();
        stream.read_exact(&mut [0; 300]).unwrap();
    }
}

#[test]
fn a_slow_reader_gets_ten_mebibytes_while_others_are_served() {
    const RESPONSE: usize = 10 << 20;
    for architecture in each() {
        let serve = Serve::start(architecture, 1, RESPONSE as u32);
        let mut slow = serve.connect();
        // More than socket buffers hold, and nobody reads: the server's write falls short.
        slow.write_all(&[1]).unwrap();
        let mut other = serve.connect();
        exchange(&mut other, 1, RESPONSE);
        slow.read_exact(&mut vec![0; RESPONSE]).unwrap();
        // And the connection is still good.
        exchange(&mut slow, 1, RESPONSE);
    }
}

#[test]
fn answers_what_was_asked_before_a_half_close() {
    for architecture in each() {
        let serve = Serve::start(architecture, 4, 100_000);
        let mut stream = serve.connect();
        stream.write_all(&[1; 12]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 300_000, "{architecture}: three responses, then the end");
    }
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_reset_ends_one_connection_only() {
    for architecture in each() {
        let serve = Serve::start(architecture, 1, 5 << 20);
        let mut honest = serve.connect();
        let mut rude = serve.connect();
        // In the midst of a response, and in the midst of nothing.
        rude.write_all(&[1]).unwrap();
        rude.read_exact(&mut [0; 1000]).unwrap();
        reset(rude);
        reset(serve.connect());
        exchange(&mut honest, 1, 5 << 20);
        exchange(&mut serve.connect(), 1, 5 << 20);
    }
}

#[test]
fn descriptors_are_used_again() {
    for architecture in each() {
        // Far fewer descriptors than connections in all.
        let serve = Serve::start_with(architecture, 1, 1, &[], Some(64));
        for _ in 0..300 {
            exchange(&mut serve.connect(), 1, 1);
        }
        let (_, totals) = serve.stop();
        assert_eq!(totals["requests"], 300);
    }
}

#[test]
fn works_past_1024_descriptors() {
    for architecture in each() {
        let serve = Serve::start(architecture, 1, 1);
        let mut streams: Vec<_> = (0..1_100)
            .map(|_| {
                let mut stream = serve.connect();
                exchange(&mut stream, 1, 1);
                stream
            })
            .collect();
        for stream in &mut streams {
            exchange(stream, 1, 1);
        }
        let (_, totals) = serve.stop();
        assert_eq!(totals["requests"], 2_200);
        assert_eq!(totals["refused"], 0);
    }
}

/// Whether one exchange works on a new connection.
fn is_served(serve: &Serve) -> Option<TcpStream> {
    let mut stream = serve.try_connect().ok()?;
    stream.write_all(&[1]).ok()?;
    stream.read_exact(&mut [0; 1]).ok()?;
    Some(stream)
}

#[test]
fn turns_connections_away_when_descriptors_run_out_and_recovers() {
    for architecture in each() {
        let serve = Serve::start_with(architecture, 1, 1, &[], Some(32));
        // `mp` gives each connection a process with descriptors of its own: it has no such limit.
        let tries: Vec<_> = (0..40).map(|_| is_served(&serve)).collect();
        let served = tries.iter().flatten().count();
        let has_limit = architecture.model.name != "mp";
        assert_eq!(has_limit, served < 40, "{architecture} served {served} of 40 with 32 descriptors");
        assert!(served >= 10, "{architecture} served {served}");
        drop(tries);
        eventually("a new connection is served again", || is_served(&serve).is_some());
        let (_, totals) = serve.stop();
        assert_eq!(has_limit, totals["refused"].as_u64().unwrap() > 0);
    }
}

#[test]
fn refuses_beyond_the_room_it_was_given() {
    for architecture in each() {
        let serve = Serve::start_with(architecture, 1, 1, &["--connections-max", "3"], None);
        let kept: Vec<_> = (0..3).map(|_| is_served(&serve).expect("there is room")).collect();
        assert!(is_served(&serve).is_none(), "{architecture} has room for three");
        drop(kept);
        eventually("room again", || is_served(&serve).is_some());
    }
}

#[test]
fn stops_while_busy_and_leaves_no_child() {
    for architecture in each() {
        let serve = Serve::start(architecture, 1, 10 << 20);
        let mut streams: Vec<_> = (0..5).map(|_| serve.connect()).collect();
        for stream in &mut streams {
            stream.write_all(&[1]).unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
        }
        let children = serve.children();
        assert_eq!(children.len(), if architecture.model.name == "mp" { 5 } else { 0 }, "{architecture}");
        let (status, _) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        eventually("children are gone", || !children.iter().any(|&child| is_alive(child)));
    }
}

#[test]
fn children_die_with_a_server_that_is_killed() {
    for architecture in each() {
        let serve = Serve::start(architecture, 1, 1);
        let mut streams: Vec<_> = (0..5).map(|_| serve.connect()).collect();
        for stream in &mut streams {
            exchange(stream, 1, 1);
        }
        let children = serve.children();
        drop(serve);
        eventually("children are gone", || !children.iter().any(|&child| is_alive(child)));
    }
}

#[test]
fn a_server_does_not_outlive_what_started_it() {
    for architecture in each() {
        // A shell that starts a server, says its process id, and waits.
        let script = format!("{} serve --json --arch {architecture} & echo $!; wait", env!("CARGO_BIN_EXE_muxbench"));
        let mut shell = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(shell.stdout.take().unwrap()));
        let mut next = || lines.next().unwrap().unwrap();
        let (first, second) = (next(), next());
        // Whichever comes first.
        let pid = [&first, &second]
            .iter()
            .find_map(|line| line.parse().ok())
            .and_then(rustix::process::Pid::from_raw)
            .unwrap();
        shell.kill().unwrap();
        shell.wait().unwrap();
        eventually("the server is gone", || !is_alive(pid));
    }
}
