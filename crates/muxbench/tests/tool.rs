//! The whole tool, run as a user would.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use common::{ROOT, Serve, children_of, descendants, eventually, is_alive, muxbench, prepared};
use harness::store::Store;
use report::fixtures;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use server::registry::{BUFFERED, MECHANISMS};

/// A comparison that takes a second or two.
const SMALL: &[&str] = &[
    "compare",
    "--arch",
    "epoll,mt",
    "--connections",
    "20",
    "--rate",
    "500",
    "--request",
    "1B",
    "--response",
    "100B",
    "--ramp",
    "50ms",
    "--warm-up",
    "50ms",
    "--measure",
    "200ms",
    "--cool-down",
    "60s",
    "--repeats",
    "2",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs muxbench in `folder`; panics with all output unless it exits with `code`.
fn run(folder: &Path, arguments: &[&str], code: i32) -> Output {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
    output
}

/// Runs a comparison in `folder`. A busy machine may delay the client: exit code 3.
fn measure(folder: &Path, arguments: &[&str]) -> Output {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}\n{out}\n{err}");
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn report_repeats_the_table_of_compare() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let output = measure(folder.path(), SMALL);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("20 connections, 500 requests/s, 1B -> 100B"), "{out}");
    for word in
        ["epoll", "mt", "p50 µs", "send delay p99", "CPU µs/req", "switches/req", "verdict", "seed 1", "Results: "]
    {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert_eq!(err.lines().count(), 4, "a line of progress for each trial: {err}");
    let again = text(&run(folder.path(), &["report"], 0).stdout);
    assert!(out.starts_with(&again), "{out}\n{again}");

    let whole = json(&run(folder.path(), &["report", "--json"], 0));
    assert_eq!(whole["trials"].as_array().unwrap().len(), 4);
    for trial in whole["trials"].as_array().unwrap() {
        assert_eq!(trial["load"]["planned"], 100, "200 ms at 500 a second");
        assert_eq!(trial["load"]["connections"], 20);
        assert_eq!(trial["server"]["connections"], 20);
    }
    let requests = |trial: &Value| trial["server"]["totals"]["requests"].as_u64().unwrap();
    // A machine that is away for all of a window has it counted after it.
    assert!(whole["trials"].as_array().unwrap().iter().filter(|trial| requests(trial) > 0).count() >= 2, "{whole}");
    let csv = text(&run(folder.path(), &["report", "--csv"], 0).stdout);
    assert_eq!(csv.lines().count(), 5);

    let results = std::fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    for trial in 0..4 {
        let samples = harness::samples::read(&harness::store::samples_path(&results, trial)).unwrap();
        assert_eq!(samples.len(), 100);
        assert!(
            samples.iter().all(|sample| sample.planned_ns <= sample.sent_ns && sample.sent_ns < sample.complete_ns)
        );
    }
    assert_eq!(std::fs::read_dir(results.join("samples")).unwrap().count(), 4, "no draft is left");
    for trial in 0..4 {
        let log = std::fs::read_to_string(harness::store::histograms_path(&results, trial)).unwrap();
        assert!(log.contains(" 20 connections, 500 requests/s, repeat "), "{log}");
        for time in ["lag", "service", "response"] {
            assert!(log.contains(&format!("\nTag={time},0.000,0.200,")), "{log}");
        }
    }
    assert_eq!(std::fs::read_dir(results.join("histograms")).unwrap().count(), 4, "no draft is left");
}

#[test]
fn pools_are_measured_with_every_accept_strategy() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = SMALL.to_vec();
    arguments[2] = "mp-prefork,mt-pool:20,mt-pool:4";
    arguments.extend(["--accept", "exclusive"]);
    let out = text(&measure(folder.path(), &arguments).stdout);
    assert!(out.contains("mt-pool:4: architectures: mt-pool:4 serves 4 connections at a time"), "{out}");
    assert!(out.contains("\nmt-pool:20 (exclusive) ") && out.contains("\nmp-prefork (exclusive) "), "{out}");
    let whole = json(&run(folder.path(), &["report", "--json"], 0));
    let trials = whole["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "the pool that is too small is not run");
    for trial in trials {
        assert_eq!(trial["trial"]["serve"]["accept"], "exclusive", "{trial}");
        let pool = if trial["trial"]["architecture"] == "mp-prefork" { 36 } else { 20 };
        assert_eq!((&trial["server"]["workers"], &trial["server"]["connections"]), (&pool.into(), &20.into()));
    }
}

#[test]
fn two_runs_are_compared_by_row() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    measure(folder.path(), &[SMALL, &["--output", "a", "--quiet"]].concat());
    let longer = [&SMALL[..2], &["epoll,select"], &SMALL[3..], &["--measure", "300ms", "--output", "b", "--quiet"]];
    let longer = longer.concat();
    let at = longer.iter().position(|argument| *argument == "--measure").unwrap();
    measure(folder.path(), &[&longer[..at], &longer[at + 2..]].concat());

    let same = json(&run(folder.path(), &["report", "a", "a", "--json"], 0));
    let pairs = same["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2);
    for pair in pairs {
        assert_eq!(pair["phases_b"], Value::Null);
        let valid = pair["a"]["repeats_valid"].as_u64().unwrap();
        assert_eq!(pair["a"], pair["b"]);
        for figure in ["service_p50", "service_p99"] {
            match valid {
                // The machine was busy.
                0 => assert_eq!(pair[figure], Value::Null),
                // So that the tail may be the client's.
                _ if figure == "service_p99" && pair["a"]["service_p99_ns"].is_null() => {
                    assert_eq!(pair[figure], Value::Null)
                }
                _ => assert_eq!(pair[figure]["ratio"], 1.0),
            }
        }
    }
    assert_eq!(same["host_differences"].as_array().unwrap().len(), 0, "{}", same["host_differences"]);
    assert_eq!((&same["only_a"], &same["only_b"]), (&Value::Array(vec![]), &Value::Array(vec![])));

    let text_of_both = text(&run(folder.path(), &["report", "a", "b"], 0).stdout);
    for words in
        ["A: a, muxbench", "B: b, muxbench", "Only in A: mt at 20 ", "Only in B: select at ", "The phases differ"]
    {
        assert!(text_of_both.contains(words), "{words}: {text_of_both}");
    }
    let csv = text(&run(folder.path(), &["report", "a", "b", "--csv"], 0).stdout);
    assert_eq!(csv.lines().map(|line| line.split_once(',').unwrap().0).collect::<Vec<_>>(), ["runs", "both", "a", "b"]);
    let many = text(&run(folder.path(), &["report", "a", "b", "a"], 0).stdout);
    assert!(
        many.starts_with("Runs, the oldest first") && many.contains("epoll"),
        "more than two are a history: {many}"
    );
    let error = text(&run(folder.path(), &["report", "a", "absent"], 1).stderr);
    assert!(error.contains("absent: contains no run"), "{error}");
}

#[test]
fn send_deviation_is_computed_from_stored_samples() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let even = [SMALL, &["--schedule", "constant", "--output", "even", "--quiet"]].concat();
    measure(folder.path(), &even);
    let report = ["report", "even", "--send-deviation"];
    let deviations = json(&run(folder.path(), &[&report[..], &["--json"]].concat(), 0));
    let trials = deviations["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for trial in trials {
        assert_eq!(trial["workload"]["schedule"], "constant");
        assert_eq!(trial["interval_ns"], 2e6, "500 a second");
        let figures = &trial["figures"];
        assert_eq!((&figures["count"], &trial["unsent"]), (&100.into(), &0.into()));
        let [min, median, max] = ["min_ns", "median_ns", "max_ns"].map(|name| figures[name].as_f64().unwrap());
        assert!(min <= median && median <= max && min <= 0.0 && 0.0 <= max, "their mean is 0: {figures}");
        let cdf = trial["cdf"].as_array().unwrap();
        assert_eq!(cdf.len(), 101);
        let ends = [&cdf[0], &cdf[100]].map(|point| point["deviation_ns"].as_f64().unwrap());
        assert_eq!(ends, [min, max]);
        assert!((0.0..=1.0).contains(&figures["within_1us_of_median"].as_f64().unwrap()));
    }
    let printed = text(&run(folder.path(), &report, 0).stdout);
    assert!(printed.contains("stddev µs") && !printed.contains("presumes constant intervals"), "{printed}");

    std::fs::remove_file(harness::store::samples_path(&folder.path().join("even"), 2)).unwrap();
    let printed = text(&run(folder.path(), &report, 0).stdout);
    assert!(printed.contains("0002.parquet"), "what is missing is named: {printed}");
    let csv = text(&run(folder.path(), &[&report[..], &["--csv"]].concat(), 0).stdout);
    assert_eq!(csv.lines().count(), 5);

    let cases: &[(&[&str], i32, &str)] = &[
        (&["report", "even", "--paper", "kawai2006"], 1, "no trial of this run has a workload of kawai2006"),
        (
            &["report", "even", "--paper", "nonsense"],
            2,
            "[possible values: kawai2008, kawai2006, maharjan2012, voras2009, welsh2001]",
        ),
        (&["report", "even", "--paper", "kawai2006", "--send-deviation"], 2, "cannot be used with"),
        (&["report", "even", "even", "--paper", "kawai2006"], 2, "show one run, but there are several"),
        (&["report", "even", "even", "--send-deviation"], 2, "show one run, but there are several"),
    ];
    for (arguments, code, words) in cases {
        let error = text(&run(folder.path(), arguments, *code).stderr);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn paper_experiment_prints_the_tables_of_the_paper() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let experiment = harness::spec::presets::find("kawai2006").unwrap().text;
    let one = experiment
        .replace("[400, 2000, 10000]", "400")
        .replace("[\"1\", \"1/4\", \"1/16\", \"1/64\"]", "\"1\"")
        .replace("[125, 500, 2000]", "500")
        .replace("[\"mp\", \"mt\", \"select\", \"poll\", \"epoll\"]", "\"epoll\"")
        .replace("measure = \"2s\"", "measure = \"200ms\"");
    std::fs::write(folder.path().join("one.toml"), one).unwrap();
    let printed = text(&measure(folder.path(), &["run", "one.toml", "--quick", "--quiet", "--output", "here"]).stdout);
    assert!(printed.ends_with("Beside the paper: muxbench report here --paper kawai2006\n"), "{printed}");
    let report = ["report", "here", "--paper", "kawai2006"];
    let tables = json(&run(folder.path(), &[&report[..], &["--json"]].concat(), 0));
    let cells = tables["service_time"].as_array().unwrap();
    assert_eq!(cells.len(), 90);
    let finished: Vec<&Value> = cells.iter().filter(|cell| !cell["here"].is_null()).collect();
    assert_eq!(finished.len(), 1);
    // On a busy machine the trial is not valid, and then has no times.
    let here = &finished[0]["here"];
    assert_eq!(here["times"].is_object(), here["verdict"] == "valid", "{here}");
    let printed = text(&run(folder.path(), &report, 0).stdout);
    for words in ["Table 3.", "Table 4.", "Table 5.", "Figure 2", "0.565/0.563/0.126"] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn public_tools_read_samples_and_histograms() {
    let _cpus = share_cpus();
    let interpreter = prepared("MUXBENCH_PYTHON", "python");
    let folder = tempfile::tempdir().unwrap();
    measure(folder.path(), &[SMALL, &["--output", "here", "--quiet"]].concat());
    let report = json(&run(folder.path(), &["report", "here", "--json"], 0));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_results.py");
    let output = std::process::Command::new(&interpreter).arg(script).arg("here").current_dir(folder.path()).output();
    let output = output
        .unwrap_or_else(|error| panic!("MUXBENCH_PYTHON, {}: {error}; run `cargo xtask test`", interpreter.display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = json(&output);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4);
    for tool in ["duckdb", "polars", "hdrhistogram"] {
        assert_eq!(read[tool].as_object().unwrap().len(), trials.len(), "{tool}: a file for each trial");
    }
    for (index, trial) in trials.iter().enumerate() {
        let file = format!("{index:04}");
        assert_eq!(read["polars"][&file]["rows"], trial["load"]["planned"]);
        assert_eq!(read["duckdb"][&file]["parameters"], trial["trial"], "every parameter goes with the samples");
        for time in ["lag", "service", "response"] {
            let reported = &trial["load"][time]["distribution"];
            for tool in ["duckdb", "polars", "hdrhistogram"] {
                let read = &read[tool][&file]["times"][time];
                assert_eq!(read["count"], reported["count"], "{tool}, trial {index}, {time}");
                for figure in ["p50_ns", "max_ns"] {
                    let (read, reported) = (read[figure].as_f64().unwrap(), reported[figure].as_f64().unwrap());
                    // Samples are exact, a histogram's values are up to 0.1 % above; two histograms are the same.
                    let apart = if tool == "hdrhistogram" { 0.0 } else { reported * 0.001 + 1.0 };
                    let message = format!("{tool}, trial {index}, {time} {figure}: {read}, reported {reported}");
                    assert!((read - reported).abs() <= apart, "{message}");
                }
            }
            let interval = &read["hdrhistogram"][&file]["times"][time];
            assert_eq!(interval["window_ms"].as_f64().unwrap().round(), 200.0);
            assert!(interval["start_ms"].as_f64().unwrap() > 1.7e12, "by the calendar: {interval}");
        }
    }
}

/// The lock of all tests that start servers or clients.
static CPUS: RwLock<()> = RwLock::new(());

/// Locks out all other tests, for a test that occupies or needs a whole CPU.
fn exclusive_cpus() -> RwLockWriteGuard<'static, ()> {
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Locks out only the tests that need a CPU for themselves.
fn share_cpus() -> RwLockReadGuard<'static, ()> {
    CPUS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Occupies a CPU with many threads until dropped, so that a server on it gets a small share.
struct Hogs(Arc<AtomicBool>);

impl Hogs {
    fn on_cpu(cpu: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..64 {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let mut set = rustix::thread::CpuSet::new();
                set.set(cpu);
                rustix::thread::sched_setaffinity(None, &set).unwrap();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn overloaded_server_is_saturated_and_not_ranked() {
    let folder = tempfile::tempdir().unwrap();
    let _cpus = exclusive_cpus();
    let hogs = Hogs::on_cpu(0);
    let output = muxbench()
        .args(["compare", "--arch", "select", "--connections", "100", "--rate", "1000", "--ramp", "100ms", "--json"])
        .args([
            "--response",
            "512KiB",
            "--warm-up",
            "200ms",
            "--measure",
            "1s",
            "--cool-down",
            "100ms",
            "--repeats",
            "1",
        ])
        .args(["--server-cpus", "0", "--timeout", "60s"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    drop(hogs);
    let result = json(&output);
    let verdict = &result["trials"][0]["verdict"];
    assert_eq!(check(verdict, "requests answered")["passed"], false, "{verdict}");
    assert_eq!(check(verdict, "taken by others")["passed"], false, "{verdict}");
    // Unless the client was late too, and the server, which was kept from its CPU, cannot be shown to be at fault.
    let late = |check: &Value| check["decides"] == "client-limited" && check["passed"] == false;
    let expected = if verdict["checks"].as_array().unwrap().iter().any(late) { "client-limited" } else { "saturated" };
    assert_eq!(verdict["kind"], expected, "{verdict}");
    assert_eq!(result["summary"]["comparisons"][0]["rows"][0]["ratio"], Value::Null);
    assert_eq!(output.status.code(), Some(3), "nothing valid");
}

#[test]
fn client_without_cpu_time_is_client_limited() {
    let folder = tempfile::tempdir().unwrap();
    let _cpus = exclusive_cpus();
    let hogs = Hogs::on_cpu(1);
    let output = muxbench()
        .args(["compare", "--arch", "epoll", "--connections", "50", "--rate", "2000", "--ramp", "0", "--json"])
        .args(["--warm-up", "200ms", "--measure", "1s", "--cool-down", "5s", "--repeats", "1", "--server-cpus", "0"])
        .args(["--client-cpus", "1", "--timeout", "60s", "--strict"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    drop(hogs);
    let verdict = &json(&output)["trials"][0]["verdict"];
    assert_eq!(verdict["kind"], "client-limited", "{verdict}");
    assert_eq!(output.status.code(), Some(3));
}

/// The check of a verdict with a word in its name.
fn check<'a>(verdict: &'a Value, word: &str) -> &'a Value {
    let checks = verdict["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"].as_str().unwrap().contains(word)).unwrap_or_else(|| panic!("{verdict}"))
}

#[test]
fn violated_schedule_is_client_limited() {
    let _cpus = share_cpus();
    let serve = common::Serve::start("epoll".parse().unwrap(), 128, 128);
    let child = muxbench()
        .args(["load", "--target", &serve.address.to_string(), "--response", "128B", "--schedule", "constant"])
        .args([
            "--connections",
            "10",
            "--rate",
            "1000",
            "--ramp",
            "0",
            "--warm-up",
            "100ms",
            "--measure",
            "2s",
            "--json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    // The client is halted for 30 ms of every 60: it sends 30 requests at once when it goes on.
    let violate = std::thread::spawn(move || {
        for signal in [Signal::STOP, Signal::CONT].into_iter().cycle() {
            if stopped.load(Relaxed) {
                return rustix::process::kill_process(pid, Signal::CONT);
            }
            let _ = rustix::process::kill_process(pid, signal);
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        Ok(())
    });
    let output = child.wait_with_output().unwrap();
    stop.store(true, Relaxed);
    let _ = violate.join().unwrap();
    let result = json(&output);
    let fit = check(&result["verdict"], "distance of the sends from their plan");
    assert_eq!(fit["passed"], false, "{}", result["verdict"]);
    assert!(fit["value"].as_f64() > fit["limit"].as_f64() && fit["p_value"].as_f64() < Some(0.01), "{fit}");
    assert_eq!(result["verdict"]["kind"], "client-limited", "{}", result["verdict"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn strict_accepts_only_valid_trials() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    // One of the two workloads cannot be run anywhere.
    let arguments = [SMALL, &["--connections", "20,4000000000", "--output", "run"]].concat();
    let arguments: Vec<&str> =
        arguments.iter().enumerate().filter(|(at, _)| !(3..5).contains(at)).map(|(_, it)| *it).collect();
    measure(folder.path(), &arguments);
    run(folder.path(), &["run", "--resume", "run", "--quiet", "--strict"], 3);
}

#[test]
fn kernel_timestamps_prove_that_requests_left() {
    let _cpus = exclusive_cpus();
    let folder = tempfile::tempdir().unwrap();
    let output = measure(folder.path(), &[SMALL, &["--timestamps", "kernel", "--output", "run"]].concat());
    let table = text(&output.stdout);
    assert!(table.contains("Kernel timestamps on the interface lo, which has no hardware timestamps"), "{table}");
    let whole = json(&run(folder.path(), &["report", "run", "--json"], 0));
    for trial in whole["trials"].as_array().unwrap() {
        let kernel = &trial["load"]["kernel"];
        assert_eq!(kernel["unstamped_sent"], 0, "{trial}");
        // A client that is late reads two responses at once, which then have no stamp of their own: on a busy machine most.
        assert!(kernel["service"]["distribution"]["count"].as_u64().unwrap() > 0, "{trial}");
    }
    let samples = harness::samples::read(&harness::store::samples_path(&folder.path().join("run"), 0)).unwrap();
    assert!(
        samples
            .iter()
            .all(|sample| sample.driver_ns != load::Sample::NEVER && sample.arrived_ns > sample.driver_ns - 50_000)
    );
}

#[test]
fn flags_set_locality_and_schedules() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let more =
        ["--active", "1/4,1", "--idle", "30", "--popularity", "zipf:0.8", "--schedule", "poisson", "--output", "run"];
    let out = text(&measure(folder.path(), &[SMALL, &more].concat()).stdout);
    let title = "20 connections, 1/4 active, 30 idle connections, chosen by zipf:0.8, 500 requests/s, as a Poisson \
                 process, 1B -> 100B";
    assert!(out.contains(title), "{out}");
    let store = harness::store::read(&folder.path().join("run")).unwrap();
    assert_eq!(store.records.len(), 8);
    for record in store.records {
        let samples =
            harness::samples::read(&harness::store::samples_path(&folder.path().join("run"), record.trial.index))
                .unwrap();
        let mut used: Vec<u32> = samples.iter().map(|sample| sample.connection).collect();
        used.sort_unstable();
        used.dedup();
        let active = if record.trial.workload.active < 1.0 { 5 } else { 20 };
        assert!(used.len() <= active && used.len() > active / 2, "{used:?}");
        assert_eq!(record.server.unwrap().connections, 50, "idle ones are held too");
    }
}

#[test]
fn calibrate_recovers_hold_times() {
    let _cpus = exclusive_cpus();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["calibrate", "--rounds", "2", "--measure", "750ms", "--hold", "300ms", "--law", "fixed,uniform"];
    for more in [["--transport", "tcp"].as_slice(), &["--transport", "udp", "--timestamps", "kernel"]] {
        let calibrate = || json(&run(folder.path(), &[&arguments, more, &["--json", "--rate", "100"]].concat(), 0));
        let ns = |value: &Value| value.as_f64().unwrap();
        // Requests that were taken for each other would be a quarter of the mean apart, and more, each time; so much is a
        // neighbour who takes every CPU only now and then.
        let is_told_apart = |found: &Value| {
            let conditions = found["conditions"].as_array().unwrap()[1..].iter();
            let spreads = conditions.map(|condition| condition["client"]["spread_ns"].as_array().unwrap());
            spreads.clone().all(|spread| ns(&spread[1]).abs() < 45e6 && ns(&spread[2]).abs() < 45e6)
        };
        let found = (0..5).map(|_| calibrate()).find(is_told_apart).expect("one of five calibrations is quiet");
        let conditions = found["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 3);
        assert_eq!(conditions[0]["client"]["bias_ns"]["value"], 0.0, "against itself");
        for condition in &conditions[1..] {
            assert_eq!(condition["count"], 150, "75 in each round");
            // A busy machine only adds to a hold, and to what is measured of it.
            assert!(ns(&condition["held_p50_ns"]) > 225e6, "{condition}");
            assert!(ns(&condition["service_p50_ns"]) >= ns(&condition["held_p50_ns"]), "{condition}");
            assert_eq!(condition["kernel"].is_object(), more.contains(&"kernel"));
        }
    }
    let table = text(&run(folder.path(), &[&arguments, ["--rate", "100"].as_slice()].concat(), 0).stdout);
    assert!(table.contains("bias µs") && table.contains("300 ms uniform"), "{table}");
    let shared = run(folder.path(), &["calibrate", "--server-cpus", "0", "--client-cpus", "0"], 1);
    assert!(text(&shared.stderr).contains("give each side CPUs of its own"));
}

#[test]
fn experiment_file_is_planned_and_run() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let experiment = text(&run(folder.path(), &[SMALL, &["--print-experiment"]].concat(), 0).stdout);
    std::fs::write(folder.path().join("mine.toml"), experiment.replace("\"compare\"", "\"mine\"")).unwrap();
    let plan = json(&run(folder.path(), &["plan", "mine.toml", "--json"], 0));
    assert_eq!(plan["trials"].as_array().unwrap().len(), 4);
    let table = text(&run(folder.path(), &["plan", "mine.toml"], 0).stdout);
    assert!(table.contains("mine: 4 trials, about"), "{table}");
    measure(folder.path(), &["run", "mine.toml", "--quiet", "--output", "here"]);
    assert!(folder.path().join("here/run.json").exists());
    run(folder.path(), &["run", "mine.toml", "--output", "here"], 1);
    let schema = json(&run(folder.path(), &["plan", "--schema"], 0));
    assert!(schema["properties"]["workload"].is_object());
}

#[test]
fn experiment_is_read_from_a_named_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo.toml");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    let mut plan = std::process::Command::new("timeout");
    plan.args(["60", env!("CARGO_BIN_EXE_muxbench"), "plan"]).arg(&path).args(["--json"]).stdout(Stdio::piped());
    let child = plan.spawn().unwrap();
    std::fs::copy(Path::new(ROOT).join("experiments/smoke.toml"), &path).unwrap();
    assert_eq!(json(&child.wait_with_output().unwrap())["experiment"], "smoke");
}

#[test]
fn experiment_in_a_device_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["plan", "/dev/zero"], 1);
    assert!(text(&output.stderr).contains("/dev/zero: not a regular file; try `-` and a pipe"), "{output:?}");
}

#[test]
fn user_errors_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "name = \"x\"\narchitectures = \"epol\"\n").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "bad.toml"], 1, "bad.toml:2: unknown architecture `epol`"),
        (&["run", "absent.toml"], 1, "absent.toml: neither a file nor a preset"),
        (&["run"], 1, "name an experiment file"),
        (&["run", "smoke", "--quick"], 1, "has no [quick] table"),
        (&["run", "--resume"], 1, "results: contains no run"),
        (&["run", "smoke", "--resume", "--quick"], 2, "FILE and --quick cannot be used with --resume"),
        (&["compare", "--resume", "here", "--rate", "9"], 2, "--rate cannot be used with --resume"),
        (&["report"], 1, "contains no run"),
        (&["compare", "--arch", "nonsense"], 1, "unknown architecture `nonsense`"),
        (&["compare", "--arch", "mt,mt"], 1, "\"mt\" appears twice"),
        (&["compare", "--request", "128"], 2, "write it like 128B"),
        (&["compare", "--measure", "10"], 2, "write it like 30s"),
        (&["compare", "--measure", "0"], 1, "measures nothing"),
        (&["compare", "--rate", "0"], 2, "rate above 0"),
        (&["compare", "--connections", "0"], 2, "0"),
        (&["compare", "--server-cpus", "4000"], 1, "CPU 4000 is not among those"),
        (&["compare", "--connections", "4000000000"], 1, "no trial can run on this host"),
        (&["compare", "--active", "2"], 2, "write it like 1/16"),
        (&["compare", "--popularity", "pareto"], 2, "write uniform, zipf"),
        (&["compare", "--schedule", "random"], 2, "expected one of `slot-random`"),
        (&["compare", "--pacing", "fast"], 2, "expected one of `auto`"),
        (&["serve", "--listen", "192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
        (&["load", "--target", "127.0.0.1:1"], 1, "is the server running there?"),
        (&["load"], 2, "--target"),
    ];
    for (arguments, code, words) in cases {
        let output = run(folder.path(), arguments, *code);
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!folder.path().join("results").exists(), "nothing was started");
}

/// Starts a long comparison of process-per-connection servers, and waits until its second trial runs.
fn start_long(folder: &Path) -> (std::process::Child, Vec<Pid>) {
    let child = muxbench()
        .args([
            "compare",
            "--arch",
            "mp,epoll",
            "--connections",
            "10",
            "--rate",
            "200",
            "--ramp",
            "0",
            "--warm-up",
            "50ms",
        ])
        .args(["--measure", "1s", "--repeats", "4", "--output", "long", "--quiet"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let long = folder.join("long");
    eventually("a trial is finished", || harness::store::read(&long).is_ok_and(|run| !run.records.is_empty()));
    let pid = Pid::from_child(&child);
    let mut processes = Vec::new();
    eventually("processes of another trial", || {
        processes = descendants(pid);
        processes.len() >= 2
    });
    (child, processes)
}

#[test]
fn stopped_or_killed_run_keeps_trials_and_resumes() {
    let _cpus = share_cpus();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, processes) = start_long(folder.path());
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), (signal != Signal::KILL).then_some(130), "{signal:?}: {status}");
        eventually("nothing outlives it", || !processes.iter().any(|&process| is_alive(process)));
        let finished = harness::store::read(&folder.path().join("long")).unwrap().records.len();
        assert!((1..8).contains(&finished), "{finished}");
        measure(folder.path(), &["run", "--resume", "long", "--quiet"]);
        let run = harness::store::read(&folder.path().join("long")).unwrap();
        assert_eq!(run.records.len(), 8);
    }
}

#[test]
fn interrupted_reproduction_continues_in_further_calls() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["reproduce", "voras2009", "--output", "over here", "--figures", "plots"];
    let at = folder.path().join("over here/voras2009");
    let finished = || harness::store::read(&at).map_or(0, |run| run.records.len());
    for call in 0..2 {
        let before = finished();
        let mut child = muxbench().args(arguments).current_dir(folder.path()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("a trial more is finished", || finished() > before);
        rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let printed = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{call}: {printed}");
        let again = "muxbench reproduce voras2009 --quick --output 'over here' --figures plots\n";
        assert!(printed.contains(again), "{call}: {printed}");
    }
    let run = harness::store::read(&at).unwrap();
    let mut trials: Vec<u32> = run.records.iter().map(|record| record.trial.index).collect();
    trials.dedup();
    assert_eq!(trials.len(), run.records.len(), "none was run twice");

    // The newest, though it is deep in the folder.
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::rename(folder.path().join("over here"), folder.path().join("results/deep")).unwrap();
    let beside = json(&self::run(folder.path(), &["report", "--paper", "voras2009", "--json"], 0));
    let claims = beside["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 4);
    assert!(claims.iter().all(|claim| claim["outcome"].is_string()));
    let other =
        self::run(folder.path(), &["reproduce", "voras2009", "--full", "--output", "results/deep", "--quiet"], 1);
    assert!(text(&other.stderr).contains("try another folder"), "{}", text(&other.stderr));
}

#[test]
fn needed_hosts_follow_from_documented_or_measured_costs() {
    let folder = tempfile::tempdir().unwrap();
    let large = ["compare", "--arch", "epoll,mt", "--connections", "1000000", "--rate", "100000", "--print-experiment"];
    let experiment = text(&run(folder.path(), &large, 0).stdout);
    std::fs::write(folder.path().join("large.toml"), &experiment).unwrap();
    let needs = |more: &[&str]| {
        json(&run(folder.path(), &[&["plan", "large.toml", "--hosts", "--json"][..], more].concat(), 0))
    };
    let documented = needs(&["--client-host-cpus", "8", "--client-host-memory", "64"]);
    for server in documented["servers"].as_array().unwrap() {
        assert_eq!((&server["connections"], &server["origin"]), (&1_000_000.into(), &"docs/scale.md".into()));
    }
    assert_eq!(documented["clients"]["hosts"], 16, "64 512 ports each: {}", documented["clients"]);
    let many = needs(&["--client-host-addresses", "16", "--client-host-cpus", "64", "--client-host-memory", "64"]);
    assert_eq!(many["clients"]["hosts"], 1, "{}", many["clients"]);
    let stored = fixtures::run();
    let store = Store::create(&folder.path().join("small"), &stored.header).unwrap();
    stored.records.iter().for_each(|record| store.commit(record).unwrap());
    drop(store);
    let of_run = needs(&["--from", "small", "--measure"]);
    let epoll = of_run["servers"].as_array().unwrap().iter().find(|it| it["architecture"] == "epoll").unwrap();
    assert!(epoll["origin"].as_str().unwrap().starts_with("small, of "), "{epoll}");
    let per_s = &of_run["figures"]["client_per_s"];
    assert!(per_s["value"].as_f64().unwrap() > 0.0 && per_s["origin"].as_str().unwrap().starts_with("measured now"));

    // As text, from standard input.
    let mut plan = muxbench();
    plan.args(["plan", "-", "--hosts"]).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut plan = plan.spawn().unwrap();
    std::io::Write::write_all(&mut plan.stdin.take().unwrap(), experiment.as_bytes()).unwrap();
    let printed = text(&plan.wait_with_output().unwrap().stdout);
    assert!(
        printed.contains("Clients: ") && printed.contains("fs.nr_open") && printed.contains("docs/scale.md"),
        "{printed}"
    );
    run(folder.path(), &["plan", "large.toml", "--from", "small"], 2);
}

#[test]
fn signal_before_the_first_trial_is_not_lost() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    failed_run(&folder.path().join("here/kawai2008-http"), "kawai2008-http");
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = muxbench()
            .args(["reproduce", "kawai2008", "--output", "here"])
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert!(line.contains("kawai2008-http, in here"), "{line}");
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        let rest = std::io::read_to_string(printed).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains("Finish the run with: muxbench reproduce kawai2008 --quick --output here\n"), "{rest}");
    }
    assert!(!folder.path().join("here/kawai2008.html").exists());
}

#[test]
fn single_figure_runs_only_its_experiments() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("here/kawai2008-minimised");
    let mut child = muxbench()
        .args(["reproduce", "kawai2008", "--figure", "8", "--output", "here"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("a trial is finished", || harness::store::read(&at).is_ok_and(|run| !run.records.is_empty()));
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let printed = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{printed}");
    assert!(printed.contains("muxbench reproduce kawai2008 --quick --output here --figure 8"), "{printed}");
    assert!(!folder.path().join("here/kawai2008-http").exists(), "the figure needs no such run");

    let of = ["report", "here/kawai2008-minimised", "--paper", "kawai2008"];
    let report = |more: &[&str], code: i32| run(folder.path(), &[&of[..], more].concat(), code);
    let printed = text(&report(&["--figure", "8"], 0).stdout);
    assert!(printed.contains("Figure 8. ") && printed.contains("paper: about 200 µs"), "{printed}");
    assert!(!printed.contains("Figure 11") && !printed.contains("Claims"), "{printed}");
    let figures = json(&report(&["--figure", "8", "--json"], 0));
    assert_eq!(figures["figures"][0]["number"], "8");
    assert!(figures["claims"].is_null());
    let csv = text(&report(&["--figure", "8", "--csv"], 0).stdout);
    assert!(csv.starts_with("figure,panel,whose,series,x,y,") && csv.contains("\n8,500 requests/s,paper,"), "{csv}");
    let whole = text(&report(&[], 0).stdout);
    assert!(whole.contains("Figure 11. ") && whole.contains("Claims"), "{whole}");
    let pasted = text(&report(&["--figure", "8", "--markdown"], 0).stdout);
    assert!(pasted.contains("### Figure 8. ") && pasted.contains("\n| --- |"), "{pasted}");
    report(&["--figure", "8", "--html", "--figures", "plots"], 0);
    for file in ["here/kawai2008-minimised/kawai2008-figure-8.html", "plots/kawai2008-figure-8.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(file)).unwrap().contains("Figure 8"), "{file}");
    }
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008-minimised/kawai2008-figure-8.html")).unwrap();
    let only = "<code>muxbench report here/kawai2008-minimised --paper kawai2008 --figure 8</code>";
    assert!(page.contains(only), "{only}");

    let fails = |more: &[&str]| text(&report(more, 1).stderr);
    let printed = fails(&["--figure", "6"]);
    assert!(
        printed.contains("is of kawai2008-http") && printed.contains("reproduce kawai2008 --figure 6"),
        "{printed}"
    );
    let printed = fails(&["--figure", "7"]);
    assert!(
        printed.contains("no such Figure") && printed.contains("Figures 6, 8, 10, 11, A.1; no tables"),
        "{printed}"
    );
    assert!(fails(&["--table", "1"]).contains("no such Table"));
    let printed = text(&run(folder.path(), &["report", "here/kawai2008-minimised", "--figure", "8"], 2).stderr);
    assert!(printed.contains("--paper"), "{printed}");
}

/// A folder of `reproduce` without a finished trial.
fn failed_run(folder: &Path, experiment: &str) {
    let quick = harness::spec::presets::find(experiment).unwrap().experiment().quick();
    let host = harness::host::detect();
    let plan = harness::plan::plan(&quick, &host).unwrap();
    let header = harness::model::RunHeader {
        name: experiment.into(),
        muxbench: env!("CARGO_PKG_VERSION").into(),
        command: vec!["muxbench".into()],
        started_at: "2026-01-01T00:00:00Z".into(),
        experiment: experiment.into(),
        seed: plan.seed,
        trials: plan.trials,
        strategy: harness::model::Strategy::Whole,
        host: host.facts,
        placement: plan.placement,
        is_fleet_s: false,
    };
    let store = harness::store::Store::create(folder, &header).unwrap();
    for trial in &header.trials {
        let verdict = harness::model::Verdict {
            kind: harness::model::VerdictKind::Failed,
            reason: "made up".into(),
            checks: Vec::new(),
        };
        let record = harness::model::TrialRecord {
            trial: trial.clone(),
            started_at: header.started_at.clone(),
            elapsed_ns: 1,
            load: None,
            server: None,
            network: None,
            idle: None,
            cpu_taken_by_others: None,
            verdict,
        };
        store.commit(&record).unwrap();
    }
}

#[test]
fn finished_paper_is_shown_and_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    for experiment in ["kawai2008-http", "kawai2008-minimised", "kawai2008-saturated", "kawai2008-synchronisation"] {
        failed_run(&folder.path().join("here").join(experiment), experiment);
    }
    let reproduce = |more: &[&str], code: i32| {
        let arguments = [&["reproduce", "kawai2008", "--output", "here", "--quiet"][..], more].concat();
        run(folder.path(), &arguments, code)
    };
    let printed = text(&reproduce(&["--figures", "plots"], 0).stdout);
    assert!(printed.contains("nothing to show: Figure 6 (of kawai2008-http), Figure 8"), "{printed}");
    assert!(printed.contains("Page: here/kawai2008.html"), "{printed}");
    let page = std::fs::read_to_string(folder.path().join("here/kawai2008.html")).unwrap();
    assert!(page.contains("Of 7 claims of kawai2008 7 are not testable here"));
    assert!(page.contains("muxbench reproduce kawai2008 --quick --output here"));
    assert!(page.contains("muxbench report here/kawai2008-minimised --html"));
    assert!(page.contains("Figure 10. Lag of the client, HTTP-like traffic: there is nothing of it in these runs"));
    let pasted = reproduce(&["--markdown"], 0);
    let (printed, beside_it) = (text(&pasted.stdout), text(&pasted.stderr));
    assert!(printed.contains("### Claims\n") && !printed.contains("Page:"), "{printed}");
    assert!(beside_it.contains("Page: here/kawai2008.html"), "{beside_it}");
    assert!(text(&reproduce(&["--markdown", "--csv"], 2).stderr).contains("cannot be used with"));
    let printed = text(&reproduce(&["--figure", "10"], 1).stderr);
    assert!(printed.contains("no finished trial") && printed.contains("Figure 10 of kawai2008"), "{printed}");
    let printed = text(&reproduce(&["--figure", "1"], 1).stderr);
    assert!(printed.contains("--figure 1: kawai2008 has no such Figure"), "{printed}");
    assert!(text(&reproduce(&["--figure", "6", "--table", "1"], 2).stderr).contains("cannot be used with"));
}

/// The records of a run of two trials with idle connections, after killing a process of the first trial by its command.
fn killed_mid_trial(command: &str) -> Vec<harness::model::TrialRecord> {
    let folder = tempfile::tempdir().unwrap();
    let mut child = muxbench()
        .args([
            "compare",
            "--arch",
            "epoll",
            "--connections",
            "10",
            "--rate",
            "200",
            "--ramp",
            "0",
            "--warm-up",
            "200ms",
        ])
        .args(["--measure", "4s", "--cool-down", "60s", "--repeats", "2", "--idle", "30", "--output", "run", "--quiet"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_it = |pid: &Pid| {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
        text(&arguments).contains(command)
    };
    let mut victim = None;
    eventually("the processes run", || {
        let children = children_of(Pid::from_child(&child));
        victim = children.iter().copied().find(is_it);
        children.len() == 3
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    rustix::process::kill_process(victim.unwrap(), Signal::KILL).unwrap();
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 3)));
    let records = harness::store::read(&folder.path().join("run")).unwrap().records;
    let failed = |at: usize| records[at].verdict.kind == harness::model::VerdictKind::Failed;
    assert!(records.len() == 2 && failed(0) && !failed(1), "{records:?}");
    records
}

#[test]
fn server_killed_mid_trial_fails_only_the_trial() {
    let _cpus = share_cpus();
    killed_mid_trial("serve");
}

#[test]
fn dead_idle_connections_fail_the_trial() {
    let _cpus = share_cpus();
    let records = killed_mid_trial("idle");
    assert!(records[0].verdict.reason.contains("idle connections"), "{}", records[0].verdict.reason);
    let idle = records[1].idle.as_ref().unwrap();
    assert_eq!((idle.held, idle.alive, idle.processes), (30, 30, 1), "{idle:?}");
    let checks = &records[1].verdict.checks;
    assert!(checks.iter().any(|check| check.name.contains("idle connections") && check.passed), "{checks:?}");
}

#[test]
fn idle_holds_and_verifies_connections_to_any_server() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let epoll = "epoll".parse().unwrap();
    let hold = |flags: &[&str], url: String, code: i32| {
        let server = Serve::start_http(epoll, flags);
        let url = url.replace("ADDRESS", &server.ip().to_string());
        let arguments = ["idle", &url, "--connections", "7", "--time", "5s", "--json"];
        let report = json(&run(folder.path(), &arguments, code));
        server.stop();
        report
    };
    let report = hold(&[], "http://ADDRESS/bytes/10".into(), 0);
    assert_eq!((&report["held"], &report["alive"]), (&Value::from(7), &Value::from(7)), "{report}");
    let report = hold(&["--keepalive-timeout", "100ms"], "http://ADDRESS/bytes/10".into(), 3);
    assert_eq!((&report["held"], &report["alive"]), (&Value::from(7), &Value::from(0)), "{report}");
    assert_eq!(report["errors"]["reset"], 7, "{report}");
    let error = text(&run(folder.path(), &["idle", "--target", "127.0.0.1:9", "--service", "udp"], 1).stderr);
    assert!(error.contains("no connections to hold"), "{error}");
}

/// A comparison of closed loops that takes a second or two.
const CLOSED: &[&str] = &[
    "compare",
    "--schedule",
    "closed",
    "--connections",
    "10,20",
    "--ramp",
    "50ms",
    "--warm-up",
    "0",
    "--measure",
    "1s",
    "--cool-down",
    "10s",
    "--repeats",
    "1",
    "--quiet",
];

/// Checks the stored trials of a closed loop.
fn assert_closed(folder: &Path, trials_expected: usize) {
    let whole = json(&run(folder, &["report", "--json"], 0));
    assert_eq!(whole["summary"]["comparisons"][0]["metric"], "transactions a second");
    let trials = whole["trials"].as_array().unwrap();
    assert_eq!(trials.len(), trials_expected);
    for trial in trials {
        let load = &trial["load"];
        assert!(load["completed"].as_u64().unwrap() > 0, "{trial}");
        assert!(load["errors"].as_object().unwrap().values().all(|count| *count == 0), "{}", load["errors"]);
        assert!(load["rate_asked_per_s"].is_null() && trial["trial"]["workload"]["rate_per_s"].is_null());
        assert!(load["closed"]["busy_share"].as_f64().unwrap() > 0.0, "{}", load["closed"]);
        assert!(trial["server"]["totals"]["requests"].as_u64().unwrap() > 0, "{trial}");
        let verdict = trial["verdict"]["kind"].as_str().unwrap();
        assert!(["valid", "client-limited", "unsteady"].contains(&verdict), "{}", trial["verdict"]);
    }
    let results = std::fs::read_dir(folder.join("results")).unwrap().next().unwrap().unwrap().path();
    let samples = harness::samples::read(&harness::store::samples_path(&results, 0)).unwrap();
    assert_eq!(Some(samples.len() as u64), trials[0]["load"]["planned"].as_u64());
    let log = std::fs::read_to_string(harness::store::histograms_path(&results, 0)).unwrap();
    assert!(log.contains(" connections, closed loop, repeat 0"), "{log}");
}

#[test]
fn closed_loops_are_compared_by_transactions() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--arch", "epoll,symped:2,amped:1+2,mt", "--request", "1B", "--response", "100B", "--think", "1ms"];
    let out = text(&measure(folder.path(), &[CLOSED, &flags].concat()).stdout);
    for words in ["closed loop, 20 connections, think 1ms, 1B -> 100B", "trans/s", "against connections", "client CPU"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_closed(folder.path(), 8);
}

#[test]
fn closed_loops_of_kv_are_compared() {
    let _cpus = share_cpus();
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--arch", "epoll,symped:2,amped:1+2,mt", "--service", "kv", "--records", "500", "--keys", "zipf:0.99"];
    let more = ["--value-size", "10B..2KiB", "--get-share", "75%", "--clients", "2"];
    let out = text(&measure(folder.path(), &[CLOSED, &flags, &more].concat()).stdout);
    let title = "closed loop, 10 connections, think 0, kv, 75 % get of 500 records of 10B..2KiB, keys by zipf:0.99";
    assert!(out.contains(title), "{out}");
    assert_closed(folder.path(), 8);
    let csv = text(&run(folder.path(), &["report", "--csv"], 0).stdout);
    assert!(csv.contains(",closed,0,kv,500,10,2048,0.75,zipf:0.99,"), "{csv}");
    let experiment = [CLOSED, &flags, &more, &["--print-experiment"]].concat();
    let file = text(&run(folder.path(), &experiment, 0).stdout);
    assert!(file.contains("[workload.kv]") && !file.contains("rate ="), "{file}");
    std::fs::write(folder.path().join("again.toml"), file).unwrap();
    run(folder.path(), &["plan", "again.toml"], 0);
}

#[test]
fn flags_unused_by_closed_loops_and_kv_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |flags: &[&str], why: &str| {
        let err = text(&run(folder.path(), &[&["compare"], flags].concat(), 1).stderr);
        assert!(err.contains(why), "{flags:?}: {err}");
    };
    refused(&["--schedule", "closed", "--rate", "100"], "workload.rate: a closed loop has none");
    refused(&["--schedule", "closed", "--pacing", "spin"], "client.pacing: a closed loop waits for responses");
    refused(&["--think", "1ms"], "workload.think: only a closed loop thinks");
    refused(&["--records", "5"], "workload.kv: the service is another");
    refused(&["--service", "kv", "--schedule", "closed", "--request", "1B"], "workload.request: kv's sizes are");
    let target = ["load", "--target", "127.0.0.1:1"];
    for (flags, why) in [
        (["--records", "5"].as_slice(), "add --service kv"),
        (&["--service", "kv", "--response", "1B"], "--value-size"),
        (&["--think", "1ms"], "think"),
        (&["--schedule", "closed", "--rate", "5"], "rate"),
    ] {
        let err = text(&run(folder.path(), &[&target, flags].concat(), 1).stderr);
        assert!(err.contains(why), "{flags:?}: {err}");
    }
}

#[test]
fn serve_and_load_work_alone() {
    let _cpus = share_cpus();
    let serve = common::Serve::start("poll".parse().unwrap(), 128, 10_240);
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.parquet");
    let output = muxbench()
        .args([
            "load",
            "--target",
            &serve.address.to_string(),
            "--connections",
            "20",
            "--rate",
            "500",
            "--ramp",
            "50ms",
        ])
        .args(["--warm-up", "50ms", "--measure", "400ms", "--cool-down", "5s", "--samples"])
        .arg(&samples)
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert!(out.contains("200 of 200 requests completed"), "{out}{}", text(&output.stderr));
    assert_eq!(harness::samples::read(&samples).unwrap().len(), 200);
    let (_, totals) = serve.stop();
    // Each connection's first request verifies it.
    assert!(totals["requests"].as_u64().unwrap() >= 220, "{totals}");
}

#[test]
fn client_with_other_sizes_fails_before_the_ramp() {
    let _cpus = share_cpus();
    // Over TCP it would say what it serves.
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", folder.path().join("socket").display());
    let serve = common::Serve::start_with("epoll".parse().unwrap(), 128, 100, &["--listen", &listen], None);
    let output = muxbench()
        .args(["load", "--target", &serve.address.to_string(), "--request", "128B", "--response", "200B"])
        .args(["--connections", "5", "--timeout", "200ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("does the server speak this service")
            || text(&output.stderr).contains("the server did not answer"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn every_command_has_help_completions_and_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        "compare",
        "sweep",
        "capacity",
        "calibrate",
        "run",
        "plan",
        "report",
        "list",
        "doctor",
        "serve",
        "load",
        "idle",
        "reproduce",
        "completions",
        "man",
    ];
    let help = text(&run(folder.path(), &["--help"], 0).stdout);
    for command in commands {
        assert!(help.contains(command));
        assert!(text(&run(folder.path(), &[command, "--help"], 0).stdout).contains("Usage:"));
        assert!(text(&run(folder.path(), &["man", command], 0).stdout).contains(".TH"));
    }
    let help = text(&run(folder.path(), &["reproduce", "--help"], 0).stdout);
    for paper in papers::PAPERS {
        assert!(help.contains(&format!("  {} ({})\n", paper.name, paper.parts())), "{help}");
        assert!(paper.experiments.iter().all(|experiment| help.contains(experiment)), "{help}");
        assert!(paper.figures.iter().all(|figure| paper.parts().contains(figure.number)), "{}", paper.parts());
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&run(folder.path(), &["completions", shell], 0).stdout).contains("compare"));
    }
    let list = text(&run(folder.path(), &["list"], 0).stdout);
    for architecture in server::Architecture::all() {
        assert!(list.contains(&architecture.to_string()));
    }
    let list = json(&run(folder.path(), &["list", "--json"], 0));
    for (row, architecture) in list["architectures"].as_array().unwrap().iter().zip(server::Architecture::all()) {
        assert_eq!(row["name"], architecture.to_string());
        assert_eq!(row["not_here"].as_str(), architecture.can_run().err().as_deref(), "{row}");
        assert!(row["limit"]["connections"].as_u64() > Some(0) && row["limit"]["by"].is_string(), "{row}");
        assert_eq!(row["needs"].as_str().unwrap_or_default(), architecture.needs());
    }
    for (table, rows) in [("mechanisms", MECHANISMS), ("buffered mechanisms", BUFFERED)] {
        for (found, row) in list[table].as_array().unwrap().iter().zip(rows) {
            assert_eq!((&found["name"], found["needs"].as_str().unwrap_or_default()), (&row.name.into(), row.needs));
            assert_eq!(found["not_here"].as_str(), (row.can_run)().err().as_deref(), "{found}");
        }
    }
}

#[test]
fn doctor_checks_every_cause_of_disturbance() {
    const SUBJECTS: &[&str] = &[
        "clock source",
        "invariant TSC",
        "governor",
        "turbo",
        "SMT",
        "C-states",
        "mitigations",
        "timer slack",
        "descriptors",
        "processes and threads",
        "vm.max_map_count",
        "backlog",
        "port range",
        "io_uring",
        "system calls from outside",
        "kernel timestamps",
        "hardware timestamps",
        "placement",
        "hypervisor",
        "steal time",
        "neighbours' load",
        "leftovers",
        "pauses",
        "container",
        "cgroup limits",
    ];
    let folder = tempfile::tempdir().unwrap();
    let printed = text(&run(folder.path(), &["doctor"], 0).stdout);
    let findings = json(&run(folder.path(), &["doctor", "--json"], 0));
    let findings = findings.as_array().unwrap();
    for subject in SUBJECTS {
        assert!(printed.contains(subject), "{subject}: {printed}");
        let finding =
            findings.iter().find(|finding| finding["name"] == *subject).unwrap_or_else(|| panic!("{subject}"));
        for word in ["value", "effect"] {
            assert!(!finding[word].as_str().unwrap().is_empty(), "{word}: {finding}");
        }
        assert!(finding["remedy"].is_string(), "{finding}");
        assert!(["good", "beware", "unknown"].contains(&finding["state"].as_str().unwrap()), "{finding}");
    }
    assert_eq!(findings.len(), SUBJECTS.len(), "{findings:?}");
}

#[test]
fn closed_pipe_is_no_error() {
    let mut child = muxbench().arg("list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The number of Markdown tables; checks that all rows have as many cells as the heading.
fn tables(markdown: &str) -> usize {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut tables = 0;
    let mut lines = markdown.lines().peekable();
    while let Some(heading) = lines.next() {
        if !heading.starts_with('|') {
            continue;
        }
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with("| --- |") && cells(line) == cells(heading), "{heading}\n{line}");
        while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
            assert_eq!(cells(row), cells(heading), "{heading}\n{row}");
        }
        assert!(lines.peek().is_none_or(|after| after.is_empty()), "{heading}");
        tables += 1;
    }
    tables
}

#[test]
fn every_table_prints_as_markdown() {
    let folder = tempfile::tempdir().unwrap();
    for (name, run) in [
        ("whole", fixtures::run()),
        ("sweep", fixtures::sweep_run()),
        ("capacity", fixtures::capacity_run()),
        ("streams", fixtures::bandwidth_run()),
    ] {
        let store = Store::create(&folder.path().join(name), &run.header).unwrap();
        run.records.iter().for_each(|record| store.commit(record).unwrap());
    }
    for (arguments, least) in [
        ("list", 7),
        ("plan smoke", 1),
        ("report whole", 2),
        ("report whole --explain", 4),
        ("report whole --send-deviation", 1),
        ("report sweep", 1),
        ("report capacity", 1),
        ("report streams", 11),
        ("report whole streams", 0),
        ("report .", 1),
    ] {
        let words: Vec<&str> = arguments.split(' ').chain(["--markdown"]).collect();
        let markdown = text(&run(folder.path(), &words, 0).stdout);
        assert!(tables(&markdown) >= least, "{arguments}: {markdown}");
        let both: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        assert!(text(&run(folder.path(), &both, 2).stderr).contains("cannot be used with"), "{arguments}");
    }
    let pasted =
        text(&measure(folder.path(), &[SMALL, &["--markdown", "--quiet", "--output", "pasted"]].concat()).stdout);
    assert!(tables(&pasted) == 1 && !pasted.contains("Results:"), "{pasted}");
}

#[cfg(target_os = "linux")]
#[test]
fn doctor_prints_markdown() {
    let folder = tempfile::tempdir().unwrap();
    let markdown = text(&run(folder.path(), &["doctor", "--markdown"], 0).stdout);
    assert_eq!(tables(&markdown), 1, "{markdown}");
}

/// A plan without --from uses the costs of docs/scale.md.
#[test]
fn plan_of_hosts_uses_documented_costs() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["compare", "--connections", "1000", "--arch", "epoll,io_uring,mt,mp", "--print-experiment"];
    std::fs::write(folder.path().join("thousand.toml"), run(folder.path(), &flags, 0).stdout).unwrap();
    let printed = text(&run(folder.path(), &["plan", "thousand.toml", "--hosts", "--markdown"], 0).stdout);
    let figures = &printed[printed.rfind("\n\n|").expect(&printed)..];
    let documented = include_str!("../../../docs/scale.md");
    assert!(figures.lines().count() > 8, "{figures}");
    for row in figures.lines().filter(|line| line.starts_with('|')) {
        assert!(documented.lines().any(|line| line == row), "docs/scale.md has no row `{row}`");
    }
    let numbers = figures.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    for number in numbers {
        assert!(documented.contains(number), "docs/scale.md has no figure `{number}`");
    }
}
