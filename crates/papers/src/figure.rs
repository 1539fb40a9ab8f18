//! The figures of papers, described as data and drawn from runs in the paper's layout.

use std::collections::BTreeSet;

use harness::record::{Figure, Run, Workload};
use harness::spec::network::Network;
use harness::spec::units::Bandwidth;
use load::config::{Popularity, Roles};
use stats::Estimate;

use crate::queue;
use report::analysis::Summary;
use report::analysis::deviation::DeviationOf;
use report::analysis::dimension::Dimension;
use report::analysis::summary::Row;
use report::format::counted;
use report::plot::chart::{
    Axis, Chart, Form, Mark, Panel, Point, Published, Series, Shape, TICKS_BELOW, TICKS_BESIDE, is_beyond_noise, points,
};
use report::plot::plot_data::estimate;

/// The room beside the outermost marks, as a share of the horizontal axis.
const ROOM: f64 = 0.03;

#[derive(Debug)]
pub struct PaperFigure {
    /// The number in the paper, or the position if the paper has no numbers.
    pub number: &'static str,
    pub title: &'static str,
    /// The source, how to read the figure, and differences from the paper.
    pub about: &'static str,
    /// The experiments of the paper that the figure uses.
    pub experiments: &'static [&'static str],
    /// Draws the figure; `None` if the runs lack the data.
    pub draw: fn(&Here<'_>, &mut [&mut DeviationOf<'_>]) -> Option<Chart>,
}

/// Runs that a figure is drawn from.
pub struct Here<'a> {
    /// The names of series, in the paper's order. A series has the index of its name.
    pub names: &'a [&'static str],
    /// All runs, in the same order as the functions passed to `draw`.
    pub runs: &'a [Run],
    pub summaries: &'a [Summary],
    pub experiments: &'static [&'static str],
}

/// A function that returns the value and the spread of a row's point.
pub type Value = fn(&Row) -> Option<(f64, Vec<f64>)>;

/// Rows of some architectures under some workloads, along a dimension.
pub struct Curves<'a> {
    pub only: &'a dyn Fn(&Workload) -> bool,
    /// The architectures, as plans name them.
    pub of: &'a [&'static str],
    pub along: Dimension,
    pub value: Value,
}

impl Here<'_> {
    /// Returns the indices of the runs of `experiments`. Without any, returns all: a run with another name may be suitable.
    pub fn places(&self) -> Vec<usize> {
        let is_named = |at: &usize| self.experiments.contains(&self.runs[*at].header.experiment.as_str());
        let named: Vec<usize> = (0..self.runs.len()).filter(is_named).collect();
        if named.is_empty() { (0..self.runs.len()).collect() } else { named }
    }

    pub fn place(&self, name: &str) -> usize {
        self.names.iter().position(|it| *it == name).expect("a test draws every figure")
    }

    /// Returns the finished rows of one architecture under some workloads, with their workloads.
    pub fn rows(&self, only: impl Fn(&Workload) -> bool, name: &str) -> Vec<(&Workload, &Row)> {
        let comparisons = self.places().into_iter().flat_map(|at| &self.summaries[at].comparisons);
        let comparisons = comparisons.filter(|comparison| only(&comparison.workload));
        let rows = comparisons.flat_map(|it| it.rows.iter().map(move |row| (&it.workload, row)));
        rows.filter(|(_, row)| row.repeats > 0 && queue::is(&row.label(), name)).collect()
    }

    /// Returns the points of one architecture, sorted by x.
    pub fn points(&self, curves: &Curves<'_>, name: &str) -> Vec<Point> {
        let point = |(workload, row): (&Workload, &Row)| {
            let (y, spread) = (curves.value)(row)?;
            Some(Point { spread, verdict: row.verdict, ..Point::new(curves.along.at(workload), y) })
        };
        let mut points: Vec<Point> = self.rows(curves.only, name).into_iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    /// Returns a series for each architecture that has points.
    pub fn series(&self, curves: &Curves<'_>) -> Vec<Series> {
        let series =
            |&name: &&'static str| Series { architecture: self.place(name), of: "", points: self.points(curves, name) };
        curves.of.iter().map(series).filter(|series| !series.points.is_empty()).collect()
    }

    /// Returns a figure with a sentence on the largest difference between series or the highest value; `None` without points.
    pub fn chart(&self, shape: Shape, x: Scale, y: Scale, mut panels: Vec<Panel>) -> Option<Chart> {
        panels.retain(|panel| !panel.series.is_empty());
        if panels.is_empty() {
            return None;
        }
        let x = match x.kind {
            Kind::Names => {
                let places = positions(points(&panels).map(|point| point.x));
                let series = panels.iter_mut().flat_map(|panel| &mut panel.series);
                for point in series.flat_map(|series| &mut series.points) {
                    point.x = places.iter().position(|it| *it == point.x).expect("the axis has all points") as f64;
                }
                Axis::names(x.label, &places.iter().map(f64::to_string).collect::<Vec<_>>())
            }
            _ => {
                let of_published = |published: &Published| (published.mark != Mark::Level, 0);
                let mut axis = x.axis(&panels, TICKS_BELOW, |point| vec![point.x], of_published);
                // Leave room so that marks at the ends are fully visible.
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
        let names = queue::shown(self.names, self.runs);
        chart.words = chart.furthest_apart(&names, |_, _, [low, high]| is_beyond_noise(low.1, high.1));
        if chart.words.is_empty() {
            let mut series = chart.panels.iter().flat_map(|panel| &panel.series).map(|it| it.architecture);
            let first = series.next();
            let is_alone = series.all(|it| Some(it) == first);
            let equal = || "No two are known to differ by more than the noise.".to_owned();
            chart.words = if is_alone { highest(&chart, &names) } else { equal() };
        }
        if shape == Shape::Points {
            chart.words += &without_intervals(&chart);
        }
        Some(chart)
    }
}

fn highest(chart: &Chart, names: &[String]) -> String {
    let series = chart.panels.iter().flat_map(|panel| panel.series.iter().map(move |series| (panel, series)));
    let points =
        series.flat_map(|(panel, series)| series.points.iter().map(move |point| (panel, series.architecture, point)));
    match points.filter(|(_, _, point)| point.is_valid()).max_by(|a, b| a.2.y.total_cmp(&b.2.y)) {
        Some((panel, architecture, point)) => {
            let (x, y) = chart.axes(panel);
            let place = chart.places(panel).into_iter().find(|(at, _)| *at == point.x);
            let (_, at) = place.expect("every point has a place");
            format!("The highest value of {} is {}, at {at} {}.", names[architecture], y.form.text(point.y), x.label)
        }
        None => "No point is valid.".to_owned(),
    }
}

/// Returns each position on an axis once, in order.
pub fn positions(all: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut positions: Vec<f64> = all.collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    positions
}

/// Explains why valid points lack intervals; empty if all have one.
fn without_intervals(chart: &Chart) -> String {
    let valid = points(&chart.panels).filter(|point| point.is_valid());
    let (bare, others): (Vec<_>, Vec<_>) = valid.partition(|point| point.spread.is_empty());
    match (bare.is_empty(), others.is_empty()) {
        (true, _) => String::new(),
        (false, true) => {
            format!(" No point of {} has an interval: an interval needs three valid repeats.", chart.y.label)
        }
        (false, false) => " Some points have no interval: an interval needs three valid repeats.".to_owned(),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub label: &'static str,
    pub form: Form,
    pub kind: Kind,
}

/// The mapping of values to positions on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names, evenly spaced.
    Names,
    Linear,
    Log,
}

impl Scale {
    /// A linear scale of plain numbers.
    pub const fn numbers(label: &'static str) -> Self {
        Self { label, form: Form::Number, kind: Kind::Linear }
    }

    fn axis(
        self,
        panels: &[Panel],
        ticks_max: usize,
        of: impl Fn(&Point) -> Vec<f64>,
        of_published: impl Fn(&Published) -> (bool, usize),
    ) -> Axis {
        let published = panels.iter().flat_map(|panel| &panel.published).flat_map(|published| {
            let (counts, at) = of_published(published);
            published.points.iter().filter(move |_| counts).map(move |&(x, y)| [x, y][at])
        });
        let values: Vec<f64> = points(panels).flat_map(of).chain(published).collect();
        match self.kind {
            Kind::Log => Axis::log(self.label, self.form, ticks_max, values.into_iter()),
            Kind::Names | Kind::Linear => Axis::linear(self.label, self.form, values.into_iter()),
        }
    }
}

/// Returns the estimate and its interval for a ranked row, the value over all repeats for any other row.
pub fn ranked_or(row: &Row, ranked: Option<Estimate>, of_all: Option<f64>) -> Option<(f64, Vec<f64>)> {
    let ranked = ranked.filter(|_| row.is_ranked()).map(|it| estimate(it.value, it.interval));
    ranked.or_else(|| Some((of_all?, Vec::new())))
}

/// Requests per second.
pub fn rate(row: &Row) -> Option<(f64, Vec<f64>)> {
    ranked_or(row, row.estimate(Figure::Rate), row.rate_achieved_per_s)
}

/// Returns published values without an architecture.
pub fn published(label: &str, mark: Mark, points: &[(f64, f64)]) -> Published {
    Published { label: label.into(), architecture: None, mark, points: points.to_vec() }
}

/// Returns a panel with a horizontal line at each of these published values.
pub fn with_levels(panel: Panel, levels: &[(f64, impl AsRef<str>)]) -> Panel {
    let lines = levels.iter().map(|(value, label)| published(label.as_ref(), Mark::Level, &[(0.0, *value)]));
    Panel { published: lines.collect(), ..panel }
}

/// Returns whether a workload has no emulated network, no simulated work, and uniform connection popularity.
pub fn is_plain(workload: &Workload) -> bool {
    workload.network.is_none() && has_plain_requests(workload)
}

/// Returns whether a workload has no simulated work, uniform connection popularity, and only traffic that papers have.
pub fn has_plain_requests(workload: &Workload) -> bool {
    workload.work.is_none() && workload.popularity() == Popularity::Uniform && has_only_traffic_of_papers(workload)
}

/// Returns whether a workload has no TLS, no pipelining and no rate over time. No paper has these.
pub fn has_only_traffic_of_papers(workload: &Workload) -> bool {
    workload.tls.is_none() && workload.pipeline() == 1 && !workload.no_overlap() && !workload.is_varied()
}

/// Returns whether the clients are those of kawai2008 and kawai2006: five hosts behind gigabit links without other impairments.
pub fn are_five_hosts(workload: &Workload) -> bool {
    let is_gigabit = |network: &Network| {
        let is_plain = network.delay.0 == 0 && network.loss.is_none();
        is_plain && network.clients.get() == 5 && network.bandwidth == Some(Bandwidth(1_000_000_000))
    };
    workload.network.as_ref().is_some_and(is_gigabit) && has_plain_requests(workload)
}

/// Returns whether a workload is plain over loopback or on the authors' network.
pub fn are_suitable(workload: &Workload) -> bool {
    is_plain(workload) || are_five_hosts(workload)
}

/// Describes the clients of the finished trials, such as "1 client with one loop"; empty without any.
pub fn clients<'a>(runs: impl IntoIterator<Item = &'a Run>) -> String {
    let records = runs.into_iter().flat_map(|run| &run.records);
    let kinds: BTreeSet<(u32, bool)> = records
        .filter_map(|record| {
            Some((record.trial.client.all_clients(), record.load.as_ref()?.roles == Roles::TwoThreads))
        })
        .collect();
    let kind = |&(clients, has_two): &(u32, bool)| {
        let clients = counted(clients as usize, "client", "clients");
        format!("{clients} with {}", if has_two { "two threads" } else { "one loop" })
    };
    kinds.iter().map(kind).collect::<Vec<_>>().join(" or ")
}
