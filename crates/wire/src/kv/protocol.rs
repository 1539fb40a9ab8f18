//! Limits, and reply lines in the words of memcached 1.6.

pub(super) const KEY_BYTES_MAX: usize = 250;
/// Size of the output at which a batch ends, because a short request can ask for much output.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Longest line that is not a list of keys: the number of bytes after which memcached gives up waiting for a line end.
pub(super) const LINE_BYTES_MAX: usize = 2 << 10;
/// Longest list of keys. memcached has no limit.
pub(super) const KEYS_BYTES_MAX: usize = 1 << 20;
pub(super) const NOT_FOUND: &str = "NOT_FOUND";
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(super) const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
pub(super) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// The version of memcached that the service imitates. Clients and the tests of `memccapable` depend on it.
macro_rules! version {
    () => {
        "1.6.18-muxbench"
    };
}
pub(super) use version;

pub(super) fn write_line(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}
