//! Figures and pages of constructed runs.

use std::collections::BTreeSet;

use serde_json::Value;

use harness::record::Run;

use super::*;
use crate::analysis::Summary;
use crate::plot::Drawn;
use crate::plot::figures::FIGURES;
use crate::plot::svg;

fn drawn(run: &Run) -> Drawn {
    Drawn::of(run, &Summary::of(run))
}

fn names(drawn: &Drawn) -> Vec<&str> {
    drawn.figures.iter().map(|(figure, _)| figure.name).collect()
}

/// A run whose rate rises over the window.
fn varied_run() -> Run {
    let mut run = testkit::run();
    for load in run.records.iter_mut().filter_map(|record| record.load.as_mut()) {
        load.planned_by_part = Some(std::array::from_fn(|part| part as u64 + 10));
        load.completed_by_part = std::array::from_fn(|part| part as u64 + 9);
    }
    run
}

/// Runs that together contain the data for every figure.
fn runs() -> Vec<Run> {
    let mut stamped = testkit::run();
    testkit::add_kernel(&mut stamped);
    vec![
        testkit::run(),
        stamped,
        varied_run(),
        testkit::closed_run(),
        testkit::kawai2006_run(),
        testkit::large_run(),
        testkit::bandwidth_run(),
        testkit::overload_run(),
    ]
}

#[test]
fn bandwidth_figures_show_bytes_counted_by_server() {
    let drawn = drawn(&testkit::bandwidth_run());
    let chart = |name: &str| &drawn.figures.iter().find(|(figure, _)| figure.name == name).unwrap().1;
    let epoll = drawn.architectures.iter().position(|architecture| architecture == "epoll").unwrap();
    let epoll = |name: &str| chart(name).panels[0].series.iter().find(|series| series.architecture == epoll).unwrap();
    // The mean of three repeats: 2.4 GB/s, 2 % more and 4 % more.
    assert_eq!((epoll("bandwidth").points[0].y / 1e6).round(), 2_448.0);
    let over_window = epoll("bandwidth-over-time");
    assert_eq!((over_window.points.len(), over_window.points[31].y.round()), (32, 2_448.0));
}

#[test]
fn every_figure_is_drawn_for_some_run() {
    let runs = runs();
    let drawn: Vec<Drawn> = runs.iter().map(drawn).collect();
    let mut seen = BTreeSet::new();
    for figure in FIGURES {
        assert!(seen.insert(figure.name), "the name {} is unique", figure.name);
        assert!(
            figure.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
            "{} is a valid file name",
            figure.name
        );
        assert!(!figure.title.is_empty() && !figure.about.is_empty(), "{}", figure.name);
        let somewhere = drawn.iter().any(|drawn| names(drawn).contains(&figure.name));
        assert!(somewhere, "a run draws {}", figure.name);
    }
    for (figure, chart) in drawn.iter().flat_map(|drawn| &drawn.figures) {
        for series in chart.panels.iter().flat_map(|panel| &panel.series) {
            assert!(!series.points.is_empty(), "{}", figure.name);
        }
    }
}

#[test]
fn captions_state_only_differences_beyond_the_noise() {
    let drawn = drawn(&testkit::run());
    let words = |name: &str| &drawn.figures.iter().find(|(figure, _)| figure.name == name).unwrap().1.words;
    assert_eq!(words("service-time"), "Furthest apart at 400 connections: epoll 40.2 µs and poll 90.2 µs.");
    assert_eq!(words("ranking"), "Furthest from the best: poll at 400 connections, 2.25x.");
    // All rows have the same values.
    for name in ["cpu", "memory", "send-delay", "rate", "switches", "syscalls", "time"] {
        assert_eq!(words(name), "", "{name}");
    }
}

#[test]
fn figure_without_data_is_omitted() {
    let names = |run: &Run| drawn(run).figures.iter().map(|(figure, _)| figure.name).collect::<Vec<_>>();
    let open = names(&testkit::run());
    assert!(!open.contains(&"latency") && !open.contains(&"throughput") && !open.contains(&"kernel"), "{open:?}");
    let closed = names(&testkit::closed_run());
    assert!(
        closed.contains(&"throughput") && !closed.contains(&"send-delay") && !closed.contains(&"rate"),
        "{closed:?}"
    );
    let mut empty = testkit::run();
    empty.records.clear();
    assert_eq!(names(&empty), [""; 0]);
    let page = render(&empty).unwrap();
    assert!(page.contains("no row is valid"), "a run without records has a page");
    assert_eq!(page, render(&empty).unwrap(), "the same run makes the same page");
}

/// Returns readable lines for each series of the wanted figures.
fn lines(run: &Run, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut lines = Vec::new();
    for (figure, chart) in drawn(run).figures.iter().filter(|(figure, _)| is_wanted(figure.name)) {
        lines.push(format!("\n{}: {}", figure.name, chart.words));
        lines.extend([&chart.x, &chart.y].map(|axis| serde_json::to_string(axis).unwrap()));
        for panel in &chart.panels {
            lines.push(format!("[{}]", panel.title));
            lines.extend(panel.series.iter().map(|series| serde_json::to_string(series).unwrap()));
        }
    }
    lines.join("\n")
}

#[test]
fn open_loop_figures_match_their_snapshot() {
    insta::assert_snapshot!(lines(&testkit::run(), |_| true));
}

#[test]
fn figures_of_streams_show_bytes() {
    let run = testkit::bandwidth_run();
    let drawn = drawn(&run);
    let names = names(&drawn);
    for name in ["throughput", "cpu", "switches", "syscalls", "rate", "send-delay"] {
        assert!(!names.contains(&name), "{name}: {names:?}");
    }
    let shown = ["bandwidth", "bandwidth-idle", "fairness", "cpu-gigabyte"];
    insta::assert_snapshot!(lines(&run, |name| shown.contains(&name)));
}

#[test]
fn page_of_an_overload_has_its_table_and_one_figure() {
    let run = testkit::overload_run();
    let drawn = drawn(&run);
    assert_eq!(names(&drawn), ["overload"]);
    let panel = &drawn.figures[0].1.panels[0];
    let highest = |of: &str, architecture: usize| {
        let series = panel.series.iter().find(|it| it.of == of && it.architecture == architecture).unwrap();
        series.points.iter().map(|point| point.y).fold(0.0, f64::max)
    };
    for architecture in 0..2 {
        assert!((highest("offered", architecture) / 1.5 - 1.0).abs() < 0.05 && highest("", architecture) > 0.69);
    }
    let page = render(&run).unwrap();
    for text in [
        "<h2>Overload</h2>",
        "mt never recovered",
        "mp: workload.connections: made up",
        "2 trials after 47 probes of run",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("vs best") && !page.contains("<h2>Ranking</h2>"));
}

#[test]
fn titles_of_panels_name_only_differences() {
    let drawn = drawn(&testkit::large_run());
    let titles = |name: &str| -> Vec<String> {
        let (_, chart) = drawn.figures.iter().find(|(figure, _)| figure.name == name).unwrap();
        chart.panels.iter().map(|panel| panel.title.clone()).collect()
    };
    let service = titles("service-time");
    assert_eq!((service.len(), service[0].as_str()), (7, "125 requests/s"));
    assert_eq!(titles("latency"), ["400 connections", "2000 connections", "10000 connections"]);
    assert_eq!(
        (titles("distribution").len(), titles("distribution")[0].as_str()),
        (21, "400 connections, 125 requests/s")
    );
}

/// Returns the JSON in the page's element with this id.
fn data(page: &str, id: &str) -> Value {
    let start = format!("<script type=\"application/json\" id=\"{id}\">");
    let text = page.split_once(&start).unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(text).unwrap()
}

#[test]
fn page_of_105_configurations_is_small_and_self_contained() {
    let run = testkit::large_run();
    let page = render(&run).unwrap();
    assert_eq!(run.header.trials.len(), 315);
    assert!(page.len() < 8_000_000, "{} bytes", page.len());
    let raw = data(&page, "raw");
    assert_eq!(raw["csv"].as_str().unwrap().lines().count(), 316);
    assert_eq!(raw["json"]["trials"].as_array().unwrap().len(), 315);
    assert_eq!(data(&page, "data")["figures"].as_array().unwrap().len(), drawn(&run).figures.len());
}

#[test]
fn hostile_text_does_not_break_a_page() {
    for run in runs() {
        let run = testkit::hostile(run);
        let page = render(&run).unwrap();
        assert!(!testkit::has_hostile_elements(&page), "hostile text is escaped");
        assert_eq!(data(&page, "raw")["name"], testkit::HOSTILE);
    }
}

#[test]
fn element_ids_are_unique() {
    let page = render(&testkit::run()).unwrap();
    let head = page.split_once("<script type=\"application/json\"").unwrap().0;
    let ids: Vec<&str> = head.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
    assert!(ids.len() > FIGURES.len() / 2, "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    for link in head.split("href=\"#").skip(1).map(|rest| rest.split_once('"').unwrap().0) {
        assert!(ids.contains(&link), "the target #{link} exists");
    }
}

#[test]
fn page_loads_nothing() {
    let page = render(&testkit::run()).unwrap();
    for attribute in ["src=\"", "href=\"http", "href=\"//", "@import", "url(http"] {
        let page = page.replace(include_str!("../../assets/plotly-basic.min.js"), "");
        assert!(!page.contains(attribute), "{attribute}");
    }
}

#[test]
fn figures_are_drawn_as_svg() {
    for run in [testkit::run(), testkit::closed_run(), testkit::bandwidth_run()] {
        let Drawn { architectures, figures } = drawn(&run);
        for (figure, chart) in figures {
            let svg = svg::svg(figure.title, &chart, &architectures);
            assert!(svg.contains(figure.title) && svg.ends_with("</svg>\n"), "{}", figure.name);
        }
    }
}

#[cfg(feature = "png")]
#[test]
fn first_figure_is_rendered_as_png() {
    use crate::plot::{chart::Chart, png::png};

    let Drawn { architectures, figures } = drawn(&testkit::run());
    let (figure, chart) = &figures[0];
    let rendered = png(&svg::svg(figure.title, chart, &architectures)).unwrap();
    assert_eq!(&rendered[..8], b"\x89PNG\r\n\x1a\n");
    let blank = Chart { panels: Vec::new(), ..chart.clone() };
    assert!(rendered.len() > png(&svg::svg("", &blank, &[])).unwrap().len());
}
