//! Examines this host for problems that disturb results, and names remedies.
//!
//! Every run stores most facts of its host ([`crate::host`]). Only the doctor measures the load of other programs
//! ([`noise`]): the measurement takes a second, which is too long for planning.
//!
//! # Layout
//! - [`checks`]: the table of checks, with their input and results; add a row to add a check
//! - [`noise`]: measures the load of other programs, pauses and steal time

pub mod checks;
pub mod noise;

use std::time::Duration;

use crate::exec::leftovers;
use crate::host;
use checks::{CHECKS, Diagnosis, HostSnapshot};

/// The timeout for a packet's kernel timestamps. On a busy host the kernel starts stamping packets late.
const STAMPS_TIMEOUT: Duration = Duration::from_millis(300);

/// Examines this host for a little more than a second. The host should be idle meanwhile.
pub fn examine() -> Vec<Diagnosis> {
    diagnose(&snapshot())
}

/// Returns the results of all checks, in the order of the table.
pub fn diagnose(snapshot: &HostSnapshot) -> Vec<Diagnosis> {
    CHECKS.iter().map(|row| row.diagnose(snapshot)).collect()
}

fn snapshot() -> HostSnapshot {
    let mut host = host::detect();
    host.facts.insert("kernel timestamps".into(), host::kernel_timestamps(STAMPS_TIMEOUT));
    let counts = server::metrics::tracepoints::can_count()
        .map_or_else(|reason| format!("refused: {reason}"), |()| "allowed".into());
    host.facts.insert("system calls from outside".into(), counts);
    let noise = noise::measure(&host.cores.concat());
    HostSnapshot { host, noise, leftovers: leftovers::find() }
}
