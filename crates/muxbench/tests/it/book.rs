//! The book, and the commands of all documents. `cli.rs` parses those commands and the examples of help; this file runs them.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::cases::{Cases, case};
use crate::common::{ROOT, Serve, muxbench, prepared, store};
use crate::{lab, observe};
use xtask::commands::{self, Place, Shown};

/// Commands that run trials.
const RUNS: &str = "compare load sweep capacity overload gate advise atlas";

/// Flags that shorten commands: the commands, the flag and words in whose presence it is not added, and its value.
const SHORTER: &[(&str, &str, &str)] = &[
    (RUNS, "--connections -c --ports --at-rate atlas", "8"),
    ("compare load gate advise", "--rate -r --trace closed stream", "400"),
    (RUNS, "--ramp", "20ms"),
    (RUNS, "--warm-up", "20ms"),
    (RUNS, "--measure -z --rate-profile --trace --capacity", "150ms"),
    // The client would wait for each lost datagram.
    ("compare load", "--cool-down udp", "60s"),
    // A client that spins would take CPU time from other tests.
    (RUNS, "--pacing closed stream", "sleep-spin"),
    ("compare", "--repeats", "1"),
    ("capacity overload", "--time-max --capacity", "2s"),
    ("overload", "--before", "300ms"),
    ("overload", "--pulse-length", "200ms"),
    ("overload", "--after", "500ms"),
    ("gate", "--budget", "30s"),
    ("advise atlas", "--budget --merge", "8s"),
    ("advise atlas", "--arch", "epoll,mt"),
    ("calibrate", "--rounds", "1"),
    ("observe", "--duration --pcap", "3s"),
];

/// The start of a command that observes a server; the port of a capture stays.
const OBSERVED: &str = "observe --port 8080 ";
const FIXED: &str = "--service fixed";
const HTTP: &str = "--service http --folder PUBLIC";
const HTTPS: &str = "--service http --folder PUBLIC --tls";

/// Words of commands, their replacement, and the flags of the server that they name, if any. PORT is the port of that server, and
/// PUBLIC the folder that it serves. A space ends each word of a command.
const CHANGES: &[(&str, &str, &str)] = &[
    (OBSERVED, "observe --port PORT ", HTTP),
    ("127.0.0.1:8080", "127.0.0.1:PORT", HTTP),
    ("127.0.0.1:8081", "127.0.0.1:PORT", HTTP),
    ("127.0.0.1:80", "127.0.0.1:PORT", HTTP),
    ("http://localhost ", "http://127.0.0.1:PORT ", HTTP),
    ("json --cacert ca.pem ", "json ", ""),
    // Built-in servers answer only GET and HEAD.
    ("https://localhost:8443/orders ", "https://127.0.0.1:PORT/orders --cacert ca.pem --expect-status 405 ", HTTPS),
    ("https://localhost/orders ", "https://127.0.0.1:PORT/orders --cacert ca.pem ", HTTPS),
    ("https://example.org/", "https://127.0.0.1:PORT/", HTTPS),
    ("redis://127.0.0.1 ", "redis://127.0.0.1:PORT ", "--service redis"),
    ("server.example.org:7007", "127.0.0.1:PORT", FIXED),
    ("--target 127.0.0.1:7007", "--target 127.0.0.1:PORT", FIXED),
    (":7007", ":0", ""),
    ("--server-cpus 0-3 --client-cpus 4-7 ", "--server-cpus 0 --client-cpus 1 ", ""),
    ("--server-cpus 0-1 --client-cpus 2-3 ", "--server-cpus 0 --client-cpus 1 ", ""),
    // `mp` has a process for each connection.
    ("-c 1k,5k ", "-c 8,16 ", ""),
    ("--connections 10000 ", "--connections 64 ", ""),
    ("--idle 5000 ", "--idle 50 ", ""),
    ("--to 20000 ", "--from 8 --to 40 ", ""),
    ("--at-rate 10000 ", "--at-rate 400 --from 8 --to 40 ", ""),
    ("-z 10s --repeats 5 ", "", ""),
    // A shorter window needs a higher rate.
    ("--ports 10,1000 --rate 100 ", "--ports 10,1000 --rate 400 ", ""),
    ("--arch all --budget 3h ", "", ""),
    ("--trace-length 10min ", "--trace-length 200ms ", ""),
    ("-c 400,10k -r 125,2k --ramp 300ms --warm-up 500ms --measure 2s --repeats 3 ", "-c 20 -r 400 ", ""),
    // A machine without labs has only the made-up run, which `report` shows next.
    ("--output results/five-hosts ", "--output results/in-lab ", ""),
];

/// Words of commands that tests do not run, and the reasons.
const NOT_RUN: &[(&str, &str)] = &[
    ("--distributed ", "Slurm or Open MPI starts it, as in the tests of `fleet/clusters.rs`"),
    ("--full ", "takes hours; the same commands without the flag begin their runs"),
    ("run examples/servers/", "needs servers of other projects; `examples.rs` and `others.rs` run these files"),
    ("doctor --clean ", "ends what other tests leave for a while; `lab.rs` and `others.rs` run it"),
    ("serve --control ", "the runner starts it and exchanges lines of JSON with it"),
];

/// The start of commands of other programs in blocks, and why tests do not run them.
const OTHERS: &[(&str, &str)] = &[
    ("cargo install ", "the tests run the program that cargo built for them"),
    ("cargo run -p ", "tests of the crates run their examples"),
    ("cargo test ", "part of `cargo xtask test`"),
    ("podman run ", "needs a published image; tests of `xtask/src/package` read the image"),
    ("tcpdump ", "needs root; the sandbox has a capture"),
    ("taskset ", "starts the reader's server; the sandbox starts its own"),
    ("sudo taskset ", "starts the reader's nginx; the sandbox starts a server in its place"),
    ("jq ", "reads the JSON, whose form `schemas.rs` checks"),
    ("redis-benchmark ", "needs Redis; `redis.rs` runs it"),
];

/// An experiment of a second.
const SHORT: &str = "architectures = [\"epoll\", \"mt\"]\nrepeats = 1\n[workload]\nconnections = 8\nrate = 400\n\
                     [phases]\nmeasure = \"150ms\"\n[client]\npacing = \"sleep-spin\"\n";

/// The flag that prints the experiment of a comparison instead of running it.
const PRINT: &str = "--print-experiment";

/// The file with the output of the last command, which a pipe passes to the next one.
const OUTPUT: &str = "stdout";

fn book_builds_and_its_links_lead_to_pages() {
    let folder = tempfile::tempdir().unwrap();
    let pages = xtask::book::build(Path::new(env!("CARGO_BIN_EXE_muxbench")), folder.path()).unwrap();
    for (page, text) in [
        ("index.html", "the highest rate within a limit"),
        ("docs/reference/commands.html", "--print-experiment"),
        ("docs/reference/experiments.html", "requests-per-connection"),
        ("docs/reference/results.html", "\"../../schemas/gate.json\""),
        ("schemas/run.json", "rate_achieved_per_s"),
    ] {
        assert!(fs::read_to_string(pages.join(page)).unwrap().contains(text), "{page}");
    }
}

/// A folder with the files that commands of documents name, and the servers that they name.
struct Sandbox {
    folder: tempfile::TempDir,
    servers: BTreeMap<&'static str, Serve>,
}

impl Sandbox {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // nginx has no privileges when it reads files.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        for name in ["experiments", "examples", "deploy"] {
            symlink(Path::new(ROOT).canonicalize().unwrap().join(name), folder.path().join(name)).unwrap();
        }
        let write = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        };
        for name in ["mine.toml", "profile.toml", "results/TIME-advise/confirm.toml"] {
            write(name, SHORT.as_bytes());
        }
        for name in ["index.html", "orders", "1k.bin", "bytes/1024"] {
            write(&format!("public/{name}"), &[0; 1024]);
        }
        let times: String = (0..300).map(|ms| format!("{ms}\n")).collect();
        for name in ["day.csv", "sizes.csv"] {
            write(name, format!("time_ms\n{times}").as_bytes());
        }
        write("order.json", b"{}");
        write("server.pcap", &observe::capture());
        write(OUTPUT, b"");
        let (program, public) = (env!("CARGO_BIN_EXE_muxbench"), folder.path().join("public"));
        let serve = format!("exec {program} serve --service http --folder {} --listen", public.display());
        for name in ["old", "new", "server"] {
            let path = write(name, format!("#!/bin/sh\nfor port; do :; done\n{serve} 127.0.0.1:$port\n").as_bytes());
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder, servers: BTreeMap::new() }
    }

    /// Stores made-up runs under the names of runs in documents.
    fn add_runs(&self) {
        let of_paper = testkit::run_of_experiment("kawai2008-minimised");
        for (name, mut run) in [
            ("THERE", testkit::advise_run(20)),
            ("results/TIME-atlas/001", testkit::advise_run(20)),
            ("results/HERE", testkit::advise_run(30)),
            ("results/mine", of_paper.clone()),
            ("results/five-hosts", of_paper),
            ("results/B", testkit::other_run()),
            ("results/A", testkit::run()),
        ] {
            // Without a run by a command, the newest run is the last one of this list.
            run.header.started_at = "2001-01-01T00:00:00Z".into();
            store(&self.folder.path().join(name), &run);
        }
        let gate = report::GateReport::of(&testkit::gate_run(100)).unwrap();
        let entry = report::analysis::gate_history::GateEntry::new(&gate, Some("build-16"));
        fs::write(self.folder.path().join("gate.jsonl"), serde_json::to_string(&entry).unwrap() + "\n").unwrap();
    }

    /// Returns the words of a short form of a command that can run here. Starts the servers that it names.
    fn words(&mut self, shown: &Shown) -> Vec<String> {
        let mut line = line(shown);
        for &(part, replacement, flags) in CHANGES {
            let (part_lines, mut replacement) = (lines(part), lines(replacement));
            if !line.contains(&part_lines) {
                continue;
            }
            if !flags.is_empty() {
                let flags = flags.replace("PUBLIC", &self.folder.path().join("public").display().to_string());
                let start = || Serve::launch("epoll".parse().unwrap(), &flags.split(' ').collect::<Vec<_>>(), None);
                let server = self.servers.entry(part).or_insert_with(start);
                replacement = replacement.replace("PORT", &server.ip().port().to_string());
                if let Some(certificates) = &server.certificates {
                    fs::write(self.folder.path().join("ca.pem"), certificates).unwrap();
                }
            }
            line = line.replace(&part_lines, &replacement);
        }
        let mut words: Vec<String> = line.lines().map(str::to_owned).collect();
        for &(commands, flags, value) in SHORTER {
            let has = |list: &str, word: &str| list.split(' ').any(|it| it == word);
            if has(commands, &words[0]) && !words.iter().any(|word| has(flags, word) || word == "--resume") {
                let flag = flags.split(' ').next().unwrap();
                words.extend([flag, value].map(str::to_owned));
            }
        }
        words
    }

    /// Runs a command. Returns its words and its output if it fails.
    fn run(&mut self, shown: &Shown) -> Option<String> {
        let words = self.words(shown);
        let (name, folder) = (&*words[0], self.folder.path());
        let observed = self.servers.get(OBSERVED).filter(|_| line(shown).contains(&lines(OBSERVED)));
        let url = observed.map(|server| format!("http://{}/", server.address));
        let client = url.map(|url| observe::begin_load(&format!("{url} --connections 8 --rate 400")));
        // SIGTERM ends a server, and stops a run of minutes.
        let is_stopped = name == "reproduce" || name == "run" && words.iter().any(|word| word == "--quick");
        let seconds = match name {
            "serve" => "3",
            _ if is_stopped => "5",
            _ => "600",
        };
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--preserve-status", "--kill-after=60", seconds]);
        command.arg(env!("CARGO_BIN_EXE_muxbench")).args(&words).env("COLUMNS", "160");
        command.current_dir(folder).stdin(File::open(folder.join(OUTPUT)).unwrap());
        if words.iter().any(|word| word.starts_with("nginx=nginx ")) {
            let peers = prepared("MUXBENCH_PEERS", "peers");
            command.env("PATH", format!("{}:{}", peers.display(), std::env::var("PATH").unwrap()));
        }
        let output = command.output().unwrap();
        if let Some(mut client) = client {
            client.kill().unwrap();
            client.wait().unwrap();
        }
        fs::write(folder.join(shown.output.as_deref().unwrap_or(OUTPUT)), &output.stdout).unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let code = output.status.code();
        let has_good_code = match name {
            _ if is_stopped => code == Some(130),
            "gate" => matches!(code, Some(0 | 1 | 4)),
            // 3: a busy machine may delay the client.
            _ => matches!(code, Some(0 | 3)),
        };
        let may_print_nothing = is_stopped || words.iter().any(|word| ["--html", "--figures"].contains(&&**word));
        // Other servers of the same run may be valid.
        let has_failed_server = out.lines().any(|line| line.starts_with("exec:") && line.contains(" failed: "));
        let is_done = has_good_code && (may_print_nothing || !out.is_empty()) && !has_failed_server;
        (!is_done).then(|| format!("{}: {words:?}: {}\n{out}\n{err}", shown.source, output.status))
    }

    /// Runs commands in their order. Fails if any of them does.
    fn run_all(&mut self, shown: &[Shown]) {
        let failed: Vec<String> = shown.iter().filter_map(|it| self.run(it)).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

/// Returns the words of a command as lines, because a word may contain spaces.
fn line(shown: &Shown) -> String {
    shown.arguments.join("\n") + "\n"
}

/// Returns words of a table as lines.
fn lines(words: &str) -> String {
    words.replace(' ', "\n")
}

fn shown_with(wanted: impl Fn(&Shown) -> bool) -> Vec<Shown> {
    commands::of_documents().unwrap().into_iter().filter(|it| it.program == "muxbench" && wanted(it)).collect()
}

/// Returns whether a command can run. In the text, a name alone is a mention, and words in capital letters are placeholders.
fn is_complete(shown: &Shown) -> bool {
    let arguments = &shown.arguments;
    shown.place != Place::Text || arguments.len() > 1 && !arguments.iter().any(|word| commands::is_placeholder(word))
}

fn comparisons_of_documents_are_valid() {
    let sandbox = Sandbox::new();
    let shown = shown_with(|it| is_complete(it) && it.arguments[0] == "compare");
    assert!(shown.len() > 20, "only {} comparisons", shown.len());
    for shown in shown {
        let words = shown.arguments.iter().filter(|word| *word != PRINT).map(String::as_str).chain([PRINT]);
        let output = muxbench().args(words).current_dir(sandbox.folder.path()).output().unwrap();
        assert!(output.status.success(), "{shown:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn marked_commands_of_documents_run() {
    let marked = shown_with(|it| it.place == Place::Run);
    assert!(marked.len() > 8, "only {} commands are marked", marked.len());
    Sandbox::new().run_all(&marked);
}

fn tables_of_commands_have_no_unused_rows() {
    let shown = shown_with(is_complete);
    for part in CHANGES.iter().map(|row| row.0).chain(NOT_RUN.iter().map(|row| row.0)) {
        assert!(shown.iter().any(|it| line(it).contains(&lines(part))), "no command has `{part}`; remove its row");
    }
}

fn other_programs_in_blocks_are_listed() {
    let mut unused: Vec<&str> = OTHERS.iter().map(|row| row.0).collect();
    let is_other = |it: &Shown| it.place != Place::Text && !["muxbench", "xtask"].contains(&&*it.program);
    for shown in commands::of_documents().unwrap().into_iter().filter(is_other) {
        let line = format!("{} {} ", shown.program, shown.arguments.join(" "));
        let is_listed = OTHERS.iter().any(|(start, _)| line.starts_with(start));
        assert!(is_listed, "{}: nothing runs `{line}`; add a row to OTHERS", shown.source);
        unused.retain(|start| !line.starts_with(start));
    }
    assert!(unused.is_empty(), "no block has {unused:?}; remove their rows");
}

/// Returns the document that shows a command.
fn document(shown: &Shown) -> &str {
    shown.source.rsplit_once(':').map_or(shown.source.as_str(), |(document, _)| document)
}

/// Returns the documents with commands that can run.
fn documents() -> Vec<String> {
    let mut documents: Vec<String> = shown_with(is_complete).iter().map(|it| document(it).to_owned()).collect();
    documents.dedup();
    documents
}

fn commands_of_document_run(name: &str) {
    let may_run = |it: &Shown| {
        let line = line(it);
        let is_left_out = NOT_RUN.iter().any(|(part, _)| line.contains(&lines(part)));
        let needs_lab = ["--network\nlab", "run\nkawai2008-synchronisation"].iter().any(|part| line.contains(part));
        !is_left_out && (!needs_lab || lab::may_make_labs())
    };
    let mut sandbox = Sandbox::new();
    sandbox.add_runs();
    sandbox.run_all(&shown_with(|it| is_complete(it) && document(it) == name && may_run(it)));
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(book_builds_and_its_links_lead_to_pages));
    cases.once(case!(comparisons_of_documents_are_valid));
    cases.once(case!(marked_commands_of_documents_run));
    cases.once(case!(tables_of_commands_have_no_unused_rows));
    cases.once(case!(other_programs_in_blocks_are_listed));
    cases.every_of(documents, case!(commands_of_document_run));
}
