//! Accept steering on systems without BPF programs for listeners: starting it fails.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use crate::metrics::workers::Counters;
use crate::spec::accept::Accept;

/// The state of all workers, which does not exist on this system.
#[derive(Debug)]
pub(crate) struct Steering(Infallible);

/// The time of a program, which does not exist on this system.
#[derive(Debug)]
pub(crate) struct ProgramTime(Infallible);

impl ProgramTime {
    pub(crate) fn read_ns(&self) -> Option<u64> {
        match self.0 {}
    }
}

impl Steering {
    /// Returns `None`: `Accept::check` rejects strategies that need a program.
    pub(crate) fn start(
        _accept: Accept,
        _listeners: &[OwnedFd],
        _time: &OnceLock<ProgramTime>,
    ) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn worker(&self, _number: usize) -> WorkerState<'_> {
        match self.0 {}
    }
}

/// Fails: only Linux has these programs.
pub(crate) fn can_load(accept: Accept, _workers: usize) -> Result<(), String> {
    Err(format!("the accept strategy `{accept}` needs Linux; choose single"))
}

/// The state of a worker, which does not exist on this system.
#[derive(Debug)]
pub(crate) struct WorkerState<'a>(&'a Infallible);

impl WorkerState<'_> {
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        match *self.0 {}
    }

    pub(crate) fn begin_turn(&self, _events: usize) {
        match *self.0 {}
    }

    pub(crate) fn end_turn(&mut self, _counters: &Counters) {
        match *self.0 {}
    }
}
