/// Largest content that is copied behind its head. At about this size, the copy takes as much CPU time as a second write.
pub(super) const COPIED_BYTES_MAX: u64 = 32 << 10;
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Largest body of a request, with its chunk sizes (nginx's default). The service discards bodies.
pub(super) const BODY_BYTES_MAX: u64 = 1 << 20;
/// Largest input that is read and discarded after the response that ends a connection.
pub(super) const DROPPED_BYTES_MAX: u64 = 16 << 20;
