//! Service time over the measured window.

use load::report::{Measured, PARTS};
use stats::interval;

use crate::format;
use crate::plot::chart::{Axis, Chart, Form, Point, Shape, TICKS_BESIDE};
use crate::plot::plot_data::PlotData;

/// Returns a percentile in each part of the window: the median over repeats.
fn over_window(trials: &[&harness::model::TrialRecord], percentile: fn(&Measured) -> &[u64; PARTS]) -> Vec<Point> {
    let loads = || trials.iter().filter_map(|record| record.load.as_ref());
    let part = |part: usize| {
        // The value is 0 in a part without requests.
        let known = loads().map(|load| percentile(&load.service)[part] as f64).filter(|&ns| ns > 0.0);
        let ns = interval::median(&known.collect::<Vec<_>>())?;
        let window_ns = loads().next()?.window_ns as f64;
        Some(Point::new(window_ns * (part as f64 + 0.5) / PARTS as f64, ns))
    };
    (0..PARTS).filter_map(part).collect()
}

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let trials = data.trials(comparison, row);
        let line = |percentile: fn(&Measured) -> &[u64; PARTS]| -> Vec<Point> {
            over_window(&trials, percentile).into_iter().map(|it| Point { verdict: row.verdict, ..it }).collect()
        };
        let p90 = if row.is_client_tail(0.9) { Vec::new() } else { line(|it| &it.p90_by_part_ns) };
        vec![("", line(|it| &it.p50_by_part_ns)), ("p90", p90)]
    })?;
    let points = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let y = Axis::log(
        "service time",
        Form::Time,
        TICKS_BESIDE,
        points().map(|point| point.y).collect::<Vec<_>>().into_iter(),
    );
    let x = Axis::linear(
        "since the window began",
        Form::Time,
        points().map(|point| point.x).collect::<Vec<_>>().into_iter(),
    );
    let swings = panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
    let swings = swings.filter(|(_, series)| series.of.is_empty()).map(|(panel, series)| {
        let ends = |end: fn(f64, f64) -> f64, from| series.points.iter().map(|point| point.y).fold(from, end);
        (ends(f64::min, f64::INFINITY), ends(f64::max, 0.0), panel, series.architecture)
    });
    let words = swings.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let words = words.map_or_else(String::new, |(low, high, panel, architecture)| {
        let at = if panel.title.is_empty() { String::new() } else { format!(" at {}", panel.title) };
        let name = &data.architectures[architecture];
        format!("The least steady median is that of {name}{at}: {} to {}.", format::time(low), format::time(high))
    });
    Some(Chart { words, shape: Shape::Line, x, y, panels })
}
