//! Security: access to servers and results, files outside a served folder, and escape sequences on a terminal.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::cases::{Cases, case};
use crate::common::{Serve, muxbench, store, text};
use rustix::process::Pid;
use server::Architecture;

/// An address in the format of /proc/net: words in the byte order of this machine.
fn address(hex: &str) -> IpAddr {
    let word = |at: usize| u32::from_str_radix(&hex[at * 8..at * 8 + 8], 16).unwrap().to_ne_bytes();
    match hex.len() {
        8 => Ipv4Addr::from(word(0)).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from([word(0), word(1), word(2), word(3)].concat()).unwrap()).into(),
    }
}

/// The addresses of all listening and datagram sockets of a process.
fn bound_addresses(pid: Pid) -> Vec<IpAddr> {
    let links =
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    let sockets: BTreeSet<String> =
        links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let mut found = Vec::new();
    // States: 0A listens, 07 is a datagram socket that is not connected (net/tcp_states.h).
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == state && sockets.contains(fields[9]) {
                found.push(address(fields[1].split_once(':').unwrap().0));
            }
        }
    }
    found
}

fn server_without_listen_is_reachable_from_this_host_only(architecture: Architecture) {
    let mut servers = vec![
        Serve::start(architecture, 1, 1),
        Serve::start_kv(architecture, &[]),
        Serve::start_http(architecture, &[]),
        Serve::start_stream(architecture, &[]),
    ];
    if !architecture.model.is_pool() && !architecture.to_string().contains("symped") {
        servers.push(Serve::start_udp(architecture, 3, &[]));
    }
    for serve in &servers {
        let bound_addresses = bound_addresses(serve.pid());
        assert!(!bound_addresses.is_empty(), "{architecture} listens");
        assert!(bound_addresses.iter().all(IpAddr::is_loopback), "{architecture}: {bound_addresses:?}");
    }
}

fn server_on_all_addresses_is_reachable_from_any_host() {
    let serve = Serve::start_with("epoll".parse().unwrap(), 1, 1, &["--listen", "0.0.0.0:0"], None);
    let bound = bound_addresses(serve.pid());
    assert!(!bound.is_empty() && bound.iter().all(IpAddr::is_unspecified), "{bound:?}");
}

/// The first two lines that a server prints, and the addresses of its sockets.
fn greeting(flags: &[&str]) -> (String, Vec<IpAddr>) {
    let mut serve = muxbench().arg("serve").args(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(serve.stdout.take().unwrap()).lines().take(2);
    let printed = lines.map(|line| line.unwrap() + "\n").collect();
    let bound_addresses = bound_addresses(Pid::from_child(&serve));
    serve.kill().and_then(|()| serve.wait()).unwrap();
    (printed, bound_addresses)
}

fn server_prints_which_hosts_can_connect() {
    let (printed, bound_addresses) = greeting(&[]);
    assert!(printed.contains(" listens on 127.0.0.1:"), "{printed}");
    assert!(printed.contains("Only this host can connect; --listen 0.0.0.0:"), "{printed}");
    assert!(!bound_addresses.is_empty() && bound_addresses.iter().all(IpAddr::is_loopback), "{bound_addresses:?}");
    let (printed, bound_addresses) = greeting(&["--listen", "0.0.0.0:0"]);
    assert!(printed.contains("All hosts that reach this one can connect"), "{printed}");
    assert!(bound_addresses.iter().any(IpAddr::is_unspecified), "{bound_addresses:?}");
}

/// Everything that a server sends after this request, until it closes the connection.
fn printed(serve: &Serve, request: &[u8]) -> String {
    let mut stream = serve.connect();
    stream.write_all(request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut printed = Vec::new();
    stream.read_to_end(&mut printed).unwrap();
    text(&printed)
}

fn no_path_leads_out_of_a_served_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (served, secret) = (folder.path().join("served"), folder.path().join("secret"));
    fs::create_dir_all(served.join("sub")).unwrap();
    fs::write(served.join("sub/a.txt"), "content").unwrap();
    fs::write(&secret, "not to be read").unwrap();
    let serve = Serve::start_http("epoll".parse().unwrap(), &["--folder", served.to_str().unwrap()]);
    // The server does not serve files or links that appear after its start.
    symlink(&secret, served.join("later")).unwrap();
    let get =
        |path: &str| printed(&serve, format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
    assert!(get("/sub/a.txt").ends_with("content"));
    assert!(get("/sub/../sub/%61.txt").ends_with("content"), "a path within the folder is served");
    let absolute = secret.to_str().unwrap();
    for path in [
        "/../secret",
        "/sub/../../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/sub/%2e%2e%2f%2e%2e%2fsecret",
        "/.%2e/secret",
        "/%252e%252e/secret",
        "/..\\secret",
        "/sub/a.txt/../../../secret",
        "/sub/a.txt%00/../../secret",
        "//../secret",
        "../secret",
        "http://h/../secret",
        "/later",
        absolute,
        &format!("/{absolute}"),
        &format!("/%2f{absolute}"),
    ] {
        let printed = get(path);
        assert!(printed.starts_with("HTTP/1.1 4"), "{path}: {printed}");
        assert!(!printed.contains("not to be read"), "{path}: {printed}");
    }
}

/// A folder and its contents, recursively.
fn everything(folder: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(folder).into_iter().flatten().flatten();
    std::iter::once(folder.to_owned()).chain(inner.flat_map(|entry| everything(&entry.path()))).collect()
}

fn results_are_not_writable_by_others_with_umask_0() {
    let folder = tempfile::tempdir().unwrap();
    let small = "compare --arch epoll --connections 4 --rate 100 --request 1B --response 1B --ramp 0 --warm-up 50ms \
                 --measure 200ms --repeats 1";
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_muxbench")]).args(small.split_whitespace());
    let output = shell.current_dir(folder.path()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let made = everything(&folder.path().join("results"));
    // A failed trial has no samples, but the folder exists.
    for name in ["run.json", "muxbench.db", "lock", "samples"] {
        assert!(made.iter().any(|path| path.ends_with(name)), "{name}: {made:?}");
    }
    for path in made {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o002, 0, "{}: {mode:o}", path.display());
    }
}

fn stored_escapes_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let run = testkit::hostile(testkit::run());
    store(&folder.path().join("it"), &run);
    for arguments in
        ["report it", "report it --markdown", "report it --csv", "report it --json", "report it it", "report ."]
    {
        let report = muxbench().args(arguments.split(' ')).current_dir(folder.path()).output();
        let Output { stdout, stderr, .. } = report.unwrap();
        let all = text(&[stdout, stderr].concat());
        assert!(all.contains("epoll"), "{arguments}: {all}");
        assert!(!all.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{arguments}: {all:?}");
    }
    let report = muxbench().args(["report", "it"]).current_dir(folder.path()).output().unwrap();
    assert!(text(&report.stdout).contains("u001b[2J"), "the escape is shown: {}", text(&report.stdout));
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    let models = ["epoll", "mt", "symped:2/epoll", "mt-pool:2"];
    cases.named(&models, case!(server_without_listen_is_reachable_from_this_host_only));
    cases.once(case!(server_on_all_addresses_is_reachable_from_any_host));
    cases.once(case!(server_prints_which_hosts_can_connect));
    cases.once(case!(no_path_leads_out_of_a_served_folder));
    cases.once(case!(results_are_not_writable_by_others_with_umask_0));
    cases.once(case!(stored_escapes_do_not_reach_the_terminal));
}
