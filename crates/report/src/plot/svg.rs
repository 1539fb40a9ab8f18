//! Figures as SVG.

use std::fmt::Write;

use super::chart::{Axis, Chart, Form, Mark, Panel, Point, Published, STEP_MAX, Series, Shape};
use super::style::{self, SeriesStyle};
use crate::format::visible;

/// The size of a panel in pixels.
const PANEL: (f64, f64) = (440.0, 320.0);
/// The size of the panel in a figure that has only one.
const SINGLE: (f64, f64) = (640.0, 380.0);
/// The space for labels: left, right, top and bottom of the axes.
const AROUND: [f64; 4] = [72.0, 16.0, 22.0, 52.0];
/// The width of the plot area of a panel.
const PLOT_WIDTH: f64 = PANEL.0 - AROUND[0] - AROUND[1];
const COLUMNS: usize = 3;
/// The height of a line of the legend.
const LINE: f64 = 24.0;
const MARGIN: f64 = 16.0;
/// The height of a row of intervals.
const ROW: f64 = 26.0;
const INK: &str = "#22262b";
const GRID: &str = "#dde0e4";

/// Draws a figure with its title and a legend as SVG.
pub fn svg(title: &str, chart: &Chart, architectures: &[String]) -> String {
    let columns = chart.panels.len().clamp(1, COLUMNS);
    let mut panel_size = if chart.panels.len() == 1 { SINGLE } else { PANEL };
    if let Some(rows) = chart.panels.iter().filter_map(|panel| chart.rows(panel)).max() {
        panel_size.1 = AROUND[2] + AROUND[3] + ROW * rows as f64;
    }
    let width = panel_size.0 * columns as f64 + 2.0 * MARGIN;
    let legend = legend(chart, architectures, width);
    let lines = legend.last().map_or(0.0, |entry| entry.line + 1.0);
    let head = MARGIN + LINE * (lines + 1.0) + 12.0;
    let height = head + panel_size.1 * chart.panels.len().div_ceil(columns) as f64 + MARGIN;
    let mut canvas = Canvas(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"DejaVu Sans, sans-serif\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    ));
    // A letter is about 0.6 times as wide as high.
    let size = ((width - 2.0 * MARGIN) / (0.6 * title.chars().count().max(1) as f64)).min(18.0);
    canvas.text((MARGIN, MARGIN + 4.0), size, "start", title);
    for Entry { text, style, x, line } in legend {
        let y = MARGIN + LINE * (line + 1.0) + 14.0;
        canvas.line(&[(x, y), (x + 32.0, y)], style.light, 2.0, style.dash, 1.0);
        canvas.marker((x + 16.0, y), &style, style.light, style.light);
        canvas.text((x + 40.0, y), 13.0, "start", &text);
    }
    for (at, panel) in chart.panels.iter().enumerate() {
        let left = MARGIN + panel_size.0 * (at % columns) as f64;
        let top = head + panel_size.1 * (at / columns) as f64;
        let [_, after, above, below] = AROUND;
        let before = space_for_names(chart, panel).min(0.5 * panel_size.0);
        let across = (left + before, left + panel_size.0 - after);
        let up = (top + panel_size.1 - below, top + above);
        draw(&mut canvas, chart, panel, across, up);
    }
    canvas.0 + "</svg>\n"
}

/// SVG elements, in pixels.
struct Canvas(String);

impl Canvas {
    fn line(&mut self, path: &[(f64, f64)], colour: &str, width: f64, dash: &[u32], opacity: f64) {
        let points: Vec<String> = path.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash: Vec<String> = dash.iter().map(u32::to_string).collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{}\" \
             stroke-opacity=\"{opacity}\"/>",
            points.join(" "),
            if dash.is_empty() { "none".to_owned() } else { dash.join(" ") },
        );
    }

    /// Draws a marker, if the style has one.
    fn marker(&mut self, (x, y): (f64, f64), style: &SeriesStyle, fill: &str, edge: &str) {
        if style.marker.is_empty() {
            return;
        }
        let corners = style::corners(style.marker, 4.5).into_iter();
        let points: Vec<String> = corners.map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        let points = points.join(" ");
        let _ = writeln!(self.0, "<polygon points=\"{points}\" fill=\"{fill}\" stroke=\"{edge}\"/>");
    }

    /// Writes text, vertically centred; `anchor` is `start`, `middle` or `end`.
    fn text(&mut self, (x, y): (f64, f64), size: f64, anchor: &str, text: &str) {
        let text = visible(text).replace('&', "&amp;").replace('<', "&lt;");
        let y = y + 0.36 * size;
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\" text-anchor=\"{anchor}\" fill=\"{INK}\">{text}</text>"
        );
    }
}

struct Entry {
    text: String,
    style: SeriesStyle,
    x: f64,
    line: f64,
}

/// Returns the legend: the architectures of a figure, then the published values, each once.
fn legend(chart: &Chart, architectures: &[String], width: f64) -> Vec<Entry> {
    // The rows of intervals have their names beside them.
    let drawn = (0..architectures.len()).filter(|place| chart.shape != Shape::Intervals && chart.shows(*place));
    let mut texts: Vec<(String, SeriesStyle)> =
        drawn.map(|place| (architectures[place].clone(), style::style(place))).collect();
    for published in chart.panels.iter().flat_map(|panel| &panel.published) {
        let text = format!("paper: {}", published.label);
        if texts.iter().all(|(other, _)| *other != text) {
            texts.push((text, style::published(published.mark == Mark::Points)));
        }
    }
    let (mut x, mut line) = (MARGIN, 0.0);
    let entries = texts.into_iter().map(|(text, style)| {
        let space = 60.0 + 8.0 * text.chars().count() as f64;
        if x + space > width && x > MARGIN {
            (x, line) = (MARGIN, line + 1.0);
        }
        x += space;
        Entry { text, style, x: x - space, line }
    });
    entries.collect()
}

/// Returns the space left of a panel's vertical axis.
fn space_for_names(chart: &Chart, panel: &Panel) -> f64 {
    let names = chart.axes(panel).1.ticks.iter().filter(|_| chart.shape == Shape::Intervals);
    names.map(|(_, name)| 7.5 * name.chars().count() as f64 + 16.0).fold(AROUND[0], f64::max)
}

/// Converts a value to a pixel of an axis that extends between the pixels `from` and `to`.
fn pixel(axis: &Axis, (from, to): (f64, f64), value: f64) -> f64 {
    let place = |value: f64| if axis.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
    let [low, high] = axis.range.map(place);
    from + (place(value) - low) / (high - low) * (to - from)
}

/// Returns the ticks that fit below a horizontal axis, always including the last.
fn fitting_ticks(axis: &Axis) -> impl Iterator<Item = &(f64, String)> {
    let longest = axis.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) as f64;
    let every = match axis.form {
        Form::Names => (axis.ticks.len() as f64 * (longest * 7.5 + 10.0) / PLOT_WIDTH).ceil() as usize,
        _ => 1,
    };
    axis.ticks.iter().rev().step_by(every.max(1))
}

/// Draws a panel between the pixels of its axes.
fn draw(canvas: &mut Canvas, chart: &Chart, panel: &Panel, across: (f64, f64), up: (f64, f64)) {
    let (x, y) = chart.axes(panel);
    canvas.text((across.0, up.1 - 12.0), 13.0, "start", &panel.title);
    for (value, label) in fitting_ticks(x) {
        let at = pixel(x, across, *value);
        canvas.line(&[(at, up.0), (at, up.1)], GRID, 1.0, &[], 1.0);
        canvas.text((at, up.0 + 12.0), 12.0, "middle", label);
    }
    for (value, label) in &y.ticks {
        let at = pixel(y, up, *value);
        canvas.line(&[(across.0, at), (across.1, at)], GRID, 1.0, &[], 1.0);
        canvas.text((across.0 - 6.0, at), 12.0, "end", label);
    }
    canvas.line(&[(across.0, up.1), (across.0, up.0), (across.1, up.0)], INK, 1.0, &[], 1.0);
    if chart.shape == Shape::Intervals {
        let at = pixel(x, across, 1.0);
        canvas.line(&[(at, up.0), (at, up.1)], INK, 1.0, &[], 1.0);
    }
    canvas.text(((across.0 + across.1) / 2.0, up.0 + 32.0), 13.0, "middle", &x.label);
    let middle = (up.0 + up.1) / 2.0;
    let _ = writeln!(canvas.0, "<g transform=\"rotate(-90 {:.1} {middle:.1})\">", across.0 - 62.0);
    canvas.text((across.0 - 62.0, middle), 13.0, "middle", &y.label);
    canvas.0 += "</g>\n";
    let place = |(at, value): (f64, f64)| (pixel(x, across, at), pixel(y, up, value));
    for published in &panel.published {
        draw_published(canvas, [x, y], published, place);
    }
    let drawn: Vec<usize> = panel.series.iter().map(|series| series.architecture).collect();
    for series in &panel.series {
        let shift = shift(chart, x, &drawn, series);
        let points: Vec<(f64, &Point)> = series.points.iter().map(|point| (point.x + shift, point)).collect();
        draw_series(canvas, chart, x, series, &points, place);
    }
}

/// Returns the horizontal offset of a series, so that marks of one name on the axis stand side by side.
fn shift(chart: &Chart, x: &Axis, architectures: &[usize], series: &Series) -> f64 {
    let at = architectures.iter().position(|it| *it == series.architecture).unwrap_or_default() as f64;
    let (count, [from, to]) = (architectures.len() as f64, x.range);
    match chart.shape {
        Shape::Percentiles | Shape::Points if x.form == Form::Names => {
            (at + 0.5 - count / 2.0) * (0.72 / count).min(STEP_MAX * (to - from) / PLOT_WIDTH)
        }
        _ => 0.0,
    }
}

/// Draws the paper's values, behind the measured ones.
fn draw_published(
    canvas: &mut Canvas,
    [x, y]: [&Axis; 2],
    published: &Published,
    place: impl Fn((f64, f64)) -> (f64, f64),
) {
    let style = style::published(published.mark == Mark::Points);
    let colour = published.architecture.map_or(style.light, |place| style::style(place).light);
    let is_within = |axis: &Axis, at: f64| (axis.range[0]..=axis.range[1]).contains(&at);
    let points: Vec<(f64, f64)> = match published.points.as_slice() {
        [(_, at), ..] if published.mark == Mark::Level => x.range.iter().map(|&end| (end, *at)).collect(),
        [(at, _), ..] if published.mark == Mark::Limit => y.range.iter().map(|&end| (*at, end)).collect(),
        points => points.iter().copied().filter(|(at, value)| is_within(x, *at) && is_within(y, *value)).collect(),
    };
    let points: Vec<(f64, f64)> = points.into_iter().map(place).collect();
    canvas.line(&points, colour, 1.0, style.dash, 1.0);
    if published.mark == Mark::Points {
        points.iter().for_each(|at| canvas.marker(*at, &style, colour, colour));
    }
}

/// Clips a path that runs from left to right to the range of an axis.
fn within(path: &[(f64, f64)], [low, high]: [f64; 2]) -> Vec<(f64, f64)> {
    let mut part: Vec<(f64, f64)> = path.iter().copied().filter(|(x, _)| (low..=high).contains(x)).collect();
    for pair in path.windows(2) {
        let [(x, y), (next_x, next_y)] = [pair[0], pair[1]];
        let crossed = [low, high].into_iter().filter(|&end| x < end && end < next_x);
        part.extend(crossed.map(|end| (end, y + (next_y - y) * (end - x) / (next_x - x))));
    }
    part.sort_by(|a, b| a.0.total_cmp(&b.0));
    part
}

/// Draws a series: its line, and for each point its spread and its marker.
fn draw_series(
    canvas: &mut Canvas,
    chart: &Chart,
    axis: &Axis,
    series: &Series,
    points: &[(f64, &Point)],
    place: impl Fn((f64, f64)) -> (f64, f64),
) {
    let style = style::style(series.architecture);
    let is_main = series.of.is_empty();
    let path: Vec<(f64, f64)> = points.iter().map(|(x, point)| (*x, point.y)).collect();
    let path: Vec<(f64, f64)> = within(&path, axis.range).into_iter().map(&place).collect();
    let width = if chart.shape == Shape::Line && is_main { 2.0 } else { 1.0 };
    canvas.line(&path, style.light, width, style.dash, if is_main { 1.0 } else { 0.45 });
    if chart.shape == Shape::Line {
        return;
    }
    for (x, point) in points {
        let mut bar = |from: f64, to: f64, width: f64| {
            let ends = match chart.shape {
                Shape::Intervals => [(from, point.y), (to, point.y)],
                _ => [(*x, from), (*x, to)],
            };
            canvas.line(&ends.map(&place), style.light, width, &[], 1.0);
        };
        match point.spread.as_slice() {
            [p1, p25, p75, rest @ ..] => {
                bar(*p1, *rest.first().unwrap_or(p75), 1.0);
                bar(*p25, *p75, 6.0);
            }
            [low, high] => bar(*low, *high, 2.0),
            _ => {}
        }
        // Invalid points are hollow.
        let fill = if point.is_valid() { style.light } else { "white" };
        canvas.marker(place((*x, point.y)), &style, fill, style.light);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_clipped_at_the_edges() {
        let path = [(-10.0, 0.0), (10.0, 2.0), (20.0, 4.0), (40.0, 8.0)];
        assert_eq!(within(&path, [0.0, 30.0]), [(0.0, 1.0), (10.0, 2.0), (20.0, 4.0), (30.0, 6.0)]);
        assert_eq!(within(&path, [-10.0, 40.0]), path);
        assert_eq!(within(&[(-1.0, 0.0), (3.0, 4.0)], [0.0, 2.0]), [(0.0, 1.0), (2.0, 3.0)]);
    }
}
