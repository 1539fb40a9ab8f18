//! A picture of a run: the report of its first workload, as a terminal of 80 columns shows it, as SVG.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::root;

use crate::command;
use crate::environment::python;

const COLUMNS: &str = "80";

/// Draws a run as a terminal shows it
#[derive(clap::Args, Debug)]
pub struct Picture {
    /// Folder of the run
    run: PathBuf,
    /// SVG file
    #[arg(long, value_name = "FILE", default_value = "docs/compare.svg")]
    output: PathBuf,
}

/// Draws the report that `muxbench` prints for the run.
pub fn draw(picture: &Picture, muxbench: &Path) -> anyhow::Result<()> {
    let header: serde_json::Value =
        serde_json::from_str(&xtask::read(&picture.run.join("run.json"))?).context("run.json")?;
    let words = header["command"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).skip(1);
    // Readers have the program in another folder.
    let line = ["muxbench"].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let mut report = Command::new(muxbench);
    report.arg("report").arg(&picture.run);
    report.env("COLUMNS", COLUMNS).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
    let text = command::output(&mut report)?;
    let first = text.split("\n\n").next().unwrap_or_default();
    let shown = tempfile::NamedTempFile::new()?;
    xtask::write(shown.path(), format!("$ {line}\n{first}\n"))?;
    let mut draw = Command::new(python::prepare()?);
    draw.arg(root().join("xtask/picture.py")).args([&line, COLUMNS]).arg(root().join(&picture.output));
    let status = draw.stdin(File::open(shown.path())?).status().context("cannot run Python")?;
    ensure!(status.success(), "xtask/picture.py failed ({status})");
    Ok(())
}
