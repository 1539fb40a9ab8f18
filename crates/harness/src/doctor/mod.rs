//! Examines this host: what disturbs results, how, and what remedies it.
//!
//! Most facts are those stored with every run ([`crate::host`]). The load of other programs is measured only here ([`noise`]):
//! that takes a second, too long for planning, and holds for the moment only.
//!
//! # Layout
//! - [`finding`]: the data: what the checks look at, and their results
//! - [`checks`]: the table of checks; add a row to add a check
//! - [`noise`]: measures the load of other programs, pauses and steal time

pub mod checks;
pub mod finding;
pub mod noise;

use std::time::Duration;

use crate::exec::leftovers;
use crate::host;
use checks::CHECKS;
use finding::{Diagnosis, HostSnapshot};

/// How long the kernel may take to start stamping packets on a busy host.
const STAMPS_TIMEOUT: Duration = Duration::from_millis(300);

/// Examines this host. Takes a little more than a second; leave the host alone meanwhile.
pub fn examine() -> Vec<Diagnosis> {
    diagnose(&snapshot())
}

/// The results of all checks, in the order of the table.
pub fn diagnose(snapshot: &HostSnapshot) -> Vec<Diagnosis> {
    CHECKS.iter().map(|row| row.diagnose(snapshot)).collect()
}

/// Measures this host; takes a little more than a second.
fn snapshot() -> HostSnapshot {
    let mut host = host::detect();
    host.facts.insert("kernel timestamps".into(), host::kernel_timestamps(STAMPS_TIMEOUT));
    let counts = server::metrics::tracepoints::can_count()
        .map_or_else(|reason| format!("refused: {reason}"), |()| "allowed".into());
    host.facts.insert("system calls from outside".into(), counts);
    let noise = noise::measure(&host.cores.concat());
    HostSnapshot { host, noise, leftovers: leftovers::find() }
}
