//! Requests to stop a run: after the current trial, or immediately.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::bail;

/// The interval at which waiting functions check for a request to stop.
pub const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A request to stop, shared between signal handlers and a run.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// The run ends after the current trial.
    pub after_trial: Arc<AtomicBool>,
    /// The run ends immediately and abandons the current trial.
    pub immediately: Arc<AtomicBool>,
}

impl Stop {
    /// Requests the end of the run after the current trial.
    pub fn request(&self) {
        self.after_trial.store(true, Relaxed);
    }

    /// Requests the immediate end of the run.
    pub fn abort(&self) {
        self.immediately.store(true, Relaxed);
    }

    /// Whether no further trial may begin.
    pub fn is_requested(&self) -> bool {
        self.after_trial.load(Relaxed) || self.is_aborted()
    }

    /// Whether to abandon the current trial.
    pub fn is_aborted(&self) -> bool {
        self.immediately.load(Relaxed)
    }

    /// Returns an error if the current trial is to be abandoned.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.is_aborted() { bail!("stopped") } else { Ok(()) }
    }
}

/// Whether this process handles a signal, or leaves it to the system. Under nohup(1) it ignores SIGHUP, which a closed terminal sends.
pub fn heeds(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call changes no handler and writes into `action`, for which all bits zero are a valid value.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction != libc::SIG_IGN
}
