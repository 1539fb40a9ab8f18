//! Many gates: the change of each figure from gate to gate, and where it shifted.

use anyhow::Context;
use harness::record::Figure;
use harness::strategy::gate::GateOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Interval;
use stats::shifts::{Shift, shifts};

use super::FORMAT;
use super::gate::{GateReport, GateRow, signed};
use crate::format;
use crate::list::{distinct, grouped};

/// A gate, as a line of the history file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateEntry {
    /// The name of the new build, such as a commit; by default the start time.
    pub label: String,
    /// RFC 3339 in UTC.
    pub started_at: String,
    pub(crate) outcome: GateOutcome,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) figures: Vec<GateEntryFigure>,
}

/// A figure of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GateEntryFigure {
    pub(crate) workload: String,
    pub(crate) figure: Figure,
    pub(crate) old: f64,
    pub(crate) new: f64,
    pub(crate) change: f64,
    pub(crate) interval: Option<Interval>,
}

impl GateEntry {
    /// Summarises a gate, with the figures that it measured.
    pub fn new(report: &GateReport, label: Option<&str>) -> Self {
        let figure = |row: &GateRow| {
            Some(GateEntryFigure {
                workload: row.workload.clone(),
                figure: row.figure,
                old: row.old?,
                new: row.new?,
                change: row.change?,
                interval: row.interval,
            })
        };
        Self {
            label: label.unwrap_or(&report.started_at).to_owned(),
            started_at: report.started_at.clone(),
            outcome: report.outcome,
            old: report.old.clone(),
            new: report.new.clone(),
            figures: report.figures.iter().filter_map(figure).collect(),
        }
    }
}

/// The history of a gate.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GateHistory {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The newest change in words.
    pub sentence: String,
    /// The gates, oldest first.
    pub(crate) entries: Vec<GateEntry>,
    /// The figures, each from gate to gate.
    pub series: Vec<GateSeries>,
}

/// A figure of a pair of builds under a workload, from gate to gate.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GateSeries {
    pub(crate) workload: String,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) figure: Figure,
    /// The ratio of the new to the old build in each gate; of errors, the difference.
    pub(crate) points: Vec<GatePoint>,
    pub(crate) shifts: Vec<GateShift>,
}

/// A figure in one gate.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct GatePoint {
    /// Index into [`GateHistory::entries`].
    pub(crate) entry: usize,
    pub(crate) ratio: f64,
    pub(crate) interval: Option<Interval>,
}

/// A change from one gate to the next that lasts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct GateShift {
    /// Index into [`GateSeries::points`].
    pub(crate) at: usize,
    /// The label of the first gate after the change.
    pub(crate) label: String,
    /// The mean ratio before the change.
    pub(crate) before: f64,
    /// The mean ratio after the change.
    pub(crate) after: f64,
    pub(crate) p_value: f64,
}

impl GateHistory {
    /// Reads a history: a gate in each line.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let entry = |(at, line): (usize, &str)| {
            serde_json::from_str(line).with_context(|| {
                format!(
                    "line {} is no result of a gate; remove it, or name a file of `muxbench gate --history`",
                    at + 1
                )
            })
        };
        Ok(Self::of(lines.map(entry).collect::<anyhow::Result<_>>()?))
    }

    /// Tests whether a line has this gate, under any label. A finished gate that is resumed has the same result again.
    pub fn has(&self, entry: &GateEntry) -> bool {
        self.entries.iter().any(|it| GateEntry { label: entry.label.clone(), ..it.clone() } == *entry)
    }

    /// Finds the changes of each figure. Gates stay in the order of their lines, which is that of the builds.
    pub fn of(entries: Vec<GateEntry>) -> Self {
        let figures = entries.iter().enumerate().flat_map(|(at, entry)| entry.figures.iter().map(move |it| (at, it)));
        let groups = grouped(figures, |&(a, x), &(b, y)| {
            (&x.workload, &entries[a].old, &entries[a].new, x.figure)
                == (&y.workload, &entries[b].old, &entries[b].new, y.figure)
        });
        let series: Vec<GateSeries> = groups.into_iter().map(|group| series(&entries, group)).collect();
        let sentence = sentence(&series);
        Self { format: FORMAT, sentence, entries, series }
    }
}

fn series(entries: &[GateEntry], group: Vec<(usize, &GateEntryFigure)>) -> GateSeries {
    let (at, &GateEntryFigure { ref workload, figure, .. }) = group[0];
    let (workload, old, new) = (workload.clone(), entries[at].old.clone(), entries[at].new.clone());
    // Ratios are above 0, as the method requires; a share of errors may be 0.
    let base = if figure == Figure::Errors { 0.0 } else { 1.0 };
    let shifted = |it: Interval| Interval { low: base + it.low, high: base + it.high };
    let points: Vec<GatePoint> = group
        .iter()
        .map(|&(entry, it)| GatePoint { entry, ratio: base + it.change, interval: it.interval.map(shifted) })
        .collect();
    let found = shifts(&points.iter().map(|point| point.ratio).collect::<Vec<_>>());
    let shift = |Shift { at, before, after, p_value }: Shift| {
        let label = entries[points[at].entry].label.clone();
        GateShift { at, label, before, after, p_value }
    };
    let shifts = found.into_iter().map(shift).collect();
    GateSeries { workload, old, new, figure, points, shifts }
}

impl GateSeries {
    /// Returns the builds and the workload in words.
    pub(crate) fn place(&self) -> String {
        format!("{} against {}, {}", self.new, self.old, self.workload)
    }

    /// Returns the mean ratio of each part between changes, with the indices of its first and last point.
    pub(crate) fn levels(&self) -> Vec<(usize, usize, f64)> {
        let starts: Vec<usize> = [0].into_iter().chain(self.shifts.iter().map(|shift| shift.at)).collect();
        let ends = starts.iter().skip(1).copied().chain([self.points.len()]);
        let parts = starts.iter().copied().zip(ends);
        let mean = |part: &[GatePoint]| part.iter().map(|it| it.ratio).sum::<f64>() / part.len() as f64;
        parts.map(|(start, end)| (start, end - 1, mean(&self.points[start..end]))).collect()
    }
}

impl GateShift {
    /// Formats the change of the mean.
    pub(crate) fn change(&self, figure: Figure) -> String {
        signed(if figure == Figure::Errors { self.after - self.before } else { self.after / self.before - 1.0 })
    }
}

fn sentence(series: &[GateSeries]) -> String {
    let shifted = series.iter().flat_map(|series| series.shifts.iter().map(move |shift| (series, shift)));
    let newest = |(series, shift): &(&GateSeries, &GateShift)| series.points[shift.at].entry;
    let Some(last) = shifted.clone().map(|it| newest(&it)).max() else {
        return "No figure shifted from one gate to the next.".into();
    };
    let of_last: Vec<(&GateSeries, &GateShift)> = shifted.filter(|it| newest(it) == last).collect();
    let words = of_last.iter().map(|(series, shift)| {
        format!("{} {} ({})", series.figure.name(), shift.change(series.figure), series.place())
    });
    format!("The newest shift is at {}: {}.", of_last[0].1.label, format::listed(&distinct(words)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The history of 40 gates, in which p50 is longer by 8 % from the 25th on.
    pub(crate) fn history() -> Vec<GateEntry> {
        let report = GateReport::of(&testkit::gate_run(0)).unwrap();
        let gate = |at: u32| {
            let mut entry = GateEntry::new(&report, Some(&format!("build {at}")));
            let noise = 0.004 * (f64::from(at * 37 % 11) / 5.0 - 1.0);
            let figure = entry.figures.iter_mut().find(|it| it.figure == Figure::P50).unwrap();
            figure.change = noise + if at >= 25 { 0.08 } else { 0.0 };
            entry
        };
        (0..40).map(gate).collect()
    }

    #[test]
    fn history_names_the_build_that_shifted_a_figure() {
        let entries = history();
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let history = GateHistory::parse(&(lines.join("\n") + "\n\n")).unwrap();
        assert_eq!(history.entries, entries, "entries read back");
        let shifted: Vec<&GateSeries> = history.series.iter().filter(|it| !it.shifts.is_empty()).collect();
        assert_eq!(shifted.len(), 1);
        let [shift] = shifted[0].shifts.as_slice() else { panic!("{:?}", shifted[0].shifts) };
        assert_eq!((shift.at, shift.label.as_str(), shifted[0].figure), (25, "build 25", Figure::P50));
        assert_eq!(shifted[0].levels().iter().map(|it| (it.0, it.1)).collect::<Vec<_>>(), [(0, 24), (25, 39)]);
        let words = "The newest shift is at build 25: p50 +8.";
        assert!(history.sentence.starts_with(words), "{}", history.sentence);
    }

    #[test]
    fn line_that_is_no_gate_is_named() {
        let error = format!("{:#}", GateHistory::parse("\n{}\n").unwrap_err());
        assert!(error.starts_with("line 2 is no result of a gate"), "{error}");
        assert_eq!(GateHistory::parse("").unwrap().sentence, "No figure shifted from one gate to the next.");
    }
}
