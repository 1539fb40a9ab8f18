//! What is left of runs that were killed, or that ended with the power: folders of their sockets, and processes that did not
//! hear of it. A lab has no names and no files: it goes with the last of its processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

/// Commands that a runner starts.
const STARTED: &[&str] = &["serve", "load", "idle", "relay"];
/// Who adopts processes whose parent has died: these, and process 1.
const ADOPTERS: &[&str] = &["systemd", "init"];

/// Something that nobody owns any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// A process of a runner that has died; what there was of its lab is kept by it.
    Process {
        /// It.
        pid: i32,
        /// What it does.
        command: String,
    },
    /// A folder for the socket of a run that has died.
    Folder(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid}, `muxbench {command}`, whose runner has died"),
            Self::Folder(path) => write!(f, "folder {}, whose run has died", path.display()),
        }
    }
}

impl Leftover {
    /// Ends it, or removes it.
    ///
    /// # Errors
    /// When we may not.
    pub fn remove(&self) -> io::Result<()> {
        let removed = match self {
            Self::Process { pid, .. } => match Pid::from_raw(*pid) {
                Some(pid) => rustix::process::kill_process(pid, Signal::KILL).map_err(io::Error::from),
                None => Ok(()),
            },
            Self::Folder(path) => fs::remove_dir_all(path),
        };
        // What has gone by itself meanwhile is no less gone.
        removed.or_else(|error| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Ok(()),
            _ => Err(error),
        })
    }
}

/// Everything that is left.
pub fn find() -> Vec<Leftover> {
    let mut found: Vec<Leftover> = numbers(Path::new("/proc")).filter_map(orphan).collect();
    found.extend(folders(&std::env::temp_dir()));
    found
}

/// Processes there are.
fn numbers(proc: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn orphan(pid: i32) -> Option<Leftover> {
    let words = words(pid)?;
    let command = started_by_a_runner(&words)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent: i32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // In a container the runner itself may be the first process.
    let is_runner_s = self::words(parent).is_some_and(|words| is_muxbench(&words));
    let is_adopted = parent == 1 || ADOPTERS.contains(&name.trim());
    (is_adopted && !is_runner_s).then(|| Leftover::Process { pid, command: command.to_owned() })
}

/// The command line of a process.
fn words(pid: i32) -> Option<Vec<String>> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn is_muxbench(words: &[String]) -> bool {
    words.first().and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == "muxbench")
}

/// What a process does that only a runner starts.
fn started_by_a_runner(words: &[String]) -> Option<&str> {
    let [_, command, control, ..] = words else { return None };
    (is_muxbench(words) && STARTED.contains(&command.as_str()) && control == "--control").then_some(command)
}

/// Folders of sockets whose process is no more: their names have its number.
fn folders(among: &Path) -> Vec<Leftover> {
    let entries = fs::read_dir(among).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let numbers = name.and_then(|name| name.strip_prefix("muxbench-")?.split_once('-'));
        let numbers = numbers.and_then(|(pid, number)| Some((pid.parse::<u32>().ok()?, number.parse::<u32>().ok()?)));
        numbers.is_some_and(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists()) && path.is_dir()
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_left).collect();
    paths.sort();
    paths.into_iter().map(Leftover::Folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_who_is_gone_are_left_and_no_others() {
        let among = tempfile::tempdir().unwrap();
        // No process has such a number (PID_MAX_LIMIT).
        let gone = "muxbench-4194305-0";
        let alive = format!("muxbench-{}-0", std::process::id());
        for name in [gone, &alive, "muxbench-x-0", "muxbench-4194305", "other-4194305-0"] {
            fs::create_dir(among.path().join(name)).unwrap();
        }
        fs::write(among.path().join("muxbench-4194305-1"), "").unwrap();
        let found = folders(among.path());
        assert_eq!(found, [Leftover::Folder(among.path().join(gone))]);
        fs::write(among.path().join(gone).join("socket"), "").unwrap();
        found[0].remove().unwrap();
        assert_eq!(folders(among.path()), []);
        assert!(among.path().join(alive).exists());
    }

    #[test]
    fn only_what_a_runner_starts_is_its() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(started_by_a_runner(&words("/usr/bin/muxbench relay --control")), Some("relay"));
        for other in ["muxbench serve --arch epoll", "muxbench compare --control", "vi serve --control", "muxbench"] {
            assert_eq!(started_by_a_runner(&words(other)), None, "{other}");
        }
        let ours = i32::try_from(std::process::id()).unwrap();
        assert_eq!(orphan(ours), None);
    }
}
