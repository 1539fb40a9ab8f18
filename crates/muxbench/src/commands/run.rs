//! `muxbench run`: an experiment from a file.

use std::process::ExitCode;

use crate::execution;
use crate::options::execution::ExecutionArgs;
use crate::options::experiment::ExperimentArgs;

/// Run an experiment file, or a preset by its name
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench run experiments/smoke.toml
  muxbench run kawai2008-http --quick      # the paper's 45 configurations in minutes
  muxbench run kawai2006 --quick           # locality; `report --paper kawai2006` prints the paper's tables
  muxbench run --resume                    # finish the newest run")]
pub struct Args {
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    #[command(flatten)]
    execution: ExecutionArgs,
}

/// Runs.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.execution.is_resume() {
        return execution::resume(&args.execution);
    }
    execution::start(|| args.experiment.read(), &args.execution)
}
