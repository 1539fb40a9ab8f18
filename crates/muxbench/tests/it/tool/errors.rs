//! Errors of users. Unit tests cover each rule and each value: `load::config::validate`, `harness::spec`, and `cli.rs` of the tool.

use super::*;

/// Command lines with their exit code and words of their error.
const ERRORS: &[(&str, i32, &str)] = &[
    ("run bad.toml", 1, "bad.toml:2: unknown architecture `epol`"),
    ("run absent.toml", 1, "absent.toml: neither a file nor a preset"),
    ("run smok", 1, "did you mean `smoke`?"),
    ("run misspelt.toml", 1, "did you mean `connections`?"),
    ("compare absent.toml", 1, "absent.toml: neither a file nor a preset"),
    ("compare --arch epol", 1, "did you mean `epoll`?"),
    ("compare --arch EPOLL", 1, "no model `EPOLL`; did you mean `epoll`?"),
    ("compare --arch thread", 1, "did you mean `threads`?"),
    ("compare --service htp", 2, "did you mean `http`?"),
    ("compare --conections 1", 2, "'--connections'"),
    ("compare --network lab --loss 0.1", 2, "0.1 alone could mean 0.1% or 10%"),
    ("man compar", 1, "did you mean `compare`?"),
    ("run", 1, "name an experiment file"),
    ("run smoke --quick", 1, "has no [quick] table"),
    ("run --resume", 1, "results: contains no run"),
    ("run smoke --resume --quick", 2, "FILE and --quick cannot be used with --resume"),
    ("report", 1, "contains no run"),
    ("plan /dev/zero", 1, "/dev/zero: not a regular file; try `-` and a pipe"),
    // One error of a parser, one of a rule for a key, and two of the host.
    ("compare --request 128", 2, "such as 128B"),
    ("compare --arch mt,mt", 1, "muxbench: architectures: \"mt\" appears twice"),
    ("compare --schedule closed --rate 100", 1, "workload.rate: a closed loop has no target rate"),
    ("compare --profile ramp:1k:5s", 2, "expected ramp:RATE..RATE:TIME, such as ramp:2000..8000:5s"),
    ("compare --profile hold:1k:5s --schedule closed", 1, "workload.profile: a closed loop has no rates over time"),
    ("compare --profile hold:1k:5s --measure 5s", 2, "cannot be used with"),
    ("compare --trace absent.csv", 1, "absent.csv: No such file"),
    ("compare --trace bad.toml", 1, "no column of times; name one time_s"),
    ("compare --trace bad.toml --speed 0", 1, "workload.trace.speed: must be a finite number above 0"),
    ("compare --server-cpus 4000", 1, "may not use CPU 4000"),
    ("compare --connections 4000000000", 1, "no trial can run on this host"),
    ("compare --delay 1ms", 2, "--network"),
    ("compare --connections 31 --client-processes 32", 1, "cannot divide 31 connections"),
    ("sweep", 2, "--rate"),
    ("sweep --rate 100 --csv absent/x.csv", 1, "cannot write absent/x.csv"),
    ("capacity", 2, "a search needs a limit: add --p99 1ms"),
    ("capacity", 2, "Usage: muxbench capacity [OPTIONS]"),
    ("capacity http://127.0.0.1:1/ --p99 1ms", 1, "write --target mine=http://127.0.0.1:1/"),
    ("run http://127.0.0.1:1/", 1, "try muxbench load http://127.0.0.1:1/"),
    ("gate epoll mt http://127.0.0.1:1/", 2, "as in muxbench gate OLD http://127.0.0.1:1/"),
    ("gate epoll mt --budget 5s", 2, "and a decision needs 3; try --budget "),
    ("gate ./old ./new", 2, "OLD `./old`: a command needs {port}, as in './old {port}'"),
    ("load http://127.0.0.1:1/ --duration 1s", 2, "-z TIME sets the duration of the window"),
    ("capacity --p99 1ms --precision 60%", 1, "expected a share from 0.5% to 50%"),
    ("capacity --p99 1ms --from 1", 1, "too few requests for a percentile"),
    ("capacity --p99.9 1ms --to 10", 1, "exceeds the highest value, 10"),
    ("capacity --p99 1ms --schedule closed", 1, "has no rate to search"),
    ("capacity --p99 1ms --explain", 2, "probes differ in load"),
    ("capacity --at-rate 100 --connections 5", 2, "cannot be used with"),
    ("capacity --at-rate 100 --to 2000.5", 1, "expected a number of connections"),
    ("capacity --at-rate 1", 1, "--at-rate 1: too few requests"),
    ("capacity --at-rate 100 --to 4000000000", 1, "no trial can run on this host"),
    ("serve --listen 192.0.2.1:1", 1, "cannot listen on 192.0.2.1:1"),
    ("serve --packet 1KiB", 1, "add --service stream"),
    ("serve --folder /tmp", 1, "--folder: only http serves files"),
    ("load", 2, "--target"),
    ("load --target 127.0.0.1:1", 1, "muxbench: cannot connect to 127.0.0.1:1"),
    ("load --target 127.0.0.1:1", 1, "start the server, or correct the address"),
    ("load --target 127.0.0.1:1 --samples absent/x", 1, "cannot write absent/x: its folder does not exist"),
    ("load --target 127.0.0.1:1 --think 1ms", 1, "muxbench: workload.think: only a closed loop has think times"),
    ("load --target 127.0.0.1:1 --records 5", 1, "only the services `kv` and `redis` have records"),
    ("load --target 127.0.0.1:1 --packets 3", 1, "only the service `stream` has bursts"),
    ("load --target 127.0.0.1:1 --path /", 1, "other HTTP settings; add --service http"),
    ("compare --arch epoll --service http --body x", 1, "a body (-d) makes POST the default method"),
    ("compare --target mine=http://127.0.0.1:1/ --service fixed", 1, "but the service is `fixed`"),
    ("load --target 127.0.0.1:1 --service kv --response 1B", 1, "set value-size"),
    ("load --target 127.0.0.1:1 --service stream --request 3B", 1, "or packet of [workload.stream]"),
    ("load https://127.0.0.1:1/", 1, "start the server, or correct the address"),
    ("load http://127.0.0.1:1/", 1, "start the server, or correct the address"),
    ("load http://127.0.0.1:1/ --request 1B", 1, "determine the requests of `http`"),
    ("load http://127.0.0.1:1/ --target 127.0.0.1:1", 2, "cannot be used with"),
];

fn user_errors_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "name = \"x\"\narchitectures = \"epol\"\n").unwrap();
    std::fs::write(folder.path().join("misspelt.toml"), "name = \"x\"\n[workload]\nconections = 1\n").unwrap();
    for (line, code, words) in ERRORS {
        let output = run(folder.path(), &line.split(' ').collect::<Vec<_>>(), *code);
        assert!(text(&output.stderr).contains(words), "{line}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{line}");
    }
    assert!(!folder.path().join("results").exists(), "no run was started");
}

/// Adds the case of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(user_errors_are_reported_before_anything_starts));
}
