//! Servers that already run, and commands of flags, measured by `compare`, `sweep`, `capacity` and `overload`.

use std::fs;
use std::path::Path;
use std::process::Output;

use harness::record::{Run, TrialRecord, VerdictKind};

use crate::cases::{Cases, case};
use crate::common::{ROOT, Serve, assert_interleaved, muxbench, text};

/// Few connections, and short phases.
const BRIEF: [[&str; 2]; 5] = [
    ["--connections", "5"],
    ["--warm-up", "100ms"],
    ["--measure", "300ms"],
    ["--cool-down", "20s"],
    ["--pacing", "sleep-spin"],
];

/// The sizes of `Serve::start(epoll, 10, 20)`.
const FIXED: [&str; 4] = ["--request", "10B", "--response", "20B"];

fn run(folder: &Path, command: &str, arguments: &[&str]) -> Output {
    let mut process = muxbench();
    // Datagrams have ports in place of connections, and a pulse has a length of its own.
    let has = |part: &str| arguments.iter().any(|it| it.contains(part));
    let fits = |flag: &str| !(flag == "--connections" && has("udp://") || flag == "--measure" && has("--capacity"));
    process.arg(command).args(arguments).args(BRIEF.iter().filter(|[flag, _]| fits(flag)).flatten());
    process.args(["--quiet", "--output", "here"]);
    if ["compare", "sweep"].contains(&command) {
        process.args(["--repeats", "1"]);
    }
    process.current_dir(folder).output().unwrap()
}

/// The stored run of a successful command.
fn stored(folder: &Path, output: &Output) -> Run {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    harness::store::read(&folder.join("here")).unwrap()
}

fn error(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn target_is_compared_with_an_architecture() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::start_http("epoll".parse().unwrap(), &[]);
    let target = format!("mine=http://{}/bytes/1000", serve.ip());
    let pid = format!("mine={}", serve.pid().as_raw_pid());
    let same = format!("again=http://{}/bytes/1000", serve.ip());
    let arguments =
        ["--target", &target, "--target-pid", &pid, "--target", &same, "--arch", "mt,target:mine", "--rate", "1000"];
    let output = run(folder.path(), "compare", &arguments);
    let run = stored(folder.path(), &output);
    let names: Vec<String> = run.records.iter().map(|record| record.trial.architecture.to_string()).collect();
    for name in ["mt", "target:mine", "target:again"] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
    assert_interleaved(&run);
    for record in &run.records {
        let name = record.trial.architecture.to_string();
        assert_ne!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
        let load = record.load.as_ref().unwrap();
        assert!(load.completed > 0 && load.errors.total() == 0, "{name}: {:?}", load.errors);
        assert_eq!(record.server.is_some(), name != "target:again", "only a known process has counters");
    }
    let row = |name: &str| {
        let out = text(&output.stdout);
        out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{out}")).to_owned()
    };
    assert!(row("target:again").split_whitespace().any(|cell| cell == "-"), "{}", row("target:again"));
    let mine = run.records.iter().find(|record| record.trial.architecture.to_string() == "target:mine").unwrap();
    assert!(has_cpu_time(mine));
    assert_eq!(mine.server.as_ref().unwrap().memory_user_bytes_per_connection, None, "the process reuses its memory");
}

fn target_of_every_scheme_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", folder.path().join("s").display());
    let epoll = || "epoll".parse().unwrap();
    let servers = [
        ("tcp://", Serve::start(epoll(), 10, 20), &FIXED[..]),
        ("", Serve::start_with(epoll(), 10, 20, &["--listen", &path], None), &FIXED),
        ("udp://", Serve::start_udp(epoll(), 1, &[]), &["--ports", "1", "--request", "16B", "--response", "40B"]),
        ("http://", Serve::start_http(epoll(), &[]), &[]),
        ("https://", Serve::start_http(epoll(), &["--tls"]), &["--insecure"]),
        ("memcached://", Serve::start_kv(epoll(), &[]), &[]),
        ("redis://", Serve::start_redis(epoll(), &[]), &[]),
    ];
    for (scheme, serve, flags) in servers {
        let target = format!("mine={scheme}{}", serve.address);
        for command in ["compare", "sweep"] {
            let output = run(folder.path(), command, &[&["--target", &target, "--rate", "200"], flags].concat());
            let [record] = &stored(folder.path(), &output).records[..] else { panic!("{target}: no single trial") };
            assert_ne!(record.verdict.kind, VerdictKind::Failed, "{target}: {}", record.verdict.reason);
            let load = record.load.as_ref().unwrap();
            assert!(load.completed > 0 && load.errors.total() == 0, "{target}: {:?}", load.errors);
            fs::remove_dir_all(folder.path().join("here")).unwrap();
        }
    }
}

/// Returns whether the server used CPU time. On a busy machine, its counters may be read late and hold none of the window.
fn has_cpu_time(record: &TrialRecord) -> bool {
    record.verdict.kind != VerdictKind::Valid || record.server.as_ref().is_some_and(|it| it.totals.cpu_ns() > 0)
}

fn stopped_target_is_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::start("epoll".parse().unwrap(), 10, 20);
    let address = serve.ip();
    let target = format!("mine=tcp://{address}");
    let compare = || run(folder.path(), "compare", &[&["--target", &target, "--rate", "200"][..], &FIXED].concat());
    let run_stored = stored(folder.path(), &compare());
    assert_eq!(run_stored.records[0].trial.workload.service.fixed(), Some((10, 20)));
    drop(serve);
    let resumed = muxbench().args(["run", "--resume", "here"]).current_dir(folder.path()).output().unwrap();
    assert!(error(&resumed).contains(&format!("target:mine: cannot connect to {address}")), "{resumed:?}");
    let failed = error(&compare());
    assert!(failed.contains(&format!("muxbench: cannot connect to {address}: ")), "{failed}");
}

fn search_finds_the_capacity_of_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::start("epoll".parse().unwrap(), 10, 20);
    let target = format!("mine=tcp://{}", serve.ip());
    let limits = ["--p99", "10s", "--from", "500", "--to", "1000", "--precision", "50%"];
    let run =
        stored(folder.path(), &run(folder.path(), "capacity", &[&["--target", &target], &limits[..], &FIXED].concat()));
    assert!(run.records.len() >= 2, "{:?}", run.records.len());
    assert!(run.records.iter().all(|record| record.server.is_none() && record.load.is_some()));
}

fn target_has_a_curve_and_an_overload() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::start("epoll".parse().unwrap(), 10, 20);
    let target = format!("mine=tcp://{}", serve.ip());
    let is_of_target = |record: &TrialRecord| {
        record.trial.architecture.to_string() == "target:mine"
            && record.verdict.kind != VerdictKind::Failed
            && record.load.as_ref().is_some_and(|load| load.completed > 0 && load.errors.total() == 0)
    };
    let sweep = ["--target", &target, "--rate", "200,400"];
    let output = run(folder.path(), "sweep", &[&sweep[..], &FIXED].concat());
    let swept = stored(folder.path(), &output);
    let rates: Vec<_> = swept.records.iter().filter_map(|it| it.trial.workload.rate_per_s()).collect();
    assert!(rates == [200.0, 400.0] && swept.records.iter().all(is_of_target), "{rates:?}: {}", text(&output.stdout));
    fs::remove_dir_all(folder.path().join("here")).unwrap();

    let phases = ["--before", "300ms", "--pulse-length", "200ms", "--after", "500ms", "--request-timeout", "30s"];
    let arguments = [&["--target", &target, "--capacity", "400"], &phases[..], &FIXED].concat();
    let output = run(folder.path(), "overload", &arguments);
    let overloaded = stored(folder.path(), &output);
    assert!(overloaded.records.len() == 1 && is_of_target(&overloaded.records[0]), "{:?}", overloaded.records);
    assert!(text(&output.stdout).contains("target:mine"), "{}", text(&output.stdout));
}

fn command_of_a_flag_is_compared_with_its_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("t");
    fs::create_dir(&temporary).unwrap();
    let server = format!("{ROOT}/examples/servers/python/asyncio_server.py");
    let script = format!("test -d {{dir}} && exec python3 '{server}' fixed {{port}} {{request}} {{response}}");
    fs::write(folder.path().join("start.sh.in"), script).unwrap();
    let arguments = ["--exec", "mine=sh '{config}'", "--exec-config", "mine=start.sh.in", "--arch", "mt,exec:mine"];
    let sizes = ["--request", "10B", "--response", "20B", "--rate", "200"];
    let compare = |more: &[&str]| {
        let mut process = muxbench();
        process.arg("compare").args(arguments).args(sizes).args(BRIEF.concat()).args(["--repeats", "1"]);
        process.args(["--quiet", "--output", "here"]);
        process.args(more).current_dir(folder.path()).env("TMPDIR", &temporary).output().unwrap()
    };
    let shown = error(&compare(&[]));
    assert!(shown.contains("exec:mine: sh {config} (with start.sh)") && shown.contains("add --allow-exec"), "{shown}");
    let run = stored(folder.path(), &compare(&["--allow-exec"]));
    assert_eq!(run.records.len(), 2);
    for record in &run.records {
        let name = &record.trial.architecture;
        assert_ne!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
        assert!(record.server.is_some() && has_cpu_time(record), "{name}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the private folder is removed");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(target_is_compared_with_an_architecture));
    cases.once(case!(target_of_every_scheme_is_measured));
    cases.once(case!(stopped_target_is_reported_before_anything_starts));
    cases.once(case!(search_finds_the_capacity_of_a_target));
    cases.once(case!(target_has_a_curve_and_an_overload));
    cases.once(case!(command_of_a_flag_is_compared_with_its_configuration_file));
}
