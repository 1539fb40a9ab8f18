//! Flags of all commands that run an experiment.

use std::path::PathBuf;

use super::format::{FormatArgs, given_flags};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Finish a stopped run [default: the newest]
    ///
    /// The experiment comes from the run's folder; flags cannot change it
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,
    /// Start the commands of --exec and of `exec` tables
    ///
    /// Without this flag muxbench only shows the commands
    #[arg(long, help_heading = "Servers")]
    pub allow_exec: bool,
    /// Exit with 3 unless every trial is valid
    ///
    /// For `sweep`, a trial may also be past saturation. For `capacity`, every search must be precise. For `overload`, the
    /// recovery of every server must be known, without doubts. `load` does so without this flag, unless it
    /// has several workloads
    #[arg(long)]
    pub strict: bool,
    /// Join a distributed run (Slurm, MPI, Kubernetes)
    ///
    /// Under srun, mpirun or Kubernetes, each process is a worker. The first worker runs the servers and stores the results, and
    /// the others share connections and rate
    #[arg(long, help_heading = "Distributed run")]
    pub distributed: bool,
    /// Action after a worker is lost and its trial has failed: end (the run), continue (with the other workers) [default: end]
    #[arg(long, value_name = "ACTION", requires = "distributed", help_heading = "Distributed run")]
    #[arg(value_parser = ["end", "continue"], hide_possible_values = true)]
    pub lost_worker: Option<String>,
    /// Say why: system calls, switches, CPU per request
    ///
    /// System calls, events, context switches and CPU time per request, and what sets each architecture apart from the best
    #[arg(long, conflicts_with = "json")]
    pub explain: bool,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl ExecutionArgs {
    /// Returns the given flags that choose how a run is shown. `--resume` allows them all.
    pub fn display_flags(&self) -> Vec<String> {
        let own = [("--strict", self.strict), ("--explain", self.explain), ("--quiet", self.quiet)];
        given_flags(self.format.flags().into_iter().chain(own))
    }
}
