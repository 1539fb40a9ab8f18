//! Secrets of requests: the server receives them, and nothing that muxbench stores or shows has them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use harness::store::Store;

use crate::cases::{Cases, case};
use crate::common::{json, muxbench, text};

/// Each secret of a load has this word. The paths and the variables do not.
const WORD: &str = "sesame";

/// The requests that a server received, without repetitions.
type Received = Arc<Mutex<BTreeSet<String>>>;

/// Starts a server that answers all requests.
fn server() -> (SocketAddr, Received) {
    let (received, listener) = (Received::default(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (address, store) = (listener.local_addr().unwrap(), received.clone());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = store.clone();
            thread::spawn(move || while answer(&stream, &store).is_some() {});
        }
    });
    (address, received)
}

fn answer(mut stream: &TcpStream, received: &Received) -> Option<()> {
    let mut request = Vec::new();
    let length = |head: &str| head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let mut body = vec![0; length(&text(&request)).unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    received.lock().unwrap().insert(text(&[request, body].concat()));
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(!text(&output.stdout).contains(WORD), "{}", text(&output.stdout));
    assert!(!text(&output.stderr).contains(WORD), "{}", text(&output.stderr));
    output
}

/// Checks that no file has a secret.
fn assert_nothing_is_stored(folder: &Path) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            assert_nothing_is_stored(&path);
        } else {
            assert!(!text(&fs::read(&path).unwrap()).contains(WORD), "{}", path.display());
        }
    }
}

fn secrets_reach_the_server_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // Files and variables of the user may have secrets.
    let inputs = tempfile::tempdir().unwrap();
    let headers = inputs.path().join("headers");
    fs::write(&headers, "Cookie: id=sesame-cookie\nX-Plain: plain\n").unwrap();
    let (address, received) = server();
    let url = format!("http://ali:sesame%20url@{address}/a?key=${{QUERY}}");
    let load = |more: &[&str]| {
        let mut command = muxbench();
        command.args(["load", &url, "-H", &format!("@{}", headers.display()), "-H", "X-Api-Key: sesame-key"]);
        command.args([
            "-H",
            "X-Tenant: t-${TENANT}",
            "-X",
            "PUT",
            "-d",
            "{\"word\": \"sesame-body\"}",
            "--secret-body",
        ]);
        command.args("-c 3 --idle 2 -r 200 --ramp 0 --warm-up 0 -z 300ms --pacing sleep-spin".split(' ')).args(more);
        command.env("TENANT", "sesame-tenant").env("QUERY", "sesame-query").current_dir(folder.path());
        command
    };
    let loaded = output(load(&["--output", "run", "--json"]).arg("--client-processes").arg("2"));
    assert!(matches!(loaded.status.code(), Some(0 | 3)), "{}", text(&loaded.stderr));
    assert!(json(&loaded)["report"]["completed"].as_u64().unwrap() > 0);
    let all = received.lock().unwrap().clone();
    let only = all.first().filter(|_| all.len() == 1).unwrap_or_else(|| panic!("{all:?}"));
    for expected in [
        "PUT /a?key=sesame-query HTTP/1.1\r\n",
        "\r\nX-Api-Key: sesame-key\r\n",
        "\r\nCookie: id=sesame-cookie\r\n",
        "\r\nX-Plain: plain\r\n",
        "\r\nX-Tenant: t-sesame-tenant\r\n",
        "\r\nAuthorization: Basic YWxpOnNlc2FtZSB1cmw=\r\n",
        "\r\n\r\n{\"word\": \"sesame-body\"}",
    ] {
        assert!(only.contains(expected), "{expected}: {only}");
    }
    let shown = output(muxbench().args(["report", &path("run"), "--html"]).current_dir(folder.path()));
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    for format in [&["--json"][..], &["--csv"], &["--explain"]] {
        output(muxbench().arg("report").arg(path("run")).args(format).current_dir(folder.path()));
    }
    assert_nothing_is_stored(folder.path());

    // A run that stopped before its first trial.
    let header = harness::store::header(&folder.path().join("run")).unwrap();
    Store::create(&folder.path().join("stopped"), &header).unwrap();
    received.lock().unwrap().clear();
    let resume = |secrets: &[&str]| {
        let mut command = muxbench();
        command.args(["load", "--resume", "stopped", "--quiet"]).current_dir(folder.path());
        output(command.env("TENANT", "sesame-tenant").args(secrets))
    };
    let cookies = inputs.path().join("cookies");
    fs::write(&cookies, "id=sesame-cookie\n").unwrap();
    let cookies = format!("--secret=@{}", cookies.display());
    let mut secrets = vec!["--secret=sesame-key", "--secret=${TENANT}", "--secret=sesame-query", "--secret=sesame url"];
    secrets.extend(["--secret={\"word\": \"sesame-body\"}", &cookies]);
    for given in [&[][..], &["--secret=sesame-other"], &secrets[1..]] {
        let refused = resume(given);
        let error = text(&refused.stderr);
        assert!(!refused.status.success() && error.contains("is not stored; add it with --secret VALUE"), "{error}");
        assert!(received.lock().unwrap().is_empty());
    }
    let resumed = resume(&secrets);
    assert!(matches!(resumed.status.code(), Some(0 | 3)), "{}", text(&resumed.stderr));
    assert_eq!(*received.lock().unwrap(), all, "the resumed run sends the same requests");
    assert_nothing_is_stored(folder.path());
}

fn errors_and_plans_show_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = output(muxbench().args(arguments).current_dir(folder.path()));
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    for (arguments, reason) in [
        (&["load", "redis://:sesame@localhost/x"][..], "invalid URL `redis://:{secret:"),
        (&["load", "http://h/", "-H", "Authorization: ses\u{e9}same"], "not ASCII"),
        (
            &["load", "http://h/", "-H", "Authorization: ${MUXBENCH_NO_SUCH}"],
            "has no variable MUXBENCH_NO_SUCH; set it",
        ),
        (&["load", "http://h/", "-H", "@none"], "headers: cannot read none"),
        // Nothing listens on the port of a bound socket.
        (&["load", "redis://:sesame@127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
    ] {
        let (is_success, shown) = run(arguments);
        assert!(!is_success && shown.contains(reason), "{arguments:?}: {shown}");
    }
    let text = "architectures = [\"epoll\"]\n[workload]\nservice = \"http\"\nrate = 100\nresponse = \"10B\"\n\
                [workload.http]\nheaders = [\"Authorization: sesame\"]\n";
    fs::write(folder.path().join("a.toml"), text).unwrap();
    for arguments in [&["plan", "a.toml"][..], &["plan", "a.toml", "--json"]] {
        let (is_success, shown) = run(arguments);
        assert!(is_success, "{shown}");
    }
    fs::write(folder.path().join("a.toml"), text.replace("sesame", "sesame-\u{e9}")).unwrap();
    let (_, shown) = run(&["plan", "a.toml"]);
    assert!(shown.contains("a.toml:7: ") && shown.contains("\"Authorization: {secret:"), "{shown}");
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(secrets_reach_the_server_and_nothing_else));
    cases.once(case!(errors_and_plans_show_no_secret));
}
