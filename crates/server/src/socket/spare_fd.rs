//! A spare descriptor. When no other descriptor is left, a thread releases it for a moment, to accept and close a connection.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::fs::{Mode, OFlags};

/// The number of this process's spare descriptors that were released and not yet reopened.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// The spare descriptor of an accepting thread. Once it is released, another thread may accept a connection with it. If that
/// connection stayed, this thread could refuse no client until a connection ends.
#[derive(Debug)]
pub struct SpareFd(Option<OwnedFd>);

impl SpareFd {
    pub fn new() -> io::Result<Self> {
        Ok(Self(Some(open()?)))
    }

    /// Releases the descriptor; returns whether it was open.
    pub fn release(&mut self) -> bool {
        let descriptor = self.0.take();
        // Count the descriptor before it closes, so that a thread that gets it sees that it is wanted.
        WANTED.fetch_add(descriptor.is_some().into(), SeqCst);
        descriptor.is_some()
    }

    /// Reopens the descriptor if necessary; returns whether it is open.
    pub fn reopen(&mut self) -> bool {
        if self.0.is_none()
            && let Ok(descriptor) = open()
        {
            self.0 = Some(descriptor);
            WANTED.fetch_sub(1, SeqCst);
        }
        self.0.is_some()
    }

    /// Whether an accepted connection may stay: this spare descriptor is open, and enough descriptors
    /// are free to reopen all released spare descriptors.
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
