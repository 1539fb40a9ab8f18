//! Bandwidth of streams over the measured window, by the server's count.

use load::report::PARTS;

use crate::format;
use crate::model::stream;
use crate::plot::chart::{Axis, Chart, Form, Point, Shape};
use crate::plot::plot_data::PlotData;

/// Draws the figure.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let part_ns = comparison.workload.phases.measure_ns as f64 / PARTS as f64;
        let parts = stream::by_part(&data.trials(comparison, row)).into_iter().flatten().enumerate();
        let point = |(part, bytes_per_s): (usize, f64)| Point {
            verdict: row.verdict,
            ..Point::new(part_ns * (part as f64 + 0.5), bytes_per_s / 1e6)
        };
        vec![("", parts.map(point).collect())]
    })?;
    let all = |of: fn(&Point) -> f64| -> std::vec::IntoIter<f64> {
        let points = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        points.map(of).collect::<Vec<_>>().into_iter()
    };
    let most = all(|point| point.y).fold(0.0, f64::max);
    let x = Axis::linear("since the window began", Form::Time, all(|point| point.x));
    let y = Axis::linear("MB/s", Form::Number, all(|point| point.y));
    let words = format!("The most in any part is {}.", format::bandwidth(most * 1e6));
    Some(Chart { words, shape: Shape::Line, x, y, panels })
}
