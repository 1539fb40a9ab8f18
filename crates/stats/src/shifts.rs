//! Changes of a series of results, by the method of Hunter (Fleming et al. 2023), which Apache Otava implements.
//!
//! E-divisive (Matteson and James 2014) divides each window of the series where the parts differ most, as long as a t test
//! tells them apart. The merging step then removes the weakest changes, until all that are left are significant.

use std::ops::Range;

use crate::significance::student_t_two_sided;

/// The length of a window. Consecutive windows overlap by half.
const WINDOW: usize = 50;
/// The highest p value of a change.
const P_VALUE_MAX: f64 = 0.001;
/// The highest p value of a change within a window, which the merging step may remove.
const P_VALUE_MAX_WEAK: f64 = 10.0 * P_VALUE_MAX;

/// A change of the mean of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The index of the first value after the change.
    pub at: usize,
    /// The mean between the change before and this one.
    pub before: f64,
    /// The mean between this change and the next one.
    pub after: f64,
    /// The p value of the t test of both parts.
    pub p_value: f64,
}

/// Finds the changes of a series, in order.
pub fn shifts(series: &[f64]) -> Vec<Shift> {
    let mut points = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let end = (start + WINDOW).min(series.len());
        let found: Vec<usize> = divided(&series[start..end]).into_iter().map(|at| start + at).collect();
        let last = found.last().copied().unwrap_or(0);
        points.extend(found);
        start = last.max(start + WINDOW / 2);
    }
    points.sort_unstable();
    points.dedup();
    merged(series, points)
}

/// Divides a window until no part of it has a change. Returns the first index after each change.
fn divided(window: &[f64]) -> Vec<usize> {
    let mut points = Vec::new();
    loop {
        let mut best: Option<(f64, usize, Range<usize>)> = None;
        for part in parts(&points, window.len()).filter(|part| part.len() > 1) {
            let (distance, at) = most_different(&window[part.clone()]);
            if best.as_ref().is_none_or(|(most, ..)| distance > *most) {
                best = Some((distance, part.start + at, part));
            }
        }
        let Some((_, at, part)) = best else { break };
        if shift(window, part.start..at, at..part.end).p_value > P_VALUE_MAX_WEAK {
            break;
        }
        points.push(at);
        points.sort_unstable();
    }
    points
}

/// Returns the parts between changes.
fn parts(points: &[usize], len: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = [0].into_iter().chain(points.iter().copied());
    starts.zip(points.iter().copied().chain([len])).map(|(start, end)| start..end)
}

/// Returns the highest energy distance between two neighbouring parts of a series, and the index at which the second part begins.
/// The first part begins with the series; the second may end before it.
fn most_different(series: &[f64]) -> (f64, usize) {
    let distance = |i: usize, j: usize| (series[i] - series[j]).abs();
    let (mut best, mut within_first) = ((f64::NEG_INFINITY, 0), 0.0);
    for at in 1..series.len() {
        within_first += (0..at - 1).map(|i| distance(i, at - 1)).sum::<f64>();
        let (mut between, mut within_second) = (0.0, 0.0);
        for last in at..series.len() {
            between += (0..at).map(|i| distance(i, last)).sum::<f64>();
            within_second += (at..last).map(|j| distance(j, last)).sum::<f64>();
            let (n, m) = (at as f64, (last + 1 - at) as f64);
            let first = if at > 1 { m / (n - 1.0) * within_first } else { 0.0 };
            let second = if last > at { n / (m - 1.0) * within_second } else { 0.0 };
            let energy = 2.0 / (n + m) * (between - first - second);
            if energy > best.0 {
                best = (energy, at);
            }
        }
    }
    best
}

/// Removes the weakest change until all are significant.
fn merged(series: &[f64], mut points: Vec<usize>) -> Vec<Shift> {
    loop {
        let around: Vec<Range<usize>> = parts(&points, series.len()).collect();
        let shifts: Vec<Shift> = around.windows(2).map(|it| shift(series, it[0].clone(), it[1].clone())).collect();
        let weakest = (0..shifts.len()).rev().max_by(|&a, &b| shifts[a].p_value.total_cmp(&shifts[b].p_value));
        match weakest {
            Some(weakest) if shifts[weakest].p_value >= P_VALUE_MAX => points.remove(weakest),
            _ => return shifts,
        };
    }
}

/// Tests two neighbouring parts of a series by Student's t test, with the standard deviations of the parts, not of their
/// populations, as in Otava.
fn shift(series: &[f64], first: Range<usize>, second: Range<usize>) -> Shift {
    let at = second.start;
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
    };
    let (n, m) = (first.len() as f64, second.len() as f64);
    let ((before, variance_before), (after, variance_after)) = (moments(&series[first]), moments(&series[second]));
    let freedom = n + m - 2.0;
    let p_value = if freedom < 1.0 || before == after {
        1.0
    } else {
        let variance = ((n - 1.0) * variance_before + (m - 1.0) * variance_after) / freedom;
        student_t_two_sided((before - after) / (variance * (1.0 / n + 1.0 / m)).sqrt(), freedom)
    };
    Shift { at, before, after, p_value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of levels, each with a number of values, and a small deterministic noise.
    fn levels(levels: &[(f64, usize)]) -> Vec<f64> {
        let values = levels.iter().flat_map(|&(level, count)| std::iter::repeat_n(level, count));
        values.enumerate().map(|(at, level)| level + 0.01 * ((at * 37 % 11) as f64 / 5.0 - 1.0)).collect()
    }

    #[test]
    fn each_change_of_level_is_found() {
        let found = shifts(&levels(&[(1.0, 40), (1.2, 60), (1.1, 50)]));
        assert_eq!(found.iter().map(|it| it.at).collect::<Vec<_>>(), [40, 100]);
        assert!((found[0].before - 1.0).abs() < 0.01 && (found[1].after - 1.1).abs() < 0.01, "{found:?}");
        assert!(found.iter().all(|it| it.p_value < P_VALUE_MAX));
    }

    #[test]
    fn noise_and_short_series_have_no_change() {
        assert_eq!(shifts(&levels(&[(1.0, 200)])), []);
        assert_eq!(shifts(&[1.0; 60]), []);
        for series in [&[][..], &[1.0], &[1.0, 2.0], &[1.0, 1.0, 9.0]] {
            assert!(shifts(series).len() < 2, "{series:?}");
        }
    }
}
