//! `muxbench plan`: what `run` would do here.

use std::process::ExitCode;

use lab::experiment::Experiment;

use crate::commands::run::ExperimentArgs;
use crate::{execution, output};

/// Show every trial of an experiment, how long it takes, and why one is impossible here
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  muxbench plan experiments/kawai2008-http.toml
  muxbench plan kawai2008-http --quick --json
  muxbench plan --schema > experiment.schema.json")]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Print JSON: every trial with all its parameters
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print the JSON Schema of experiment files
    #[arg(long)]
    schema: bool,
}

/// Shows it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.schema {
        output::print_json(&Experiment::schema())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (plan, _) = execution::plan_here(&args.experiment.read()?)?;
    if args.json {
        output::print_json(&plan)?;
    } else {
        output::print(&report::plan::render(&plan, output::medium(args.markdown)))?;
    }
    Ok(ExitCode::SUCCESS)
}
