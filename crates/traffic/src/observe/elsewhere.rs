//! Systems whose kernels do not report the bytes of each connection.

use std::num::NonZeroU16;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::bail;

use super::traffic::Traffic;

const REMEDY: &str =
    "only Linux reports the bytes of other programs' connections; capture packets, and try --pcap FILE";

/// Fails, because the system lacks the figures.
pub fn observe(port: NonZeroU16, _: Duration, _: &AtomicBool) -> anyhow::Result<Traffic> {
    bail!("cannot observe port {port}: {REMEDY}")
}

/// Fails, because the system lacks the figures.
pub fn port_of(pid: u32) -> anyhow::Result<NonZeroU16> {
    bail!("cannot observe process {pid}: {REMEDY}")
}
