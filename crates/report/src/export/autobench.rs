//! A sweep as TSV with the ten columns of autobench, and as CSV.
//!
//! The columns have autobench's (that is, httperf's) meaning, as far as possible:
//! - `dem_req_rate` and `req_rate`: planned and sent requests per second
//! - `con_rate`: new connections per second; 0 for connections that stay open
//! - `min_`, `avg_`, `max_` and `stddev_rep_rate`: replies per second in eighths of the window, over all repeats
//!   (httperf samples every 5 s, which are the eighths of `--measure 40s`)
//! - `resp_time`: the mean time in ms from the planned send to the last byte, so that queueing counts; empty without a response
//! - `net_io`: KiB per second in both directions
//! - `errors`: the percentage of requests in the window without a response, including lost datagrams. The CSV's columns
//!   `errors_CLASS` count failures of the whole trial instead, including wrong responses.

use super::csv::of_rows;
use crate::analysis::sweep::{Curve, Step, StepFigures, Sweep};
use crate::analysis::workload::title;

/// Autobench's columns with httperf's number of digits.
pub const COLUMNS: [(&str, fn(&StepFigures) -> String); 9] = [
    ("req_rate", |it| tenth(Some(it.req_rate))),
    ("con_rate", |it| tenth(Some(it.con_rate))),
    ("min_rep_rate", |it| tenth(it.min_rep_rate)),
    ("avg_rep_rate", |it| tenth(Some(it.avg_rep_rate))),
    ("max_rep_rate", |it| tenth(it.max_rep_rate)),
    ("stddev_rep_rate", |it| tenth(it.stddev_rep_rate)),
    ("resp_time", |it| thousandth(it.resp_time)),
    ("net_io", |it| tenth(it.net_io)),
    ("errors", |it| thousandth(Some(it.errors))),
];
/// Autobench's first column: the planned rate.
pub const RATE: &str = "dem_req_rate";

/// Returns a field for each column of [`COLUMNS`]; the fields are empty if the step has no figures.
fn fields(step: Option<&Step>) -> impl Iterator<Item = String> {
    let figures = step.and_then(|step| step.figures.as_ref());
    COLUMNS.iter().map(move |(_, field)| figures.map_or_else(String::new, field))
}

fn tenth(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| ((value * 10.0).round() / 10.0).to_string())
}

fn thousandth(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| ((value * 1e3).round() / 1e3).to_string())
}

/// Writes a sweep as CSV, a row for each step of each architecture.
pub fn csv(sweep: &Sweep) -> String {
    let row = |curve: &Curve, step: &Step| serde_json::json!({ "architecture": curve.architecture, "workload": curve.workload, "step": step });
    of_rows(sweep.curves.iter().flat_map(|curve| curve.steps.iter().map(move |step| row(curve, step))))
}

/// Returns a sweep in autobench's TSV, a row for each rate. A single curve has autobench's ten columns. Several curves share
/// the first column, and each has nine columns whose names end with the architecture and, if the traffic differs, with the traffic.
pub fn tsv(sweep: &Sweep) -> String {
    let suffix = |curve: &Curve| match (sweep.curves.len(), sweep.workloads().len()) {
        (1, _) => String::new(),
        (_, 1) => format!("_{}", curve.architecture),
        _ => format!("_{} ({})", curve.architecture, title(&curve.workload)),
    };
    let mut heading = vec![RATE.to_owned()];
    for curve in &sweep.curves {
        heading.extend(COLUMNS.iter().map(|(name, _)| format!("{name}{}", suffix(curve))));
    }
    let mut rates: Vec<f64> =
        sweep.curves.iter().flat_map(|curve| &curve.steps).map(|step| step.dem_req_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut text = heading.join("\t") + "\n";
    for rate in rates {
        let mut line = vec![rate.to_string()];
        for curve in &sweep.curves {
            line.extend(fields(curve.steps.iter().find(|step| step.dem_req_rate == rate)));
        }
        text += &(line.join("\t") + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsv_of_one_curve_has_the_columns_of_autobench() {
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
                let workload = curve.workload.with(|it| {
                    (it.connections, it.idle) = (connections, idle);
                    it.requests_mut().unwrap().active = active;
                });
                Curve { workload, ..curve }
            })
        };
        let traffics = [(20, 1.0, 0), (400, 1.0, 0), (400, 0.5, 0), (400, 1.0, 3)];
        for count in [2, 3, 4] {
            let sweep = Sweep { curves: traffics[..count].iter().copied().flat_map(of).collect() };
            let (csv, tsv) = (csv(&sweep), tsv(&sweep));
            assert_different(csv.lines().map(str::to_owned).collect(), 1 + count * 10);
            let heading = tsv.lines().next().unwrap();
            assert_different(heading.split('\t').map(str::to_owned).collect(), 1 + count * 18);
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
