//! The ready experiments of `examples/servers` with servers that need no build.

use std::fs;
use std::process::Command;

use harness::record::VerdictKind;

use crate::cases::{Cases, case};
use crate::common::{ROOT, assert_interleaved, muxbench, prepared};

/// Runs an example briefly. Every server must respond without errors, and no file may be left.
fn assert_runs(name: &str, servers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("t");
    fs::create_dir(&temporary).unwrap();
    let text = fs::read_to_string(format!("{ROOT}/examples/servers/{name}")).unwrap();
    let python = prepared("MUXBENCH_PYTHON", "python");
    let text = text.replace("\"python3\"", &format!("{:?}", python.to_str().unwrap()));
    let brief = "repeats = 1\n[phases]\nmeasure = \"500ms\"\ncool-down = \"60s\"\n[client]\ntimeout = \"60s\"\npacing = \"sleep-spin\"\n";
    let (head, tables) = text.split_once("[workload]").unwrap();
    let file = folder.path().join(name);
    fs::write(&file, format!("{head}{brief}[workload]{tables}")).unwrap();
    let path = format!("{}:{}", prepared("MUXBENCH_PEERS", "peers").display(), std::env::var("PATH").unwrap());
    let mut run: Command = muxbench();
    run.args(["run", "--allow-exec", "--quiet", "--output"]).arg(folder.path().join("here")).arg(&file);
    let output = run.current_dir(ROOT).env("PATH", path).env("TMPDIR", &temporary).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let run = harness::store::read(&folder.path().join("here")).unwrap();
    assert_eq!(run.records.len(), servers);
    assert_interleaved(&run);
    for record in &run.records {
        let name = &record.trial.architecture;
        assert_ne!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
        let load = record.load.as_ref().unwrap();
        assert!(load.completed > 0 && load.errors.total() == 0, "{name}: {:?}", load.errors);
        assert!(record.server.as_ref().is_some_and(|server| server.totals.cpu_ns() > 0), "{name}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the private folders are removed");
}

fn web_servers_of_the_examples_respond_without_errors() {
    assert_runs("web.toml", 6);
}

fn memcached_of_the_examples_responds_without_errors() {
    assert_runs("kv.toml", 3);
}

fn redis_server_of_the_examples_responds_without_errors() {
    assert_runs("redis.toml", 3);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(web_servers_of_the_examples_respond_without_errors));
    cases.once(case!(memcached_of_the_examples_responds_without_errors));
    cases.once(case!(redis_server_of_the_examples_responds_without_errors));
}
