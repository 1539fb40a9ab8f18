//! Fleets: several client processes of one trial, on this machine or as ranks that an engine starts.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{children_of, eventually, muxbench, prepared};
use lab::record::{Run, TrialRecord, VerdictKind};
use rustix::process::{Pid, Signal};

/// A comparison of two repeats, of which each takes about two seconds.
const COMPARE: &str =
    "compare --arch epoll --connections 31 --rate 300 --ramp 100ms --hold 300ms --measure 1s --repeats 2 --quiet";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

/// A run whose trials could all be done; whether they are valid is the machine's doing.
fn finished(folder: &Path, output: &Output) -> Run {
    let said = String::from_utf8_lossy(&output.stderr);
    let run = lab::store::read(folder).unwrap_or_else(|error| panic!("{error:#}: {said}"));
    assert_eq!(run.records.len(), run.header.trials.len(), "{said}");
    for record in &run.records {
        // One that could not be judged has no checks.
        assert!(!record.verdict.checks.is_empty(), "{}: {said}", record.verdict.reason);
    }
    run
}

/// Whether all processes' figures are in a record, and in its samples.
fn is_merged(folder: &Path, record: &TrialRecord, connections: &[u32]) {
    let load = record.load.as_ref().unwrap();
    assert_eq!(load.processes.iter().map(|it| it.connections).collect::<Vec<_>>(), connections);
    assert_eq!(load.connections, connections.iter().sum::<u32>());
    assert_eq!(load.planned, load.processes.iter().map(|it| it.planned).sum::<u64>());
    assert_eq!(load.completed, load.service.distribution.count);
    // All that was planned, give or take one for each process.
    let asked = load.rate_asked_per_s.unwrap() * load.window_ns as f64 / 1e9;
    assert!((load.planned as f64 - asked).abs() <= connections.len() as f64, "{} of {asked}", load.planned);
    let samples = lab::samples::read(&lab::store::samples_path(folder, record.trial.index)).unwrap();
    assert_eq!(samples.len() as u64, load.planned);
    assert!(samples.windows(2).all(|pair| pair[0].planned_ns <= pair[1].planned_ns));
    let mut first = 0;
    for (client, count) in (0..).zip(connections) {
        let of = || samples.iter().filter(|it| it.client == client);
        assert!(of().all(|it| (first..first + count).contains(&it.connection)), "client {client}");
        assert!(of().count() > 0, "client {client}");
        first += count;
    }
    let left: Vec<PathBuf> = fs::read_dir(folder.join("samples")).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.extension().is_some_and(|it| it == "parquet")), "{left:?}");
}

#[test]
fn several_processes_divide_every_kind_of_load() {
    for (flags, connections) in [
        ("--connections 10 --rate 300", [3, 3, 4]),
        ("--connections 10 --rate 300 --schedule constant --timestamps kernel", [3, 3, 4]),
        ("--ports 7 --connections 1 --rate 300 --service udp --request 8B", [2, 2, 3]),
        ("--connections 10 --rate 300 --calls-per-connection 2", [3, 3, 4]),
        ("--connections 10 --rate 300 --service kv --records 200", [3, 3, 4]),
        ("--connections 10 --schedule closed --think 5ms", [3, 3, 4]),
        ("--connections 10 --service stream --packets 10", [3, 3, 4]),
    ] {
        let flags = flags.replace("--ports 7 --connections 1", "--ports 7");
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        let phases = "--ramp 100ms --hold 300ms --measure 500ms --repeats 1 --quiet --client-processes 3";
        let mut command = muxbench();
        command.args(["compare", "--arch", "epoll"]).args(words(phases)).args(words(&flags));
        let output = command.arg("--output").arg(&folder).output().unwrap();
        let run = finished(&folder, &output);
        let load = run.records[0].load.as_ref().unwrap();
        if load.closed.is_none() && load.churn.is_none() {
            is_merged(&folder, &run.records[0], &connections);
        } else {
            assert_eq!(load.processes.iter().map(|it| it.connections).collect::<Vec<_>>(), connections, "{flags}");
            assert!(load.processes.iter().all(|it| it.planned > 0), "{flags}: {:?}", load.processes);
        }
        let server = run.records[0].server.as_ref().unwrap();
        assert_eq!(server.connections, if load.churn.is_some() { server.connections } else { load.connections.into() });
    }
}

#[test]
fn one_process_of_several_that_fails_fails_the_trial_with_its_number() {
    // Each client of Zipf has a favourite of its own.
    let output =
        muxbench().args(words(COMPARE)).args(["--client-processes", "3", "--choice", "zipf"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("client.processes: several processes"), "{said}");
    let output = muxbench().args(words(COMPARE)).args(["--client-processes", "32"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot share 31 connections"));
}

/// Ranks that nobody but this test has started.
struct Job {
    ranks: Vec<Child>,
}

impl Job {
    fn start(count: u32, arguments: &str, folder: &Path) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let start = |rank: u32| {
            let mut command = muxbench();
            command.args(words(arguments)).arg("--fleet").arg("--output").arg(folder);
            command.env("MUXBENCH_RANK", rank.to_string()).env("MUXBENCH_RANKS", count.to_string());
            command.env("MUXBENCH_RENDEZVOUS", format!("127.0.0.1:{port}")).env("MUXBENCH_SECRET", "open sesame");
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        // The first comes last: the others wait for it.
        let mut ranks: Vec<Child> = (1..count).map(start).collect();
        ranks.insert(0, start(0));
        Self { ranks }
    }

    fn pid(&self, rank: usize) -> Pid {
        Pid::from_child(&self.ranks[rank])
    }

    /// Waits until a rank's client is there, and measures.
    fn until_it_measures(&self, rank: usize) {
        eventually("a client measures", || !children_of(self.pid(rank)).is_empty());
        std::thread::sleep(Duration::from_millis(500));
    }

    fn end(self) -> Vec<Output> {
        self.ranks.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
    }
}

#[test]
fn ranks_divide_each_trial_and_the_first_has_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let outputs = Job::start(4, COMPARE, &folder).end();
    let run = finished(&folder, &outputs[0]);
    run.records.iter().for_each(|record| is_merged(&folder, record, &[10, 10, 11]));
    assert!(run.header.placement.contains("clients on"), "{}", run.header.placement);
    for other in &outputs[1..] {
        assert!(other.status.success() && other.stdout.is_empty(), "{other:?}");
    }
    assert!(String::from_utf8_lossy(&outputs[0].stderr).contains("a fleet of 4"));
}

#[test]
fn a_rank_that_dies_fails_its_trial_by_name_and_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(3, &COMPARE.replace("--measure 1s", "--measure 4s"), &folder);
    job.until_it_measures(2);
    rustix::process::kill_process(job.pid(2), Signal::KILL).unwrap();
    let outputs = job.end();
    let run = lab::store::read(&folder).unwrap();
    assert_eq!(run.records.len(), 1, "the other trial is for a whole fleet");
    let verdict = &run.records[0].verdict;
    assert_eq!(verdict.kind, VerdictKind::Failed);
    assert!(verdict.reason.contains("rank 2 on ") && verdict.reason.contains("is lost"), "{}", verdict.reason);
    let said = String::from_utf8_lossy(&outputs[0].stderr);
    assert!(outputs[0].status.code() == Some(3) && said.contains("--fleet --resume"), "{said}");
    assert!(outputs[1].status.success(), "{:?}", outputs[1]);

    // What is left is finished by a fleet of as many ranks, and by no other.
    let resume =
        |count| Job::start(count, &format!("run --quiet --resume {}", folder.display()), Path::new("/unused")).end();
    let said = String::from_utf8_lossy(&resume(2)[0].stderr).into_owned();
    assert!(said.contains("start 3 ranks"), "{said}");
    let outputs = resume(3);
    let run = lab::store::read(&folder).unwrap();
    assert_eq!(run.records.len(), 2, "{outputs:?}");
    is_merged(&folder, &run.records[1], &[15, 16]);
}

#[test]
fn the_others_go_on_without_a_rank_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let compare = COMPARE.replace("--measure 1s", "--measure 4s");
    let job = Job::start(4, &format!("{compare} --lost-rank go-on"), &folder);
    job.until_it_measures(1);
    rustix::process::kill_process(job.pid(1), Signal::KILL).unwrap();
    job.end();
    let run = lab::store::read(&folder).unwrap();
    assert_eq!(run.records[0].verdict.kind, VerdictKind::Failed);
    assert!(run.records[0].verdict.reason.contains("rank 1 on "), "{}", run.records[0].verdict.reason);
    is_merged(&folder, &run.records[1], &[15, 16]);
}

#[test]
fn a_rank_whose_client_dies_takes_part_in_the_next_trial() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(3, &COMPARE.replace("--measure 1s", "--measure 3s"), &folder);
    job.until_it_measures(2);
    let client = children_of(job.pid(2))[0];
    rustix::process::kill_process(client, Signal::KILL).unwrap();
    job.end();
    let run = lab::store::read(&folder).unwrap();
    let reason = &run.records[0].verdict.reason;
    assert!(reason.contains("rank 2 on ") && reason.contains("the client ended"), "{reason}");
    is_merged(&folder, &run.records[1], &[15, 16]);
}

#[test]
fn a_rank_that_hangs_fails_its_trial_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let job = Job::start(3, &COMPARE.replace("--measure 1s", "--measure 4s"), &folder);
    job.until_it_measures(1);
    let hanging = job.pid(1);
    rustix::process::kill_process(hanging, Signal::STOP).unwrap();
    // Whoever ends a job ends its hanging ranks too.
    let ranks = job.ranks;
    let mut outputs = Vec::new();
    for (number, rank) in ranks.into_iter().enumerate() {
        if number == 1 {
            rustix::process::kill_process(hanging, Signal::KILL).unwrap();
        }
        outputs.push(rank.wait_with_output().unwrap());
    }
    let run = lab::store::read(&folder).unwrap();
    let reason = &run.records[0].verdict.reason;
    assert!(reason.contains("rank 1 on ") && reason.contains("it hangs"), "{reason}");
    assert_eq!((run.records.len(), outputs[0].status.code()), (1, Some(3)));
}

#[test]
fn a_client_takes_what_a_server_says_it_serves_and_asks_for_nothing_else() {
    let mut serve = muxbench();
    serve.args(words("serve --arch epoll --request 77B --response 3KiB --listen 127.0.0.1:0 --json"));
    // The port after the server's may be another's now and then: then it says so, and another is tried.
    let (mut serve, address) = (0..10)
        .find_map(|_| {
            use std::io::{BufRead, BufReader, Read};
            let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
            let address = ready["address"].as_str().unwrap().to_owned();
            let (host, port) = address.rsplit_once(':').unwrap();
            let next = port.parse::<u16>().unwrap() + 1;
            let mut said = String::new();
            let stream = std::net::TcpStream::connect((host, next));
            let _ = stream.and_then(|mut stream| stream.read_to_string(&mut said));
            if said.starts_with("muxbench serves ") {
                return Some((child, address));
            }
            child.kill().and_then(|()| child.wait()).unwrap();
            None
        })
        .unwrap();
    let load = |flags: &str| {
        let phases = "--ramp 0 --hold 0 --measure 300ms --connections 2 --rate 200 --json";
        muxbench().args(["load", "--target", &address]).args(words(phases)).args(words(flags)).output().unwrap()
    };
    let output = load("");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(
        (&said["config"]["service"]["request_bytes"], &said["report"]["errors"]["timeout"]),
        (&77.into(), &0.into())
    );
    assert!(said["report"]["completed"].as_u64().unwrap() > 0);
    let output = load("--request 77B --response 3KiB");
    assert!(!output.stdout.is_empty(), "what is said is the same");
    for flags in ["--request 78B", "--service stream", "--service kv"] {
        let output = load(flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("serves fixed: 77B -> 3KiB, and is asked for"), "{said}");
    }
    serve.kill().and_then(|()| serve.wait()).unwrap();
}

/// Three hosts, each a network namespace with a name of its own, on one network. They are gone when this is dropped.
struct Hosts {
    prefix: String,
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

/// How many.
const HOSTS: u32 = 3;

/// Runs a command, which must succeed.
fn must(program: &str, arguments: &str) {
    let output =
        Command::new(program).args(words(arguments)).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
}

impl Hosts {
    /// `None` where that is not permitted: namespaces are root's to make.
    fn new(letter: char) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("fleets on several hosts are skipped: only root may make network namespaces");
            return None;
        }
        // An interface's name has 15 bytes at most.
        let prefix = format!("mb{letter}{}", std::process::id() % 1_000_000);
        let hosts = Self { prefix, folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        let bridge = format!("{}br", hosts.prefix);
        must("ip", &format!("link add {bridge} type bridge"));
        must("ip", &format!("link set {bridge} up"));
        for (number, name) in hosts.names().enumerate() {
            must("ip", &format!("netns add {name}"));
            must("ip", &format!("link add {name} type veth peer name eth0 netns {name}"));
            must("ip", &format!("link set {name} master {bridge} up"));
            must("ip", &format!("-n {name} link set lo up"));
            must("ip", &format!("-n {name} link set eth0 up"));
            must("ip", &format!("-n {name} addr add 10.97.0.{}/24 dev eth0", number + 1));
        }
        Some(hosts)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let prefix = self.prefix.clone();
        (1..=HOSTS).map(move |number| format!("{prefix}n{number}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command on one of them, by its number from 1.
    fn on(&self, number: u32, command: &str) -> Command {
        let name = format!("{}n{number}", self.prefix);
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net=/run/netns/{name}")).args(["unshare", "--uts", "sh", "-c"]);
        entered.arg(format!("hostname {name}; exec {command}"));
        entered.env("SLURM_CONF", self.path("slurm.conf"));
        entered
    }

    fn keep(&mut self, mut command: Command) {
        self.daemons.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// Starts Slurm on all of them: its controller on the first.
    fn start_slurm(&mut self) {
        let folder = self.folder.path().display().to_string();
        let peers = prepared("MUXBENCH_PEERS", "peers").display().to_string();
        let key: [u8; 32] = std::array::from_fn(|at| at as u8 ^ std::process::id() as u8);
        fs::write(self.path("key"), key.repeat(4)).unwrap();
        must("chmod", &format!("600 {folder}/key"));
        // A daemon of MUNGE's insists on folders that nobody else may write to, all the way up: /tmp's users may not remove
        // what is another's.
        let mut munged = Command::new(format!("{peers}/munged"));
        munged.arg("--foreground").arg("--force");
        for (flag, name) in
            [("key-file", "key"), ("socket", "munge"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]
        {
            munged.arg(format!("--{flag}={folder}/{name}"));
        }
        self.keep(munged);
        eventually("MUNGE is there", || self.path("munge").exists());
        fs::create_dir(self.path("state")).unwrap();
        let names: Vec<String> = self.names().collect();
        let nodes: String = (1..)
            .zip(&names)
            .map(|(number, name)| format!("NodeName={name} NodeAddr=10.97.0.{number} CPUs=2 State=UNKNOWN\n"))
            .collect();
        let configuration = format!(
            "ClusterName=muxbench\nSlurmctldHost={}(10.97.0.1)\nSlurmUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={folder}/munge\nCryptoType=crypto/munge\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/linear\nSwitchType=switch/none\nMpiDefault=none\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\nSlurmctldPidFile={folder}/ctld.pid\n\
             SlurmdPidFile={folder}/slurmd.%n.pid\nSlurmctldLogFile={folder}/ctld.log\n\
             SlurmdLogFile={folder}/slurmd.%n.log\nReturnToService=2\nSlurmdParameters=config_overrides\n{nodes}\
             PartitionName=all Nodes=ALL Default=YES State=UP\n",
            names[0]
        );
        fs::write(self.path("slurm.conf"), configuration).unwrap();
        self.keep(self.on(1, &format!("{peers}/slurmctld -D")));
        for (number, name) in (1..).zip(&names) {
            self.keep(self.on(number, &format!("{peers}/slurmd -D -N {name}")));
        }
        eventually("all nodes are idle", || {
            let output = self.on(1, &format!("{peers}/scontrol show node --oneliner")).output().unwrap();
            String::from_utf8_lossy(&output.stdout).matches("State=IDLE ").count() == HOSTS as usize
        });
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = rustix::process::kill_process(Pid::from_child(daemon), Signal::TERM);
        }
        for daemon in &mut self.daemons {
            let _ = daemon.wait();
        }
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "delete", &name]).status();
        }
        let _ = Command::new("ip").args(["link", "delete", &format!("{}br", self.prefix)]).status();
    }
}

/// Whether a run on three hosts is what it should be.
fn is_of_three_hosts(hosts: &Hosts, folder: &Path, output: &Output) {
    let run = finished(folder, output);
    let names: Vec<String> = hosts.names().collect();
    let sentence = format!("server on {}, clients on {}, {}", names[0], names[1], names[2]);
    assert!(run.header.placement.contains(&sentence), "{}", run.header.placement);
    assert_eq!(run.header.host["network"], "between ranks, to 10.97.0.1");
    run.records.iter().for_each(|record| is_merged(folder, record, &[15, 16]));
}

#[test]
fn slurm_starts_a_fleet_on_three_hosts() {
    let Some(mut hosts) = Hosts::new('s') else { return };
    hosts.start_slurm();
    let (folder, program) = (hosts.path("run"), env!("CARGO_BIN_EXE_muxbench"));
    let peers = prepared("MUXBENCH_PEERS", "peers");
    let srun =
        format!("timeout 120 {}/srun -N3 {program} {COMPARE} --fleet --output {}", peers.display(), folder.display());
    let output = hosts.on(1, &srun).output().unwrap();
    is_of_three_hosts(&hosts, &folder, &output);
    // A file that says as much does as well.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a fleet of 3, started by Slurm") && said.contains("set MUXBENCH_SECRET"), "{said}");
}

#[test]
fn open_mpi_starts_a_fleet_on_three_hosts() {
    let Some(hosts) = Hosts::new('m') else { return };
    prepared("MUXBENCH_PEERS", "peers");
    // What mpirun is told to call in place of ssh.
    let agent = hosts.path("agent");
    let text = "#!/bin/sh\nhost=$1; shift\n\
                exec nsenter --net=/run/netns/$host unshare --uts sh -c \"hostname $host; $*\"\n";
    fs::write(&agent, text).unwrap();
    must("chmod", &format!("700 {}", agent.display()));
    let list: String = hosts.names().map(|name| format!("{name} slots=1\n")).collect();
    fs::write(hosts.path("hosts"), list).unwrap();
    let (folder, program) = (hosts.path("run"), env!("CARGO_BIN_EXE_muxbench"));
    let mpirun = format!(
        "timeout 120 mpirun --allow-run-as-root --bind-to none --mca plm_rsh_agent {} -np 3 --hostfile {} {program} \
         {COMPARE} --fleet --output {}",
        agent.display(),
        hosts.path("hosts").display(),
        folder.display()
    );
    let output = hosts.on(1, &mpirun).output().unwrap();
    is_of_three_hosts(&hosts, &folder, &output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a fleet of 3, started by Open MPI") && !said.contains("set MUXBENCH_SECRET"), "{said}");
}
