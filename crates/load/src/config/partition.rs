//! Division of a total into parts that differ by at most one.

use std::ops::Range;

/// Divides the range `0..total` into `parts` consecutive parts, and returns part `index`.
pub fn partition(total: u64, parts: u64, index: u64) -> Range<u64> {
    let start = |index: u64| (u128::from(total) * u128::from(index) / u128::from(parts.max(1))) as u64;
    start(index)..start(index + 1)
}

/// Like [`partition`], for the indices of a slice.
pub fn partition_indices(total: u32, parts: u32, index: u32) -> Range<usize> {
    let part = partition(total.into(), parts.into(), index.into());
    part.start as usize..part.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_total_and_differ_by_at_most_one() {
        assert_eq!([0, 1, 2].map(|index| partition(10, 3, index)), [0..3, 3..6, 6..10]);
        assert_eq!([0, 1].map(|index| partition(u64::MAX, 2, index).end), [u64::MAX / 2, u64::MAX]);
        assert_eq!(partition(3, 0, 0), 0..3, "0 parts count as 1");
    }
}
