/// Returns arbitrary bytes. They are not constant, because the kernel may treat a constant page specially.
pub(crate) fn fill(length_bytes: usize) -> Vec<u8> {
    (0..length_bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
