//! The JSON of every command against its published schema.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::cases::{Cases, case};
use crate::common::{Serve, muxbench, prepared, store};

/// Flags of a load that takes half a second. A closed loop needs no punctual client.
const LOAD: &str =
    "--connections 5 --schedule closed --think 20ms --ramp 50ms --warm-up 50ms --measure 300ms --quiet --json";

/// Runs a command and returns what it printed. Any exit code will do, because a busy machine makes trials invalid.
fn printed(folder: &Path, line: &str) -> String {
    let output = muxbench().args(line.split_whitespace()).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

fn json_of_every_command_matches_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let (runs, outputs) = (folder.path().join("runs"), folder.path().join("outputs"));
    fs::create_dir_all(&runs).unwrap();
    fs::create_dir_all(&outputs).unwrap();
    let write =
        |name: &str, word: &str, text: &str| fs::write(outputs.join(format!("{name}.{word}.json")), text).unwrap();

    let names = printed(folder.path(), "schema");
    let names: Vec<&str> = names.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for name in &names {
        write(name, "schema", &printed(folder.path(), &format!("schema {name}")));
    }

    for (name, run) in [
        ("plain", testkit::run()),
        ("other", testkit::other_run()),
        ("interleaved", testkit::interleaved_run()),
        ("sweep", testkit::sweep_run()),
        ("capacity", testkit::capacity_run()),
        ("closed", testkit::closed_run()),
        ("datagrams", testkit::datagram_run()),
        ("streams", testkit::bandwidth_run()),
        ("overload", testkit::overload_run()),
        ("kawai2006", testkit::kawai2006_run()),
        ("race", testkit::advise_run(100)),
        ("gate", testkit::gate_run(100)),
    ] {
        store(&runs.join(name), &run);
        let text = printed(&runs, &format!("report {name} --json"));
        write("run", name, &text);
        // The commands that race and gate print only this part.
        let part = match name {
            "race" => "advice",
            "gate" => "gate",
            _ => continue,
        };
        write(part, name, &serde_json::from_str::<Value>(&text).unwrap()[part].to_string());
    }
    for (name, line) in [
        ("atlas", "atlas --merge race --json"),
        ("history", "report . --json"),
        ("paper", "report kawai2006 --paper kawai2006 --json"),
        ("run-diff", "report plain other --json"),
        ("list", "list --json"),
        ("plan", "plan smoke --json"),
        ("needs", "plan smoke --hosts --json"),
        #[cfg(target_os = "linux")]
        ("doctor", "doctor --json"),
        (
            "calibration",
            "calibrate --hold 100us --law fixed --rounds 1 --connections 5 --rate 400 --measure 200ms --json",
        ),
    ] {
        write(name, "output", &printed(&runs, line));
    }

    let server = Serve::start_http("epoll".parse().unwrap(), &[]);
    let url = format!("http://{}/bytes/100", server.address);
    write("load", "http", &printed(&runs, &format!("load {url} {LOAD} --output load")));
    write("run", "http", &printed(&runs, "report load --json"));
    write("send-deviation", "http", &printed(&runs, "report load --send-deviation --json"));
    write("idle", "http", &printed(&runs, &format!("idle {url} --connections 3 --time 100ms --json")));
    let port = server.ip().port();
    #[cfg(target_os = "linux")]
    write("observation", "http", &printed(&runs, &format!("observe --port {port} --duration 1s --json")));

    let report = harness::store::read(&runs.join("gate")).unwrap();
    let report = report::GateReport::of(&report).unwrap();
    let entry = report::analysis::gate_history::GateEntry::new(&report, Some("one"));
    fs::write(runs.join("gates.jsonl"), serde_json::to_string(&entry).unwrap() + "\n").unwrap();
    write("gate-history", "one", &printed(&runs, "report gates.jsonl --json"));

    serve(&write);

    let python = prepared("MUXBENCH_PYTHON", "python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/check_schemas.py");
    let checked = Command::new(python).arg(script).arg(&outputs).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let counts: Value = serde_json::from_slice(&checked.stdout).unwrap();
    for name in names {
        assert!(counts[name].as_u64() > Some(0), "no output of `{name}` is checked: {counts}");
    }
}

/// Writes both lines of `serve --json`, and the totals of `serve`.
fn serve(write: &impl Fn(&str, &str, &str)) {
    for flag in [None, Some("--json")] {
        let mut command = muxbench();
        let mut child = command.args(["serve", "--arch", "epoll"]).args(flag).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let rest = std::io::read_to_string(lines).unwrap();
        child.wait().unwrap();
        if flag.is_some() {
            write("serve", "ready", &first);
            write("serve", "mark", &rest);
        } else {
            write("totals", "end", &rest[rest.find('{').unwrap_or_else(|| panic!("{rest}"))..]);
        }
    }
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(json_of_every_command_matches_its_schema));
}
