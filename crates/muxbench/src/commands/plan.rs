//! `muxbench plan`: shows the trials of an experiment on this host, and the hosts that they need.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::Context;
use harness::host::Host;
use harness::plan::Plan;
use harness::plan::needs::{self, ClientHost, Figures, Measurement, Needs};
use harness::spec::Experiment;
use harness::spec::units::count;
use harness::store;
use load::config::Timestamps;

use crate::options::experiment::ExperimentArgs;
use crate::options::format::FormatArgs;
use crate::{execution, output};

/// Requests with which `--measure` determines the client's CPU time per request.
const REQUESTS: usize = 20_000;

/// Show the trials of an experiment, and what prevents them here
///
/// With --hosts, show the needs of the largest workload on the server's host and on the client hosts: descriptors, memory,
/// ports, addresses and kernel settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench plan experiments/kawai2008-http.toml
  muxbench plan kawai2008-http --quick --json
  muxbench plan mine.toml --hosts --from results/RUN  # with costs of that run
  muxbench compare --connections 1000000 --print-experiment |
      muxbench plan - --hosts
  muxbench plan --schema > experiment.schema.json")]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    hosts: HostsArgs,
    #[command(flatten)]
    format: FormatArgs,
    /// Print the JSON Schema of experiment files
    #[arg(long, help_heading = "Results")]
    schema: bool,
}

/// The client hosts, and the source of costs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Hosts")]
pub struct HostsArgs {
    /// Show the needs of the largest workload
    #[arg(long)]
    hosts: bool,
    /// Stored run whose costs replace the documented costs
    ///
    /// The costs per connection and per request
    #[arg(long, value_name = "RUN", requires = "hosts")]
    from: Option<PathBuf>,
    /// Measure the client's CPU time per request now, on this host
    #[arg(long, requires = "hosts", hide_short_help = true)]
    measure: bool,
    /// CPUs of each client host [default: those of this host]
    #[arg(long, value_name = "N", requires = "hosts", value_parser = count::<NonZeroU32>, hide_short_help = true)]
    client_host_cpus: Option<NonZeroU32>,
    /// Memory of each client host, in GiB [default: that of this host]
    #[arg(long, value_name = "GIB", requires = "hosts", value_parser = count::<NonZeroU32>, hide_short_help = true)]
    client_host_memory: Option<NonZeroU32>,
    /// IP addresses of each client host
    #[arg(long, value_name = "N", requires = "hosts", default_value = "1", value_parser = count::<NonZeroU32>, hide_short_help = true)]
    client_host_addresses: NonZeroU32,
}

impl HostsArgs {
    fn needs(&self, plan: &Plan, host: &Host) -> anyhow::Result<Needs> {
        let mut figures = Figures::documented();
        if let Some(folder) = &self.from {
            let name = folder.display().to_string();
            figures = figures.with_run(&store::read(folder)?, &name).map_err(anyhow::Error::msg)?;
        }
        if self.measure {
            let cpu = host.cores.last().and_then(|core| core.last()).copied();
            let ns = load::tools::cost::per_request_ns(Timestamps::Client, REQUESTS, cpu)
                .context("cannot measure the cost of a request")?;
            let origin = "measured now: 128 B each way over loopback, without a server".to_owned();
            figures.client_per_s = Measurement { value: 1e9 / ns, origin };
        }
        let client = ClientHost {
            cpus: self.client_host_cpus.map_or(host.cores.iter().flatten().count() as u64, |count| count.get().into()),
            memory_bytes: self.client_host_memory.map_or(host.memory_bytes, |gib| u64::from(gib.get()) << 30),
            addresses: self.client_host_addresses.get().into(),
            ports: needs::PORTS_MAX,
        };
        needs::of(plan, figures, client, host, needs::setting_here).map_err(anyhow::Error::msg)
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.schema {
        return output::print_json(&Experiment::schema());
    }
    let (mut plan, host) = execution::plan_here(&args.experiment.read()?)?;
    plan.check_windows();
    if args.hosts.hosts {
        return args.format.print(&args.hosts.needs(&plan, &host)?, report::text::needs::render);
    }
    args.format.print(&plan, report::text::plan::render)
}
