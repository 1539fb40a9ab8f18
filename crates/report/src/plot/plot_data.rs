//! The data of figures: a run's summary along a dimension of its workloads, and the trials of each row.

use harness::record::{Run, TrialRecord, Workload};
use stats::{Distribution, Ratio};

use super::chart::{Axis, Chart, Form, Panel, Point, Series, Shape, TICKS_BESIDE, is_beyond_noise, points};
pub use crate::analysis::dimension::Dimension;
use crate::analysis::dimension::apart;
use crate::analysis::overload::labels;
use crate::analysis::summary::{Comparison, Pair, Row, Summary, estimated};
use crate::list::distinct;

/// A run with its summary and its architectures.
pub struct PlotData<'a> {
    pub(crate) run: &'a Run,
    /// The summary of the run.
    pub summary: &'a Summary,
    /// Labels of the architectures in order of first appearance in the rankings; a series refers to them by index.
    pub architectures: Vec<String>,
}

/// The workloads of one panel, which differ only on the horizontal axis.
pub(crate) struct Group<'a> {
    /// The difference from other groups; empty for a single group.
    pub(crate) title: String,
    pub(crate) members: Vec<&'a Comparison>,
}

/// A function that returns the value and the spread of a row's point.
pub type Value = fn(&Workload, &Row) -> Option<(f64, Vec<f64>)>;

/// A function that returns the ratio of two rows by a figure's quantity; `None` if the quantity has no intervals.
pub(crate) type Evidence = fn(&Pair) -> Option<Ratio>;

/// The evidence of quantities without intervals.
pub(crate) const NO_INTERVALS: Evidence = |_| None;

impl<'a> PlotData<'a> {
    /// Collects the data of a run.
    pub fn of(run: &'a Run, summary: &'a Summary) -> Self {
        let rows = summary.comparisons.iter().flat_map(|comparison| &comparison.rows);
        let architectures = if run.header.strategy.is_search() { labels(run) } else { distinct(rows.map(Row::label)) };
        Self { run, summary, architectures }
    }

    /// Returns whether any workload is a closed loop.
    pub fn is_closed(&self) -> bool {
        self.summary.comparisons.iter().any(|comparison| comparison.workload.is_closed())
    }

    /// Returns whether the workloads are streams. Either all workloads of a run are streams, or none.
    pub fn has_streams(&self) -> bool {
        self.summary.comparisons.iter().any(|comparison| comparison.workload.service.stream().is_some())
    }

    /// Returns the index of a row's architecture.
    pub fn place(&self, row: &Row) -> usize {
        let label = row.label();
        self.architectures.iter().position(|it| *it == label).expect("every row has an architecture")
    }

    /// Returns the dimension along which the workloads grow.
    pub fn size(&self) -> Dimension {
        Dimension::of_size(self.summary)
    }

    /// Groups the workloads that differ only in a dimension; without a dimension, each workload is a group.
    pub(crate) fn groups(&self, along: Option<Dimension>) -> Vec<Group<'a>> {
        let comparisons = self.summary.comparisons.iter();
        let groups = match along {
            Some(along) => along.groups(comparisons),
            None => comparisons.map(|comparison| vec![comparison]).collect(),
        };
        let titles = apart(&groups, along);
        groups.into_iter().zip(titles).map(|(members, title)| Group { title, members }).collect()
    }

    /// Returns the trials that a row's figures cover.
    pub fn trials(&self, comparison: &Comparison, row: &Row) -> Vec<&'a TrialRecord> {
        let is_one = |record: &&TrialRecord| record.trial.workload == comparison.workload && row.covers(&record.trial);
        let records: Vec<&TrialRecord> = self.run.records.iter().filter(is_one).collect();
        if row.is_ranked() { estimated(&records) } else { records }
    }

    /// Returns the data unless a workload is a closed loop.
    pub fn open(&self) -> Option<&Self> {
        (!self.is_closed()).then_some(self)
    }

    /// Returns the data unless the workloads are streams.
    pub fn without_streams(&self) -> Option<&Self> {
        (!self.has_streams()).then_some(self)
    }

    /// Draws five percentiles of a time for each row: see [`Self::rows`].
    pub(crate) fn percentiles(
        &self,
        along: Dimension,
        label: &str,
        values: &[(&str, Value)],
        evidence: Evidence,
    ) -> Option<Chart> {
        self.rows(along, Shape::Percentiles, (label, Form::Time), values, evidence)
    }

    /// Draws a value for each row: see [`Self::rows`].
    pub(crate) fn points(&self, along: Dimension, y: (&str, Form), value: Value, evidence: Evidence) -> Option<Chart> {
        self.rows(along, Shape::Points, y, &[("", value)], evidence)
    }

    /// Draws a point for each row, in a panel for each group and each of `values`, which are pairs of a title and a
    /// function. The vertical axis has this label and form. The caption has only a difference beyond the noise. Returns `None`
    /// without data.
    pub(crate) fn rows(
        &self,
        along: Dimension,
        shape: Shape,
        (label, form): (&str, Form),
        values: &[(&str, Value)],
        evidence: Evidence,
    ) -> Option<Chart> {
        let groups = self.groups(Some(along));
        let place = |workload: &Workload| (along.at(workload), along.at(workload).to_string());
        let members = groups.iter().flat_map(|group| &group.members);
        let mut names = distinct(members.map(|member| place(&member.workload)));
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut panels = Vec::new();
        let mut titles = Vec::new();
        for group in &groups {
            for (of, value) in values {
                let series = self.series(group, |comparison, row| {
                    let (y, spread) = value(&comparison.workload, row)?;
                    let place = place(&comparison.workload);
                    let x = names.iter().position(|name| *name == place)? as f64;
                    Some(Point { spread, verdict: row.verdict, ..Point::new(x, y) })
                });
                let title: Vec<&str> = [*of, group.title.as_str()].into_iter().filter(|it| !it.is_empty()).collect();
                panels.push(Panel::new(title.join(", "), series));
                titles.push((title.join(", "), group));
            }
        }
        panels.retain(|panel| !panel.series.is_empty());
        points(&panels).next()?;
        let all = points(&panels).flat_map(|point| point.spread.iter().copied().chain([point.y]));
        let y = match form {
            Form::Time | Form::Bytes | Form::Times => Axis::log(label, form, TICKS_BESIDE, all),
            _ => Axis::linear(label, form, all),
        };
        let texts: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
        let mut chart = Chart { words: String::new(), shape, x: Axis::names(along.label(), &texts), y, panels };
        chart.words = chart.furthest_apart(&self.architectures, |panel, at, [low, high]| {
            let of_panel = titles.iter().find(|(title, _)| *title == panel.title);
            let mut members = of_panel.into_iter().flat_map(|(_, group)| &group.members);
            let comparison = members.find(|it| place(&it.workload) == names[at as usize]);
            let [one, other] = [low.0, high.0].map(|architecture| self.architectures[architecture].as_str());
            let ratio = comparison.and_then(|it| it.pair(one, other)).and_then(evidence);
            ratio.map_or_else(|| is_beyond_noise(low.1, high.1), |ratio| ratio.differs_from_one())
        });
        Some(chart)
    }

    /// Returns a series for each architecture that has points in a group.
    fn series(&self, group: &Group<'_>, point: impl Fn(&Comparison, &Row) -> Option<Point>) -> Vec<Series> {
        let of = |architecture: usize| -> Vec<Point> {
            let rows = group.members.iter().flat_map(|it| it.rows.iter().map(move |row| (*it, row)));
            let rows = rows.filter(|(_, row)| row.repeats > 0 && self.place(row) == architecture);
            rows.filter_map(|(comparison, row)| point(comparison, row)).collect()
        };
        let series =
            (0..self.architectures.len()).map(|architecture| Series { architecture, of: "", points: of(architecture) });
        series.filter(|series| !series.points.is_empty()).collect()
    }

    /// Draws the lines of each row, in a panel for each workload; `None` without lines.
    pub fn lines(&self, lines: impl Fn(&Comparison, &Row) -> Vec<(&'static str, Vec<Point>)>) -> Option<Vec<Panel>> {
        let mut panels = Vec::new();
        for Group { title, members } in self.groups(None) {
            let comparison = members[0];
            let mut series: Vec<Series> = Vec::new();
            for row in comparison.rows.iter().filter(|row| row.repeats > 0) {
                let lines = lines(comparison, row).into_iter().filter(|(_, points)| !points.is_empty());
                series.extend(lines.map(|(of, points)| Series { architecture: self.place(row), of, points }));
            }
            series.sort_by_key(|series| series.architecture);
            panels.push(Panel::new(title, series));
        }
        panels.retain(|panel| !panel.series.is_empty());
        (!panels.is_empty()).then_some(panels)
    }
}

/// Returns the percentiles of a row's service time for a point: see [`servers`].
pub fn service(row: &Row) -> Option<(f64, Vec<f64>)> {
    servers(row, row.service)
}

/// Returns the five percentiles of a time. Without p99 if the client may have caused it; p50 alone if it may have caused p75.
pub fn servers(row: &Row, time: Option<Distribution>) -> Option<(f64, Vec<f64>)> {
    let (median, mut spread) = percentiles(time)?;
    if row.is_client_tail(0.99) {
        spread.pop();
    }
    if row.is_client_tail(0.75) {
        spread.clear();
    }
    Some((median, spread))
}

/// Returns the five percentiles of a time for a point; `None` without measurements.
pub fn percentiles(time: Option<Distribution>) -> Option<(f64, Vec<f64>)> {
    let time = time.filter(|time| time.count > 0)?;
    // Show times below the clock's resolution as one nanosecond, because the axis is logarithmic.
    let shown = |ns: u64| ns.max(1) as f64;
    Some((shown(time.p50_ns), [time.p1_ns, time.p25_ns, time.p75_ns, time.p99_ns].map(shown).to_vec()))
}

/// Returns an estimate with its interval for a point.
pub fn estimate(value: f64, interval: Option<stats::Interval>) -> (f64, Vec<f64>) {
    (value, interval.map_or_else(Vec::new, |interval| vec![interval.low, interval.high]))
}
