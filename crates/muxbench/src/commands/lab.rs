//! `muxbench lab`: creates network namespaces as the hosts of a cluster, for the duration of a command.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use harness::host::{self, placement};
use harness::spec::Placement;
use harness::spec::network::Network;
use netns::Testbed;
use netns::surrounding::{HOSTS, LabSocket, SOCKET};
use process::stop::{Stop, heeds};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::options::given::Options;

/// Interval between checks for the command's end and for questions of distributed runs about the network.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time from a forwarded signal until the lab kills the command.
const END_MAX: Duration = Duration::from_secs(5);

/// Run a command in a lab: network namespaces as hosts
///
/// With a launcher such as srun, one machine then acts as a cluster. MUXBENCH_LAB_HOSTS lists the namespaces for nsenter(1),
/// beginning with the server's. A distributed run in a lab measures and reports the network before each trial. When the command
/// ends, all processes in the lab end. The lab forwards SIGHUP and SIGTERM to the command, and kills it 5 s later.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench lab --network lab:clients=5 --delay 1ms -- deploy/slurm-in-lab.sh \\
      srun -N6 muxbench run kawai2008-http --quick --distributed
  muxbench lab --network lab --loss 1% -- sh
      # a shell on the other host: nsenter --net=${MUXBENCH_LAB_HOSTS#* } sh")]
pub struct Args {
    /// Lab of network namespaces: lab, lab:clients=5
    ///
    /// A lab has a namespace for the server and one for each client host. Needs root
    #[arg(long, value_name = "NETWORK", default_value = "lab", help_heading = "Network")]
    network: Network,
    #[command(flatten)]
    options: Options,
    /// Seed of all random numbers
    #[arg(long, value_name = "SEED", default_value_t = 0, hide_short_help = true)]
    seed: u64,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut network = args.network.clone();
    args.options.apply(&mut network, "network.")?;
    network.check().map_err(|why| anyhow::anyhow!("--{why}"))?;
    let program = std::env::current_exe().context("cannot start the relay: the path of this program is unknown")?;
    // Place the processes as in a run.
    let cpus = placement::place(&host::detect().cores, &Placement::default()).map_err(anyhow::Error::msg)?;
    // A terminal also sends SIGINT to the command, so ignore it here. Forward other signals, which may reach only this process.
    let [interrupted, terminated, hangup] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(SIGINT, interrupted).context("cannot handle signals")?;
    signal_hook::flag::register(SIGTERM, terminated.clone()).context("cannot handle signals")?;
    if heeds(SIGHUP) {
        signal_hook::flag::register(SIGHUP, hangup.clone()).context("cannot handle signals")?;
    }
    let forwarded = [(terminated, Signal::TERM), (hangup, Signal::HUP)];
    let cpus = (&cpus.server[..], &cpus.client[..]);
    let lab = Testbed::start(&network, &program, cpus, args.seed, &Stop::default());
    let mut lab = lab.context("cannot create the lab")?;
    let socket = LabSocket::new()?;
    crate::output::note(format_args!("{network}: up in {} ms", lab.setup().as_millis()));
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).env(SOCKET, &socket.path).env(HOSTS, lab.paths().join(" "));
    let child = lab.server().spawn(command);
    let mut child = child.with_context(|| format!("cannot start {}", args.command[0].display()))?;
    // The command may ignore signals: an interactive shell ignores SIGTERM.
    let mut deadline = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for (_, signal) in forwarded.iter().filter(|(is_received, _)| is_received.swap(false, Relaxed)) {
            let _ = rustix::process::kill_process(Pid::from_child(&child), *signal);
            deadline.get_or_insert_with(|| Instant::now() + END_MAX);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = child.kill();
        }
        socket.answer(&mut lab);
        thread::sleep(POLL_INTERVAL);
    };
    lab.end_processes();
    // Exit with the code that a shell would report.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}
