//! Installation of Debian packages.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::command;

/// A command, an argument for a trial run, its Debian package, and the remedy on other systems.
pub type Tool = (&'static str, &'static str, &'static str, &'static str);

/// Folders that only root has in PATH.
const ROOT_FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin"];

/// Installs the packages of all tools that do not run, with one `apt-get install`.
pub fn require(tools: &[Tool]) -> anyhow::Result<()> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !runs(tool)).collect();
    let packages: BTreeSet<&str> = missing.iter().map(|(_, _, package, _)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.iter().copied().collect::<Vec<_>>().join(" ");
    eprintln!("== installing Debian's {names}");
    for arguments in [vec!["update"], ["--yes", "install"].into_iter().chain(packages).collect()] {
        let mut apt = Command::new("apt-get");
        apt.args(["--quiet", "--option=Acquire::Retries=3", "--option=DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command::run(&mut apt).with_context(|| {
            let remedies: Vec<String> =
                missing.iter().map(|(tool, _, _, remedy)| format!("{tool}: {remedy}")).collect();
            format!(
                "as root, run `apt-get update && apt-get install {names}`; on another system:\n{}",
                remedies.join("\n")
            )
        })?;
    }
    for tool in missing {
        ensure!(runs(tool), "`{}` does not run with {} installed; {}", tool.0, tool.2, tool.3);
    }
    Ok(())
}

/// Returns the path of a command that is in PATH or in root's folders.
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(ROOT_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(tool)).find(|path| path.is_file())
}

/// Returns whether a tool runs. With an argument of two characters, such as `-V`, a tool that fails counts too if it prints
/// something, because `srun` without a configuration prints its version and fails.
fn runs((tool, argument, _, _): &Tool) -> bool {
    let output = find(tool).and_then(|path| Command::new(path).arg(argument).stdin(Stdio::null()).output().ok());
    output.is_some_and(|output| {
        output.status.success() || (argument.len() <= 2 && output.stdout.len() + output.stderr.len() > 0)
    })
}
