//! The network stage: one loop for each family of architectures.
//!
//! # Layout
//! - [`connection`]: what one connection does with its socket; the hot path that all architectures share
//! - [`ready`]: the loop of architectures in which one thread serves many connections
//! - [`completion`]: the same, where the kernel does the I/O
//! - [`blocking`]: the loop of architectures in which a connection has a thread or process of its own

pub mod blocking;
pub mod completion;
pub mod connection;
pub mod ready;

use std::os::fd::{BorrowedFd, OwnedFd};

use wire::ServiceSpec;

use crate::workers::Workers;

/// What an accept thread is given.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The listening socket.
    pub listener: &'a OwnedFd,
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
}
