//! The network stage: one loop for each family of architectures.
//!
//! # Layout
//! - [`connection`]: what one connection does with its socket; the hot path that all architectures share
//! - [`ready`]: the loop of architectures in which one thread serves many connections
//! - [`completion`]: the same, where the kernel does the I/O
//! - [`blocking`]: the loop of architectures in which a connection has a thread or process of its own
//! - [`pool`]: the same with threads or processes that are there beforehand and serve one connection after the other
//! - `children`: processes made, reaped, ended

pub mod blocking;
mod children;
#[cfg(target_os = "linux")]
pub mod completion;
pub mod connection;
#[cfg(target_os = "linux")]
pub mod pool;
pub mod ready;

use std::os::fd::{BorrowedFd, OwnedFd};

use wire::ServiceSpec;

use crate::accept::Accept;
use crate::model::ModelRow;
use crate::workers::Workers;

/// What an accept thread is given.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The listening socket.
    pub listener: &'a OwnedFd,
    /// How connections come to what serves them.
    pub accept: Accept,
    /// The model that runs.
    pub model: &'static ModelRow,
    /// Readable when the server is to stop.
    pub stop: BorrowedFd<'a>,
    /// Where to count.
    pub workers: &'a Workers,
    /// What to do with bytes.
    pub service: &'a ServiceSpec,
    /// How many threads or processes to have, as the architecture's name says; `None` is the model's own default.
    pub threads: Option<std::num::NonZeroU32>,
    /// Connections to have room for.
    pub connections_max: usize,
    /// Told when a pool is there.
    pub started: std::sync::mpsc::Sender<()>,
}

impl Stage<'_> {
    #[cfg(target_os = "linux")]
    /// How many threads or processes a pool has.
    fn pool_size(&self) -> usize {
        self.threads.map_or(self.connections_max, |threads| threads.get() as usize)
    }

    #[cfg(target_os = "linux")]
    /// Says that all workers are there: connections may come.
    fn say_started(&self) {
        // Whoever started the server waits for this, or has gone.
        let _ = self.started.send(());
    }
}
