//! Errors of users, with the program: a few of each kind. Unit tests cover each rule and each value: `load::config::validate`,
//! `harness::spec`, and `cli.rs`, `serve.rs` and `gate.rs` of the tool.

use super::*;

/// Command lines with their exit code and words of their error.
const ERRORS: &[(&str, i32, &str)] = &[
    ("run bad.toml", 1, "bad.toml:2: unknown architecture `epol`"),
    ("run --resume", 1, "results: contains no run"),
    ("run smoke --resume --quick", 2, "FILE and --quick cannot be used with --resume"),
    ("plan /dev/zero", 1, "/dev/zero: not a regular file; try `-` and a pipe"),
    ("report", 1, "contains no run"),
    ("report bad.toml bad.toml", 1, "cannot compare bad.toml: it is a file, not the folder of a run"),
    ("compare --arch mt,mt", 1, "muxbench: architectures: \"mt\" appears twice"),
    ("sweep --rate 100 --csv absent/x.csv", 1, "cannot write absent/x.csv"),
    ("capacity", 2, "Usage: muxbench capacity [OPTIONS]"),
    ("capacity --resume swept --time-max 1h", 1, "swept: --time-max: the run is no search"),
    ("overload --arch epoll", 2, "--capacity <RATE>"),
    ("advise misspelt.toml", 1, "did you mean `connections`?"),
    ("atlas --arch epoll,mt -c 10,20 --active 1 -r 100 --response 1B --budget 1s --output map", 1, "try --budget "),
    ("gate epoll mt --budget 5s", 5, "and a decision needs 3; try --budget "),
    ("serve --listen 192.0.2.1:1", 1, "cannot listen on 192.0.2.1:1"),
    ("load --target 127.0.0.1:1", 1, "muxbench: cannot connect to 127.0.0.1:1"),
    ("load http://127.0.0.1:1/ --duration 1s", 2, "tip: -z TIME: Duration of the measured window"),
    ("observe --pcap absent.pcap", 1, "cannot read absent.pcap"),
    ("man compar", 1, "did you mean `compare`?"),
];

fn user_errors_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "name = \"x\"\narchitectures = \"epol\"\n").unwrap();
    std::fs::write(folder.path().join("misspelt.toml"), "name = \"x\"\n[workload]\nconections = 1\n").unwrap();
    store(&folder.path().join("swept"), &testkit::sweep_run());
    for (line, code, words) in ERRORS {
        let output = run(folder.path(), &line.split(' ').collect::<Vec<_>>(), *code);
        assert!(text(&output.stderr).contains(words), "{line}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{line}");
    }
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> =
        names.filter(|name| !["bad.toml", "misspelt.toml", "swept"].iter().any(|it| name == it)).collect();
    assert!(left.is_empty(), "no run was started, and a map that cannot begin leaves nothing: {left:?}");
}

/// Adds the case of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(user_errors_are_reported_before_anything_starts));
}
