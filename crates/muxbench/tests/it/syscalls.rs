//! System calls: the servers' counts compared with the kernel's.

use std::collections::BTreeMap;
use std::process::Output;

use crate::cases::{Cases, case};
use crate::common::{Serve, exchange, muxbench, skipped, text};
use serde_json::Value;
use server::metrics::tracepoints::can_count;
use server::metrics::{OTHER, comparable_kinds};
use server::{Architecture, Threads};

/// Allowed difference of the two counts, in addition to 2 % of all calls. The counts are read one after the other,
/// perhaps with a delay.
const DIFFERENCE_MAX: u64 = 60;

/// All architectures that can run here, and runtimes with two threads.
fn architectures() -> Vec<Architecture> {
    let all = Architecture::all();
    let is_runtime = |row: &&Architecture| row.model.is_runtime();
    let with_two_threads =
        all.iter().filter(is_runtime).map(|&row| Architecture { threads: Some(Threads::all(2)), ..row });
    let all: Vec<Architecture> = all.iter().copied().chain(with_two_threads).collect();
    all.into_iter()
        .filter(|architecture| match architecture.can_run() {
            Ok(()) => true,
            Err(reason) => {
                skipped(&format!("{architecture}: {reason}"));
                false
            }
        })
        .collect()
}

fn compare(folder: &std::path::Path, architectures: &str, flags: &[&str]) -> Output {
    let traffic = ["--connections", "20", "--rate", "1000", "--repeats", "1", "--pacing", "sleep-spin"];
    let phases = ["--ramp", "50ms", "--warm-up", "100ms", "--measure", "500ms", "--cool-down", "60s"];
    let mut command = muxbench();
    command.args(["compare", "--quiet", "--arch", architectures]).args(traffic).args(phases).args(flags);
    command.current_dir(folder).output().unwrap()
}

/// Returns whether the kernel cannot count system calls on this host. If so, checks that users get an error.
fn cannot_count(folder: &std::path::Path) -> bool {
    let Err(reason) = can_count() else { return false };
    skipped(&format!("system calls counted by the kernel (only the error is tested): {reason}"));
    let output = compare(folder, "epoll", &["--count-syscalls"]);
    let printed = text(&output.stderr);
    assert!(!output.status.success() && printed.contains("server.count-syscalls: "), "{printed}");
    assert!(!folder.join("results").exists(), "no run was started");
    let serve = muxbench().args(["serve", "--count-syscalls"]).output().unwrap();
    let printed = text(&serve.stderr);
    assert!(!serve.status.success() && printed.contains("cannot count the server's system calls"), "{printed}");
    true
}

fn server_and_kernel_counts_agree_in_every_architecture() {
    let folder = tempfile::tempdir().unwrap();
    if cannot_count(folder.path()) {
        return;
    }
    let architectures = architectures();
    let names: Vec<String> = architectures.iter().map(Architecture::to_string).collect();
    let output = compare(folder.path(), &names.join(","), &["--count-syscalls", "--json"]);
    let run: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    for architecture in architectures {
        let name = architecture.to_string();
        let trials = run["trials"].as_array().unwrap().iter();
        let trial = trials.clone().find(|trial| trial["trial"]["architecture"] == name.as_str()).expect(&name);
        let totals = &trial["server"]["totals"];
        let counts = |kind: &str| -> BTreeMap<String, u64> {
            serde_json::from_value(totals[kind].clone()).unwrap_or_else(|_| panic!("{name}: {totals}"))
        };
        let (inside, outside) = (counts("syscalls"), counts("syscalls_outside"));
        let requests = totals["requests"].as_u64().unwrap();
        println!("{name}: {requests} requests, {inside:?}, {outside:?}");
        if requests == 0 {
            // On a busy machine, counters may be read late and hold none of the window.
            assert_ne!(trial["verdict"]["kind"], "valid", "{name} served requests");
            continue;
        }
        let all: u64 = outside.values().sum();
        // With io_uring-sqpoll a kernel thread submits all operations, so the server may make no call.
        assert!(all > 0 || name == "io_uring-sqpoll", "{name}");
        assert_eq!(inside.is_empty(), !architecture.model.counts_syscalls, "{name}");
        if inside.is_empty() {
            continue;
        }
        let alike = comparable_kinds(inside["wake"] > 0);
        let kinds = inside.keys().map(String::as_str).filter(|kind| !alike.contains(kind) && *kind != "wake");
        for kinds in kinds.map(|kind| vec![kind]).chain([alike.to_vec(), vec![OTHER]]) {
            let sum = |counts: &BTreeMap<String, u64>| kinds.iter().filter_map(|kind| counts.get(*kind)).sum::<u64>();
            let (inside, outside) = (sum(&inside), sum(&outside));
            let allowed = DIFFERENCE_MAX + all / 50;
            assert!(inside.abs_diff(outside) <= allowed, "{name}: {kinds:?}: {inside} inside, {outside} outside");
        }
    }
}

/// Checks the read budget by the kernel's counts, because runtimes do not count their reads.
fn read_budget_bounds_reads_of_runtimes() {
    const REQUEST: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    if cannot_count(folder.path()) {
        return;
    }
    for architecture in architectures().into_iter().filter(|it| !it.model.counts_syscalls) {
        let serve =
            Serve::start_with(architecture, REQUEST as u32, 1, &["--read-budget", "1000B", "--count-syscalls"], None);
        let mut stream = serve.connect();
        exchange(&mut stream, REQUEST, 1);
        serve.settle();
        drop(stream);
        let (status, totals) = serve.stop();
        assert!(status.success(), "{architecture}: {status}");
        let outside: BTreeMap<String, u64> = serde_json::from_value(totals["syscalls_outside"].clone()).unwrap();
        let calls: u64 = outside.values().sum();
        assert!(calls >= REQUEST.div_ceil(1_000) as u64, "{architecture}: {outside:?}");
    }
}

fn kernel_counts_are_shown_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    if cannot_count(folder.path()) {
        return;
    }
    const HEADING: &str = "System calls per request by the server's count / by the kernel's";
    let with_counts =
        text(&compare(folder.path(), "epoll,mt", &["--count-syscalls", "--explain", "--output", "a"]).stdout);
    assert!(with_counts.contains(HEADING), "{with_counts}");
    let csv = muxbench().args(["report", "--csv", "a"]).current_dir(folder.path()).output().unwrap();
    let csv = text(&csv.stdout);
    let heading = csv.lines().next().unwrap();
    let at = heading.split(',').position(|name| name == "server.totals.syscalls_outside.read").expect(heading);
    let counts = csv.lines().skip(1).filter_map(|line| line.split(',').nth(at)?.parse::<u64>().ok());
    // On a busy machine, counters may be read late and hold none of the window.
    assert!(counts.max() > Some(0), "{csv}");

    let without_counts = text(&compare(folder.path(), "epoll", &["--explain"]).stdout);
    assert!(
        without_counts.contains("Cost of a request by the servers' counters") && !without_counts.contains(HEADING),
        "{without_counts}"
    );

    let file = compare(folder.path(), "epoll", &["--count-syscalls", "--print-experiment"]).stdout;
    assert!(text(&file).contains("count-syscalls = true"), "{}", text(&file));
    std::fs::write(folder.path().join("mine.toml"), file).unwrap();
    let plan = muxbench().args(["plan", "mine.toml", "--json"]).current_dir(folder.path()).output().unwrap();
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    assert_eq!(plan["trials"][0]["serve"]["count_syscalls"], true);
    assert_eq!(plan["trials"][0]["infeasible"], serde_json::json!([]));
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(server_and_kernel_counts_agree_in_every_architecture));
    cases.once(case!(read_budget_bounds_reads_of_runtimes));
    cases.once(case!(kernel_counts_are_shown_only_on_request));
}
