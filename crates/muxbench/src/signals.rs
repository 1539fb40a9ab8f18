//! The signals that stop a run.

use std::io::Write;
use std::thread;

use anyhow::Context;
use harness::process::stop::{Stop, ends_at_hangup};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What the first Ctrl-C is answered.
const FINISHING: &str = "muxbench: the trial that runs is finished first; once more stops at once\n";

/// What signals set, from now on: SIGINT has the trial that runs finished first, once more, SIGTERM or a hang-up stops at once.
///
/// # Errors
/// When signals cannot be listened to.
pub fn stop_at_signals() -> anyhow::Result<Stop> {
    const CANNOT: &str = "cannot listen to signals";
    let stop = Stop::default();
    // At once, so that whoever looks next sees it.
    signal_hook::flag::register(SIGINT, stop.after_trial.clone()).context(CANNOT)?;
    signal_hook::flag::register(SIGTERM, stop.immediately.clone()).context(CANNOT)?;
    if ends_at_hangup() {
        signal_hook::flag::register(SIGHUP, stop.immediately.clone()).context(CANNOT)?;
    }
    let mut interrupts = Signals::new([SIGINT]).context(CANNOT)?;
    let heard = stop.clone();
    let listen = move || {
        let mut heard_before = false;
        for _ in interrupts.forever() {
            if heard_before {
                heard.abort();
            } else {
                // Whoever closed standard error is not told.
                let _ = anstream::stderr().write_all(FINISHING.as_bytes());
            }
            heard_before = true;
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).context(CANNOT)?;
    Ok(stop)
}
