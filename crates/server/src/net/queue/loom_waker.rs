//! A model of a pipe: the number of bytes in it, and whether a byte has arrived since the reader was last woken.

use std::io;
use std::os::fd::BorrowedFd;

#[cfg(test)]
use crate::readiness::Trigger;
use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
pub(super) struct Waker {
    pipe: Mutex<Pipe>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: usize,
    has_edge: bool,
}

impl Waker {
    #[allow(clippy::unnecessary_wraps, reason = "making a pipe may fail")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { pipe: Mutex::new(Pipe::default()), woken: Condvar::new() })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        unreachable!("a model waits in `wait`")
    }

    pub(super) fn wake(&self) {
        let mut pipe = self.pipe.lock().unwrap();
        pipe.bytes += 1;
        pipe.has_edge = true;
        self.woken.notify_one();
    }

    pub(super) fn clear(&self) {
        let mut pipe = self.pipe.lock().unwrap();
        pipe.bytes -= pipe.bytes.min(16);
    }

    #[cfg(test)]
    pub(super) fn wait(&self, trigger: Trigger) {
        let mut pipe = self.pipe.lock().unwrap();
        let is_woken = |pipe: &Pipe| match trigger {
            Trigger::Level => pipe.bytes > 0,
            Trigger::Edge => pipe.has_edge,
        };
        while !is_woken(&pipe) {
            pipe = self.woken.wait(pipe).unwrap();
        }
        pipe.has_edge = false;
    }
}
