//! Installation of Debian packages.

use std::process::Command;

use anyhow::Context;

use crate::command;

/// A command, an argument with which it succeeds, its package, and the remedy on other systems.
pub type Tool = (&'static str, &'static str, &'static str, &'static str);

/// Installs a package; `alternative` is the remedy on other systems.
pub fn install(package: &str, alternative: &str) -> anyhow::Result<()> {
    for arguments in [["update"].as_slice(), &["--yes", "install", package]] {
        let mut apt = Command::new("apt-get");
        apt.args(["--quiet", "--option=Acquire::Retries=3", "--option=DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command::run(&mut apt).with_context(|| {
            format!("as root, run `apt-get update && apt-get install {package}`; on another system, {alternative}")
        })?;
    }
    Ok(())
}

/// Installs the tools that do not run.
pub fn require(tools: &[Tool]) -> anyhow::Result<()> {
    for (tool, argument, package, alternative) in tools {
        if let Err(error) = command::run(Command::new(tool).arg(argument)) {
            eprintln!("{tool}: {error:#}; installing Debian's {package}");
            install(package, alternative).with_context(|| format!("`{tool}` does not run ({error:#})"))?;
            command::run(Command::new(tool).arg(argument))
                .with_context(|| format!("`{tool}` does not run with {package} installed; {alternative}"))?;
        }
    }
    Ok(())
}
