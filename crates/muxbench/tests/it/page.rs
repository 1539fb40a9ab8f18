//! The HTML pages of reports, in a real browser that has no network.

use std::path::Path;
use std::process::Command;

use crate::cases::{Cases, case};
use crate::common::{muxbench, prepared, store, text};

/// Runs muxbench in `folder`. Also accepts exit code 3, because a busy machine may delay the client.
fn run(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}\n{out}\n{err}");
    (out, err)
}

/// Checks a page with `page.mjs`, and returns the output of the script.
fn browse(page: &Path, kind: &str) -> String {
    let packages = prepared("MUXBENCH_BROWSER", "browser");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page.mjs");
    let mut node = Command::new("timeout");
    node.args(["600", "node", script]).arg(packages).arg(page).arg(kind).args(std::env::var_os("MUXBENCH_PICTURES"));
    let output = node.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.ends_with("all well\n"), "{out}\n{err}");
    out
}

/// A comparison of a few seconds with two numbers of connections and two rates.
const SMALL: &str = "compare --arch epoll,mt,select --connections 8,16 --rate 200,400 --ramp 50ms --warm-up 50ms --measure 250ms \
                     --cool-down 60s --repeats 1 --pacing sleep-spin --output small --quiet";

fn page_of_a_run_works_and_is_accessible() {
    let folder = tempfile::tempdir().unwrap();
    let (out, _) = run(folder.path(), &SMALL.split_whitespace().collect::<Vec<_>>());
    assert!(out.contains("muxbench report small --html"), "{out}");
    let (out, err) = run(folder.path(), &["report", "small", "--html", "--figures", "figures"]);
    assert!(out.is_empty() && err.contains("small/report.html"), "{out}{err}");
    println!("{}", browse(&folder.path().join("small/report.html"), "run"));

    // The run has no closed loop, no kernel timestamps, no streams, no profile and no overload, so it lacks the figures for these.
    let streams = ["bandwidth", "bandwidth-over-time", "bandwidth-idle", "fairness", "cpu-gigabyte"];
    let others = [&["throughput", "kernel", "rates", "overload"], &streams[..]].concat();
    for figure in report::plot::figures::FIGURES.iter().filter(|figure| !others.contains(&figure.name)) {
        let path = |extension: &str| folder.path().join("figures").join(format!("{}.{extension}", figure.name));
        // A ranking and added times need two valid rows, and there is no distribution if the client may have caused every quantile.
        let may_be_absent = ["ranking", "added", "distribution"].contains(&figure.name) && !path("svg").exists();
        if !may_be_absent {
            assert!(std::fs::read_to_string(path("svg")).unwrap().contains(figure.title), "{}", figure.name);
            assert!(
                !cfg!(feature = "png") || std::fs::read(path("png")).unwrap().starts_with(b"\x89PNG"),
                "{}",
                figure.name
            );
        }
    }
    let (page, _) = run(folder.path(), &["report", "small", "--html", "-"]);
    assert_eq!(page, std::fs::read_to_string(folder.path().join("small/report.html")).unwrap());
}

fn page_of_a_paper_works_and_is_accessible() {
    let folder = tempfile::tempdir().unwrap();
    for experiment in ["kawai2008-http", "kawai2008-minimised", "kawai2008-saturated", "kawai2008-synchronisation"] {
        store(&folder.path().join("here").join(experiment), &testkit::run_of_experiment(experiment));
    }
    let arguments = ["reproduce", "kawai2008", "--output", "here", "--quiet", "--figures", "figures"];
    let (out, _) = run(folder.path(), &arguments);
    assert!(out.contains("Page: here/kawai2008.html"), "{out}");
    println!("{}", browse(&folder.path().join("here/kawai2008.html"), "paper"));
    for figure in ["6", "8", "10", "11", "A-1"] {
        let path = |extension: &str| folder.path().join(format!("figures/kawai2008-figure-{figure}.{extension}"));
        assert!(std::fs::read_to_string(path("svg")).unwrap().contains("paper: "), "{figure}");
        assert!(!cfg!(feature = "png") || std::fs::read(path("png")).unwrap().starts_with(b"\x89PNG"), "{figure}");
    }
    run(folder.path(), &["report", "here/kawai2008-http", "--paper", "kawai2008", "--figure", "6", "--html"]);
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008-http/kawai2008-figure-6.html")).unwrap();
    assert!(page.contains("<h3>Figure 6. ") && !page.contains("<h3>Figure 10. "));
}

fn page_of_streams_works() {
    let folder = tempfile::tempdir().unwrap();
    store(&folder.path().join("streams"), &testkit::bandwidth_run());
    run(folder.path(), &["report", "streams", "--html"]);
    println!("{}", browse(&folder.path().join("streams/report.html"), "streams"));
}

fn page_of_an_overload_works() {
    let folder = tempfile::tempdir().unwrap();
    store(&folder.path().join("overload"), &testkit::overload_run());
    run(folder.path(), &["report", "overload", "--html"]);
    println!("{}", browse(&folder.path().join("overload/report.html"), "overload"));
}

fn index_links_to_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (at, mut made_up) in [testkit::run(), testkit::other_run(), testkit::closed_run()].into_iter().enumerate() {
        for day in 1..=2 {
            made_up.header.started_at = format!("2026-01-0{day}T0{at}:00:00Z");
            made_up.header.name = format!("run {at} of day #{day}");
            store(&folder.path().join("results").join(&made_up.header.name), &made_up);
        }
    }
    let damaged = folder.path().join("results/damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("run.json"), "{").unwrap();
    run(folder.path(), &["report", "results/run 0 of day #1", "--html"]);
    let (out, err) = run(folder.path(), &["report", "results", "--html", "--figures", "figures"]);
    assert!(out.is_empty() && err.contains("skipped: results/damaged/run.json"), "{out}{err}");
    let index = folder.path().join("results/index.html");
    println!("{}", browse(&index, "index"));
    let page = std::fs::read_to_string(index).unwrap();
    assert!(page.contains("href=\"./run%200%20of%20day%20%231/report.html\"") && page.contains("results/damaged"));
    for name in ["trend-p50.svg", "trend-p99.png", "trend-rate.svg"] {
        let is_made = cfg!(feature = "png") || !name.ends_with(".png");
        assert_eq!(folder.path().join("figures").join(name).exists(), is_made, "{name}");
    }

    // Print the history as text, CSV, JSON and Markdown. A page of several folders needs a file name.
    let (shown, _) = run(folder.path(), &["report", "results"]);
    assert!(shown.contains("Runs, the oldest first") && shown.contains("host B"), "{shown}");
    let (csv, _) = run(folder.path(), &["report", "results", "--csv"]);
    assert!(csv.starts_with("architecture,folder,host,"), "{csv}");
    let (json, _) = run(folder.path(), &["report", "results", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["runs"].as_array().unwrap().len(), json["unreadable"].as_array().unwrap().len()), (6, 1));
    let (markdown, _) = run(folder.path(), &["report", "results", "--markdown"]);
    assert!(markdown.starts_with("### Runs, the oldest first\n\n| began | run |"), "{markdown}");
    let several = ["report", "results/run 0 of day #1", "results/run 0 of day #2", "--html"];
    let output = muxbench().args(several).current_dir(folder.path()).output().unwrap();
    assert!(text(&output.stderr).contains("--html index.html") && !output.status.success());
}

fn page_path_that_is_a_folder_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --arch epoll --connections 2 --rate 1000 --ramp 10ms --warm-up 10ms --measure 50ms --repeats 1 \
                     --output one --quiet";
    run(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    let error_of = |arguments: &[&str]| {
        let output = muxbench().args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    let printed = error_of(&["report", "one", "--html", "one"]);
    assert!(printed.contains("one is a folder") && printed.contains("muxbench report one --html"), "{printed}");
    assert!(error_of(&["report", "one", "one", "--send-deviation"]).contains("name one"));
    assert!(error_of(&["report", "one", "one", "--html"]).contains("needs a file"));
    assert!(error_of(&["report", "one", "--html", "--json"]).contains("cannot be used with"));
}

fn vendored_plotly_is_the_published_one() {
    let packages = prepared("MUXBENCH_BROWSER", "browser");
    let published = packages.join("node_modules/plotly.js-basic-dist-min/plotly-basic.min.js");
    let vendored = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/assets/plotly-basic.min.js");
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        read(&published) == read(Path::new(vendored)),
        "{vendored} equals the package in xtask/browser/package-lock.json; copy that package"
    );
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(page_of_a_run_works_and_is_accessible));
    cases.once(case!(page_of_a_paper_works_and_is_accessible));
    cases.once(case!(page_of_streams_works));
    cases.once(case!(page_of_an_overload_works));
    cases.once(case!(index_links_to_its_runs));
    cases.once(case!(page_path_that_is_a_folder_is_rejected));
    cases.once(case!(vendored_plotly_is_the_published_one));
}
