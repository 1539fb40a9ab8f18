use std::sync::LazyLock;

use harness::record::{TrialRecord, VerdictKind, Workload};
use harness::spec::Schedule;
use wire::ServiceSpec;

use super::send_deviation::SEND_DEVIATION;
use super::service_time::SERVICE;
use super::service_time::{self, SERVICE_TIME, published_service_time};
use super::tables::Kawai2006;
use super::*;
use crate::comparison::table_text;
use crate::figure::Here;
use report::analysis::deviation::kept;
use report::text::Medium;

fn here() -> Kawai2006 {
    let run = testkit::kawai2006_run();
    Kawai2006::of(&run, &mut kept(&mut testkit::sends_of(&run))).unwrap()
}

/// Returns the printed mean, median and standard deviation in ms; `None` if Tables 3 and 4 lack the workload.
pub(crate) fn published_times(architecture: &str, workload: &Workload) -> Option<[f64; 3]> {
    static CELLS: LazyLock<Vec<service_time::Cell>> = LazyLock::new(published_service_time);
    let is_of = |cell: &&service_time::Cell| {
        (cell.connections, cell.active, Some(cell.rate_per_s))
            == (workload.connections, workload.active(), workload.rate_per_s())
            && cell.architecture == architecture
    };
    let times = CELLS.iter().find(is_of)?.published;
    Some([times.mean_ms, times.median_ms, times.stddev_ms])
}

/// Returns the printed standard deviation, median and maximum of Table 5 in µs.
pub(crate) fn published_send_deviation(architecture: &str) -> [f64; 3] {
    let at = ARCHITECTURES.iter().position(|name| *name == architecture).unwrap();
    let rows: Vec<_> = super::send_deviation::published_send_deviation().into_iter().map(|(_, row)| row[at]).collect();
    rows.try_into().unwrap()
}

#[test]
fn published_values_appear_in_the_tables_as_printed() {
    let tables = here();
    let rows = [service_time::rows(&tables.service_time, 3), service_time::rows(&tables.service_time, 4)];
    assert_eq!([rows[0].len(), rows[1].len()], [18, 18], "each table has 9 workloads with two rows");
    let mut lines = SERVICE_TIME.lines().skip(1);
    for row in rows.iter().flatten().filter(|row| row.lead[2] == "paper") {
        for (architecture, cell) in ARCHITECTURES.iter().zip(&row.cells) {
            let fields: Vec<&str> = lines.next().unwrap().split(',').collect();
            assert_eq!((fields[3], fields[4..].join("/")), (*architecture, cell.clone()));
        }
    }
    assert_eq!(lines.next(), None);

    let rows = tables.sends.rows();
    let printed: Vec<String> =
        rows.iter().filter(|row| row.lead[1] == "paper").map(|row| row.cells.join(",")).collect();
    let published: Vec<&str> = SEND_DEVIATION.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    assert_eq!(printed, published);
    assert_eq!(SEND_DEVIATION.lines().next().unwrap(), format!("statistic,{}", ARCHITECTURES.join(",")));
}

#[test]
fn experiment_has_every_published_workload() {
    let experiment = harness::spec::presets::find("kawai2006").unwrap().experiment();
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

/// Returns the text of all tables.
fn tables_text(tables: &Kawai2006, width: usize) -> String {
    let medium = Medium::from(width);
    let texts = tables.tables().into_iter().map(|(number, grid)| table_text(number, &grid, medium));
    texts.collect::<Vec<_>>().join("\n\n") + "\n"
}

#[test]
fn tables_fit_a_wide_terminal() {
    insta::assert_snapshot!(tables_text(&here(), 160));
}

#[test]
fn tables_fit_a_narrow_terminal() {
    let text = tables_text(&here(), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn invalid_trials_have_no_times() {
    let tables = here();
    for cell in &tables.service_time {
        let times = cell.here.as_ref().and_then(|here| here.times);
        let is_valid = cell.here.as_ref().is_some_and(|here| here.repeats_estimated > 0);
        assert_eq!(times.is_some(), is_valid);
    }
    assert!(tables.sends.send_deviation.iter().flat_map(|it| &it.here).all(|it| it.verdict == VerdictKind::Valid));
    let csv = tables.csv();
    assert_eq!(csv.lines().count(), 1 + 18 * 5 * 3 + 5 * 3);
    assert!(csv.lines().any(|line| line.contains(",saturated,mean_ms,,")), "{csv}");
    assert_eq!(serde_json::to_value(&tables).unwrap()["service_time"].as_array().unwrap().len(), 90);
}

#[test]
fn sends_of_invalid_trials_are_marked() {
    let mut run = testkit::kawai2006_run();
    let is_mp = |record: &TrialRecord| record.trial.architecture.to_string() == "mp";
    run.records.retain(|record| record.trial.architecture.to_string() != "select");
    for record in run.records.iter_mut().filter(|record| is_mp(record)) {
        record.verdict.kind = VerdictKind::ClientLimited;
    }
    let (runs, summaries) = ([run.clone()], [report::analysis::Summary::of(&run)]);
    let here = Here { names: &ARCHITECTURES, runs: &runs, summaries: &summaries, experiments: &["kawai2006"] };
    let mut sends_of = testkit::sends_of(&run);
    let chart = figure::draw(&here, &mut [&mut kept(&mut sends_of)]).unwrap();
    let of = |place: usize| chart.panels[0].series.iter().find(|series| series.architecture == place);
    let mp = of(0).unwrap();
    assert!(mp.of == "not valid" && mp.points.iter().all(|point| point.verdict == VerdictKind::ClientLimited));
    assert!(of(4).unwrap().of.is_empty() && of(2).is_none());
    assert!(chart.words.ends_with("There is no trial of select."), "{}", chart.words);
}

#[test]
fn run_of_other_traffic_is_an_error() {
    let run = testkit::run();
    let mut sends_of = |_| -> anyhow::Result<Vec<Vec<i64>>> { unreachable!() };
    let error = Kawai2006::of(&run, &mut kept(&mut sends_of)).unwrap_err().to_string();
    assert!(error.contains("no trial of this run has a workload of kawai2006"), "{error}");
}
