//! Chromium, in which tests open pages, and the npm packages that drive it or judge the pages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::root;

use super::debian::{self, Tool};
use crate::command;

pub const TOOLS: &[Tool] = &[
    ("chromium", "--version", "chromium", "install Chromium, as the command `chromium`"),
    ("node", "--version", "nodejs", "install Node.js 18 or newer (https://nodejs.org)"),
    ("npm", "--version", "npm", "install npm, which comes with Node.js"),
];

/// Builds `target/browser` if necessary and returns this folder.
pub fn prepare() -> anyhow::Result<PathBuf> {
    packages("browser")
}

/// Builds `target/lighthouse` if necessary and returns this folder.
#[cfg(feature = "tools")]
pub fn lighthouse() -> anyhow::Result<PathBuf> {
    packages("lighthouse")
}

/// Installs the packages that the folder `xtask/NAME` lists into `target/NAME`.
fn packages(name: &str) -> anyhow::Result<PathBuf> {
    debian::require(TOOLS)?;
    let inputs = ["package.json", "package-lock.json"].map(|file| root().join("xtask").join(name).join(file));
    let build = |folder: &Path| {
        for input in &inputs {
            xtask::write(&folder.join(input.file_name().context("an input has a name")?), xtask::read(input)?)?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder);
        command::run(&mut npm).with_context(|| {
            format!(
                "cannot install the packages of {} into target/{name}; check that npm's registry is reachable (`npm config get \
                 registry`)",
                inputs[1].display()
            )
        })
    };
    command::build_once(name, "made-of", &inputs, |_| true, build)
}
