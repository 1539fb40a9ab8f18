//! The service that all threads share.

use super::frame::Limits;
use crate::kv::KvConfig;
use crate::kv::store::Store;
use crate::service::Clock;

/// Largest request beyond the size of the largest item.
const MORE_BYTES_MAX: usize = 64 << 10;

/// A key-value store for clients of Redis.
pub struct Redis {
    pub(super) store: Store,
    pub(super) limits: Limits,
    pub(super) pid: u32,
    /// Start of the service for `INFO`, in seconds since 1970.
    pub(super) started: u32,
    pub(super) is_one_by_one: bool,
}

impl Redis {
    /// Creates an empty store. It reads no clock except `clock`.
    pub fn new(config: &KvConfig, clock: Clock) -> Self {
        let started = clock();
        let argument_bytes = config.item_max_bytes as usize;
        let limits = Limits { argument_bytes, request_bytes: argument_bytes + MORE_BYTES_MAX };
        Self { store: Store::new(config, clock), limits, pid: config.pid, started, is_one_by_one: false }
    }
}
