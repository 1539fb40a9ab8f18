//! Defaults of stored fields.

/// The default of a stored count.
pub fn one() -> u32 {
    1
}

/// Whether a stored count has its default.
pub fn is_one(count: &u32) -> bool {
    *count == 1
}
