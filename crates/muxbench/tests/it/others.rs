//! External servers: those of `examples/servers`, and misbehaving commands.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::cases::{Cases, case};
use crate::common::{
    ExternalServer, ROOT, TIMEOUT, assert_interleaved, eventually, exchange, is_alive, muxbench, persistent_command,
    prepared, skipped, text,
};
use harness::record::{TrialRecord, VerdictKind};
use harness::spec::Experiment;
use harness::spec::units::Time;
use load::config::Pacing;
use rustix::process::{Pid, Signal};

/// The commands of `others.toml` by name, with the paths of the built servers.
fn commands() -> Vec<(String, Vec<String>)> {
    let folder = prepared("MUXBENCH_SERVERS", "servers");
    let file = format!("{ROOT}/examples/servers/others.toml");
    let experiment = Experiment::parse(&fs::read_to_string(&file).unwrap(), &file).unwrap();
    let built = |argument: &String| argument.replace("target/servers", folder.to_str().unwrap());
    let commands = experiment.exec.iter().map(|(name, exec)| (name.clone(), exec.command.iter().map(built).collect()));
    commands.collect()
}

/// An experiment file that measures these commands. `more` has further lines for each command's table.
fn experiment(commands: &[(String, Vec<String>)], repeats: u32, measure: &str, more: &str) -> String {
    let names: Vec<String> = commands.iter().map(|(name, _)| format!("exec:{name}")).collect();
    let mut file = format!(
        "name = \"x\"\narchitectures = {names:?}\nrepeats = {repeats}\n[workload]\nconnections = 10\nrate = 200\n\
         request = \"100B\"\nresponse = \"3000B\"\n[phases]\nramp = \"0\"\nwarm-up = \"100ms\"\nmeasure = \"{measure}\"\ncool-down = \"60s\"\n\
         [client]\npacing = \"sleep-spin\"\n"
    );
    for (name, command) in commands {
        file += &format!("[exec.{name}]\ncommand = {command:?}\ndirectory = {ROOT:?}\n{more}\n");
    }
    file
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    muxbench().args(arguments).current_dir(folder).output().unwrap()
}

/// All processes with `word` in their arguments or environment.
fn processes_with(word: &str) -> Vec<Pid> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        [read("cmdline"), read("environ")].iter().any(|bytes| text(bytes).contains(word))
    };
    numbers.filter(has).filter_map(Pid::from_raw).collect()
}

/// Runs an experiment file. Returns the records, and the output of muxbench.
fn records(folder: &Path, file: &str) -> (Vec<TrialRecord>, Output) {
    fs::write(folder.join("x.toml"), file).unwrap();
    let output = run(folder, &["run", "x.toml", "--allow-exec", "--quiet", "--output", "here"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{out}\n{err}");
    (harness::store::read(&folder.join("here")).unwrap().records, output)
}

fn example_servers_are_measured_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let commands = commands();
    assert_eq!(commands.len(), 6);
    let mark = format!("MUXBENCH_TEST_MARK=examples-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let more = format!("environment = {{ {name} = \"{value}\" }}\nstart-timeout = \"60s\"");
    // Use more connections than a Java virtual machine has threads of its own; their number varies.
    let file = experiment(&commands, 1, "1s", &more).replace("connections = 10", "connections = 40");
    let (records, output) = records(folder.path(), &file);
    assert_eq!(records.len(), commands.len());
    assert_interleaved(&harness::store::read(&folder.path().join("here")).unwrap());
    for record in &records {
        let name = &record.trial.architecture;
        let load = record.load.as_ref().unwrap_or_else(|| panic!("{name}: {}", record.verdict.reason));
        // The client has verified the size of each response.
        assert!(load.completed > 0 && load.errors.total() == 0, "{name}: {:?}", load.errors);
        assert_ne!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
        let server = record.server.as_ref().unwrap();
        assert_eq!(server.connections, 40, "{name}");
        assert!(server.workers >= 1, "{name}");
        assert!(server.totals.cpu_ns() > 0 && server.totals.switches() > 0, "{name}: {:?}", server.totals);
        assert!(server.memory_user_bytes_per_connection.is_some_and(f64::is_finite), "{name}");
        let stored = serde_json::to_value(&server.totals).unwrap();
        for unknown in ["requests", "bytes_in", "bytes_out", "accepted", "events"] {
            assert!(stored.get(unknown).is_none(), "{name}: {unknown} is unknown for an external server: {stored}");
        }
    }
    // `java-threads` has a thread per connection. In both Java servers the virtual machine's threads are workers, too.
    let workers = |name: &str| {
        let record = records.iter().find(|record| record.trial.architecture.to_string() == name).unwrap();
        record.server.as_ref().unwrap().workers
    };
    assert!(workers("exec:java-threads") >= workers("exec:java-nio") + 20);
    assert_eq!(workers("exec:asyncio"), 1);
    let out = text(&output.stdout);
    let row = out.lines().find(|line| line.starts_with("exec:go")).unwrap();
    assert!(out.contains("CPU µs/req") && !row.contains(" - + "), "{out}");
    assert_eq!(processes_with(&mark), [], "all processes of the servers have ended");
}

/// A quick experiment of `examples/servers` with one number of connections and the paths of the built servers. It has none of
/// muxbench's own servers, because other tests measure them.
fn brief_example(name: &str) -> Experiment {
    let servers = prepared("MUXBENCH_SERVERS", "servers");
    let path = format!("{ROOT}/examples/servers/{name}.toml");
    let file = fs::read_to_string(&path).unwrap().replace("target/servers", servers.to_str().unwrap());
    let file = file.replace("\"examples/", &format!("\"{ROOT}/examples/"));
    let mut experiment = Experiment::parse(&file, &path).unwrap().quick();
    experiment.architectures.0.retain(|it| it.ours().is_none());
    experiment.workload.connections.0.truncate(1);
    // A client at full speed would take CPU time from other tests.
    if experiment.workload.is_closed() {
        experiment.phases.warm_up = Time(100_000_000);
    } else {
        experiment.client.pacing = Pacing::SleepSpin;
    }
    experiment
}

fn example_servers_speak_streams_and_http() {
    for name in ["streams", "http"] {
        let experiment = brief_example(name);
        let folder = tempfile::tempdir().unwrap();
        let (records, _) = records(folder.path(), &toml::to_string(&experiment).unwrap());
        assert_eq!(records.len(), experiment.architectures.0.len());
        if name == "http" {
            assert_interleaved(&harness::store::read(&folder.path().join("here")).unwrap());
        }
        for record in &records {
            let server = format!("{name}, {}", record.trial.architecture);
            let load = record.load.as_ref().unwrap_or_else(|| panic!("{server}: {}", record.verdict.reason));
            // On a busy machine a window may contain no whole burst.
            let moved_bytes = load.stream.as_ref().map_or(0, |stream| stream.bytes);
            assert!(load.completed + moved_bytes > 0 && load.errors.total() == 0, "{server}: {:?}", load.errors);
            assert_ne!(record.verdict.kind, VerdictKind::Failed, "{server}: {}", record.verdict.reason);
        }
    }
}

/// A Java virtual machine that has virtual threads.
fn java_21() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|it| it.path().join("bin/java"));
    let is_new = |java: &PathBuf| {
        let version =
            Command::new(java).arg("-version").output().map(|output| text(&output.stderr)).unwrap_or_default();
        let major = version.split('"').nth(1).and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        major >= Some(21)
    };
    [PathBuf::from("java")].into_iter().chain(installed).find(is_new)
}

fn virtual_threads_of_java_are_measured() {
    let Some(java) = java_21() else { return skipped("Java 21 or newer") };
    let file = toml::to_string(&brief_example("virtual")).unwrap().replace("\"java\"", &format!("{java:?}"));
    let folder = tempfile::tempdir().unwrap();
    let (records, _) = records(folder.path(), &file);
    let of = |name: &str| records.iter().find(|record| record.trial.architecture.to_string() == name).unwrap();
    let workers = |name: &str| of(name).server.as_ref().unwrap().workers;
    let virtual_threads = of("exec:java-virtual");
    let load = virtual_threads.load.as_ref().unwrap_or_else(|| panic!("{}", virtual_threads.verdict.reason));
    assert!(load.completed > 0 && load.errors.total() == 0, "{:?}", load.errors);
    assert!(workers("exec:java-threads") >= workers("exec:java-virtual") + 20, "virtual threads are not the system's");
}

/// Starts an example server.
fn start(command: &[String], name: &str, request_bytes: usize, response_bytes: usize) -> ExternalServer {
    ExternalServer::start(name, |port| {
        let numbers = [("{port}", port as usize), ("{request}", request_bytes), ("{response}", response_bytes)];
        let filled = |argument: &String| {
            numbers.iter().fold(argument.clone(), |text, (name, number)| text.replace(name, &number.to_string()))
        };
        let mut server = Command::new(&command[0]);
        server.args(command[1..].iter().map(filled)).current_dir(ROOT);
        server
    })
}

/// The number of bytes that arrive until the connection ends.
fn rest(mut stream: TcpStream, name: &str) -> usize {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap_or_else(|error| panic!("{name}: {error}"));
    all.len()
}

/// The sizes of a request and a response. Twelve responses exceed all buffers.
const REQUEST: usize = 100;
const RESPONSE: usize = 1_000_000;

fn example_servers_answer_pieces_and_half_closes() {
    for (name, command) in commands() {
        let example = start(&command, &name, REQUEST, RESPONSE);
        let mut stream = example.connect();
        // A request in two pieces gets no response before the second piece.
        stream.write_all(&[1; 99]).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "{name} does not answer an incomplete request");
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(&[1]).unwrap();
        stream.read_exact(&mut vec![0; RESPONSE]).unwrap();
        // Seven and a half pipelined requests, then the missing half.
        stream.write_all(&[1; 750]).unwrap();
        stream.read_exact(&mut vec![0; 7 * RESPONSE]).unwrap();
        stream.write_all(&[1; 50]).unwrap();
        stream.read_exact(&mut vec![0; RESPONSE]).unwrap();
        drop(stream);
        // A reset ends one connection only.
        let mut others = example.connect();
        exchange(&mut others, REQUEST, RESPONSE);
        let reset = example.connect();
        rustix::net::sockopt::set_socket_linger(&reset, Some(std::time::Duration::ZERO)).unwrap();
        (&reset).write_all(&[1; 150]).unwrap();
        drop(reset);
        exchange(&mut others, REQUEST, RESPONSE);
        // Most responses are unsent at the half-close. The last request is incomplete.
        let mut stream = example.connect();
        stream.write_all(&[1; 12 * REQUEST + 50]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(stream, &name), 12 * RESPONSE, "{name}");
        let stream = example.connect();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(stream, &name), 0, "{name}");
    }
}

/// A server that works for some milliseconds after every 100 responses, as a garbage collector does, and delays every 50th response.
const LAZY_SERVER: &str = r#"
import select, socket, sys, time
port, request, response, later_ms, delay_ms = map(int, sys.argv[1:])
listener = socket.create_server(("127.0.0.1", port), backlog=100)
sockets, answered, epoll = {}, 0, select.epoll()
epoll.register(listener, select.EPOLLIN)
while True:
    for fd, _ in epoll.poll():
        if fd == listener.fileno():
            it, _ = listener.accept()
            it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[it.fileno()] = it
            epoll.register(it, select.EPOLLIN)
            continue
        try:
            received = sockets[fd].recv(request)
            if delay_ms and answered % 50 == 49:
                time.sleep(delay_ms / 1000)
            sockets[fd].sendall(bytes(response if received else 0))
        except OSError:
            received = b""
        if not received:
            sockets.pop(fd).close()
            continue
        answered += 1
        if answered % 100 == 0:
            end = time.thread_time() + later_ms / 1000
            while time.thread_time() < end:
                pass
"#;

/// Measures the lazy server with these delays beside itself without. Returns the records, and the output of muxbench.
fn beside_a_prompt_one(later_ms: &str, delay_ms: &str) -> (Vec<TrialRecord>, Output) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lazy.py"), LAZY_SERVER).unwrap();
    let script = folder.path().join("lazy.py").to_str().unwrap().to_owned();
    let command =
        |later_ms, delay_ms| words(&["python3", &script, "{port}", "{request}", "{response}", later_ms, delay_ms]);
    let servers = [("lazy".to_owned(), command(later_ms, delay_ms)), ("prompt".to_owned(), command("0", "0"))];
    records(folder.path(), &experiment(&servers, 1, "2s", "").replace("rate = 200", "rate = 1000"))
}

fn delays_of_few_requests_are_in_the_tail_of_their_row() {
    let (records, _) = beside_a_prompt_one("0", "3");
    let lazy = records.iter().find(|it| it.trial.architecture.to_string() == "exec:lazy").unwrap();
    let p99_ns = lazy.load.as_ref().unwrap().service.distribution.p99_ns;
    assert!(p99_ns >= 3_000_000 || lazy.verdict.kind != VerdictKind::Valid, "{p99_ns} ns");
}

fn work_in_the_turns_of_others_is_not_valid() {
    let (records, output) = beside_a_prompt_one("5", "0");
    let lazy = records.iter().find(|it| it.trial.architecture.to_string() == "exec:lazy").unwrap();
    let slices = lazy.trial.client.slices;
    assert!(slices.is_none() || lazy.verdict.kind != VerdictKind::Valid, "{}", lazy.verdict.reason);
    let is_named =
        |it: &&TrialRecord| it.separated.as_ref().is_some_and(|reason| text(&output.stdout).contains(reason));
    assert!(slices.is_some() || records.iter().any(|it| is_named(&it)), "{}", text(&output.stdout));
}

fn external_server_ends_with_its_run() {
    for (at, signal) in [None, Some(Signal::TERM), Some(Signal::KILL)].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let mark = format!("MUXBENCH_TEST_MARK=persistent-{}-{at}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let measure = if signal.is_some() { "60s" } else { "300ms" };
        let command = ("persistent".to_owned(), persistent_command(&folder.path().join("supervisor")));
        let file = experiment(&[command], 1, measure, &format!("environment = {{ {name} = \"{value}\" }}"));
        fs::write(folder.path().join("x.toml"), file).unwrap();
        let mut child = muxbench()
            .args(["run", "x.toml", "--allow-exec", "--quiet", "--output", "here"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if let Some(signal) = signal {
            eventually("the server and its children run", || processes_with(&mark).len() >= 5);
            rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        }
        let status = child.wait().unwrap();
        let expected = match signal {
            None => status.code().is_some_and(|code| matches!(code, 0 | 3)),
            Some(Signal::TERM) => status.code() == Some(130),
            Some(_) => status.code().is_none(),
        };
        assert!(expected, "{signal:?}: unexpected {status}");
        let left = || processes_with(&mark).into_iter().filter(|&pid| is_alive(pid)).collect::<Vec<_>>();
        if signal == Some(Signal::KILL) {
            eventually("all processes of the server end", || left().is_empty());
        } else {
            assert_eq!(left(), [], "{signal:?}: all processes of the server end before the run");
        }
    }
}

/// A script for a PID namespace, where no other doctor interferes: kills the supervisor of a server and its runner, then
/// calls the doctor until nothing is left.
const KILLED_SUPERVISOR: &str = r#"
"$1" run x.toml --allow-exec --quiet --output here >/dev/null 2>&1 &
run=$!
until [ -s supervisor ]; do sleep 0.05; done
"$1" doctor --clean
kill -STOP $run
until grep -q '^State:.T' /proc/$run/status; do sleep 0.05; done
kill -KILL $(cat supervisor)
kill -KILL $run
wait $run
"$1" doctor --json | grep -o 'of a server whose supervisor died' | head -n 1
until "$1" doctor --clean | tee printed | grep '^No leftovers'; do cat printed; done
! grep -qs '100[0]' /proc/[0-9]*/cmdline
"#;

fn doctor_ends_server_of_killed_supervisor_and_runner() {
    let folder = tempfile::tempdir().unwrap();
    let command = ("persistent".to_owned(), persistent_command(&folder.path().join("supervisor")));
    let file = experiment(&[command], 1, "600s", "start-timeout = \"600s\"");
    fs::write(folder.path().join("x.toml"), file).unwrap();
    let alone = |script: &str| {
        let mut alone = Command::new("timeout");
        alone.args(["600", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        if !rustix::process::geteuid().is_root() {
            alone.arg("--map-root-user");
        }
        alone.args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_muxbench")]);
        alone.current_dir(folder.path()).env("TMPDIR", folder.path()).output().unwrap()
    };
    let attempt = alone("exit");
    if !attempt.status.success() {
        return skipped(&format!("a doctor in a PID namespace of its own: {}", text(&attempt.stderr)));
    }
    let output = alone(KILLED_SUPERVISOR);
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(output.status.success() && lines.len() >= 5, "{output:?}");
    assert!(
        lines[0].starts_with("No leftovers"),
        "the doctor does not touch the server while its run continues: {printed}"
    );
    let of_server = "of a server whose supervisor died";
    assert_eq!(lines[1], of_server, "the doctor lists the processes");
    let is_of_server = |line: &&&str| line.starts_with("removed: process ") && line.ends_with(of_server);
    // The daemon and the process in its own session are left.
    assert!(lines[2..].iter().filter(is_of_server).count() >= 2, "{printed}");
}

fn failing_command_is_reported_with_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let python = format!("{ROOT}/examples/servers/python/asyncio_server.py");
    let commands = [
        ("refuses", words(&["sh", "-c", "echo no licence >&2; exit 7", "sh", "{port}"])),
        ("silent", words(&["sh", "-c", "echo waiting for a database; sleep 1000", "sh", "{port}"])),
        (
            "dies",
            words(&[
                "sh",
                "-c",
                "python3 $0 fixed $1 $2 $3 & sleep 0.3; kill -9 $!; echo out of luck >&2; exit 9",
                &python,
            ]),
        ),
        ("wrong", words(&["python3", &python, "fixed", "{port}", "{request}", "7"])),
    ];
    let mut commands = commands.map(|(name, command)| (name.to_owned(), command)).to_vec();
    commands[2].1.extend(words(&["{port}", "{request}", "{response}"]));
    let (records, _) = records(folder.path(), &experiment(&commands, 1, "2s", "start-timeout = \"3s\""));
    let reason = |name: &str| {
        let record = records.iter().find(|record| record.trial.architecture.to_string() == name).unwrap();
        assert_eq!(record.verdict.kind, VerdictKind::Failed, "{name}: {}", record.verdict.reason);
        record.verdict.reason.clone()
    };
    let refuses = reason("exec:refuses");
    assert!(refuses.contains("exit status: 7") && refuses.contains("no licence"), "{refuses}");
    let silent = reason("exec:silent");
    assert!(silent.contains("after 3 s") && silent.contains("waiting for a database"), "{silent}");
    let dies = reason("exec:dies");
    assert!(dies.contains("exit status: 9") && dies.contains("out of luck"), "{dies}");
    assert!(!reason("exec:wrong").is_empty());
}

fn commands_are_shown_and_start_only_if_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let touch = words(&["sh", "-c", "touch started; exit 1", "sh", "{port}"]);
    let file = experiment(&[("touch".to_owned(), touch)], 1, "300ms", "");
    let file = file.replace(&format!("{ROOT:?}"), &format!("{:?}", folder.path()));
    fs::write(folder.path().join("x.toml"), &file).unwrap();
    let message = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = run(folder.path(), arguments);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        for word in words {
            assert!(printed.contains(word), "{word}: {printed}");
        }
    };
    let shown = "exec:touch: sh -c \"touch started; exit 1\" sh {port}";
    message(&["plan", "x.toml"], 0, &[shown, "--allow-exec"]);
    message(&["run", "x.toml", "--output", "here"], 1, &[shown, "--allow-exec"]);
    assert!(!folder.path().join("started").exists() && !folder.path().join("here").exists());
    message(&["run", "x.toml", "--output", "here", "--allow-exec"], 3, &[shown, "exit status: 1"]);
    assert!(folder.path().join("started").exists());

    // A stored plan is as untrusted as a file.
    fs::remove_file(folder.path().join("started")).unwrap();
    message(&["run", "--resume", "here"], 1, &[shown, "--allow-exec"]);
    assert!(!folder.path().join("started").exists());

    fs::write(folder.path().join("x.toml"), file.replace("\"sh\", \"-c\"", "\"no-such-program\", \"-c\"")).unwrap();
    message(&["plan", "x.toml"], 1, &["exec.touch.command: cannot find `no-such-program` in PATH"]);
    message(&["compare", "--arch", "epoll,exec:touch"], 1, &["exec:touch is not defined", "--exec touch="]);
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(example_servers_are_measured_and_leave_nothing));
    cases.once(case!(example_servers_speak_streams_and_http));
    cases.once(case!(virtual_threads_of_java_are_measured));
    cases.once(case!(example_servers_answer_pieces_and_half_closes));
    cases.once(case!(delays_of_few_requests_are_in_the_tail_of_their_row));
    cases.once(case!(work_in_the_turns_of_others_is_not_valid));
    cases.once(case!(external_server_ends_with_its_run));
    cases.once(case!(doctor_ends_server_of_killed_supervisor_and_runner));
    cases.once(case!(failing_command_is_reported_with_its_output));
    cases.once(case!(commands_are_shown_and_start_only_if_allowed));
}
