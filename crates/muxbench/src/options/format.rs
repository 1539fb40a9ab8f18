//! Flags that choose the output format.

use report::Medium;
use serde::Serialize;

use crate::output;

/// JSON, Markdown, or text for the terminal.
#[derive(Debug, clap::Args)]
pub struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

impl FormatArgs {
    /// The medium of tables and prose.
    pub fn medium(&self) -> Medium {
        output::medium(self.markdown)
    }

    /// Prints `value` as JSON, or its text.
    pub fn print<T: Serialize>(&self, value: &T, text: impl FnOnce(&T, Medium) -> String) -> anyhow::Result<()> {
        if self.json { output::print_json(value) } else { output::print(&text(value, self.medium())) }
    }
}
