//! Histories of constructed runs.

use harness::record::{Run, Trial, VerdictKind};
use harness::spec::Candidate;
use harness::spec::ServerSpec;
use harness::spec::candidate::UNNAMED_TARGET;
use load::config::Slices;
use load::result::LateSends;
use server::TargetConfig;

use super::*;
use crate::analysis::GateReport;
use crate::analysis::history::HistoryBuilder;
use crate::analysis::run_diff::ChangeKind;
use crate::export::csv::of_rows;
use crate::html::index::page;
use crate::plot::trends::drawn;
use crate::text::Medium;

/// Returns the history of three runs on one host, one with another kernel, one with another workload, a search, and an
/// unreadable run.
fn history() -> History {
    let mut builder = HistoryBuilder::default();
    let began = |mut run: Run, day: u32, hour: u32| {
        run.header.started_at = format!("2026-01-{day:02}T{hour:02}:00:00Z");
        run.header.name = format!("202601{day:02}T{hour:02}0000-made-up");
        run
    };
    let mut slower = began(testkit::run(), 3, 8);
    for record in slower.records.iter_mut().filter(|record| record.trial.architecture.to_string() == "mt") {
        testkit::slow_down(record, 1.3);
    }
    // Add the runs out of order.
    for run in [
        slower,
        began(testkit::run(), 1, 8),
        began(testkit::run(), 2, 8),
        began(testkit::other_run(), 2, 9),
        began(testkit::closed_run(), 4, 8),
        began(testkit::capacity_run(), 4, 9),
    ] {
        builder.add(&format!("results/{}", run.header.name), &run);
    }
    builder.add_unreadable("results/broken", &anyhow::anyhow!("results/broken/run.json: damaged"));
    builder.finish()
}

#[test]
fn history_fits_wide_and_narrow_terminals() {
    for width in [160, 80] {
        let text = render(&history(), width.into());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        insta::assert_snapshot!(format!("history_{width}"), text);
    }
    insta::assert_snapshot!("history_markdown", render(&history(), Medium::Markdown));
}

#[test]
fn hostile_text_does_not_break_the_index() {
    let mut builder = HistoryBuilder::default();
    builder.add(testkit::HOSTILE, &testkit::hostile(testkit::run()));
    builder.add("results/b", &testkit::hostile(testkit::other_run()));
    builder.add_unreadable(testkit::HOSTILE, &anyhow::anyhow!(testkit::HOSTILE));
    let page = page(&builder.finish(), &["./a/".to_owned(), "./b/".to_owned()]).unwrap();
    assert!(page.contains("alert(1)") && !testkit::has_hostile_elements(&page), "hostile text is escaped");
}

#[test]
fn trends_separate_hosts_and_omit_single_measurements() {
    let history = history();
    assert_eq!(history.hosts.len(), 2);
    assert!(history.hosts[1].differences.iter().any(|it| it.fact == "kernel"), "{:?}", history.hosts[1].differences);
    let of = |name: &str, host: usize| -> Vec<usize> {
        let trends = history.trends.iter().filter(|it| it.architecture == name && it.host == host);
        trends.map(|trend| trend.points.len()).collect()
    };
    assert_eq!((of("epoll", 0), of("epoll", 1)), (vec![3, 3], vec![1, 1]));
    // `mp` could run only under one workload, and `select` ran once.
    assert_eq!((of("mp", 0), of("mp", 1), of("select", 1)), (vec![3], vec![1], vec![]));
    assert!(of("symped:2", 0).is_empty());
    let search = history.runs.last().unwrap();
    assert!(search.planned.is_none() && search.sentence.contains("requests/s"), "{search:?}");
    assert!(history.runs.windows(2).all(|pair| pair[0].started_at <= pair[1].started_at));
}

#[test]
fn sentence_of_a_run_is_its_own_answer() {
    let mut builder = HistoryBuilder::default();
    let (gate, race) = (testkit::gate_run(20), testkit::advise_run(10));
    for (name, run) in [("gate", &gate), ("race", &race)] {
        builder.add(name, run);
    }
    let history = builder.finish();
    let sentence = |folder: &str| history.runs.iter().find(|run| run.folder == folder).unwrap().sentence.clone();
    assert_eq!(sentence("gate"), GateReport::of(&gate).unwrap().sentence);
    assert!(sentence("gate").starts_with("mt is slower than epoll"), "{}", sentence("gate"));
    assert!(sentence("race").contains("is the best"), "{}", sentence("race"));
    let page = crate::html::page::render(&gate).unwrap();
    assert!(page.contains("mt is slower than epoll: ") && !page.contains("<h1>Best "));
}

#[test]
fn p50_that_the_client_may_have_caused_is_marked() {
    let mut builder = HistoryBuilder::default();
    for name in ["one", "two"] {
        let mut run = testkit::run();
        run.header.name = name.into();
        let of_epoll = run.records.iter_mut().filter(|it| it.trial.architecture.to_string() == "epoll");
        for load in of_epoll.filter_map(|it| it.load.as_mut()) {
            load.late = LateSends { bound_ns: 100_000, count: 150, sent: 200, ..LateSends::default() };
        }
        builder.add(name, &run);
    }
    let history = builder.finish();
    let text = render(&history, 160.into());
    let line = text.lines().find(|line| line.trim_start().starts_with("epoll")).unwrap();
    assert!(line.contains("40.2?") && line.contains("not compared"), "{text}");
    assert_eq!(text.matches('?').count(), 2 * 2, "two workloads, each with a mark and a note: {text}");
    let text = of_rows(history.rows());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let at = reader.headers().unwrap().iter().position(|name| name == "point.clients_from").unwrap();
    for row in reader.records().map(Result::unwrap) {
        assert_eq!(&row[at], if &row[0] == "epoll" { "p1" } else { "" });
    }
}

#[test]
fn newest_run_is_compared_with_previous_run_on_its_host() {
    let history = history();
    for trend in history.trends.iter().filter(|trend| trend.host == 0) {
        let finding = trend.change.map(|change| change.finding);
        let expected = match trend.architecture.as_str() {
            "mt" => Some(ChangeKind::Slower),
            "poll" if trend.points[0].verdict != VerdictKind::Valid => None,
            _ => Some(ChangeKind::NoPracticalDifference),
        };
        assert_eq!(finding, expected, "{} {}", trend.architecture, trend.title);
    }
    assert!(history.sentence.contains("2 slower: mt at 400 connections"), "{}", history.sentence);
    assert!(HistoryBuilder::default().finish().sentence.contains("No measurement was repeated"));
}

/// Returns the history of four runs, of which `change` changes all; its argument says whether the run is one of the last two.
fn history_of_four(change: impl Fn(&mut Run, bool)) -> History {
    let mut builder = HistoryBuilder::default();
    for day in 1..=4 {
        let mut run = testkit::run();
        run.header.started_at = format!("2026-01-{day:02}T08:00:00Z");
        change(&mut run, day > 2);
        builder.add(&format!("results/{day}"), &run);
    }
    builder.finish()
}

/// Returns the planned and the finished trials.
fn trials_of(run: &mut Run) -> impl Iterator<Item = &mut Trial> {
    run.header.trials.iter_mut().chain(run.records.iter_mut().map(|record| &mut record.trial))
}

/// Moves the client to CPU 7 in the last runs.
fn moved_client(run: &mut Run, is_last: bool) {
    for record in run.records.iter_mut().filter(|_| is_last) {
        record.trial.client.cpus = vec![7];
    }
}

#[test]
fn other_client_settings_form_another_trend() {
    let history = history_of_four(moved_client);
    let epoll: Vec<&Trend> = history.trends.iter().filter(|it| it.architecture == "epoll").collect();
    assert!(!epoll.is_empty() && epoll.iter().all(|it| it.points.len() == 2), "{epoll:#?}");
    let on_seven = epoll.iter().filter(|it| it.title.ends_with(", client cpus: [7]")).count();
    assert_eq!(on_seven, epoll.len() / 2, "{epoll:#?}");
}

#[test]
fn settings_that_change_figures_separate_trends() {
    let trials = |change: fn(&mut Trial, bool)| {
        move |run: &mut Run, is_last: bool| {
            trials_of(run).for_each(|trial| change(trial, is_last));
        }
    };
    let changes: [(fn(&mut Trial, bool), &str); 2] = [
        (
            |trial, is_last| {
                let slices = Slices {
                    heat: trial.index,
                    contestants: 1,
                    contestant: 0,
                    slice_ns: 10,
                    gap_ns: 1,
                    guard_ns: 2,
                    seed: 1,
                };
                trial.client.slices = Some(slices).filter(|_| is_last);
            },
            ", interleaved: true",
        ),
        (
            |trial, is_last| {
                if trial.architecture.to_string() != "epoll" {
                    return;
                }
                let port: u16 = if is_last { 7_002 } else { 7_001 };
                trial.architecture = Candidate::Target(UNNAMED_TARGET.to_owned());
                trial.serve = ServerSpec::Target(TargetConfig {
                    url: format!("tcp://127.0.0.1:{port}"),
                    address: ([127, 0, 0, 1], port).into(),
                    others: Vec::new(),
                    ports: None,
                    pid: None,
                    cpus: Vec::new(),
                });
            },
            ", server url: tcp://127.0.0.1:7002",
        ),
    ];
    let histories = changes.map(|(change, words)| (history_of_four(trials(change)), words));
    let idle = history_of_four(|run, is_last| run.header.idle_cpus_poll = is_last);
    for (history, words) in histories.into_iter().chain([(idle, ", idle CPUs: poll")]) {
        let is_first = |trend: &&Trend| ["epoll", "target:server"].contains(&trend.architecture.as_str());
        let epoll: Vec<&Trend> = history.trends.iter().filter(is_first).collect();
        assert!(epoll.len() == 4 && epoll.iter().all(|it| it.points.len() == 2), "{words}: {epoll:#?}");
        assert_eq!(epoll.iter().filter(|it| it.title.ends_with(words)).count(), 2, "{words}: {epoll:#?}");
    }
}

#[test]
fn rows_of_a_table_have_the_settings_of_its_heading() {
    let history = history_of_four(moved_client);
    for trends in history.by_traffic() {
        assert!(trends.iter().all(|it| it.title == trends[0].title), "{trends:#?}");
    }
    // `mt` ran only in the first runs, and `select` in place of it in the last ones.
    let others = history_of_four(|run, is_last| {
        moved_client(run, is_last);
        for trial in trials_of(run).filter(|_| is_last) {
            if trial.architecture.to_string() == "mt" {
                trial.architecture = "select".parse().unwrap();
            }
        }
    });
    for (architecture, end) in [("mt", ", client cpus: [1]"), ("select", ", client cpus: [7]")] {
        let titles: Vec<&Trend> = others.trends.iter().filter(|it| it.architecture == architecture).collect();
        assert!(!titles.is_empty() && titles.iter().all(|it| it.title.ends_with(end)), "{titles:#?}");
    }
    let text = render(&history, 200.into());
    let tables = |end: &str| text.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!((tables(", client cpus: [1]"), tables(", client cpus: [7]")), (2, 2), "{text}");
}

#[test]
fn csv_has_a_row_for_each_point() {
    let history = history();
    let text = of_rows(history.rows());
    assert_eq!(text.lines().count(), 1 + history.trends.iter().map(|trend| trend.points.len()).sum::<usize>());
    insta::assert_snapshot!(text.lines().take(3).collect::<Vec<_>>().join("\n"));
}

#[test]
fn trends_of_streams_show_bytes() {
    let mut builder = HistoryBuilder::default();
    for name in ["one", "two"] {
        let mut run = testkit::bandwidth_run();
        run.header.name = name.into();
        builder.add(name, &run);
    }
    let (_, figures) = drawn(&builder.finish());
    assert_eq!(figures.iter().map(|(figure, _)| figure.name.as_str()).collect::<Vec<_>>(), ["trend-bandwidth"]);
}

#[test]
fn page_draws_every_trend_and_links_to_each_run() {
    let history = history();
    let (architectures, figures) = drawn(&history);
    assert_eq!(
        figures.iter().map(|(figure, _)| figure.name.as_str()).collect::<Vec<_>>(),
        ["trend-p50", "trend-p90", "trend-p95", "trend-p99", "trend-rate", "trend-cpu"]
    );
    for (figure, chart) in &figures {
        let points =
            chart.panels.iter().flat_map(|panel| &panel.series).map(|series| series.points.len()).sum::<usize>();
        assert_eq!(points, history.trends.iter().map(|trend| trend.points.len()).sum::<usize>(), "{}", figure.name);
        assert!(!chart.words.is_empty());
        let svg = crate::plot::svg::svg(&figure.title, chart, &architectures);
        assert!(svg.contains(&figure.title), "{}", figure.name);
    }
    let links: Vec<String> = (0..history.runs.len()).map(|at| format!("run%20{at}/report.html")).collect();
    let html = page(&history, &links).unwrap();
    for link in &links {
        assert!(html.contains(&format!("href=\"{link}\"")), "{link}");
    }
    assert!(html.contains("results/broken") && html.contains(&history.sentence));
    // A single run has no trends but still has an index.
    let mut builder = HistoryBuilder::default();
    builder.add("one", &testkit::run());
    assert!(page(&builder.finish(), &["one".into()]).unwrap().contains("No measurement was repeated on the same host"));
}
