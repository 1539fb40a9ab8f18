//! A choice of workloads by their numbers.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context, ensure};

/// Numbers from 1 and ranges of them, as in `1-3,7`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers(Vec<RangeInclusive<usize>>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?).filter(|range| !range.is_empty())
        };
        let ranges = text.split(',').map(range).collect::<Option<Vec<_>>>();
        ranges.map(Self).ok_or_else(|| format!("invalid numbers `{text}`: expected numbers and ranges, as in 1-3,7"))
    }
}

impl Numbers {
    /// Returns the chosen items with their numbers.
    pub(super) fn choose<'a, T>(&self, all: &'a [T]) -> anyhow::Result<Vec<(usize, &'a T)>> {
        let item = |number: usize| {
            let item = number.checked_sub(1).and_then(|at| all.get(at));
            item.map(|item| (number, item)).with_context(|| format!("no workload {number}: use 1 to {}", all.len()))
        };
        let numbers = self.0.iter().cloned().flatten();
        // A range may be much longer than the list.
        let chosen = numbers.take(all.len() + 1).map(item).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(chosen.len() <= all.len(), "more than {} workloads are chosen", all.len());
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_choose_items() {
        let chosen = |text: &str| -> anyhow::Result<Vec<usize>> {
            let numbers: Numbers = text.parse().map_err(anyhow::Error::msg)?;
            Ok(numbers.choose(&["a", "b", "c", "d"])?.into_iter().map(|(number, _)| number).collect())
        };
        assert_eq!(chosen("1-2,4").unwrap(), [1, 2, 4]);
        assert_eq!(chosen("3").unwrap(), [3]);
        for wrong in ["", "0", "5", "1-5", "2-1", "1-99999999999", "a", "1,,2", "1-4,1"] {
            assert!(chosen(wrong).is_err(), "{wrong}");
        }
    }
}
