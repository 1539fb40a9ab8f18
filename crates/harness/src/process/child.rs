//! A process of ours that speaks JSON lines: `serve --control` and `load --control`. It ends when this is dropped, and
//! when we die; where the system does not see to that ([`server::platform::die_with_parent`]), because its input ends.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fleet::launcher;
use crate::process::stop::{LOOK, Stop};

/// How long a child may take to end once it is told to.
const END_MAX: Duration = Duration::from_secs(5);
/// After its end, what it complained of is waited for so long: a child of its own may keep its standard error open.
const COMPLAINT_PATIENCE: Duration = Duration::from_secs(5);
/// As much as is kept of what a child says on standard error.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// Keeps from a command what only ranks of a job are to know. External servers get what a child of ours gets.
pub(crate) fn without_secrets(command: &mut Command) {
    let given = command.get_envs().map(|(name, _)| name.to_owned());
    let all: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).chain(given).collect();
    for name in all.iter().filter(|name| launcher::is_secret(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// A child that says `E`, one a line.
pub(crate) struct Child<E> {
    name: String,
    process: Handle,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    /// What it said on standard error, once that has ended or is enough.
    complaints: mpsc::Receiver<String>,
    complaint: String,
    /// We have killed it.
    is_given_up: bool,
    event: PhantomData<E>,
}

/// A process, which several know of: once it was waited for its number is somebody else's, and nothing is sent to that.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Mutex<std::process::Child>>);

impl Handle {
    fn get(&self) -> MutexGuard<'_, std::process::Child> {
        // Whoever panicked with it has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills it, if it has not ended.
    pub(crate) fn kill(&self) {
        let _ = self.get().kill();
    }
}

impl<E: DeserializeOwned> Child<E> {
    /// Starts `command` and gives it its configuration.
    pub(crate) fn start(
        name: impl Into<String>,
        mut command: Command,
        configuration: &impl Serialize,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal is for us: we end our children in order.
        command.process_group(0);
        without_secrets(&mut command);
        let what = format!("{command:?}");
        let mut process = server::spawn::spawn(command).with_context(|| format!("cannot start {what}"))?;
        let (sender, lines) = mpsc::channel();
        let output = process.stdout.take().context("standard output is piped")?;
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let (complains, complaints) = mpsc::channel();
        let errors = process.stderr.take().context("standard error is piped")?;
        thread::spawn(move || {
            let mut errors = BufReader::new(errors);
            let mut bytes = Vec::new();
            let _ = (&mut errors).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = complains.send(String::from_utf8_lossy(&bytes).trim().to_owned());
            // There is no more to wait for.
            drop(complains);
            // The rest is read, so that the child never waits for us, and dropped.
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
        });
        let input = process.stdin.take();
        let (name, complaint) = (name.into(), String::new());
        let (process, event) = (Handle(Arc::new(Mutex::new(process))), PhantomData);
        let mut child = Self { name, process, input, lines, complaints, complaint, is_given_up: false, event };
        child.say(&serde_json::to_string(configuration)?)?;
        Ok(child)
    }

    /// What it is called.
    pub(crate) fn called(&self) -> &str {
        &self.name
    }

    /// Its number; once it was waited for, somebody else's.
    #[cfg(target_os = "linux")]
    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process.get())
    }

    /// Its process, for others who may kill it.
    pub(crate) fn handle(&self) -> Handle {
        self.process.clone()
    }

    /// Writes a line to it. One that ended is told of here as by [`Child::next`]: which of the two sees it first is chance.
    pub(crate) fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("it was told to end")?;
        match writeln!(input, "{line}").and_then(|()| input.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.gone()),
            said => said.with_context(|| format!("{} cannot be told anything", self.name)),
        }
    }

    /// The next thing it says; `None` when `deadline` passes first.
    pub(crate) fn next(&mut self, deadline: Instant) -> anyhow::Result<Option<E>> {
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(patience) {
            Ok(line) => {
                let event = serde_json::from_str(&line)
                    .with_context(|| format!("{} said what is not understood: {line:.200}", self.name))?;
                Ok(Some(event))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
        }
    }

    /// The same; that an end is wanted meanwhile is an error.
    pub(crate) fn next_unless(&mut self, stop: &Stop, deadline: Instant) -> anyhow::Result<Option<E>> {
        loop {
            stop.check()?;
            let said = self.next(deadline.min(Instant::now() + LOOK))?;
            if said.is_some() || Instant::now() >= deadline {
                return Ok(said);
            }
        }
    }

    /// Whether it has ended, told or not.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.process.get().try_wait(), Ok(Some(_)))
    }

    /// Whether it has ended by a signal that was not ours.
    pub(crate) fn was_killed(&mut self) -> bool {
        !self.is_given_up && matches!(self.process.get().try_wait(), Ok(Some(status)) if status.signal().is_some())
    }

    /// That it has ended, how, and what it complained of.
    pub(crate) fn gone(&mut self) -> anyhow::Error {
        let words = self.last_words();
        anyhow!("{} ended: {words}", self.name)
    }

    /// How it ended, and what it complained of.
    pub(crate) fn last_words(&mut self) -> String {
        let status = self.end();
        // Its standard error closed with it; the thread that reads it may still have to.
        if let Ok(complaint) = self.complaints.recv_timeout(COMPLAINT_PATIENCE) {
            self.complaint = complaint;
        }
        match self.complaint.as_str() {
            "" => status,
            complaint => format!("{status}: {complaint}"),
        }
    }

    /// Tells it to end, waits, and kills it if it does not.
    pub(crate) fn end(&mut self) -> String {
        self.input = None;
        let deadline = Instant::now() + END_MAX;
        loop {
            let ended = self.process.get().try_wait();
            match ended {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
                _ => {
                    self.kill();
                    let ended = self.process.get().wait();
                    return ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                }
            }
        }
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.is_given_up = true;
        self.process.kill();
    }
}

impl<E> Drop for Child<E> {
    fn drop(&mut self) {
        self.process.kill();
        let _ = self.process.get().wait();
    }
}

/// Makes a script that can be run. It is written by a process of its own, so that no other that we start meanwhile has it open.
#[cfg(test)]
pub(crate) fn write_program(path: &std::path::Path, script: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "700", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut process = install.spawn().unwrap();
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(process.wait().unwrap().success());
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
    fn it_is_configured_hears_and_answers() {
        let mut child = shell("cat");
        assert_eq!(child.next(soon()).unwrap(), Some(42));
        child.say("43").unwrap();
        assert_eq!(child.next(soon()).unwrap(), Some(43));
        assert_eq!(child.next(Instant::now()).unwrap(), None, "nobody waits longer than told");
        let stop = Stop::default();
        assert_eq!(child.next_unless(&stop, Instant::now()).unwrap(), None);
        child.say("44").unwrap();
        assert_eq!(child.next_unless(&stop, soon()).unwrap(), Some(44));
        stop.ask_now();
        assert_eq!(child.next_unless(&stop, soon()).unwrap_err().to_string(), "stopped");
        assert!(child.end().contains("exit status: 0"), "it ends with its input");
        assert!(child.say("44").is_err());
    }

    #[test]
    fn child_has_no_key_of_the_job_in_its_environment() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; env | grep -c =a-key"]);
        for name in ["MUXBENCH_SECRET", "OMPI_MCA_orte_precondition_transports", "SLURM_JWT"] {
            command.env(name, "a-key");
        }
        let mut child: Child<u32> = Child::start("the shell", command, &42).unwrap();
        assert_eq!(child.next(soon()).unwrap(), Some(0));
    }

    #[test]
    fn how_it_went_wrong_is_told() {
        let mut child = shell("read line; echo 'no memory' >&2; exit 7");
        let error = child.next(soon()).unwrap_err().to_string();
        assert!(error.contains("the shell ended") && error.contains('7') && error.contains("no memory"), "{error}");
        assert!(child.has_ended());
        let error = format!("{:#}", shell("read line; echo nonsense").next(soon()).unwrap_err());
        assert!(error.contains("not understood: nonsense"), "{error}");
        let mut child = shell("read line; echo 'no licence' >&2; exec 0<&-; echo 1; exit 8");
        assert_eq!(child.next(soon()).unwrap(), Some(1), "it no longer listens");
        // A child that another test forks meanwhile may hold the other end a little longer.
        let mut says = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(1));
            child.say("43")
        });
        let error = says.by_ref().take(20_000).find_map(Result::err).expect("it no longer listens").to_string();
        assert!(error.contains("the shell ended") && error.contains('8') && error.contains("no licence"), "{error}");
        let nothing = Child::<u32>::start("nothing", Command::new("/nonexistent"), &1);
        assert!(nothing.err().unwrap().to_string().contains("/nonexistent"));
    }

    #[test]
    fn whether_it_was_killed_by_others_is_known() {
        let mut child = shell("read line; kill -KILL $$");
        child.end();
        assert!(child.was_killed());
        let mut child = shell("read line; echo 1; exec sleep 1000");
        assert_eq!(child.next(soon()).unwrap(), Some(1));
        assert!(!child.was_killed());
        child.kill();
        child.end();
        assert!(!child.was_killed(), "it was us");
        let mut child = shell("read line; exit 3");
        child.end();
        assert!(!child.was_killed());
    }

    #[test]
    fn others_kill_it_and_nobody_once_it_has_ended() {
        let mut child = shell("read line; echo 1; exec sleep 1000");
        assert_eq!(child.next(soon()).unwrap(), Some(1));
        let handle = child.handle();
        let other = thread::spawn(move || {
            handle.kill();
            handle
        });
        assert!(child.next(soon()).unwrap_err().to_string().contains("signal: 9"));
        let handle = other.join().unwrap();
        // It was waited for: nobody has its number now, and an error would say that a signal was sent to it.
        handle.get().kill().unwrap();
        assert!(child.was_killed());
    }

    #[test]
    fn child_outlives_the_thread_that_started_it() {
        let mut child = thread::spawn(|| shell("cat")).join().unwrap();
        assert_eq!(child.next(soon()).unwrap(), Some(42));
        // Long enough for a signal to come.
        thread::sleep(Duration::from_millis(100));
        child.say("43").unwrap();
        assert_eq!(child.next(soon()).unwrap(), Some(43));
    }

    #[test]
    fn it_does_not_outlive_us() {
        let mut child = shell("echo $$; exec sleep 1000");
        let pid = child.next(soon()).unwrap().unwrap();
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_ok());
        assert!(!child.has_ended());
        drop(child);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
