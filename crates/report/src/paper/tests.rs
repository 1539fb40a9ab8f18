//! Papers beside runs that never were.

use std::collections::BTreeSet;

use super::*;
use crate::claims;
use crate::html::still;
use crate::made_up;

fn made_up_runs(paper: &Paper) -> Vec<Run> {
    paper.experiments.iter().map(|name| made_up::run_of_experiment(name)).collect()
}

/// Every send is on time, but for every tenth, late by its trial.
fn sends(runs: &[Run]) -> Vec<impl FnMut(u32) -> anyhow::Result<Vec<i64>> + use<'_>> {
    let of = |run: &Run, trial: u32| {
        let rate_per_s = run.header.trials.iter().find(|it| it.index == trial).and_then(|it| it.workload.rate_per_s);
        let late_ns = |at: i64| if at % 10 == 3 { 300 * i64::from(trial) } else { at % 7 * 100 };
        Ok((0..200).map(|at| (at as f64 * 1e9 / rate_per_s.unwrap_or(1.0)) as i64 + late_ns(at)).collect())
    };
    runs.iter().map(|run| move |trial| of(run, trial)).collect()
}

fn beside(paper: &'static Paper, part: Part, runs: &[Run]) -> anyhow::Result<Beside> {
    let mut sends = sends(runs);
    let mut sends_of: Vec<&mut SendsOf<'_>> = sends.iter_mut().map(|sends_of| sends_of as _).collect();
    Beside::of(paper, part, runs, &mut sends_of)
}

#[test]
fn every_figure_of_every_paper_is_drawn_from_its_experiments() {
    for paper in PAPERS {
        let runs = made_up_runs(paper);
        let all = beside(paper, Part::Whole, &runs).unwrap();
        assert!(all.missing.is_empty(), "{}: {:?}", paper.name, all.missing);
        let names: Vec<String> = paper.series.iter().map(ToString::to_string).collect();
        assert_eq!(paper.series.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", paper.name);
        let mut numbers = BTreeSet::new();
        for (figure, chart) in &all.figures {
            let name = format!("{} {}", paper.name, figure.number);
            assert!(numbers.insert(figure.number), "{name} is there twice");
            assert!(figure.experiments.iter().all(|it| paper.experiments.contains(it)), "{name}");
            assert!(!figure.experiments.is_empty() && !chart.words.is_empty(), "{name}");
            assert!(chart.panels.iter().flat_map(|it| &it.series).all(|it| !it.points.is_empty()), "{name}");
            let svg = still::svg(figure.title, chart, &names).unwrap();
            let svg = resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default());
            svg.unwrap_or_else(|error| panic!("{name}: {error}"));
            // By itself, from its experiments alone, it is the same.
            let part = paper.part(Some(figure.number), None).unwrap();
            let needed: Vec<Run> =
                paper.experiments_of(part).iter().map(|name| made_up::run_of_experiment(name)).collect();
            let alone = beside(paper, part, &needed).unwrap();
            let text = serde_json::to_string(&alone.figures[0].1).unwrap();
            assert_eq!(text, serde_json::to_string(chart).unwrap(), "{name}");
            assert!(alone.figures.len() == 1 && alone.claims.is_empty() && alone.grids().is_empty(), "{name}");
        }
        let grids: Vec<&str> = all.grids().iter().map(|(number, _)| *number).collect();
        assert_eq!(grids, paper.tables, "{}", paper.name);
    }
}

#[test]
fn figures_are_tables_in_a_terminal() {
    for paper in PAPERS {
        let runs = made_up_runs(paper);
        let all = beside(paper, Part::Whole, &runs).unwrap();
        let text: Vec<String> = all.figures.iter().map(|(figure, chart)| all.figure_text(figure, chart, 160)).collect();
        insta::assert_snapshot!(format!("figures_of_{}", paper.name), text.join("\n\n"));
        for (figure, chart) in &all.figures {
            let narrow = all.figure_text(figure, chart, 80);
            assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        }
    }
}

#[test]
fn what_is_not_valid_is_marked_in_every_form() {
    let paper = find("maharjan2012").unwrap();
    let mut runs = made_up_runs(paper);
    for record in &mut runs[1].records {
        record.verdict.kind = lab::record::VerdictKind::ClientLimited;
    }
    let part = paper.part(Some("5.2"), None).unwrap();
    let beside = beside(paper, part, &runs[1..2]).unwrap();
    let (figure, chart) = &beside.figures[0];
    assert!(beside.render(160).contains("In brackets: not valid, and not ranked."));
    let grids = grid::of(figure, chart, paper.series);
    assert!(grids[0].rows.iter().flat_map(|row| &row.cells).all(|cell| cell.starts_with('(')), "{grids:?}");
    let csv = beside.csv().unwrap();
    assert_eq!(csv.lines().filter(|line| line.ends_with("client-limited")).count(), 18, "{csv}");
    assert_eq!(beside.json()["figures"][0]["chart"]["panels"][0]["series"][0]["points"][0][3], "client-limited");
}

#[test]
fn a_number_that_a_paper_has_not_is_an_error_that_lists_those_it_has() {
    let error = |paper: &str, figure: Option<&str>, table: Option<&str>| {
        find(paper).unwrap().part(figure, table).unwrap_err().to_string()
    };
    let said = error("maharjan2012", Some("5.9"), None);
    assert!(said.contains("--figure 5.9") && said.contains("Figures 5.1, 5.2, 5.3, 5.4, 5.5; no tables"), "{said}");
    let said = error("kawai2006", None, Some("2"));
    assert!(said.contains("--table 2") && said.contains("Figure 2; Tables 3, 4, 5"), "{said}");
    assert!(error("welsh2001", Some("4"), None).contains("no such Graph here"));
}

#[test]
fn a_figure_of_other_runs_is_an_error_that_says_how_to_make_it() {
    let paper = find("kawai2008").unwrap();
    let part = paper.part(Some("8"), None).unwrap();
    let Err(error) = beside(paper, part, &[made_up::run_of_experiment("kawai2008-http")]) else { panic!() };
    assert!(error.to_string().contains("muxbench reproduce kawai2008 --figure 8"), "{error}");
    let whole = beside(paper, Part::Whole, &[made_up::run_of_experiment("kawai2008-http")]).unwrap();
    let said = whole.render(160);
    assert!(said.contains("nothing to show: Figure 8 (of kawai2008-minimised), Figure 11"), "{said}");
}

#[test]
fn a_page_has_all_of_a_paper_and_loads_nothing() {
    let words = ["muxbench", "reproduce", "it"].map(str::to_owned);
    for paper in PAPERS {
        let runs = made_up_runs(paper);
        let all = beside(paper, Part::Whole, &runs).unwrap();
        let folders: Vec<String> = paper.experiments.iter().map(|name| format!("results/{name}")).collect();
        let origin = crate::html::paper::Origin { command: &words, folders: &folders };
        let page = crate::html::paper::render(&all, &runs, &origin).unwrap();
        assert!(page.len() < 4_000_000, "{}: {} bytes", paper.name, page.len());
        let head = page.split_once("<script type=\"application/json\"").unwrap().0;
        let ids: Vec<&str> = head.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        for link in head.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0) {
            assert!(ids.contains(&link), "#{link} leads nowhere");
        }
        for (figure, _) in &all.figures {
            assert!(head.contains(&format!("<h3>{} {}. ", paper.figure_word, figure.number)), "{}", figure.number);
        }
        for number in paper.tables {
            assert!(head.contains(&format!("<h3>Table {number}. ")), "{number}");
        }
        assert_eq!(head.matches("here</strong>").count(), paper.claims.len(), "{}", paper.name);
        assert!(folders.iter().all(|it| head.contains(&format!("muxbench report {it} --html"))), "{}", paper.name);
        assert!(!head.contains("src=\"") && !head.contains("href=\"http"), "{}", paper.name);
    }
}

#[test]
fn every_paper_has_experiments_and_claims_of_what_they_run() {
    for paper in PAPERS {
        assert!(!paper.about.is_empty());
        let experiments = paper.experiments.iter().map(|name| lab::presets::find(name).expect(name).experiment());
        let mut architectures: Vec<String> = Vec::new();
        for experiment in experiments {
            let plan = lab::plan::plan(&experiment, &lab::host::Host::this()).unwrap();
            let concern = |trial| claims::concern(paper.claims, trial);
            assert!(plan.trials.iter().any(concern), "{}: no claim is about it", experiment.name);
            architectures.extend(experiment.architectures.0.iter().map(ToString::to_string));
        }
        let is_run = |name: &&str| architectures.iter().any(|architecture| architecture == name);
        for (at, claim) in paper.claims.iter().enumerate() {
            assert_eq!(claim.number as usize, at + 1, "{}", paper.name);
            for statement in claim.statements {
                assert!(statement.architectures.iter().all(is_run), "{} {}", paper.name, claim.number);
            }
        }
    }
}
