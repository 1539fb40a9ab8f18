//! The report's page, in a real browser without a network.

mod common;

use std::path::Path;
use std::process::Command;

use common::{muxbench, prepared};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs in `folder`. On a busy machine the verdict of a comparison may be that the client was late: exit code 3.
fn run(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}\n{out}\n{err}");
    (out, err)
}

/// What `page.mjs` has to say of a page; panics if anything is wrong with it.
fn browse(page: &Path) -> String {
    let packages = prepared("MUXBENCH_BROWSER", "browser");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page.mjs");
    let mut node = Command::new("timeout");
    node.args(["600", "node", script]).arg(packages).arg(page).args(std::env::var_os("MUXBENCH_PICTURES"));
    let output = node.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.ends_with("all well\n"), "{out}\n{err}");
    out
}

/// A comparison of some seconds: two numbers of connections, two rates.
const SMALL: &str = "compare --arch epoll,mt,select --connections 8,16 --rate 200,400 --ramp 50ms --hold 50ms --measure 250ms \
                     --drain 5s --repeats 1 --output small --quiet";

#[test]
fn a_page_opens_works_and_can_be_read_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let (out, _) = run(folder.path(), &SMALL.split_whitespace().collect::<Vec<_>>());
    assert!(out.contains("muxbench report small --html"), "{out}");
    let (out, err) = run(folder.path(), &["report", "small", "--html", "--figures", "figures"]);
    assert!(out.is_empty() && err.contains("small/report.html"), "{out}{err}");
    println!("{}", browse(&folder.path().join("small/report.html")));

    for figure in
        report::html::figures::FIGURES.iter().filter(|figure| figure.name != "throughput" && figure.name != "kernel")
    {
        let path = |extension: &str| folder.path().join("figures").join(format!("{}.{extension}", figure.name));
        // Where no trial is valid there is nothing to rank.
        if figure.name != "ranking" {
            assert!(std::fs::read_to_string(path("svg")).unwrap().contains(figure.title), "{}", figure.name);
            assert!(std::fs::read(path("png")).unwrap().starts_with(b"\x89PNG"), "{}", figure.name);
        }
    }
    let (page, _) = run(folder.path(), &["report", "small", "--html", "-"]);
    assert_eq!(page, std::fs::read_to_string(folder.path().join("small/report.html")).unwrap());
}

#[test]
fn a_paper_s_page_opens_works_and_can_be_read_by_all() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --arch epoll,mt,select --connections 8,16 --rate 125,500 --ramp 50ms --hold 50ms --measure 500ms \
                     --drain 5s --repeats 1 --output small --quiet";
    run(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    let (_, err) = run(folder.path(), &["report", "small", "--paper", "kawai2008", "--html", "--figures", "figures"]);
    assert!(err.contains("small/kawai2008.html"), "{err}");
    println!("{}", browse(&folder.path().join("small/kawai2008.html")));
    for figure in ["6", "10"] {
        let path = |extension: &str| folder.path().join(format!("figures/kawai2008-figure-{figure}.{extension}"));
        assert!(std::fs::read_to_string(path("svg")).unwrap().contains("paper: "), "{figure}");
        assert!(std::fs::read(path("png")).unwrap().starts_with(b"\x89PNG"), "{figure}");
    }
}

#[test]
fn a_page_goes_to_no_folder_and_is_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --arch epoll --connections 2 --rate 100 --ramp 10ms --hold 10ms --measure 50ms --repeats 1 \
                     --output one --quiet";
    run(folder.path(), &arguments.split_whitespace().collect::<Vec<_>>());
    let fails = |arguments: &[&str]| {
        let output = muxbench().args(arguments).current_dir(folder.path()).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        text(&output.stderr)
    };
    let said = fails(&["report", "one", "--html", "one"]);
    assert!(said.contains("one: a folder") && said.contains("muxbench report one --html"), "{said}");
    assert!(fails(&["report", "one", "one", "--html"]).contains("name one"));
    assert!(fails(&["report", "one", "--html", "--json"]).contains("cannot be used with"));
}

#[test]
fn the_copy_of_plotly_is_the_published_one() {
    let packages = prepared("MUXBENCH_BROWSER", "browser");
    let published = packages.join("node_modules/plotly.js-basic-dist-min/plotly-basic.min.js");
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/assets/plotly-basic.min.js");
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        read(&published) == read(Path::new(ours)),
        "{ours} is not that of xtask/browser/package-lock.json; copy it"
    );
}
