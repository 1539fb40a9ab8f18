//! `muxbench lab`: hosts on this machine for as long as a command runs, as those of a cluster for an engine.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use harness::host::{self, placement};
use harness::netns::Testbed;
use harness::netns::surrounding::{HOSTS, Keeper, SOCKET};
use harness::process::stop::{Stop, ends_at_hangup};
use harness::spec::Placement;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::options::network::NetworkArgs;

/// How often it is looked whether the command has ended, or something was asked.
const LOOK: Duration = Duration::from_millis(10);
/// How long the command may take to end once it was told to.
const END_MAX: Duration = Duration::from_secs(5);

/// Make a lab and run a command on its server's host: with an engine that starts ranks on all its hosts, a cluster on one machine
///
/// The hosts' namespaces are in MUXBENCH_LAB_HOSTS, the server's first, for nsenter(1). A fleet that is started there measures the
/// network before each trial and reports it. When the command ends, whatever still runs on the hosts does too. A hang-up and SIGTERM
/// are passed on to the command, which is killed if it has not ended 5 s later.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench lab --network lab:clients=5 --delay 1ms -- deploy/slurm-in-lab.sh srun -N6 muxbench run kawai2008-http --quick --fleet
  muxbench lab --network lab --loss 1% -- sh       # the first host; the other by nsenter --net=${MUXBENCH_LAB_HOSTS#* } sh")]
pub struct Args {
    #[command(flatten)]
    network: NetworkArgs,
    /// Seed of what is random
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs it; ends as it does.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let network = args.network.network().unwrap_or_default();
    network.check().map_err(|why| anyhow::anyhow!("--{why}"))?;
    let program = std::env::current_exe().context("cannot find our own binary, which a relay is run from")?;
    // Where a run would have the relay.
    let cpus = placement::place(&host::detect().cores, &Placement::default()).map_err(anyhow::Error::msg)?;
    // Ctrl-C at the terminal is heard by the command too, whose business it is; what is told to us alone we pass on.
    let [interrupted, told_to_end, hung_up] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(SIGINT, interrupted).context("cannot listen to signals")?;
    signal_hook::flag::register(SIGTERM, told_to_end.clone()).context("cannot listen to signals")?;
    if ends_at_hangup() {
        signal_hook::flag::register(SIGHUP, hung_up.clone()).context("cannot listen to signals")?;
    }
    let passed_on = [(told_to_end, Signal::TERM), (hung_up, Signal::HUP)];
    let cpus = (&cpus.server[..], &cpus.client[..]);
    let mut lab = Testbed::start(&network, &program, cpus, args.seed, &Stop::default()).context("the lab")?;
    let keeper = Keeper::new()?;
    crate::output::tell(format_args!("muxbench: {network}: up in {} ms", lab.setup().as_millis()));
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).env(SOCKET, keeper.socket()).env(HOSTS, lab.paths().join(" "));
    let name = args.command[0].display();
    let mut child = lab.server().spawn(command).with_context(|| format!("{name} cannot be started"))?;
    // A shell that is talked to ends at a hang-up, but not when told to; others may end at neither.
    let mut deadline = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for (_, signal) in passed_on.iter().filter(|(is_told, _)| is_told.swap(false, Relaxed)) {
            let _ = rustix::process::kill_process(Pid::from_child(&child), *signal);
            deadline.get_or_insert_with(|| Instant::now() + END_MAX);
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = child.kill();
        }
        keeper.answer(&mut lab);
        thread::sleep(LOOK);
    };
    lab.end_processes();
    Ok(code_of(status))
}

/// As shells have it.
fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
