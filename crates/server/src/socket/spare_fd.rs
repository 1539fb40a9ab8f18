//! A descriptor in reserve: once there is no other it is given up for a moment, to accept a connection with and close it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::fs::{Mode, OFlags};

/// Reserves of this process that are given up, and those that others were quicker to take then.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// That of one who accepts.
///
/// Others accept in other threads, with reserves of their own, and the C library looks into files: whoever is quick has what was
/// given up. Did it stay with a connection, its owner could turn nobody away until one ends, and whoever waits would wait as long.
#[derive(Debug)]
pub struct SpareFd(Option<OwnedFd>);

impl SpareFd {
    /// One that is there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Some(open()?)))
    }

    /// Gives it up; whether it was there.
    pub fn release(&mut self) -> bool {
        let descriptor = self.0.take();
        // Before it is closed: who gets it then knows that it is wanted.
        WANTED.fetch_add(descriptor.is_some().into(), SeqCst);
        descriptor.is_some()
    }

    /// Whether it is there, or again is.
    pub fn reopen(&mut self) -> bool {
        if self.0.is_none()
            && let Ok(descriptor) = open()
        {
            self.0 = Some(descriptor);
            WANTED.fetch_sub(1, SeqCst);
        }
        self.0.is_some()
    }

    /// Whether a connection that was accepted may stay: this reserve is there, and a descriptor for each that is wanted.
    pub fn leaves_room(&mut self) -> bool {
        self.reopen() && (0..WANTED.load(SeqCst)).map(|_| open()).collect::<Result<Vec<_>, _>>().is_ok()
    }
}

impl Drop for SpareFd {
    fn drop(&mut self) {
        WANTED.fetch_sub(self.0.is_none().into(), SeqCst);
    }
}

fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}
