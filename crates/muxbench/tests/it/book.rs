//! The book, and the commands of all documents. `cli.rs` parses those commands and the examples of help; this file runs some of them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cases::{Cases, case};
use crate::common::{ROOT, Serve, muxbench};
use xtask::commands::{self, Place, Shown};

/// Flags that shorten a command, unless it has them: the long flag, its short form, and a value.
const SHORTER: [(&str, &str, &str); 7] = [
    ("--connections", "-c", "8"),
    ("--rate", "-r", "400"),
    ("--ramp", "", "20ms"),
    ("--warm-up", "", "20ms"),
    ("--measure", "-z", "150ms"),
    ("--cool-down", "", "60s"),
    // A client that spins would take CPU time from other tests.
    ("--pacing", "", "sleep-spin"),
];

/// The flag that prints the experiment of a comparison instead of running it.
const PRINT: &str = "--print-experiment";

/// The address that documents give to the reader's own HTTP server.
const OWN_SERVER: &str = "127.0.0.1:8080";

fn book_builds_and_its_links_lead_to_pages() {
    let folder = tempfile::tempdir().unwrap();
    let pages = xtask::book::build(Path::new(env!("CARGO_BIN_EXE_muxbench")), folder.path()).unwrap();
    for (page, text) in [
        ("index.html", "the highest rate within a limit"),
        ("docs/reference/commands.html", "--print-experiment"),
        ("docs/reference/experiments.html", "requests-per-connection"),
        ("schemas/run.json", "rate_achieved_per_s"),
    ] {
        assert!(fs::read_to_string(pages.join(page)).unwrap().contains(text), "{page}");
    }
}

/// Returns a folder with the files that commands of documents name.
fn sandbox() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["experiments", "examples", "deploy"] {
        symlink(Path::new(ROOT).canonicalize().unwrap().join(name), folder.path().join(name)).unwrap();
    }
    for name in ["mine.toml", "profile.toml"] {
        fs::write(folder.path().join(name), "architectures = [\"epoll\"]\n").unwrap();
    }
    fs::create_dir(folder.path().join("public")).unwrap();
    fs::write(folder.path().join("public/1k.bin"), [0; 1024]).unwrap();
    folder
}

fn shown_with(wanted: impl Fn(&Shown) -> bool) -> Vec<Shown> {
    commands::of_documents().unwrap().into_iter().filter(|it| it.program == "muxbench" && wanted(it)).collect()
}

fn comparisons_of_documents_are_valid() {
    let folder = sandbox();
    let is_comparison = |it: &Shown| {
        let is_of_a_run = it.arguments.iter().any(|word| word.contains("results/TIME-"));
        it.place != Place::Text && it.arguments[0] == "compare" && !is_of_a_run
    };
    let shown = shown_with(is_comparison);
    assert!(shown.len() > 20, "only {} comparisons", shown.len());
    for shown in shown {
        let words = shown.arguments.iter().filter(|word| *word != PRINT).map(String::as_str).chain([PRINT]);
        let output = muxbench().args(words).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{shown:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn marked_commands_of_documents_run() {
    let server = Serve::start_http("epoll".parse().unwrap(), &["--folder", &format!("{ROOT}/examples/servers/www")]);
    let folder = sandbox();
    let marked = shown_with(|it| it.place == Place::Run);
    assert!(marked.len() > 8, "only {} commands are marked", marked.len());
    for shown in marked {
        let mut words: Vec<String> =
            shown.arguments.iter().map(|word| word.replace(OWN_SERVER, &server.address.to_string())).collect();
        if ["compare", "load"].contains(&&*words[0]) {
            let repeats = (words[0] == "compare").then_some(("--repeats", "", "1"));
            for (long, short, value) in SHORTER.into_iter().chain(repeats) {
                if !words.iter().any(|word| word == long || word == short) {
                    words.extend([long.to_owned(), value.to_owned()]);
                }
            }
        }
        let output = muxbench().args(&words).current_dir(folder.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // 3: a busy machine may delay the client.
        let is_done =
            matches!(output.status.code(), Some(0 | 3)) && !output.stdout.is_empty() | words.contains(&"--html".into());
        assert!(is_done, "{}: {words:?}\n{}\n{}", shown.source, text(&output.stdout), text(&output.stderr));
    }
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(book_builds_and_its_links_lead_to_pages));
    cases.once(case!(comparisons_of_documents_are_valid));
    cases.once(case!(marked_commands_of_documents_run));
}
