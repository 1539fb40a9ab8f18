//! What is left of runs that were killed, or that ended with the power: folders of their sockets, and processes that did not
//! hear of it. A lab has no names: it goes with the last of its processes. Those of `muxbench lab` may be anything, and know by
//! their environment whose they are; those of somebody else's server, by a badge.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal};
use server::ProcessTag;

use crate::netns::surrounding::SOCKET;
use crate::process::stop::POLL_INTERVAL;

/// Commands that a runner starts.
const STARTED: &[&str] = &["serve", "load", "idle", "relay"];
/// Who adopts processes whose parent has died: these, and process 1.
const ADOPTERS: &[&str] = &["systemd", "init"];
/// What killing may take: a process in the middle of a system call ends after it.
const KILL_MAX: Duration = Duration::from_secs(60);

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
    /// A process that came of somebody else's command, which we kept.
    Kept {
        /// It.
        pid: i32,
        /// Its program.
        program: String,
        /// What the command was kept as: a lab's, if the process is on one of its hosts, or a server.
        what: &'static str,
    },
    /// A folder for the socket of a run that has died.
    Folder(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid}, `muxbench {command}`, whose runner has died"),
            Self::Kept { pid, program, what } => {
                write!(f, "process {pid}, `{}`, of a {what} whose keeper has died", program.escape_default())
            }
            Self::Folder(path) => write!(f, "folder {}, whose run has died", path.display()),
        }
    }
}

impl Leftover {
    fn kept(pid: i32, what: &'static str) -> Self {
        Self::Kept { pid, program: words(pid).and_then(|words| words.into_iter().next()).unwrap_or_default(), what }
    }

    /// Ends it, or removes it.
    ///
    /// # Errors
    /// When we may not.
    pub fn remove(&self) -> io::Result<()> {
        let removed = match self {
            Self::Process { pid, .. } | Self::Kept { pid, .. } => match Pid::from_raw(*pid) {
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
    let of_process = |pid| {
        let of_server = || lost(pid).map(|_| Leftover::kept(pid, "server"));
        orphan(pid).or_else(|| of_lab(pid)).or_else(of_server)
    };
    let mut found: Vec<Leftover> = numbers().filter_map(of_process).collect();
    found.extend(folders(&std::env::temp_dir()));
    found
}

/// Ends all that came of somebody else's server once its keeper has died.
///
/// # Errors
/// When we may not, or something does not end.
pub(crate) fn end_all_of(keeper: Pid) -> anyhow::Result<()> {
    let deadline = Instant::now() + KILL_MAX;
    // Again, until none is left: they may start others meanwhile.
    loop {
        let is_its = |pid: &i32| lost(*pid).is_some_and(|badge| badge.supervisor() == keeper.as_raw_pid());
        let left: Vec<Leftover> = numbers().filter(is_its).map(|pid| Leftover::kept(pid, "server")).collect();
        let remove = |it: &Leftover| it.remove().with_context(|| it.to_string());
        let mut refused: Vec<anyhow::Error> = left.iter().filter_map(|it| remove(it).err()).collect();
        if refused.len() == left.len() {
            return refused.pop().map_or(Ok(()), Err);
        }
        ensure!(Instant::now() < deadline, "{}: it does not end, though killed", left[0]);
        thread::sleep(POLL_INTERVAL);
    }
}

/// Processes there are.
fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What /proc/PID/status says.
fn status(process: impl std::fmt::Display, what: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a process has ended, awaited or not. One whose first thread has may have others.
fn has_ended(pid: i32) -> bool {
    status(pid, "State").is_none_or(|state| state.starts_with(['Z', 'X']))
        && status(pid, "Threads").is_none_or(|threads| matches!(&*threads, "0" | "1"))
}

/// Whether numbers mean the same to a process as to us, and in /proc: in another PID namespace that of a keeper is another's, or
/// nobody's.
fn is_numbered_as_we(pid: i32) -> bool {
    let has_one = |pids: Option<String>| pids.is_none_or(|pids| pids.split_whitespace().count() == 1);
    has_one(status(pid, "NSpid")) && has_one(status("self", "NSpid"))
}

fn orphan(pid: i32) -> Option<Leftover> {
    let words = words(pid)?;
    let command = started_by_a_runner(&words)?;
    let parent: i32 = status(pid, "PPid")?.parse().ok()?;
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
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let is_elsewhere = namespace(&pid.to_string())? != namespace("self")?;
    (is_numbered_as_we(pid) && is_elsewhere && !is_kept(keeper, &socket)).then(|| Leftover::kept(pid, "lab"))
}

/// The badge of a process whose keeper has died. Its keeper's number may be another's by now, which has another badge, or none.
fn lost(pid: i32) -> Option<ProcessTag> {
    let badge = ProcessTag::read(pid)?;
    let is_kept = || ProcessTag::read(badge.supervisor()) == Some(badge) && !has_ended(badge.supervisor());
    (is_numbered_as_we(pid) && !has_ended(pid) && !is_kept()).then_some(badge)
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
        // A child that another test forks meanwhile may hold it a little longer.
        let started = Instant::now();
        while is_kept(ours, &socket) {
            assert!(started.elapsed() < Duration::from_secs(60), "another has its keeper's number");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_kept(4_194_305, &socket));
    }

    #[test]
    fn what_somebody_keeps_is_not_ended() {
        ProcessTag::mark_this_process().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ours = i32::try_from(std::process::id()).unwrap();
        assert_eq!(ProcessTag::read(pid).map(ProcessTag::supervisor), Some(ours));
        assert_eq!(lost(pid), None);
        end_all_of(Pid::from_raw(ours).unwrap()).unwrap();
        assert!(!has_ended(pid));
        child.kill().unwrap();
        while !has_ended(pid) {
            thread::sleep(POLL_INTERVAL);
        }
        child.wait().unwrap();
        assert!(has_ended(pid), "nor is it there");
    }
}
