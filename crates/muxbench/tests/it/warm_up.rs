//! The warm-up of external servers: a server that gets faster is measured when it no longer does, or its trial says so.

use std::fs;
use std::path::Path;
use std::process::Output;

use harness::record::{Run, TrialRecord, VerdictKind};

use crate::cases::{Cases, case};
use crate::common::{ExternalServer, ROOT, assert_interleaved, muxbench, prepared, skipped, text};

/// The program that is slow for a while after its first request.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/warming_server.py");
const NAME: &str = "exec:warming";

/// Runs a command with few connections and sizes of 100 bytes. Returns its output and its stored run.
fn run(folder: &Path, arguments: &[&str]) -> (Output, Run) {
    let mut process = muxbench();
    process.args(arguments).args(["--quiet", "--output", "here", "--pacing", "sleep-spin", "--warm-up", "100ms"]);
    let output = process.current_dir(folder).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    (output, harness::store::read(&folder.join("here")).unwrap())
}

/// The flags of the command, which takes `delay_s` seconds for each request in the first 1.2 s.
fn warming(delay_s: &str) -> [String; 2] {
    ["--exec".into(), format!("warming=python3 {SCRIPT} log {{port}} {{request}} {{response}} 1.2 {delay_s}")]
}

const LOAD: [&str; 8] = ["--allow-exec", "-c", "5", "--request", "100B", "--response", "100B", "--cool-down=20s"];

fn of<'a>(run: &'a Run, name: &'a str) -> impl Iterator<Item = &'a TrialRecord> {
    run.records.iter().filter(move |record| record.trial.architecture.to_string() == name)
}

fn starts(folder: &Path) -> usize {
    fs::read_to_string(folder.join("log")).unwrap().lines().count()
}

fn slow_start_of_a_command_is_no_part_of_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, command] = warming("0.02");
    let compare = ["compare", "--rate", "250", "--repeats", "2", "--measure", "1s", &flag, &command];
    for more in [&["--interleave", "never"][..], &["--interleave", "always", "--arch", "epoll,exec:warming"]] {
        let (output, run) = run(folder.path(), &[&compare, &LOAD[..], more].concat());
        if more.contains(&"--arch") {
            assert_interleaved(&run);
        }
        assert_eq!(of(&run, NAME).count(), 2);
        for record in of(&run, NAME) {
            assert_ne!(record.verdict.kind, VerdictKind::Failed, "{}", record.verdict.reason);
            let warm_up = record.warm_up.unwrap();
            assert!(warm_up.elapsed_ns > 2_000_000_000 && !warm_up.is_earlier, "{warm_up:?}");
            let p50_ns = record.load.as_ref().unwrap().service.distribution.p50_ns;
            assert!(p50_ns < 20_000_000, "the median is that of a warm server: {p50_ns} ns");
            assert!(record.server.as_ref().unwrap().memory_user_bytes_per_connection.is_some_and(f64::is_finite));
        }
        assert!(of(&run, "epoll").all(|record| record.warm_up.is_none()));
        let out = text(&output.stdout);
        assert!(out.contains(&format!("{NAME}: warmed for ")), "{out}");
        fs::remove_dir_all(folder.path().join("here")).unwrap();
    }
    assert_eq!(starts(folder.path()), 4, "each repeat has a new server");
}

/// muxbench does not warm servers that already run.
fn cold_target_is_marked_with_and_without_turns() {
    // The window of two servers with turns lasts 4 s.
    for (turns, slow_s) in [("never", "1.2"), ("always", "2.5")] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let server = ExternalServer::start("the slow server", |port| {
            let mut command = std::process::Command::new("python3");
            let numbers = [&port.to_string(), "100", "100", slow_s, "0.005"];
            command.arg(SCRIPT).arg(&log).args(numbers);
            command
        });
        let target = format!("mine=tcp://{}", server.address);
        let compare = ["compare", "--rate", "150", "--repeats", "1", "--measure", "2s", "--interleave", turns];
        let servers = ["--target", &target, "--arch", "epoll,target:mine"];
        let (output, run) = run(folder.path(), &[&compare, &LOAD[1..], &servers].concat());
        let record = of(&run, "target:mine").next().unwrap();
        assert!(record.warm_up.is_none());
        assert!(record.verdict.is_of_cold_server(), "{turns}: {:?}", record.verdict);
        let out = text(&output.stdout);
        // A busy machine makes the client late, which says more.
        let is_told = out.contains("target:mine: got faster within 1 of 1 windows");
        assert!(is_told || record.verdict.kind != VerdictKind::Unsteady, "{out}");
    }
}

fn search_keeps_its_warm_server_across_probes() {
    let folder = tempfile::tempdir().unwrap();
    let [flag, command] = warming("0.02");
    let search = ["capacity", "--p50", "10ms", "--from", "100", "--to", "400", "--measure", "500ms", &flag, &command];
    let (output, run) = run(folder.path(), &[&search, &LOAD[..], &["--time-max", "20s"]].concat());
    assert!(run.records.len() >= 2, "{}", text(&output.stdout));
    let failed = run.records.iter().filter(|record| record.verdict.kind == VerdictKind::Failed).count();
    assert!(starts(folder.path()) <= 1 + failed, "a failed probe ends its server: {failed}");
    for (number, record) in of(&run, NAME).enumerate().filter(|_| failed == 0) {
        assert_eq!(record.warm_up.unwrap().is_earlier, number > 0);
    }
}

/// Measures a server of `examples/servers` beside `epoll`.
fn is_warmed(name: &str, command: &str, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let exec = format!("{name}={command}");
    let compare = ["compare", "--rate", "200", "--repeats", "1", "--measure", "400ms", "--allow-exec", "-c", "20"];
    let (output, run) = run(folder.path(), &[&compare, &["--cool-down", "20s", "--exec", &exec][..], more].concat());
    let record = &run.records[0];
    assert_ne!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
    assert!(record.warm_up.unwrap().elapsed_ns > 2_000_000_000, "{name}: {:?}", record.warm_up);
    let out = text(&output.stdout);
    assert!(out.contains(&format!("exec:{name}: warmed for ")), "{out}");
}

fn servers_with_compilers_are_warmed() {
    let has = |program: &str| server::external::config::find_program(program, None, None).is_ok();
    let built = prepared("MUXBENCH_SERVERS", "servers");
    let built = built.display();
    let sizes = "fixed {port} {request} {response}";
    let python = format!("{ROOT}/examples/servers/python/asyncio_server.py");
    let node = format!("node {ROOT}/examples/servers/node/server.mjs {{address}} {{port}}");
    let http = ["--service", "http", "--path", "/bytes/100"];
    for (program, command, more) in [
        ("node", node, &http[..]),
        ("java", format!("java -cp {built}/java Server nio {sizes}"), &[]),
        ("go", format!("{built}/go {sizes}"), &[]),
        ("pypy3", format!("pypy3 {python} {sizes}"), &[]),
    ] {
        match program {
            // Compiled above.
            "go" => is_warmed(program, &command, more),
            _ if has(program) => is_warmed(program, &command, more),
            _ => skipped(program),
        }
    }
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(slow_start_of_a_command_is_no_part_of_its_figures));
    cases.once(case!(cold_target_is_marked_with_and_without_turns));
    cases.once(case!(search_keeps_its_warm_server_across_probes));
    cases.once(case!(servers_with_compilers_are_warmed));
}
