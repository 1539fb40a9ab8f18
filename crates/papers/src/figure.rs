//! A paper's figures: rows of data, each drawn from runs in the layout that the paper has.

use harness::model::{Run, Workload};

use report::model::Summary;
use report::model::axis::Axis as Along;
use report::model::deviation::DeviationOf;
use report::model::summary::Row;
use report::plot::chart::{Axis, Chart, Form, Mark, Panel, Point, Published, Series, Shape, TICKS_BELOW, TICKS_BESIDE};
use report::plot::plot_data::estimate;

/// The room beside the outermost marks, as a share of the horizontal axis.
const ROOM: f64 = 0.03;

/// A row of a paper's figures.
#[derive(Debug)]
pub struct PaperFigure {
    /// As the paper prints it, or by its place where the paper has no numbers.
    pub number: &'static str,
    /// The title.
    pub title: &'static str,
    /// Where it is from, how it is to be read, and what is not as it was there.
    pub about: &'static str,
    /// The experiments, of those of its paper, that it is drawn from.
    pub experiments: &'static [&'static str],
    /// Draws it; `None` where runs have nothing of it.
    pub draw: fn(&Here<'_>, &mut [&mut DeviationOf<'_>]) -> Option<Chart>,
    /// The shares that its text has rows for, where it is a distribution; empty: a row for each place along the axis.
    pub shares: &'static [f64],
}

/// Runs that a figure is drawn from.
pub struct Here<'a> {
    /// The names of series in the paper's order; a series refers to a name by its place.
    pub names: &'a [&'static str],
    /// All of them, in the order of what gives their sends.
    pub runs: &'a [Run],
    /// Their figures.
    pub summaries: &'a [Summary],
    /// The experiments that the figure is of.
    pub experiments: &'static [&'static str],
}

/// One value of a row, with its spread, for a point.
pub type Value = fn(&Row) -> Option<(f64, Vec<f64>)>;

/// Rows of some architectures under some workloads, along an axis.
pub struct Curves<'a> {
    /// The workloads.
    pub only: &'a dyn Fn(&Workload) -> bool,
    /// The architectures, as plans name them.
    pub of: &'a [&'static str],
    /// The horizontal axis.
    pub along: Along,
    /// The vertical value.
    pub value: Value,
}

impl Here<'_> {
    /// Its runs by their places: those of the figure's experiments, or where there are none, all. A run belongs to a paper by its
    /// workloads, and some are in two experiments.
    pub fn places(&self) -> Vec<usize> {
        let is_named = |at: &usize| self.experiments.contains(&self.runs[*at].header.experiment.as_str());
        let named: Vec<usize> = (0..self.runs.len()).filter(is_named).collect();
        if named.is_empty() { (0..self.runs.len()).collect() } else { named }
    }

    /// The place of a series' name.
    pub fn place(&self, name: &str) -> usize {
        self.names.iter().position(|it| *it == name).expect("a test draws every figure")
    }

    /// The points of one architecture, by x.
    pub fn points(&self, curves: &Curves<'_>, name: &str) -> Vec<Point> {
        let mut points = Vec::new();
        for comparison in self.places().into_iter().flat_map(|at| &self.summaries[at].comparisons) {
            if !(curves.only)(&comparison.workload) {
                continue;
            }
            for row in comparison.rows.iter().filter(|row| row.repeats > 0 && row.label() == name) {
                let x = curves.along.at(&comparison.workload);
                let point = |(y, spread)| Point { spread, verdict: row.verdict, ..Point::new(x, y) };
                points.extend((curves.value)(row).map(point));
            }
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    /// A series for each architecture that has points.
    pub fn series(&self, curves: &Curves<'_>) -> Vec<Series> {
        let series =
            |&name: &&'static str| Series { architecture: self.place(name), of: "", points: self.points(curves, name) };
        curves.of.iter().map(series).filter(|series| !series.points.is_empty()).collect()
    }

    /// A figure of these panels, in words what sets its series furthest apart; `None` where there are no points.
    pub fn chart(&self, shape: Shape, x: Scale, y: Scale, mut panels: Vec<Panel>) -> Option<Chart> {
        panels.retain(|panel| !panel.series.is_empty());
        if panels.is_empty() {
            return None;
        }
        let x = match x.kind {
            Kind::Names => {
                let places = || panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
                let mut places: Vec<f64> = places().map(|point| point.x).collect();
                places.sort_by(f64::total_cmp);
                places.dedup();
                let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
                for point in series.flat_map(|series| &mut series.points) {
                    point.x = places.iter().position(|it| *it == point.x).expect("it is made of all points") as f64;
                }
                Axis::names(x.label, &places.iter().map(f64::to_string).collect::<Vec<_>>())
            }
            _ => {
                let of_published = |published: &Published| (published.mark != Mark::Level, 0);
                let mut axis = x.axis(&panels, TICKS_BELOW, |point| vec![point.x], of_published);
                // A mark at an end of it is seen whole.
                if x.kind == Kind::Linear {
                    axis.range[0] -= ROOM * axis.range[1];
                } else {
                    let room = (axis.range[1] / axis.range[0]).powf(ROOM);
                    axis.range = [axis.range[0] / room, axis.range[1] * room];
                }
                axis
            }
        };
        let y = y.axis(
            &panels,
            TICKS_BESIDE,
            |point| point.spread.iter().copied().chain([point.y]).collect(),
            |published| (published.mark != Mark::Limit, 1),
        );
        let mut chart = Chart { words: String::new(), shape, x, y, panels };
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        chart.words = chart.furthest_apart(&names);
        if chart.words.is_empty() {
            chart.words = highest(&chart, &names);
        }
        if shape == Shape::Points {
            chart.words += &without_intervals(&chart);
        }
        Some(chart)
    }
}

/// The most of what may be believed, in words: what there is to say of one series.
fn highest(chart: &Chart, names: &[String]) -> String {
    let series = chart.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
    let points = series.flat_map(|(panel, series)| {
        series.points.iter().map(move |point| (chart.axes(panel), series.architecture, point))
    });
    match points.filter(|(_, _, point)| point.is_valid()).max_by(|a, b| a.2.y.total_cmp(&b.2.y)) {
        Some(((x, y), architecture, point)) => {
            let at = match x.form {
                Form::Names => x.ticks[point.x as usize].1.clone(),
                Form::Number if point.x.fract() == 0.0 => point.x.to_string(),
                form => form.text(point.x),
            };
            format!("The most of {} is {}, at {at} {}.", names[architecture], y.form.text(point.y), x.label)
        }
        None => "None of it is valid.".to_owned(),
    }
}

/// Why points that are ranked have no intervals, where that is so.
fn without_intervals(chart: &Chart) -> String {
    let points = chart.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let (bare, others): (Vec<_>, Vec<_>) =
        points.filter(|point| point.is_valid()).partition(|point| point.spread.is_empty());
    match (bare.is_empty(), others.is_empty()) {
        (true, _) => String::new(),
        (false, true) => {
            format!(" Of {} there are no intervals, which take two valid repeats: here is one of each.", chart.y.label)
        }
        (false, false) => " Some points have no interval, which takes two valid repeats.".to_owned(),
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The label.
    pub label: &'static str,
    /// The form of its numbers.
    pub form: Form,
    /// How distances are.
    pub kind: Kind,
}

/// How distances along an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One place as far from the next as any other.
    Names,
    /// Differences.
    Linear,
    /// Ratios.
    Log,
}

impl Scale {
    fn axis(
        self,
        panels: &[Panel],
        ticks_max: usize,
        of: impl Fn(&Point) -> Vec<f64>,
        of_published: impl Fn(&Published) -> (bool, usize),
    ) -> Axis {
        let points = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let published = panels.iter().flat_map(|panel| &panel.published).flat_map(|published| {
            let (counts, at) = of_published(published);
            published.points.iter().filter(move |_| counts).map(move |&(x, y)| [x, y][at])
        });
        let values: Vec<f64> = points.flat_map(of).chain(published).collect();
        match self.kind {
            Kind::Log => Axis::log(self.label, self.form, ticks_max, values.into_iter()),
            Kind::Names | Kind::Linear => Axis::linear(self.label, self.form, values.into_iter()),
        }
    }
}

/// Requests a second: of valid repeats with the interval; of a row that is not ranked, the mean of what there is.
pub fn rate(row: &Row) -> Option<(f64, Vec<f64>)> {
    let ranked = row.rate_per_s.filter(|_| row.is_ranked()).map(|rate| estimate(rate.value, rate.interval));
    ranked.or_else(|| Some((row.rate_achieved_per_s?, Vec::new())))
}

/// Values that the paper prints, of no architecture that is drawn.
pub fn published(label: &str, mark: Mark, points: &[(f64, f64)]) -> Published {
    Published { label: label.into(), architecture: None, mark, points: points.to_vec() }
}
