/// Sizes of the store and of its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvConfig {
    /// Memory for items, with their bookkeeping; the store evicts items beyond it.
    pub memory_max_bytes: u64,
    /// Largest item, at most a quarter of the memory. A value must be a little smaller.
    pub item_max_bytes: u32,
    /// Process id for `stats`.
    pub pid: u32,
}

impl Default for KvConfig {
    /// The defaults of memcached: 64 MiB, and 1 MiB an item.
    fn default() -> Self {
        Self { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20, pid: 0 }
    }
}
