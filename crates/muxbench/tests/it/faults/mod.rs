//! Faults during a run: finished trials stay stored, --resume runs the rest, and no process or temporary file is left.
//! docs/reliability.md lists what each fault costs.

mod resources;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::cases::{Cases, case};
use crate::common::{
    Serve, as_nobody, descendants, eventually, is_alive, muxbench, muxbench_for_all_users, persistent_command, skipped,
    text,
};
use fleet::local::Local;
use harness::exec::event::{RunEnd, RunEvent};
use harness::exec::launch::Muxbench;
use harness::exec::runner::{self, Options};
use harness::host;
use harness::plan::plan;
use harness::record::{Check, Run, RunHeader, Trial, VerdictKind};
use harness::spec::Experiment;
use harness::store::{self, Store};
use load::config::Trace;
use process::stop::Stop;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::Value;

/// The workload and the phases of a short trial, as TOML.
const QUICK: &str =
    "connections = 5\nrate = 200\n[phases]\nramp = \"0\"\nwarm-up = \"50ms\"\nmeasure = \"300ms\"\ncool-down = \"60s\"";

/// All output of a command, which must exit with one of `codes`.
fn printed(output: &Output, codes: &[i32]) -> String {
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{}: {printed}", output.status);
    printed
}

/// The trials of an experiment with one architecture.
fn trials(architecture: &str, transport: &str, workload: &str, repeats: u32) -> Vec<Trial> {
    let file = format!(
        "name = \"faults\"\narchitectures = {architecture:?}\nrepeats = {repeats}\n[workload]\ntransport = {transport:?}\n\
         request = \"16B\"\nresponse = \"64B\"\n{workload}\n[client]\ntimeout = \"60s\"\npacing = \"sleep-spin\"\n"
    );
    let experiment = Experiment::parse(&file, "faults.toml").unwrap();
    plan(&experiment, &host::detect()).unwrap().trials
}

fn header(trials: Vec<Trial>) -> RunHeader {
    let numbered = |(index, trial): (usize, Trial)| Trial { index: index as u32, ..trial };
    RunHeader { trials: trials.into_iter().enumerate().map(numbered).collect(), ..testkit::run().header }
}

/// Runs the trials of `header` with the muxbench of `folder`, and passes each event to `on_event`.
fn run(folder: &Path, header: &RunHeader, stop: &Stop, on_event: &mut dyn FnMut(&RunEvent<'_>)) -> (RunEnd, Run) {
    let program = folder.join("muxbench");
    let store = Store::create(&folder.join("run"), header).unwrap();
    let options = Options { launch: &Muxbench { program: program.clone() }, stop };
    let mut fleet = Local::new(program);
    let ended = runner::run(header, &[], &store, &options, &mut fleet, &mut |event| on_event(&event)).unwrap();
    drop(store);
    (ended, store::read(&folder.join("run")).unwrap())
}

/// Processes of the muxbench in this folder. If `word` is not empty, only those with this argument.
fn processes(folder: &Path, word: &str) -> Vec<Pid> {
    let program = folder.join("muxbench").to_string_lossy().into_owned();
    let is_match = |pid: &Pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = text(&line);
        line.contains(&program) && (word.is_empty() || line.split('\0').any(|it| it == word))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).filter(is_match).collect()
}

/// Temporary files of a run (`*.part`), which exist only while it runs.
fn temporary_files(run: &Path) -> Vec<PathBuf> {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = [run.to_owned(), run.join("samples"), run.join("histograms")].into_iter().flat_map(files);
    all.filter(|path| path.to_string_lossy().contains(".part")).collect()
}

/// The number of folders for sockets that this process has created and not removed.
fn socket_folders() -> usize {
    let prefix = format!("muxbench-{}-", std::process::id());
    let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// Kills `muxbench WORD` while a client measures: in the first trial by SIGKILL, in the second by SIGSEGV. Checks that the third
/// trial succeeds. The tests of the runner kill processes in the other phases.
fn kill_while_measuring(word: &str, transport: &str) {
    // Write no core dumps.
    let maximum = rustix::process::getrlimit(Resource::Core).maximum;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    link_muxbench(folder);

    let faulty = trials("mt", transport, &QUICK.replace("300ms", "30s"), 2);
    let header = header([faulty, trials("mt", transport, QUICK, 1)].concat());
    let signals = [Signal::KILL, Signal::SEGV];
    let mut trial_now = 0;
    let mut killed = [false; 2];
    let (ended, run) = run(folder, &header, &Stop::default(), &mut |event| match event {
        RunEvent::Started(trial) => trial_now = trial.index as usize,
        RunEvent::Load(load::Event::Progress { phase, .. })
            if phase == "measure" && killed.get(trial_now) == Some(&false) =>
        {
            killed[trial_now] = true;
            let victims = processes(folder, word);
            assert!(!victims.is_empty(), "`muxbench {word}` runs");
            // The first SIGSEGV may only remove the handler that detects stack overflows.
            eventually("the process is dead", || {
                for &pid in &victims {
                    let _ = rustix::process::kill_process(pid, signals[trial_now]);
                }
                processes(folder, word).is_empty()
            });
        }
        _ => {}
    });
    assert_eq!((ended, killed), (RunEnd::Complete, [true; 2]));
    assert_eq!(run.records.len(), 3);
    let process = if word == "serve" { "the server" } else { "the client" };
    for (record, signal) in run.records.iter().zip(["signal: 9", "signal: 11"]) {
        let (kind, reason) = (record.verdict.kind, &record.verdict.reason);
        assert_eq!(kind, VerdictKind::Failed, "{reason}");
        assert!(reason.contains(&format!("{process} ended: {signal}")), "{reason}");
    }
    let last = &run.records[2];
    assert_ne!(last.verdict.kind, VerdictKind::Failed, "{}", last.verdict.reason);
    assert!(last.load.as_ref().is_some_and(|load| load.completed > 0 && load.completed == load.planned));
    assert_eq!(temporary_files(&folder.join("run")), Vec::<PathBuf>::new());
    assert!(store::samples_path(&folder.join("run"), 2).exists());
    eventually("all processes of the run end", || processes(folder, "").is_empty());
}

/// Links muxbench into a folder. The path of the folder identifies its processes.
fn link_muxbench(folder: &Path) {
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muxbench"), folder.join("muxbench")).unwrap();
}

fn killed_server_fails_only_its_trial() {
    kill_while_measuring("serve", "unix");
    assert_eq!(socket_folders(), 0);
}

fn killed_client_fails_only_its_trial() {
    kill_while_measuring("load", "tcp");
}

fn killed_supervisor_ends_external_server_and_fails_one_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    link_muxbench(folder);
    // This path begins with the path of muxbench, so `processes` finds the shells that have it in their command lines.
    let supervisor_file = folder.join("muxbench.supervisor");
    let exec =
        format!("[exec.persistent]\ncommand = {:?}\nstart-timeout = \"600s\"", persistent_command(&supervisor_file));
    let long = trials("exec:persistent", "tcp", &format!("{}\n{exec}", QUICK.replace("300ms", "600s")), 1);
    let header = header([long, trials("mt", "tcp", QUICK, 1)].concat());
    let mut descendants_at_kill = None;
    let (ended, run) = run(folder, &header, &Stop::default(), &mut |event| match event {
        RunEvent::Load(load::Event::Progress { .. }) if descendants_at_kill.is_none() => {
            let supervisor = || Pid::from_raw(fs::read_to_string(&supervisor_file).ok()?.trim().parse().ok()?);
            eventually("all processes of the server run", || supervisor().is_some());
            let all = descendants(supervisor().unwrap());
            assert!(all.len() >= 5, "{all:?}");
            rustix::process::kill_process(supervisor().unwrap(), Signal::KILL).unwrap();
            descendants_at_kill = Some(all);
        }
        RunEvent::Finished(record) if record.trial.index == 0 => {
            let all = descendants_at_kill.iter().flatten().copied().chain(processes(folder, "-c"));
            assert_eq!(
                all.filter(|&pid| is_alive(pid)).collect::<Vec<_>>(),
                [],
                "all processes end before the next trial"
            );
        }
        _ => {}
    });
    assert_eq!((ended, run.records.len()), (RunEnd::Complete, 2));
    let (killed, next) = (&run.records[0].verdict, &run.records[1]);
    assert_eq!(killed.kind, VerdictKind::Failed, "{}", killed.reason);
    assert!(killed.reason.contains("the server ended: signal: 9"), "{}", killed.reason);
    assert_ne!(next.verdict.kind, VerdictKind::Failed, "{}", next.verdict.reason);
    assert!(next.load.as_ref().is_some_and(|load| load.completed > 0 && load.completed == load.planned));
    eventually("all processes of the run end", || processes(folder, "").is_empty());
}

/// Starts a long trial and waits for its client. Returns the runner, its descendants, and its standard error.
fn start_long_trial(folder: &Path) -> (Child, Vec<Pid>, impl BufRead + use<>) {
    fs::create_dir(folder.join("t")).unwrap();
    let flags = "compare --transport unix --arch mp,mt --connections 5 --rate 100 --idle 3 --ramp 0 --measure 600s \
                 --repeats 2 --output run --quiet";
    // Reset SIGHUP: a parent such as nohup(1) may ignore it, and children inherit that.
    let mut child = Command::new("env")
        .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_muxbench")])
        .args(flags.split_whitespace())
        .current_dir(folder)
        .env("TMPDIR", folder.join("t"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let has_argument = |pid: &Pid, word: &str| {
        text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).split('\0').any(|it| it == word)
    };
    eventually("a client runs", || descendants(pid).iter().any(|pid| has_argument(pid, "load")));
    let printed = BufReader::new(child.stderr.take().unwrap());
    (child, descendants(pid), printed)
}

fn sigterm_sighup_or_second_sigint_stops_run_immediately() {
    for signals in [&[Signal::INT, Signal::INT][..], &[Signal::TERM], &[Signal::HUP]] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, processes, mut printed) = start_long_trial(folder.path());
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, signals[0]).unwrap();
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        if signals.len() > 1 {
            assert!(line.contains("finishing the current trial; press Ctrl-C again to stop immediately"), "{line}");
            assert!(processes.iter().all(|&process| is_alive(process)) && child.try_wait().unwrap().is_none());
            rustix::process::kill_process(pid, signals[1]).unwrap();
            line.clear();
            printed.read_line(&mut line).unwrap();
        }
        assert!(
            line.contains("stopped; finished trials are saved. Finish the run with: muxbench run --resume run --quiet"),
            "{line}"
        );
        assert_eq!(child.wait().unwrap().code(), Some(130));
        eventually("all processes of the run end", || !processes.iter().any(|&process| is_alive(process)));
        assert_eq!(fs::read_dir(folder.path().join("t")).unwrap().count(), 0, "the folder of sockets is removed");
        assert_eq!(temporary_files(&folder.path().join("run")), Vec::<PathBuf>::new());
        assert_eq!(store::read(&folder.path().join("run")).unwrap().records.len(), 0);
    }
}

/// Returns the command `unshare` for a new namespace of this kind; `None` if this host does not permit one.
fn unshare(kind: &str) -> Option<Command> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg(kind);
    let mut attempt = Command::new("unshare");
    let output = attempt.args(command.get_args()).arg("true").output().unwrap();
    if !output.status.success() {
        skipped(&format!("namespaces: {}", text(&output.stderr)));
        return None;
    }
    Some(command)
}

/// A script that runs two trials in a file system with room for one, then enlarges the file system and resumes the run.
const FULL_DISK: &str = r#"
set -u
cd "$1" && mkdir disk && mount -t tmpfs -o size=400k tmpfs disk && cd disk || exit 9
"$2" sweep --arch epoll --connections 5 --rate 100,150000 --past never --ramp 0 --warm-up 0 --measure 500ms --repeats 1 \
    --request 1B --response 1B --cool-down 30s --timeout 60s --output run > ../out 2> ../err
echo $? > ../code
ls run/samples run/histograms > ../files
cp -r run ../run
mount -o remount,size=64m tmpfs . || exit 8
"$2" run --resume run --quiet > ../out.resumed 2>&1
echo $? > ../code.resumed
cp -r run ../resumed
"#;

fn full_disk_ends_run_and_resume_finishes_it() {
    let Some(mut command) = unshare("--mount") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = ["sh", "-c", FULL_DISK, "sh"];
    let output = command.args(script).arg(folder.path()).arg(env!("CARGO_BIN_EXE_muxbench")).output().unwrap();
    if output.status.code() == Some(9) {
        skipped(&format!("the test of a full disk: cannot mount a tmpfs: {}", text(&output.stderr)));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let message = read("err");
    assert_eq!(read("code").trim(), "1", "{message}");
    assert!(message.contains("the run failed; finished trials are saved"), "{message}");
    assert!(message.contains("muxbench run --resume run"), "{message}");
    assert!(message.contains("cannot write samples") && message.contains("No space left on device"), "{message}");
    let run = store::read(&folder.path().join("run")).unwrap();
    assert_eq!((run.records.len(), run.damage), (1, Vec::new()), "{message}");
    let files = read("files");
    assert!(files.contains("0000.parquet") && files.contains("0000.hlog"), "{files}");
    assert!(!files.contains("0001") && !files.contains("part"), "the unfinished trial leaves no file: {files}");

    let code = read("code.resumed");
    assert!(["0", "3"].contains(&code.trim()), "{code}: {}", read("out.resumed"));
    let resumed = store::read(&folder.path().join("resumed")).unwrap();
    assert_eq!(resumed.records.len(), 2);
    assert_eq!(resumed.records[0].started_at, run.records[0].started_at, "the finished trial is kept");
    assert!(store::samples_path(&folder.path().join("resumed"), 1).exists());
}

fn file_size_limit_ends_run_and_keeps_its_trials() {
    let folder = tempfile::tempdir().unwrap();
    // 400 blocks are 200 KiB or 400 KiB, by the shell. The samples of the second trial are larger.
    let script = r#"cd "$1" && ulimit -f 400 && exec "$2" sweep --arch epoll --connections 5 --rate 100,150000 --past never \
        --ramp 0 --warm-up 0 --measure 500ms --repeats 1 --request 1B --response 1B --cool-down 30s --timeout 60s --output run"#;
    let program = env!("CARGO_BIN_EXE_muxbench");
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(folder.path()).arg(program).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("the run failed; finished trials are saved"), "{message}");
    assert!(message.contains("cannot write samples") && message.contains("File too large"), "{message}");
    let run = folder.path().join("run");
    assert_eq!(store::read(&run).unwrap().records.len(), 1, "{message}");
    assert!(!store::samples_path(&run, 1).exists(), "{message}");
}

/// Stores a finished run in a folder, and returns the run.
fn store_fixture(folder: &Path) -> Run {
    let run = testkit::run();
    crate::common::store(folder, &run);
    run
}

fn read_only_folder_rejects_runs_and_shows_reports() {
    let folder = tempfile::tempdir().unwrap();
    let program = muxbench_for_all_users(folder.path());
    let results = folder.path().join("results");
    fs::create_dir(&results).unwrap();
    store_fixture(&results.join("run"));
    for path in [&results, &results.join("run")] {
        fs::set_permissions(path, Permissions::from_mode(0o555)).unwrap();
    }
    for file in ["lock", "muxbench.db"] {
        fs::set_permissions(results.join("run").join(file), Permissions::from_mode(0o444)).unwrap();
    }
    let message = |arguments: &[&str], code: i32| {
        printed(&as_nobody(&program).args(arguments).current_dir(folder.path()).output().unwrap(), &[code])
    };
    let quick = ["compare", "--arch", "epoll", "--measure", "100ms", "--output", "results/other"];
    let new = message(&quick, 1);
    assert!(new.contains("cannot make the folder results/other: Permission denied"), "{new}");
    let resumed = message(&["run", "--resume", "results/run"], 1);
    let why = match rustix::process::geteuid().is_root() {
        true => "results/run: belongs to another user (uid 0)",
        false => "lock; check the owner and the permissions of the folder",
    };
    assert!(resumed.contains(why), "{resumed}");
    let shown = message(&["report", "results/run"], 0);
    assert!(shown.contains("vs best"), "{shown}");
    // Let the test remove the folder.
    for path in [&results, &results.join("run")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}

fn delayed_runner_invalidates_its_trial() {
    let folder = tempfile::tempdir().unwrap();
    link_muxbench(folder.path());
    let phases = QUICK.replace("warm-up = \"50ms\"", "warm-up = \"1s\"").replace("300ms", "1s");
    let header = header(trials("epoll", "tcp", &phases, 1));
    let mut was_delayed = false;
    let (ended, run) = run(folder.path(), &header, &Stop::default(), &mut |event| {
        // Delay the runner past the end of the window, as Ctrl-Z would.
        if matches!(event, RunEvent::Load(load::Event::Progress { .. })) && !was_delayed {
            was_delayed = true;
            std::thread::sleep(Duration::from_secs(4));
        }
    });
    assert!(was_delayed && ended == RunEnd::Complete);
    let record = &run.records[0];
    let words = format!("{:?}: {}", record.verdict.kind, record.verdict.reason);
    let late = record.verdict.checks.iter().find(|check| check.name == Check::COUNTED_LATE).expect(&words);
    assert!(!late.passed && late.value >= 1_000.0 && record.verdict.kind != VerdictKind::Valid, "{late:?}: {words}");
    assert!(record.load.is_some(), "the client has reported its measurements: {words}");
}

fn write_error_on_stderr_does_not_end_run() {
    let folder = tempfile::tempdir().unwrap();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let run_with_full_stderr = |arguments: &str, codes: &[i32]| {
        let mut command = muxbench();
        command.args(arguments.split_whitespace()).current_dir(folder.path()).stderr(full());
        printed(&command.output().unwrap(), codes)
    };
    let quick = "compare --arch epoll --connections 4 --rate 100 --ramp 0 --warm-up 50ms --measure 200ms --repeats 2 \
                 --pacing sleep-spin --output run";
    run_with_full_stderr(quick, &[0, 3]);
    assert_eq!(store::read(&folder.path().join("run")).unwrap().records.len(), 2);
    // The warning is lost, but the report is printed; an error keeps its exit code.
    fs::write(folder.path().join("run/run.json"), "{").unwrap();
    assert!(run_with_full_stderr("report run", &[0]).contains("epoll"));
    run_with_full_stderr("report nowhere", &[1]);
}

fn resume_without_the_files_of_a_run_starts_no_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    // A run that lacks a trial.
    let mut run = testkit::run();
    let (file, sizes) = ("/none/a.csv".into(), Vec::new());
    let trace = Trace { file, from_ns: 0, length_ns: 1, speed: 1.0, requests: 1, has_connections: false, sizes };
    run.header.trials.iter_mut().for_each(|trial| {
        trial.workload.requests_mut().unwrap().trace = Some(trace.clone());
    });
    crate::common::store(&folder, &run);
    // A process that a concurrent test forks holds the lock's descriptor until its exec.
    eventually("the run is unlocked", || Store::resume(&folder).is_ok());
    let output = muxbench().args(["run", "--quiet", "--resume"]).arg(&folder).output().unwrap();
    let refused = printed(&output, &[1]);
    assert!(refused.contains("workload.trace.file: cannot read /none/a.csv: No such file"), "{refused}");
    assert_eq!(store::read(&folder).unwrap().records.len(), run.records.len());
}

fn damaged_database_is_reported_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = store_fixture(&folder.path().join("run"));
    let path = folder.path().join("run/muxbench.db");
    let mut bytes = fs::read(&path).unwrap();
    // Change a digit of a record.
    let key = b"\"elapsed_ns\":";
    let after = |at: usize| bytes.get(at + key.len()).filter(|byte| byte.is_ascii_digit()).map(|_| at + key.len());
    let at = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(key)).find_map(after).unwrap();
    bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
    fs::write(&path, bytes).unwrap();
    let output = muxbench().args(["report", "run", "--json"]).current_dir(folder.path()).output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = result["damage"][0].as_str().unwrap_or_default();
    assert!(message.contains("is omitted: its record was changed"), "{message}");
    assert_eq!(result["trials"].as_array().unwrap().len() + 1, run.records.len());
    assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));

    fs::write(&path, "no database").unwrap();
    let output = muxbench().args(["report", "run"]).current_dir(folder.path()).output().unwrap();
    let error = printed(&output, &[1]);
    assert!(error.contains("muxbench.db: is damaged, or is not a database of muxbench"), "{error}");
}

fn server_outlives_the_thread_that_started_it() {
    let start = || Serve::start("epoll".parse().unwrap(), 1, 1);
    let serve = std::thread::spawn(start).join().unwrap();
    // After this time, a signal sent at the thread's end would have arrived.
    std::thread::sleep(Duration::from_millis(200));
    assert!(serve.try_exchange(1, 1).is_some(), "the server still serves");
}

fn server_ends_with_the_process_that_started_it() {
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" serve --arch epoll --json & read line", env!("CARGO_BIN_EXE_muxbench")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let (sender, line_count) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(lines.lines().count()));
    assert!(line_count.recv_timeout(Duration::from_secs(60)).is_ok(), "the server ends and closes its output");
}

/// Adds the cases of this folder.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(killed_server_fails_only_its_trial));
    cases.once(case!(killed_client_fails_only_its_trial));
    cases.once(case!(killed_supervisor_ends_external_server_and_fails_one_trial));
    cases.once(case!(sigterm_sighup_or_second_sigint_stops_run_immediately));
    cases.once(case!(full_disk_ends_run_and_resume_finishes_it));
    cases.once(case!(file_size_limit_ends_run_and_keeps_its_trials));
    cases.once(case!(read_only_folder_rejects_runs_and_shows_reports));
    cases.once(case!(delayed_runner_invalidates_its_trial));
    cases.once(case!(write_error_on_stderr_does_not_end_run));
    cases.once(case!(resume_without_the_files_of_a_run_starts_no_trial));
    cases.once(case!(damaged_database_is_reported_and_the_rest_is_shown));
    cases.once(case!(server_outlives_the_thread_that_started_it));
    cases.once(case!(server_ends_with_the_process_that_started_it));
    resources::cases(cases);
}
