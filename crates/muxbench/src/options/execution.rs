//! Flags of all commands that run an experiment.

use std::path::PathBuf;

use super::format::FormatArgs;

/// Where results go, and how a run proceeds.
#[derive(Debug, clap::Args)]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER", help_heading = "Results")]
    pub output: Option<PathBuf>,
    /// Finish a stopped run, by default the newest; the run's folder holds its experiment, so no flag may change it
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, help_heading = "Results")]
    pub resume: Option<Option<PathBuf>>,
    /// Start the commands of the experiment's `exec` tables; without this flag they are only shown
    #[arg(long, help_heading = "Results")]
    pub allow_exec: bool,
    /// Exit with 3 unless every trial is valid (sweep: valid or past saturation; capacity: every search precise)
    #[arg(long, help_heading = "Results")]
    pub strict: bool,
    /// Run as one process of a distributed run under srun, mpirun or Kubernetes: the first process runs the servers and
    /// keeps the results; the others are workers and share connections and rate
    #[arg(long, visible_alias = "fleet", help_heading = "Distributed run")]
    pub distributed: bool,
    /// After a worker is lost its trial fails, and the run ends, or continues with the other workers: end, continue
    /// [default: end]
    #[arg(
        long,
        value_name = "ACTION",
        alias = "lost-rank",
        requires = "distributed",
        help_heading = "Distributed run"
    )]
    #[arg(value_parser = ["end", "continue", "go-on"], hide_possible_values = true, help_heading = "Results")]
    pub lost_worker: Option<String>,
    /// Explain the result: system calls, events, context switches and CPU time per request, and what sets each
    /// architecture apart from the best
    #[arg(long, help_heading = "Results")]
    pub explain: bool,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Print no progress
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,
}

impl ExecutionArgs {
    /// Returns whether the command finishes an earlier run.
    pub fn is_resume(&self) -> bool {
        self.resume.is_some()
    }
}
