//! Families of ratios. If each of many tests errs in 5 % of cases, at least one errs much more often: among five equal
//! servers, the best by chance then differs "significantly" from another in a third of runs.

use crate::ratio::Ratio;
use crate::repeats::Repeat;

/// Sets the p value of each ratio in its family, so that the probability of any false difference is at most that of one test
/// (Holm 1979). Ignores ratios without a p value.
pub fn adjust<'a>(ratios: impl IntoIterator<Item = &'a mut Ratio>) {
    let mut tested: Vec<(f64, &mut Ratio)> = ratios.into_iter().filter_map(|it| Some((it.p_value?, it))).collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (count, mut highest) = (tested.len(), 0.0f64);
    for (at, (p, ratio)) in tested.into_iter().enumerate() {
        highest = highest.max(p * (count - at) as f64).min(1.0);
        ratio.p_family = Some(highest);
    }
}

/// The ratios of all pairs of contestants. All pairs count, because the data also choose the best contestant.
#[derive(Clone, Debug)]
pub struct Family {
    /// The ratio of each contestant to each later one; row by row.
    ratios: Vec<Vec<Option<Ratio>>>,
}

impl Family {
    /// Compares all contestants by their repeats.
    pub fn of(contestants: &[Vec<Repeat>]) -> Self {
        let to_later = |at: usize| {
            let later = contestants[at + 1..].iter();
            later.map(|base| Ratio::of(&contestants[at], base)).collect()
        };
        let mut ratios: Vec<Vec<Option<Ratio>>> = (0..contestants.len()).map(to_later).collect();
        adjust(ratios.iter_mut().flatten().flatten());
        Self { ratios }
    }

    /// Returns the ratio of one contestant to another; `None` if they are the same or one has no values.
    pub fn ratio(&self, of: usize, to: usize) -> Option<Ratio> {
        match (of.min(to), of.max(to)) {
            (one, other) if one == other => None,
            (one, other) if of == one => self.ratios[one][other - one - 1],
            (one, other) => self.ratios[one][other - one - 1].map(Ratio::inverse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(p_value: Option<f64>) -> Ratio {
        Ratio { p_value, p_family: p_value, ..Ratio::ONE }
    }

    #[test]
    fn adjusted_p_values_match_holms_procedure() {
        // As by R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let mut ratios = [Some(0.01), Some(0.04), None, Some(0.03), Some(0.005)].map(ratio);
        adjust(&mut ratios);
        let expected = [Some(0.03), Some(0.06), None, Some(0.06), Some(0.02)];
        for (ratio, expected) in ratios.iter().zip(expected) {
            assert_eq!(ratio.p_family.is_some(), expected.is_some());
            assert!((ratio.p_family.unwrap_or_default() - expected.unwrap_or_default()).abs() < 1e-12, "{ratio:?}");
        }
        let mut certain = [Some(0.6), Some(0.7)].map(ratio);
        adjust(&mut certain);
        assert!(certain.iter().all(|it| it.p_family == Some(1.0)));
    }

    #[test]
    fn family_holds_each_pair_in_both_directions() {
        let repeats = |first: u32, value: f64| -> Vec<Repeat> {
            (first..).zip([0.99, 1.0, 1.02]).map(|(heat, it)| Repeat::new(heat, value * it)).collect()
        };
        let contestants = [repeats(0, 10.0), repeats(3, 20.0), Vec::new(), repeats(6, 10.0)];
        let family = Family::of(&contestants);
        let twice = family.ratio(1, 0).unwrap();
        assert!((twice.ratio - 2.0).abs() < 1e-9 && twice.differs_from_one());
        assert!((family.ratio(0, 1).unwrap().ratio - 0.5).abs() < 1e-9);
        assert!(twice.p_family > twice.p_value);
        assert!((family.ratio(3, 0).unwrap().ratio - 1.0).abs() < 1e-9);
        assert!(family.ratio(0, 2).is_none() && family.ratio(0, 0).is_none());
    }
}
