//! Distributed runs under Slurm and Open MPI, on hosts that are network namespaces.

use super::*;

/// Three network namespaces on one network, each with its own host name, removed when dropped.
struct Hosts {
    prefix: String,
    folder: tempfile::TempDir,
}

/// Number of hosts.
const HOSTS: u32 = 3;

/// Runs a command that must succeed.
fn must(program: &str, arguments: &str) {
    let output =
        Command::new(program).args(words(arguments)).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
}

/// Returns whether the test may create network namespaces. Otherwise reports it as skipped.
fn may_make_hosts() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skipped("distributed runs on several hosts: only root may create network namespaces");
    }
    is_root
}

impl Hosts {
    /// Creates the hosts; `None` if that is not permitted.
    fn new(letter: char) -> Option<Self> {
        if !may_make_hosts() {
            return None;
        }
        // The name of an interface has at most 15 bytes.
        let prefix = format!("mb{letter}{}", std::process::id() % 1_000_000);
        let hosts = Self { prefix, folder: tempfile::tempdir().unwrap() };
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

    /// Returns a command that runs on the host with this number, from 1.
    fn on(&self, number: u32, command: &str) -> Command {
        let name = format!("{}n{number}", self.prefix);
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net=/run/netns/{name}")).args(["unshare", "--uts", "sh", "-c"]);
        entered.arg(format!("hostname {name}; exec {command}"));
        entered
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in self.names() {
            // End the processes that the test has left on the host.
            let left = Command::new("ip").args(["netns", "pids", &name]).output();
            let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
            for pid in left.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            let _ = Command::new("ip").args(["netns", "delete", &name]).status();
        }
        let _ = Command::new("ip").args(["link", "delete", &format!("{}br", self.prefix)]).status();
    }
}

/// Checks that a run used all three hosts.
fn assert_ran_on_three_hosts(hosts: &Hosts, folder: &Path, output: &Output) {
    let run = finished(folder, output);
    let names: Vec<String> = hosts.names().collect();
    let sentence = format!("server on {}, clients on {}, {}", names[0], names[1], names[2]);
    assert!(run.header.placement.contains(&sentence), "{}", run.header.placement);
    assert_eq!(run.header.host["network"], "between workers, to 10.97.0.1");
    run.records.iter().for_each(|record| assert_merged(folder, record, &[15, 16]));
}

/// A launcher that a script of `deploy` sets up on the hosts of a lab.
struct Launcher {
    script: &'static str,
    /// The command that starts this number of processes.
    command: fn(u32) -> String,
    /// The name of the launcher in messages.
    name: &'static str,
    /// The environment variable with the rank of a process.
    rank: &'static str,
}

const SLURM: Launcher = Launcher {
    script: "slurm-in-lab.sh",
    command: |ranks| format!("srun -N{ranks}"),
    name: "Slurm",
    rank: "SLURM_PROCID",
};
const OPEN_MPI: Launcher = Launcher {
    script: "mpirun-in-lab.sh",
    command: |ranks| format!("mpirun -np {ranks}"),
    name: "Open MPI",
    rank: "OMPI_COMM_WORLD_RANK",
};

impl Launcher {
    /// Returns a command that creates a lab with this number of client hosts, where the launcher starts a run on all hosts.
    fn in_lab(&self, network: &str, clients: u32, flags: &str, arguments: &str, folder: &Path) -> Command {
        let program = env!("CARGO_BIN_EXE_muxbench");
        // Reset SIGINT: a parent may ignore it, as shells do for background jobs, and children inherit that.
        let mut lab = Command::new("env");
        lab.args(["--default-signal=INT", program, "lab", "--network", &format!("lab:clients={clients}")]);
        lab.args(words(network)).arg("--").arg(format!("{}/../../deploy/{}", env!("CARGO_MANIFEST_DIR"), self.script));
        lab.args(words(&(self.command)(clients + 1))).args(words(flags)).arg(program).args(words(arguments));
        lab.arg("--distributed").arg("--output").arg(folder);
        let peers = prepared("MUXBENCH_PEERS", "peers");
        let path = std::env::var("PATH").unwrap_or_default();
        lab.env("PATH", format!("{}:{path}", peers.display())).env_remove("MUXBENCH_SECRET");
        lab.stdout(Stdio::piped()).stderr(Stdio::piped());
        lab
    }
}

/// Checks a run on the hosts of a lab with this network. `connections` lists the number of connections of each client.
fn assert_ran_in_lab(launcher: &Launcher, network: &str, connections: &[u32], folder: &Path, output: &Output) -> Run {
    let run = finished(folder, output);
    let printed = String::from_utf8_lossy(&output.stderr);
    let (clients, ranks) = (connections.len(), connections.len() + 1);
    let sentence = format!(
        "distributed run of {ranks} processes, started by {}: server on host0, clients on host1, host2",
        launcher.name
    );
    assert!(printed.contains(&sentence) && !printed.contains("set MUXBENCH_SECRET"), "{printed}");
    let placement = &run.header.placement;
    assert!(placement.contains("server on host0, clients on host1, host2"), "{placement}");
    assert_eq!(run.header.host["network"], "between workers, to 198.18.0.1");
    for record in &run.records {
        assert_merged(folder, record, connections);
        let network = record.network.as_ref().unwrap();
        // Only TUN links need a relay process, which reports its work in the trial.
        assert_eq!(network.relay.is_some(), network.applied.links == Links::Tun, "{network:?}");
    }
    // Lines are wrapped.
    let shown = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let title = format!("in a lab of {clients} client hosts, {network}");
    assert!(shown.contains(&title) && shown.contains("Network: "), "{shown}");
    run
}

fn open_mpi_starts_distributed_run_in_lab() {
    if !may_make_hosts() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let output = OPEN_MPI.in_lab("--delay 1ms", 2, "", COMPARE, &folder).output().unwrap();
    assert_ran_in_lab(&OPEN_MPI, "1ms each way", &[15, 16], &folder, &output);
}

fn slurm_runs_kawai2008_on_six_hosts_with_delay_and_loss() {
    if !may_make_hosts() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Run one of the experiment's 45 configurations.
    let mut text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/kawai2008-http.toml")).unwrap();
    for (all, one) in [
        (r#"["mp", "mt", "select", "poll", "epoll"]"#, r#"["epoll"]"#),
        ("[400, 2000, 10000]", "[400]"),
        ("[125, 500, 2000]", "[500]"),
        ("[400, 10000]", "[400]"),
        ("[125, 2000]", "[500]"),
        ("repeats = 3", "repeats = 1"),
    ] {
        assert!(text.contains(all), "{text}");
        text = text.replace(all, one);
    }
    let file = folder.path().join("kawai2008-http.toml");
    fs::write(&file, text).unwrap();
    for (number, (flags, words)) in
        [("--delay 1ms", "1ms each way"), ("--loss 1%", "1 % lost each way")].into_iter().enumerate()
    {
        let folder = folder.path().join(number.to_string());
        let arguments = format!("run {} --quick --quiet", file.display());
        let output = SLURM.in_lab(flags, 5, "", &arguments, &folder).output().unwrap();
        let run = assert_ran_in_lab(&SLURM, words, &[80; 5], &folder, &output);
        let [record] = run.records.as_slice() else { panic!("{output:?}") };
        let measured = &record.network.as_ref().unwrap().measured;
        let load = record.load.as_ref().unwrap();
        if number == 0 {
            assert!(measured.round_trip_p50_ns >= 2_000_000, "{measured:?}");
            assert!(load.service.distribution.p50_ns >= 2_000_000, "{:?}", load.service.distribution);
        } else {
            // The probe sends thousands of packets, and 1 % are lost in each direction.
            assert!((0.002..0.05).contains(&measured.loss()), "{measured:?}");
        }
        let report = muxbench().arg("report").arg(&folder).output().unwrap();
        let shown = String::from_utf8_lossy(&report.stdout);
        assert!(shown.contains(&format!("in a lab of 5 client hosts, {words}")), "{shown}");
        assert!(shown.contains("Measured before each trial: round trip p50 "), "{shown}");
    }
}

/// Returns the muxbench process with this rank. Its client is excluded, because the client's command line lacks the folder.
fn process_of(launcher: &Launcher, rank: u32, folder: &Path) -> Option<Pid> {
    let (rank, folder) = (format!("{}={rank}", launcher.rank), folder.display().to_string());
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut processes = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    processes.find(|it| proc_file_has(*it, "cmdline", &folder) && proc_file_has(*it, "environ", &rank))
}

/// Waits until the client of a worker runs. Returns the worker.
fn wait_for_client(launcher: &Launcher, rank: u32, folder: &Path) -> Pid {
    let mut found = None;
    eventually("the worker has a client", || {
        found = process_of(launcher, rank, folder);
        found.is_some_and(|worker| !clients_of(worker).is_empty())
    });
    found.unwrap()
}

fn sigint_under_slurm_finishes_the_trial() {
    if !may_make_hosts() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    // Start a process group, to send SIGINT to all its processes, as a terminal does.
    let mut lab = SLURM.in_lab("", 2, "--disable-status", &many_repeats(), &folder);
    let lab = lab.process_group(0).spawn().unwrap();
    for rank in 1..3 {
        wait_for_client(&SLURM, rank, &folder);
    }
    rustix::process::kill_process_group(Pid::from_child(&lab), Signal::INT).unwrap();
    let output = lab.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("finishing the current trial") && printed.contains("stopped; finished trials are saved"),
        "{printed}"
    );
    let records = harness::store::read(&folder).unwrap().records;
    assert!((1..30).contains(&records.len()), "{printed}");
    let is_lost = |record: &TrialRecord| record.verdict.reason.contains("lost");
    assert!(!records.iter().any(is_lost), "{printed}");
}

/// Kills worker 2, and stops the run after two more trials.
fn assert_continues_without_worker(launcher: &Launcher, job: Child, folder: &Path) {
    let worker = wait_for_client(launcher, 2, folder);
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    wait_for_two_trials(folder);
    rustix::process::kill_process(process_of(launcher, 0, folder).unwrap(), Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert_continued_after(["worker 2 on ", "is lost"], folder, &[31]);
}

fn run_under_slurm_continues_without_lost_worker() {
    if !may_make_hosts() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let arguments = format!("{} --lost-worker continue", many_repeats());
    let job = SLURM.in_lab("", 2, "--no-kill", &arguments, &folder).spawn().unwrap();
    assert_continues_without_worker(&SLURM, job, &folder);
}

fn workers_on_the_server_host_of_a_lab_are_rejected() {
    if !may_make_hosts() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Start all processes on the first host, as mpirun does without a hostfile.
    let script =
        "for rank in 1 2; do MUXBENCH_RANK=$rank \"$@\" & done; MUXBENCH_RANK=0 \"$@\"; code=$?; wait; exit $code";
    let mut lab = Command::new("timeout");
    lab.args(["300", env!("CARGO_BIN_EXE_muxbench"), "lab", "--network", "lab:clients=2", "--"]);
    lab.args(["sh", "-c", script, "sh", env!("CARGO_BIN_EXE_muxbench")]).args(words(COMPARE)).arg("--distributed");
    lab.arg("--output").arg(folder.path().join("run"));
    lab.env("MUXBENCH_RANKS", "3").env("MUXBENCH_SECRET", "open sesame");
    // The lab's network has no other processes, so the port is free.
    let output = lab.env("MUXBENCH_RENDEZVOUS", "198.18.0.1:20000").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && printed.contains("worker 1 is on the server's host of the lab"), "{printed}");
    assert!(!folder.path().join("run").exists());
}

fn processes_in_a_lab_end_with_its_command() {
    if !may_make_hosts() {
        return;
    }
    let lab = |command: &[&str]| {
        let mut lab = muxbench();
        lab.args(["lab", "--network", "lab:clients=2", "--"]).args(command);
        lab.output().unwrap()
    };
    let output = lab(&["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! $MUXBENCH_LAB_HOSTS; exit 7"]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let (pid, hosts) = printed.trim().split_once(' ').unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!((output.status.code(), hosts.split(' ').count()), (Some(7), 3), "{output:?}");
    let stat = format!("/proc/{pid}/stat");
    let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ") || !stat.contains("(sleep)"));
    eventually("the process that the command has left ends", is_gone);
    let output = lab(&["/nonexistent"]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && printed.contains("cannot start /nonexistent"), "{printed}");
}

/// Returns the command that starts muxbench on these hosts with mpirun.
fn mpirun(hosts: &Hosts, flags: &str, arguments: &str, folder: &Path) -> Command {
    prepared("MUXBENCH_PEERS", "peers");
    // The program that mpirun calls in place of ssh.
    let agent = hosts.path("agent");
    let text = "#!/bin/sh\nhost=$1; shift\n\
                exec nsenter --net=/run/netns/$host unshare --uts sh -c \"hostname $host; $*\"\n";
    fs::write(&agent, text).unwrap();
    must("chmod", &format!("700 {}", agent.display()));
    let list: String = hosts.names().map(|name| format!("{name} slots=1\n")).collect();
    fs::write(hosts.path("hosts"), list).unwrap();
    let (agent, list, folder) = (agent.display(), hosts.path("hosts"), folder.display());
    let program = env!("CARGO_BIN_EXE_muxbench");
    hosts.on(
        1,
        &format!(
            "timeout 120 mpirun --allow-run-as-root --bind-to none --mca plm_rsh_agent {agent} {flags} -np {HOSTS} \
             --hostfile {} {program} {arguments} --distributed --output {folder}",
            list.display()
        ),
    )
}

fn open_mpi_starts_distributed_run_on_three_hosts() {
    let Some(hosts) = Hosts::new('m') else { return };
    let folder = hosts.path("run");
    let output = mpirun(&hosts, "", COMPARE, &folder).output().unwrap();
    assert_ran_on_three_hosts(&hosts, &folder, &output);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("distributed run of 3 processes, started by Open MPI")
            && !printed.contains("set MUXBENCH_SECRET"),
        "{printed}"
    );
}

fn run_under_open_mpi_continues_without_lost_worker() {
    let Some(hosts) = Hosts::new('g') else { return };
    let folder = hosts.path("run");
    let mut command = mpirun(&hosts, RECOVERY, &format!("{} --lost-worker continue", many_repeats()), &folder);
    let job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_continues_without_worker(&OPEN_MPI, job, &folder);
}

/// Keeps Open MPI from ending all processes when one dies.
const RECOVERY: &str = "--enable-recovery";

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(open_mpi_starts_distributed_run_in_lab));
    cases.once(case!(slurm_runs_kawai2008_on_six_hosts_with_delay_and_loss));
    cases.every(case!(sigint_under_slurm_finishes_the_trial));
    cases.every(case!(run_under_slurm_continues_without_lost_worker));
    cases.once(case!(workers_on_the_server_host_of_a_lab_are_rejected));
    cases.once(case!(processes_in_a_lab_end_with_its_command));
    cases.once(case!(open_mpi_starts_distributed_run_on_three_hosts));
    cases.every(case!(run_under_open_mpi_continues_without_lost_worker));
}
