//! What is left of runs that were killed, or that ended with the power: folders of their sockets, and processes that did not
//! hear of it. A lab has no names: it goes with the last of its processes. Those of `muxbench lab` may be anything, and know by
//! their environment whose they are.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};

use crate::network::surrounding::SOCKET;

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
    /// A process of a command that `muxbench lab` kept a lab for, and that is on one of its hosts.
    OfLab {
        /// It.
        pid: i32,
        /// Its program.
        program: String,
    },
    /// A folder for the socket of a run that has died.
    Folder(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid}, `muxbench {command}`, whose runner has died"),
            Self::OfLab { pid, program } => {
                write!(f, "process {pid}, `{}`, of a lab whose keeper has died", program.escape_default())
            }
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
            Self::Process { pid, .. } | Self::OfLab { pid, .. } => match Pid::from_raw(*pid) {
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
    let mut found: Vec<Leftover> =
        numbers(Path::new("/proc")).filter_map(|pid| orphan(pid).or_else(|| of_lab(pid))).collect();
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

/// A process that was started in a lab that nobody keeps any more, and is on another host than we.
fn of_lab(pid: i32) -> Option<Leftover> {
    let socket = lab_of(&fs::read(format!("/proc/{pid}/environ")).ok()?)?;
    let keeper = maker(socket.parent()?)?;
    let namespace = |process: &str, name: &str| fs::read_link(format!("/proc/{process}/ns/{name}")).ok();
    let process = pid.to_string();
    // Elsewhere the number of its keeper is another's, or nobody's.
    let is_ours_to_know = namespace(&process, "pid") == namespace("self", "pid");
    let is_elsewhere = namespace(&process, "net")? != namespace("self", "net")?;
    let program = || words(pid)?.into_iter().next();
    (is_ours_to_know && is_elsewhere && !is_kept(keeper, &socket))
        .then(|| Leftover::OfLab { pid, program: program().unwrap_or_default() })
}

/// The socket of the lab that an environment names.
fn lab_of(environment: &[u8]) -> Option<PathBuf> {
    let mut variables = environment.split(|byte| *byte == 0);
    let path = variables.find_map(|it| it.strip_prefix(SOCKET.as_bytes())?.strip_prefix(b"="))?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether somebody keeps the lab of that socket. Its keeper's number may be another's by now, but nobody listens then.
fn is_kept(keeper: u32, socket: &Path) -> bool {
    let is_refused = || UnixStream::connect(socket).is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused);
    is_there(keeper) && !is_refused()
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
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
    let is_left = |path: &PathBuf| maker(path).is_some_and(|pid| !is_there(pid)) && path.is_dir();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_left).collect();
    paths.sort();
    paths.into_iter().map(Leftover::Folder).collect()
}

/// The number of the process that made a folder for sockets, from its name.
fn maker(folder: &Path) -> Option<u32> {
    let (pid, number) = folder.file_name()?.to_str()?.strip_prefix("muxbench-")?.split_once('-')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixListener;

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

    #[test]
    fn a_lab_is_known_by_its_socket_and_kept_while_somebody_listens() {
        let folder = tempfile::tempdir().unwrap();
        let ours = std::process::id();
        let socket = folder.path().join(format!("muxbench-{ours}-0")).join("socket");
        fs::create_dir(socket.parent().unwrap()).unwrap();
        let environment = format!("A=1\0MUXBENCH_LAB_HOSTS=/a /b\0MUXBENCH_LAB={}\0B=2\0", socket.display());
        assert_eq!(lab_of(environment.as_bytes()).as_ref(), Some(&socket));
        assert_eq!(lab_of(b"MUXBENCH_LAB_HOSTS=/a\0XMUXBENCH_LAB=/b\0"), None);
        assert_eq!(maker(socket.parent().unwrap()), Some(ours));
        // Where its socket is not to be seen, its keeper is there all the same.
        assert!(is_kept(ours, &socket));
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(is_kept(ours, &socket));
        drop(listener);
        assert!(!is_kept(ours, &socket), "another has its keeper's number");
        assert!(!is_kept(4_194_305, &socket));
    }
}
