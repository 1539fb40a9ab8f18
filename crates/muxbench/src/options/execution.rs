//! Flags of all commands that run an experiment.

use std::path::PathBuf;

/// Flags of commands that run something.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Finish a stopped run: its folder, or the newest one; what it is of is taken from there, and no flag may say it again
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,
    /// Start the commands that the experiment's `exec` tables name; without it they are only shown
    #[arg(long)]
    pub allow_exec: bool,
    /// Exit with 3 unless every trial is valid; of a sweep, valid or past saturation; of a search, every capacity precise
    #[arg(long)]
    pub strict: bool,
    /// Be a rank of a job that srun, mpirun or Kubernetes started: the first runs the servers and keeps the results, the
    /// others are the clients, and divide connections and rate among themselves
    #[arg(long, help_heading = "Fleet")]
    pub fleet: bool,
    /// When a rank is lost, the trial fails. Then the run ends, or goes on with the others: end, go-on [default: end]
    #[arg(long, value_name = "WHAT", value_parser = ["end", "go-on"], requires = "fleet", help_heading = "Fleet")]
    pub lost_rank: Option<String>,
    /// Say why: system calls, events, switches and CPU a request, and what sets each architecture apart from the best
    #[arg(long)]
    pub explain: bool,
    /// Print the whole result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    pub quiet: bool,
}

impl ExecutionArgs {
    /// Whether an earlier run is to be finished instead of making a new one.
    pub fn is_resume(&self) -> bool {
        self.resume.is_some()
    }
}
