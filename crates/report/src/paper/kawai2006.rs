//! E. Kawai and S. Yamaguchi, "An Implementation of a Benchmark Tool Considering Communication Locality" (2006, in
//! Japanese): Tables 3 and 4, service time; Table 5 and Figure 2, how evenly requests are sent.
//!
//! The published values are in two files beside this one, as printed there: `kawai2006-service-time.csv` (Tables 3 and 4)
//! and `kawai2006-send-deviation.csv` (Table 5). Figure 2 is a drawing without numbers.

use std::collections::BTreeMap;

use anyhow::bail;
use harness::record::{Run, Trial, TrialRecord, VerdictKind, Workload};
use harness::transport::Transport;
use harness::units::Share;
use load::config::Schedule;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stats::{Deviation, Histogram, interval};
use wire::ServiceSpec;

use super::Tables;
use super::figure::{Figure, Here as Runs, published};
use super::grid::{Grid, Row};
use crate::claims::{Axis, Claim, Is, SEND_STDDEV, SENDS_WITHIN_1US, SERVICE_MEAN, Statement};
use crate::deviation::{DeviationOf, SHARES, TrialDeviation};
use crate::html::chart::{self, Chart, Form, Mark, Panel, Published, Series, Shape};
use crate::summary::estimated;
use crate::{format, json, sentence, tails};

const SERVICE_TIME: &str = include_str!("kawai2006-service-time.csv");
const SEND_DEVIATION: &str = include_str!("kawai2006-send-deviation.csv");

/// In the order of the paper's columns.
pub(super) const ARCHITECTURES: [&str; 5] = ["mp", "mt", "select", "poll", "epoll"];

/// The paper's Table 2.
const SERVICE: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };

/// The paper's Table 1, and section 5.
const HARDWARE: &str = "a server with two Pentium III of 800 MHz, five client hosts, gigabit Ethernet, Linux 2.6.15, 3 min \
                        measured";

/// The paper's traffic, in all but the three parameters of its matrix, the schedule and the phases.
fn of_the_paper(workload: &Workload) -> bool {
    super::is_plain(workload)
        && workload.service == SERVICE
        && workload.transport == Transport::Tcp
        && workload.idle == 0
}

/// Those of it whose sends are meant to be at even intervals.
fn at_even_intervals(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.schedule == Schedule::Constant
}

fn busiest(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.connections == 10_000 && workload.rate_per_s == Some(2_000.0)
}

/// What the figures' logarithmic scales show as no change.
const NO_CHANGE: f64 = 1.5;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        number: 1,
        says: "The service time of select and poll is in proportion to the connections, that of mp, mt and epoll nearly flat \
               up to 10 000.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &["select", "poll"],
                metric: &SERVICE_MEAN,
                only: of_the_paper,
                is: Is::Proportional(Axis::Connections),
            },
            Statement {
                architectures: &["mp", "mt", "epoll"],
                metric: &SERVICE_MEAN,
                only: of_the_paper,
                is: Is::Flat(Axis::Connections, NO_CHANGE),
            },
        ],
    },
    Claim {
        number: 2,
        says: "At 2 000 requests/s on 10 000 connections a smaller active share shortens the service time of mp, mt and epoll.",
        cpus_min: 1,
        statements: &[Statement {
            architectures: &["mp", "mt", "epoll"],
            metric: &SERVICE_MEAN,
            only: busiest,
            is: Is::Grows(Axis::Active, 1.0),
        }],
    },
    Claim {
        number: 3,
        says: "More than 90 % of sends lie within 1 µs of one another's offset; the worst standard deviation is 15 µs.",
        cpus_min: 1,
        statements: &[
            Statement {
                architectures: &ARCHITECTURES,
                metric: &SENDS_WITHIN_1US,
                only: at_even_intervals,
                is: Is::AtLeast(0.9),
            },
            Statement {
                architectures: &ARCHITECTURES,
                metric: &SEND_STDDEV,
                only: at_even_intervals,
                is: Is::AtMost(15_000.0),
            },
        ],
    },
];

pub(super) const FIGURES: &[Figure] = &[Figure {
    number: "2",
    title: "Send deviation, cumulative",
    about: "Kawai and Yamaguchi 2006, Figure 2: how far sends are from even intervals, of each architecture's trial with the \
            largest standard deviation. The paper has a drawing and no numbers; its Table 5 has the medians of these trials, \
            which are the stars. Only trials at constant intervals count, and of an architecture without a valid one the worst of \
            the others is fainter.",
    experiments: &["kawai2006"],
    draw: draw_deviation,
    shares: &SHARES,
}];

/// Where the paper's drawing, and ours, show most: the sends between these shares.
const SHOWN: [f64; 2] = [0.05, 0.95];
/// At least as much to both sides of what is shown, in nanoseconds.
const ROOM_NS: f64 = 1_000.0;

fn draw_deviation(runs: &Runs<'_>, deviation_of: &mut [&mut DeviationOf<'_>]) -> Option<Chart> {
    let mut panel = Panel::new(String::new(), Vec::new());
    let mut without = Vec::new();
    for at in runs.places() {
        let run = &runs.runs[at];
        for worst in Sends::of(run, deviation_of[at]).worst {
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
                |it: &crate::deviation::Point| chart::Point { verdict, ..chart::Point::new(it.deviation_ns, it.share) };
            let architecture = runs.place(worst.architecture);
            panel.series.push(Series { architecture, of, points: points.into_iter().map(point).collect() });
            let median = worst.published.get("median_us").map(|median_us| (median_us * 1e3, 0.5));
            panel.published.push(Published {
                architecture: Some(architecture),
                ..published("the medians of Table 5", Mark::Points, median.as_slice())
            });
        }
    }
    // What is not valid may be a thousand times as far, and is shown as far as the others go.
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
            format!("Of 95 % of the sends the latest is {late} late; that is with {}.", runs.names[place])
        }
        None => "None of it is valid.".to_owned(),
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

/// Of an architecture's trials that are not valid, the one whose sends deviate most.
fn worst_not_valid(run: &Run, deviation_of: &mut DeviationOf<'_>, architecture: &str) -> Option<TrialDeviation> {
    let published = published_service_time();
    let is_one = |record: &&TrialRecord| {
        record.verdict.kind != VerdictKind::Valid
            && record.trial.architecture.to_string() == architecture
            && record.trial.workload.schedule == Schedule::Constant
            && is_of_matrix(&published, &record.trial.workload)
    };
    let deviations = run.records.iter().filter(is_one).map(deviation_of);
    let stddev_ns = |it: &TrialDeviation| it.figures.map_or(0.0, |figures| figures.stddev_ns);
    deviations.filter(|it| it.figures.is_some()).max_by(|a, b| stddev_ns(a).total_cmp(&stddev_ns(b)))
}

/// A run in the layout of Tables 3, 4 and 5.
#[derive(Debug, Serialize)]
pub struct Kawai2006 {
    /// As [`json::FORMAT`].
    format: u32,
    paper: &'static str,
    /// What the published values were measured on.
    published_on: &'static str,
    run: String,
    /// What ours were measured on.
    here_on: String,
    /// The schedules of the trials that are shown; the paper's is `constant`.
    schedules: Vec<Schedule>,
    /// Tables 3 and 4, in their order.
    service_time: Vec<Cell>,
    /// Table 5, in its order.
    send_deviation: Vec<Worst>,
    /// Valid trials at constant intervals whose samples are read, and all trials of the paper's matrix in this run.
    deviation_trials: (usize, usize),
    /// Samples that cannot be read, and why.
    samples_missing: Vec<String>,
}

/// Service time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Times {
    mean_ms: f64,
    median_ms: f64,
    stddev_ms: f64,
}

/// An architecture under a workload, of Table 3 or 4.
#[derive(Debug, Serialize)]
struct Cell {
    table: u8,
    active: f64,
    connections: u32,
    rate_per_s: f64,
    architecture: String,
    published: Times,
    /// `None`: nothing of this is finished in the run.
    here: Option<Here>,
}

/// What the run has of a cell.
#[derive(Debug, Serialize)]
struct Here {
    /// The worst of its repeats'.
    verdict: VerdictKind,
    repeats: usize,
    repeats_estimated: usize,
    /// Over the valid repeats; `None` when there are none.
    times: Option<Times>,
    /// Their tail, which weighs in the mean and the standard deviation, may be the client's doing.
    is_client_tail: bool,
}

/// A column of Table 5.
#[derive(Debug, Serialize)]
struct Worst {
    architecture: &'static str,
    /// By the name of the statistic: `stddev_us`, `median_us`, `max_us`.
    published: BTreeMap<String, f64>,
    /// The trial with the largest standard deviation; `None` when no trial counts.
    here: Option<TrialDeviation>,
    /// All its trials that count: one pause of the host makes the worst, and says nothing of the others.
    all: All,
}

/// The trials of an architecture that count for Table 5.
#[derive(Debug, Default, Serialize)]
struct All {
    trials: usize,
    /// The median over them of their standard deviations.
    stddev_us_median: Option<f64>,
    /// The median over them of the share of sends at most 1 µs from the median.
    within_1us_of_median_median: Option<f64>,
}

/// A row of the file of Tables 3 and 4.
#[derive(Deserialize)]
struct ServiceTimeRow {
    active_ratio: String,
    connections: u32,
    rate_per_s: f64,
    architecture: String,
    mean_ms: f64,
    median_ms: f64,
    stddev_ms: f64,
}

/// Every published cell of Tables 3 and 4, with nothing of a run yet.
fn published_service_time() -> Vec<Cell> {
    let mut reader = csv::Reader::from_reader(SERVICE_TIME.as_bytes());
    let cell = |row: ServiceTimeRow| {
        let active = row.active_ratio.parse::<Share>().expect("a test reads every row").0;
        Cell {
            table: if active == 1.0 { 3 } else { 4 },
            active,
            connections: row.connections,
            rate_per_s: row.rate_per_s,
            architecture: row.architecture,
            published: Times { mean_ms: row.mean_ms, median_ms: row.median_ms, stddev_ms: row.stddev_ms },
            here: None,
        }
    };
    reader.deserialize().map(|row| cell(row.expect("a test reads every row"))).collect()
}

/// Every published value of Table 5: by statistic, then by architecture.
fn published_send_deviation() -> BTreeMap<String, BTreeMap<String, f64>> {
    let mut reader = csv::Reader::from_reader(SEND_DEVIATION.as_bytes());
    let row = |mut row: BTreeMap<String, String>| {
        let statistic = row.remove("statistic").expect("a test reads every row");
        let number = |(architecture, text): (String, String)| (architecture, text.parse().expect("likewise"));
        (statistic, row.into_iter().map(number).collect())
    };
    reader.deserialize().map(|record| row(record.expect("a test reads every row"))).collect()
}

/// Whether a workload is of the matrix that the cells are of. It has more workloads than Tables 3 and 4 show; the paper took
/// Table 5 from all of them.
fn is_of_matrix(cells: &[Cell], workload: &Workload) -> bool {
    of_the_paper(workload)
        && cells.iter().any(|cell| cell.connections == workload.connections)
        && cells.iter().any(|cell| cell.active == workload.active)
        && cells.iter().any(|cell| Some(cell.rate_per_s) == workload.rate_per_s)
}

impl Cell {
    fn is_of(&self, trial: &Trial) -> bool {
        let workload = &trial.workload;
        of_the_paper(workload)
            && (workload.connections, workload.active, workload.rate_per_s)
                == (self.connections, self.active, Some(self.rate_per_s))
            && trial.architecture.to_string() == self.architecture
    }

    fn fill(&mut self, run: &Run) {
        let records: Vec<&TrialRecord> = run.records.iter().filter(|record| self.is_of(&record.trial)).collect();
        let Some(verdict) = records.iter().map(|record| record.verdict.kind).max() else { return };
        let mut histogram = Histogram::new();
        let loads: Vec<_> = estimated(&records).into_iter().filter_map(|record| record.load.as_ref()).collect();
        loads.iter().for_each(|load| histogram.merge(&load.service.histogram));
        let all = histogram.distribution();
        let times = (all.count > 0).then_some(Times {
            mean_ms: all.mean_ns / 1e6,
            median_ms: all.p50_ns as f64 / 1e6,
            stddev_ms: all.stddev_ns / 1e6,
        });
        let is_client_tail = tails::late(loads.iter().copied()).reaches(0.99);
        let (repeats, repeats_estimated) = (records.len(), loads.len());
        self.here = Some(Here { verdict, repeats, repeats_estimated, times, is_client_tail });
    }

    /// What this run has to show for it.
    fn text_here(&self) -> String {
        match &self.here {
            None => "-".into(),
            Some(Here { times: None, verdict, .. }) => sentence::name(*verdict).into(),
            Some(Here { times: Some(times), repeats, repeats_estimated, is_client_tail, .. }) => {
                let mark = if *is_client_tail { tails::MARK } else { "" };
                let of_repeats = match repeats == repeats_estimated {
                    true => String::new(),
                    false => format!(" ({repeats_estimated} of {repeats})"),
                };
                format!("{}{mark}{of_repeats}", times.text())
            }
        }
    }
}

impl Times {
    /// In the order of the paper's cells.
    fn named(self) -> [(&'static str, f64); 3] {
        [("mean_ms", self.mean_ms), ("median_ms", self.median_ms), ("stddev_ms", self.stddev_ms)]
    }

    fn text(self) -> String {
        self.named().map(|(_, ms)| format::significant(ms)).join("/")
    }
}

/// Which sends count for Table 5 and Figure 2.
struct Sends {
    /// In the order of [`ARCHITECTURES`].
    worst: Vec<Worst>,
    /// Valid trials at constant intervals whose samples are read.
    counted: usize,
    /// All trials of the paper's matrix in the run.
    of_matrix: usize,
    samples_missing: Vec<String>,
}

impl Sends {
    fn of(run: &Run, deviation_of: &mut DeviationOf<'_>) -> Self {
        let published = published_service_time();
        let of_matrix = run.header.trials.iter().filter(|trial| is_of_matrix(&published, &trial.workload)).count();
        let table_5 = published_send_deviation();
        let column = |architecture: &str| {
            table_5.iter().filter_map(|(statistic, row)| Some((statistic.clone(), *row.get(architecture)?))).collect()
        };
        let mut worst = ARCHITECTURES.map(|architecture| Worst {
            architecture,
            published: column(architecture),
            here: None,
            all: All::default(),
        });
        let counts = |record: &&TrialRecord| {
            let TrialRecord { trial, verdict, .. } = record;
            let is_even = trial.workload.schedule == Schedule::Constant;
            is_even && verdict.kind == VerdictKind::Valid && is_of_matrix(&published, &trial.workload)
        };
        let (mut counted, mut samples_missing) = (Vec::new(), Vec::new());
        for record in run.records.iter().filter(counts) {
            let architecture = record.trial.architecture.to_string();
            let Some(worst) = worst.iter_mut().find(|worst| worst.architecture == architecture) else { continue };
            let deviation = deviation_of(record);
            if let Some(why) = &deviation.missing {
                samples_missing.push(format!("trial {}, {architecture}: {why}", deviation.trial));
                continue;
            }
            counted.extend(deviation.figures.map(|figures| (worst.architecture, figures)));
            let stddev_ns = |it: &TrialDeviation| it.figures.map_or(0.0, |figures| figures.stddev_ns);
            if worst.here.as_ref().is_none_or(|here| stddev_ns(&deviation) > stddev_ns(here)) {
                worst.here = Some(deviation);
            }
        }
        for Worst { architecture, all, .. } in &mut worst {
            let median = |figure: fn(&Deviation) -> f64| {
                let these = counted.iter().filter(|(of, _)| of == architecture);
                interval::median(&these.map(|(_, figures)| figure(figures)).collect::<Vec<_>>())
            };
            all.trials = counted.iter().filter(|(of, _)| of == architecture).count();
            all.stddev_us_median = median(|figures| figures.stddev_ns / 1e3);
            all.within_1us_of_median_median = median(|figures| figures.within_1us_of_median);
        }
        Self { worst: worst.into(), counted: counted.len(), of_matrix, samples_missing }
    }
}

impl Kawai2006 {
    /// Lines a run up with the paper.
    ///
    /// # Errors
    /// When no trial of the run has a workload of Tables 3 or 4.
    pub fn of(run: &Run, deviation_of: &mut DeviationOf<'_>) -> anyhow::Result<Self> {
        let mut service_time = published_service_time();
        let shown = |trial: &&Trial| service_time.iter().any(|cell| cell.is_of(trial));
        let trials: Vec<&Trial> = run.header.trials.iter().filter(shown).collect();
        if trials.is_empty() {
            bail!(
                "{}: no trial of this run has a workload of kawai2006 (128B -> 10KiB; 400, 2000 or 10000 connections, all \
                 of them active, or 1/4, 1/16 or 1/64 of 10000; 125, 500 or 2000 requests/s); make one with \
                 `muxbench run kawai2006 --quick`",
                run.header.name
            );
        }
        let mut schedules: Vec<Schedule> = Vec::new();
        for trial in &trials {
            if !schedules.contains(&trial.workload.schedule) {
                schedules.push(trial.workload.schedule);
            }
        }
        let here_on = here_on(run, trials[0]);

        let Sends { worst, counted, of_matrix, samples_missing } = Sends::of(run, deviation_of);
        service_time.iter_mut().for_each(|cell| cell.fill(run));
        Ok(Self {
            format: json::FORMAT,
            paper: "kawai2006",
            published_on: HARDWARE,
            run: run.header.name.clone(),
            here_on,
            schedules,
            service_time,
            send_deviation: worst,
            deviation_trials: (counted, of_matrix),
            samples_missing,
        })
    }

    /// Table 3 or 4, two rows a workload.
    fn service_time_rows(&self, table: u8) -> Vec<Row> {
        let cells: Vec<&Cell> = self.service_time.iter().filter(|cell| cell.table == table).collect();
        let workload = |cell: &Cell| (cell.active, cell.connections, cell.rate_per_s);
        let mut rows = Vec::new();
        for cells in cells.chunk_by(|a, b| workload(a) == workload(b)) {
            let of = |architecture: &&str| cells.iter().find(|cell| cell.architecture == *architecture);
            let first = match table {
                3 => cells[0].connections.to_string(),
                _ => Share(cells[0].active).to_string(),
            };
            let rate = cells[0].rate_per_s.to_string();
            rows.push(Row {
                lead: vec![first, rate, "here".into()],
                cells: ARCHITECTURES.iter().map(|it| of(it).map_or("-".into(), |cell| cell.text_here())).collect(),
            });
            rows.push(Row {
                lead: vec![String::new(), String::new(), "paper".into()],
                cells: ARCHITECTURES.iter().map(|it| of(it).map_or("-".into(), |it| it.published.text())).collect(),
            });
        }
        rows
    }

    /// What is to be said of Table 3 or 4.
    fn service_time_notes(&self, table: u8) -> Vec<String> {
        let cells = || self.service_time.iter().filter(|cell| cell.table == table);
        let mut notes = Vec::new();
        if cells().any(|cell| cell.here.is_none()) {
            notes.push("-: this run has no such trial, or has not finished it.".to_owned());
        }
        if cells().any(|cell| cell.here.as_ref().is_some_and(|here| here.is_client_tail)) {
            notes.push(
                "?: the client sent too many requests late for the mean and the standard deviation to be the server's."
                    .to_owned(),
            );
        }
        if cells().any(|cell| cell.here.as_ref().is_some_and(|here| here.times.is_none())) {
            notes.push(
                "A word in place of figures is a trial's verdict: its figures are not to be believed, and `muxbench report` \
                 says why."
                    .to_owned(),
            );
        }
        if self.schedules.iter().any(|schedule| *schedule != Schedule::Constant) {
            notes.push("The paper sends at constant intervals; trials of this run do not (see --schedule).".to_owned());
        }
        notes
    }

    /// What is to be said of Table 5.
    fn send_deviation_notes(&self) -> Vec<String> {
        let (counted, of_matrix) = self.deviation_trials;
        let mut notes = vec![
            format!(
                "Only trials count that are valid and at constant intervals: {counted} of the {of_matrix} that the run has \
                 of the paper's matrix. A pause of the host makes the worst trial; the medians over all are without it."
            ),
            "The paper (section 5.2) has more than 90 % of select's and poll's sends, and most of the others', within \
             ±1 µs."
                .into(),
        ];
        notes.extend(self.samples_missing.iter().cloned());
        notes
    }

    fn deviation_row(&self, name: &str, whose: &str, text: impl Fn(&Worst) -> Option<String>) -> Row {
        Row {
            lead: vec![name.into(), whose.into()],
            cells: self.send_deviation.iter().map(|worst| text(worst).unwrap_or("-".into())).collect(),
        }
    }

    fn here_row(&self, name: &str, text: fn(&TrialDeviation) -> Option<String>) -> Row {
        self.deviation_row(name, "here", |worst| text(worst.here.as_ref()?))
    }

    /// Table 5, and what else is known of its trials.
    fn send_deviation_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for Statistic { name, key, here_us } in STATISTICS {
            let here = |worst: &Worst| here_us(worst.here.as_ref()?).map(format::significant);
            let paper = |worst: &Worst| worst.published.get(*key).copied().map(format::significant);
            rows.push(self.deviation_row(name, "here", here));
            rows.push(self.deviation_row("", "paper", paper));
        }
        let within = |it: &TrialDeviation| Some(format::significant(it.figures?.within_1us_of_median * 100.0));
        rows.extend([
            self.here_row("within ±1 µs of the median, %", within),
            self.here_row("trial", |it| Some(it.trial.to_string())),
            self.here_row("  its connections", |it| Some(it.workload.connections.to_string())),
            self.here_row("  its active share", |it| Some(Share(it.workload.active).to_string())),
            self.here_row("  its requests/s", |it| Some(format::rate(it.workload.rate_per_s))),
            self.deviation_row("all trials that count", "here", |worst| Some(worst.all.trials.to_string())),
            self.deviation_row("  median of their standard deviations", "here", |worst| {
                worst.all.stddev_us_median.map(format::significant)
            }),
            self.deviation_row("  median of their shares within ±1 µs, %", "here", |worst| {
                worst.all.within_1us_of_median_median.map(|share| format::significant(share * 100.0))
            }),
        ]);
        rows
    }
}

/// A statistic of Table 5.
struct Statistic {
    name: &'static str,
    /// Its name in the published values.
    key: &'static str,
    here_us: fn(&TrialDeviation) -> Option<f64>,
}

/// In the order of Table 5.
const STATISTICS: &[Statistic] = &[
    Statistic { name: "standard deviation", key: "stddev_us", here_us: |it| Some(it.figures?.stddev_ns / 1e3) },
    Statistic { name: "median", key: "median_us", here_us: |it| Some(it.figures?.median_ns / 1e3) },
    Statistic { name: "max", key: "max_us", here_us: |it| Some(it.figures?.max_ns / 1e3) },
];

/// What the run was measured on, next to [`HARDWARE`].
fn here_on(run: &Run, trial: &Trial) -> String {
    let fact = |name: &str| run.header.host.get(name).map_or("unknown", String::as_str);
    let kernel = fact("kernel").split_whitespace().next().unwrap_or("unknown");
    format!(
        "{}, Linux {kernel}, network: {}, {}, {} measured",
        fact("cpu"),
        fact("network"),
        run.header.placement,
        format::time(trial.workload.phases.measure_ns as f64)
    )
}

impl Tables for Kawai2006 {
    fn about(&self) -> String {
        format!(
            "kawai2006: E. Kawai and S. Yamaguchi, \"An Implementation of a Benchmark Tool Considering Communication \
             Locality\" (2006).\n\
             paper: {HARDWARE}.\n\
             here: {}; run {}.\n\
             The hardware differs, so compare how times change along rows and columns, not how long they are.",
            self.here_on, self.run
        )
    }

    fn tables(&self) -> Vec<(&'static str, Grid)> {
        let grid = |title: String, lead: &[&str], rows: Vec<Row>, notes: Vec<String>| Grid {
            title,
            lead: lead.iter().map(ToString::to_string).collect(),
            columns: ARCHITECTURES.map(str::to_owned).into(),
            rows,
            notes,
        };
        let service_time = |table: u8, what: &str, first: &str| {
            let title = format!("Service time, {what}: mean/median/standard deviation in ms");
            grid(title, &[first, "requests/s", ""], self.service_time_rows(table), self.service_time_notes(table))
        };
        let deviation = grid(
            "Send deviation in µs, of each architecture's trial with the largest standard deviation".into(),
            &["", ""],
            self.send_deviation_rows(),
            self.send_deviation_notes(),
        );
        vec![
            ("3", service_time(3, "every connection active", "connections")),
            ("4", service_time(4, "10000 connections", "active")),
            ("5", deviation),
        ]
    }

    fn json(&self) -> Value {
        serde_json::to_value(self).expect("all keys are text")
    }

    fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let heading = "table,architecture,connections,active,rate_per_s,verdict,statistic,here,paper";
        writer.write_record(heading.split(','))?;
        let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        for cell in &self.service_time {
            let times = cell.here.as_ref().and_then(|here| here.times);
            let verdict = cell.here.as_ref().map_or("", |here| sentence::name(here.verdict));
            let is_client_tail = cell.here.as_ref().is_some_and(|here| here.is_client_tail);
            let published = cell.published.named();
            let ours = times.map(Times::named);
            for (at, (name, value)) in published.into_iter().enumerate() {
                writer.write_record([
                    &cell.table.to_string(),
                    &cell.architecture,
                    &cell.connections.to_string(),
                    &cell.active.to_string(),
                    &cell.rate_per_s.to_string(),
                    verdict,
                    name,
                    // The client's tail weighs in all but the median.
                    &number(ours.filter(|_| !is_client_tail || name == "median_ms").map(|ours| ours[at].1)),
                    &value.to_string(),
                ])?;
            }
        }
        for worst in &self.send_deviation {
            let here = worst.here.as_ref();
            let of_workload = |text: fn(&Workload) -> String| here.map_or(String::new(), |it| text(&it.workload));
            for Statistic { key, here_us, .. } in STATISTICS {
                writer.write_record([
                    "5",
                    worst.architecture,
                    &of_workload(|it| it.connections.to_string()),
                    &of_workload(|it| it.active.to_string()),
                    &of_workload(|it| format::rate(it.rate_per_s)),
                    here.map_or("", |it| sentence::name(it.verdict)),
                    key,
                    &number(here.and_then(here_us)),
                    &number(worst.published.get(*key).copied()),
                ])?;
            }
        }
        crate::csv::finished(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deviation::kept;
    use crate::made_up;

    fn here() -> Kawai2006 {
        let run = made_up::kawai2006_run();
        Kawai2006::of(&run, &mut kept(&mut made_up::sends_of(&run))).unwrap()
    }

    #[test]
    fn every_published_value_finds_its_place_as_it_is_printed_there() {
        let tables = here();
        let rows = [tables.service_time_rows(3), tables.service_time_rows(4)];
        assert_eq!([rows[0].len(), rows[1].len()], [18, 18], "9 workloads each, here and in the paper");
        let mut lines = SERVICE_TIME.lines().skip(1);
        for row in rows.iter().flatten().filter(|row| row.lead[2] == "paper") {
            for (architecture, cell) in ARCHITECTURES.iter().zip(&row.cells) {
                let fields: Vec<&str> = lines.next().unwrap().split(',').collect();
                assert_eq!((fields[3], fields[4..].join("/")), (*architecture, cell.clone()));
            }
        }
        assert_eq!(lines.next(), None);

        let rows = tables.send_deviation_rows();
        let printed: Vec<String> =
            rows.iter().filter(|row| row.lead[1] == "paper").map(|row| row.cells.join(",")).collect();
        let published: Vec<&str> = SEND_DEVIATION.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
        assert_eq!(printed, published);
        assert_eq!(SEND_DEVIATION.lines().next().unwrap(), format!("statistic,{}", ARCHITECTURES.join(",")));
    }

    #[test]
    fn the_experiment_has_every_published_workload() {
        let experiment = harness::presets::find("kawai2006").unwrap().experiment();
        for cell in published_service_time() {
            assert!(experiment.workload.connections.0.iter().any(|it| it.get() == cell.connections));
            assert!(experiment.workload.active.0.iter().any(|it| it.0 == cell.active));
            assert!(experiment.workload.rate.as_ref().unwrap().0.iter().any(|it| it.0 == cell.rate_per_s));
            assert!(experiment.architectures.0.iter().any(|it| it.to_string() == cell.architecture));
        }
        assert_eq!(experiment.workload.schedule.0, [Schedule::Constant]);
        let (request, response) = (experiment.workload.request.unwrap().0, experiment.workload.response.unwrap().0);
        assert_eq!(SERVICE, ServiceSpec::Fixed { request_bytes: request, response_bytes: response });
    }

    #[test]
    fn the_tables_in_full() {
        insta::assert_snapshot!(super::super::beside::tables_text(&here(), 160));
    }

    #[test]
    fn a_narrow_terminal_gets_some_architectures_at_a_time() {
        let text = super::super::beside::tables_text(&here(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_is_not_valid_is_never_shown_as_if_it_were() {
        let tables = here();
        for cell in &tables.service_time {
            let times = cell.here.as_ref().and_then(|here| here.times);
            let is_valid = cell.here.as_ref().is_some_and(|here| here.repeats_estimated > 0);
            assert_eq!(times.is_some(), is_valid);
        }
        assert!(tables.send_deviation.iter().flat_map(|it| &it.here).all(|it| it.verdict == VerdictKind::Valid));
        let csv = tables.csv().unwrap();
        assert_eq!(csv.lines().count(), 1 + 18 * 5 * 3 + 5 * 3);
        assert!(csv.lines().any(|line| line.contains(",saturated,mean_ms,,")), "{csv}");
        assert_eq!(tables.json()["service_time"].as_array().unwrap().len(), 90);
    }

    #[test]
    fn sends_of_trials_that_are_not_valid_are_drawn_as_such() {
        let mut run = made_up::kawai2006_run();
        let is_mp = |record: &TrialRecord| record.trial.architecture.to_string() == "mp";
        run.records.retain(|record| record.trial.architecture.to_string() != "select");
        for record in run.records.iter_mut().filter(|record| is_mp(record)) {
            record.verdict.kind = VerdictKind::ClientLimited;
        }
        let (runs, summaries) = ([run.clone()], [crate::Summary::of(&run)]);
        let here = Runs { names: &ARCHITECTURES, runs: &runs, summaries: &summaries, experiments: &["kawai2006"] };
        let mut sends_of = made_up::sends_of(&run);
        let chart = draw_deviation(&here, &mut [&mut kept(&mut sends_of)]).unwrap();
        let of = |place: usize| chart.panels[0].series.iter().find(|series| series.architecture == place);
        let mp = of(0).unwrap();
        assert!(mp.of == "not valid" && mp.points.iter().all(|point| point.verdict == VerdictKind::ClientLimited));
        assert!(of(4).unwrap().of.is_empty() && of(2).is_none());
        assert!(chart.words.ends_with("There is no trial of select."), "{}", chart.words);
    }

    #[test]
    fn a_run_of_other_traffic_is_an_error() {
        let run = made_up::run();
        let mut sends_of = |_| -> anyhow::Result<Vec<i64>> { unreachable!() };
        let error = Kawai2006::of(&run, &mut kept(&mut sends_of)).unwrap_err().to_string();
        assert!(error.contains("no trial of this run has a workload of kawai2006"), "{error}");
    }
}
