//! Goodput over the window of an overload, relative to the capacity of each server.

use load::result::GoodputBin;

use crate::analysis::overload::{Overload, Overloads};
use crate::format;
use crate::plot::chart::{Axis, Chart, Form, Panel, Point, Series, Shape, points};
use crate::plot::plot_data::PlotData;

pub(super) fn draw(data: &PlotData<'_>) -> Option<Chart> {
    let overloads = Overloads::of(data.run)?;
    let workloads = overloads.workloads();
    let several = workloads.len() > 1;
    let panel = |rows: Vec<&Overload>| {
        let title = if several { rows[0].workload.clone() } else { String::new() };
        Panel::new(title, rows.iter().flat_map(|row| series(data, row)).collect())
    };
    let mut panels: Vec<Panel> = workloads.into_iter().map(panel).collect();
    panels.iter_mut().for_each(|panel| panel.series.sort_by_key(|series| series.architecture));
    panels.retain(|panel| !panel.series.is_empty());
    points(&panels).next()?;
    let [from, to] = [overloads.goal.pulse.range_ns().start, overloads.goal.pulse.range_ns().end];
    let label = format!("time since the start (pulse: {} to {})", format::time(from as f64), format::time(to as f64));
    let x = Axis::linear(&label, Form::Time, points(&panels).map(|point| point.x));
    let y = Axis::linear("goodput / capacity", Form::Share, points(&panels).map(|point| point.y));
    Some(Chart { words: overloads.sentence, shape: Shape::Line, x, y, panels })
}

/// Returns the goodput of a server, and as a fainter line the offered rate.
fn series(data: &PlotData<'_>, row: &Overload) -> Vec<Series> {
    let (Some(pulse), Some(capacity_per_s)) = (&row.pulse, row.capacity_per_s) else { return Vec::new() };
    let Some(architecture) = data.architectures.iter().position(|it| *it == row.architecture) else {
        return Vec::new();
    };
    let line = |of: &'static str, count: fn(&GoodputBin) -> u64| {
        let point = |(at, bin): (usize, &GoodputBin)| {
            let per_s = count(bin) as f64 / (pulse.bin_ns as f64 / 1e9);
            Point::new(pulse.bin_ns as f64 * (at as f64 + 0.5), per_s / capacity_per_s)
        };
        Series { architecture, of, points: pulse.bins.iter().enumerate().map(point).collect() }
    };
    vec![line("", |bin| bin.in_time), line("offered", |bin| bin.planned)]
}
