use super::config::KvConfig;
use super::counters::Counters;
use super::store::Store;
use crate::service::Clock;

/// A key-value store with its counters.
pub struct Kv {
    pub(super) store: Store,
    pub(super) counters: Counters,
    pub(super) config: KvConfig,
    /// Start of the service for `stats`, in seconds since 1970.
    pub(super) started: u32,
}

impl Kv {
    /// Creates an empty store. It reads no clock except `clock`.
    pub fn new(config: KvConfig, clock: Clock) -> Self {
        assert!(
            config.item_max_bytes > 0 && u64::from(config.item_max_bytes) <= config.memory_max_bytes / 4,
            "an item may take at most a quarter of the memory: {config:?}"
        );
        let started = clock();
        Self { store: Store::new(&config, clock), counters: Counters::default(), config, started }
    }
}
