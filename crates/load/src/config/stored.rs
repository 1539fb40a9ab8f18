//! Defaults of stored fields.

pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_one(count: &u32) -> bool {
    *count == 1
}
