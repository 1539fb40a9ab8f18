//! Figure 2: the cumulative distribution of send deviations.

use harness::record::{Run, TrialRecord, VerdictKind};
use load::config::Schedule;
use report::analysis::deviation::{self, DeviationOf, TrialDeviation};
use report::format;
use report::plot::chart::{self, Chart, Form, Mark, Panel, Published, Series, Shape};

use super::send_deviation::Sends;
use super::service_time::{is_of_matrix, published_service_time};
use crate::figure::{Here, published};
use crate::queue;

/// The range of shares whose deviations the horizontal axis must cover.
const SHOWN: [f64; 2] = [0.05, 0.95];
/// The room on both sides of the shown deviations, in nanoseconds.
const ROOM_NS: f64 = 1_000.0;

pub(super) fn draw(runs: &Here<'_>, deviation_of: &mut [&mut DeviationOf<'_>]) -> Option<Chart> {
    let mut panel = Panel::new(String::new(), Vec::new());
    let mut without = Vec::new();
    for at in runs.places() {
        let run = &runs.runs[at];
        for worst in Sends::of(run, deviation_of[at]).send_deviation {
            let (of, deviation) = match worst.here {
                Some(here) => ("", Some(here)),
                None => ("not valid", worst_not_valid(run, deviation_of[at], worst.architecture)),
            };
            let Some(deviation) = deviation else {
                without.push(worst.architecture);
                continue;
            };
            let mut points: Vec<_> = deviation.cdf.iter().chain(&deviation.tails).collect();
            points.sort_by(|a, b| a.share.total_cmp(&b.share));
            points.dedup_by(|a, b| a.share == b.share);
            let verdict = deviation.verdict;
            let point =
                |it: &deviation::CdfPoint| chart::Point { verdict, ..chart::Point::new(it.deviation_ns, it.share) };
            let architecture = runs.place(worst.architecture);
            panel.series.push(Series { architecture, of, points: points.into_iter().map(point).collect() });
            let median = worst.published.get("median_us").map(|median_us| (median_us * 1e3, 0.5));
            panel.published.push(Published {
                architecture: Some(architecture),
                ..published("medians of Table 5", Mark::Points, median.as_slice())
            });
        }
    }
    // Invalid trials can deviate a thousand times as much: clip their curves to the range of the valid trials.
    let any_valid = panel.series.iter().any(|series| series.of.is_empty());
    let counts = |series: &&Series| series.of.is_empty() || !any_valid;
    let points = || panel.series.iter().filter(counts).flat_map(|series| &series.points);
    let inner = || points().filter(|it| (SHOWN[0]..=SHOWN[1]).contains(&it.y)).map(|it| it.x);
    let printed = || panel.published.iter().flat_map(|it| &it.points).map(|it| it.0);
    let low = inner().chain(printed()).reduce(f64::min)? - ROOM_NS;
    let high = inner().chain(printed()).reduce(f64::max)? + ROOM_NS;
    let valid = panel.series.iter().filter(|series| series.of.is_empty());
    let late = |series: &Series| Some((series.points.iter().find(|it| it.y >= 0.95)?.x, series.architecture));
    let mut words = match valid.filter_map(late).max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((late_ns, place)) => {
            let late = format::time(late_ns);
            format!(
                "The 95th percentile of the deviation is highest with {}: {late}.",
                queue::shown(runs.names, runs.runs)[place]
            )
        }
        None => "No trial is valid.".to_owned(),
    };
    if !without.is_empty() {
        words += &format!(" There is no trial of {}.", without.join(", "));
    }
    Some(Chart {
        words,
        shape: Shape::Line,
        x: chart::Axis::around("send deviation", Form::Time, [low, high]),
        y: chart::Axis::linear("share of the sends", Form::Share, [1.0].into_iter()),
        panels: vec![panel],
    })
}

/// Returns the invalid trial of an architecture with the largest standard deviation.
fn worst_not_valid(run: &Run, deviation_of: &mut DeviationOf<'_>, architecture: &str) -> Option<TrialDeviation> {
    let published = published_service_time();
    let is_candidate = |record: &&TrialRecord| {
        record.verdict.kind != VerdictKind::Valid
            && queue::is(&record.trial.architecture.to_string(), architecture)
            && record.trial.workload.schedule() == Some(Schedule::Constant)
            && is_of_matrix(&published, &record.trial.workload)
    };
    let deviations = run.records.iter().filter(is_candidate).map(deviation_of);
    let known = deviations.filter_map(|it| Some((it.figures?.stddev_ns, it)));
    known.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, worst)| worst)
}
