//! Whose CPU time the kernel's work in interrupts is: that of the process in which they run, or nobody's.
//!
//! Most of a server's network traffic is handled in soft interrupts (softirq), which run at the end of its own system calls.
//! A kernel built with CONFIG_IRQ_TIME_ACCOUNTING, which has a clock good enough for it, takes them out of the process's CPU
//! time; others leave them in. Shares of CPUs and CPU time a request mean something else on each.

use std::net::UdpSocket;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

/// The name of the host's fact.
pub const FACT: &str = "interrupt time";
/// What the fact begins with where interrupts are in no process's CPU time.
pub const CHARGED_TO_NOBODY: &str = "charged to no process";

/// Whose CPU time interrupts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// The process's in which they run.
    Charged,
    /// Nobody's.
    Apart,
}

/// Datagrams of one look; it takes some 50 µs, so that few looks are disturbed.
const DATAGRAMS: usize = 32;
/// Looks at most...
const LOOKS_MAX: usize = 200;
/// ...and for how long.
const PATIENCE: Duration = Duration::from_millis(50);
/// With fewer looks there is no median worth the name.
const LOOKS_MIN: usize = 20;
/// Where interrupts are charged, at most this share of the sender's time is missing from its CPU time: reading two clocks
/// takes 1 % (Linux 6.18).
const MISSING_CHARGED_MAX: f64 = 0.04;
/// Where they are not, at least this share is: there, a datagram took 0.6 µs of softirq of 1.3 µs.
const MISSING_APART_MIN: f64 = 0.1;

/// How this kernel accounts, as it was found when it was first asked; `None` where that does not show.
pub(crate) fn accounting() -> Option<Accounting> {
    found().0
}

/// The same as a fact of the host.
#[cfg(target_os = "linux")]
pub(crate) fn fact() -> String {
    found().1.clone()
}

fn found() -> &'static (Option<Accounting>, String) {
    static FOUND: OnceLock<(Option<Accounting>, String)> = OnceLock::new();
    FOUND.get_or_init(|| judge(missing_share().ok().flatten(), configured()))
}

/// What the share of CPU time that a sender misses and the kernel's configuration say together. The configuration counts only
/// where the experiment shows nothing: a kernel that could account for interrupts may have turned that off (`tsc=noirqtime`,
/// or an unstable clock).
fn judge(missing: Option<f64>, configured: Option<Accounting>) -> (Option<Accounting>, String) {
    let seen = missing.and_then(|missing| match missing {
        _ if missing <= MISSING_CHARGED_MAX => Some(Accounting::Charged),
        _ if missing >= MISSING_APART_MIN => Some(Accounting::Apart),
        _ => None,
    });
    let words = |accounting| match accounting {
        Accounting::Charged => "charged to the process they interrupt",
        Accounting::Apart => CHARGED_TO_NOBODY,
    };
    match (seen, configured) {
        (Some(seen), Some(other)) if seen != other => {
            (Some(seen), format!("{}, as measured; the kernel's configuration differs", words(seen)))
        }
        (Some(seen), _) => (Some(seen), words(seen).to_owned()),
        (None, Some(configured)) => (Some(configured), format!("{}, by the kernel's configuration", words(configured))),
        (None, None) => (None, "unknown".to_owned()),
    }
}

/// The share of a thread's time that its CPU time lacks while it sends datagrams to itself, which it receives in softirq: the
/// median of many short looks, of which a neighbour disturbs few. `None` if there were too few.
fn missing_share() -> io::Result<Option<f64>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    socket.set_nonblocking(true)?;
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let mut bytes = [0; 64];
    let mut look = || -> io::Result<f64> {
        let (wall_ns, cpu_ns) = (ns(ClockId::Monotonic), ns(ClockId::ThreadCPUTime));
        for _ in 0..DATAGRAMS {
            socket.send(&bytes)?;
        }
        let (used_ns, window_ns) = (ns(ClockId::ThreadCPUTime) - cpu_ns, ns(ClockId::Monotonic) - wall_ns);
        while socket.recv(&mut bytes).is_ok() {}
        Ok(1.0 - used_ns / window_ns.max(1.0))
    };
    let started = Instant::now();
    let mut shares = Vec::new();
    while shares.len() < LOOKS_MAX && started.elapsed() < PATIENCE {
        shares.push(look()?);
    }
    shares.sort_by(f64::total_cmp);
    Ok((shares.len() >= LOOKS_MIN).then(|| shares[shares.len() / 2]))
}

/// As the kernel was built, where a distribution has left that to read.
fn configured() -> Option<Accounting> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let files = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
    files.iter().find_map(|file| of_config(&fs::read_to_string(file).ok()?))
}

fn of_config(text: &str) -> Option<Accounting> {
    text.lines().find_map(|line| match line.trim() {
        "CONFIG_IRQ_TIME_ACCOUNTING=y" => Some(Accounting::Apart),
        "# CONFIG_IRQ_TIME_ACCOUNTING is not set" => Some(Accounting::Charged),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiment_decides_where_it_shows_anything() {
        use Accounting::{Apart, Charged};
        let accounting = |missing, configured| judge(missing, configured).0;
        assert_eq!(accounting(Some(0.01), None), Some(Charged));
        assert_eq!(accounting(Some(0.4), None), Some(Apart));
        assert_eq!(accounting(Some(0.01), Some(Apart)), Some(Charged), "built in, and turned off");
        assert_eq!(accounting(Some(0.07), Some(Apart)), Some(Apart));
        assert_eq!(accounting(None, Some(Charged)), Some(Charged));
        assert_eq!(accounting(None, None), None);
        assert!(judge(Some(0.4), None).1.starts_with(CHARGED_TO_NOBODY));
        assert!(judge(Some(0.4), Some(Charged)).1.ends_with("differs"));
        assert_eq!(judge(None, None).1, "unknown");
    }

    #[test]
    fn kernel_config_is_read_where_there_is_one() {
        assert_eq!(of_config("CONFIG_HZ=250\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"), Some(Accounting::Apart));
        assert_eq!(of_config("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n"), Some(Accounting::Charged));
        assert_eq!(of_config("CONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n"), None);
    }

    #[test]
    fn accounting_of_this_kernel_shows() {
        let shares: Vec<Option<f64>> = (0..3).map(|_| missing_share().unwrap()).collect();
        let found: Vec<_> = shares.iter().map(|share| judge(*share, None).0).collect();
        // A busy machine may keep a look from being made.
        let shown: Vec<Accounting> = found.iter().copied().flatten().collect();
        assert!(!shown.is_empty() && shown.iter().all(|it| *it == shown[0]), "{shares:?}");
    }
}
