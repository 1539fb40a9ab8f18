//! The command line, as a user runs it.

mod errors;
mod reports;
mod stops;
mod verdicts;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::cases::{Cases, case};
use crate::common::{
    ROOT, Serve, assert_interleaved, descendants, eventually, is_alive, json, muxbench, prepared, sampled_trials,
    store, text,
};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use server::registry::{BUFFERED, MECHANISMS};

/// Flags of a comparison that takes about two seconds.
const SMALL: &[&str] = &[
    "compare",
    "--arch",
    "epoll,mt",
    "--connections",
    "20",
    "--rate",
    "1000",
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
    // A client that spins would take CPU time from other tests.
    "--pacing",
    "sleep-spin",
];

/// Flags that run each trial separately, so that all its requests count.
const SEPARATE: &[&str] = &["--interleave", "never"];

/// Runs muxbench in `folder`. Panics with all output unless the exit code is `code`.
fn run(folder: &Path, arguments: &[&str], code: i32) -> Output {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
    output
}

/// Runs a comparison in `folder`. Also accepts exit code 3, because a busy machine may delay the client.
fn measure(folder: &Path, arguments: &[&str]) -> Output {
    let output = muxbench().args(arguments).current_dir(folder).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}\n{out}\n{err}");
    output
}

/// Stores a run of an experiment of `reproduce` in `folder`. Every trial of the run has failed.
fn failed_run(folder: &Path, experiment: &str) {
    let quick = harness::spec::presets::find(experiment).unwrap().experiment().quick();
    let host = harness::host::detect();
    let plan = harness::plan::plan(&quick, &host).unwrap();
    let header = harness::record::RunHeader {
        interleave: harness::spec::interleave::Interleave::Never,
        name: experiment.into(),
        muxbench: env!("CARGO_PKG_VERSION").into(),
        command: vec!["muxbench".into()],
        started_at: "2026-01-01T00:00:00Z".into(),
        experiment: experiment.into(),
        seed: plan.seed,
        trials: plan.trials,
        strategy: harness::record::Strategy::Whole,
        host: host.facts,
        placement: plan.placement,
        idle_cpus_poll: false,
        is_profiled: false,
        is_distributed: false,
    };
    let store = harness::store::Store::create(folder, &header).unwrap();
    for trial in &header.trials {
        let verdict = harness::record::Verdict {
            kind: harness::record::VerdictKind::Failed,
            reason: "failed in a test".into(),
            checks: Vec::new(),
        };
        let record = harness::record::TrialRecord {
            trial: trial.clone(),
            started_at: header.started_at.clone(),
            elapsed_ns: 1,
            load: None,
            server: None,
            network: None,
            idle: None,
            separated: None,
            warm_up: None,
            cpu_taken_by_others: None,
            profile: None,
            profile_error: None,
            verdict,
        };
        store.commit(&record).unwrap();
    }
}

fn pools_are_measured_with_exclusive_accept() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = SMALL.to_vec();
    arguments[2] = "mp-prefork,mt-pool:20,mt-pool:4";
    arguments.extend(["--accept", "exclusive"]);
    let out = text(&measure(folder.path(), &arguments).stdout);
    assert!(out.contains("mt-pool:4 (exclusive): architectures: mt-pool:4 serves 4 connections at a time"), "{out}");
    assert!(out.contains("\nmt-pool:20 (exclusive) ") && out.contains("\nmp-prefork (exclusive) "), "{out}");
    let whole = json(&run(folder.path(), &["report", "--json"], 0));
    let trials = whole["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "the pool that is too small does not run");
    for trial in trials {
        assert_eq!(trial["trial"]["serve"]["accept"], "exclusive", "{trial}");
        let pool = if trial["trial"]["architecture"] == "mp-prefork" { 36 } else { 20 };
        assert_eq!((&trial["server"]["workers"], &trial["server"]["connections"]), (&pool.into(), &20.into()));
    }
}

/// Occupies a CPU with many threads until dropped, so that a server or client on it gets a small share.
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

fn kernel_timestamps_cover_every_sent_request() {
    let folder = tempfile::tempdir().unwrap();
    let output = measure(folder.path(), &[SMALL, &["--timestamps", "kernel", "--output", "run"]].concat());
    let table = text(&output.stdout);
    assert!(table.contains("Kernel timestamps on the interface lo, which has no hardware timestamps"), "{table}");
    assert_interleaved(&harness::store::read(&folder.path().join("run")).unwrap());
    let whole = json(&run(folder.path(), &["report", "run", "--json"], 0));
    for trial in whole["trials"].as_array().unwrap() {
        let kernel = &trial["load"]["kernel"];
        assert_eq!(kernel["unstamped_sent"], 0, "{trial}");
        // A late client reads several responses together, which then lack timestamps of their own. On a busy
        // machine this applies to most responses.
        assert!(kernel["service"]["distribution"]["count"].as_u64().unwrap() > 0, "{trial}");
    }
    let samples = traffic::samples::read(&harness::store::samples_path(&folder.path().join("run"), 0)).unwrap();
    assert!(
        samples
            .iter()
            .all(|sample| sample.driver_ns != load::Sample::NEVER && sample.arrived_ns > sample.driver_ns - 50_000)
    );
}

fn flags_set_locality_and_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let more =
        ["--active", "1/4,1", "--idle", "30", "--popularity", "zipf:0.8", "--schedule", "poisson", "--output", "run"];
    let out = text(&measure(folder.path(), &[SMALL, &more].concat()).stdout);
    let title = "20 connections, 1/4 active, 30 idle connections, popularity zipf:0.8, 1000 requests/s, as a Poisson \
                 process, 1B -> 100B";
    assert!(out.contains(title), "{out}");
    let store = harness::store::read(&folder.path().join("run")).unwrap();
    assert_eq!(store.records.len(), 8);
    for record in store.records {
        let samples =
            traffic::samples::read(&harness::store::samples_path(&folder.path().join("run"), record.trial.index))
                .unwrap();
        let mut used: Vec<u32> = samples.iter().map(|sample| sample.connection).collect();
        used.sort_unstable();
        used.dedup();
        let active = if record.trial.workload.active() < 1.0 { 5 } else { 20 };
        assert!(used.len() <= active && used.len() > active / 2, "{used:?}");
        assert_eq!(record.server.unwrap().connections, 50, "idle connections are open too");
    }
}

fn calibrate_recovers_hold_times() {
    let folder = tempfile::tempdir().unwrap();
    // A client that spins would take CPU time from other tests.
    let common = ["calibrate", "--hold", "300ms", "--rate", "100", "--pacing", "sleep-spin"];
    let arguments =
        [&common[..], &["--rounds", "2", "--measure", "400ms", "--law", "fixed,uniform", "--json"]].concat();
    for more in [["--transport", "tcp"].as_slice(), &["--transport", "udp", "--timestamps", "kernel"]] {
        let calibrate = || json(&run(folder.path(), &[&arguments[..], more].concat(), 0));
        let ns = |value: &Value| value.as_f64().unwrap();
        // If the client assigned responses to wrong requests, the quartiles of the error would shift by at least a quarter of
        // the mean hold in each calibration. Other load on the CPUs shifts them only occasionally.
        let is_undisturbed = |found: &Value| {
            let conditions = found["conditions"].as_array().unwrap()[1..].iter();
            let spreads = conditions.map(|condition| condition["client"]["spread_ns"].as_array().unwrap());
            spreads.clone().all(|spread| ns(&spread[1]).abs() < 45e6 && ns(&spread[2]).abs() < 45e6)
        };
        let found = (0..5).map(|_| calibrate()).find(is_undisturbed).expect("one of five calibrations is undisturbed");
        let conditions = found["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 3);
        assert_eq!(conditions[0]["client"]["bias_ns"]["value"], 0.0, "the null server has no bias against itself");
        for condition in &conditions[1..] {
            assert_eq!(condition["count"], 80, "two rounds of 40 requests");
            // A busy machine only lengthens holds and measured times.
            assert!(ns(&condition["held_p50_ns"]) > 225e6, "{condition}");
            assert!(ns(&condition["service_p50_ns"]) >= ns(&condition["held_p50_ns"]), "{condition}");
            assert_eq!(condition["kernel"].is_object(), more.contains(&"kernel"));
        }
    }
    let brief = ["--rounds", "1", "--measure", "200ms", "--law", "uniform"];
    let table = text(&run(folder.path(), &[&common[..], &brief].concat(), 0).stdout);
    assert!(table.contains("bias µs") && table.contains("300 ms uniform"), "{table}");
    let shared = run(folder.path(), &["calibrate", "--server-cpus", "0", "--client-cpus", "0"], 1);
    assert!(text(&shared.stderr).contains("give each side CPUs of its own"));
}

fn experiment_file_is_planned_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = text(&run(folder.path(), &[SMALL, &["--print-experiment"]].concat(), 0).stdout);
    let decided = run(folder.path(), &[SMALL, &["--print-experiment", "--until", "5%"]].concat(), 0);
    assert_eq!(text(&decided.stdout), experiment);
    assert!(text(&decided.stderr).contains("the file cannot contain --until; add --until to"), "{decided:?}");
    std::fs::write(folder.path().join("mine.toml"), experiment.replace("\"compare\"", "\"mine\"")).unwrap();
    let plan = json(&run(folder.path(), &["plan", "mine.toml", "--json"], 0));
    assert_eq!(plan["trials"].as_array().unwrap().len(), 4);
    let table = text(&run(folder.path(), &["plan", "mine.toml"], 0).stdout);
    assert!(table.contains("mine: 4 trials, about"), "{table}");
    measure(folder.path(), &["run", "mine.toml", "--quiet", "--output", "here"]);
    assert_interleaved(&harness::store::read(&folder.path().join("here")).unwrap());
    run(folder.path(), &["run", "mine.toml", "--output", "here"], 1);
    let schema = json(&run(folder.path(), &["plan", "--schema"], 0));
    assert!(schema["properties"]["workload"].is_object());
}

fn until_decides_pairs_or_prints_how_to_continue() {
    let folder = tempfile::tempdir().unwrap();
    let at = SMALL.iter().position(|argument| *argument == "--repeats").unwrap();
    let more = ["--placebo", "--until", "20%", "--budget", "3s", "--output", "here"];
    let out = text(&measure(folder.path(), &[&SMALL[..at], &SMALL[at + 2..], &more].concat()).stdout);
    let stored = harness::store::read(&folder.path().join("here")).unwrap();
    assert_eq!(
        stored.header.strategy,
        harness::record::Strategy::Until(harness::record::UntilGoal { margin: 0.2, time_max_ns: 3_000_000_000 })
    );
    assert_interleaved(&stored);
    let report = json(&run(folder.path(), &["report", "here", "--json"], 0));
    let rows = report["summary"]["comparisons"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    measure(folder.path(), &["compare", "--resume", "here", "--budget", "4s", "--quiet"]);
    let resumed = harness::store::read(&folder.path().join("here")).unwrap().header;
    assert_eq!(
        resumed.strategy,
        harness::record::Strategy::Until(harness::record::UntilGoal { margin: 0.2, time_max_ns: 4_000_000_000 })
    );
    // On a busy machine most trials may be invalid.
    if rows.iter().any(|row| row["verdict"] != "valid") {
        return;
    }
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Noise floor: epoll against itself (placebo) "), "{out}");
    let decisions = ["Equal within 20 %: ", "All pairs are separated.", "Open: "];
    assert!(decisions.iter().any(|decision| words.contains(decision)), "{out}");
    let continues = out.lines().any(|line| line.starts_with("  muxbench compare --resume here --budget "));
    assert_eq!(continues, words.contains("Open: "), "{out}");
}

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
    store(&folder.path().join("small"), &testkit::run());
    let from_run = needs(&["--from", "small", "--measure"]);
    let epoll = from_run["servers"].as_array().unwrap().iter().find(|it| it["architecture"] == "epoll").unwrap();
    assert!(epoll["origin"].as_str().unwrap().starts_with("small, with "), "{epoll}");
    let per_s = &from_run["figures"]["client_per_s"];
    assert!(per_s["value"].as_f64().unwrap() > 0.0 && per_s["origin"].as_str().unwrap().starts_with("measured now"));

    // Print the needs of an experiment on standard input, as text.
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

fn idle_counts_connections_that_are_alive_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let epoll = "epoll".parse().unwrap();
    let hold = |flags: &[&str], time: &str, code: i32| {
        let server = Serve::start_http(epoll, flags);
        let url = format!("http://{}/bytes/10", server.ip());
        let arguments = ["idle", &url, "--connections", "7", "--time", time, "--json"];
        let report = json(&run(folder.path(), &arguments, code));
        server.stop();
        report
    };
    let report = hold(&[], "500ms", 0);
    assert_eq!((&report["held"], &report["alive"]), (&Value::from(7), &Value::from(7)), "{report}");
    let report = hold(&["--keepalive-timeout", "100ms"], "1s", 3);
    assert_eq!((&report["held"], &report["alive"]), (&Value::from(7), &Value::from(0)), "{report}");
    assert_eq!(report["errors"]["reset"], 7, "{report}");
    let error = text(&run(folder.path(), &["idle", "--target", "127.0.0.1:9", "--service", "udp"], 1).stderr);
    assert!(error.contains("no connections to hold"), "{error}");
}

/// Flags of a comparison of closed loops. Without think time, their clients take all CPU time that they get.
const CLOSED: &[&str] = &[
    "compare",
    "--schedule",
    "closed",
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
    assert_eq!(whole["summary"]["comparisons"][0]["metric"], "transactions per second");
    let trials = whole["trials"].as_array().unwrap();
    assert_eq!(trials.len(), trials_expected);
    for trial in trials {
        let (load, verdict) = (&trial["load"], &trial["verdict"]);
        assert!(load["errors"].as_object().unwrap().values().all(|count| *count == 0), "{}", load["errors"]);
        assert!(load["rate_asked_per_s"].is_null() && trial["trial"]["workload"]["rate_per_s"].is_null());
        assert!(load["closed"]["busy_share"].as_f64().unwrap() > 0.0, "{}", load["closed"]);
        assert!(trial["server"]["totals"]["requests"].as_u64().unwrap() > 0, "{trial}");
        // A server or a client without CPU time completes few requests, or none. A trial fails for no other reason.
        let is_starved = verdict["reason"].as_str().unwrap().starts_with("requests in the window: ");
        assert!(verdict["kind"] != "failed" || is_starved, "{verdict}");
    }
    let completing = trials.iter().filter(|trial| trial["load"]["completed"].as_u64().unwrap() > 0).count();
    assert!(completing >= trials_expected / 2, "only {completing} of {trials_expected} trials have requests");
    let results = std::fs::read_dir(folder.join("results")).unwrap().next().unwrap().unwrap().path();
    let samples = traffic::samples::read(&harness::store::samples_path(&results, 0)).unwrap();
    let planned = trials[0]["load"]["planned"].as_u64().unwrap();
    assert_interleaved(&harness::store::read(&results).unwrap());
    // The samples of an interleaved trial include those of guards.
    let has_guards = !trials[0]["trial"]["client"]["slices"].is_null();
    assert!(samples.len() as u64 == planned || has_guards && samples.len() as u64 > planned, "{planned} planned");
    let log = std::fs::read_to_string(harness::store::histograms_path(&results, 0)).unwrap();
    assert!(log.contains(" connections, closed loop, repeat 0"), "{log}");
}

fn closed_loops_are_compared_by_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--arch", "epoll,symped:2,amped:1+2,mt", "--request", "1B", "--response", "100B", "--think", "5ms"];
    let out = text(&measure(folder.path(), &[CLOSED, &flags, &["--connections", "10,20"]].concat()).stdout);
    for words in ["closed loop, 20 connections, think 5ms, 1B -> 100B", "trans/s", "against connections", "client CPU"]
    {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_closed(folder.path(), 8);
}

fn closed_loops_of_kv_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--arch", "epoll,symped:2,amped:1+2,mt", "--service", "kv", "--records", "500", "--keys", "zipf:0.99"];
    let more = ["--value-size", "10B..2KiB", "--get-share", "75%", "--clients", "2", "--connections", "10"];
    let out = text(&measure(folder.path(), &[CLOSED, &flags, &more].concat()).stdout);
    let title = "closed loop, 10 connections, think 0, kv, 75 % get of 500 records of 10B..2KiB, keys by zipf:0.99";
    assert!(out.contains(title), "{out}");
    assert_closed(folder.path(), 4);
    let experiment = [CLOSED, &flags, &more, &["--print-experiment"]].concat();
    let file = text(&run(folder.path(), &experiment, 0).stdout);
    assert!(file.contains("[workload.kv]") && !file.contains("rate ="), "{file}");
    std::fs::write(folder.path().join("again.toml"), file).unwrap();
    run(folder.path(), &["plan", "again.toml"], 0);
}

fn serve_and_load_work_without_a_runner() {
    let serve = crate::common::Serve::start("poll".parse().unwrap(), 128, 10_240);
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.parquet");
    let output = crate::common::load()
        .args(["--target", &serve.address.to_string(), "--connections", "20", "--rate", "500", "--ramp", "50ms"])
        .args(["--warm-up", "50ms", "--measure", "400ms", "--cool-down", "5s", "--pacing", "sleep-spin", "--samples"])
        .arg(&samples)
        .output()
        .unwrap();
    let out = text(&output.stdout);
    assert!(out.contains("200 of 200 requests completed"), "{out}{}", text(&output.stderr));
    assert_eq!(traffic::samples::read(&samples).unwrap().len(), 200);
    let (_, totals) = serve.stop();
    // The first request of each connection verifies the service.
    assert!(totals["requests"].as_u64().unwrap() >= 220, "{totals}");
}

fn client_with_wrong_sizes_fails_before_the_ramp() {
    let serve = crate::common::Serve::start("epoll".parse().unwrap(), 128, 100);
    let output = crate::common::load()
        .args(["--target", &serve.address.to_string(), "--request", "128B", "--response", "200B"])
        .args(["--connections", "5", "--timeout", "200ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("check the server's service")
            || text(&output.stderr).contains("the server sent no complete response"),
        "{}",
        text(&output.stderr)
    );
}

fn commands_have_help_completions_and_man_pages() {
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
    assert!(help.contains("Run for 9 to 12 minutes"), "as in docs/results.md: {help}");
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
        "memory monitors",
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
        assert!(["good", "warning", "unknown"].contains(&finding["severity"].as_str().unwrap()), "{finding}");
    }
    assert_eq!(findings.len(), SUBJECTS.len(), "{findings:?}");
}

fn closed_output_pipe_is_no_error() {
    for line in ["list", "list --json", "completions bash", "man compare", "compare --help", "--help"] {
        let mut command = muxbench();
        let command = command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
    }
}

/// Checks that docs/scale.md contains the figures of a plan without --from.
fn plan_of_hosts_uses_documented_costs() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["compare", "--connections", "1000", "--arch", "epoll,io_uring,mt,mp", "--print-experiment"];
    std::fs::write(folder.path().join("thousand.toml"), run(folder.path(), &flags, 0).stdout).unwrap();
    let printed = text(&run(folder.path(), &["plan", "thousand.toml", "--hosts", "--markdown"], 0).stdout);
    let figures = &printed[printed.rfind("\n\n|").expect(&printed)..];
    let documented = include_str!("../../../../../docs/scale.md");
    assert!(figures.lines().count() > 8, "{figures}");
    for row in figures.lines().filter(|line| line.starts_with('|')) {
        assert!(documented.lines().any(|line| line == row), "docs/scale.md has no row `{row}`");
    }
    let numbers = figures.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    for number in numbers {
        assert!(documented.contains(number), "docs/scale.md has no figure `{number}`");
    }
}

/// Adds the cases of this folder.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(pools_are_measured_with_exclusive_accept));
    cases.alone(case!(kernel_timestamps_cover_every_sent_request));
    cases.once(case!(flags_set_locality_and_schedules));
    cases.once(case!(calibrate_recovers_hold_times));
    cases.once(case!(experiment_file_is_planned_and_run));
    cases.alone(case!(until_decides_pairs_or_prints_how_to_continue));
    cases.once(case!(experiment_is_read_from_a_named_pipe));
    cases.once(case!(needed_hosts_follow_from_documented_or_measured_costs));
    cases.once(case!(idle_counts_connections_that_are_alive_at_the_end));
    cases.once(case!(closed_loops_are_compared_by_transactions));
    cases.once(case!(closed_loops_of_kv_are_compared));
    cases.once(case!(serve_and_load_work_without_a_runner));
    cases.once(case!(client_with_wrong_sizes_fails_before_the_ramp));
    cases.once(case!(commands_have_help_completions_and_man_pages));
    cases.once(case!(doctor_checks_every_cause_of_disturbance));
    cases.once(case!(closed_output_pipe_is_no_error));
    cases.once(case!(plan_of_hosts_uses_documented_costs));
    errors::cases(cases);
    reports::cases(cases);
    stops::cases(cases);
    verdicts::cases(cases);
}
