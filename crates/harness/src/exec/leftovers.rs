//! Leftovers of killed runs: socket folders, drafts of results, and processes. An environment variable identifies processes in a
//! lab, and a tag identifies processes of external servers. A testbed's network namespaces end with its last process.

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

use netns::surrounding::SOCKET;
use process::stop::POLL_INTERVAL;

/// Subcommands that only a runner starts with `--control`.
const SUBCOMMANDS: &[&str] = &["serve", "load", "idle", "relay"];
/// Programs that, like process 1, adopt processes whose parent died.
const ADOPTERS: &[&str] = &["systemd", "init"];
/// The timeout for killed processes to end. Each first finishes its current system call.
const KILL_MAX: Duration = Duration::from_secs(60);

/// A process or folder whose owner died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// A process whose runner or supervisor died.
    Process {
        /// The process ID.
        pid: i32,
        /// The program, and whether its runner or its supervisor died.
        description: String,
    },
    /// The socket folder or the draft of a dead run.
    Folder(PathBuf),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, description } => write!(f, "process {pid}, {description}"),
            Self::Folder(path) => write!(f, "folder {}, whose run died", path.display()),
        }
    }
}

impl Leftover {
    fn unsupervised(pid: i32, purpose: &'static str) -> Self {
        let program = command_line(pid).and_then(|words| words.into_iter().next()).unwrap_or_default();
        let description = format!("`{}`, of a {purpose} whose supervisor died", program.escape_default());
        Self::Process { pid, description }
    }

    /// Kills the process or removes the folder.
    pub fn remove(&self) -> io::Result<()> {
        let kill = |pid| rustix::process::kill_process(pid, Signal::KILL).map_err(io::Error::from);
        let removed = match self {
            Self::Process { pid, .. } => Pid::from_raw(*pid).map_or(Ok(()), kill),
            Self::Folder(path) => fs::remove_dir_all(path),
        };
        // A leftover that is already gone is no error.
        removed.or_else(|error| match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOENT) => Ok(()),
            _ => Err(error),
        })
    }
}

/// All leftovers on this host.
pub fn find() -> Vec<Leftover> {
    let leftover = |pid| {
        let server_leftover = || unsupervised_tag(pid).map(|_| Leftover::unsupervised(pid, "server"));
        orphan(pid).or_else(|| lab_leftover(pid)).or_else(server_leftover)
    };
    let mut found: Vec<Leftover> = processes().filter_map(leftover).collect();
    found.extend([&std::env::temp_dir(), Path::new("results")].into_iter().flat_map(folders));
    found
}

/// The first part of the name of a hidden folder in which this process prepares results. The folder is a leftover as soon as the
/// process has ended.
pub fn draft_prefix() -> String {
    format!(".muxbench-{}-", std::process::id())
}

/// Kills all processes of an external server whose supervisor died.
pub(crate) fn end_all_of(supervisor: Pid) -> anyhow::Result<()> {
    let deadline = Instant::now() + KILL_MAX;
    // Repeat until no process is left, because a process may start others.
    loop {
        let belongs = |pid: &i32| unsupervised_tag(*pid).is_some_and(|tag| tag.supervisor() == supervisor.as_raw_pid());
        let left: Vec<Leftover> =
            processes().filter(belongs).map(|pid| Leftover::unsupervised(pid, "server")).collect();
        let remove = |it: &Leftover| it.remove().with_context(|| it.to_string());
        let mut errors: Vec<anyhow::Error> = left.iter().filter_map(|it| remove(it).err()).collect();
        if errors.len() == left.len() {
            return errors.pop().map_or(Ok(()), Err);
        }
        ensure!(Instant::now() < deadline, "cannot end {}: it survives SIGKILL", left[0]);
        thread::sleep(POLL_INTERVAL);
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A field of /proc/PID/status.
fn status(process: impl std::fmt::Display, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Whether a process has ended, even if its parent has not waited for it. Other threads may outlive the first thread.
fn has_ended(pid: i32) -> bool {
    status(pid, "State").is_none_or(|state| state.starts_with(['Z', 'X']))
        && status(pid, "Threads").is_none_or(|threads| matches!(&*threads, "0" | "1"))
}

/// Whether a process shares this process's PID namespace. In another namespace, its supervisor's ID belongs to another process.
fn shares_pid_namespace(pid: i32) -> bool {
    let has_one = |pids: Option<String>| pids.is_none_or(|pids| pids.split_whitespace().count() == 1);
    has_one(status(pid, "NSpid")) && has_one(status("self", "NSpid"))
}

/// A muxbench process whose runner died.
fn orphan(pid: i32) -> Option<Leftover> {
    let words = command_line(pid)?;
    let command = runner_subcommand(&words)?;
    let parent: i32 = status(pid, "PPid")?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // In a container the runner itself may be process 1.
    let has_runner = command_line(parent).is_some_and(|words| is_muxbench(&words));
    let is_adopted = parent == 1 || ADOPTERS.contains(&name.trim());
    let description = || format!("`muxbench {command}`, whose runner died");
    (is_adopted && !has_runner).then(|| Leftover::Process { pid, description: description() })
}

/// A process whose testbed's supervisor died, if the process is not in the network namespace of this process.
fn lab_leftover(pid: i32) -> Option<Leftover> {
    let socket = lab_socket(&fs::read(format!("/proc/{pid}/environ")).ok()?)?;
    let supervisor = owner(socket.parent()?)?;
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let is_apart = namespace(&pid.to_string())? != namespace("self")?;
    (shares_pid_namespace(pid) && is_apart && !is_supervised(supervisor, &socket))
        .then(|| Leftover::unsupervised(pid, "lab"))
}

/// The tag of a process whose supervisor died. A later process with the supervisor's ID has another tag.
fn unsupervised_tag(pid: i32) -> Option<ProcessTag> {
    let tag = ProcessTag::read(pid)?;
    let is_supervised = || ProcessTag::read(tag.supervisor()) == Some(tag) && !has_ended(tag.supervisor());
    (shares_pid_namespace(pid) && !has_ended(pid) && !is_supervised()).then_some(tag)
}

/// The socket of the testbed that an environment names.
fn lab_socket(environment: &[u8]) -> Option<PathBuf> {
    let mut variables = environment.split(|byte| *byte == 0);
    let path = variables.find_map(|it| it.strip_prefix(SOCKET.as_bytes())?.strip_prefix(b"="))?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether a testbed's supervisor is alive. A later process with the supervisor's ID would not listen on the socket.
fn is_supervised(supervisor: u32, socket: &Path) -> bool {
    let is_refused =
        || UnixStream::connect(socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    exists(supervisor) && !is_refused()
}

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn command_line(pid: i32) -> Option<Vec<String>> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

fn is_muxbench(words: &[String]) -> bool {
    words.first().and_then(|program| Path::new(program).file_name()).is_some_and(|name| name == "muxbench")
}

fn runner_subcommand(words: &[String]) -> Option<&str> {
    let [_, command, control, ..] = words else { return None };
    (is_muxbench(words) && SUBCOMMANDS.contains(&command.as_str()) && control == "--control").then_some(command)
}

/// Socket folders whose process has ended.
fn folders(parent: &Path) -> Vec<Leftover> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| owner(path).is_some_and(|pid| !exists(pid)) && path.is_dir();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_left).collect();
    paths.sort();
    paths.into_iter().map(Leftover::Folder).collect()
}

/// The process ID in the name of a socket folder or a draft.
fn owner(folder: &Path) -> Option<u32> {
    let name = folder.file_name()?.to_str()?;
    let draft = name.strip_prefix('.');
    let (pid, number) = draft.unwrap_or(name).strip_prefix("muxbench-")?.split_once('-')?;
    (draft.is_some() || number.parse::<u32>().is_ok()).then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixListener;

    #[test]
    fn only_folders_of_ended_processes_are_leftovers() {
        let parent = tempfile::tempdir().unwrap();
        // The ID exceeds the kernel's limit (PID_MAX_LIMIT).
        let gone = "muxbench-4194305-0";
        let alive = format!("muxbench-{}-0", std::process::id());
        for name in [gone, &alive, "muxbench-x-0", "muxbench-4194305", "other-4194305-0"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        fs::write(parent.path().join("muxbench-4194305-1"), "").unwrap();
        let draft = draft_prefix().replace(&std::process::id().to_string(), "4194305") + "a1B";
        fs::create_dir(parent.path().join(&draft)).unwrap();
        let found = folders(parent.path());
        assert_eq!(found, [&draft, gone].map(|name| Leftover::Folder(parent.path().join(name))));
        fs::write(parent.path().join(gone).join("socket"), "").unwrap();
        found.iter().for_each(|it| it.remove().unwrap());
        assert_eq!(folders(parent.path()), []);
        assert!(parent.path().join(alive).exists());
    }

    #[test]
    fn only_runner_subcommands_are_recognised() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(runner_subcommand(&words("/usr/bin/muxbench relay --control")), Some("relay"));
        for other in ["muxbench serve --arch epoll", "muxbench compare --control", "vi serve --control", "muxbench"] {
            assert_eq!(runner_subcommand(&words(other)), None, "{other}");
        }
        let ours = i32::try_from(std::process::id()).unwrap();
        assert_eq!(orphan(ours), None);
    }

    #[test]
    fn testbed_is_supervised_while_its_socket_listens() {
        let folder = tempfile::tempdir().unwrap();
        let ours = std::process::id();
        let socket = folder.path().join(format!("muxbench-{ours}-0")).join("socket");
        fs::create_dir(socket.parent().unwrap()).unwrap();
        let environment = format!("A=1\0MUXBENCH_LAB_HOSTS=/a /b\0MUXBENCH_LAB={}\0B=2\0", socket.display());
        assert_eq!(lab_socket(environment.as_bytes()).as_ref(), Some(&socket));
        assert_eq!(lab_socket(b"MUXBENCH_LAB_HOSTS=/a\0XMUXBENCH_LAB=/b\0"), None);
        assert_eq!(owner(socket.parent().unwrap()), Some(ours));
        // The supervisor exists even if its socket is invisible here.
        assert!(is_supervised(ours, &socket));
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(is_supervised(ours, &socket));
        drop(listener);
        // A child that another test forked may hold the socket a little longer.
        let started = Instant::now();
        while is_supervised(ours, &socket) {
            assert!(started.elapsed() < Duration::from_secs(60), "the socket still listens");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_supervised(4_194_305, &socket));
    }

    #[test]
    fn supervised_processes_are_not_killed() {
        ProcessTag::mark_this_process().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ours = i32::try_from(std::process::id()).unwrap();
        assert_eq!(ProcessTag::read(pid).map(ProcessTag::supervisor), Some(ours));
        assert_eq!(unsupervised_tag(pid), None);
        end_all_of(Pid::from_raw(ours).unwrap()).unwrap();
        assert!(!has_ended(pid));
        child.kill().unwrap();
        while !has_ended(pid) {
            thread::sleep(POLL_INTERVAL);
        }
        child.wait().unwrap();
        assert!(has_ended(pid), "a process that no longer exists has ended");
    }
}
