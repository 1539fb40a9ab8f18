//! Contestants that keep running separately, because their slices disturbed others.

use std::collections::BTreeSet;

/// The repeats in which a contestant's slices must make a heat void before it runs separately in all others. One may be a disturbance
/// of the host.
const SEPARATED_MIN: usize = 2;

/// Whether a contestant runs separately in `repeat`, given the repeats in which its slices made a heat void.
pub(super) fn must_stay_separate(repeat: u32, separated: impl Iterator<Item = u32>) -> bool {
    let separated: BTreeSet<u32> = separated.collect();
    separated.contains(&repeat) || separated.len() >= SEPARATED_MIN
}

#[cfg(test)]
mod tests {
    use super::must_stay_separate;

    #[test]
    fn second_repeat_that_a_contestant_voids_separates_it() {
        let separated: [&[u32]; 5] = [&[], &[1], &[2], &[0, 1], &[0, 0]];
        let stays = separated.map(|repeats| must_stay_separate(2, repeats.iter().copied()));
        assert_eq!(stays, [false, false, true, true, false]);
    }
}
