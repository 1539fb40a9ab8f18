//! How what runs is asked to stop: after the trial that runs, or at once.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::bail;

/// How often whoever waits for something looks whether an end is wanted.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// Set by whoever wants an end, looked at by what runs.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// No other trial is to begin.
    pub asked: Arc<AtomicBool>,
    /// The one that runs is to be given up.
    pub now: Arc<AtomicBool>,
}

impl Stop {
    /// Asks for an end after the trial that runs.
    pub fn ask(&self) {
        self.asked.store(true, Relaxed);
    }

    /// Asks for an end at once.
    pub fn ask_now(&self) {
        self.now.store(true, Relaxed);
    }

    /// Whether no other trial is to begin.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Relaxed) || self.is_now()
    }

    /// Whether the one that runs is to be given up.
    pub fn is_now(&self) -> bool {
        self.now.load(Relaxed)
    }

    /// # Errors
    /// When the one that runs is to be given up.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.is_now() { bail!("stopped") } else { Ok(()) }
    }
}

/// Whether a hang-up (SIGHUP) is to end us, as that of a terminal or of a session over a network does: not if whoever started us
/// has us ignore it, as nohup(1).
pub fn ends_at_hangup() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is changed, and the C library writes into `action`, of which all bits zero are a value.
    let action = unsafe {
        libc::sigaction(libc::SIGHUP, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction != libc::SIG_IGN
}
