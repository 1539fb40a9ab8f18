//! Runs that are stopped, and processes that die.

use super::*;

/// Trials of the run that is stopped: so many that it lasts longer than any delay of a busy machine.
const TRIALS: usize = 28;

/// Starts a command that runs trials for seconds, and waits for processes of a trial after the first `finished` trials. Returns
/// the command and its descendants.
fn start_long(folder: &Path, arguments: &str, finished: usize) -> (std::process::Child, Vec<Pid>) {
    let child = muxbench()
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let long = folder.join("long");
    eventually("trials are finished", || sampled_trials(&long) >= finished);
    let pid = Pid::from_child(&child);
    let mut processes = Vec::new();
    eventually("processes of the next trial run", || {
        processes = descendants(pid);
        processes.len() >= 2
    });
    (child, processes)
}

fn stopped_and_killed_run_keeps_trials_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let compare = "compare --arch mp,epoll --connections 10 --rate 200 --ramp 0 --warm-up 50ms --measure 300ms --repeats 14 \
                   --pacing sleep-spin --output long --quiet";
    let mut finished = 0;
    for (arguments, signal) in [(compare, Signal::INT), ("run --resume long --quiet", Signal::KILL)] {
        let (mut child, processes) = start_long(folder.path(), arguments, finished + 1);
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (signal != Signal::KILL).then_some(130), "{signal:?}: {status}");
        eventually("all processes of the run end", || !processes.iter().any(|&process| is_alive(process)));
        finished = harness::store::read(&folder.path().join("long")).unwrap().records.len();
        assert!((1..TRIALS).contains(&finished), "{finished}");
    }
    measure(folder.path(), &["run", "--resume", "long", "--quiet"]);
    let run = harness::store::read(&folder.path().join("long")).unwrap();
    assert_eq!(run.records.len(), TRIALS);
}

fn interrupted_reproduction_continues_in_further_calls() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["reproduce", "kawai2006", "--output", "over here", "--figures", "plots"];
    let at = folder.path().join("over here/kawai2006");
    for call in 0..2 {
        let before = sampled_trials(&at);
        let mut child = muxbench().args(arguments).current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("another trial is finished", || sampled_trials(&at) > before);
        rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let printed = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{call}: {printed}");
        let again = "muxbench reproduce kawai2006 --quick --output 'over here' --figures plots\n";
        assert!(printed.contains(again), "{call}: {printed}");
    }
    let run = harness::store::read(&at).unwrap();
    let mut trials: Vec<u32> = run.records.iter().map(|record| record.trial.index).collect();
    trials.dedup();
    assert_eq!(trials.len(), run.records.len(), "no trial ran twice");

    // `report` also finds the newest run in a nested folder.
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::rename(folder.path().join("over here"), folder.path().join("results/deep")).unwrap();
    let beside = json(&self::run(folder.path(), &["report", "--paper", "kawai2006", "--json"], 0));
    let claims = beside["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 3);
    assert!(claims.iter().all(|claim| claim["outcome"].is_string()));
    let other =
        self::run(folder.path(), &["reproduce", "kawai2006", "--full", "--output", "results/deep", "--quiet"], 1);
    let printed = text(&other.stderr);
    let reason =
        "its plan differs in scale (--quick, --full), version or machine; try the other scale, or another folder";
    assert!(printed.contains(reason), "{printed}");
}

fn signal_before_the_first_trial_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    failed_run(&folder.path().join("over here/kawai2008-http"), "kawai2008-http");
    let mut child = muxbench()
        .args(["reproduce", "kawai2008", "--output", "over here", "--figures", "plots"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert!(line.contains("kawai2008-http, in over here"), "{line}");
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest = std::io::read_to_string(printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    let again = "muxbench reproduce kawai2008 --quick --output 'over here' --figures plots\n";
    assert!(rest.contains(&format!("Finish the run with: {again}")), "{rest}");
    assert!(!folder.path().join("over here/kawai2008.html").exists());
}

fn signal_before_the_run_is_stored_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    // A held lock delays the run for a second before it is stored.
    let lock = std::fs::File::create(run.join("lock")).unwrap();
    lock.lock().unwrap();
    let arguments = [SMALL, &["--output", "run", "--quiet"]].concat();
    let child = muxbench().args(arguments).current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    eventually("the run waits for the lock", || {
        let mut open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.any(|it| std::fs::read_link(it.path()).is_ok_and(|path| path.ends_with("run/lock")))
    });
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{printed}");
    assert!(printed.contains("stopped before the first trial; nothing is stored"), "{printed}");
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 1, "only the lock of the test remains");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(stopped_and_killed_run_keeps_trials_and_resumes));
    cases.every(case!(interrupted_reproduction_continues_in_further_calls));
    cases.once(case!(signal_before_the_first_trial_is_not_lost));
    cases.once(case!(signal_before_the_run_is_stored_leaves_nothing));
}
