//! Distributed runs: several client processes of one trial, on this machine or as workers of a launcher.

mod clusters;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::cases::{Cases, case};
use crate::common::{self, assert_interleaved, children_of, eventually, muxbench, prepared, sampled_trials, skipped};
use harness::record::network::Links;
use harness::record::{Run, TrialRecord, VerdictKind};
use harness::store::Store;
use rustix::process::{Pid, Signal};

/// A comparison of two repeats of about two seconds each.
const COMPARE: &str = "compare --arch epoll --connections 31 --rate 300 --ramp 100ms --warm-up 300ms --measure 1s --repeats 2 \
     --pacing sleep-spin --quiet";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// Returns a run whose trials have all been judged. A busy machine may make them invalid.
fn finished(folder: &Path, output: &Output) -> Run {
    let printed = String::from_utf8_lossy(&output.stderr);
    let run = harness::store::read(folder).unwrap_or_else(|error| panic!("{error:#}: {printed}"));
    assert_eq!(run.records.len(), run.header.trials.len(), "{printed}");
    for record in &run.records {
        // A trial without results has no checks.
        assert!(!record.verdict.checks.is_empty(), "{}: {printed}", record.verdict.reason);
    }
    run
}

/// Checks that a record and its samples contain the results of all processes.
fn assert_merged(folder: &Path, record: &TrialRecord, connections: &[u32]) {
    let load = record.load.as_ref().unwrap();
    assert_eq!(load.processes.iter().map(|it| it.connections).collect::<Vec<_>>(), connections);
    assert_eq!(load.connections, connections.iter().sum::<u32>());
    // Processes and samples also count the guards of slices.
    let planned = load.processes.iter().map(|it| it.planned).sum::<u64>();
    assert!(if load.slices.is_some() { load.planned < planned } else { load.planned == planned }, "{planned} planned");
    assert_eq!(load.completed, load.service.distribution.count);
    // Each process may round its share by one request.
    let expected = load.rate_asked_per_s.unwrap() * record.trial.workload.phases.measure_ns as f64 / 1e9;
    assert!((planned as f64 - expected).abs() <= connections.len() as f64, "{planned} of {expected}");
    let samples = traffic::samples::read(&harness::store::samples_path(folder, record.trial.index)).unwrap();
    assert_eq!(samples.len() as u64, planned);
    assert!(samples.windows(2).all(|pair| pair[0].planned_ns <= pair[1].planned_ns));
    let mut first = 0;
    for (client, count) in (0..).zip(connections) {
        let of_client = || samples.iter().filter(|it| it.client == client);
        assert!(of_client().all(|it| (first..first + count).contains(&it.connection)), "client {client}");
        assert!(of_client().count() > 0, "client {client}");
        first += count;
    }
    let left: Vec<PathBuf> = fs::read_dir(folder.join("samples")).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.extension().is_some_and(|it| it == "parquet")), "{left:?}");
}

fn client_processes_share_every_kind_of_load() {
    for (architectures, flags, connections) in [
        ("epoll,mt", "--connections 10 --rate 1000", [3, 3, 4]),
        ("epoll,mt", "--connections 10 --rate 1000 --schedule constant --timestamps kernel", [3, 3, 4]),
        ("epoll,mt", "--ports 7 --rate 1000 --service udp --request 8B", [2, 2, 3]),
        ("epoll", "--connections 10 --rate 300 --requests-per-connection 2", [3, 3, 4]),
        ("epoll,mt", "--connections 10 --rate 1000 --service kv --records 200", [3, 3, 4]),
        ("epoll,mt", "--connections 10 --schedule closed --think 5ms", [3, 3, 4]),
        ("epoll", "--connections 10 --service stream --packets 10", [3, 3, 4]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let phases = "--ramp 0 --warm-up 200ms --measure 500ms --repeats 1 --quiet --client-processes 3";
        // A client that spins would take CPU time from other tests. A closed loop has no pacing.
        let pacing = if flags.contains("--rate") { "--pacing sleep-spin" } else { "" };
        let mut command = muxbench();
        command.args(["compare", "--arch", architectures]).args(words(phases)).args(words(pacing)).args(words(flags));
        let output = command.arg("--output").arg(&folder).output().unwrap();
        let run = finished(&folder, &output);
        if run.records.len() > 1 {
            assert_interleaved(&run);
        }
        for record in &run.records {
            let load = record.load.as_ref().unwrap();
            if load.closed.is_none() && load.churn.is_none() {
                assert_merged(&folder, record, &connections);
            } else {
                assert_eq!(load.processes.iter().map(|it| it.connections).collect::<Vec<_>>(), connections, "{flags}");
                assert!(load.processes.iter().all(|it| it.planned > 0), "{flags}: {:?}", load.processes);
            }
            let server = record.server.as_ref().unwrap();
            match &load.churn {
                None => assert_eq!(server.connections, u64::from(load.connections), "{flags}"),
                // The number of open connections depends on the sessions.
                Some(churn) => {
                    assert!(churn.requests_per_connection == 2 && churn.opened > 0, "{flags}: {churn:?}");
                    assert!(server.totals.requests.is_some_and(|requests| requests > 0), "{flags}");
                }
            }
        }
    }
}

/// A comparison of many repeats, so that it is still running when a test interferes.
fn many_repeats() -> String {
    COMPARE.replace("--repeats 2", "--repeats 30")
}

/// Waits for the samples of two further trials.
fn wait_for_two_trials(folder: &Path) {
    for _ in 0..2 {
        let before = sampled_trials(folder);
        eventually("another trial is finished", || sampled_trials(folder) > before);
    }
}

/// Checks that a trial failed for these reasons, and that the remaining workers shared the later trials.
fn assert_continued_after(reasons: [&str; 2], folder: &Path, connections: &[u32]) {
    let records = harness::store::read(folder).unwrap().records;
    let has_reasons = |record: &TrialRecord| reasons.iter().all(|reason| record.verdict.reason.contains(reason));
    let verdicts = || records.iter().map(|record| &record.verdict.reason).collect::<Vec<_>>();
    let at = records.iter().position(has_reasons).unwrap_or_else(|| panic!("{:?}", verdicts()));
    assert_eq!(records[at].verdict.kind, VerdictKind::Failed);
    assert!(at + 1 < records.len(), "{:?}", verdicts());
    // A busy machine may fail a trial for another reason.
    let whole: Vec<_> = records[at + 1..].iter().filter(|record| record.load.is_some()).collect();
    assert!(!whole.is_empty(), "{:?}", verdicts());
    whole.into_iter().for_each(|record| assert_merged(folder, record, connections));
}

/// Returns whether a /proc file of a process, such as its command line or environment, contains `word`.
fn proc_file_has(process: Pid, file: &str, word: &str) -> bool {
    let printed = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    printed.split(|byte| *byte == 0).any(|it| it == word.as_bytes())
}

/// The running clients of a worker. Before it joins, a worker has other short-lived children.
fn clients_of(worker: Pid) -> Vec<Pid> {
    children_of(worker).into_iter().filter(|child| proc_file_has(*child, "cmdline", "load")).collect()
}

/// Processes of a distributed run, started by the test instead of a launcher.
struct Job {
    processes: Vec<Child>,
    /// The folder of their temporary files.
    temporary: tempfile::TempDir,
}

/// A free port, if possible outside the ephemeral range: the kernel gives ephemeral ports to other processes.
fn free_port() -> u16 {
    let free_at = |any: IpAddr| server::socket::free_port((any, 0).into());
    let port = free_at(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| free_at(Ipv4Addr::UNSPECIFIED.into()));
    port.expect("a port is free").port()
}

impl Job {
    fn start(count: u32, arguments: &str, folder: &Path) -> Self {
        Self::start_at("127.0.0.1", count, arguments, folder)
    }

    fn start_at(host: &str, count: u32, arguments: &str, folder: &Path) -> Self {
        Self::start_each(host, count, &|_| arguments.to_owned(), folder)
    }

    /// Starts each process with its own arguments.
    fn start_each(host: &str, count: u32, arguments: &dyn Fn(u32) -> String, folder: &Path) -> Self {
        Self::start_programs(host, count, &|_| muxbench(), arguments, folder)
    }

    /// Starts each process with its own program and arguments.
    fn start_programs(
        host: &str,
        count: u32,
        program: &dyn Fn(u32) -> Command,
        arguments: &dyn Fn(u32) -> String,
        folder: &Path,
    ) -> Self {
        let (port, temporary) = (free_port(), tempfile::tempdir().unwrap());
        let start = |rank: u32| {
            let (mut command, arguments) = (program(rank), arguments(rank));
            command.args(words(&arguments)).arg("--distributed");
            if !arguments.contains("--resume") {
                command.arg("--output").arg(folder);
            }
            command.env("MUXBENCH_RANK", rank.to_string()).env("MUXBENCH_RANKS", count.to_string());
            command.env("MUXBENCH_RENDEZVOUS", format!("{host}:{port}")).env("MUXBENCH_SECRET", "open sesame");
            command.env("TMPDIR", temporary.path());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        // Start the first process last: the workers wait for it.
        let mut processes: Vec<Child> = (1..count).map(start).collect();
        processes.insert(0, start(0));
        Self { processes, temporary }
    }

    fn pid(&self, rank: usize) -> Pid {
        Pid::from_child(&self.processes[rank])
    }

    /// Waits until the client of a worker runs.
    fn wait_for_client(&self, rank: usize) {
        eventually("the worker has a client", || !clients_of(self.pid(rank)).is_empty());
    }

    /// Stops the run after two more trials, so that at least one of them began after the fault.
    fn end_soon(self, folder: &Path) -> Vec<Output> {
        wait_for_two_trials(folder);
        rustix::process::kill_process(self.pid(0), Signal::TERM).unwrap();
        self.end()
    }

    /// Waits for the end of all processes, and checks that they have left no temporary file.
    fn end(self) -> Vec<Output> {
        let outputs = self.processes.into_iter().map(|process| process.wait_with_output().unwrap()).collect();
        let left: Vec<PathBuf> = fs::read_dir(&self.temporary).unwrap().map(|it| it.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
        outputs
    }
}

fn workers_share_each_trial_and_first_process_stores_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let outputs = Job::start(4, COMPARE, &folder).end();
    let run = finished(&folder, &outputs[0]);
    run.records.iter().for_each(|record| assert_merged(&folder, record, &[10, 10, 11]));
    // Clients report the CPU time that other processes took only if the server has its own CPUs, and on a busy machine only
    // in some trials.
    let loads = || run.records.iter().flat_map(|record| &record.load.as_ref().unwrap().processes);
    let trial = &run.header.trials[0];
    let are_apart = !trial.serve.cpus().iter().any(|cpu| trial.client.cpus.contains(cpu));
    assert_eq!(loads().any(|process| process.cpu_taken_by_others.is_some()), are_apart);
    assert!(run.header.placement.contains("clients on"), "{}", run.header.placement);
    for other in &outputs[1..] {
        assert!(other.status.success() && other.stdout.is_empty(), "{other:?}");
    }
    assert!(String::from_utf8_lossy(&outputs[0].stderr).contains("distributed run of 4 processes"));
}

fn workers_take_turns_with_several_servers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let compare = COMPARE.replace("--arch epoll", "--arch epoll,mt").replace("--repeats 2", "--repeats 1");
    let outputs = Job::start(3, &compare, &folder).end();
    let run = finished(&folder, &outputs[0]);
    assert_eq!(run.records.len(), 2);
    assert_interleaved(&run);
    for record in &run.records {
        let load = record.load.as_ref().unwrap();
        assert_eq!(load.processes.iter().map(|it| it.connections).collect::<Vec<_>>(), [15, 16]);
        // On a busy machine a server may overrun its slices, and then runs separately.
        assert_eq!(load.slices.is_some(), record.trial.client.slices.is_some());
        assert!(load.planned > 0 && load.completed > 0, "{}", record.verdict.reason);
    }
    assert!(outputs[1..].iter().all(|other| other.status.success()), "{outputs:?}");
}

fn worker_limited_to_some_cpus_is_reported_once() {
    let host = harness::host::detect();
    let cpus = host.cores.concat();
    if cpus.len() < 2 {
        return skipped("a worker limited to one of several CPUs: this host has only one");
    }
    let first = cpus[0].to_string();
    let program = |rank: u32| match rank {
        1 => {
            let mut command = Command::new("taskset");
            command.args(["-c", &first, env!("CARGO_BIN_EXE_muxbench")]);
            command
        }
        _ => muxbench(),
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let arguments = |_: u32| COMPARE.replace("--measure 1s", "--measure 200ms");
    let outputs = Job::start_programs("127.0.0.1", 3, &program, &arguments, &folder).end();
    let run = finished(&folder, &outputs[0]);
    assert_eq!(run.records[0].load.as_ref().unwrap().processes.len(), 2);
    let printed = String::from_utf8_lossy(&outputs[0].stderr);
    let online = host.cpus_online().unwrap();
    assert_eq!(printed.matches(&format!("worker 1 may use CPU {first} of the {online} on ")).count(), 1, "{printed}");
    assert_eq!(printed.matches("the plan places clients on CPU ").count(), 1, "{printed}");
    // The other processes may use all CPUs of this test, so there is no message about them.
    assert!(online > cpus.len() || !printed.contains("worker 2 ") && !printed.contains("worker 0 "), "{printed}");
}

fn workers_need_neither_experiment_nor_folder() {
    let place = tempfile::tempdir().unwrap();
    let (folder, file) = (place.path().join("run"), place.path().join("x.toml"));
    let compare = COMPARE.replace("--repeats 2", "--repeats 1").replace("--measure 1s", "--measure 200ms");
    let output = muxbench().args(words(&compare)).arg("--print-experiment").output().unwrap();
    fs::write(&file, output.stdout).unwrap();
    let (file, run) = (file.display(), folder.display());
    let start = |first: &str, others: &str| {
        let arguments = |rank: u32| if rank == 0 { first.to_owned() } else { others.to_owned() };
        let outputs = Job::start_each("127.0.0.1", 3, &arguments, &folder).end();
        assert!(outputs[1..].iter().all(|other| other.status.success()), "{outputs:?}");
        finished(&folder, &outputs[0])
    };
    // Workers have neither the file nor the standard input of the first process.
    assert_eq!(start(&format!("run {file} --quiet"), "run /nonexistent/x.toml").records.len(), 1);
    let resume = |folder: &str| format!("run --quiet --resume {folder}");
    assert_eq!(start(&resume(&run.to_string()), &resume("/nonexistent")).records.len(), 1);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(start(&format!("run {file} --quiet"), "run -").records.len(), 1);
    fs::remove_dir_all(&folder).unwrap();
    let sweep = format!("{} --csv", compare.replace("compare", "sweep"));
    let rows = place.path().join("rows.csv");
    start(&format!("{sweep} {}", rows.display()), &format!("{sweep} /nonexistent/rows.csv"));
    assert!(rows.exists());
}

fn sigint_to_all_processes_finishes_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(3, &many_repeats(), &folder);
    (1..3).for_each(|rank| job.wait_for_client(rank));
    // Interrupt all processes, as an interrupted launcher does.
    (0..3).for_each(|rank| rustix::process::kill_process(job.pid(rank), Signal::INT).unwrap());
    let outputs = job.end();
    let records = harness::store::read(&folder).unwrap().records;
    assert!((1..30).contains(&records.len()), "{outputs:?}");
    let is_lost = |record: &TrialRecord| record.verdict.reason.contains("lost");
    assert!(!records.iter().any(is_lost), "{outputs:?}");
    assert!(outputs[1..].iter().all(|other| other.status.success()), "{outputs:?}");
}

fn lost_worker_is_named_in_failed_trial_and_ends_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let three = COMPARE.replace("--repeats 2", "--repeats 3").replace("--measure 1s", "--measure 3s");
    let job = Job::start(3, &three, &folder);
    job.wait_for_client(2);
    rustix::process::kill_process(job.pid(2), Signal::KILL).unwrap();
    let outputs = job.end();
    let run = harness::store::read(&folder).unwrap();
    assert!((1..3).contains(&run.records.len()), "the run ends with the failed trial: {outputs:?}");
    let verdict = &run.records.last().unwrap().verdict;
    assert_eq!(verdict.kind, VerdictKind::Failed);
    assert!(verdict.reason.contains("worker 2 on ") && verdict.reason.contains("is lost"), "{}", verdict.reason);
    let printed = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(outputs[0].status.code() == Some(3) && printed.contains("--distributed --resume"), "{printed}");
    assert!(outputs[1].status.success(), "{:?}", outputs[1]);

    // Only the same number of processes can resume the run.
    let resume =
        |count| Job::start(count, &format!("run --quiet --resume {}", folder.display()), Path::new("/unused")).end();
    let printed = String::from_utf8_lossy(&resume(2)[0].stderr).into_owned();
    assert!(printed.contains("start 3 processes"), "{printed}");
    let outputs = resume(3);
    let run = harness::store::read(&folder).unwrap();
    assert_eq!(run.records.len(), 3, "{outputs:?}");
    assert_merged(&folder, &run.records[2], &[15, 16]);
}

fn run_continues_without_lost_worker() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(4, &format!("{} --lost-worker continue", many_repeats()), &folder);
    job.wait_for_client(1);
    rustix::process::kill_process(job.pid(1), Signal::KILL).unwrap();
    job.end_soon(&folder);
    assert_continued_after(["worker 1 on ", "is lost"], &folder, &[15, 16]);
}

fn worker_with_killed_client_joins_the_next_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(3, &many_repeats(), &folder);
    eventually("a client is killed", || {
        // Ignore a client that has just ended.
        let kill = |client: &Pid| {
            let stat = fs::read_to_string(format!("/proc/{client}/stat"));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
                && rustix::process::kill_process(*client, Signal::KILL).is_ok()
        };
        clients_of(job.pid(2)).iter().any(kill)
    });
    job.end_soon(&folder);
    assert_continued_after(["worker 2 on ", "the client ended"], &folder, &[15, 16]);
}

fn distributed_run_uses_requested_transport_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let compare = COMPARE.replace("--repeats 2", "--repeats 1 --transport tcp6");
    let outputs = Job::start(2, &compare, &folder).end();
    let printed = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(printed.contains("workload.transport: tcp6") && printed.contains("at 127.0.0.1"), "{printed}");
    assert!(!outputs[0].status.success() && outputs[1].status.success() && !folder.exists());
    if let Err(error) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        skipped(&format!("a distributed run over IPv6: {error}"));
        return;
    }
    let outputs = Job::start_at("[::1]", 2, &compare, &folder).end();
    let run = finished(&folder, &outputs[0]);
    assert_eq!(run.header.host["network"], "between workers, to ::1");
    assert_merged(&folder, &run.records[0], &[31]);
}

fn resume_checks_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    // A run in a lab, as if it had begun on a host that permits labs.
    let mut run = testkit::run();
    run.header.trials[0].workload.network = Some(serde_json::from_value(serde_json::json!({"clients": 1})).unwrap());
    common::store(&folder, &run);
    // A process that a concurrent test forks holds the lock's descriptor until its exec.
    eventually("the run is unlocked", || Store::resume(&folder).is_ok());
    // Without this capability not even root can create namespaces.
    let mut resume = Command::new("setpriv");
    resume.args(["--bounding-set=-sys_admin", env!("CARGO_BIN_EXE_muxbench"), "run", "--quiet", "--resume"]);
    if !rustix::process::geteuid().is_root() {
        resume = muxbench();
        resume.args(["run", "--quiet", "--resume"]);
    }
    let output = resume.arg(&folder).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && printed.contains("this host does not meet the run's needs:\nnetwork"),
        "{printed}"
    );
}

/// Adds the cases of this folder.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(client_processes_share_every_kind_of_load));
    cases.once(case!(workers_share_each_trial_and_first_process_stores_it));
    cases.once(case!(workers_take_turns_with_several_servers));
    cases.once(case!(worker_limited_to_some_cpus_is_reported_once));
    cases.once(case!(workers_need_neither_experiment_nor_folder));
    cases.once(case!(sigint_to_all_processes_finishes_the_trial));
    cases.once(case!(lost_worker_is_named_in_failed_trial_and_ends_run));
    cases.once(case!(run_continues_without_lost_worker));
    cases.once(case!(worker_with_killed_client_joins_the_next_trial));
    cases.once(case!(distributed_run_uses_requested_transport_or_fails));
    cases.once(case!(resume_checks_the_network));
    clusters::cases(cases);
}
