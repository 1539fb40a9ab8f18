//! Figures of trends: a panel for each traffic and host, with the runs along the horizontal axis.

use harness::record::{Figure, Unit};
use stats::{Estimate, Interval};

use crate::analysis::history::{History, Trend, TrendPoint};
use crate::analysis::stream;
use crate::list::distinct;
use crate::plot::chart::{Axis, Chart, Form, Panel, Point, Series, Shape, TICKS_BESIDE, is_beyond_noise, points};
use crate::plot::plot_data::estimate;

/// A figure of measurements that appear in several runs.
#[derive(Debug)]
pub struct TrendFigure {
    /// The name, for file names and the page's address.
    pub name: String,
    /// The heading.
    pub title: String,
    /// How to read the figure.
    pub about: String,
    /// The label of the vertical axis.
    label: String,
    form: Form,
    figure: Figure,
}

impl TrendFigure {
    /// Returns all figures that a history has and a gate may limit, and the bandwidth of streams.
    fn all() -> Vec<Self> {
        let of = |figure: Figure, form: Form, name: &str, words: &str| Self {
            name: format!("trend-{name}"),
            title: format!("From run to run: {words}"),
            about: format!("The {words}: the mean over repeats, with its 95 % interval."),
            label: words.to_owned(),
            form,
            figure,
        };
        let estimated = Figure::limited().filter(|it| it.is_estimated()).map(|figure| {
            let form = if figure.unit() == Unit::Time { Form::Time } else { Form::Number };
            of(figure, form, figure.name(), figure.words())
        });
        estimated.chain([of(Figure::Rate, Form::Bandwidth, "bandwidth", "bandwidth")]).collect()
    }

    /// Returns the value, in units of the vertical axis. Streams have only a bandwidth, and other trends all other figures.
    fn value(&self, trend: &Trend, point: &TrendPoint) -> Option<Estimate> {
        let scaled = |value: f64| match (self.form, stream::megabytes_per_s(&trend.workload, value)) {
            (Form::Bandwidth, megabytes_per_s) => Some(megabytes_per_s? * 1e6),
            (_, None) => Some(value),
            (_, Some(_)) => None,
        };
        let Estimate { value, interval } = point.figures[self.figure]?;
        let interval = interval.and_then(|it| Some(Interval { low: scaled(it.low)?, high: scaled(it.high)? }));
        Some(Estimate { value: scaled(value)?, interval })
    }
}

/// Returns the architectures that have trends, and the figures.
pub fn drawn(history: &History) -> (Vec<String>, Vec<(TrendFigure, Chart)>) {
    let architectures = distinct(history.trends.iter().map(|trend| trend.architecture.clone()));
    let draw = |figure: TrendFigure| {
        let chart = draw(history, &architectures, &figure)?;
        Some((figure, chart))
    };
    let figures = TrendFigure::all().into_iter().filter_map(draw).collect();
    (architectures, figures)
}

fn draw(history: &History, architectures: &[String], figure: &TrendFigure) -> Option<Chart> {
    let point = |trend: &Trend, figures: &TrendPoint| {
        let value = figure.value(trend, figures).filter(|it| it.value > 0.0)?;
        let (y, spread) = estimate(value.value, value.interval);
        Some(Point { spread, verdict: figures.verdict, ..Point::new(figures.run as f64, y) })
    };
    let series = |trend: &&Trend| Series {
        architecture: architectures.iter().position(|name| *name == trend.architecture).unwrap_or_default(),
        of: "",
        points: trend.points.iter().filter_map(|figures| point(trend, figures)).collect(),
    };
    let panel = |trends: Vec<&Trend>| {
        let series = trends.iter().map(series).filter(|series| !series.points.is_empty());
        Panel::new(history.place(trends[0]), series.collect())
    };
    let panels: Vec<Panel> =
        history.by_traffic().into_iter().map(panel).filter(|panel| !panel.series.is_empty()).collect();
    points(&panels).next()?;
    let all = points(&panels).flat_map(|point| point.spread.iter().copied().chain([point.y]));
    let y = Axis::log(&figure.label, figure.form, TICKS_BESIDE, all);
    let (common, names) = names(history);
    let x = Axis::names(&common, &names);
    Some(Chart { words: words(architectures, &panels, figure), shape: Shape::Points, x, y, panels })
}

/// Returns the label of the horizontal axis and a short name for each run. If all runs started on one day, names are
/// times. Otherwise names are days, with the time if any two runs started on one day.
fn names(history: &History) -> (String, Vec<String>) {
    let cut = |from: usize, to: usize| -> Vec<String> {
        let part = |text: &str| text.get(from..to).unwrap_or_default().replace('T', " ");
        history.runs.iter().map(|run| part(&run.started_at)).collect()
    };
    let (years, days) = (cut(0, 4), cut(0, 10));
    let is_one = |parts: &[String]| parts.iter().all(|part| *part == parts[0]);
    if is_one(&days) {
        return (format!("run of {}", days[0]), cut(11, 16));
    }
    let several = days.iter().any(|day| days.iter().filter(|other| *other == day).count() > 1);
    let to = if several { 16 } else { 10 };
    if is_one(&years) { (format!("run of {}", years[0]), cut(5, to)) } else { ("run".into(), cut(0, to)) }
}

/// Describes the largest change from the first to the newest run that is beyond the noise.
fn words(architectures: &[String], panels: &[Panel], figure: &TrendFigure) -> String {
    let ends = panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
    let ends = ends.filter_map(|(panel, series)| {
        let (first, last) = (series.points.first()?, series.points.last()?);
        (first.x < last.x).then_some((panel, series.architecture, first, last))
    });
    let ends: Vec<(&Panel, usize, &Point, &Point)> = ends.collect();
    if ends.is_empty() {
        return "No measurement was repeated on the same host.".into();
    }
    let moved = |it: &(&Panel, usize, &Point, &Point)| (it.3.y / it.2.y).ln().abs();
    let has_changed = |(.., first, last): &(&Panel, usize, &Point, &Point)| {
        is_beyond_noise(first, last) || is_beyond_noise(last, first)
    };
    let Some((panel, architecture, first, last)) =
        ends.into_iter().filter(has_changed).max_by(|a, b| moved(a).total_cmp(&moved(b)))
    else {
        return "No figure changed by more than its noise from its first to its newest run.".into();
    };
    let (name, form) = (&architectures[architecture], figure.form);
    format!("{name} at {} changed most: from {} to {}.", panel.title, form.text(first.y), form.text(last.y))
}
