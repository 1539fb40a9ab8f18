pub(super) const KEY_BYTES_MAX: usize = 250;
/// Size of the output at which a batch stops taking commands: a short request can ask for a lot.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Longest line that is not a list of keys: the number of bytes after which memcached gives up waiting for a line end.
pub(super) const LINE_BYTES_MAX: usize = 2 << 10;
/// Longest list of keys. memcached has no limit.
pub(super) const KEYS_BYTES_MAX: usize = 1 << 20;
