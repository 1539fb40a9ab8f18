//! The ratios to the best row, sorted: a panel for each workload.

use stats::Interval;

use crate::list::ends;
use crate::model::summary::Row;
use crate::plot::chart::{Axis, Chart, Form, Panel, Point, Series, Shape, TICKS_BELOW};
use crate::plot::plot_data::PlotData;

/// The smallest span of the axis, so that noise does not look like a difference.
const SPAN_MIN: f64 = 0.1;
/// The largest quotient of the ends of a linear axis.
const LINEAR_MAX: f64 = 5.0;

/// Draws the ratios with their intervals; `None` unless some workload ranks two rows.
pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let label = match data.is_closed() {
        true if data.has_streams() => "bandwidth / best",
        true => "transactions per second / best",
        false => "median service time / best",
    };
    let mut panels: Vec<(String, Vec<&Row>)> = Vec::new();
    for group in data.groups(None) {
        let rows: Vec<&Row> = group.members[0].rows.iter().filter(|row| row.ratio.is_some()).collect();
        if rows.len() > 1 {
            panels.push((group.title, rows));
        }
    }
    if panels.is_empty() {
        return None;
    }
    let ratios =
        || panels.iter().flat_map(|(title, rows)| rows.iter().filter_map(move |row| Some((title, row, row.ratio?))));
    let x = axis(
        label,
        ratios().flat_map(|(_, _, it)| [it.ratio].into_iter().chain(it.interval.into_iter().flat_map(both))),
    );
    let widest = ratios()
        .filter(|(_, _, it)| it.differs_from_one())
        .max_by(|a, b| a.2.ratio.ln().abs().total_cmp(&b.2.ratio.ln().abs()));
    let words = widest.map_or_else(String::new, |(title, row, ratio)| {
        let place = if title.is_empty() { String::new() } else { format!(" at {title}") };
        format!("Furthest from the best: {}{place}, {}.", row.label, Form::Times.text(ratio.ratio))
    });
    let panel = |(title, rows): (String, Vec<&Row>)| {
        let names: Vec<String> = rows.iter().rev().map(|row| row.label()).collect();
        let series = rows.iter().rev().zip(0u32..).filter_map(|(row, y)| {
            let spread = row.ratio?.interval.into_iter().flat_map(both).collect();
            let point = Point { spread, ..Point::new(row.ratio?.ratio, y.into()) };
            Some(Series { architecture: data.place(row), of: "", points: vec![point] })
        });
        Panel { axes: Some(Box::new([x.clone(), Axis::names("", &names)])), ..Panel::new(title, series.collect()) }
    };
    let panels = panels.into_iter().map(panel).collect();
    Some(Chart { words, shape: Shape::Intervals, y: Axis::names("", &[]), x: x.clone(), panels })
}

fn both(interval: Interval) -> [f64; 2] {
    [interval.low, interval.high]
}

/// Returns an axis that contains 1 and all `values`: linear unless they differ much.
fn axis(label: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
    let (low, high) = ends(values.clone().chain([1.0])).unwrap_or((1.0, 1.0));
    if high / low > LINEAR_MAX {
        return Axis::log(label, Form::Times, TICKS_BELOW, values);
    }
    let room = ((SPAN_MIN - (high - low)) / 2.0).max(0.05 * (high - low));
    Axis::around(label, Form::Times, [low - room, high + room])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_holds_one_and_never_magnifies_noise() {
        let of = |values: &[f64]| axis("x", values.iter().copied());
        let close = of(&[1.0, 1.01]);
        assert!(!close.log && close.range[0] < 0.96 && close.range[1] > 1.05, "{close:?}");
        assert!(close.ticks.iter().any(|(_, text)| text == "1x"), "{close:?}");
        let (far, slow) = (of(&[1.0, 30.0]), of(&[0.7, 0.8]));
        assert!(far.log && far.ticks.len() <= TICKS_BELOW, "{far:?}");
        assert!(slow.range[0] < 0.7 && slow.range[1] > 1.0, "{slow:?}");
    }
}
