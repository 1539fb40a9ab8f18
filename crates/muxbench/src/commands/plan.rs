//! `muxbench plan`: what `run` would do here, and what hosts it needs.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use harness::host::Host;
use harness::plan::Plan;
use harness::plan::needs::{self, ClientHost, Figure, Figures, Needs};
use harness::spec::Experiment;
use harness::store;
use load::config::Timestamps;

use crate::options::experiment::ExperimentArgs;
use crate::{execution, output};

/// Requests whose cost to a client is measured.
const REQUESTS: usize = 20_000;

/// Show every trial of an experiment, how long it takes, and why one is impossible here
///
/// With --hosts, what its largest workload needs of the server's host and of clients': descriptors, memory, ports and addresses,
/// settings of the kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench plan experiments/kawai2008-http.toml
  muxbench plan kawai2008-http --quick --json
  muxbench plan mine.toml --hosts --from results/RUN       # by what that run measured of a connection
  muxbench compare --connections 1000000 --rate 100000 --print-experiment | muxbench plan - --hosts
  muxbench plan --schema > experiment.schema.json")]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    hosts: HostsArgs,
    /// Print JSON: every trial with all its parameters, or what hosts are needed
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print the JSON Schema of experiment files
    #[arg(long)]
    schema: bool,
}

/// What hosts there may be, and what is known of connections.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct HostsArgs {
    /// What hosts its largest workload needs
    #[arg(long)]
    hosts: bool,
    /// A stored run, whose figures of a connection and of a client's CPU are taken in place of the documented ones
    #[arg(long, value_name = "RUN", requires = "hosts")]
    from: Option<PathBuf>,
    /// Measure here and now what a request costs a client's CPU
    #[arg(long, requires = "hosts")]
    measure: bool,
    /// CPUs of each client's host that send [default: this host's]
    #[arg(long, value_name = "N", requires = "hosts")]
    client_host_cpus: Option<NonZeroU64>,
    /// Memory of each client's host, in GiB [default: this host's]
    #[arg(long, value_name = "GIB", requires = "hosts")]
    client_host_memory: Option<NonZeroU64>,
    /// Addresses of each client's host
    #[arg(long, value_name = "N", requires = "hosts", default_value = "1")]
    client_host_addresses: NonZeroU64,
}

impl HostsArgs {
    fn needs(&self, plan: &Plan, host: &Host) -> anyhow::Result<Needs> {
        let mut figures = Figures::documented();
        if let Some(folder) = &self.from {
            let name = folder.display().to_string();
            figures = figures.or_of(&store::read(folder)?, &name).map_err(anyhow::Error::msg)?;
        }
        if self.measure {
            let cpu = host.cores.last().and_then(|core| core.last()).copied();
            let ns = load::cost::per_request_ns(Timestamps::Client, REQUESTS, cpu).context("what a request costs")?;
            let origin = "measured now: 128 B there and back over loopback, without a server".to_owned();
            figures.client_per_s = Figure { value: 1e9 / ns, origin };
        }
        let client = ClientHost {
            cpus: self.client_host_cpus.map_or(host.cores.iter().flatten().count() as u64, NonZeroU64::get),
            memory_bytes: self.client_host_memory.map_or(host.memory_bytes, |gib| gib.get() << 30),
            addresses: self.client_host_addresses.get(),
            ports: needs::PORTS_MAX,
        };
        needs::of(plan, figures, client, host, needs::setting_here).map_err(anyhow::Error::msg)
    }
}

/// Shows it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.schema {
        output::print_json(&Experiment::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (plan, host) = execution::plan_here(&args.experiment.read()?)?;
    let medium = output::medium(args.markdown);
    if args.hosts.hosts {
        let needs = args.hosts.needs(&plan, &host)?;
        match args.json {
            true => output::print_json(&needs)?,
            false => output::print(&report::text::needs::render(&needs, medium))?,
        }
    } else if args.json {
        output::print_json(&plan)?;
    } else {
        output::print(&report::text::plan::render(&plan, medium))?;
    }
    Ok(ExitCode::SUCCESS)
}
