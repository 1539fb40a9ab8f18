//! A sweep as CSV and TSV with the ten columns of autobench.
//!
//! The columns have autobench's meaning, which is httperf's, as far as our figures allow:
//! - `dem_req_rate` and `req_rate`: requests a second, asked for and sent
//! - `con_rate`: new connections a second; 0 for connections that stay open
//! - `min_`, `avg_`, `max_` and `stddev_rep_rate`: replies a second in eighths of the window, over all repeats (httperf
//!   samples every 5 s: `--measure 40s`)
//! - `resp_time`: the mean time in ms from the planned send to the last byte, so that queueing counts
//! - `net_io`: KiB a second in both directions
//! - `errors`: the percentage of the window's requests without a response, lost datagrams included. Wrong responses are in the
//!   counts by class, which cover the whole trial.

use harness::spec::units::Share;
use load::report::Errors;

use super::csv::finished;
use crate::model::sweep::{Curve, Step, StepFigures, Sweep};

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

impl Step {
    /// Autobench's columns as text, empty where there is nothing to say.
    fn autobench(&self) -> [String; 10] {
        // As many digits as autobench's, which are httperf's.
        let tenth = |value: f64| ((value * 10.0).round() / 10.0).to_string();
        let some = |value: Option<f64>| value.map_or(String::new(), tenth);
        let of = |figure: &dyn Fn(&StepFigures) -> String| self.figures.as_ref().map_or(String::new(), figure);
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
            let time = |figure: fn(&StepFigures) -> f64| figures.map_or(String::new(), |it| thousandth(figure(it)));
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
    finished(writer)
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

#[cfg(test)]
mod tests {
    use harness::model::Workload;

    use super::*;
    use crate::fixtures;

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
}
