//! The tables of a run, as text, JSON and CSV.

use anyhow::bail;
use harness::record::{Run, Trial, Workload};
use load::config::Schedule;
use report::analysis::deviation::DeviationOf;
use report::export::csv::of_records;
use report::{analysis, format};
use schemars::JsonSchema;
use serde::Serialize;

use super::send_deviation::{STATISTICS, Sends, Statistic};
use super::service_time::{self, ARCHITECTURES, Cell, Times, published_service_time};
use crate::grid::{Grid, GridRow, PaperTables};

/// A run in the layout of Tables 3, 4 and 5.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Kawai2006 {
    /// The format version: [`analysis::FORMAT`].
    format: u32,
    paper: &'static str,
    run: String,
    /// The schedules of the shown trials; the paper's is `constant`.
    schedules: Vec<Schedule>,
    /// Tables 3 and 4, in their order.
    pub(super) service_time: Vec<Cell>,
    /// Table 5.
    #[serde(flatten)]
    pub(super) sends: Sends,
}

/// Fills the tables from a run; fails if no trial of the run has a workload of Table 3 or 4.
pub(crate) fn tables_of(run: &Run, deviation_of: &mut DeviationOf<'_>) -> anyhow::Result<Option<PaperTables>> {
    let here = Kawai2006::of(run, deviation_of)?;
    Ok(Some(PaperTables { grids: here.tables(), json: serde_json::to_value(&here)?, csv: here.csv() }))
}

impl Kawai2006 {
    /// Compares a run with the paper; fails if no trial of the run has a workload of Table 3 or 4.
    pub(super) fn of(run: &Run, deviation_of: &mut DeviationOf<'_>) -> anyhow::Result<Self> {
        let mut service_time = published_service_time();
        let shown = |trial: &&Trial| service_time.iter().any(|cell| cell.is_of(trial));
        let trials: Vec<&Trial> = run.header.trials.iter().filter(shown).collect();
        if trials.is_empty() {
            bail!(
                "{}: no trial of this run has a workload of kawai2006 (128B -> 10KiB; 400, 2000 or 10000 active connections, or \
                 1/4, 1/16 or 1/64 of 10000; 125, 500 or 2000 requests/s); try `muxbench run kawai2006 --quick`",
                run.header.name
            );
        }
        let mut schedules: Vec<Schedule> = Vec::new();
        for schedule in trials.iter().filter_map(|trial| trial.workload.schedule()) {
            if !schedules.contains(&schedule) {
                schedules.push(schedule);
            }
        }
        service_time.iter_mut().for_each(|cell| cell.fill(run));
        Ok(Self {
            format: analysis::FORMAT,
            paper: "kawai2006",
            run: run.header.name.clone(),
            schedules,
            service_time,
            sends: Sends::of(run, deviation_of),
        })
    }

    /// Returns the tables with their numbers.
    pub(super) fn tables(&self) -> Vec<(&'static str, Grid)> {
        let grid = |title: String, lead: &[&str], rows: Vec<GridRow>, notes: Vec<String>| Grid {
            title,
            lead: lead.iter().map(ToString::to_string).collect(),
            columns: ARCHITECTURES.map(str::to_owned).into(),
            rows,
            notes,
        };
        let service_time = |table: u8, what: &str, first: &str| {
            let title = format!("Service time, {what}: mean/median/standard deviation in ms");
            let rows = service_time::rows(&self.service_time, table);
            let notes = service_time::notes(&self.service_time, table, &self.schedules);
            grid(title, &[first, "requests/s", ""], rows, notes)
        };
        let deviation = grid(
            "Send deviation in µs, of each architecture's trial with the largest standard deviation".into(),
            &["", ""],
            self.sends.rows(),
            self.sends.notes(),
        );
        vec![
            ("3", service_time(3, "every connection active", "connections")),
            ("4", service_time(4, "10000 connections", "active")),
            ("5", deviation),
        ]
    }

    /// Returns a row for each published value.
    pub(super) fn csv(&self) -> String {
        let heading = "table,architecture,connections,active,rate_per_s,verdict,statistic,here,paper";
        let mut records = vec![heading.split(',').map(str::to_owned).collect::<Vec<_>>()];
        let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        for cell in &self.service_time {
            let here = cell.here.as_ref();
            let ours = here.and_then(|here| here.times).map(Times::named);
            for (at, (name, value)) in cell.published.named().into_iter().enumerate() {
                // A tail caused by the client affects all statistics but the median.
                let is_ours = name == "median_ms" || here.is_none_or(|here| !here.is_client_tail);
                records.push(vec![
                    cell.table.to_string(),
                    cell.architecture.clone(),
                    cell.connections.to_string(),
                    cell.active.to_string(),
                    cell.rate_per_s.to_string(),
                    here.map_or("", |here| format::verdict(here.verdict)).to_owned(),
                    name.to_owned(),
                    number(ours.filter(|_| is_ours).map(|ours| ours[at].1)),
                    value.to_string(),
                ]);
            }
        }
        for worst in &self.sends.send_deviation {
            let here = worst.here.as_ref();
            let of_workload = |text: fn(&Workload) -> String| here.map_or(String::new(), |it| text(&it.workload));
            for Statistic { key, here_us, .. } in STATISTICS {
                records.push(vec![
                    "5".to_owned(),
                    worst.architecture.to_owned(),
                    of_workload(|it| it.connections.to_string()),
                    of_workload(|it| it.active().to_string()),
                    of_workload(|it| format::rate(it.rate_per_s())),
                    here.map_or("", |it| format::verdict(it.verdict)).to_owned(),
                    (*key).to_owned(),
                    number(here.and_then(here_us)),
                    number(worst.published.get(*key).copied()),
                ]);
            }
        }
        of_records(records)
    }
}
