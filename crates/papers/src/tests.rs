//! Comparisons of papers with constructed runs.

use std::collections::BTreeSet;
use std::slice;
use std::sync::OnceLock;

use harness::host::Host;
use harness::record::{Trial, VerdictKind};
use harness::spec::{Experiment, presets};
use serde_json::Value;

use super::*;
use crate::html::Origin;
use report::analysis::deviation::{self, SendsOf};
use report::plot::chart::{Series, Shape};
use report::plot::svg;
use report::text::Medium;

#[test]
fn example_compares_a_run_with_a_paper() {
    let text = example::compare(find("kawai2006").unwrap(), testkit::kawai2006_run()).unwrap();
    assert!(text.contains("Table 3"), "{text}");
}

/// A value for each of [`PAPERS`], made once for all tests.
pub type OfPapers<T> = [OnceLock<T>; PAPERS.len()];

/// Returns the value of a paper.
pub fn once<T>(of_papers: &'static OfPapers<T>, paper: &Paper, make: impl FnOnce() -> T) -> &'static T {
    let at = PAPERS.iter().position(|it| it.name == paper.name).unwrap();
    of_papers[at].get_or_init(make)
}

pub fn runs_of(paper: &Paper) -> Vec<Run> {
    paper.experiments.iter().map(|name| testkit::run_of_experiment(name)).collect()
}

/// Returns the planned and the finished trials of a run.
pub fn trials_mut(run: &mut Run) -> impl Iterator<Item = &mut Trial> {
    run.header.trials.iter_mut().chain(run.records.iter_mut().map(|record| &mut record.trial))
}

/// Every tenth send is late by 300 ns times the trial's index; the others by at most 600 ns.
fn sends(runs: &[Run]) -> Vec<impl FnMut(u32) -> anyhow::Result<Vec<Vec<i64>>> + use<'_>> {
    let of = |run: &Run, trial: u32| {
        let rate_per_s = run.header.trials.iter().find(|it| it.index == trial).and_then(|it| it.workload.rate_per_s());
        let late_ns = |at: i64| if at % 10 == 3 { 300 * i64::from(trial) } else { at % 7 * 100 };
        Ok(vec![(0..200).map(|at| (at as f64 * 1e9 / rate_per_s.unwrap_or(1.0)) as i64 + late_ns(at)).collect()])
    };
    runs.iter().map(|run| move |trial| of(run, trial)).collect()
}

fn beside(paper: &'static Paper, part: Part, runs: &[Run]) -> anyhow::Result<PaperComparison> {
    let mut sends = sends(runs);
    let mut sends_of: Vec<&mut SendsOf<'_>> = sends.iter_mut().map(|sends_of| sends_of as _).collect();
    PaperComparison::of(paper, part, runs, &mut sends_of)
}

/// Returns the comparison of [`runs_of`] with a whole paper, which all tests share.
fn whole(paper: &'static Paper) -> &'static PaperComparison {
    static MADE: OfPapers<PaperComparison> = [const { OnceLock::new() }; PAPERS.len()];
    once(&MADE, paper, || beside(paper, Part::Whole, &runs_of(paper)).unwrap())
}

/// Renders the page, and returns it with the data that readers can save.
fn page(beside: &PaperComparison, runs: &[Run]) -> (String, Value) {
    let (words, folders) = (["muxbench".to_owned()], vec!["results/it".to_owned(); runs.len()]);
    let origin = Origin { command: &words, of_one: &words, folders: &folders };
    let page = html::render(beside, runs, &origin).unwrap();
    let raw = page.split_once("id=\"raw\">").unwrap().1.split_once("</script>").unwrap().0;
    let raw = serde_json::from_str(raw).unwrap();
    (page, raw)
}

#[test]
fn quick_reproductions_take_at_most_twelve_minutes() {
    for paper in PAPERS {
        let duration_ns = |name: &&str| {
            // A lab needs root.
            let quick = Experiment { network: None, ..presets::find(name).unwrap().experiment().quick() };
            harness::plan::plan(&quick, &Host::made_up()).unwrap().duration_ns()
        };
        let minutes = paper.experiments.iter().map(duration_ns).sum::<u64>() as f64 / 60e9;
        // Plans include neither repeated heats nor the report.
        assert!(minutes <= 12.0, "{}: {minutes:.1} min", paper.name);
    }
}

#[test]
fn every_figure_of_every_paper_is_drawn_from_its_experiments() {
    for paper in PAPERS {
        let (runs, all) = (runs_of(paper), whole(paper));
        assert!(all.missing.is_empty(), "{}: {:?}", paper.name, all.missing);
        let names: Vec<String> = paper.series.iter().map(ToString::to_string).collect();
        assert_eq!(paper.series.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", paper.name);
        let mut numbers = BTreeSet::new();
        for (figure, chart) in &all.figures {
            let name = format!("{} {}", paper.name, figure.number);
            assert!(numbers.insert(figure.number), "{name} occurs once");
            assert!(figure.experiments.iter().all(|it| paper.experiments.contains(it)), "{name}");
            assert!(!figure.experiments.is_empty() && !chart.words.is_empty(), "{name}");
            assert!(chart.panels.iter().flat_map(|it| &it.series).all(|it| !it.points.is_empty()), "{name}");
            let svg = svg::svg(figure.title, chart, &names);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}: {svg}");
            // Rendering a PNG takes a second, so only one figure is rendered.
            if name == "voras2009 5" {
                report::plot::png::png(&svg).unwrap();
            }
            // The figure is the same if it is drawn alone, from only the runs that it needs.
            let part = paper.part(Some(figure.number), None).unwrap();
            let is_needed = |run: &&Run| paper.experiments_of(part).contains(&run.header.experiment.as_str());
            let needed: Vec<Run> = runs.iter().filter(is_needed).cloned().collect();
            let alone = beside(paper, part, &needed).unwrap();
            let text = serde_json::to_string(&alone.figures[0].1).unwrap();
            assert_eq!(text, serde_json::to_string(chart).unwrap(), "{name}");
            assert!(alone.figures.len() == 1 && alone.claims.is_empty() && alone.grids().is_empty(), "{name}");
        }
        let grids: Vec<&str> = all.grids().iter().map(|(number, _)| *number).collect();
        let tables: Vec<&str> = paper.tables.iter().map(|table| table.number).collect();
        assert_eq!(grids, tables, "{}", paper.name);
    }
}

#[test]
fn single_table_is_filled_from_only_its_experiments() {
    for paper in PAPERS {
        for table in paper.tables {
            let part = paper.part(None, Some(table.number)).unwrap();
            let needed = paper.experiments_of(part).iter().map(|name| testkit::run_of_experiment(name));
            let alone = beside(paper, part, &needed.collect::<Vec<_>>()).unwrap().grids().remove(0);
            let same = whole(paper).grids().into_iter().find(|(number, _)| *number == table.number).unwrap();
            assert_eq!((alone.0, alone.1.csv()), (same.0, same.1.csv()), "{}", paper.name);
        }
    }
    let paper = find("maharjan2012").unwrap();
    assert_eq!(paper.experiments_of(paper.part(None, Some("4.9")).unwrap()), ["maharjan2012-http"]);
}

#[test]
fn points_without_intervals_are_explained() {
    for paper in PAPERS {
        for (figure, chart) in whole(paper).figures.iter().filter(|(_, chart)| chart.shape == Shape::Points) {
            let points = || chart.panels.iter().flat_map(|it| &it.series).flat_map(|it| &it.points);
            let bare = points().filter(|point| point.is_valid() && point.spread.is_empty()).count();
            let repeats = |name: &&str| presets::find(name).unwrap().experiment().quick().repeats.get();
            let is_few = figure.experiments.iter().map(repeats).any(|repeats| repeats < 3);
            let (name, words) = (format!("{} {}", paper.name, figure.number), &chart.words);
            assert_eq!((bare > 0, words.contains("three valid repeats")), (is_few, is_few), "{name}: {words}");
            assert!(points().all(|point| [0, 2].contains(&point.spread.len())), "{name}");
        }
    }
}

#[test]
fn interval_of_a_point_comes_from_its_repeats() {
    let runs = vec![testkit::datagram_run()];
    let paper = find("maharjan2012").unwrap();
    let all = beside(paper, paper.part(Some("5.3"), None).unwrap(), &runs).unwrap();
    let (select, words) = (series_named(&all, "select"), &all.figures[0].1.words);
    assert!(select.points.iter().all(|point| point.spread.len() == 2 && point.spread[0] <= point.y), "{select:?}");
    assert!(!words.contains("repeats"), "{words}");

    let runs = vec![testkit::bandwidth_run()];
    let paper = find("welsh2001").unwrap();
    let all = beside(paper, paper.part(Some("1"), None).unwrap(), &runs).unwrap();
    // The repeats move 2 400 MB/s, 2 % more and 4 % more. The figure is in Mb/s; t(0.05, 2) = 4.303.
    let distance = 1.0 + 4.303 * 0.0196 / 3f64.sqrt();
    for point in &series_named(&all, "epoll").points {
        let found = [point.spread[0], point.y, point.spread[1]];
        let is_near = |(found, expected): (f64, f64)| (found / expected - 1.0).abs() < 3e-3;
        let expected = [19_582.0 / distance, 19_582.0, 19_582.0 * distance];
        assert!(found.into_iter().zip(expected).all(is_near), "{found:?}");
    }
}

/// Returns a series of the first panel of the first figure.
fn series_named<'a>(all: &'a PaperComparison, name: &str) -> &'a Series {
    let mut series = all.figures[0].1.panels[0].series.iter();
    series.find(|series| all.paper.series[series.architecture] == name).unwrap()
}

#[test]
fn stream_bandwidth_loss_names_cpu_time_and_memory() {
    let paper = find("welsh2001").unwrap();
    let words =
        |runs: &[Run]| beside(paper, paper.part(Some("1"), None).unwrap(), runs).unwrap().figures[0].1.words.clone();
    let mut run = testkit::bandwidth_run();
    let text = words(std::slice::from_ref(&run));
    // `poll` has 2 300 MB/s / 1.1 with 100 connections and 2 300 MB/s / 2 with 1 000: 1.1 / 2 = 55 %.
    assert!(text.contains("From 100 to 1000 connections poll keeps 55 % of its bandwidth."), "{text}");
    assert!(text.contains("connections epoll keeps 100 % of its bandwidth."), "{text}");
    assert!(text.contains("mt keeps 100 % of its bandwidth (client-limited at 1000)."), "{text}");
    // The server takes 0.9004 s for 2 091 MB (100 connections) and for 1 150 MB (1 000). The client takes 0.8 s for 10 %
    // more bytes. The repeats move 2 % more on average, so a gigabyte takes 2 % less time.
    let costs = "takes 0.77 s of the server's CPU time (before 0.42 s) and 0.62 s of the client's (before 0.34 s)";
    assert!(text.contains(costs), "{text}");
    // The kernel holds 6 000 bytes for each connection.
    assert!(text.contains("The kernel holds 6 MB for the connections (before 1 MB)."), "{text}");
    assert!(text.ends_with("reads smaller than the receive window."), "{text}");

    run.records.retain(|record| record.trial.architecture.to_string() != "poll");
    let text = words(std::slice::from_ref(&run));
    assert!(text.contains("epoll keeps 100 %") && !text.contains("receive window"), "{text}");
}

#[test]
fn claims_ignore_trials_with_other_read_budgets() {
    let paper = find("welsh2001").unwrap();
    let mut run = testkit::bandwidth_run();
    let findings = |run: &Run| {
        let all = beside(paper, Part::Whole, std::slice::from_ref(run)).unwrap();
        all.claims.iter().map(|claim| claim.findings.len()).sum::<usize>()
    };
    assert!(findings(&run) > 0);
    for trial in trials_mut(&mut run) {
        let harness::spec::ServerSpec::Ours(serve) = &mut trial.serve else { continue };
        serve.read_budget_bytes = server::ReadBudget::new(256 << 10).unwrap();
    }
    assert_eq!(findings(&run), 0);
}

#[test]
fn runs_on_five_hosts_have_series_of_their_own() {
    let paper = find("kawai2008").unwrap();
    let loopback = testkit::run_of_experiment("kawai2008-http");
    let mut lab = loopback.clone();
    let five: harness::spec::network::Network = "lab:clients=5".parse().unwrap();
    let gigabit = harness::spec::network::Network { bandwidth: Some("1Gbit".parse().unwrap()), ..five };
    trials_mut(&mut lab).for_each(|trial| trial.workload.network = Some(gigabit.clone()));
    let of = |runs: &[Run]| beside(paper, Part::Whole, runs).unwrap();
    let names = |all: &PaperComparison| series_of(all, "6");
    let [alone, both] = [of(slice::from_ref(&lab)), of(&[loopback, lab])];
    assert!(names(&alone).iter().all(|name| name.ends_with(", five hosts")), "{:?}", names(&alone));
    assert_eq!((names(&alone).len(), names(&both).len()), (5, 10));
    assert!(alone.claims[0].findings.iter().all(|finding| finding.what.contains("in a lab of 5 client hosts")));
    assert!(!alone.claims[0].findings.is_empty());
}

fn series_of(all: &PaperComparison, number: &str) -> BTreeSet<&'static str> {
    let (_, chart) = all.figures.iter().find(|(figure, _)| figure.number == number).unwrap();
    chart.panels.iter().flat_map(|panel| &panel.series).map(|series| all.paper.series[series.architecture]).collect()
}

#[test]
fn voras2009_over_tcp_has_series_of_its_own() {
    let paper = find("voras2009").unwrap();
    let unix = testkit::run_of_experiment("voras2009");
    let mut tcp = unix.clone();
    trials_mut(&mut tcp).for_each(|trial| trial.workload.transport = harness::spec::transport::Transport::Tcp);
    let of = |runs: &[Run]| beside(paper, Part::Whole, runs).unwrap();
    let [alone, both] = [of(slice::from_ref(&tcp)), of(&[unix, tcp])];
    for figure in paper.figures {
        let [alone, both] = [&alone, &both].map(|all| series_of(all, figure.number));
        assert!(alone.iter().all(|name| name.ends_with(", TCP")), "{alone:?}");
        assert_eq!(both.len(), 2 * alone.len(), "{both:?}");
    }
    assert!(alone.claims.iter().all(|claim| claim.findings.is_empty()), "claims are about Unix sockets");
}

#[test]
fn figures_are_tables_in_a_terminal() {
    for paper in PAPERS {
        let all = whole(paper);
        let text: Vec<String> = all.figures.iter().map(|(figure, chart)| all.figure_text(figure, chart, 160)).collect();
        insta::assert_snapshot!(format!("figures_of_{}", paper.name), text.join("\n\n"));
        for (figure, chart) in &all.figures {
            let narrow = all.figure_text(figure, chart, 80);
            assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        }
    }
}

#[test]
fn invalid_values_are_marked_in_text_csv_and_json() {
    let paper = find("maharjan2012").unwrap();
    let mut runs = runs_of(paper);
    for record in &mut runs[1].records {
        record.verdict.kind = VerdictKind::ClientLimited;
    }
    let part = paper.part(Some("5.2"), None).unwrap();
    let beside = beside(paper, part, &runs[1..2]).unwrap();
    let (_, chart) = &beside.figures[0];
    assert!(beside.render(160).contains("Values in parentheses are not valid, so they are not ranked."));
    let grids = grid::of(chart, &beside.series);
    assert!(grids[0].rows.iter().flat_map(|row| &row.cells).all(|cell| cell.starts_with('(')), "{grids:?}");
    let csv = beside.csv();
    assert_eq!(csv.lines().filter(|line| line.ends_with("client-limited")).count(), 18, "{csv}");
    assert_eq!(
        serde_json::to_value(beside.json()).unwrap()["figures"][0]["chart"]["panels"][0]["series"][0]["points"][0][3],
        "client-limited"
    );
}

#[test]
fn invalid_steps_are_marked_in_a_table() {
    let paper = find("maharjan2012").unwrap();
    let mut run = testkit::run_of_experiment("maharjan2012-http");
    for record in &mut run.records {
        let is_poll = record.trial.architecture.to_string() == "poll";
        record.verdict.kind = if is_poll { VerdictKind::ClientLimited } else { VerdictKind::Valid };
    }
    let part = paper.part(None, Some("4.9")).unwrap();
    let table = beside(paper, part, slice::from_ref(&run)).unwrap();
    let (_, grid) = table.grids().remove(0);
    let marked = grid.rows.iter().filter(|row| row.cells.iter().any(|cell| cell.starts_with('(')));
    let marked: BTreeSet<&str> = marked.map(|row| row.lead[1].as_str()).collect();
    assert_eq!(marked, BTreeSet::from(["poll"]), "{grid:?}");
    assert!(table.render(160).contains("Values in parentheses are not valid"), "{}", table.render(160));
}

#[test]
fn unknown_figure_number_error_lists_known_numbers() {
    let error = |paper: &str, figure: Option<&str>, table: Option<&str>| {
        find(paper).unwrap().part(figure, table).unwrap_err().to_string()
    };
    let text = error("maharjan2012", Some("5.9"), None);
    assert!(text.contains("--figure `5.9`") && text.contains("Figures 5.1, 5.2, 5.3, 5.4, 5.5; Table 4.9"), "{text}");
    let text = error("kawai2006", None, Some("2"));
    assert!(text.contains("--table `2`") && text.contains("Figure 2; Tables 3, 4, 5"), "{text}");
    assert!(error("welsh2001", Some("4"), None).contains("welsh2001 has Graphs 1, 2, 3; no tables"));
}

#[test]
fn figure_without_its_runs_names_the_command_that_makes_them() {
    let paper = find("kawai2008").unwrap();
    let part = paper.part(Some("8"), None).unwrap();
    let Err(error) = beside(paper, part, &[testkit::run_of_experiment("kawai2008-http")]) else { panic!() };
    assert!(error.to_string().contains("muxbench reproduce kawai2008 --figure 8"), "{error}");
    let whole = beside(paper, Part::Whole, &[testkit::run_of_experiment("kawai2008-http")]).unwrap();
    let text = whole.render(160);
    assert!(text.contains("No data for Figure 8 (experiment kawai2008-minimised), Figure 11"), "{text}");
}

#[test]
fn table_without_its_runs_names_the_command_that_makes_them() {
    let mut of_table_4 = testkit::kawai2006_run();
    of_table_4.records.retain(|record| record.trial.workload.active() < 1.0);
    let of_datagrams = testkit::run_of_experiment("maharjan2012-udp");
    let mut without_samples = testkit::kawai2006_run();
    without_samples.records.truncate(1);
    without_samples.records[0].verdict.kind = VerdictKind::ClientLimited;
    for (paper, number, run, word) in [
        ("maharjan2012", "4.9", of_datagrams, "try"),
        ("kawai2006", "3", of_table_4, "try"),
        ("kawai2006", "5", without_samples, "is valid; try `muxbench report RUN` for the reasons, or"),
    ] {
        let paper = find(paper).unwrap();
        let part = paper.part(None, Some(number)).unwrap();
        let Err(error) = beside(paper, part, &[run]) else { panic!("Table {number} has no data") };
        let command = format!("{word} `muxbench reproduce {} --table {number}`", paper.name);
        assert!(error.to_string().contains(&command), "{error}");
    }
}

#[test]
fn figure_without_valid_trials_counts_them() {
    let paper = find("hermes2025").unwrap();
    let part = paper.part(Some("3"), None).unwrap();
    let mut run = testkit::run_of_experiment("hermes2025-short");
    run.records.iter_mut().for_each(|record| record.verdict.kind = VerdictKind::ClientLimited);
    let total = run.records.len();
    let Err(error) = beside(paper, part, &[run]) else { panic!("a figure without valid trials is an error") };
    let reason =
        format!("Figure 3 of hermes2025: none of the {total} trials of hermes2025-short and hermes2025-busy and");
    assert!(error.to_string().contains(&reason), "{error}");
}

#[test]
fn run_of_another_paper_names_the_command_that_makes_one() {
    let Err(error) = beside(find("maharjan2012").unwrap(), Part::Whole, &[testkit::run()]) else { panic!() };
    assert!(error.to_string().contains("belongs to maharjan2012; try `muxbench reproduce maharjan2012`"), "{error}");
}

#[test]
fn page_has_all_parts_of_a_paper_and_loads_nothing() {
    let words = ["muxbench", "reproduce", "it", "--output", "over there"].map(str::to_owned);
    for paper in PAPERS {
        let (runs, all) = (runs_of(paper), whole(paper));
        let folders: Vec<String> = paper.experiments.iter().map(|name| format!("results/{name}")).collect();
        let origin = Origin { command: &words, of_one: &words, folders: &folders };
        let page = html::render(all, &runs, &origin).unwrap();
        assert!(page.len() < 4_000_000, "{}: {} bytes", paper.name, page.len());
        let head = page.split_once("<script type=\"application/json\"").unwrap().0;
        let ids: Vec<&str> = head.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        for link in head.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0) {
            assert!(ids.contains(&link), "#{link} leads nowhere");
        }
        for (figure, _) in &all.figures {
            assert!(head.contains(&format!("<h3>{} {}. ", paper.figure_word, figure.number)), "{}", figure.number);
            let only = format!("muxbench reproduce it --output &#39;over there&#39; --figure {}<", figure.number);
            assert!(head.contains(&only), "{only}");
        }
        for PaperTable { number, .. } in paper.tables {
            assert!(head.contains(&format!("<h3>Table {number}. ")), "{number}");
        }
        let outcomes: BTreeSet<&str> = all.claims.iter().map(|claim| claim.outcome.words()[0]).collect();
        let shown = outcomes.iter().map(|words| head.matches(&format!("<strong>{words}</strong>")).count());
        assert_eq!(shown.sum::<usize>(), paper.claims.len(), "{}", paper.name);
        let shown = all
            .setup
            .iter()
            .all(|row| head.contains(&format!("<th scope=\"row\">{}</th>", row.what.replace('\'', "&#39;"))));
        assert!(shown && !all.setup.is_empty(), "{}", paper.name);
        assert!(folders.iter().all(|it| head.contains(&format!("muxbench report {it} --html"))), "{}", paper.name);
        assert!(!head.contains("src=\"") && !head.contains("href=\"http"), "{}", paper.name);
    }
}

#[test]
fn hostile_text_in_runs_does_not_break_a_page() {
    for paper in PAPERS {
        let runs: Vec<Run> = runs_of(paper).into_iter().map(testkit::hostile).collect();
        let (page, _) = page(&beside(paper, Part::Whole, &runs).unwrap(), &runs);
        assert!(
            page.contains("alert(1)") && !testkit::has_hostile_elements(&page),
            "{}: hostile text is escaped",
            paper.name
        );
    }
}

#[test]
fn impossible_trials_have_reasons_in_text_json_and_page() {
    let paper = find("maharjan2012").unwrap();
    let mut runs = runs_of(paper);
    let reason = "workload.connections: 16000 needs <many> descriptors; raise the limit";
    let is_affected = |trial: &Trial| {
        ["epoll", "select"].contains(&trial.architecture.to_string().as_str()) && trial.workload.idle == 15_000
    };
    let mut count = 0;
    for trial in runs[1].header.trials.iter_mut().filter(|trial| is_affected(trial)) {
        trial.infeasible = vec![reason.into()];
        count += 1;
    }
    assert!(count >= 2);
    let all = beside(paper, Part::Whole, &runs).unwrap();
    let words = format!("{count} trials of epoll, select: {reason}");
    let line = format!("Trials that this host cannot run:\n- maharjan2012-idle, {words}\n");
    assert!(all.render(400).contains(&line), "{}", all.render(400));
    assert_eq!(serde_json::to_value(all.json()).unwrap()["impossible"][0]["trials"], count);
    assert_eq!(serde_json::to_value(all.json()).unwrap()["impossible"].as_array().unwrap().len(), 1);
    let (page, _) = page(&all, &runs);
    assert!(page.contains(&format!("<a href=\"#again\">This host cannot run {count} trials.</a>")));
    assert_eq!(
        page.matches("<p>Trials that this host cannot run:</p>").count(),
        1,
        "only one run has impossible trials"
    );
    assert!(page.contains(&format!("<li>{}</li>", words.replace('<', "&#60;").replace('>', "&#62;"))));

    runs[1].records.clear();
    let part = paper.part(Some("5.2"), None).unwrap();
    let Err(error) = beside(paper, part, &runs[1..2]) else { panic!("a figure without trials is an error") };
    assert!(error.to_string().contains(&words), "{error}");
    let text = whole(paper).render(400);
    assert!(!text.contains("this host cannot run"), "{text}");
}

#[test]
fn markdown_of_each_paper_has_headings_and_tables() {
    for paper in PAPERS {
        let all = whole(paper);
        let text = all.render(Medium::Markdown);
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let tables = paper.tables.iter().map(|table| format!("Table {}. ", table.number));
        let figures = paper.figures.iter().map(|figure| format!("{}. {}", paper.figure_name(figure), figure.title));
        let setup = ["Set-up".to_owned()].into_iter();
        let expected: Vec<String> = setup.chain(tables).chain(figures).chain(["Claims".to_owned()]).collect();
        assert_eq!(headings.len(), expected.len(), "{headings:?}");
        for (heading, expected) in headings.iter().zip(&expected) {
            assert!(heading.starts_with(&expected.replace('*', "\\*")), "{heading}: {expected}");
        }
        let rules: Vec<usize> =
            text.lines().enumerate().filter(|(_, line)| line.starts_with("| --- |")).map(|(at, _)| at).collect();
        let panels: usize = all.figures.iter().map(|(_, chart)| chart.panels.len()).sum();
        assert_eq!(rules.len(), 1 + paper.tables.len() + panels, "{text}");
        let lines: Vec<&str> = text.lines().collect();
        for rule in rules {
            assert!(lines[rule - 1].starts_with("| ") && lines[rule - 2].is_empty(), "{}", lines[rule - 1]);
        }
        assert_eq!(text.matches("```").count(), 2, "only the claims are in a code block: {text}");
        assert!(!text.contains("\n\n\n"), "{text}");
    }
}

#[test]
fn page_saves_the_shown_data() {
    let of = |paper: &str, figure: Option<&str>, table: Option<&str>| {
        let paper = find(paper).unwrap();
        let runs = runs_of(paper);
        let beside = beside(paper, paper.part(figure, table).unwrap(), &runs).unwrap();
        let (page, raw) = page(&beside, &runs);
        let of = |name: &str| raw[name].as_str().map(str::to_owned);
        (of("csv").unwrap(), of("tables"), page.contains("data-save=\"tables\""))
    };
    let (csv, tables, can_save_tables) = of("kawai2006", None, None);
    assert!(csv.starts_with("figure,panel,") && csv.lines().count() > 1, "{csv}");
    let tables = tables.unwrap();
    assert!(tables.starts_with("table,architecture,") && can_save_tables, "{tables}");
    for number in ["3", "4", "5"] {
        assert!(tables.lines().any(|line| line.starts_with(&format!("{number},"))), "{number}: {tables}");
    }
    let (csv, tables, can_save_tables) = of("kawai2006", None, Some("3"));
    assert!(csv.starts_with("connections,requests/s,") && csv.lines().count() > 1, "{csv}");
    assert!(tables.is_none() && !can_save_tables);
    let (csv, tables, can_save_tables) = of("kawai2008", Some("6"), None);
    assert!(csv.starts_with("figure,panel,") && csv.lines().skip(1).all(|line| line.starts_with("6,")), "{csv}");
    assert!(tables.is_none() && !can_save_tables);
}

#[test]
fn single_series_states_where_its_highest_value_is() {
    let paper = find("kawai2008").unwrap();
    let mut runs = vec![testkit::run_of_experiment("kawai2008-http")];
    runs[0].records.retain(|record| record.trial.architecture.to_string() == "epoll");
    let connections: BTreeSet<u32> = runs[0].records.iter().map(|record| record.trial.workload.connections).collect();
    let beside = beside(paper, paper.part(Some("6"), None).unwrap(), &runs).unwrap();
    let words = &beside.figures[0].1.words;
    let is_named = |connections: &u32| words.contains(&format!(", at {connections} connections."));
    assert!(words.starts_with("The highest value of epoll is ") && connections.iter().any(is_named), "{words}");
}

#[test]
fn findings_of_a_statement_have_different_descriptions() {
    for paper in PAPERS {
        let runs = runs_of(paper);
        let mut sends = sends(&runs);
        let mut kept: Vec<_> = sends.iter_mut().map(|sends_of| deviation::kept(sends_of)).collect();
        let mut deviation_of: Vec<&mut DeviationOf<'_>> = kept.iter_mut().map(|it| it as _).collect();
        for claim in paper.claims {
            for statement in claim.statements {
                let one = Claim { cpus_min: 0, statements: slice::from_ref(statement), ..*claim };
                let checked = claims::check(&[one], &runs, &mut deviation_of).remove(0);
                let place = format!("{} {}", paper.name, claim.says);
                let of_metric = checked.findings.len() / statement.metrics().count();
                for findings in checked.findings.chunks(of_metric.max(1)) {
                    let texts: BTreeSet<&String> = findings.iter().map(|finding| &finding.what).collect();
                    assert_eq!(texts.len(), of_metric, "{place}: {findings:?}");
                }
                assert!(
                    checked.findings.iter().all(|it| paper.experiments.contains(&it.experiment.as_str())),
                    "{place}"
                );
            }
        }
    }
}

#[test]
fn claims_concern_the_experiments_of_their_paper() {
    for paper in PAPERS {
        assert!(!paper.about.is_empty());
        let experiments = paper.experiments.iter().map(|name| presets::find(name).expect(name).experiment());
        let mut servers: BTreeSet<String> = BTreeSet::new();
        for experiment in experiments {
            let plan = harness::plan::plan(&experiment, &harness::host::Host::made_up()).unwrap();
            let concern = |trial| claims::concern(paper.claims, trial);
            assert!(plan.trials.iter().any(concern), "{}: some claim concerns the experiment", experiment.name);
            servers.extend(plan.trials.iter().map(Trial::label));
        }
        let is_run = |name: &&str| servers.contains(*name);
        for claim in paper.claims {
            for statement in claim.statements {
                assert!(statement.architectures.iter().all(is_run), "{} {}", paper.name, claim.says);
            }
        }
    }
}

#[test]
fn interleaved_trials_are_named() {
    let paper = find("kawai2008").unwrap();
    let mut run = testkit::run_of_experiment("kawai2008-http");
    let words = |run: &Run| beside(paper, Part::Whole, std::slice::from_ref(run)).unwrap().render(1_000);
    assert!(!words(&run).contains("interleaved"));
    let slices = testkit::interleaved_run().records[0].trial.client.slices;
    run.records.iter_mut().take(30).for_each(|record| record.trial.client.slices = slices);
    assert!(
        words(&run)
            .contains("kawai2008-http: 30 of 60 trials are interleaved: all servers of a workload were up at once")
    );
}
