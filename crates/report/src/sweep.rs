//! A sweep: a row a step with autobench's ten columns, and the response time against the rate.
//!
//! Autobench's columns mean here what they mean there, of httperf's figures, as far as ours can:
//! `dem_req_rate` is asked for and `req_rate` sent, requests a second; `con_rate` is new connections a second, 0 where they stay; `min_`, `avg_`,
//! `max_` and `stddev_rep_rate` are replies a second in eighths of the window, over all repeats (httperf looks every 5 s:
//! `--measure 40s`); `resp_time` is the mean time from when a request was due to its last byte, in ms, so that nothing
//! is omitted where requests wait for each other; `net_io` is KiB a second in both directions; `errors` is the percentage of
//! the window's requests that were not answered, datagrams that were lost among them. What was answered wrongly is in the counts
//! by class, which are of the whole trial.

use harness::course::Course;
use harness::record::{Run, TrialRecord, VerdictKind, Workload};
use harness::units::Share;
use load::late::LateSends;
use load::report::{Errors, PARTS};
use serde::Serialize;

use crate::chart::{self, Line};
use crate::summary::{Comparison, Row, Summary, estimated, title};
use crate::table::{self, Column};
use crate::terminal::host;
use crate::{Medium, format, sentence, tails};

/// Parts of the window whose rates of replies are looked at.
const LOOKS: usize = 8;

/// Autobench's columns.
const AUTOBENCH: [&str; 10] = [
    "dem_req_rate",
    "req_rate",
    "con_rate",
    "min_rep_rate",
    "avg_rep_rate",
    "max_rep_rate",
    "stddev_rep_rate",
    "resp_time",
    "net_io",
    "errors",
];

/// A sweep's figures.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// One curve for each architecture and traffic, the rate aside.
    pub curves: Vec<Curve>,
}

/// An architecture under one traffic, at ascending rates.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name, with options that are not the usual ones.
    pub architecture: String,
    /// The traffic, without its rate.
    pub workload: Workload,
    /// One for each rate.
    pub steps: Vec<Step>,
}

/// An architecture at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    #[serde(skip)]
    architecture: String,
    /// The rate asked for, in requests a second.
    pub dem_req_rate: f64,
    /// What came of it; `None` if it was not run.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// The verdict on all repeats; `None` if it was not run.
    pub verdict: Option<VerdictKind>,
    /// Why it was not run, or is not valid.
    pub reasons: Vec<String>,
}

/// What came of a step: autobench's columns, and what those leave out.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    req_rate: f64,
    con_rate: f64,
    min_rep_rate: Option<f64>,
    avg_rep_rate: f64,
    max_rep_rate: Option<f64>,
    stddev_rep_rate: Option<f64>,
    resp_time: f64,
    net_io: Option<f64>,
    errors: f64,
    /// Median response time, in ms.
    resp_time_p50: f64,
    /// Its 90th percentile.
    resp_time_p90: f64,
    /// Its 95th percentile.
    resp_time_p95: f64,
    /// Its 99th percentile.
    resp_time_p99: f64,
    /// Requests that the client sent late.
    late: LateSends,
    /// The lowest quantile of the response time that may be the client's doing for that, as in `p99`.
    clients_from: Option<&'static str>,
    /// Failures by class, over the whole of all repeats and not their windows only.
    errors_by_class: Errors,
    repeats: usize,
}

impl Sweep {
    /// Of a run that is a sweep; `None` if it is not.
    pub fn of(run: &Run) -> Option<Self> {
        let Course::Sweep { .. } = run.header.course else { return None };
        let summary = Summary::of(run);
        let mut curves: Vec<Curve> = Vec::new();
        for comparison in &summary.comparisons {
            let workload = Workload { rate_per_s: None, ..comparison.workload.clone() };
            let mut rows: Vec<&Row> = comparison.rows.iter().collect();
            rows.sort_by_key(|row| row.label());
            for row in rows {
                let step = step(run, comparison, row);
                match curves.iter_mut().find(|it| it.architecture == row.label() && it.workload == workload) {
                    Some(curve) => curve.steps.push(step),
                    None => {
                        curves.push(Curve { architecture: row.label(), workload: workload.clone(), steps: vec![step] });
                    }
                }
            }
        }
        Some(Self { curves })
    }

    /// The traffics that there are curves of.
    fn workloads(&self) -> Vec<&Workload> {
        let mut workloads: Vec<&Workload> = self.curves.iter().map(|curve| &curve.workload).collect();
        workloads.dedup();
        workloads
    }

    fn curves_of<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = &'a Curve> + Clone {
        self.curves.iter().filter(move |curve| curve.workload == *workload)
    }
}

fn step(run: &Run, comparison: &Comparison, row: &Row) -> Step {
    let of_step = |record: &&TrialRecord| record.trial.workload == comparison.workload && row.is_of(&record.trial);
    let records: Vec<&TrialRecord> = run.records.iter().filter(of_step).collect();
    let records = if row.is_ranked() { estimated(&records) } else { records };
    let mut reasons = row.reasons.clone();
    reasons.extend(row.missing.iter().cloned());
    Step {
        architecture: row.label(),
        dem_req_rate: comparison.workload.rate_per_s.unwrap_or_default(),
        figures: figures(&records),
        verdict: (row.repeats > 0).then_some(row.verdict),
        reasons,
    }
}

fn figures(records: &[&TrialRecord]) -> Option<Figures> {
    let loads: Vec<&load::LoadReport> = records.iter().filter_map(|record| record.load.as_ref()).collect();
    if loads.is_empty() {
        return None;
    }
    let mean = |figure: &dyn Fn(&load::LoadReport) -> f64| {
        loads.iter().map(|load| figure(load)).sum::<f64>() / loads.len() as f64
    };
    let mut response = stats::Histogram::new();
    loads.iter().for_each(|load| response.merge(&load.response.histogram));
    let response = response.distribution();
    let late = tails::late(loads.iter().copied());
    let looks: Vec<f64> = loads.iter().flat_map(|load| reply_rates(load)).collect();
    let extreme = |pick: fn(f64, f64) -> f64| looks.iter().copied().reduce(pick);
    let errors = loads.iter().fold(Errors::default(), |errors, load| errors.and(&load.errors));
    let planned: u64 = loads.iter().map(|load| load.planned).sum();
    let answered: u64 = loads.iter().map(|load| load.completed).sum();
    let average = mean(&|load| load.rate_achieved_per_s);
    Some(Figures {
        req_rate: mean(&|load| load.rate_sent_per_s),
        con_rate: mean(&|load| load.churn.as_ref().map_or(0.0, |churn| churn.opened_per_s)),
        min_rep_rate: extreme(f64::min),
        avg_rep_rate: average,
        max_rep_rate: extreme(f64::max),
        stddev_rep_rate: (looks.len() > 1).then(|| {
            let mean = looks.iter().sum::<f64>() / looks.len() as f64;
            (looks.iter().map(|look| (look - mean).powi(2)).sum::<f64>() / (looks.len() - 1) as f64).sqrt()
        }),
        resp_time: response.mean_ns / 1e6,
        net_io: net_io(records),
        errors: 100.0 * planned.saturating_sub(answered) as f64 / planned.max(1) as f64,
        resp_time_p50: response.p50_ns as f64 / 1e6,
        resp_time_p90: response.p90_ns as f64 / 1e6,
        resp_time_p95: response.p95_ns as f64 / 1e6,
        late,
        clients_from: tails::clients_from(&late),
        resp_time_p99: response.p99_ns as f64 / 1e6,
        errors_by_class: errors,
        repeats: loads.len(),
    })
}

/// Replies a second in each eighth of a trial's window.
fn reply_rates(load: &load::LoadReport) -> Vec<f64> {
    let look_s = load.window_ns as f64 / 1e9 / LOOKS as f64;
    let parts = load.completed_by_part.as_ref().map_or(&[][..], |parts| parts);
    parts.chunks(PARTS / LOOKS).map(|parts| parts.iter().sum::<u64>() as f64 / look_s).collect()
}

/// KiB a second in both directions: what the server counted, or the sizes of what was answered; `None` where neither is known.
fn net_io(records: &[&TrialRecord]) -> Option<f64> {
    let of = |record: &&TrialRecord| {
        let counted = record.server.as_ref().and_then(|server| {
            let bytes = server.totals.bytes_in? + server.totals.bytes_out?;
            Some(bytes as f64 / (server.window_ns as f64 / 1e9))
        });
        counted.or_else(|| {
            let (request_bytes, response_bytes) = record.trial.workload.service.fixed()?;
            let bytes = f64::from(request_bytes) + f64::from(response_bytes);
            Some(bytes * record.load.as_ref()?.rate_achieved_per_s)
        })
    };
    let all: Vec<f64> = records.iter().map(of).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / 1024.0)
}

impl Step {
    /// Autobench's columns as text, empty where there is nothing to say.
    fn autobench(&self) -> [String; 10] {
        // As many digits as autobench's, which are httperf's.
        let tenth = |value: f64| ((value * 10.0).round() / 10.0).to_string();
        let some = |value: Option<f64>| value.map_or(String::new(), tenth);
        let of = |figure: &dyn Fn(&Figures) -> String| self.figures.as_ref().map_or(String::new(), figure);
        [
            self.dem_req_rate.to_string(),
            of(&|it| tenth(it.req_rate)),
            of(&|it| tenth(it.con_rate)),
            of(&|it| some(it.min_rep_rate)),
            of(&|it| tenth(it.avg_rep_rate)),
            of(&|it| some(it.max_rep_rate)),
            of(&|it| some(it.stddev_rep_rate)),
            of(&|it| thousandth(it.resp_time)),
            of(&|it| some(it.net_io)),
            of(&|it| thousandth(it.errors)),
        ]
    }

    fn verdict_name(&self) -> &'static str {
        self.verdict.map_or("not run", sentence::name)
    }

    /// Whether the architecture kept up.
    fn is_kept_up(&self) -> bool {
        self.verdict == Some(VerdictKind::Valid)
    }
}

fn thousandth(value: f64) -> String {
    ((value * 1e3).round() / 1e3).to_string()
}

/// The sweep as CSV, in long form: a row a step of each architecture, autobench's columns after those that say whose it is,
/// before the quantiles, the verdict and the counts of errors by class.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn csv(sweep: &Sweep) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let classes = Errors::default().by_class().map(|(class, _)| format!("errors_{}", class.replace('-', "_")));
    let before = ["architecture", "connections", "active", "idle"];
    let after = ["resp_time_p50", "resp_time_p90", "resp_time_p95", "resp_time_p99", "clients_from", "verdict"];
    writer.write_record(
        before.iter().chain(&AUTOBENCH).chain(&after).copied().chain(classes.iter().map(String::as_str)),
    )?;
    for curve in &sweep.curves {
        for step in &curve.steps {
            let figures = step.figures.as_ref();
            let time = |figure: fn(&Figures) -> f64| figures.map_or(String::new(), |it| thousandth(figure(it)));
            let before = [
                curve.architecture.clone(),
                curve.workload.connections.to_string(),
                Share(curve.workload.active).0.to_string(),
                curve.workload.idle.to_string(),
            ];
            let after = [
                time(|it| it.resp_time_p50),
                time(|it| it.resp_time_p90),
                time(|it| it.resp_time_p95),
                time(|it| it.resp_time_p99),
                figures.and_then(|it| it.clients_from).unwrap_or_default().to_owned(),
                step.verdict_name().to_owned(),
            ];
            let counts = |(_, count): (&str, u64)| figures.map_or(String::new(), |_| count.to_string());
            let errors = figures.map_or(Errors::default(), |figures| figures.errors_by_class).by_class().map(counts);
            writer.write_record(before.into_iter().chain(step.autobench()).chain(after).chain(errors))?;
        }
    }
    crate::csv::finished(writer)
}

/// The sweep as autobench writes TSV: a row a step; of one curve its ten columns, of several those after the first for each in
/// turn, with the architecture (and where they differ, the connections, their active share, and the idle ones) at the end of each
/// name.
///
/// # Errors
/// None that is known: everything is held in memory.
pub fn tsv(sweep: &Sweep) -> anyhow::Result<String> {
    let mut writer = csv::WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
    let workloads = sweep.workloads();
    let idle_differs = workloads.iter().any(|workload| workload.idle != workloads[0].idle);
    let suffix = |curve: &Curve| {
        let Curve { architecture, workload, .. } = curve;
        let traffic = || format!("_{}_{}", workload.connections, Share(workload.active));
        match sweep.curves.len() {
            1 => String::new(),
            _ if workloads.len() == 1 => format!("_{architecture}"),
            _ if idle_differs => format!("_{architecture}{}_{}", traffic(), workload.idle),
            _ => format!("_{architecture}{}", traffic()),
        }
    };
    let columns = sweep.curves.iter().flat_map(|curve| AUTOBENCH[1..].iter().map(move |name| (*name, suffix(curve))));
    writer.write_record(
        [AUTOBENCH[0].to_owned()].into_iter().chain(columns.map(|(name, suffix)| name.to_owned() + &suffix)),
    )?;
    let mut rates: Vec<f64> =
        sweep.curves.iter().flat_map(|curve| &curve.steps).map(|step| step.dem_req_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    for rate in rates {
        let cells = sweep.curves.iter().flat_map(|curve| {
            let step = curve.steps.iter().find(|step| step.dem_req_rate == rate);
            step.map_or_else(|| vec![String::new(); 9], |step| step.autobench()[1..].to_vec())
        });
        writer.write_record([rate.to_string()].into_iter().chain(cells))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// In order from left to right.
const COLUMNS: &[Column<Step>] = &[
    Column { heading: "architecture", rank: 0, text: |step| step.architecture.clone() },
    Column { heading: "dem_req_rate", rank: 0, text: |step| step.dem_req_rate.to_string() },
    Column { heading: "req_rate", rank: 2, text: |step| figure(step, |it| Some(it.req_rate)) },
    Column { heading: "con_rate", rank: 5, text: |step| figure(step, |it| Some(it.con_rate)) },
    Column { heading: "min_rep_rate", rank: 3, text: |step| figure(step, |it| it.min_rep_rate) },
    Column { heading: "avg_rep_rate", rank: 0, text: |step| figure(step, |it| Some(it.avg_rep_rate)) },
    Column { heading: "max_rep_rate", rank: 3, text: |step| figure(step, |it| it.max_rep_rate) },
    Column { heading: "stddev_rep_rate", rank: 4, text: |step| figure(step, |it| it.stddev_rep_rate) },
    Column { heading: "resp_time ms", rank: 2, text: |step| tail(step, 0.99, |it| it.resp_time) },
    Column { heading: "p50 ms", rank: 1, text: |step| figure(step, |it| Some(it.resp_time_p50)) },
    Column { heading: "p90 ms", rank: 5, text: |step| tail(step, 0.9, |it| it.resp_time_p90) },
    Column { heading: "p95 ms", rank: 5, text: |step| tail(step, 0.95, |it| it.resp_time_p95) },
    Column { heading: "p99 ms", rank: 0, text: |step| tail(step, 0.99, |it| it.resp_time_p99) },
    Column { heading: "net_io KiB/s", rank: 4, text: |step| figure(step, |it| it.net_io) },
    Column { heading: "errors %", rank: 2, text: |step| figure(step, |it| Some(it.errors)) },
    Column { heading: "verdict", rank: 0, text: |step| step.verdict_name().to_owned() },
];

fn figure(step: &Step, figure: impl Fn(&Figures) -> Option<f64>) -> String {
    step.figures.as_ref().and_then(figure).map_or("-".into(), format::significant)
}

/// A quantile, or a mean in which the tail above one weighs, marked where it may be the client's.
fn tail(step: &Step, q: f64, of: fn(&Figures) -> f64) -> String {
    let text = figure(step, |it| Some(of(it)));
    step.figures.as_ref().map_or(text.clone(), |it| tails::mark(text, &it.late, q))
}

/// The whole sweep.
pub fn render(run: &Run, sweep: &Sweep, medium: impl Into<Medium>) -> String {
    let medium = medium.into();
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    for workload in sweep.workloads() {
        line(&medium.heading(&title(workload)));
        let steps = sweep.curves_of(workload).flat_map(|curve| &curve.steps);
        let (table, dropped) = table::of(COLUMNS, steps.collect::<Vec<_>>(), medium);
        line(&table);
        if !dropped.is_empty() {
            line(&medium.prose(&format!("(too narrow for: {}; see --csv)", dropped.join(", "))));
        }
        let is_late =
            |curve: &&Curve| curve.steps.iter().filter_map(|it| it.figures.as_ref()).any(|it| it.late.reaches(0.99));
        let late: Vec<&str> = sweep.curves_of(workload).filter(is_late).map(|it| it.architecture.as_str()).collect();
        if !late.is_empty() {
            line(&medium.prose(&tails::note_of(&late.join(", "))));
        }
        for curve in sweep.curves_of(workload) {
            line(&medium.prose(&sentence_of(curve)));
        }
        line("");
        let curves: Vec<Line> = sweep.curves_of(workload).map(line_of).collect();
        let drawn = chart::draw("p99 of the response time", "requests/s asked", &curves, medium.width());
        if let Some(chart) = drawn {
            line(&medium.verbatim(&chart));
            line("");
        }
    }
    line(&medium.prose(
        "Response time runs from when a request was due to the last byte of its response, so that a wait for others is in it. \
         Reply rates are of eighths of the window.",
    ));
    line(&medium.prose(&host(run)));
    medium.finished(text)
}

fn line_of(curve: &Curve) -> Line {
    let point = |step: &Step| {
        let figures = step.figures.as_ref().filter(|it| !it.late.reaches(0.99))?;
        Some((step.dem_req_rate, figures.resp_time_p99 * 1e6))
    };
    Line { name: curve.architecture.clone(), points: curve.steps.iter().filter_map(point).collect() }
}

/// How far an architecture came.
fn sentence_of(curve: &Curve) -> String {
    let kept_up = curve.steps.iter().filter(|step| step.is_kept_up()).map(|step| step.dem_req_rate);
    let most = curve.steps.iter().filter_map(|step| Some(step.figures.as_ref()?.avg_rep_rate)).reduce(f64::max);
    let mut words = vec![match (kept_up.reduce(f64::max), most) {
        (Some(rate), Some(most)) => {
            format!("keeps up with {rate} requests/s, answers {} at most", format::digits(most))
        }
        (None, Some(most)) => format!("keeps up with none of the rates, answers {} at most", format::digits(most)),
        (_, None) => "nothing was measured".into(),
    }];
    let rates = |steps: &mut dyn Iterator<Item = &Step>| {
        steps.map(|step| step.dem_req_rate.to_string()).collect::<Vec<_>>().join(", ")
    };
    for kind in [VerdictKind::Saturated, VerdictKind::ClientLimited, VerdictKind::Unsteady, VerdictKind::Failed] {
        let at = rates(&mut curve.steps.iter().filter(|step| step.verdict == Some(kind)));
        if !at.is_empty() {
            words.push(format!("{} at {at}", sentence::name(kind)));
        }
    }
    let mut told: Vec<&String> = Vec::new();
    for step in curve.steps.iter().filter(|step| step.verdict.is_none()) {
        for reason in step.reasons.iter().filter(|reason| !told.contains(reason)).collect::<Vec<_>>() {
            told.push(reason);
            let at = rates(&mut curve.steps.iter().filter(|it| it.verdict.is_none() && it.reasons.contains(reason)));
            words.push(format!("{at}: {reason}"));
        }
    }
    format!("{}: {}", curve.architecture, words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_sweep_in_full_and_narrow() {
        let run = fixtures::sweep_run();
        let sweep = Sweep::of(&run).unwrap();
        for width in [160, 80] {
            let text = render(&run, &sweep, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            insta::assert_snapshot!(format!("sweep_{width}"), text);
        }
    }

    #[test]
    fn the_columns_are_autobench_s() {
        let sweep = Sweep::of(&fixtures::sweep_run()).unwrap();
        insta::assert_snapshot!("sweep_csv", csv(&sweep).unwrap());
        insta::assert_snapshot!("sweep_tsv", tsv(&sweep).unwrap());
        let alone = Sweep { curves: sweep.curves[..1].to_vec() };
        let heading = tsv(&alone).unwrap().lines().next().unwrap().replace('\t', ",");
        assert_eq!(
            heading,
            "dem_req_rate,req_rate,con_rate,min_rep_rate,avg_rep_rate,max_rep_rate,stddev_rep_rate,resp_time,net_io,errors"
        );
    }

    #[test]
    fn traffics_that_differ_in_anything_have_rows_and_columns_of_their_own() {
        let one = Sweep::of(&fixtures::sweep_run()).unwrap();
        let of = |(connections, active, idle): (u32, f64, u32)| {
            let curves = one.curves.iter().cloned();
            curves.map(move |curve| {
                let workload = Workload { connections, active, idle, ..curve.workload };
                Curve { workload, ..curve }
            })
        };
        let traffics = [(20, 1.0, 0), (400, 1.0, 0), (400, 0.5, 0), (400, 1.0, 3)];
        for count in [2, 3, 4] {
            let sweep = Sweep { curves: traffics[..count].iter().copied().flat_map(of).collect() };
            let (csv, tsv) = (csv(&sweep).unwrap(), tsv(&sweep).unwrap());
            let rows = csv.lines().map(|line| line.split(',').take(5).collect::<Vec<_>>().join(","));
            assert_different(rows.collect(), 1 + count * 10);
            let heading = tsv.lines().next().unwrap();
            assert_different(heading.split('\t').map(str::to_owned).collect(), 1 + count * 18);
            assert_eq!(heading.contains("errors_mt_400_1_3"), count == 4, "{heading}");
        }
    }

    /// So many, and all of them are.
    fn assert_different(mut names: Vec<String>, count: usize) {
        assert_eq!(names.len(), count);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }

    #[test]
    fn errors_are_of_the_window_s_requests_the_lost_among_them() {
        let mut run = fixtures::sweep_run();
        let record = &mut run.records[0];
        let load = record.load.as_mut().unwrap();
        // Others failed before the window.
        (load.planned, load.completed, load.errors.timeout) = (1_000, 990, 500);
        assert_eq!(figures(&[record]).unwrap().errors, 1.0);
        record.load.as_mut().unwrap().errors.timeout = 0;
        assert_eq!(figures(&[record]).unwrap().errors, 1.0, "datagrams are lost without an error");
    }
}
