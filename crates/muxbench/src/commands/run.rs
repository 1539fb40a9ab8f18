//! `muxbench run`: runs an experiment file.

use std::process::ExitCode;

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::ExperimentArgs;

/// Run an experiment file or a preset
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench run experiments/smoke.toml
  muxbench run kawai2008-http --quick    # 20 configurations in minutes
  muxbench run --resume                  # finish the newest run
  srun -N6 muxbench run kawai2008-http --distributed  # five clients")]
pub struct Args {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    Ok(execution::run(&args.execution, || args.experiment.read(), execution::whole, |_| Ok(()))?.0)
}
