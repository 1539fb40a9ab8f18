use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::platform;

/// A pipe, because not every mechanism supports an eventfd. Never full: only the first item in a queue writes a byte.
#[derive(Debug)]
pub(super) struct Waker {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = platform::pipe()?;
        Ok(Self { reader, writer })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub(super) fn wake(&self) {
        let _ = rustix::io::write(&self.writer, &[0]);
    }

    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.reader, &mut [0; 16]);
    }
}
