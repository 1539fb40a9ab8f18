//! `muxbench load` against nginx, which logs the connection of each request.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use crate::cases::{Cases, case};
use crate::common::{self, ExternalServer, eventually, prepared};
use serde_json::Value;
use tempfile::TempDir;

/// A running nginx with one worker, killed when dropped.
struct Nginx {
    server: ExternalServer,
    folder: TempDir,
}

impl Nginx {
    /// Starts a server of `/kib` with 1 KiB, `/two` with 2 bytes, and `/traced` for requests with the header `X-Trace: 1`.
    fn start(keepalive_requests: u32) -> Self {
        Self::listening("", keepalive_requests)
    }

    /// Starts a server of `https`.
    fn start_tls() -> Self {
        let tls = format!(" ssl; ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY}; #");
        Self::listening(&tls, 1_000_000)
    }

    fn listening(options: &str, keepalive_requests: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("content")).unwrap();
        std::fs::write(folder.path().join("content/kib"), [b'x'; 1024]).unwrap();
        std::fs::write(folder.path().join("content/two"), "ok").unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|which| format!("{which}_temp_path {which};\n"))
            .concat();
        let program = prepared("MUXBENCH_PEERS", "peers").join("nginx");
        let server = ExternalServer::start("nginx", |port| {
            let configuration = format!(
                "daemon off; master_process off; pid nginx.pid; error_log error.log;\n\
                 events {{ worker_connections 1024; }}\n\
                 http {{ {temporary} log_format calls '$connection $status';\n\
                 access_log access.log calls; keepalive_requests {keepalive_requests};\n\
                 server {{ listen 127.0.0.1:{port}{options} backlog=4096;\nroot content;\n\
                 location /traced {{ if ($http_x_trace != 1) {{ return 403; }} return 200 traced; }}\n\
                 location /posted {{ if ($http_content_length != 7) {{ return 400; }} return 201 $request_method; }}\n\
                 location /moved {{ return 301 /two; }} }} }}\n"
            );
            std::fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
            let mut command = Command::new(&program);
            command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
            command
        });
        Self { server, folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address)
    }

    /// The logged number of requests of each connection.
    fn requests(&self) -> Vec<u32> {
        let log = std::fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        let mut calls = BTreeMap::<&str, u32>::new();
        log.lines().filter_map(|line| line.split(' ').next()).for_each(|it| *calls.entry(it).or_default() += 1);
        calls.into_values().collect()
    }
}

/// A certificate of 127.0.0.1 with its key.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../load/tests/tls/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../load/tests/tls/localhost.key");

const CLOSED: &[&str] = &["--schedule", "closed", "--think", "5ms", "--clients", "1"];
const OPEN: &[&str] = &["--rate", "500"];

fn load(arguments: &[&str]) -> Output {
    // A closed loop gets a longer window, so that it makes enough requests on a busy machine. Other clients must not spin, because
    // that would take CPU time from other tests.
    let (measure, pacing): (&str, &[&str]) =
        if arguments.contains(&"closed") { ("2s", &[]) } else { ("400ms", &["--pacing", "sleep-spin"]) };
    let phases = ["--connections", "5", "--ramp", "0", "--warm-up", "0", "--measure", measure, "--cool-down", "20s"];
    common::load().args(arguments).args(pacing).args(phases).output().unwrap()
}

/// Returns the report of a load, even if it is not valid: a busy machine delays its sends.
fn report(arguments: &[&str]) -> Value {
    let output = load(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Returns the error of a load that fails to start.
fn error_of(arguments: &[&str]) -> String {
    let output = load(arguments);
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// The number of all errors, and the number of errors of one class.
fn errors(report: &Value, class: &str) -> (u64, u64) {
    let errors = report["report"]["errors"].as_object().unwrap();
    (errors.values().filter_map(Value::as_u64).sum(), errors[class].as_u64().unwrap())
}

fn connections_are_kept_alive_in_open_and_closed_loops() {
    for schedule in [OPEN, CLOSED] {
        let nginx = Nginx::start(1_000_000);
        let report = report(&[&[nginx.url("/kib").as_str()], schedule].concat());
        assert_eq!(errors(&report, "closed"), (0, 0), "{}", report["report"]["errors"]);
        let completed = report["report"]["completed"].as_u64().unwrap();
        assert!(completed >= 50, "{completed}");
        // The client verifies each connection by one request. nginx logs a request after the client has the response.
        eventually("all requests are logged", || u64::from(nginx.requests().iter().sum::<u32>()) >= completed + 5);
        let calls = nginx.requests();
        assert_eq!(calls.len(), 5, "{calls:?}");
        let asked = &report["config"]["http"];
        assert_eq!((asked["targets"][0]["path"].as_str(), asked["status"].as_u64()), (Some("/kib"), Some(200)));
        assert_eq!(report["config"]["client"]["host"], nginx.server.address.to_string());
    }
}

fn server_that_closes_connections_is_redialled() {
    let (sessions, pipeline) = (["--requests-per-connection", "25"], ["--pipeline", "4"]);
    let short_lived = [&[OPEN, &sessions].concat()[..], &[CLOSED, &sessions].concat()];
    for flags in [short_lived[0], short_lived[1], &[CLOSED, &pipeline].concat(), CLOSED, OPEN] {
        let nginx = Nginx::start(10);
        let url = nginx.url("/two");
        let redialling = report(&[&[url.as_str()], flags].concat());
        assert_eq!(errors(&redialling, "closed"), (0, 0), "{}", redialling["report"]["errors"]);
        eventually("several connections are logged", || nginx.requests().len() > 10);
        let calls = nginx.requests();
        assert!(calls.iter().all(|&calls| calls <= 10), "{calls:?}");
    }
}

fn short_lived_connections_are_measured() {
    let nginx = Nginx::start(1_000_000);
    let url = nginx.url("/two");
    let sessions = report(&[&url, "--rate", "500", "--schedule", "constant", "--requests-per-connection", "4"]);
    assert_eq!(errors(&sessions, "reset"), (0, 0), "{}", sessions["report"]["errors"]);
    let churn = &sessions["report"]["churn"];
    // On a busy machine some sessions that are planned in the window begin after it.
    let opened = churn["opened"].as_u64().unwrap();
    assert!((1..=50).contains(&opened), "{opened}");
    assert_eq!(churn["opened_per_s"].as_f64(), Some(opened as f64 / 0.4));
    assert_eq!(churn["connect"]["distribution"]["count"], opened);
    assert!(
        churn["first_byte"]["distribution"]["p50_ns"].as_u64() > churn["connect"]["distribution"]["p50_ns"].as_u64()
    );
    // One request to verify the server, and 200 requests in sessions of 4.
    eventually("all requests are logged", || nginx.requests().iter().sum::<u32>() >= 201);
    let mut calls = nginx.requests();
    calls.sort_unstable();
    assert_eq!(calls, [&[1][..], &[4; 50]].concat());
    let printed = load(&[url.as_str(), "--requests-per-connection", "1", "--rate", "500"]).stdout;
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("SYN to established") && printed.contains("connections of 1 request each"), "{printed}");
}

fn status_and_length_are_verified() {
    let nginx = Nginx::start(1_000_000);
    let missing = nginx.url("/missing");
    let why = error_of(&[&missing]);
    assert!(why.contains("the response to GET /missing was 404 with") && why.contains("not 200"), "{why}");
    let expected = report(&[&missing, "--expect-status", "404", "--rate", "500"]);
    assert_eq!(errors(&expected, "wrong"), (0, 0), "{}", expected["report"]["errors"]);

    let why = error_of(&[&nginx.url("/kib"), "--response", "1000B"]);
    assert!(why.contains("200 with 1024 bytes of content, not 200 with 1000 bytes"), "{why}");
    let known = report(&[&nginx.url("/kib"), "--response", "1KiB", "--rate", "500"]);
    assert_eq!(errors(&known, "wrong"), (0, 0));
    // Request two paths in turn. Their responses differ in length.
    let target = nginx.server.address.to_string();
    let two_paths = ["--target", &target, "--service", "http", "--path", "/kib", "--path", "/two", "--rate", "500"];
    assert_eq!(errors(&report(&two_paths), "wrong"), (0, 0));
    let why = error_of(&[&two_paths[..], &["--response", "1KiB"]].concat());
    assert!(why.contains("connection 2 of 5") && why.contains("wrong"), "{why}");

    let traced = nginx.url("/traced");
    assert!(error_of(&[&traced]).contains("403"));
    let header = report(&[&traced, "--header", "X-Trace: 1", "--header", "Accept: */*", "--rate", "500"]);
    assert_eq!(errors(&header, "wrong"), (0, 0));
}

fn methods_bodies_and_redirects_are_sent_and_verified() {
    let nginx = Nginx::start(1_000_000);
    let posted = nginx.url("/posted");
    for method in [&[][..], &["-X", "PUT"]] {
        let sent = report(&[&[posted.as_str(), "-d", "{\"a\":1}", "--rate", "500"], method].concat());
        assert_eq!(errors(&sent, "wrong"), (0, 0), "{}", sent["report"]["errors"]);
    }
    let why = error_of(&[&posted, "-d", "{}"]);
    assert!(why.contains("the response to POST /posted was 400") && why.contains("not 2xx"), "{why}");

    let moved = nginx.url("/moved");
    let why = error_of(&[&moved]);
    assert!(why.contains("GET /moved was 301") && why.contains("redirects are not followed"), "{why}");
    assert_eq!(errors(&report(&[&moved, "--expect-status", "301", "--rate", "500"]), "wrong"), (0, 0));

    // Lines of a file of requests, with weights.
    let file = nginx.folder.path().join("requests");
    let posts = "{\"method\":\"POST\",\"path\":\"/posted\",\"body\":\"{\\\"a\\\":1}\",\"status\":201}";
    std::fs::write(&file, format!("/two x3\nHEAD /kib\n{posts}\n")).unwrap();
    let mixed = report(&[&nginx.url("/"), "--requests-file", file.to_str().unwrap(), "--rate", "500"]);
    assert_eq!(errors(&mixed, "wrong"), (0, 0), "{}", mixed["report"]["errors"]);
    assert_eq!(mixed["config"]["http"]["targets"].as_array().unwrap().len(), 3);
}

fn https_checks_certificates_and_resumes_sessions() {
    let nginx = Nginx::start_tls();
    let url = nginx.url("/kib").replace("http:", "https:");
    let why = error_of(&[&url]);
    assert!(why.contains("certificate") && why.contains("--cacert FILE"), "{why}");
    let trusted = report(&[&url, "--cacert", CERTIFICATE, "--rate", "500", "--requests-per-connection", "5"]);
    assert_eq!(errors(&trusted, "tls"), (0, 0), "{}", trusted["report"]["errors"]);
    let resumed = &trusted["report"]["tls"]["resumed"]["distribution"]["count"];
    assert!(resumed.as_u64() > Some(0), "{}", trusted["report"]);
    let insecure = report(&[&url, "--insecure", "--rate", "500"]);
    assert_eq!(errors(&insecure, "tls"), (0, 0), "{}", insecure["report"]["errors"]);
}

/// Returns the report of a load whose responses change their length.
fn load_of_changing_length(more: &[&str]) -> Value {
    let nginx = Nginx::start(1_000_000);
    let file = nginx.folder.path().join("content/two");
    let url = nginx.url("/two");
    let output = std::thread::scope(|scope| {
        // Replace the file after the client knows its length. A rename is atomic, so the file is never empty.
        scope.spawn(|| {
            eventually("20 requests are logged", || nginx.requests().iter().sum::<u32>() >= 20);
            let beside = file.with_extension("new");
            std::fs::write(&beside, "longer").unwrap();
            std::fs::rename(beside, &file).unwrap();
        });
        let phases = ["--ramp", "0", "--warm-up", "0", "--measure", "3s", "--cool-down", "20s", "--json"];
        let traffic = ["--rate", "500", "--connections", "5", "--pacing", "sleep-spin"];
        common::load().arg(&url).args(traffic).args(phases).args(more).output().unwrap()
    });
    serde_json::from_slice(&output.stdout).unwrap()
}

fn response_of_changing_length_is_wrong() {
    let report = load_of_changing_length(&[]);
    let (total, wrong) = errors(&report, "wrong");
    assert!(wrong > 0 && wrong == total, "{}", report["report"]["errors"]);
    assert_eq!(report["report"]["completed"], report["report"]["planned"], "wrong responses end no connection");
}

fn wrong_response_is_no_goodput() {
    let report = load_of_changing_length(&["--request-timeout", "10s"]);
    let (total, wrong) = errors(&report, "wrong");
    let bins = report["report"]["goodput"]["bins"].as_array().unwrap();
    let sum = |key: &str| bins.iter().map(|bin| bin[key].as_u64().unwrap()).sum::<u64>();
    assert!(wrong > 0 && wrong == total, "{}", report["report"]["errors"]);
    assert_eq!(sum("in_time") + wrong, sum("planned"));
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(wrong_response_is_no_goodput));
    cases.once(case!(connections_are_kept_alive_in_open_and_closed_loops));
    cases.once(case!(server_that_closes_connections_is_redialled));
    cases.once(case!(short_lived_connections_are_measured));
    cases.once(case!(status_and_length_are_verified));
    cases.once(case!(methods_bodies_and_redirects_are_sent_and_verified));
    cases.once(case!(https_checks_certificates_and_resumes_sessions));
    cases.once(case!(response_of_changing_length_is_wrong));
}
