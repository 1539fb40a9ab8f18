//! Distributions of service time, up to five nines.

use harness::record::VerdictKind;
use stats::Histogram;

use crate::analysis::summary::{Row, merged};
use crate::format;
use crate::plot::chart::{Axis, Chart, FACTOR_MIN, Form, Point, Shape, TICKS_BELOW, nines, points};
use crate::plot::plot_data::PlotData;

/// The end of the axis, in nines.
const NINES_MAX: f64 = 5.0;
/// Distances in nines and in the decimal logarithm of the time. Points that are closer in both look like one.
const NEAR: (f64, f64) = (0.04, 0.01);

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let loads = data.trials(comparison, row).into_iter().filter_map(|record| record.load.as_ref());
        let mut points = thinned(&merged(loads.map(|load| &load.service)), row.verdict);
        // Drop points whose quantile the client may have caused.
        points.retain(|point| !row.is_client_tail(1.0 - 10f64.powf(-point.y)));
        vec![("", points)]
    })?;
    let top = points(&panels).map(|point| point.y).fold(1.0, f64::max);
    let x = Axis::log("service time", Form::Time, TICKS_BELOW, points(&panels).map(|point| point.x));
    let words = longest_tail(data).unwrap_or_default();
    Some(Chart { words, shape: Shape::Line, x, y: Axis::nines("requests answered", top), panels })
}

/// Describes the longest tail, if it is [`FACTOR_MIN`] times as long as the shortest under the same workload.
fn longest_tail(data: &PlotData<'_>) -> Option<String> {
    let ends = data.summary.comparisons.iter().filter_map(|comparison| {
        let known = comparison.rows.iter().filter(|row| row.is_ranked() && !row.is_client_tail(0.999));
        let mut tails: Vec<(f64, &Row)> = known.filter_map(|row| Some((row.service?.p999_ns as f64, row))).collect();
        tails.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some((*tails.first()?, *tails.last()?, comparison))
    });
    let differing = ends.filter(|(shortest, longest, _)| longest.0 >= FACTOR_MIN * shortest.0);
    let (_, (p999_ns, row), comparison) = differing.max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let (name, time, title) = (&row.label, format::time(p999_ns), &comparison.title);
    Some(format!("The longest tail: {name} answers 99.9 % within {time} at {title}."))
}

/// Returns points of the cumulative distribution, without points that look like the previous one.
fn thinned(times: &Histogram, verdict: VerdictKind) -> Vec<Point> {
    let count = times.count() as f64;
    let mut points: Vec<Point> = Vec::new();
    for (ns, so_far) in times.cumulative() {
        // Place the last point half a request before the end, because a share of 1 has infinitely many nines.
        let y = nines(so_far as f64 / count).min(nines(1.0 - 0.5 / count)).min(NINES_MAX);
        let is_near =
            points.last().is_some_and(|last| y - last.y < NEAR.0 && (ns.max(1) as f64 / last.x).log10() < NEAR.1);
        if !is_near || y >= NINES_MAX {
            points.push(Point { verdict, ..Point::new(ns.max(1) as f64, y) });
        }
        if y >= NINES_MAX {
            break;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn million_times_need_few_points() {
        let times: Histogram = (1..=1_000_000u64).map(|at| 30_000 + at * at / 1_000_000).collect();
        let points = thinned(&times, VerdictKind::Valid);
        assert!((20..400).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0].x <= pair[1].x && pair[0].y <= pair[1].y));
        assert!((points.last().unwrap().y - NINES_MAX).abs() < 1e-9);
        // Every drawn point lies on the distribution.
        for point in &points {
            let share = times.cumulative().take_while(|(ns, _)| *ns as f64 <= point.x).last().unwrap().1 as f64 / 1e6;
            assert!((nines(share) - point.y).abs() < 0.05 || share >= 0.99999, "{point:?} {share}");
        }
    }

    #[test]
    fn few_times_reach_few_nines() {
        let points = thinned(&[5, 7, 9, 11].into_iter().collect(), VerdictKind::Valid);
        assert_eq!(points.last().map(|point| (point.x, point.y)), Some((11.0, nines(0.875))));
        assert_eq!(thinned(&Histogram::new(), VerdictKind::Valid).len(), 0);
    }
}
