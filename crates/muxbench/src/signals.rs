//! The signals that stop a run or a command.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::Context;
use process::child::signal_all;
use process::stop::{Stop, heeds};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};
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
/// immediately, as do SIGTERM and, unless the process ignores it, SIGHUP. SIGTSTP suspends the children too.
pub fn stop_at_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    // The handlers set these flags themselves, so no signal is lost before the thread below runs.
    signal_hook::flag::register(SIGINT, stop.after_trial.clone()).context(CANNOT)?;
    signal_hook::flag::register(SIGTERM, stop.immediately.clone()).context(CANNOT)?;
    if heeds(SIGHUP) {
        signal_hook::flag::register(SIGHUP, stop.immediately.clone()).context(CANNOT)?;
    }
    let handled = [SIGINT, SIGTSTP].into_iter().filter(|signal| heeds(*signal));
    let mut signals = Signals::new(handled).context(CANNOT)?;
    let requested = stop.clone();
    let listen = move || {
        let mut is_first = true;
        for signal in signals.forever() {
            match signal {
                SIGTSTP => suspend(),
                _ if std::mem::take(&mut is_first) => {
                    output::note("finishing the current trial; press Ctrl-C again to stop immediately");
                }
                _ => requested.abort(),
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).context(CANNOT)?;
    Ok(stop)
}

/// Suspends this process and its children until SIGCONT, so that no client sends on alone.
fn suspend() {
    signal_all(Signal::STOP);
    // The call returns after SIGCONT.
    let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
    signal_all(Signal::CONT);
}
