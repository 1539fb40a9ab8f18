//! A figure as plain data. A page's script draws it in the page, and `svg` draws it as a file.

use std::borrow::Cow;

use harness::record::VerdictKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::format;
use crate::list::ends;

/// The panels of a figure, with shared axes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Chart {
    /// The main result in words.
    pub words: String,
    /// How points are drawn.
    pub shape: Shape,
    /// The horizontal axis of every panel.
    pub x: Axis,
    /// The vertical axis of every panel.
    pub y: Axis,
    /// The panels in order.
    pub panels: Vec<Panel>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Five percentiles per point (kawai2008, Figure 7): a line from p1 to p99, a broad line from p25 to p75, a marker at p50.
    Percentiles,
    /// A marker per point, with its interval if known.
    Points,
    /// A marker per point, with its interval along the horizontal axis. Each name has a row. A vertical line is at 1.
    Intervals,
    /// A line without markers.
    Line,
}

/// One panel of a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Panel {
    /// The difference from the other panels.
    pub title: String,
    /// The horizontal and the vertical axis, if they differ from the axes of the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<Box<[Axis; 2]>>,
    /// A series for each architecture that has points here.
    pub series: Vec<Series>,
    /// Published values of the same quantity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

impl Panel {
    /// Returns a panel with the figure's axes.
    pub fn new(title: String, series: Vec<Series>) -> Self {
        Self { title, axes: None, series, published: Vec::new() }
    }
}

/// Published values, measured on the paper's machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Published {
    /// The label.
    pub label: String,
    /// Index of the architecture that the values belong to, if the figure shows it. The values have its colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<usize>,
    /// How the values are drawn.
    pub mark: Mark,
    /// Pairs of x and y, by x; a single pair unless the mark is [`Mark::Points`].
    pub points: Vec<(f64, f64)>,
}

/// How published values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A star per value, with a dotted line between the stars.
    Points,
    /// A horizontal line through the panel, at y.
    Level,
    /// A vertical line through the panel, at x.
    Limit,
}

/// The points of one architecture.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Series {
    /// Index of the architecture, which determines colour, marker and dash.
    pub architecture: usize,
    /// The name of a fainter, secondary series; empty for the main one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub of: &'static str,
    /// The points, by x.
    pub points: Vec<Point>,
}

/// A point, in units of its axes.
#[derive(Clone, Debug)]
pub struct Point {
    /// The horizontal position.
    pub x: f64,
    /// The vertical position.
    pub y: f64,
    /// For [`Shape::Percentiles`], p1, p25, p75 and p99; without p99 if the client may have caused it, and empty if it may have
    /// caused p75. For [`Shape::Points`] and [`Shape::Intervals`], both ends of the interval, or nothing.
    pub spread: Vec<f64>,
    /// The verdict.
    pub verdict: VerdictKind,
}

impl Point {
    /// Returns a valid point without spread.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, spread: Vec::new(), verdict: VerdictKind::Valid }
    }

    /// Returns whether the verdict is valid.
    pub fn is_valid(&self) -> bool {
        self.verdict == VerdictKind::Valid
    }
}

impl JsonSchema for Point {
    fn schema_name() -> Cow<'static, str> {
        "Point".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "minItems": 2, "maxItems": 4, "description": "[x, y] or [x, y, spread, verdict]" })
    }
}

impl Serialize for Point {
    /// Serialises a valid point without spread as `[x, y]`, any other point as `[x, y, spread, verdict]`. Short points
    /// matter because pages contain thousands of them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (x, y) = (rounded(self.x), rounded(self.y));
        if self.spread.is_empty() && self.is_valid() {
            return (x, y).serialize(serializer);
        }
        let spread: Vec<f64> = self.spread.iter().copied().map(rounded).collect();
        (x, y, spread, self.verdict).serialize(serializer)
    }
}

/// Rounds to five significant digits, more than any screen shows.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// The form of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Names, by index.
    Names,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Shares of 1.
    Share,
    /// Multiples, such as `2x`.
    Times,
    /// A plain number, for example calls per request.
    Number,
    /// Shares by their number of nines, the negative decimal logarithm of the rest: 1 is 90 %, 2 is 99 %.
    Nines,
}

impl Form {
    /// Formats a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Time => format::time(value),
            Self::Bytes => format::bytes(value),
            Self::Bandwidth => format::bandwidth(value),
            Self::Share => format!("{} %", format::digits(100.0 * value)),
            Self::Times => format!("{value:.2}x"),
            Self::Number | Self::Names => format::digits(value),
            Self::Nines => format::percent(1.0 - 10f64.powf(-value)),
        }
    }

    /// Formats a round value as the label of a tick.
    fn tick(self, value: f64) -> String {
        let units: &[(f64, &str)] = match self {
            _ if value == 0.0 && self != Self::Share => &[(1.0, "")],
            _ if value < 0.0 => return format!("-{}", self.tick(-value)),
            Self::Time => &[(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")],
            Self::Bytes => &[(1.0, " B"), (1024.0, " KiB"), (1024.0 * 1024.0, " MiB")],
            Self::Bandwidth => &[(1e3, " kB/s"), (1e6, " MB/s"), (1e9, " GB/s")],
            Self::Share => &[(0.01, " %")],
            Self::Times => &[(1.0, "x")],
            // Write 1000 to 9999 in full.
            Self::Number | Self::Names if value < 1e4 => &[(1.0, "")],
            Self::Number | Self::Names => &[(1e3, "k"), (1e6, "M")],
            Self::Nines => return self.text(value),
        };
        let (size, unit) = units.iter().rev().find(|(size, _)| value >= *size).unwrap_or(&units[0]);
        format!("{}{unit}", rounded(value / size))
    }
}

/// An axis. Panels usually share their figure's axes, so that readers can compare the panels.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Axis {
    /// The label.
    pub label: String,
    /// The form of its numbers.
    pub form: Form,
    /// Whether the scale is logarithmic.
    pub log: bool,
    /// The lowest and the highest value.
    pub range: [f64; 2],
    /// Positions and texts of labels.
    pub ticks: Vec<(f64, String)>,
}

/// The largest distance in pixels between adjacent marks of one name on the axis; the page's script has the same constant.
pub const STEP_MAX: f64 = 18.0;

/// The least room at each end of a logarithmic axis, as a share of its length: half of a mark.
const MARK_SHARE: f64 = 0.03;
/// The largest number of labels on the vertical axis of a small panel.
pub const TICKS_BESIDE: usize = 7;
/// The largest number of labels on the horizontal axis of a small panel.
pub const TICKS_BELOW: usize = 5;

impl Axis {
    /// An axis of names, side by side.
    pub fn names(label: &str, names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect();
        let range = [-0.5, names.len() as f64 - 0.5];
        Self { label: label.into(), form: Form::Names, log: false, range, ticks }
    }

    /// A logarithmic axis over all positive `values`, with at most `ticks_max` labels.
    pub fn log(label: &str, form: Form, ticks_max: usize, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.filter(|&value| value > 0.0)).unwrap_or((1.0, 10.0));
        // Span at least a factor of 4, so that noise does not look like a difference.
        // A mark at an end is whole.
        let room = (2.0 / (high / low).sqrt()).max(1.12).max((high / low).powf(MARK_SHARE));
        let range = [rounded(low / room), rounded(high * room)];
        // Sets of ticks, from dense to sparse. A set has the products of each of its steps and each power of its base.
        let sets: [(f64, &[f64]); 5] = match form {
            Form::Bytes => [2.0, 4.0, 16.0, 64.0, 1024.0].map(|base| (base, &[1.0][..])),
            _ => [
                (10.0, &[1.0, 2.0, 3.0, 5.0, 7.0]),
                (10.0, &[1.0, 2.0, 5.0]),
                (10.0, &[1.0, 3.0]),
                (10.0, &[1.0]),
                (100.0, &[1.0]),
            ],
        };
        let sets = sets.map(|(base, steps)| -> Vec<f64> {
            let (from, to) = (range[0].log(base).floor() as i32, range[1].log(base).ceil() as i32);
            let all = (from..=to).flat_map(|power| steps.iter().map(move |step| step * base.powi(power)));
            all.filter(|value| (range[0]..=range[1]).contains(value)).collect()
        });
        let ticks = sets.iter().find(|set| set.len() <= ticks_max).or(sets.last()).into_iter().flatten();
        let ticks = ticks.map(|&value| (value, form.tick(rounded(value)))).collect();
        Self { label: label.into(), form, log: true, range, ticks }
    }

    /// A linear axis from 0 to the largest of `values`.
    pub fn linear(label: &str, form: Form, values: impl Iterator<Item = f64>) -> Self {
        let (_, high) = ends(values).unwrap_or((0.0, 1.0));
        // Extend an axis of shares to 100 %.
        let is_part = form == Form::Share && high < 1.0;
        let high = if high > 0.0 && !is_part { high } else { 1.0 };
        Self { range: [0.0, high * 1.05], ..Self::around(label, form, [0.0, high]) }
    }

    /// A linear axis from `low` to `high`.
    pub fn around(label: &str, form: Form, [low, high]: [f64; 2]) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        let power = 10f64.powf((span / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| span / step <= 5.0).unwrap_or(span);
        let (from, to) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
        let ticks = (from..=to).map(|at| at as f64 * step).map(|value| (value, form.tick(rounded(value)))).collect();
        Self { label: label.into(), form, log: false, range: [low, high], ticks }
    }

    /// An axis of shares of all requests; each step is another nine.
    pub fn nines(label: &str, nines_max: f64) -> Self {
        let places = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].map(nines).into_iter();
        let places = places.filter(|place| *place <= nines_max + 1e-9);
        let ticks = places.map(|place| (place, Form::Nines.text(place))).collect();
        Self { label: label.into(), form: Form::Nines, log: false, range: [0.0, nines_max * 1.02], ticks }
    }
}

/// Returns the number of nines of a share: 1 for 90 %.
pub fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-12).log10()
}

/// The smallest quotient of two values without intervals that a caption calls a difference.
pub(crate) const FACTOR_MIN: f64 = 2.0;

/// Returns whether a value is higher than another by more than their noise: their intervals do not overlap, or without
/// intervals it is `FACTOR_MIN` times as high.
pub fn is_beyond_noise(low: &Point, high: &Point) -> bool {
    match (low.spread.as_slice(), high.spread.as_slice()) {
        ([_, low_end], [high_end, _]) => low_end < high_end,
        _ => high.y >= FACTOR_MIN * low.y,
    }
}

/// Returns all points of some panels.
pub fn points(panels: &[Panel]) -> impl Iterator<Item = &Point> {
    panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
}

impl Chart {
    /// Returns the horizontal and the vertical axis of a panel.
    pub fn axes<'a>(&'a self, panel: &'a Panel) -> (&'a Axis, &'a Axis) {
        panel.axes.as_deref().map_or((&self.x, &self.y), |[x, y]| (x, y))
    }

    /// Returns whether any panel has a series of this architecture.
    pub fn shows(&self, architecture: usize) -> bool {
        self.panels.iter().flat_map(|panel| &panel.series).any(|series| series.architecture == architecture)
    }

    /// Returns the number of rows of a panel of [`Shape::Intervals`].
    pub fn rows(&self, panel: &Panel) -> Option<usize> {
        (self.shape == Shape::Intervals).then(|| self.axes(panel).1.ticks.len())
    }

    /// Returns the positions of points along the horizontal axis of a panel, each once, in order, with its name.
    pub fn places(&self, panel: &Panel) -> Vec<(f64, String)> {
        let (x, _) = self.axes(panel);
        if x.form == Form::Names {
            return x.ticks.clone();
        }
        let mut places: Vec<f64> = panel.series.iter().flat_map(|it| &it.points).map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places.into_iter().map(|at| (at, if at.fract() == 0.0 { at.to_string() } else { x.form.text(at) })).collect()
    }

    /// Describes where the architectures differ most, with the lowest and the highest valid value at that position. Ignores
    /// positions where `differ` denies that these two values differ.
    pub fn furthest_apart(
        &self,
        architectures: &[String],
        differ: impl Fn(&Panel, f64, [(usize, &Point); 2]) -> bool,
    ) -> String {
        let mut furthest: Option<(f64, String)> = None;
        for panel in &self.panels {
            let (x, y) = self.axes(panel);
            for (at, name) in self.places(panel) {
                let points = panel.series.iter().flat_map(|it| it.points.iter().map(|point| (it.architecture, point)));
                let mut here: Vec<(usize, &Point)> =
                    points.filter(|(_, it)| it.is_valid() && it.x == at && it.y > 0.0).collect();
                here.sort_by(|a, b| a.1.y.total_cmp(&b.1.y));
                let (Some(&least), Some(&most)) = (here.first(), here.last()) else { continue };
                let ratio = most.1.y / least.1.y;
                let is_further = furthest.as_ref().is_none_or(|(largest, _)| *largest < ratio);
                if least.0 == most.0 || !is_further || !differ(panel, at, [least, most]) {
                    continue;
                }
                let place = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
                let value = |end: (usize, &Point)| format!("{} {}", architectures[end.0], y.form.text(end.1.y));
                let text =
                    format!("Furthest apart at {name} {}{place}: {} and {}.", x.label, value(least), value(most));
                furthest = Some((ratio, text));
            }
        }
        furthest.map_or_else(String::new, |(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn marks_at_the_ends_of_a_logarithmic_axis_are_whole() {
        for (low, high) in [(1.0, 50_000.0), (30.0, 31.0), (1e3, 1e9)] {
            let [from, to] = Axis::log("memory", Form::Bytes, TICKS_BESIDE, [low, high].into_iter()).range;
            let share = |ratio: f64| ratio.ln() / (to / from).ln();
            assert!(share(low / from) > 0.02 && share(to / high) > 0.02, "{low} {high}: {from} {to}");
        }
    }

    #[test]
    fn ticks_are_round_few_and_within_the_axis() {
        let time = |values: [f64; 2]| Axis::log("time", Form::Time, TICKS_BESIDE, values.into_iter());
        assert_eq!(labels(&time([34_000.0, 319_000.0])), ["50 µs", "70 µs", "100 µs", "200 µs", "300 µs"]);
        assert_eq!(labels(&time([900.0, 2e9])), ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        let bytes = Axis::log("memory", Form::Bytes, TICKS_BESIDE, [70.0, 140_000.0].into_iter());
        assert_eq!(labels(&bytes), ["64 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB"]);
        assert_eq!(
            labels(&Axis::linear("share", Form::Share, [1.0].into_iter())),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(labels(&Axis::nines("share", 3.0)), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        for low in [1.0, 17.0, 4e6] {
            for span in [1.0, 1.01, 3.0, 70.0, 1e5, 1e9] {
                let axis = time([low, low * span]);
                assert!((1..=TICKS_BESIDE).contains(&axis.ticks.len()), "{low} {span}: {axis:?}");
                assert!(axis.ticks.iter().all(|(at, _)| (axis.range[0]..=axis.range[1]).contains(at)), "{axis:?}");
            }
        }
    }

    #[test]
    fn overlapping_intervals_are_within_the_noise() {
        let point = |y: f64, spread: &[f64]| Point { spread: spread.to_vec(), ..Point::new(0.0, y) };
        assert!(is_beyond_noise(&point(1.0, &[0.9, 1.1]), &point(1.3, &[1.2, 1.4])));
        assert!(!is_beyond_noise(&point(1.0, &[0.5, 3.0]), &point(2.5, &[2.0, 4.0])));
        assert!(!is_beyond_noise(&point(1.0, &[]), &point(1.9, &[])));
        assert!(is_beyond_noise(&point(1.0, &[0.1, 0.5, 1.5, 9.0]), &point(2.0, &[0.1, 0.5, 1.5, 9.0])));
    }

    #[test]
    fn point_is_serialised_without_empty_fields() {
        let text = |point: &Point| serde_json::to_string(point).unwrap();
        assert_eq!(text(&Point::new(1.0, 123_456.0)), "[1.0,123460.0]");
        let spread = Point { spread: vec![1.0, 2.0], verdict: VerdictKind::Saturated, ..Point::new(0.0, 1.0) };
        assert_eq!(text(&spread), r#"[0.0,1.0,[1.0,2.0],"saturated"]"#);
    }
}
