//! Flags of all commands that run an experiment.

use std::path::PathBuf;

use anyhow::anyhow;
use harness::record::Trial;
use report::analysis::row_named;

use super::format::{FormatArgs, given_flags};
use super::given::Actions;

#[derive(Debug, clap::Args)]
pub struct ExecutionArgs {
    #[command(flatten)]
    pub actions: Actions,
    #[command(flatten)]
    pub format: FormatArgs,
}

impl ExecutionArgs {
    pub fn has(&self, flag: &str) -> bool {
        self.actions.has(flag)
    }

    pub fn output(&self) -> Option<PathBuf> {
        self.actions.path("output")
    }

    /// Returns the given flags that choose how a run is shown. `--resume` allows them all.
    pub fn display_flags(&self) -> Vec<String> {
        let own = ["--strict", "--explain", "--quiet"].map(|flag| (flag, self.has(&flag[2..])));
        let versus = self.actions.get::<String>("versus").map(|row| ["--versus".to_owned(), row]);
        given_flags(self.format.flags().into_iter().chain(own))
            .into_iter()
            .chain(versus.into_iter().flatten())
            .collect()
    }
}

impl Actions {
    /// Returns the label of the row to which ratios refer, if the user chose one of these trials.
    pub fn versus(&self, trials: &[Trial]) -> anyhow::Result<Option<String>> {
        let name = self.get::<String>("versus");
        let label = name.map(|name| row_named(trials, &name).map_err(|reason| anyhow!("--versus: {reason}")));
        label.transpose()
    }
}
