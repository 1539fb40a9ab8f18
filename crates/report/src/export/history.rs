//! Many runs, as CSV.

use serde::Serialize;
use stats::Estimate;

use super::csv::finished;
use crate::format;
use crate::model::history::History;

#[derive(Serialize)]
struct CsvRow<'a> {
    architecture: &'a str,
    traffic: &'a str,
    host: &'a str,
    run: &'a str,
    folder: &'a str,
    started_at: &'a str,
    muxbench: &'a str,
    verdict: &'static str,
    repeats: usize,
    repeats_valid: usize,
    service_p50_ns: Option<f64>,
    service_p50_low_ns: Option<f64>,
    service_p50_high_ns: Option<f64>,
    service_p99_ns: Option<f64>,
    service_p99_low_ns: Option<f64>,
    service_p99_high_ns: Option<f64>,
    rate_per_s: Option<f64>,
    rate_low_per_s: Option<f64>,
    rate_high_per_s: Option<f64>,
}

/// A row for each point of each trend.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(history: &History) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let ends = |it: Option<Estimate>| {
        let interval = it.and_then(|it| it.interval);
        (it.map(|it| it.value), interval.map(|it| it.low), interval.map(|it| it.high))
    };
    for trend in &history.trends {
        for figures in &trend.points {
            let run = &history.runs[figures.run];
            let (p50, p99, rate) =
                (ends(figures.service_p50_ns), ends(figures.service_p99_ns), ends(figures.rate_per_s));
            writer.serialize(CsvRow {
                architecture: &trend.architecture,
                traffic: &trend.title,
                host: &history.hosts[trend.host].letter,
                run: &run.name,
                folder: &run.folder,
                started_at: &run.started_at,
                muxbench: &run.muxbench,
                verdict: format::verdict(figures.verdict),
                repeats: figures.repeats,
                repeats_valid: figures.repeats_valid,
                service_p50_ns: p50.0,
                service_p50_low_ns: p50.1,
                service_p50_high_ns: p50.2,
                service_p99_ns: p99.0,
                service_p99_low_ns: p99.1,
                service_p99_high_ns: p99.2,
                rate_per_s: rate.0,
                rate_low_per_s: rate.1,
                rate_high_per_s: rate.2,
            })?;
        }
    }
    finished(writer)
}
