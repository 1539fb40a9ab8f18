//! Observation of a live server by the kernel's counters.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use super::sock_diag::{EndedConnections, Listener, SockDiag};
use super::tracker::{SocketState, Tracker};
use super::traffic::Traffic;

/// The mean interval between two snapshots.
const INTERVAL: Duration = Duration::from_millis(50);
/// An interval lasts at least this many times as long as its snapshot, because a snapshot locks each socket for a moment.
const PAUSE_FACTOR: u32 = 20;
/// The interval at which messages about ended connections are read, before they fill their buffer.
const DRAIN_INTERVAL: Duration = Duration::from_millis(5);
/// The number of ports that an error lists.
const PORTS_SHOWN: usize = 10;

/// Observes the connections of a port until `duration` has passed or `stop` is set.
pub fn observe(port: NonZeroU16, duration: Duration, stop: &AtomicBool) -> anyhow::Result<Traffic> {
    let port = port.get();
    let mut diag = open()?;
    let ports: BTreeSet<u16> = listeners(&mut diag)?.into_iter().map(|it| it.port).collect();
    if !ports.contains(&port) {
        let shown: Vec<String> = ports.iter().take(PORTS_SHOWN).map(ToString::to_string).collect();
        let shown = if shown.is_empty() { "no port".to_owned() } else { shown.join(", ") };
        bail!(
            "cannot observe port {port}: nothing listens on it in this network namespace; start the server, or choose another \
             --port (servers listen on {shown})"
        );
    }
    let snapshot = |diag: &mut SockDiag| diag.connections(port).context("cannot list the connections");
    // Subscribe first, so that no connection ends unseen.
    let mut ended = EndedConnections::subscribe();
    let begin = Instant::now();
    let mut tracker = Tracker::new(&snapshot(&mut diag)?);
    // Discard connections that ended before the window.
    drain(&mut ended, port, |state| {
        if tracker.is_known(state.id) {
            tracker.end(state);
        }
    })?;
    let mut took = begin.elapsed();
    let goes_on = || begin.elapsed() < duration && !stop.load(Relaxed);
    for interval in (0..).map(interval).take_while(|_| goes_on()) {
        let next = (Instant::now() + interval.max(took * PAUSE_FACTOR)).min(begin + duration);
        while !stop.load(Relaxed) {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(DRAIN_INTERVAL));
            drain(&mut ended, port, |state| tracker.end(state))?;
        }
        let before = Instant::now();
        let sockets = snapshot(&mut diag)?;
        tracker.snapshot(&sockets);
        took = before.elapsed();
    }
    let window_ns = begin.elapsed().as_nanos() as u64;
    drain(&mut ended, port, |state| tracker.end(state))?;
    Ok(tracker.finish(window_ns, missed(&ended)))
}

/// Returns the interval between two snapshots, half of the mean or more. Equal intervals would contain equally many requests of a client
/// whose pauses are constant, and their sum would look like one message. The fractions of multiples of the golden ratio are even.
fn interval(number: u32) -> Duration {
    INTERVAL.mul_f64(0.5 + (f64::from(number) * std::f64::consts::GOLDEN_RATIO).fract())
}

/// Passes the connections that have ended since the last call, if the kernel reports them.
fn drain(ended: &mut io::Result<EndedConnections>, port: u16, each: impl FnMut(&SocketState)) -> anyhow::Result<()> {
    let Ok(ended) = ended else { return Ok(()) };
    ended.drain(port, each).context("cannot read the kernel's messages about ended connections")
}

fn missed(ended: &io::Result<EndedConnections>) -> Vec<String> {
    match ended {
        Ok(EndedConnections { has_lost: false, .. }) => Vec::new(),
        Ok(_) => vec![
            "Some ended connections: the kernel dropped messages, so rates are too low; run as root, which has a larger buffer"
                .to_owned(),
        ],
        Err(error) => vec![format!(
            "Connections shorter than {} ms: the kernel sends no messages about ended connections ({error}); run as root",
            INTERVAL.as_millis()
        )],
    }
}

/// Returns the port on which a process listens.
pub fn port_of(pid: u32) -> anyhow::Result<NonZeroU16> {
    let folder = format!("/proc/{pid}/fd");
    let links = std::fs::read_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("--pid {pid}: no such process; list servers with `ss -ltnp`, or use --port"),
        ErrorKind::PermissionDenied => {
            anyhow!("--pid {pid}: belongs to another user; run as that user or as root, or use --port")
        }
        _ => anyhow!("cannot read {folder}: {error}; try --port"),
    })?;
    let inode = |name: &str| name.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u32>().ok();
    let inodes: BTreeSet<u32> =
        links.flatten().filter_map(|link| inode(std::fs::read_link(link.path()).ok()?.to_str()?)).collect();
    let listeners = listeners(&mut open()?)?;
    let ports: BTreeSet<u16> = listeners.iter().filter(|it| inodes.contains(&it.inode)).map(|it| it.port).collect();
    let ports: Vec<NonZeroU16> = ports.into_iter().filter_map(NonZeroU16::new).collect();
    match ports.as_slice() {
        [port] => Ok(*port),
        [] => bail!(
            "--pid {pid}: the process listens on no TCP port of this network namespace; name the server's main process, enter \
             its namespace (nsenter -n -t {pid}), or use --port"
        ),
        several => {
            let listed: Vec<String> = several.iter().map(ToString::to_string).collect();
            bail!("--pid {pid}: the process listens on several ports; choose one with --port ({})", listed.join(", "))
        }
    }
}

fn open() -> anyhow::Result<SockDiag> {
    SockDiag::open().map_err(|error| no_access(&error))
}

fn listeners(diag: &mut SockDiag) -> anyhow::Result<Vec<Listener>> {
    diag.listeners().map_err(|error| no_access(&error))
}

fn no_access(error: &io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => "run as root, or outside the container or sandbox that forbids netlink",
        ErrorKind::NotFound => "load the module: modprobe tcp_diag",
        _ => "capture packets, and use --pcap",
    };
    anyhow!("cannot list this host's TCP sockets: {error}; {remedy}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn error<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn port_without_server_is_rejected_with_open_ports() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
        drop(listener);
        let reason = error(observe(port, Duration::ZERO, &AtomicBool::new(false)));
        assert!(reason.starts_with(&format!("cannot observe port {port}: nothing listens on it")), "{reason}");
    }

    #[test]
    fn intervals_differ_and_have_their_mean() {
        let intervals: Vec<Duration> = (0..200).map(interval).collect();
        let mean = intervals.iter().sum::<Duration>() / 200;
        assert!(mean.abs_diff(INTERVAL) < INTERVAL / 50, "{mean:?}");
        // A request each 10 ms: no multiple of it is in nearly all intervals.
        let requests: Vec<u128> = intervals.iter().map(|it| it.as_millis() / 10).collect();
        for count in 2..9 {
            let multiples = requests.iter().filter(|it| it.is_multiple_of(count)).count();
            assert!(multiples < 150, "{multiples} have a multiple of {count} requests");
        }
    }

    #[test]
    fn process_is_found_by_the_port_that_it_listens_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Other tests of this process may listen meanwhile.
        match port_of(std::process::id()) {
            Ok(found) => assert_eq!(found.get(), port),
            Err(several) => assert!(several.to_string().contains(&port.to_string()), "{several}"),
        }
        let _second = TcpListener::bind("127.0.0.1:0").unwrap();
        let several = error(port_of(std::process::id()));
        assert!(several.contains("several ports; choose one with --port"), "{several}");
        assert!(several.contains(&port.to_string()), "{several}");
        let mut idle = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let none = error(port_of(idle.id()));
        idle.kill().unwrap();
        idle.wait().unwrap();
        assert!(none.contains("listens on no TCP port"), "{none}");
        assert!(error(port_of(u32::MAX)).contains("no such process"));
    }
}
