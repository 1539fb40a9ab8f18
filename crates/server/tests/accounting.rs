//! A server counts the whole CPU time of its children, also of short-lived ones.
//!
//! The only test of its process, because it measures all children of the process.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use muxbench_server::{Accept, Architecture, ServeConfig, Server, StageCpus};
use wire::ServiceSpec;

const CONNECTIONS: u32 = 300;

/// CPU time of all children that were waited for, in nanoseconds.
fn children_ns() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in `usage`.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000)
        .sum()
}

#[test]
fn short_lived_children_are_counted_with_their_exits() {
    let architecture: Architecture = "mp".parse().unwrap();
    let config = ServeConfig {
        architecture,
        accept: Accept::default_of(architecture.model),
        service: ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 },
        work: None,
        listen: ([127, 0, 0, 1], 0).into(),
        cpus: Vec::new(),
        stage_cpus: StageCpus::default(),
        connections_max: 2 * CONNECTIONS,
        limits: muxbench_server::Limits::default(),
        read_budget_bytes: muxbench_server::ReadBudget::default(),
        count_syscalls: false,
    };
    let server = Server::start(&config).unwrap();
    let address = server.address().ip().unwrap();
    let before = server.snapshot().totals.cpu_children_ns;
    let mut middle = 0;
    for number in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[0]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        if number == CONNECTIONS / 2 {
            // This snapshot counts a living child, and the last one counts it after its end.
            middle = server.snapshot().totals.cpu_children_ns;
        }
        // Children that were forked meanwhile inherited the client's socket, so that closing it does not end the connection.
        stream.shutdown(Shutdown::Both).unwrap();
    }
    // Wait until the last child has seen the end of its connection. The rest of its time is negligible.
    while server.snapshot().connections_open > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let counted = server.snapshot().totals.cpu_children_ns - before;
    assert!(before <= middle && middle - before <= counted, "CPU time never falls");
    server.stop().unwrap();
    let used = children_ns();
    let share = counted as f64 / used as f64;
    assert!((0.95..=1.01).contains(&share), "{counted} of {used} ns are counted ({share:.3}), expected 0.95 to 1.01");
}
