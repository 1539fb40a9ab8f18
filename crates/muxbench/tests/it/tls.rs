//! TLS on both ends: servers of each kind of loop with OpenSSL and with `load`, and whole runs.

use std::io::Write;
use std::process::Command;

use serde_json::Value;
use server::Architecture;
use tempfile::NamedTempFile;
use wire::ServiceSpec;

use crate::cases::{Cases, case};
use crate::common::{Serve, load, load_without_errors, muxbench, prepared};

const REQUEST: usize = 10;
/// Two responses exceed the socket buffers.
const RESPONSE: usize = 5 << 20;

const FIXED: &ServiceSpec = &ServiceSpec::Fixed { request_bytes: REQUEST as u32, response_bytes: RESPONSE as u32 };

/// Writes the certificates of a server to a file.
fn certificates(serve: &Serve) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(serve.certificates.as_ref().expect("the server has TLS").as_bytes()).unwrap();
    file
}

fn openssl_passes(architecture: Architecture) {
    let serve = Serve::start_of(architecture, FIXED, &["--tls"]);
    let file = certificates(&serve);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls_checks.py");
    let output = Command::new(prepared("MUXBENCH_PYTHON", "python"))
        .arg(script)
        .arg(serve.ip().port().to_string())
        .arg(file.path())
        .args([REQUEST, RESPONSE].map(|size| size.to_string()))
        .output()
        .unwrap();
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{architecture}: {error}");
    let counts: Vec<u64> = out.split_whitespace().map(|count| count.parse().unwrap()).collect();
    let &[requests, failed] = &counts[..] else { panic!("{out}") };
    serve.settle();
    let (status, totals) = serve.stop();
    assert!(status.success(), "{architecture}: {status}");
    assert_eq!((&totals["requests"], &totals["tls_failed"]), (&requests.into(), &failed.into()), "{architecture}");
    // Only content counts.
    let bytes = [REQUEST, RESPONSE].map(|size| Value::from(requests * size as u64));
    assert_eq!([&totals["bytes_in"], &totals["bytes_out"]], [&bytes[0], &bytes[1]], "{architecture}");
}

fn short_lived_connections_resume_sessions(architecture: Architecture) {
    let serve = Serve::start_with(architecture, 128, 1024, &["--tls"], None);
    let (url, file) = (format!("tcp://{}", serve.address), certificates(&serve));
    for is_full in [false, true] {
        let mut command = load();
        command.args([&url, "--cacert", file.path().to_str().unwrap(), "--response", "1KiB"]);
        command.args(["--requests-per-connection", "1", "--json"]);
        let phases = "--ramp 0 --warm-up 0 --measure 1s --cool-down 60s";
        command.args("--connections 10 --rate 100 --pacing sleep-spin".split(' ')).args(phases.split(' '));
        command.args(is_full.then_some("--full-handshakes"));
        let output = command.output().unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{architecture}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
        let count = |kind: &str| printed["report"]["tls"][kind]["distribution"]["count"].as_u64().unwrap();
        let (full, resumed) = (count("full"), count("resumed"));
        assert!(full + resumed > 0 && (resumed > 0) != is_full, "{architecture}: {full} full, {resumed} resumed");
        assert_eq!(printed["report"]["errors"]["tls"], 0, "{architecture}: {}", printed["report"]["errors"]);
    }
}

fn each_service_with_connections_has_tls() {
    let epoll = "epoll".parse().unwrap();
    for service in ["fixed", "http", "kv", "redis"] {
        let spec = match service {
            "fixed" => ServiceSpec::Fixed { request_bytes: 128, response_bytes: 100_000 },
            "http" => ServiceSpec::HTTP,
            "kv" => ServiceSpec::Kv { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
            _ => ServiceSpec::Redis { memory_max_bytes: 64 << 20, item_max_bytes: 1 << 20 },
        };
        let serve = Serve::start_of(epoll, &spec, &["--tls"]);
        let (address, file) = (serve.address.to_string(), certificates(&serve));
        let response = if service == "fixed" { &["--response", "100000B"][..] } else { &[] };
        let target = [&["--target", &address, "--service", service], response].concat();
        let trust = ["--cacert", file.path().to_str().unwrap(), "--rate", "100"];
        load_without_errors(&[&target[..], &trust].concat());
        load_without_errors(&[&target[..], &["--tls", "--insecure", "--schedule", "closed"]].concat());
    }
}

fn server_with_tls_needs_a_client_with_tls() {
    let serve = Serve::start_with("epoll".parse().unwrap(), 128, 128, &["--tls"], None);
    let address = serve.address.to_string();
    for (flags, words) in [(&[][..], "whether it uses TLS"), (&["--tls"], "--cacert FILE")] {
        let output = load().args(["--target", &address]).args(flags).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(words), "{error}");
    }
}

fn compared_servers_are_trusted_without_flags() {
    let folder = tempfile::tempdir().unwrap();
    let args = "compare --tls --arch epoll,mp -c 10 --rate 100 --response 100KiB --repeats 1 --ramp 0 --warm-up 200ms \
                --measure 500ms --cool-down 60s --pacing sleep-spin --output";
    let output = muxbench().args(args.split_whitespace()).arg(folder.path()).output().unwrap();
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(out.contains("over TLS") && out.contains("full handshakes"), "{out}{error}");
    assert!(out.contains("TLS13_AES_256_GCM_SHA384"), "{out}{error}");
}

pub fn cases(cases: &mut Cases) {
    cases.kinds(FIXED, case!(openssl_passes));
    cases.named(&["mp", "seda:2+4/epoll"], case!(short_lived_connections_resume_sessions));
    cases.once(case!(each_service_with_connections_has_tls));
    cases.once(case!(server_with_tls_needs_a_client_with_tls));
    cases.once(case!(compared_servers_are_trusted_without_flags));
}
