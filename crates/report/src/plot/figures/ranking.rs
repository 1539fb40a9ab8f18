//! The distances of all rows from the best one, sorted: a panel for each workload.

use stats::{Interval, Ratio};

use crate::analysis::summary::Row;
use crate::list::ends;
use crate::plot::chart::{Axis, Chart, Form, Panel, Point, Series, Shape, TICKS_BELOW};
use crate::plot::plot_data::PlotData;

/// The smallest span of the axis, so that noise does not look like a difference.
const SPAN_MIN: f64 = 0.1;
/// The largest quotient of the ends of a linear axis.
const LINEAR_MAX: f64 = 5.0;

/// What a ranking shows of a row: its distance from the best one, with its interval.
struct Distance {
    form: Form,
    /// The value of the best row.
    base: f64,
    of: fn(&Row) -> Option<(f64, Option<Interval>)>,
}

/// Draws the ratios with their intervals; `None` unless some workload ranks two rows.
pub(super) fn ratios(data: &PlotData<'_>) -> Option<Chart> {
    let label = match data.is_closed() {
        true if data.has_streams() => "bandwidth / best",
        true => "transactions per second / best",
        false => "median service time / best",
    };
    let of = |row: &Row| row.ratio.map(|it| (it.ratio, it.interval));
    draw(data, label, &Distance { form: Form::Times, base: 1.0, of })
}

/// Draws the times that rows add to the best one; `None` unless some workload of an open loop ranks two rows.
pub(super) fn added(data: &PlotData<'_>) -> Option<Chart> {
    let of = |row: &Row| match row.added_ns {
        Some(added) => Some((added.value, added.interval)),
        None => row.is_best().then_some((0.0, None)),
    };
    draw(data.open()?, "median service time - best", &Distance { form: Form::Time, base: 0.0, of })
}

fn draw(data: &PlotData<'_>, label: &str, distance: &Distance) -> Option<Chart> {
    let mut panels: Vec<(String, Vec<&Row>)> = Vec::new();
    for group in data.groups(None) {
        let rows: Vec<&Row> = group.members[0].rows.iter().filter(|row| (distance.of)(row).is_some()).collect();
        if rows.len() > 1 {
            panels.push((group.title, rows));
        }
    }
    if panels.is_empty() {
        return None;
    }
    let all = || panels.iter().flat_map(|(title, rows)| rows.iter().map(move |row| (title, *row)));
    let values = || all().filter_map(|(_, row)| (distance.of)(row));
    let x = axis(
        label,
        distance,
        values().flat_map(|(value, interval)| [value].into_iter().chain(interval.into_iter().flat_map(both))),
    );
    let ratio = |row: &Row| row.ratio.filter(Ratio::differs_from_one).map_or(0.0, |it| it.ratio.ln().abs());
    let widest = all().filter(|(_, row)| ratio(row) > 0.0).max_by(|a, b| ratio(a.1).total_cmp(&ratio(b.1)));
    let words = widest.and_then(|(title, row)| Some((title, row, (distance.of)(row)?.0)));
    let words = words.map_or_else(String::new, |(title, row, value)| {
        let place = if title.is_empty() { String::new() } else { format!(" at {title}") };
        format!("Furthest from the best: {}{place}, {}.", row.label, distance.form.text(value))
    });
    let panel = |(title, rows): (String, Vec<&Row>)| {
        let names: Vec<String> = rows.iter().rev().map(|row| row.label()).collect();
        let series = rows.iter().rev().zip(0u32..).filter_map(|(row, y)| {
            let (value, interval) = (distance.of)(row)?;
            let spread = interval.into_iter().flat_map(both).collect();
            let point = Point { spread, ..Point::new(value, y.into()) };
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

/// Returns an axis that contains the best row and all `values`: linear, unless they are multiples that differ much.
fn axis(label: &str, distance: &Distance, values: impl Iterator<Item = f64> + Clone) -> Axis {
    let base = distance.base;
    let (low, high) = ends(values.clone().chain([base])).unwrap_or((base, base));
    if base > 0.0 && high / low > LINEAR_MAX {
        return Axis::log(label, distance.form, TICKS_BELOW, values);
    }
    let room = ((SPAN_MIN * base - (high - low)) / 2.0).max(0.05 * (high - low));
    Axis::around(label, distance.form, [low - room, high + room])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_holds_one_and_never_magnifies_noise() {
        let distance = Distance { form: Form::Times, base: 1.0, of: |_| None };
        let of = |values: &[f64]| axis("x", &distance, values.iter().copied());
        let close = of(&[1.0, 1.01]);
        assert!(!close.log && close.range[0] < 0.96 && close.range[1] > 1.05, "{close:?}");
        assert!(close.ticks.iter().any(|(_, text)| text == "1x"), "{close:?}");
        let (far, slow) = (of(&[1.0, 30.0]), of(&[0.7, 0.8]));
        assert!(far.log && far.ticks.len() <= TICKS_BELOW, "{far:?}");
        assert!(slow.range[0] < 0.7 && slow.range[1] > 1.0, "{slow:?}");
    }
}
