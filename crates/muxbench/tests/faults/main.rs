//! Faults during a run: finished trials stay stored, --resume runs the rest, and nothing is left behind. docs/reliability.md
//! names the tests of other faults.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod resources;

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{
    Serve, TIMEOUT, as_nobody, descendants, eventually, is_alive, muxbench, muxbench_for_all_users, persistent_command,
    skipped,
};
use harness::exec::event::{RunEnd, RunEvent};
use harness::exec::launch::Muxbench;
use harness::exec::runner::{self, Options};
use harness::fleet::local::Local;
use harness::host;
use harness::model::{Check, Run, RunHeader, Trial, VerdictKind};
use harness::plan::plan;
use harness::process::stop::Stop;
use harness::spec::Experiment;
use harness::store::{self, Store};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::Value;

/// Flags of a short trial.
const QUICK: &str =
    "connections = 5\nrate = 200\n[phases]\nramp = \"0\"\nhold = \"50ms\"\nmeasure = \"300ms\"\ndrain = \"60s\"";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All output of a command, which must exit with one of `codes`.
fn printed(output: &Output, codes: &[i32]) -> String {
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{}: {printed}", output.status);
    printed
}

/// An experiment of `repeats` trials of one architecture.
fn trials(architecture: &str, transport: &str, workload: &str, repeats: u32) -> Vec<Trial> {
    let file = format!(
        "name = \"faults\"\narchitectures = {architecture:?}\nrepeats = {repeats}\n[workload]\ntransport = {transport:?}\n\
         request = \"16B\"\nresponse = \"64B\"\n{workload}\n[client]\ntimeout = \"60s\"\n"
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

/// Live processes of the muxbench in this folder, optionally with a word among their arguments.
fn processes(folder: &Path, word: &str) -> Vec<Pid> {
    let program = folder.join("muxbench").to_string_lossy().into_owned();
    let is_it = |pid: &Pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = text(&line);
        line.contains(&program) && (word.is_empty() || line.split('\0').any(|it| it == word))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).filter(is_it).collect()
}

/// Unfinished files of a run, which exist only while it runs.
fn drafts(run: &Path) -> Vec<PathBuf> {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = [run.to_owned(), run.join("samples"), run.join("histograms")].into_iter().flat_map(files);
    all.filter(|path| path.to_string_lossy().contains(".part")).collect()
}

/// Socket folders of this process.
fn socket_folders() -> usize {
    let ours = format!("muxbench-{}-", std::process::id());
    let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).count()
}

/// Kills `muxbench WORD` when a client enters this phase: in the first trial by SIGKILL, in the second by SIGSEGV. The third
/// trial succeeds.
fn killed_in(phase: &str, word: &str, transport: &str) {
    let long = |phases: &str| format!("connections = 5\nrate = 200\n[phases]\n{phases}\ndrain = \"60s\"");
    let (architecture, workload) = match phase {
        // Requests are work, one after the other: so it takes long to connect, ...
        "connect" => {
            ("epoll", format!("work = \"sleep=100ms\"\n{QUICK}").replace("connections = 5", "connections = 50"))
        }
        // ...and there is always something left when the window is over.
        "drain" => ("epoll", format!("work = \"sleep=100ms\"\n{QUICK}")),
        "ramp" => ("mt", long("ramp = \"30s\"\nhold = \"0\"\nmeasure = \"100ms\"")),
        "hold" => ("mt", long("ramp = \"0\"\nhold = \"30s\"\nmeasure = \"100ms\"")),
        "measure" => ("mt", long("ramp = \"0\"\nhold = \"0\"\nmeasure = \"30s\"")),
        _ => ("mt", QUICK.to_owned()),
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    linked(folder);
    if phase == "start" {
        dying_at_start(folder, word);
    }

    let faulty = trials(architecture, transport, &workload, 2);
    let header = header([faulty, trials("mt", transport, QUICK, 1)].concat());
    let signals = [Signal::KILL, Signal::SEGV];
    let mut trial_now = 0;
    let mut struck = [phase == "start"; 2];
    let (ended, run) = run(folder, &header, &Stop::default(), &mut |event| {
        let phase_now = match event {
            RunEvent::Started { trial } => {
                trial_now = trial.index as usize;
                return;
            }
            RunEvent::Load(load::Event::Connecting { .. }) => "connect",
            RunEvent::Load(load::Event::Progress { phase, .. }) => phase,
            _ => return,
        };
        if phase_now == phase && !struck.get(trial_now).is_none_or(|&is_struck| is_struck) {
            struck[trial_now] = true;
            let victims = processes(folder, word);
            assert!(!victims.is_empty(), "{phase}: there is no {word}");
            // The first SIGSEGV may only end the handler that looks for a stack's overflow.
            eventually("it is dead", || {
                for &pid in &victims {
                    let _ = rustix::process::kill_process(pid, signals[trial_now]);
                }
                processes(folder, word).is_empty()
            });
        }
    });
    assert_eq!((ended, struck), (RunEnd::Complete, [true; 2]), "{phase}");
    assert_eq!(run.records.len(), 3, "{phase}");
    let who = if word == "serve" { "the server" } else { "the client" };
    for (record, signal) in run.records.iter().zip(["signal: 9", "signal: 11"]) {
        let (kind, reason) = (record.verdict.kind, &record.verdict.reason);
        assert_eq!(kind, VerdictKind::Failed, "{phase}: {reason}");
        assert!(reason.contains(&format!("{who} ended: {signal}")), "{phase}: {reason}");
    }
    let good = &run.records[2];
    assert_ne!(good.verdict.kind, VerdictKind::Failed, "{phase}: {}", good.verdict.reason);
    assert!(good.load.as_ref().is_some_and(|load| load.completed > 0 && load.completed == load.planned), "{phase}");
    assert_eq!(drafts(&folder.join("run")), Vec::<PathBuf>::new(), "{phase}");
    assert!(store::samples_path(&folder.join("run"), 2).exists(), "{phase}");
    eventually("nothing is left", || processes(folder, "").is_empty());
}

/// Links muxbench into a folder, whose path identifies its processes.
fn linked(folder: &Path) {
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muxbench"), folder.join("muxbench")).unwrap();
}

/// Replaces the muxbench of a folder: the first `muxbench WORD` dies by SIGKILL at its start, the second by SIGSEGV.
fn dying_at_start(folder: &Path, word: &str) {
    let (program, real) = (folder.join("muxbench"), folder.join("muxbench.real"));
    fs::rename(&program, &real).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = {word} ]; then\n  mkdir \"$0.1\" 2>/dev/null && kill -KILL $$\n  \
         mkdir \"$0.2\" 2>/dev/null && kill -SEGV $$\nfi\nexec \"$0.real\" \"$@\"\n"
    );
    // Written by a process of its own: no other that we start meanwhile has it open.
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod +x \"$0\""]).arg(&program).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// Tests some phases in parallel, for each mostly waits.
fn killed_in_each_phase(word: &str, transport: &str) {
    // No file is written of what dies.
    let maximum = rustix::process::getrlimit(Resource::Core).maximum;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum }).unwrap();
    std::thread::scope(|scope| {
        for phases in [["start", "connect"], ["ramp", "hold"], ["measure", "drain"]] {
            scope.spawn(move || phases.iter().for_each(|phase| killed_in(phase, word, transport)));
        }
    });
}

#[test]
fn killed_server_fails_only_its_trial() {
    killed_in_each_phase("serve", "unix");
    assert_eq!(socket_folders(), 0);
}

#[test]
fn killed_client_fails_only_its_trial() {
    killed_in_each_phase("load", "tcp");
}

#[test]
fn killed_supervisor_ends_external_server_and_fails_one_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    linked(folder);
    // A name by which its shells are known as those of this folder.
    let printed = folder.join("muxbench.keeper");
    let exec = format!("[exec.clinging]\ncommand = {:?}\nstart-timeout = \"600s\"", persistent_command(&printed));
    let long = trials("exec:clinging", "tcp", &format!("{}\n{exec}", QUICK.replace("300ms", "600s")), 1);
    let header = header([long, trials("mt", "tcp", QUICK, 1)].concat());
    let mut came_of_it = None;
    let (ended, run) = run(folder, &header, &Stop::default(), &mut |event| match event {
        RunEvent::Load(load::Event::Progress { .. }) if came_of_it.is_none() => {
            let keeper = || Pid::from_raw(fs::read_to_string(&printed).ok()?.trim().parse().ok()?);
            eventually("all that is to come of it is there", || keeper().is_some());
            let all = descendants(keeper().unwrap());
            assert!(all.len() >= 5, "{all:?}");
            rustix::process::kill_process(keeper().unwrap(), Signal::KILL).unwrap();
            came_of_it = Some(all);
        }
        RunEvent::Finished { record } if record.trial.index == 0 => {
            let all = came_of_it.iter().flatten().copied().chain(processes(folder, "-c"));
            assert_eq!(all.filter(|&pid| is_alive(pid)).collect::<Vec<_>>(), [], "nothing is left for the next trial");
        }
        _ => {}
    });
    assert_eq!((ended, run.records.len()), (RunEnd::Complete, 2));
    let (killed, next) = (&run.records[0].verdict, &run.records[1]);
    assert_eq!(killed.kind, VerdictKind::Failed, "{}", killed.reason);
    assert!(killed.reason.contains("the server ended: signal: 9"), "{}", killed.reason);
    assert_ne!(next.verdict.kind, VerdictKind::Failed, "{}", next.verdict.reason);
    assert!(next.load.as_ref().is_some_and(|load| load.completed > 0 && load.completed == load.planned));
    eventually("nothing is left", || processes(folder, "").is_empty());
}

#[test]
fn first_sigint_finishes_trial_second_aborts() {
    let measured = |measure: &str, ask: fn(&Stop)| {
        let folder = tempfile::tempdir().unwrap();
        linked(folder.path());
        let workload = QUICK.replace("300ms", measure);
        let stop = Stop::default();
        let (ended, run) = run(folder.path(), &header(trials("epoll", "tcp", &workload, 3)), &stop, &mut |event| {
            if matches!(event, RunEvent::Load(load::Event::Progress { .. })) {
                ask(&stop);
            }
        });
        assert_eq!(ended, RunEnd::Stopped);
        assert_eq!(drafts(&folder.path().join("run")), Vec::<PathBuf>::new());
        eventually("nothing is left", || processes(folder.path(), "").is_empty());
        run.records
    };
    let records = measured("1s", Stop::request);
    assert_eq!(records.len(), 1);
    let load = records[0].load.as_ref().unwrap_or_else(|| panic!("{}", records[0].verdict.reason));
    assert!(load.completed > 0 && load.completed == load.planned, "it was measured to its end");
    assert_eq!(measured("600s", Stop::abort).len(), 0);
}

/// Starts a run and waits for its client. Returns the run, its descendants and its further output.
fn in_a_long_trial(folder: &Path) -> (Child, Vec<Pid>, impl BufRead + use<>) {
    fs::create_dir(folder.join("t")).unwrap();
    let flags = "compare --transport unix --arch mp,mt --connections 5 --rate 100 --idle 3 --ramp 0 --measure 600s \
                 --repeats 2 --output run --quiet";
    // The tests' own parent may ignore SIGHUP, as nohup(1) does, and children inherit that.
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
    let is_a = |pid: &Pid, word: &str| {
        text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).split('\0').any(|it| it == word)
    };
    eventually("a client", || descendants(pid).iter().any(|pid| is_a(pid, "load")));
    let printed = BufReader::new(child.stderr.take().unwrap());
    (child, descendants(pid), printed)
}

#[test]
fn second_sigint_sigterm_and_sighup_end_a_run_at_once() {
    for signals in [&[Signal::INT, Signal::INT][..], &[Signal::TERM], &[Signal::HUP]] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, processes, mut printed) = in_a_long_trial(folder.path());
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
            line.contains("stopped; finished trials are saved. Finish the run with: muxbench run --resume run"),
            "{line}"
        );
        assert_eq!(child.wait().unwrap().code(), Some(130));
        eventually("nothing outlives it", || !processes.iter().any(|&process| is_alive(process)));
        assert_eq!(fs::read_dir(folder.path().join("t")).unwrap().count(), 0, "no folder of sockets is left");
        assert_eq!(drafts(&folder.path().join("run")), Vec::<PathBuf>::new());
        assert_eq!(store::read(&folder.path().join("run")).unwrap().records.len(), 0);
    }
}

#[test]
fn aborted_run_does_not_wait_for_hung_idle_connections() {
    let folder = tempfile::tempdir().unwrap();
    linked(folder.path());
    let mut trials = trials("epoll", "tcp", &format!("idle = 3\n{QUICK}"), 2);
    // So long it would be waited for, and longer.
    trials.iter_mut().for_each(|trial| trial.load.timeout_ns = 3_600_000_000_000);
    let stop = Stop::default();
    let mut hung = None;
    let (ended, run) = run(folder.path(), &header(trials), &stop, &mut |event| {
        if hung.is_none() && matches!(event, RunEvent::Load(load::Event::Progress { .. })) {
            let idle = processes(folder.path(), "idle");
            assert_eq!(idle.len(), 1);
            rustix::process::kill_process(idle[0], Signal::STOP).unwrap();
            let (stop, run) = (stop.clone(), folder.path().join("run"));
            hung = Some(std::thread::spawn(move || {
                // Once there are samples nothing else is left to wait for.
                eventually("the client has measured", || !drafts(&run).is_empty());
                std::thread::sleep(Duration::from_secs(1));
                stop.abort();
                Instant::now()
            }));
        }
    });
    let stopped = hung.expect("it was measured").join().unwrap();
    assert!(stopped.elapsed() < TIMEOUT, "{:?}", stopped.elapsed());
    assert_eq!((ended, run.records.len()), (RunEnd::Stopped, 0));
    eventually("nothing is left", || processes(folder.path(), "").is_empty());
}

/// A command that runs a shell script in namespaces of its own; `None` where the system permits none.
fn unshared(what: &str) -> Option<Command> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg(what);
    let mut tried = Command::new("unshare");
    let output = tried.args(command.get_args()).arg("true").output().unwrap();
    if !output.status.success() {
        skipped(&format!("namespaces: {}", text(&output.stderr)));
        return None;
    }
    Some(command)
}

/// A file system with room for one trial, which grows later.
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

#[test]
fn full_disk_ends_run_and_resume_finishes_it() {
    let Some(mut command) = unshared("--mount") else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = ["sh", "-c", FULL_DISK, "sh"];
    let output = command.args(script).arg(folder.path()).arg(env!("CARGO_BIN_EXE_muxbench")).output().unwrap();
    if output.status.code() == Some(9) {
        skipped(&format!("a full disk: nothing can be mounted: {}", text(&output.stderr)));
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
    assert!(!files.contains("0001") && !files.contains("part"), "nothing is left of the other: {files}");

    let code = read("code.resumed");
    assert!(["0", "3"].contains(&code.trim()), "{code}: {}", read("out.resumed"));
    let resumed = store::read(&folder.path().join("resumed")).unwrap();
    assert_eq!(resumed.records.len(), 2);
    assert_eq!(resumed.records[0].started_at, run.records[0].started_at, "what was finished stays");
    assert!(store::samples_path(&folder.path().join("resumed"), 1).exists());
}

/// Stores a finished run in a folder.
fn stored(folder: &Path) -> Run {
    let run = testkit::run();
    let store = Store::create(folder, &run.header).unwrap();
    run.records.iter().for_each(|record| store.commit(record).unwrap());
    run
}

#[test]
fn read_only_folder_rejects_runs_and_shows_reports() {
    let folder = tempfile::tempdir().unwrap();
    let program = muxbench_for_all_users(folder.path());
    let results = folder.path().join("results");
    fs::create_dir(&results).unwrap();
    stored(&results.join("run"));
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
    // So that it can be removed.
    for path in [&results, &results.join("run")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn delayed_runner_makes_trial_unsteady() {
    let folder = tempfile::tempdir().unwrap();
    linked(folder.path());
    let phases = QUICK.replace("hold = \"50ms\"", "hold = \"1s\"").replace("300ms", "1s");
    let header = header(trials("epoll", "tcp", &phases, 1));
    let mut was_held = false;
    let (ended, run) = run(folder.path(), &header, &Stop::default(), &mut |event| {
        // As Ctrl-Z would, until the window is over.
        if matches!(event, RunEvent::Load(load::Event::Progress { .. })) && !was_held {
            was_held = true;
            std::thread::sleep(Duration::from_secs(4));
        }
    });
    assert!(was_held && ended == RunEnd::Complete);
    let record = &run.records[0];
    let words = format!("{:?}: {}", record.verdict.kind, record.verdict.reason);
    let late = record.verdict.checks.iter().find(|check| check.name == Check::COUNTED_LATE).expect(&words);
    assert!(!late.passed && late.value >= 1_000.0 && record.verdict.kind != VerdictKind::Valid, "{late:?}: {words}");
    assert!(record.load.is_some(), "the client was not: {words}");
}

#[test]
fn full_standard_error_ends_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let told_nobody = |arguments: &str, codes: &[i32]| {
        let mut command = muxbench();
        command.args(arguments.split_whitespace()).current_dir(folder.path()).stderr(full());
        printed(&command.output().unwrap(), codes)
    };
    let quick = "compare --arch epoll --connections 4 --rate 100 --ramp 0 --warm-up 50ms --measure 200ms --repeats 2 --output run";
    told_nobody(quick, &[0, 3]);
    assert_eq!(store::read(&folder.path().join("run")).unwrap().records.len(), 2);
    // What is wrong cannot be told, and is what it was.
    fs::write(folder.path().join("run/run.json"), "{").unwrap();
    assert!(told_nobody("report run", &[0]).contains("epoll"));
    told_nobody("report nowhere", &[1]);
}

#[test]
fn damaged_database_is_reported_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let run = stored(&folder.path().join("run"));
    let path = folder.path().join("run/muxbench.db");
    let mut bytes = fs::read(&path).unwrap();
    // A digit becomes another.
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
    let none = printed(&output, &[1]);
    assert!(none.contains("muxbench.db: is not a database of muxbench, or damaged"), "{none}");
}

#[test]
fn server_outlives_the_thread_that_started_it() {
    let start = || Serve::start("epoll".parse().unwrap(), 1, 1);
    let serve = std::thread::spawn(start).join().unwrap();
    // A signal at the thread's end comes at once.
    std::thread::sleep(Duration::from_millis(200));
    assert!(serve.try_exchange(1, 1).is_some(), "the server has stopped");
}

#[test]
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
    let (says, printed) = std::sync::mpsc::channel();
    std::thread::spawn(move || says.send(lines.lines().count()));
    assert!(printed.recv_timeout(Duration::from_secs(60)).is_ok(), "the server still holds its output");
}
