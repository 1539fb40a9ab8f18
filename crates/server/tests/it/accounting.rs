//! A server counts all CPU time of its children, even if they are short-lived.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use muxbench_server::{ServeConfig, Server};
use wire::ServiceSpec;

use crate::config;

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

pub fn cpu_time_of_short_lived_children_includes_their_exits() {
    let service = ServiceSpec::Fixed { request_bytes: 1, response_bytes: 1 };
    let config = ServeConfig { connections_max: 2 * CONNECTIONS, ..config("mp".parse().unwrap(), service) };
    let used_before_ns = children_ns();
    let server = Server::start(&config).unwrap();
    let address = server.address().ip().unwrap();
    let before = server.snapshot().totals.cpu_children_ns;
    let mut middle = 0;
    for number in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[0]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        if number == CONNECTIONS / 2 {
            // This snapshot counts a living child; the last snapshot counts the same child after its end.
            middle = server.snapshot().totals.cpu_children_ns;
        }
        // Shut down: children forked meanwhile inherited this socket, so closing it would not end the connection.
        stream.shutdown(Shutdown::Both).unwrap();
    }
    // Wait until the last child has seen the end of its connection. The rest of its time is negligible.
    while server.snapshot().connections_open > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let counted = server.snapshot().totals.cpu_children_ns - before;
    assert!(before <= middle && middle - before <= counted, "the CPU time of children fell");
    server.stop().unwrap();
    let used = children_ns() - used_before_ns;
    let share = counted as f64 / used as f64;
    assert!((0.95..=1.01).contains(&share), "{counted} of {used} ns are counted ({share:.3}), expected 0.95 to 1.01");
}
