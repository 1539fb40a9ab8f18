//! Time to write the HTML page of a run of 105 trials, and until it answers a click in a browser.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use xtask::root;

use super::process::{example, muxbench};
use super::spread::{Bound, rounds};
use crate::command;
use crate::environment::browser;

/// Limits in seconds.
const WRITTEN_S: f64 = 3.0;
const ANSWERS_S: f64 = 2.0;

pub(super) fn run(count: usize) -> anyhow::Result<()> {
    let (binary, packages) = (muxbench()?, browser::prepare()?);
    let folder = tempfile::tempdir().context("cannot create a folder for a run")?;
    let run = folder.path().join("run");
    let mut example = example("muxbench-testkit", "store-large-run");
    command::run(example.arg(&run)).context("cannot store the run")?;
    let [written_s, answers_s] = rounds(count, || {
        let started = Instant::now();
        command::run(Command::new(&binary).arg("report").arg(&run).arg("--html"))?;
        let written_s = started.elapsed().as_secs_f64();
        Ok([written_s, answer_s(&packages, &run.join("report.html"))?])
    })?;
    let bytes = std::fs::metadata(run.join("report.html"))?.len();
    println!("a page of 105 trials ({:.1} MB), median of {count} rounds (lowest to highest)", bytes as f64 / 1e6);
    println!("  written         in seconds {}", written_s.check(Bound::AtMost(WRITTEN_S)));
    println!("  answers a click in seconds {}", answers_s.check(Bound::AtMost(ANSWERS_S)));
    Ok(())
}

/// Returns the seconds from opening a page until it answers a click.
fn answer_s(packages: &Path, page: &Path) -> anyhow::Result<f64> {
    let mut node = Command::new("node");
    node.arg(root().join("xtask/browser/speed.mjs")).arg(packages).arg(page);
    let output = node.output().context("cannot start node")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().parse::<f64>() {
        Ok(ms) if output.status.success() && ms.is_finite() => Ok(ms / 1e3),
        _ => bail!("the page did not answer in the browser: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
