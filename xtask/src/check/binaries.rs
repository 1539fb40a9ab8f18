//! Test binaries, which run side by side because most of their tests wait, and tests that fail once.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use cargo_metadata::Message;

/// The maximum number of failed tests that run once more. More failures have a common cause.
const AGAIN_MAX: usize = 10;
/// The interval of checks for output and for the end of a binary.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A test binary, its arguments and its environment.
#[derive(Clone)]
pub struct Binary {
    /// Its crate or its test.
    pub name: String,
    executable: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
    /// Its arguments, such as a part of the names of tests.
    pub arguments: Vec<&'static str>,
    environment: Vec<(&'static str, OsString)>,
}

impl Binary {
    /// Sets an environment variable.
    pub fn set(&mut self, variable: &'static str, value: impl Into<OsString>) {
        self.environment.push((variable, value.into()));
    }

    /// Runs the tests with these arguments and copies their output to `out`. Returns the status and the output.
    fn run_with(&self, arguments: &[&str], out: &mut impl Write) -> anyhow::Result<(ExitStatus, String)> {
        writeln!(out, "== tests of {} {}", self.name, arguments.join(" "))?;
        let mut command = Command::new(&self.executable);
        command.args(arguments).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // Fail on changed snapshots instead of accepting them.
        command.env("INSTA_UPDATE", "no").envs(self.environment.iter().map(|(name, value)| (name, value)));
        follow(&mut command, out).with_context(|| format!("cannot run the tests of {}", self.name))
    }

    /// Runs the tests and returns the failed ones.
    fn run(&self, out: &mut impl Write) -> anyhow::Result<Vec<FailedTest>> {
        let (status, output) = self.run_with(&self.arguments, out)?;
        if status.success() {
            return Ok(Vec::new());
        }
        let failed: Vec<_> = names_of_failed(&output).map(str::to_owned).collect();
        ensure!(!failed.is_empty(), "the tests of {} ended with {status}", self.name);
        Ok(failed.into_iter().map(|test| FailedTest { binary: self.clone(), test }).collect())
    }
}

/// A test that failed once.
pub struct FailedTest {
    binary: Binary,
    test: String,
}

impl fmt::Display for FailedTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.test, self.binary.name)
    }
}

/// Builds the tests of a `cargo test` command, with its messages on the terminal, and returns their binaries.
pub fn build(command: &mut Command) -> anyhow::Result<Vec<Binary>> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut cargo = command.spawn().context("cannot run cargo")?;
    let mut binaries = Vec::new();
    for message in Message::parse_stream(io::BufReader::new(cargo.stdout.take().expect("a pipe"))) {
        if let Message::CompilerArtifact(made) = message.context("cannot read the messages of cargo")?
            && made.profile.test
            && let (Some(executable), Some(folder)) = (made.executable, made.manifest_path.parent())
        {
            let (name, executable, folder) = (made.target.name, executable.into(), folder.into());
            binaries.push(Binary { name, executable, folder, arguments: Vec::new(), environment: Vec::new() });
        }
    }
    ensure!(cargo.wait()?.success(), "the tests do not compile");
    // Tests of the largest take longest, so they start first.
    binaries.sort_by_key(|it| Reverse(it.executable.metadata().map_or(0, |file| file.len())));
    Ok(binaries)
}

/// Runs binaries, `lanes` at the same time, and returns the failed tests. With several lanes, prints the output of a binary when it
/// has ended.
pub fn run(binaries: Vec<Binary>, lanes: usize, out: &mut (impl Write + Send)) -> anyhow::Result<Vec<FailedTest>> {
    if lanes == 1 {
        return all(binaries.iter().map(|binary| binary.run(out)).collect::<Vec<_>>());
    }
    let (left, out, results) = (Mutex::new(binaries.into_iter()), Mutex::new(out), Mutex::new(Vec::new()));
    let lane = || {
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(binary) = next() {
            let mut output = Vec::new();
            let mut result = binary.run(&mut output);
            let written = out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&output);
            result = written.context("cannot write the output of tests").and(result);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
    all(results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns all failed tests, or an error that contains all errors and these tests.
pub fn all(results: Vec<anyhow::Result<Vec<FailedTest>>>) -> anyhow::Result<Vec<FailedTest>> {
    let (mut failed, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(tests) => failed.extend(tests),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    let names: String = failed.iter().map(|test| format!("\nfailed: {test}")).collect();
    ensure!(errors.is_empty(), "some tests did not run: {}{names}", errors.join("\n"));
    Ok(failed)
}

/// Runs failed tests once more, one after the other, because other load on the machine may have failed them. Returns an error if one
/// fails again.
pub fn run_again(failed: &[FailedTest]) -> anyhow::Result<()> {
    judge_again(failed, |failed| {
        let mut binary = failed.binary.clone();
        binary.set("RUST_TEST_THREADS", "1");
        let again = binary.run_with(&["--exact", &failed.test], &mut io::stdout());
        again.is_ok_and(|(status, output)| status.success() && output.contains("test result: ok. 1 passed"))
    })
}

fn judge_again(failed: &[FailedTest], passes: impl Fn(&FailedTest) -> bool) -> anyhow::Result<()> {
    let list = |tests: &[&FailedTest]| tests.iter().map(|test| format!("\n{test}")).collect::<String>();
    let all: Vec<&FailedTest> = failed.iter().collect();
    ensure!(failed.len() <= AGAIN_MAX, "{} tests failed:{}", failed.len(), list(&all));
    let (unsteady, broken): (Vec<_>, Vec<_>) = all.into_iter().partition(|test| passes(test));
    unsteady.iter().for_each(|test| println!("unsteady: {test} failed, and passed when it ran once more"));
    ensure!(broken.is_empty(), "{} tests failed twice:{}", broken.len(), list(&broken));
    Ok(())
}

/// Runs a command and copies its output to `out` as it appears. The output passes through a file, because a process that a test left
/// behind would keep a pipe open.
fn follow(command: &mut Command, out: &mut impl Write) -> anyhow::Result<(ExitStatus, String)> {
    let file = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?).spawn()?;
    let (mut text, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let ended = child.try_wait()?;
        while let count @ 1.. = file.read_at(&mut part, text.len() as u64)? {
            out.write_all(&part[..count])?;
            text.extend_from_slice(&part[..count]);
        }
        match ended {
            Some(status) => return Ok((status, String::from_utf8_lossy(&text).into_owned())),
            None => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Returns the names of failed tests, which a test harness lists at the end of its output.
fn names_of_failed(output: &str) -> impl Iterator<Item = &str> {
    let (_, list) = output.rsplit_once("\nfailures:\n").unwrap_or_default();
    list.lines().map_while(|line| line.strip_prefix("    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binary that is a shell script.
    fn binary(script: &str) -> Binary {
        let environment = vec![("SCRIPT", script.into())];
        let arguments = vec!["-c", "eval \"$SCRIPT\"", "sh"];
        Binary { name: "it".into(), executable: "/bin/sh".into(), folder: "/".into(), arguments, environment }
    }

    #[test]
    fn failed_tests_are_listed_and_other_failures_are_errors() {
        let mut out = Vec::new();
        let passed = binary("echo 'test result: ok. 1 passed'").run(&mut out).unwrap();
        assert!(passed.is_empty() && out.ends_with(b"ok. 1 passed\n"));
        let script = "printf 'failures:\\n\\n---- a::b ----\\n    x\\n\\nfailures:\\n    a::b\\n    c\\n\\ntest result\\n'; exit 1";
        let failed = run(vec![binary(script), binary("true")], 2, &mut Vec::new()).unwrap();
        assert_eq!(failed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a::b of it", "c of it"]);
        let error = run(vec![binary(script), binary("exit 3")], 1, &mut Vec::new()).err().unwrap();
        let error = format!("{error:#}");
        assert!(error.contains("failed: a::b of it") && error.contains("ended with exit status: 3"), "{error}");
    }

    #[test]
    fn process_left_behind_does_not_delay_the_result() {
        let mut out = Vec::new();
        let (status, output) = follow(Command::new("sh").args(["-c", "sleep 60 & echo $!"]), &mut out).unwrap();
        let pid = rustix::process::Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the process runs");
        assert!(status.success() && output.as_bytes() == out);
    }

    #[test]
    fn test_that_fails_twice_is_an_error() {
        let failed = |count: usize| -> Vec<FailedTest> {
            (0..count).map(|at| FailedTest { binary: binary(""), test: format!("t{at}") }).collect()
        };
        judge_again(&failed(AGAIN_MAX), |_| true).unwrap();
        let error = judge_again(&failed(3), |failed| failed.test != "t1").unwrap_err().to_string();
        assert_eq!(error, "1 tests failed twice:\nt1 of it");
        let error = judge_again(&failed(AGAIN_MAX + 1), |_| true).unwrap_err().to_string();
        assert!(error.starts_with("11 tests failed:\nt0 of it\n"), "{error}");
    }
}
