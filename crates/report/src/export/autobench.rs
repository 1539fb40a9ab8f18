//! A sweep as CSV and TSV with the ten columns of autobench.
//!
//! The columns have autobench's (that is, httperf's) meaning, as far as our figures allow:
//! - `dem_req_rate` and `req_rate`: planned and sent requests per second
//! - `con_rate`: new connections per second; 0 for connections that stay open
//! - `min_`, `avg_`, `max_` and `stddev_rep_rate`: replies per second in eighths of the window, over all repeats
//!   (httperf samples every 5 s: `--measure 40s`)
//! - `resp_time`: the mean time in ms from the planned send to the last byte, so that queueing counts
//! - `net_io`: KiB per second in both directions
//! - `errors`: the percentage of requests in the window without a response, including lost datagrams. Counts by class
//!   include wrong responses and cover the whole trial.

use harness::spec::units::Share;
use load::report::Errors;

use super::csv::{CsvRow, of_rows};
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
    /// Returns the fields of autobench's columns with httperf's number of digits; unknown fields are empty.
    fn autobench(&self) -> [String; 10] {
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

/// A sweep as CSV in long form, a row for each step of each architecture: the architecture and its traffic, autobench's
/// columns, quantiles, the verdict and the errors by class.
pub fn csv(sweep: &Sweep) -> String {
    of_rows(sweep.curves.iter().flat_map(|curve| curve.steps.iter().map(|step| row(curve, step))))
}

fn row(curve: &Curve, step: &Step) -> CsvRow {
    let figures = step.figures.as_ref();
    let mut row = CsvRow::default();
    row.put("architecture", &curve.architecture);
    row.put("connections", curve.workload.connections);
    row.put("active", curve.workload.active.to_string());
    row.put("idle", curve.workload.idle);
    for (name, value) in AUTOBENCH.iter().zip(step.autobench()) {
        row.put(*name, value);
    }
    let quantiles: [(&str, fn(&StepFigures) -> f64); 4] = [
        ("p50", |it| it.resp_time_p50),
        ("p90", |it| it.resp_time_p90),
        ("p95", |it| it.resp_time_p95),
        ("p99", |it| it.resp_time_p99),
    ];
    for (name, time_ms) in quantiles {
        row.put(format!("resp_time_{name}"), figures.map(|it| thousandth(time_ms(it))));
    }
    row.put("clients_from", figures.and_then(|it| it.clients_from));
    row.put("verdict", step.verdict_name());
    for (class, count) in figures.map_or(Errors::default(), |it| it.errors_by_class).by_class() {
        row.put(format!("errors_{}", class.replace('-', "_")), figures.map(|_| count));
    }
    row
}

/// Returns a sweep in autobench's TSV, a row for each rate. A single curve has autobench's ten columns. With several
/// curves, the columns after the first repeat for each curve. Their names end with the architecture and, where these
/// differ, the connections, their active share and the idle connections.
pub fn tsv(sweep: &Sweep) -> String {
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
    let mut heading = vec![AUTOBENCH[0].to_owned()];
    for curve in &sweep.curves {
        heading.extend(AUTOBENCH[1..].iter().map(|name| format!("{name}{}", suffix(curve))));
    }
    let mut rates: Vec<f64> =
        sweep.curves.iter().flat_map(|curve| &curve.steps).map(|step| step.dem_req_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut text = heading.join("\t") + "\n";
    for rate in rates {
        let mut fields = vec![rate.to_string()];
        for curve in &sweep.curves {
            let step = curve.steps.iter().find(|step| step.dem_req_rate == rate);
            fields.extend(step.map_or_else(|| vec![String::new(); 9], |step| step.autobench()[1..].to_vec()));
        }
        text += &(fields.join("\t") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use harness::model::Workload;

    use super::*;

    #[test]
    fn the_columns_are_autobench_s() {
        let sweep = Sweep::of(&testkit::sweep_run()).unwrap();
        insta::assert_snapshot!("sweep_csv", csv(&sweep));
        insta::assert_snapshot!("sweep_tsv", tsv(&sweep));
        let alone = Sweep { curves: sweep.curves[..1].to_vec() };
        let heading = tsv(&alone).lines().next().unwrap().replace('\t', ",");
        assert_eq!(
            heading,
            "dem_req_rate,req_rate,con_rate,min_rep_rate,avg_rep_rate,max_rep_rate,stddev_rep_rate,resp_time,net_io,errors"
        );
    }

    #[test]
    fn each_traffic_has_its_own_rows_and_columns() {
        let one = Sweep::of(&testkit::sweep_run()).unwrap();
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
            let (csv, tsv) = (csv(&sweep), tsv(&sweep));
            let rows = csv.lines().map(|line| line.split(',').take(5).collect::<Vec<_>>().join(","));
            assert_different(rows.collect(), 1 + count * 10);
            let heading = tsv.lines().next().unwrap();
            assert_different(heading.split('\t').map(str::to_owned).collect(), 1 + count * 18);
            assert_eq!(heading.contains("errors_mt_400_1_3"), count == 4, "{heading}");
        }
    }

    /// Asserts that there are `count` distinct names.
    fn assert_different(mut names: Vec<String>, count: usize) {
        assert_eq!(names.len(), count);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
