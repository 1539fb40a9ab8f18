//! A browser that tests open pages in: Debian's Chromium, and in `target/browser` what drives it and what judges pages, by npm,
//! made when it is missing or its lock file has changed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::debian::{self, Tool, said};
use xtask::root;

/// The variable that tells tests where the folder is.
pub const VARIABLE: &str = "MUXBENCH_BROWSER";

/// What there is to run: the command that shows it is there, its package, and what to do on another system.
const TOOLS: &[Tool] = &[
    ("chromium", "--version", "chromium", "install Chromium, as the command `chromium`"),
    ("node", "--version", "nodejs", "install Node.js 18 or newer (https://nodejs.org)"),
    ("npm", "--version", "npm", "install npm, which comes with Node.js"),
];

/// What npm makes its folder of.
const FILES: &[&str] = &["package.json", "package-lock.json"];

/// Makes the folder unless it is there, and gives it.
///
/// # Errors
/// When a tool or a package is missing and cannot be installed: why, and what to do.
pub fn prepare() -> anyhow::Result<PathBuf> {
    let (sources, folder) = (root().join("xtask/browser"), root().join("target/browser"));
    fs::create_dir_all(&folder).context("cannot make target/browser")?;
    // Two test commands at once would take each other's packages apart.
    let lock = File::create(root().join("target/browser.lock")).context("cannot make target/browser.lock")?;
    lock.lock().context("cannot lock target/browser.lock")?;
    debian::require(TOOLS)?;
    // Written last: with it, the folder is whole.
    let mark = folder.join("made-of");
    let mut made_of = String::new();
    for file in FILES {
        let path = sources.join(file);
        made_of += &fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    }
    if fs::read_to_string(&mark).is_ok_and(|of| of == made_of) {
        return Ok(folder);
    }
    eprintln!("== preparing target/browser (playwright-core, axe-core, plotly.js)");
    for file in FILES {
        fs::copy(sources.join(file), folder.join(file))
            .with_context(|| format!("cannot copy {file} to target/browser"))?;
    }
    let mut npm = Command::new("npm");
    said(npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder)).with_context(|| {
        format!(
            "cannot install the packages of {} into target/browser; is npm's registry reachable (see `npm config get \
             registry`)?",
            sources.join("package-lock.json").display()
        )
    })?;
    fs::write(&mark, made_of).with_context(|| mark.display().to_string())?;
    Ok(folder)
}
