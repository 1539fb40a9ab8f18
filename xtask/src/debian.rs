//! What is installed when it is missing, and commands whose words are their errors.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

/// Installs a package of Debian; `otherwise` is what to do on another system.
///
/// # Errors
/// When that fails: why, and what to do.
pub fn install(package: &str, otherwise: &str) -> anyhow::Result<()> {
    let remedy = || {
        format!("as root, run `apt-get update && apt-get install {package}`, or {otherwise} in the way of this system")
    };
    for arguments in [["update"].as_slice(), &["--yes", "install", package]] {
        let mut apt = Command::new("apt-get");
        apt.args(["--quiet", "--option=Acquire::Retries=3", "--option=DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        said(&mut apt).with_context(remedy)?;
    }
    Ok(())
}

/// Runs a command.
///
/// # Errors
/// What it said, when it fails.
pub fn said(command: &mut Command) -> anyhow::Result<()> {
    let Output { status, stdout, stderr } = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    if !status.success() {
        let said = [stdout, stderr].concat();
        let said = String::from_utf8_lossy(&said);
        bail!("{} failed ({status}): {}", command.get_program().to_string_lossy(), said.trim());
    }
    Ok(())
}

/// A command, the argument by which it shows that it is there, its package, and what to do on another system.
pub type Tool = (&'static str, &'static str, &'static str, &'static str);

/// Installs what is missing of `tools`.
///
/// # Errors
/// When one is missing and cannot be installed: why, and what to do.
pub fn require(tools: &[Tool]) -> anyhow::Result<()> {
    for (tool, argument, package, otherwise) in tools {
        if let Err(error) = said(Command::new(tool).arg(argument)) {
            eprintln!("{tool}: {error:#}; installing Debian's {package}");
            install(package, otherwise).with_context(|| format!("`{tool}` does not run ({error:#})"))?;
            said(Command::new(tool).arg(argument))
                .with_context(|| format!("`{tool}` does not run with {package} installed; {otherwise}"))?;
        }
    }
    Ok(())
}
