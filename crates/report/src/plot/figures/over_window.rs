//! Figures over the measured window: the median of repeats in each of its parts.

use load::LoadResult;
use load::result::{Measured, PARTS};
use stats::interval;

use crate::analysis::stream;
use crate::format;
use crate::list::ends;
use crate::plot::chart::{Axis, Chart, FACTOR_MIN, Form, Panel, Point, Shape, TICKS_BESIDE, points};
use crate::plot::plot_data::PlotData;

fn since_begin(panels: &[Panel]) -> Axis {
    Axis::linear("time since the start of the window", Form::Time, points(panels).map(|point| point.x))
}

/// Draws the bandwidth of streams by the server's count.
pub(super) fn bandwidth(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let part_ns = comparison.workload.phases.measure_ns as f64 / PARTS as f64;
        let parts = stream::by_part(&data.trials(comparison, row)).into_iter().flatten().enumerate();
        let point = |(part, bytes_per_s): (usize, f64)| Point {
            verdict: row.verdict,
            ..Point::new(part_ns * (part as f64 + 0.5), bytes_per_s / 1e6)
        };
        vec![("", parts.map(point).collect())]
    })?;
    let y = Axis::linear("MB/s", Form::Number, points(&panels).map(|point| point.y));
    let most = points(&panels).map(|point| point.y).fold(0.0, f64::max);
    let words = format!("The highest bandwidth of any part is {}.", format::bandwidth(most * 1e6));
    Some(Chart { words, shape: Shape::Line, x: since_begin(&panels), y, panels })
}

/// Draws the median and the 90th percentile of the service time.
pub(super) fn service_time(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let trials = data.trials(comparison, row);
        let loads = || trials.iter().filter_map(|record| record.load.as_ref());
        let line = |percentile: fn(&Measured) -> &[u64; PARTS]| -> Vec<Point> {
            let point = |part: usize| {
                // The value is 0 in a part without requests.
                let known = loads().map(|load| percentile(&load.service)[part] as f64).filter(|&ns| ns > 0.0);
                let ns = interval::median(&known.collect::<Vec<_>>())?;
                let window_ns = loads().next()?.window_ns as f64;
                Some(Point { verdict: row.verdict, ..Point::new(window_ns * (part as f64 + 0.5) / PARTS as f64, ns) })
            };
            (0..PARTS).filter_map(point).collect()
        };
        let p90 = if row.is_client_tail(0.9) { Vec::new() } else { line(|it| &it.p90_by_part_ns) };
        vec![("", line(|it| &it.p50_by_part_ns)), ("p90", p90)]
    })?;
    let y = Axis::log("service time", Form::Time, TICKS_BESIDE, points(&panels).map(|point| point.y));
    let medians = panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
    let ranges = medians.filter(|(_, series)| series.of.is_empty()).filter_map(|(panel, series)| {
        let (low, high) = ends(series.points.iter().map(|point| point.y))?;
        Some((low, high, panel, series.architecture))
    });
    let widest = ranges.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0))).filter(|it| it.1 >= FACTOR_MIN * it.0);
    let words = widest.map_or_else(String::new, |(low, high, panel, architecture)| {
        let at = if panel.title.is_empty() { String::new() } else { format!(" at {}", panel.title) };
        let name = &data.architectures[architecture];
        format!("The median of {name}{at} varies most: between {} and {}.", format::time(low), format::time(high))
    });
    Some(Chart { words, shape: Shape::Line, x: since_begin(&panels), y, panels })
}

/// Draws the offered and the achieved rate, unless the rate is constant.
pub(super) fn rates(data: &PlotData<'_>) -> Option<Chart> {
    let panels = data.lines(|comparison, row| {
        let trials = data.trials(comparison, row);
        let loads: Vec<&LoadResult> = trials.iter().filter_map(|record| record.load.as_ref()).collect();
        let line = |counts: fn(&LoadResult) -> Option<&[u64; PARTS]>| -> Vec<Point> {
            let point = |part: usize| {
                let per_s = loads.iter().filter_map(|load| {
                    load.planned_by_part?;
                    Some(counts(load)?[part] as f64 / (load.window_ns as f64 / PARTS as f64 / 1e9))
                });
                let per_s = interval::median(&per_s.collect::<Vec<_>>())?;
                let part_ns = loads.first()?.window_ns as f64 / PARTS as f64;
                Some(Point { verdict: row.verdict, ..Point::new(part_ns * (part as f64 + 0.5), per_s) })
            };
            (0..PARTS).filter_map(point).collect()
        };
        vec![("", line(|it| Some(&it.completed_by_part))), ("offered", line(|it| it.planned_by_part.as_ref()))]
    })?;
    let y = Axis::linear("requests/s", Form::Number, points(&panels).map(|point| point.y));
    let most = |of: &str| {
        let series = panels.iter().flat_map(|panel| &panel.series).filter(|series| series.of == of);
        series.flat_map(|series| &series.points).map(|point| point.y).fold(0.0, f64::max)
    };
    let (achieved, offered) = (format::digits(most("")), format::digits(most("offered")));
    let words = format!("The highest rate of any part is {achieved} responses/s of {offered} requests/s.");
    Some(Chart { words, shape: Shape::Line, x: since_begin(&panels), y, panels })
}
