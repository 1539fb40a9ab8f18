//! Helpers of the tests: servers of `muxbench serve`, external servers, and facts about processes.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use harness::record::Run;
use harness::store::Store;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::Value;
use server::Architecture;
pub use server::skipped::skipped;
use server::spec::mechanism::{NEEDS_NETWORK, Spins};
use wire::stream::{Direction, Stream};
use wire::{Address, Ports, ServiceSpec};

/// The repository, the working directory of example commands.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Longest wait: enough for the slowest machine. Only a failing test waits that long.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The built binary.
pub fn muxbench() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muxbench"));
    command.env("COLUMNS", "160");
    command
}

/// Returns the output of a process as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the JSON that a process has printed.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

/// Stores a run in `folder`.
pub fn store(folder: &Path, run: &Run) {
    let store = Store::create(folder, &run.header).unwrap();
    run.records.iter().for_each(|record| store.commit(record).unwrap());
}

/// Checks that all servers of a repeat and workload share a window in the plan of a run. On a busy machine, responses may
/// overrun their slices, and the trials then run separately.
pub fn assert_interleaved(run: &Run) {
    let feasible = || run.header.trials.iter().filter(|trial| trial.infeasible.is_empty());
    for trial in feasible() {
        let rivals = feasible().filter(|it| it.repeat == trial.repeat && it.workload == trial.workload);
        let heats: Vec<_> = rivals.map(|it| it.client.slices.map(|slices| slices.heat)).collect();
        assert!(heats.iter().all(|heat| heat.is_some() && *heat == heats[0]), "{}: {heats:?}", trial.label());
    }
}

/// `muxbench load` with a folder for its results.
pub fn load() -> Command {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = format!("load-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let mut command = muxbench();
    command.args(["load", "--output"]).arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder));
    command
}

/// The process that measures for a running `muxbench load`.
pub fn client_of(load: &Child) -> Pid {
    let is_client = |pid: &Pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"load")
    };
    let mut found = None;
    eventually("the client starts", || {
        found = children_of(Pid::from_child(load)).into_iter().find(is_client);
        found.is_some()
    });
    found.expect("the client has started")
}

/// Runs an external tool with a time limit.
pub fn peer(name: &str, arguments: &[&str]) -> Output {
    let command = prepared("MUXBENCH_PEERS", "peers").join(name);
    let output = Command::new("timeout").arg("120").arg(command).args(arguments).output();
    output.unwrap_or_else(|error| panic!("cannot run timeout {name}: {error}"))
}

/// A running server, killed when dropped.
pub struct Serve {
    architecture: Architecture,
    child: Child,
    lines: BufReader<ChildStdout>,
    pub address: Address,
    /// All ports of the service `udp`.
    pub ports: Option<Ports>,
    /// The certificates of a server with TLS, in PEM format.
    pub certificates: Option<String>,
}

impl Serve {
    /// Starts a server of the service `fixed` with these sizes.
    pub fn start(architecture: Architecture, request_bytes: u32, response_bytes: u32) -> Self {
        Self::start_with(architecture, request_bytes, response_bytes, &[], None)
    }

    /// Starts a server of the service `fixed` with more flags and a hard limit of descriptors.
    pub fn start_with(
        architecture: Architecture,
        request_bytes: u32,
        response_bytes: u32,
        flags: &[&str],
        descriptors_max: Option<u64>,
    ) -> Self {
        let limit = descriptors_max.map(|maximum| (Resource::Nofile, maximum));
        Self::start_limited(architecture, request_bytes, response_bytes, flags, limit)
    }

    /// Starts a server of the service `fixed` with more flags and a hard limit of any resource.
    pub fn start_limited(
        architecture: Architecture,
        request_bytes: u32,
        response_bytes: u32,
        flags: &[&str],
        limit: Option<(Resource, u64)>,
    ) -> Self {
        let sizes = ["--request", &format!("{request_bytes}B"), "--response", &format!("{response_bytes}B")];
        Self::launch(architecture, &[&sizes, flags].concat(), limit)
    }

    /// Starts a server of the service `kv` with more flags.
    pub fn start_kv(architecture: Architecture, flags: &[&str]) -> Self {
        Self::launch(architecture, &[&["--service", "kv"], flags].concat(), None)
    }

    /// Starts a server of the service `redis` with more flags.
    pub fn start_redis(architecture: Architecture, flags: &[&str]) -> Self {
        Self::launch(architecture, &[&["--service", "redis"], flags].concat(), None)
    }

    /// Starts a server of the service `http` with more flags.
    pub fn start_http(architecture: Architecture, flags: &[&str]) -> Self {
        Self::launch(architecture, &[&["--service", "http"], flags].concat(), None)
    }

    /// Starts a server of the service `udp` with this number of ports and more flags.
    pub fn start_udp(architecture: Architecture, ports: u32, flags: &[&str]) -> Self {
        let ports = ports.to_string();
        let sizes = ["--service", "udp", "--request", "16B", "--response", "40B", "--ports", &ports];
        Self::launch(architecture, &[&sizes, accept_datagrams(architecture), flags].concat(), None)
    }

    /// Starts a server of the service `stream` with more flags.
    pub fn start_stream(architecture: Architecture, flags: &[&str]) -> Self {
        Self::launch(architecture, &[&["--service", "stream"], flags].concat(), None)
    }

    /// Starts a server of any service with more flags.
    pub fn start_of(architecture: Architecture, service: &ServiceSpec, flags: &[&str]) -> Self {
        let (name, bytes) = (service.name(), |count: u32| format!("{count}B"));
        let sizes = match *service {
            ServiceSpec::Fixed { request_bytes, response_bytes } => {
                vec![("request", bytes(request_bytes)), ("response", bytes(response_bytes))]
            }
            ServiceSpec::Kv { memory_max_bytes, item_max_bytes }
            | ServiceSpec::Redis { memory_max_bytes, item_max_bytes } => {
                vec![("memory", format!("{memory_max_bytes}B")), ("item-max", bytes(item_max_bytes))]
            }
            ServiceSpec::Http { .. } => vec![],
            ServiceSpec::Udp { ports, request_bytes, response_bytes } => {
                let ports = ("ports", ports.to_string());
                vec![ports, ("request", bytes(request_bytes)), ("response", bytes(response_bytes))]
            }
            ServiceSpec::Stream(Stream { packet_bytes, packets, ack_bytes, direction, by_packet }) => {
                let direction = if direction == Direction::In { "in" } else { "out" };
                vec![
                    ("packet", bytes(packet_bytes)),
                    ("packets", packets.to_string()),
                    ("ack", bytes(ack_bytes)),
                    ("direction", direction.into()),
                    ("by-packet", by_packet.to_string()),
                ]
            }
        };
        let mut all = vec![format!("--service={name}")];
        all.extend(sizes.into_iter().map(|(flag, value)| format!("--{flag}={value}")));
        let accept = if service.ports().is_some() { accept_datagrams(architecture) } else { &[] };
        let all: Vec<&str> = all.iter().map(String::as_str).chain(accept.iter().chain(flags).copied()).collect();
        Self::launch(architecture, &all, None)
    }

    /// Starts a server with these flags and a hard limit of any resource.
    pub fn launch(architecture: Architecture, flags: &[&str], limit: Option<(Resource, u64)>) -> Self {
        let mut command = muxbench();
        command.args(["serve", "--json", "--arch", &architecture.to_string()]).args(flags).stdout(Stdio::piped());
        if let Some((resource, maximum)) = limit {
            let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
            // SAFETY: the closure only makes the system call setrlimit, which is async-signal-safe.
            unsafe { command.pre_exec(move || Ok(rustix::process::setrlimit(resource, limit)?)) };
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{architecture} printed `{line}`"));
        assert_eq!(ready["event"], "ready", "{architecture}: {line}");
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        let ports = ready["ports"].as_str().map(|ports| ports.parse().unwrap());
        let certificates = ready["certificates"].as_str().map(str::to_owned);
        Self { architecture, child, lines, address, ports, certificates }
    }

    /// The address of a server that listens on TCP.
    pub fn ip(&self) -> SocketAddr {
        self.address.ip().expect("the server listens on TCP")
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Connects a client with long timeouts.
    pub fn connect(&self) -> TcpStream {
        self.try_connect().unwrap()
    }

    /// Connects a client with long timeouts. Fails if the server refuses.
    pub fn try_connect(&self) -> std::io::Result<TcpStream> {
        connect(&self.address)
    }

    /// Returns a new connection after one request and response; `None` if the server refused the connection.
    pub fn try_exchange(&self, request_bytes: usize, response_bytes: usize) -> Option<TcpStream> {
        let mut stream = self.try_connect().ok()?;
        match try_exchange(&mut stream, request_bytes, response_bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection was neither served nor refused: {error}")
            }
            answered => answered.ok().map(|()| stream),
        }
    }

    /// User and system time of the server's process, in clock ticks, by proc_pid_stat(5).
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1.split(' ');
        after_name.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Processes whose parent is this server.
    pub fn children(&self) -> Vec<Pid> {
        children_of(self.pid())
    }

    /// Waits until all processes and threads of the server have been idle for a while, so that none is killed between sending
    /// a response and counting it. Spinning threads are exempt, because they count responses before they check for a stop.
    pub fn settle(&self) {
        let mechanism = self.architecture.mechanism;
        // A zero-copy send is counted after the client's acknowledgement, which may be delayed.
        let is_zero_copy = mechanism.is_some_and(|row| NEEDS_NETWORK.contains(&row.name));
        let quiet = Duration::from_millis(if is_zero_copy { 400 } else { 20 });
        let spins = mechanism.is_some_and(|row| row.spins != Spins::Nothing);
        let server = (!spins).then(|| self.pid());
        let threads = || -> Vec<Thread> {
            listed_children_of(self.pid()).into_iter().chain(server).flat_map(threads_of).collect()
        };
        let deadline = Instant::now() + TIMEOUT;
        // After this time it suffices that all threads wait, even if some wake periodically, as those of a runtime may.
        let enough = Instant::now() + Duration::from_secs(1);
        let (mut last, mut since) = (threads(), Instant::now());
        while since.elapsed() < quiet {
            std::thread::sleep(Duration::from_millis(5));
            let now = threads();
            let waits = now.iter().all(|thread| thread.state().is_none_or(|it| "SZX".contains(it)));
            if now != last || !waits {
                since = Instant::now();
            }
            last = now;
            if waits && Instant::now() > enough {
                return;
            }
            assert!(Instant::now() < deadline, "the threads of the server do not become idle: {last:?}");
        }
    }

    /// Calls `act` while all threads of the server, but not its children, are stopped.
    pub fn while_stopped(&self, act: impl FnOnce()) {
        rustix::process::kill_process(self.pid(), Signal::STOP).unwrap();
        eventually("the server is stopped", || threads_of(self.pid()).all(|thread| thread.is_stopped()));
        act();
        rustix::process::kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Sends SIGTERM. Returns the exit status and the totals that the server prints at its end.
    pub fn stop(self) -> (ExitStatus, Value) {
        let (status, snapshot) = self.stop_with_snapshot();
        (status, snapshot["totals"].clone())
    }

    /// Stops the server; returns its exit status and its last snapshot.
    pub fn stop_with_snapshot(mut self) -> (ExitStatus, Value) {
        rustix::process::kill_process(self.pid(), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        let last: Value = serde_json::from_str(rest.lines().last().unwrap_or("null")).unwrap();
        (status, last["snapshot"].clone())
    }
}

/// The flags by which network threads serve datagrams.
fn accept_datagrams(architecture: Architecture) -> &'static [&'static str] {
    if architecture.model.has_network_threads() { &["--accept", "reuseport"] } else { &[] }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An external server, killed when dropped.
pub struct ExternalServer {
    child: Child,
    pub address: SocketAddr,
}

impl ExternalServer {
    /// Starts the command that `command` returns for a free port, and waits until it listens on that port.
    pub fn start(name: &str, command: impl Fn(u16) -> Command) -> Self {
        let start_once = |_| {
            let address = server::socket::free_port((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let mut server = Self { child: command(address.port()).spawn().unwrap(), address };
            // The server ends if another process has taken the port meanwhile.
            let mut has_ended = false;
            eventually(&format!("{name} listens"), || {
                let listens = TcpStream::connect(address).is_ok();
                has_ended = server.child.try_wait().unwrap().is_some();
                listens || has_ended
            });
            (!has_ended).then_some(server)
        };
        (0..3).find_map(start_once).unwrap_or_else(|| panic!("{name} ends at each start"))
    }

    /// Connects a client with long timeouts.
    pub fn connect(&self) -> TcpStream {
        connect(&self.address.into()).unwrap()
    }
}

impl Drop for ExternalServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects a client, with timeouts of [`TIMEOUT`].
fn connect(address: &Address) -> std::io::Result<TcpStream> {
    let stream = match address {
        Address::Ip(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream
        }
        // Reads, writes and shutdown work on any stream socket.
        Address::Unix(path) => OwnedFd::from(UnixStream::connect(path)?).into(),
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Exchanges a request for a whole response.
pub fn exchange(stream: &mut TcpStream, request_bytes: usize, response_bytes: usize) {
    try_exchange(stream, request_bytes, response_bytes).unwrap();
}

/// Reads the head of a message of HTTP.
pub fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after `{}`", text(&head)));
        head.push(byte[0]);
    }
    text(&head)
}

/// Reads a response of `http` with a body, and returns its head and the length of the body.
pub fn read_response(stream: &mut TcpStream) -> (String, usize) {
    let head = read_head(stream);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
    stream.read_exact(&mut vec![0; length]).unwrap();
    (head, length)
}

fn try_exchange(stream: &mut TcpStream, request_bytes: usize, response_bytes: usize) -> std::io::Result<()> {
    stream.write_all(&vec![7; request_bytes])?;
    stream.read_exact(&mut vec![0; response_bytes])
}

/// Returns the path in an environment variable that `cargo xtask test` sets. If it is unset, runs `cargo xtask TASK`, which
/// prints the path.
pub fn prepared(variable: &str, task: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    // Only one process may install Debian packages at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let output = Command::new(cargo).args(["xtask", task]).current_dir(folder).output();
    let output =
        output.unwrap_or_else(|_| panic!("{variable} is not set, and cargo cannot be run: run `cargo xtask test`"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`cargo xtask {task}` failed: {printed}");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

/// Runs `load` for a second with 10 connections and more flags. Fails unless all requests succeed.
pub fn load_without_errors(flags: &[&str]) {
    // A client at full speed would take CPU time from other tests.
    let pause = if flags.contains(&"closed") { ["--think", "10ms"] } else { ["--pacing", "sleep-spin"] };
    let common = "--connections 10 --ramp 0 --warm-up 0 --measure 1s --cool-down 60s --json";
    let output = load().args(flags).args(pause).args(common.split_whitespace()).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{flags:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    let report = &printed["report"];
    let errors: u64 = report["errors"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(errors, 0, "{flags:?}: {report}");
    assert!(report["completed"].as_u64() > Some(0), "{flags:?}: {report}");
}

/// A generator of random choices, with its state.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        // SplitMix64 (Steele, Lea and Flood 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((number ^ (number >> 31)) % limit as u64) as usize
    }

    pub fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Waits until `condition` holds. The longer the wait, the less often this checks, because a check takes CPU time.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "never happened: {what}");
        std::thread::sleep((started.elapsed() / 16).clamp(Duration::from_millis(2), Duration::from_millis(50)));
    }
}

/// The number of trials of a run whose samples are stored. This is faster than reading the trials.
pub fn sampled_trials(run: &Path) -> usize {
    let entries = std::fs::read_dir(run.join("samples")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "parquet")).count()
}

/// The children of a process, from /proc. No child is missing.
pub fn children_of(pid: Pid) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let processes = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    processes.filter(|process| parent_of(*process) == Some(pid)).collect()
}

/// The parent of a process; `None` if the process has ended.
fn parent_of(process: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may contain spaces and parentheses. After it come the state and the parent.
    let (_, fields) = stat.rsplit_once(')')?;
    Pid::from_raw(fields.split_whitespace().nth(1)?.parse().ok()?)
}

/// The children of a process, from the lists of its threads. This is faster than [`children_of`], for code that looks again and
/// again: a child that starts or ends meanwhile may hide others.
fn listed_children_of(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    // Each number in a list has a space after it.
    let all: String = lists.collect();
    all.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}

/// The descendants of a process.
pub fn descendants(pid: Pid) -> Vec<Pid> {
    let children = children_of(pid);
    children.iter().flat_map(|&child| descendants(child)).chain(children.clone()).collect()
}

/// Copies the binary into `folder` and lets all users run the copy and write to the folder.
pub fn muxbench_for_all_users(folder: &Path) -> PathBuf {
    let program = folder.join("muxbench");
    // Another process makes the copy, so that no concurrently forked process holds it open for writing.
    let mut install = Command::new("install");
    install.args(["-m", "755", env!("CARGO_BIN_EXE_muxbench")]).arg(&program);
    assert!(install.status().unwrap().success());
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
    program
}

/// A command without privileges, so that limits and permissions apply even if root runs the test.
pub fn as_nobody(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let own = 1_000_000 + std::process::id();
    // A container may map fewer users.
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let is_mapped = map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        (numbers[0]..numbers[0] + numbers[2]).contains(&own.into())
    });
    let user = format!("--reuid={}", if is_mapped { own } else { 65_534 });
    command.args([&user, "--regid=65534", "--clear-groups", "--"]).arg(program);
    command
}

/// Anonymous memory of a process and its children in bytes; shared pages count once.
pub fn memory_bytes_of(pid: Pid) -> u64 {
    let kib = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let bytes_of = |process: Pid| {
        // A process that has just ended has no memory.
        let parts = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        let lines = parts.lines().filter(|line| line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"));
        lines.filter_map(kib).sum::<u64>() << 10
    };
    listed_children_of(pid).into_iter().chain([pid]).map(bytes_of).sum()
}

/// The number of open descriptors of a process and its descendants.
pub fn descriptors_of_all(pid: Pid) -> usize {
    descendants(pid).into_iter().chain([pid]).map(descriptors_of).sum()
}

/// The number of open descriptors of a process.
pub fn descriptors_of(pid: Pid) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// The kernel's facts about a thread.
#[derive(Debug, PartialEq)]
struct Thread {
    /// The line of its file `stat` in /proc, with its name and state.
    stat: String,
    /// Its voluntary and involuntary context switches.
    switches: Vec<String>,
}

impl Thread {
    fn state(&self) -> Option<char> {
        self.stat.rsplit_once(") ")?.1.chars().next()
    }

    /// Whether the thread is stopped, or is a kernel thread of io_uring, which signals do not stop.
    fn is_stopped(&self) -> bool {
        self.stat.contains("(iou-") || self.state() == Some('T')
    }
}

/// The threads of a process; none if it has ended.
fn threads_of(pid: Pid) -> impl Iterator<Item = Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().filter_map(Result::ok);
    tasks.filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let switches = status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect();
        Some(Thread { stat: std::fs::read_to_string(task.path().join("stat")).ok()?, switches })
    })
}

/// The command of a server whose children are hard to end: a process in its own session, a daemon with an empty environment,
/// and a process that ignores SIGTERM. Once all run, the file `supervisor` contains the process id of the supervisor.
pub fn persistent_command(supervisor: &Path) -> Vec<String> {
    let script = format!(
        "setsid sleep 1000 & env -i setsid -f sleep 1000; (trap '' TERM; while :; do sleep 1; done) & \
         python3 {ROOT}/examples/servers/python/asyncio_server.py fixed $1 $2 $3 & echo $PPID > $0; wait"
    );
    let words = ["sh", "-c", &script, supervisor.to_str().unwrap(), "{port}", "{request}", "{response}"];
    words.map(str::to_owned).into()
}

/// Whether a process exists and is no zombie.
pub fn is_alive(pid: Pid) -> bool {
    let has_ended = || threads_of(pid).all(|thread| thread.state() == Some('Z'));
    rustix::process::test_kill_process(pid).is_ok() && !has_ended()
}
