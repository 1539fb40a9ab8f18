//! Counts of responses by status, for one thread. Counting neither allocates nor locks.

use std::collections::BTreeMap;

/// One more than the largest status.
const STATUSES: usize = 1_000;

/// Responses by status.
#[derive(Debug)]
pub struct Statuses(Box<[u64; STATUSES]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([0; STATUSES]))
    }
}

impl Statuses {
    /// Counts a response. Protocols without statuses have `None`.
    #[inline]
    pub fn count(&mut self, status: Option<u16>) {
        if let Some(count) = status.and_then(|status| self.0.get_mut(usize::from(status))) {
            *count += 1;
        }
    }

    /// Returns the sum of several threads' counts.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        for statuses in all {
            for (status, &count) in (0..).zip(statuses.0.iter()).filter(|(_, count)| **count > 0) {
                *sum.entry(status).or_default() += count;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_all_threads_are_summed() {
        let mut threads = [Statuses::default(), Statuses::default()];
        for (thread, status) in [(0, Some(200)), (1, Some(200)), (1, Some(999)), (0, None), (0, Some(1_000))] {
            threads[thread].count(status);
        }
        assert_eq!(Statuses::sum(&threads), BTreeMap::from([(200, 2), (999, 1)]));
    }
}
