//! The kernel's accounting of interrupt time: charged to the interrupted process, or to no process.
//!
//! The kernel handles most of a server's network traffic in soft interrupts (softirq) at the end of the server's system
//! calls. With CONFIG_IRQ_TIME_ACCOUNTING and a suitable clock, the CPU time of the process excludes softirqs.
//! Otherwise it includes them. The meaning of CPU shares and of CPU time per request therefore depends on the kernel.

use std::net::UdpSocket;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

/// The name of this fact in the facts of the host.
pub const FACT: &str = "interrupt time";
/// The prefix of the fact's value if no process's CPU time includes interrupts.
pub const CHARGED_TO_NOBODY: &str = "charged to no process";

/// The accounting of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// Charged to the interrupted process.
    Charged,
    /// Charged to no process.
    Apart,
}

/// The number of datagrams in one measurement. They take about 50 µs, so other processes disturb few measurements.
const DATAGRAMS: usize = 32;
/// The maximum number of measurements.
const MEASUREMENTS_MAX: usize = 200;
/// The maximum time for all measurements.
const TIME_MAX: Duration = Duration::from_millis(50);
/// The minimum number of measurements for a meaningful median.
const MEASUREMENTS_MIN: usize = 20;
/// The maximum share of missing CPU time if interrupts are charged to the process. Reading the two clocks already makes
/// up 1 % (Linux 6.18).
const MISSING_CHARGED_MAX: f64 = 0.04;
/// The minimum share of missing CPU time if interrupts are charged to no process. With such a kernel, a datagram took
/// 1.3 µs, of which 0.6 µs in softirq.
const MISSING_APART_MIN: f64 = 0.1;

/// Returns the accounting of this kernel, measured once per process. `None` if unknown.
pub(crate) fn accounting() -> Option<Accounting> {
    found().0
}

/// Returns the accounting as a fact of the host.
#[cfg(target_os = "linux")]
pub(crate) fn fact() -> String {
    found().1.clone()
}

fn found() -> &'static (Option<Accounting>, String) {
    static FOUND: OnceLock<(Option<Accounting>, String)> = OnceLock::new();
    FOUND.get_or_init(|| judge(missing_share().ok().flatten(), configured()))
}

/// Combines the measured share of missing CPU time with the kernel's configuration. The configuration counts only if
/// the measurement is inconclusive, because a kernel may have disabled its accounting at run time (`tsc=noirqtime`, or
/// an unstable clock).
fn judge(missing: Option<f64>, configured: Option<Accounting>) -> (Option<Accounting>, String) {
    let seen = match missing {
        Some(share) if share <= MISSING_CHARGED_MAX => Some(Accounting::Charged),
        Some(share) if share >= MISSING_APART_MIN => Some(Accounting::Apart),
        _ => None,
    };
    let describe = |accounting| match accounting {
        Accounting::Charged => "charged to the process they interrupt",
        Accounting::Apart => CHARGED_TO_NOBODY,
    };
    match (seen, configured) {
        (Some(seen), Some(other)) if seen != other => {
            (Some(seen), format!("{}, as measured; the kernel's configuration differs", describe(seen)))
        }
        (Some(seen), _) => (Some(seen), describe(seen).to_owned()),
        (None, Some(configured)) => {
            (Some(configured), format!("{}, by the kernel's configuration", describe(configured)))
        }
        (None, None) => (None, "unknown".to_owned()),
    }
}

/// Measures the share of wall time that is missing from a thread's CPU time while it sends datagrams to itself. Softirqs
/// receive these datagrams. Returns the median of many short measurements, or `None` if there are too few.
fn missing_share() -> io::Result<Option<f64>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(socket.local_addr()?)?;
    socket.set_nonblocking(true)?;
    let ns = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let mut bytes = [0; 64];
    let mut measure = || -> io::Result<f64> {
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
    while shares.len() < MEASUREMENTS_MAX && started.elapsed() < TIME_MAX {
        shares.push(measure()?);
    }
    shares.sort_by(f64::total_cmp);
    Ok((shares.len() >= MEASUREMENTS_MIN).then(|| shares[shares.len() / 2]))
}

/// Reads the accounting from the kernel's build configuration, if the distribution provides it.
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
    fn measurement_outweighs_the_configuration() {
        use Accounting::{Apart, Charged};
        let accounting = |missing, configured| judge(missing, configured).0;
        assert_eq!(accounting(Some(0.01), None), Some(Charged));
        assert_eq!(accounting(Some(0.4), None), Some(Apart));
        assert_eq!(accounting(Some(0.01), Some(Apart)), Some(Charged), "built in, but disabled at run time");
        assert_eq!(accounting(Some(0.07), Some(Apart)), Some(Apart));
        assert_eq!(accounting(None, Some(Charged)), Some(Charged));
        assert_eq!(accounting(None, None), None);
        assert!(judge(Some(0.4), None).1.starts_with(CHARGED_TO_NOBODY));
        assert!(judge(Some(0.4), Some(Charged)).1.ends_with("differs"));
        assert_eq!(judge(None, None).1, "unknown");
    }

    #[test]
    fn kernel_config_is_parsed() {
        assert_eq!(of_config("CONFIG_HZ=250\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"), Some(Accounting::Apart));
        assert_eq!(of_config("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n"), Some(Accounting::Charged));
        assert_eq!(of_config("CONFIG_HAVE_IRQ_TIME_ACCOUNTING=y\n"), None);
    }

    #[test]
    fn accounting_of_this_kernel_is_consistent() {
        let shares: Vec<Option<f64>> = (0..3).map(|_| missing_share().unwrap()).collect();
        let found: Vec<_> = shares.iter().map(|share| judge(*share, None).0).collect();
        // On a busy machine, a measurement may be missing.
        let shown: Vec<Accounting> = found.iter().copied().flatten().collect();
        assert!(!shown.is_empty() && shown.iter().all(|it| *it == shown[0]), "{shares:?}");
    }
}
