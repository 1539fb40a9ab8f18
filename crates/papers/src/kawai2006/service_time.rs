//! The paper's architectures and traffic; Tables 3 and 4: service time.

use harness::record::{Run, Trial, TrialRecord, VerdictKind, Workload};
use harness::spec::transport::Transport;
use harness::spec::units::Share;
use load::config::Schedule;
use report::analysis::client_tail;
use report::analysis::summary::estimated;
use report::format;
use report::text::tail_mark;
use schemars::JsonSchema;
use serde::Serialize;
use stats::Histogram;
use wire::ServiceSpec;

use crate::figure;
use crate::grid::GridRow;
use crate::queue;

/// The architectures, in the order of the paper's columns.
pub(crate) const ARCHITECTURES: [&str; 5] = ["mp", "mt", "select", "poll", "epoll"];

/// The service of the paper's Table 2.
pub(super) const SERVICE: ServiceSpec = ServiceSpec::Fixed { request_bytes: 128, response_bytes: 10_240 };

/// Returns whether a workload is the paper's traffic, with any connections, active share, rate, schedule and phases.
pub(super) fn of_the_paper(workload: &Workload) -> bool {
    let is_kept = workload.idle == 0 && workload.requests_per_connection().is_none();
    figure::are_suitable(workload) && workload.service == SERVICE && workload.transport == Transport::Tcp && is_kept
}

/// Returns whether a workload is the paper's traffic with sends planned at even intervals.
pub(super) fn at_even_intervals(workload: &Workload) -> bool {
    of_the_paper(workload) && workload.schedule() == Some(Schedule::Constant)
}

pub(super) const SERVICE_TIME: &str = include_str!("service-time.csv");

/// Service time in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Times {
    pub(super) mean_ms: f64,
    pub(super) median_ms: f64,
    pub(super) stddev_ms: f64,
}

/// A cell of Table 3 or 4: an architecture under a workload.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Cell {
    pub(super) table: u8,
    pub(super) active: f64,
    pub(super) connections: u32,
    pub(super) rate_per_s: f64,
    pub(super) architecture: String,
    pub(super) published: Times,
    /// The run's results; `None` if no repeat is finished.
    pub(super) here: Option<Here>,
}

/// The run's results for a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Here {
    /// The worst verdict of the repeats.
    pub(super) verdict: VerdictKind,
    pub(super) repeats: usize,
    pub(super) repeats_estimated: usize,
    /// Times over the repeats that estimates use; `None` without such repeats.
    pub(super) times: Option<Times>,
    /// Whether the client may have caused the tail, which affects the mean and the standard deviation.
    pub(super) is_client_tail: bool,
}

/// Returns all published cells of Tables 3 and 4, without results of a run.
pub(super) fn published_service_time() -> Vec<Cell> {
    let mut reader = csv::Reader::from_reader(SERVICE_TIME.as_bytes());
    let cell = |row: Result<(String, u32, f64, String, f64, f64, f64), csv::Error>| {
        let (active, connections, rate_per_s, architecture, mean_ms, median_ms, stddev_ms) =
            row.expect("a test reads every row");
        let active = active.parse::<Share>().expect("a test reads every row").0;
        let (table, published) = (if active == 1.0 { 3 } else { 4 }, Times { mean_ms, median_ms, stddev_ms });
        Cell { table, active, connections, rate_per_s, architecture, published, here: None }
    };
    reader.deserialize().map(cell).collect()
}

/// Returns whether a workload belongs to the paper's matrix. Tables 3 and 4 show a part of it; Table 5 covers all of it.
pub(super) fn is_of_matrix(cells: &[Cell], workload: &Workload) -> bool {
    of_the_paper(workload)
        && cells.iter().any(|cell| cell.connections == workload.connections)
        && cells.iter().any(|cell| cell.active == workload.active())
        && cells.iter().any(|cell| Some(cell.rate_per_s) == workload.rate_per_s())
}

impl Cell {
    pub(super) fn is_of(&self, trial: &Trial) -> bool {
        let workload = &trial.workload;
        of_the_paper(workload)
            && (workload.connections, workload.active(), workload.rate_per_s())
                == (self.connections, self.active, Some(self.rate_per_s))
            && queue::is(&trial.architecture.to_string(), &self.architecture)
    }

    pub(super) fn fill(&mut self, run: &Run) {
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
        let is_client_tail = client_tail::late(loads.iter().copied()).reaches(0.99);
        let (repeats, repeats_estimated) = (records.len(), loads.len());
        self.here = Some(Here { verdict, repeats, repeats_estimated, times, is_client_tail });
    }

    /// Returns the run's results as text.
    fn text_here(&self) -> String {
        match &self.here {
            None => "-".into(),
            Some(Here { times: None, verdict, .. }) => format::verdict(*verdict).into(),
            Some(Here { times: Some(times), repeats, repeats_estimated, is_client_tail, .. }) => {
                let mark = if *is_client_tail { tail_mark::MARK } else { "" };
                let all = repeats == repeats_estimated;
                let share = if all { String::new() } else { format!(" ({repeats_estimated} of {repeats})") };
                format!("{}{mark}{share}", times.text())
            }
        }
    }
}

impl Times {
    /// Returns the times with their names, in the order of the paper's cells.
    pub(super) fn named(self) -> [(&'static str, f64); 3] {
        [("mean_ms", self.mean_ms), ("median_ms", self.median_ms), ("stddev_ms", self.stddev_ms)]
    }

    fn text(self) -> String {
        self.named().map(|(_, ms)| format::significant(ms)).join("/")
    }
}

/// Returns Table 3 or 4 with two rows for each workload.
pub(super) fn rows(cells: &[Cell], table: u8) -> Vec<GridRow> {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.table == table).collect();
    let workload = |cell: &Cell| (cell.active, cell.connections, cell.rate_per_s);
    let mut rows = Vec::new();
    for cells in cells.chunk_by(|a, b| workload(a) == workload(b)) {
        let of = |architecture: &&str| cells.iter().find(|cell| cell.architecture == *architecture);
        let Cell { active, connections, rate_per_s, .. } = cells[0];
        let first = if table == 3 { connections.to_string() } else { Share(*active).to_string() };
        let row = |lead: [String; 3], text: fn(&Cell) -> String| GridRow {
            lead: lead.into(),
            cells: ARCHITECTURES.iter().map(|name| of(name).map_or("-".into(), |cell| text(cell))).collect(),
        };
        rows.push(row([first, rate_per_s.to_string(), "here".into()], Cell::text_here));
        rows.push(row([String::new(), String::new(), "paper".into()], |cell| cell.published.text()));
    }
    rows
}

/// Returns the notes below Table 3 or 4.
pub(super) fn notes(cells: &[Cell], table: u8, schedules: &[Schedule]) -> Vec<String> {
    let of_table = || cells.iter().filter(|cell| cell.table == table);
    let mut notes = Vec::new();
    if of_table().any(|cell| cell.here.is_none()) {
        notes.push("-: this run has no finished trial of this cell.".to_owned());
    }
    if of_table().any(|cell| cell.here.as_ref().is_some_and(|here| here.is_client_tail)) {
        notes.push(
            "?: the client sent too many requests late, so the mean and the standard deviation may not describe the server."
                .to_owned(),
        );
    }
    if of_table().any(|cell| cell.here.as_ref().is_some_and(|here| here.times.is_none())) {
        notes.push(
            "A word in place of figures is the verdict of invalid trials; `muxbench report` shows the reason."
                .to_owned(),
        );
    }
    if schedules.iter().any(|schedule| *schedule != Schedule::Constant) {
        notes
            .push("The paper sends at constant intervals; some trials of this run have another --schedule.".to_owned());
    }
    notes
}
