//! The signals that stop a run or a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::Context;
use process::stop::{Stop, ends_at_hangup};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::{exit, output};

const CANNOT: &str = "cannot handle signals";

/// Handles SIGXFSZ, so that a write beyond the limit of the size of files (`ulimit -f`) is an error, like one on a full disk. Child
/// processes do not inherit a handler.
pub fn fail_writes_beyond_limit() -> anyhow::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context(CANNOT)?;
    Ok(())
}

/// Returns a flag that the first SIGINT or SIGTERM sets. The second signal ends the process.
pub fn flag_at_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, exit::STOPPED.into(), stop.clone()).context(CANNOT)?;
        signal_hook::flag::register(signal, stop.clone()).context(CANNOT)?;
    }
    Ok(stop)
}

/// Installs the signal handlers. The first SIGINT stops the run after the current trial. A second SIGINT stops it
/// immediately, as do SIGTERM and, unless the process ignores it, SIGHUP.
pub fn stop_at_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    // The handlers set these flags themselves, so no signal is lost before the thread below runs.
    signal_hook::flag::register(SIGINT, stop.after_trial.clone()).context(CANNOT)?;
    signal_hook::flag::register(SIGTERM, stop.immediately.clone()).context(CANNOT)?;
    if ends_at_hangup() {
        signal_hook::flag::register(SIGHUP, stop.immediately.clone()).context(CANNOT)?;
    }
    let mut interrupts = Signals::new([SIGINT]).context(CANNOT)?;
    let requested = stop.clone();
    let listen = move || {
        let mut interrupts = interrupts.forever();
        if interrupts.next().is_some() {
            output::note("finishing the current trial; press Ctrl-C again to stop immediately");
        }
        interrupts.for_each(|_| requested.abort());
    };
    thread::Builder::new().name("signals".into()).spawn(listen).context(CANNOT)?;
    Ok(stop)
}
