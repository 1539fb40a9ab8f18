//! Flags that choose the output format.

use papers::PaperComparison;
use report::Medium;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub markdown: bool,
    /// Print all columns of tables, however wide
    #[arg(long, conflicts_with_all = ["json", "markdown"], hide_short_help = true)]
    pub wide: bool,
    /// Explain the columns of tables
    #[arg(long, conflicts_with_all = ["json", "markdown"], hide_short_help = true)]
    pub legend: bool,
}

/// Returns the flags that the user gave, in this order.
pub fn given_flags(flags: impl IntoIterator<Item = (&'static str, bool)>) -> Vec<String> {
    flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned()).collect()
}

impl FormatArgs {
    /// Returns all flags, and whether the user gave them.
    pub fn flags(&self) -> [(&'static str, bool); 4] {
        [("--json", self.json), ("--markdown", self.markdown), ("--wide", self.wide), ("--legend", self.legend)]
    }

    pub fn medium(&self) -> Medium {
        if self.markdown { Medium::Markdown } else { output::medium(self.wide, self.legend) }
    }

    /// Prints `value` as JSON, or its text.
    pub fn print<T: Serialize + JsonSchema>(
        &self,
        value: &T,
        text: impl FnOnce(&T, Medium) -> String,
    ) -> anyhow::Result<()> {
        if self.json { output::print_json(value) } else { output::print(&text(value, self.medium())) }
    }

    /// Prints a result as JSON, CSV or text.
    pub fn print_or_csv<T: Serialize + JsonSchema>(
        &self,
        is_csv: bool,
        json: impl FnOnce() -> T,
        csv: impl FnOnce() -> String,
        text: impl FnOnce(Medium) -> String,
    ) -> anyhow::Result<()> {
        match is_csv {
            _ if self.json => output::print_json(&json()),
            true => output::print(&csv()),
            false => output::print(&text(self.medium())),
        }
    }

    pub fn print_comparison(&self, is_csv: bool, comparison: &PaperComparison) -> anyhow::Result<()> {
        self.print_or_csv(is_csv, || comparison.json(), || comparison.csv(), |medium| comparison.render(medium))
    }
}
