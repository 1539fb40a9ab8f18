//! The history of a gate as text.

use harness::record::Figure;

use super::curves;
use super::medium::Medium;
use super::table::{self, Column, column};
use crate::analysis::gate::signed;
use crate::analysis::gate_history::{GateHistory, GateSeries, GateShift};
use crate::list::grouped;

/// The largest number of gates in a curve.
const SPARKS_MAX: usize = 32;

/// The smallest span of a curve of errors, as a difference of shares.
const ERRORS_SPAN: f64 = 0.02;

/// A row: a figure, and its shifts in words.
type Line = (Figure, String, String, String);

fn columns() -> [Column<Line>; 4] {
    [
        column("figure", 0, |line: &Line| line.0.name().to_owned()),
        column("newest gates", 1, |line: &Line| line.1.clone()),
        column("newest", 0, |line: &Line| line.2.clone()),
        column("shifts", 0, |line: &Line| line.3.clone()),
    ]
}

fn line(series: &GateSeries) -> Line {
    let newest = series.points.len().saturating_sub(SPARKS_MAX);
    let ratios: Vec<Option<f64>> = series.points[newest..].iter().map(|point| Some(point.ratio)).collect();
    let is_errors = series.figure == Figure::Errors;
    let change = |ratio: f64| signed(if is_errors { ratio } else { ratio - 1.0 });
    let curve = if is_errors { curves::levels(&ratios, ERRORS_SPAN) } else { curves::sparks(&ratios) };
    let shift = |it: &GateShift| format!("{} at {}", it.change(series.figure), it.label);
    let shifts: Vec<String> = series.shifts.iter().map(shift).collect();
    let newest = change(series.points[series.points.len() - 1].ratio);
    let shifts = if shifts.is_empty() { "none".into() } else { shifts.join(", ") };
    (series.figure, curve, newest, shifts)
}

/// Renders a table of figures for each pair of builds and workload, and the newest shift.
pub fn render(history: &GateHistory, medium: Medium) -> String {
    let mut lines = Vec::new();
    for series in grouped(&history.series, |a, b| a.place() == b.place()) {
        lines.push(medium.heading(&series[0].place()));
        let rows: Vec<Line> = series.into_iter().map(line).collect();
        lines.push(table::with_dropped(&columns(), &rows, medium));
        lines.push(String::new());
    }
    lines.push(medium.prose(&history.sentence));
    lines.push(medium.prose(
        "Each character of a curve is a gate, the newest last. Changes are those of the new against the old build. A shift is a \
         change from one gate to the next that lasts (Hunter's method, p < 0.001).",
    ));
    medium.finished(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_lists_the_shifts_of_each_figure() {
        let history = GateHistory::of(crate::analysis::gate_history::tests::history());
        insta::assert_snapshot!(render(&history, 120.into()));
    }
}
