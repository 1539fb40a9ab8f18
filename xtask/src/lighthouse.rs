//! Lighthouse's judgement of a page of each kind, and of pages of the book.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use xtask::root;

use crate::command;
use crate::environment::browser;

/// The lowest accepted score for accessibility and for best practices, of 100.
const SCORE_MIN: &str = "95";

/// A run of a few seconds.
const RUN: &str = "compare --arch epoll,mt,select --connections 8,16 --rate 400 --ramp 50ms --warm-up 50ms --measure 250ms \
                   --repeats 3 --pacing sleep-spin --quiet --output results/run";
/// A map of two races.
const MAP: &str = "atlas --arch epoll,mt -c 8,16 --active 1 -r 400 --response 128B --simulated-work none --budget 10s \
                   --ramp 50ms --warm-up 50ms --measure 250ms --pacing sleep-spin --quiet --output map";
/// A run that shares a workload with a paper.
const PAPER: &str = "compare kawai2008-minimised --arch epoll,mt -c 400 -r 500 --ramp 50ms --warm-up 50ms --measure 250ms \
                     --repeats 3 --pacing sleep-spin --quiet --output results/paper";

const PAGES: [&str; 8] = [
    "results/run/report.html",
    "results/index.html",
    "map/atlas.html",
    "results/paper/kawai2008.html",
    "book/index.html",
    "book/docs/reading.html",
    "book/docs/families/event-loop.html",
    "book/docs/reference/commands.html",
];

/// Makes the pages, and judges each of them as on a desktop and on a phone. `book` is the folder of the book's pages.
pub fn run(muxbench: &Path, book: &Path) -> anyhow::Result<()> {
    let packages = browser::lighthouse()?;
    let folder = tempfile::tempdir().context("cannot create a folder for pages")?;
    // 3: a busy machine may delay the client, and its page is judged too.
    let make = |line: &str| {
        let mut command = Command::new(muxbench);
        command::output_of(command.args(line.split_whitespace()).current_dir(folder.path()), &[0, 3]).map(drop)
    };
    let pages = ["report results/run --html", "report results/paper --paper kawai2008 --html", "report results --html"];
    [RUN, PAPER, MAP].into_iter().chain(pages).try_for_each(make)?;
    symlink(book, folder.path().join("book"))?;
    let mut judge = Command::new("node");
    judge.arg(root().join("xtask/lighthouse/judge.mjs")).arg(packages).arg(folder.path()).arg(SCORE_MIN).args(PAGES);
    command::step(&mut judge, &format!("; each score must be at least {SCORE_MIN}"))
}
