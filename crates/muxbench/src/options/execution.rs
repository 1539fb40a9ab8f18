//! Flags of all commands that run an experiment.

use std::path::PathBuf;

use anyhow::anyhow;
use harness::record::Trial;
use report::analysis::row_named;

use super::format::{FormatArgs, given_flags};
use super::given::Actions;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct ExecutionArgs {
    /// Folder for the results [default: results/TIME-NAME]
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub output: Option<PathBuf>,
    /// Finish a stopped run [default: the newest]
    ///
    /// The experiment comes from the run's folder; flags cannot change it
    #[arg(long, value_name = "FOLDER", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,
    /// Exit with 3 unless every trial is valid
    ///
    /// For `sweep`, a trial may also be past saturation. For `capacity`, every search must be precise. For `overload`, the
    /// recovery of every server must be known, without doubts. `load` does so without this flag, unless it
    /// has several workloads
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
    #[command(flatten)]
    actions: Actions,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Print no progress
    #[arg(long, short, hide_short_help = true)]
    pub quiet: bool,
}

impl ExecutionArgs {
    pub fn allow_exec(&self) -> bool {
        self.actions.has("allow-exec")
    }

    pub fn explain(&self) -> bool {
        self.actions.has("explain")
    }

    /// Returns the label of the row to which ratios refer, if the user chose one of these trials.
    pub fn versus(&self, trials: &[Trial]) -> anyhow::Result<Option<String>> {
        let name = self.actions.get::<String>("versus");
        let label = name.map(|name| row_named(trials, &name).map_err(|reason| anyhow!("--versus: {reason}")));
        label.transpose()
    }

    pub fn distributed(&self) -> bool {
        self.actions.has("distributed")
    }

    /// Whether a distributed run continues without a lost worker.
    pub fn continues(&self) -> bool {
        self.actions.get::<String>("lost-worker").as_deref() == Some("continue")
    }

    /// Returns the given flags that choose how a run is shown. `--resume` allows them all.
    pub fn display_flags(&self) -> Vec<String> {
        let own = [("--strict", self.strict), ("--explain", self.explain()), ("--quiet", self.quiet)];
        let versus = self.actions.get::<String>("versus").map(|row| ["--versus".to_owned(), row]);
        given_flags(self.format.flags().into_iter().chain(own))
            .into_iter()
            .chain(versus.into_iter().flatten())
            .collect()
    }
}
