//! The ratios of all pairs of ranked rows.

use stats::{Family, Ratio, Repeat, ratio};

use super::row::{Pair, Row};

/// Compares all ranked rows.
pub(crate) fn of(rows: &[Row]) -> Vec<Pair> {
    let ranked: Vec<&Row> = rows.iter().filter(|row| row.is_ranked()).collect();
    let family = |figure: fn(&Row) -> &Vec<Repeat>| {
        Family::of(&ranked.iter().map(|row| figure(row).clone()).collect::<Vec<_>>())
    };
    let metric = family(|row| &row.metrics);
    let (p50, p90) = (family(|row| &row.figures.p50), family(|row| &row.figures.p90));
    let (p95, p99) = (family(|row| &row.figures.p95), family(|row| &row.figures.p99));
    let response_p99 = family(|row| &row.figures.response_p99);
    let (cpu_per_request, rate) = (family(|row| &row.figures.cpu_per_request), family(|row| &row.figures.rate));
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
            p50: p50.ratio(of, to),
            p90: p90.ratio(of, to),
            p95: p95.ratio(of, to),
            p99: p99.ratio(of, to),
            response_p99: response_p99.ratio(of, to),
            cpu_per_request: cpu_per_request.ratio(of, to),
            rate: rate.ratio(of, to),
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
