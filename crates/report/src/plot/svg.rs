//! A figure as a picture in a file: SVG, and PNG made of it.

use std::sync::Arc;

use anyhow::Context;
use harness::model::VerdictKind;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use resvg::{tiny_skia, usvg};

use super::chart::{Axis, Chart, Form, Mark, Panel, Point, Published, STEP_MAX, Series, Shape};
use super::style::{self, Style};

/// Of a panel, in pixels.
const PANEL: (u32, u32) = (440, 320);
/// Of one that is alone.
const SINGLE: (u32, u32) = (640, 380);
/// Of what is left of its width beside labels and margins.
const PLOT_WIDTH: f64 = PANEL.0 as f64 - 72.0 - 16.0;
const COLUMNS: usize = 3;
/// Of the heading with its legend: each line.
const LINE: u32 = 24;
const MARGIN: u32 = 16;
/// PNG has so many pixels for each of these.
const SCALE: f32 = 2.0;
const FONT: &str = "DejaVu Sans, sans-serif";
/// The marker that has no corners.
const ROUND: &str = "circle";
const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
const GRID: RGBColor = RGBColor(0xdd, 0xe0, 0xe4);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Axes = Cartesian2d<Axis, Axis>;

/// As SVG, with its title and a legend.
///
/// # Errors
/// None that is known: it is drawn in memory.
pub fn svg(title: &str, chart: &Chart, architectures: &[String]) -> anyhow::Result<String> {
    let columns = chart.panels.len().clamp(1, COLUMNS);
    let panel_size = if chart.panels.len() == 1 { SINGLE } else { PANEL };
    let width = panel_size.0 * columns as u32 + 2 * MARGIN;
    let legend = legend(chart, architectures, width);
    let lines = legend.last().map_or(0, |entry| entry.line + 1);
    let head = MARGIN + LINE * (lines + 1) + 12;
    let rows = chart.panels.len().div_ceil(columns) as u32;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (width, head + panel_size.1 * rows + MARGIN)).into_drawing_area();
        root.fill(&WHITE)?;
        // A letter is about six tenths as wide as it is high.
        let fitting = f64::from(width - 2 * MARGIN) / (0.6 * title.chars().count().max(1) as f64);
        root.draw_text(title, &words(fitting.min(18.0), HPos::Left), (MARGIN as i32, MARGIN as i32 + 4))?;
        for Entry { text, style, x, line } in legend {
            let at = (x as i32, (MARGIN + LINE * (line + 1) + 14) as i32);
            swatch(&root, &style, at)?;
            root.draw_text(&text, &words(13.0, HPos::Left), (at.0 + 40, at.1))?;
        }
        for (at, panel) in chart.panels.iter().enumerate() {
            let (x, y) = (MARGIN + panel_size.0 * (at % columns) as u32, head + panel_size.1 * (at / columns) as u32);
            let area = root.clone().shrink((x, y), panel_size);
            draw(&area, chart, panel)?;
        }
        root.present()?;
    }
    Ok(text)
}

/// As PNG, with a font of ours: what fonts a system has, if any, makes no difference.
///
/// # Errors
/// When `svg` is none.
pub fn png(svg: &str) -> anyhow::Result<Vec<u8>> {
    let mut options = usvg::Options { font_family: "DejaVu Sans".into(), ..usvg::Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = usvg::Tree::from_str(svg, &options).context("a figure is no SVG")?;
    let size = tree.size().to_int_size().scale_by(SCALE).context("a figure has no size")?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).context("a figure has no size")?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}

/// Text of ours: its height stands in the middle of where it is.
fn words<'a>(size: f64, side: HPos) -> TextStyle<'a> {
    (FONT, size).into_text_style(&(u32::MAX, u32::MAX)).color(&INK).pos(Pos::new(side, VPos::Center))
}

/// What is told apart in a figure, and where the legend has it.
struct Entry {
    text: String,
    style: Style,
    x: u32,
    line: u32,
}

/// Architectures that are in a figure, then what a paper prints, each once.
fn legend(chart: &Chart, architectures: &[String], width: u32) -> Vec<Entry> {
    let is_there =
        |place: &usize| chart.panels.iter().flat_map(|panel| &panel.series).any(|series| series.architecture == *place);
    let ours =
        (0..architectures.len()).filter(is_there).map(|place| (architectures[place].clone(), style::style(place)));
    let mut texts: Vec<(String, Style)> = ours.collect();
    for published in chart.panels.iter().flat_map(|panel| &panel.published) {
        let text = format!("paper: {}", published.label);
        if texts.iter().all(|(other, _)| *other != text) {
            texts.push((text, style::published(published.mark == Mark::Points)));
        }
    }
    let (mut x, mut line) = (MARGIN, 0);
    let entries = texts.into_iter().map(|(text, style)| {
        let space = 40 + 8 * text.chars().count() as u32 + 20;
        if x + space > width && x > MARGIN {
            (x, line) = (MARGIN, line + 1);
        }
        x += space;
        Entry { text, style, x: x - space, line }
    });
    entries.collect()
}

fn colour(style: &Style) -> RGBColor {
    let channel = |at: usize| u8::from_str_radix(&style.light[at..at + 2], 16).unwrap_or_default();
    RGBColor(channel(1), channel(3), channel(5))
}

/// The corners of a marker, in pixels from its centre; the first one again at the end.
fn outline(style: &Style) -> Vec<(i32, i32)> {
    let corners = style::corners(style.marker, 4.5).into_iter().map(|(x, y)| (x.round() as i32, y.round() as i32));
    let mut corners: Vec<(i32, i32)> = corners.collect();
    corners.extend(corners.first().copied());
    corners
}

fn swatch(root: &Area<'_>, style: &Style, (x, y): (i32, i32)) -> anyhow::Result<()> {
    let colour = colour(style);
    let along = [(x, y), (x + 32, y)];
    match style.dash {
        [dash, gap] => root.draw(&DashedPathElement::new(along, *dash, *gap, colour.stroke_width(2)))?,
        _ => root.draw(&PathElement::new(along, colour.stroke_width(2)))?,
    }
    if style.marker == ROUND {
        return Ok(root.draw(&Circle::new((x + 16, y), 5, colour.filled()))?);
    }
    if style.marker.is_empty() {
        return Ok(());
    }
    let corners = outline(style).into_iter().map(|(dx, dy)| (x + 16 + dx, y + dy)).collect::<Vec<_>>();
    Ok(root.draw(&Polygon::new(corners, colour.filled()))?)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let place = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let [from, to] = self.range.map(place);
        let share = (place(*value) - from) / (to - from);
        pixels.0 + (share * f64::from(pixels.1 - pixels.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        // As many names as there is room for, the last among them.
        let longest = self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) as f64;
        let every = match self.form {
            Form::Names => (self.ticks.len() as f64 * (longest * 7.5 + 10.0) / PLOT_WIDTH).ceil() as usize,
            _ => 1,
        };
        let mut points: Vec<f64> = self.ticks.iter().rev().step_by(every.max(1)).map(|(at, _)| *at).collect();
        points.reverse();
        points
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range[0]..self.range[1]
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(at, _)| at == value).map_or_else(String::new, |(_, label)| label.clone())
    }
}

fn draw(area: &Area<'_>, chart: &Chart, panel: &Panel) -> anyhow::Result<()> {
    area.draw_text(&panel.title, &words(13.0, HPos::Left), (72, 10))?;
    let (x, y) = chart.axes(panel);
    let mut axes = ChartBuilder::on(area)
        .margin_top(22)
        .margin_right(16)
        .margin_bottom(10)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(x.clone(), y.clone())?;
    axes.configure_mesh()
        .x_labels(x.ticks.len())
        .y_labels(y.ticks.len())
        .x_desc(&x.label)
        .y_desc(&y.label)
        .label_style((FONT, 12.0, &INK))
        .axis_desc_style((FONT, 13.0, &INK))
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .draw()?;
    for published in &panel.published {
        draw_published(&mut axes, [x, y], published)?;
    }
    let ours: Vec<usize> = panel.series.iter().map(|series| series.architecture).collect();
    for series in &panel.series {
        let points: Vec<(f64, &Point)> =
            series.points.iter().map(|point| (point.x + shift(chart, x, &ours, series), point)).collect();
        draw_series(&mut axes, chart, x, series, &points)?;
    }
    Ok(())
}

/// How far a series is moved, so that those above one name stand side by side.
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

/// What a paper prints: behind what was found here.
fn draw_published(
    axes: &mut ChartContext<'_, SVGBackend<'_>, Axes>,
    [x, y]: [&Axis; 2],
    published: &Published,
) -> anyhow::Result<()> {
    let style = style::published(published.mark == Mark::Points);
    let colour = published.architecture.map_or_else(|| colour(&style), |place| colour(&style::style(place)));
    let within = |axis: &Axis, at: f64| (axis.range[0]..=axis.range[1]).contains(&at);
    let points: Vec<(f64, f64)> = match published.points.as_slice() {
        [(_, at), ..] if published.mark == Mark::Level => x.range.iter().map(|&end| (end, *at)).collect(),
        [(at, _), ..] if published.mark == Mark::Limit => y.range.iter().map(|&end| (*at, end)).collect(),
        points => points.iter().copied().filter(|(at, value)| within(x, *at) && within(y, *value)).collect(),
    };
    let [dash, gap] = [style.dash[0], style.dash[1]];
    axes.draw_series(DashedLineSeries::new(points.clone(), dash, gap, colour.stroke_width(1)))?;
    if published.mark == Mark::Points {
        let star = outline(&style);
        axes.draw_series(points.iter().map(|at| EmptyElement::at(*at) + Polygon::new(star.clone(), colour.filled())))?;
    }
    Ok(())
}

/// The part of a path, from left to right, that is between the ends of an axis; of a line that crosses one, up to it.
fn within(path: &[(f64, f64)], [low, high]: [f64; 2]) -> Vec<(f64, f64)> {
    let mut part: Vec<(f64, f64)> = Vec::new();
    for (at, &(x, y)) in path.iter().enumerate() {
        if let Some(&(before_x, before_y)) = at.checked_sub(1).and_then(|before| path.get(before)) {
            let cross = |end: f64| (end, before_y + (y - before_y) * (end - before_x) / (x - before_x));
            let crossed = [low, high].into_iter().filter(|&end| before_x < end && end < x);
            part.extend(crossed.map(cross));
        }
        if (low..=high).contains(&x) {
            part.push((x, y));
        }
    }
    part
}

fn draw_series(
    axes: &mut ChartContext<'_, SVGBackend<'_>, Axes>,
    chart: &Chart,
    axis: &Axis,
    series: &Series,
    points: &[(f64, &Point)],
) -> anyhow::Result<()> {
    let style = style::style(series.architecture);
    let colour = colour(&style);
    let strength = if series.of.is_empty() { 1.0 } else { 0.45 };
    let thickness = if chart.shape == Shape::Line && series.of.is_empty() { 2 } else { 1 };
    let line = colour.mix(strength).stroke_width(thickness);
    let path: Vec<(f64, f64)> = points.iter().map(|(x, point)| (*x, point.y)).collect();
    let path = within(&path, axis.range);
    match style.dash {
        [dash, gap] => axes.draw_series(DashedLineSeries::new(path, *dash, *gap, line)).map(|_| ())?,
        _ => axes.draw_series(LineSeries::new(path, line)).map(|_| ())?,
    }
    if chart.shape == Shape::Line {
        return Ok(());
    }
    for (x, point) in points {
        let bar = |from: f64, to: f64, thickness: u32| {
            PathElement::new([(*x, from), (*x, to)], colour.stroke_width(thickness))
        };
        let bars = match point.spread.as_slice() {
            [p1, p25, p75, p99] => vec![bar(*p1, *p99, 1), bar(*p25, *p75, 6)],
            [p1, p25, p75] => vec![bar(*p1, *p75, 1), bar(*p25, *p75, 6)],
            [low, high] => vec![bar(*low, *high, 2)],
            _ => Vec::new(),
        };
        axes.draw_series(bars)?;
        // Hollow, where it is not to be believed.
        let inner = if point.verdict == VerdictKind::Valid { colour } else { WHITE };
        let (at, corners, edge) = (EmptyElement::at((*x, point.y)), outline(&style), colour.stroke_width(1));
        if style.marker == ROUND {
            axes.draw_series([at + Circle::new((0, 0), 5, inner.filled()) + Circle::new((0, 0), 5, edge)])?;
        } else {
            axes.draw_series([at + Polygon::new(corners.clone(), inner.filled()) + PathElement::new(corners, edge)])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_leaves_ends_at_the_edge() {
        let path = [(-10.0, 0.0), (10.0, 2.0), (20.0, 4.0), (40.0, 8.0)];
        assert_eq!(within(&path, [0.0, 30.0]), [(0.0, 1.0), (10.0, 2.0), (20.0, 4.0), (30.0, 6.0)]);
        assert_eq!(within(&path, [-10.0, 40.0]), path);
        assert_eq!(within(&[(-1.0, 0.0), (3.0, 4.0)], [0.0, 2.0]), [(0.0, 1.0), (2.0, 3.0)]);
    }
}
