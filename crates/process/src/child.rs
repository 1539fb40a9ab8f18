//! Child processes that exchange lines with this process: `serve`, `load`, `idle` and `relay`, with `--control`.
//!
//! A child ends when its `Child` is dropped, and when this process dies: either the system kills the child
//! ([`server::platform::die_with_parent`]), or its standard input ends.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::secrets::remove_secrets;
use crate::stop::{POLL_INTERVAL, Stop};

/// The timeout for a child to end after its standard input was closed, and for its standard error to end after the child. A
/// grandchild may keep standard error open.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const STDERR_BYTES_MAX: u64 = 4096;

/// A process that receives lines and answers with events of type `E`.
pub trait Process<E> {
    /// Sends a line. Returns [`Process::end_error`] if the process has ended.
    fn send(&mut self, line: &str) -> anyhow::Result<()>;

    /// The next event; `None` after `deadline`. Returns [`Process::end_error`] if the process has ended.
    fn next_event(&mut self, deadline: Instant) -> anyhow::Result<Option<E>>;

    /// Waits as [`Process::next_event`] does. Returns an error if `stop` aborts the wait.
    fn wait_event(&mut self, stop: &Stop, deadline: Instant) -> anyhow::Result<Option<E>> {
        loop {
            stop.check()?;
            let event = self.next_event(deadline.min(Instant::now() + POLL_INTERVAL))?;
            if event.is_some() || Instant::now() >= deadline {
                return Ok(event);
            }
        }
    }

    /// Whether the process has ended.
    fn has_ended(&mut self) -> bool;

    /// Whether the process has ended with a status other than 0, or by a signal that [`Process::kill`] did not send.
    fn has_failed(&mut self) -> bool;

    /// Ends the process, and returns an error with its exit status and standard error.
    fn end_error(&mut self) -> anyhow::Error;

    /// Ends the process, and returns its exit status and standard error.
    fn exit_report(&mut self) -> String;

    /// Closes the process's input and waits until the process has ended. Kills the process after a timeout.
    fn end(&mut self);

    /// Kills the process.
    fn kill(&mut self);

    /// The process ID. The system may reuse it after the end of the process.
    #[cfg(target_os = "linux")]
    fn pid(&self) -> Pid;
}

/// A child process that sends events of type `E`.
pub struct Child<E> {
    /// The name in errors.
    pub name: String,
    /// Other threads can kill the process with a clone.
    pub handle: ProcessHandle,
    /// Other parts of this process can send lines with a clone.
    pub input: Input,
    lines: mpsc::Receiver<String>,
    /// Receives the standard error when it has ended or exceeds its limit.
    stderr: mpsc::Receiver<String>,
    stderr_text: String,
    has_kill_been_sent: bool,
    event: PhantomData<E>,
}

/// The children that may still run.
static ALL: Mutex<Vec<Weak<Mutex<std::process::Child>>>> = Mutex::new(Vec::new());

/// Sends a signal to all children and their process groups, which signals of the terminal do not reach.
pub fn signal_all(signal: Signal) {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().filter_map(Weak::upgrade).for_each(|child| ProcessHandle(child).signal(signal));
}

/// A process that several threads may kill. The lock prevents a signal to a process ID that has been reused.
#[derive(Clone)]
pub struct ProcessHandle(Arc<Mutex<std::process::Child>>);

impl ProcessHandle {
    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        // The value is valid even if a thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process, unless it has ended.
    pub fn kill(&self) {
        let _ = self.lock().kill();
    }

    /// Sends a signal to the process group of the process, unless the process has ended.
    pub fn signal(&self, signal: Signal) {
        let mut child = self.lock();
        if matches!(child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process_group(Pid::from_child(&child), signal);
        }
    }

    fn status(&self) -> Option<ExitStatus> {
        self.lock().try_wait().ok().flatten()
    }
}

/// The standard input of a process; empty once it is closed.
#[derive(Clone)]
pub struct Input(Arc<Mutex<Option<ChildStdin>>>);

impl Input {
    fn lock(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a line. A process that has ended is a broken pipe.
    pub fn send(&self, line: &str) -> std::io::Result<()> {
        let mut input = self.lock();
        writeln!(input.as_mut().ok_or_else(|| std::io::Error::other("its input is closed"))?, "{line}")
    }
}

fn spawn_thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().spawn(run).map(drop)
}

impl<E: DeserializeOwned> Child<E> {
    /// Starts `command` and sends it its configuration. `name` appears in errors.
    pub fn start(
        name: impl Into<String>,
        mut command: Command,
        configuration: &impl Serialize,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C at the terminal reaches only this process, which then ends its children.
        command.process_group(0);
        remove_secrets(&mut command);
        let failure = format!("cannot start {command:?}");
        let mut process = server::external::spawn::spawn(command).context(failure)?;
        let (line_sender, lines) = mpsc::channel();
        let output = process.stdout.take().context("standard output is piped")?;
        let (sender, stderr) = mpsc::channel();
        let mut errors = process.stderr.take().context("standard error is piped")?;
        let read_lines = move || {
            let _ = BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| line_sender.send(line));
        };
        let read_errors = move || {
            let mut bytes = Vec::new();
            let _ = errors.by_ref().take(STDERR_BYTES_MAX).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).trim().to_owned());
            // Read the rest too, so that the child never blocks.
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
        };
        if let Err(error) = spawn_thread(read_lines).and_then(|()| spawn_thread(read_errors)) {
            let _ = process.kill().and_then(|()| process.wait());
            bail!(
                "cannot start a thread: {error}; raise the limit of processes (ulimit -u, the cgroup's pids.max) or the memory"
            );
        }
        let input = Input(Arc::new(Mutex::new(process.stdin.take())));
        let handle = ProcessHandle(Arc::new(Mutex::new(process)));
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|child| child.strong_count() > 0);
        all.push(Arc::downgrade(&handle.0));
        drop(all);
        let mut child = Self {
            name: name.into(),
            input,
            handle,
            lines,
            stderr,
            stderr_text: String::new(),
            has_kill_been_sent: false,
            event: PhantomData,
        };
        child.send(&serde_json::to_string(configuration)?)?;
        Ok(child)
    }

    fn end_status(&mut self) -> String {
        *self.input.lock() = None;
        let deadline = Instant::now() + END_TIMEOUT;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        if !self.has_ended() {
            Process::kill(self);
        }
        let ended = self.handle.lock().wait();
        ended.map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl<E: DeserializeOwned> Process<E> for Child<E> {
    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        match self.input.send(line) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.end_error()),
            outcome => outcome.with_context(|| format!("cannot send to {}", self.name)),
        }
    }

    fn next_event(&mut self, deadline: Instant) -> anyhow::Result<Option<E>> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => serde_json::from_str(&line)
                .map(Some)
                .with_context(|| format!("{} sent a line that is not an event: {line:.200}", self.name)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.end_error()),
        }
    }

    fn has_ended(&mut self) -> bool {
        self.handle.status().is_some()
    }

    fn has_failed(&mut self) -> bool {
        !self.has_kill_been_sent && self.handle.status().is_some_and(|status| !status.success())
    }

    fn end_error(&mut self) -> anyhow::Error {
        let report = self.exit_report();
        anyhow!("{} ended: {report}", self.name)
    }

    fn exit_report(&mut self) -> String {
        let status = self.end_status();
        // The reader thread may still be reading the last output.
        if let Ok(text) = self.stderr.recv_timeout(END_TIMEOUT) {
            self.stderr_text = text;
        }
        match self.stderr_text.as_str() {
            "" => status,
            text => format!("{status}: {text}"),
        }
    }

    fn end(&mut self) {
        self.end_status();
    }

    fn kill(&mut self) {
        self.has_kill_been_sent = true;
        self.handle.kill();
    }

    #[cfg(target_os = "linux")]
    fn pid(&self) -> Pid {
        Pid::from_child(&self.handle.lock())
    }
}

impl<E> Drop for Child<E> {
    fn drop(&mut self) {
        self.handle.kill();
        let _ = self.handle.lock().wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child<u32> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Child::start("the shell", command, &42).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn suspended_children_continue_later() {
        // The test's name is unique, so that no other test is suspended.
        let child = shell("while :; do :; done");
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid().as_raw_pid())).unwrap();
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
        };
        let becomes = |is: fn(char) -> bool| {
            (0..3_000).any(|_| is(state()) || (thread::sleep(Duration::from_millis(10)), false).1)
        };
        child.handle.signal(Signal::STOP);
        assert!(becomes(|state| state == 'T'));
        child.handle.signal(Signal::CONT);
        assert!(becomes(|state| state != 'T'));
    }

    #[test]
    fn child_receives_lines_and_answers() {
        let mut child = shell("cat");
        assert_eq!(child.next_event(soon()).unwrap(), Some(42), "the configuration comes first");
        child.send("43").unwrap();
        assert_eq!(child.next_event(soon()).unwrap(), Some(43));
        assert_eq!(child.next_event(Instant::now()).unwrap(), None, "the deadline has passed");
        let stop = Stop::default();
        assert_eq!(child.wait_event(&stop, Instant::now()).unwrap(), None);
        child.send("44").unwrap();
        assert_eq!(child.wait_event(&stop, soon()).unwrap(), Some(44));
        stop.abort();
        assert_eq!(child.wait_event(&stop, soon()).unwrap_err().to_string(), "stopped");
        let report = child.exit_report();
        assert!(report.contains("exit status: 0"), "the child ends when its input ends: {report}");
        assert!(child.send("44").is_err());
    }

    #[test]
    fn child_environment_has_no_secret_of_the_job() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; env | grep -c =a-key"]);
        for name in ["MUXBENCH_SECRET", "OMPI_MCA_orte_precondition_transports", "SLURM_JWT"] {
            command.env(name, "a-key");
        }
        let mut child: Child<u32> = Child::start("the shell", command, &42).unwrap();
        assert_eq!(child.next_event(soon()).unwrap(), Some(0));
    }

    #[test]
    fn failed_child_is_reported_with_status_and_stderr() {
        let mut child = shell("read line; echo 'no memory' >&2; exit 7");
        let error = child.next_event(soon()).unwrap_err().to_string();
        assert!(error.contains("the shell ended") && error.contains('7') && error.contains("no memory"), "{error}");
        assert!(child.has_ended());
        let error = format!("{:#}", shell("read line; echo nonsense").next_event(soon()).unwrap_err());
        assert!(error.contains("not an event: nonsense"), "{error}");
        let nothing = Child::<u32>::start("nothing", Command::new("/nonexistent"), &1);
        assert!(nothing.err().unwrap().to_string().contains("/nonexistent"));
    }

    #[test]
    fn sending_to_a_failed_child_reports_its_status() {
        let mut child = shell("read line; echo 'no licence' >&2; exec 0<&-; echo 1; exit 8");
        assert_eq!(child.next_event(soon()).unwrap(), Some(1), "the child has closed its input");
        // A child that another test forks meanwhile may hold the other end a little longer.
        let mut sends = std::iter::repeat_with(|| {
            thread::sleep(Duration::from_millis(1));
            child.send("43")
        });
        let error =
            sends.by_ref().take(20_000).find_map(Result::err).expect("the child has closed its input").to_string();
        assert!(error.contains("the shell ended") && error.contains('8') && error.contains("no licence"), "{error}");
    }

    #[test]
    fn child_that_fails_or_is_killed_by_others_is_recognised() {
        for (script, has_failed) in
            [("read line; kill -KILL $$", true), ("read line; exit 3", true), ("read line", false)]
        {
            let mut child = shell(script);
            child.end();
            assert_eq!(child.has_failed(), has_failed, "{script}");
        }
        let mut child = shell("read line; echo 1; exec sleep 1000");
        assert_eq!(child.next_event(soon()).unwrap(), Some(1));
        assert!(!child.has_failed());
        child.kill();
        child.end();
        assert!(!child.has_failed(), "a kill by this process does not count");
    }

    #[test]
    fn handle_kills_its_child_but_no_later_process() {
        let mut child = shell("read line; echo 1; exec sleep 1000");
        assert_eq!(child.next_event(soon()).unwrap(), Some(1));
        let handle = child.handle.clone();
        let other = thread::spawn(move || {
            handle.kill();
            handle
        });
        assert!(child.next_event(soon()).unwrap_err().to_string().contains("signal: 9"));
        let handle = other.join().unwrap();
        // The child has been waited for, so `kill` must send no signal: sending one to its process ID would be an error.
        handle.lock().kill().unwrap();
        assert!(child.has_failed());
    }

    #[test]
    fn child_outlives_the_thread_that_started_it() {
        let mut child = thread::spawn(|| shell("cat")).join().unwrap();
        assert_eq!(child.next_event(soon()).unwrap(), Some(42));
        // Wait for a signal that the end of the thread may have sent.
        thread::sleep(Duration::from_millis(100));
        child.send("43").unwrap();
        assert_eq!(child.next_event(soon()).unwrap(), Some(43));
    }

    #[test]
    fn dropped_child_is_killed() {
        let mut child = shell("echo $$; exec sleep 1000");
        let pid = child.next_event(soon()).unwrap().unwrap();
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_ok());
        assert!(!child.has_ended());
        drop(child);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
