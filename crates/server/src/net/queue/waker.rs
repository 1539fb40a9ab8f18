//! What tells a thread that waits in a mechanism.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::platform;

/// A pipe, because not every mechanism is told of an eventfd. Never full: it has a byte only while the queue was not looked
/// at.
#[derive(Debug)]
pub(super) struct Waker {
    rung: OwnedFd,
    rope: OwnedFd,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let (rung, rope) = platform::pipe()?;
        Ok(Self { rung, rope })
    }

    /// Readable while it rings.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
    }

    #[inline]
    pub(super) fn ring(&self) {
        let _ = rustix::io::write(&self.rope, &[0]);
    }

    #[inline]
    pub(super) fn silence(&self) {
        let _ = rustix::io::read(&self.rung, &mut [0; 16]);
    }
}
