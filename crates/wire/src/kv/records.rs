//! Records whose keys and values are computed from their numbers instead of stored.

use std::ops::Range;

use super::protocol::KEY_BYTES_MAX;

/// Records whose value sizes are log-uniform.
#[derive(Debug)]
pub struct Records {
    value_bytes: Range<f64>,
    seed: u64,
    fill: Vec<u8>,
}

/// Number of positions in `fill` at which values begin.
const STARTS: usize = 1 << 16;

impl Records {
    /// Creates records with values of `min_bytes` to `max_bytes`. The seed determines the values.
    pub fn new(min_bytes: u32, max_bytes: u32, seed: u64) -> Self {
        assert!(0 < min_bytes && min_bytes <= max_bytes, "invalid sizes: {min_bytes} to {max_bytes}");
        let fill_bytes = (STARTS + max_bytes as usize).next_multiple_of(8) as u64;
        // The content includes line ends, because a value may be any bytes.
        let fill = (0..fill_bytes / 8).flat_map(|at| mix(seed ^ at).to_le_bytes()).collect();
        // The upper end is exclusive, so that rounding down gives each size its share.
        Self { value_bytes: f64::from(min_bytes)..f64::from(max_bytes) + 1.0, seed, fill }
    }

    /// Returns the value of a record.
    #[inline]
    pub fn value(&self, number: u64) -> &[u8] {
        let hash = mix(self.seed.wrapping_add(mix(number)));
        let share = (hash >> 16) as f64 / (1u64 << 48) as f64;
        let Range { start, end } = self.value_bytes;
        let length = (start * (share * (end / start).ln()).exp()).min(end - 1.0) as usize;
        let start = hash as usize % STARTS;
        &self.fill[start..start + length]
    }
}

/// Size of a key.
pub const KEY_BYTES: usize = 17;
const _: () = assert!(KEY_BYTES <= KEY_BYTES_MAX);

/// Returns the key of a record, `record-0000000007` for number 7. Each request needs a key, so avoid the slow formatter.
#[inline]
pub fn key(number: u64) -> [u8; KEY_BYTES] {
    assert!(number < 10_000_000_000, "{number} has more digits than a key");
    let mut key = *b"record-0000000000";
    let (mut rest, mut at) = (number, KEY_BYTES);
    while rest > 0 {
        at -= 1;
        key[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sizes_are_log_uniform_within_their_bounds() {
        let records = Records::new(10, 1000, 7);
        let sizes: Vec<usize> = (0..30_000).map(|number| records.value(number).len()).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&10), Some(&1000)));
        // Each decade has half of the sizes, with a standard error of 87.
        let small = sizes.iter().filter(|&&size| size < 100).count();
        assert!((14_400..15_600).contains(&small), "{small} sizes below 100");
    }

    #[test]
    fn records_are_repeatable_and_mostly_distinct() {
        let (records, again, other) = (Records::new(10, 1000, 7), Records::new(10, 1000, 7), Records::new(10, 1000, 8));
        assert!((0..1000).all(|number| records.value(number) == again.value(number)));
        assert!((0..1000).all(|number| records.value(number) != other.value(number)));
        let numbers = if cfg!(miri) { 300 } else { 30_000 };
        let values: HashSet<&[u8]> = (0..numbers).map(|number| records.value(number)).collect();
        // About 28 of 30 000 short values are equal by chance.
        assert!(values.len() as u64 > numbers - numbers / 300, "{}", values.len());

        assert_eq!((&key(0), &key(9_876_543_210)), (b"record-0000000000", b"record-9876543210"));
        let keys: HashSet<_> = (0..1000).map(key).collect();
        assert_eq!(keys.len(), 1000);
    }

    #[test]
    fn equal_bounds_give_a_constant_size() {
        let records = Records::new(5, 5, 1);
        assert!((0..1000).all(|number| records.value(number).len() == 5));
    }
}
