//! The ratios of all pairs of ranked rows.

use harness::record::FigureMap;
use stats::{Family, Ratio, Repeat, ratio};

use super::row::{Pair, Row};

/// Compares all ranked rows.
pub(crate) fn of(rows: &[Row]) -> Vec<Pair> {
    let ranked: Vec<&Row> = rows.iter().filter(|row| row.is_ranked()).collect();
    let family = |repeats: &dyn Fn(&Row) -> &[Repeat]| {
        Family::of(&ranked.iter().map(|row| repeats(row).to_vec()).collect::<Vec<_>>())
    };
    let metric = family(&|row| &row.metrics);
    let families = FigureMap::of(|figure| Some(family(&|row| row.repeats_of(figure))));
    let pair = |of: usize, to: usize| {
        Some(Pair {
            architecture: ranked[of].label.clone(),
            base: ranked[to].label.clone(),
            ratio: metric.ratio(of, to)?,
            added_ns: [of, to]
                .iter()
                .all(|&at| ranked[at].is_best() || ranked[at].added_ns.is_some())
                .then_some(())
                .and_then(|()| ratio::added(&ranked[of].metrics, &ranked[to].metrics)),
            ratios: FigureMap::of(|figure| families[figure].as_ref()?.ratio(of, to)),
            decision: None,
        })
    };
    let places = (0..ranked.len()).flat_map(|to| (to + 1..ranked.len()).map(move |of| (of, to)));
    places.filter_map(|(of, to)| pair(of, to)).collect()
}

/// Returns the ratio of the placebo to its reference, the same architecture with the same options.
pub(crate) fn noise(rows: &[Row], pairs: &[Pair]) -> Option<Ratio> {
    let placebo = rows.iter().find(|row| row.is_placebo)?;
    let reference = &placebo.reference(rows)?.label;
    pairs.iter().find_map(|pair| match (&pair.architecture, &pair.base) {
        (one, other) if *one == placebo.label && other == reference => Some(pair.ratio),
        (one, other) if one == reference && *other == placebo.label => Some(pair.ratio.inverse()),
        _ => None,
    })
}
