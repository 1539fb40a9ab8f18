//! The experiment that `run` and `plan` read.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use harness::experiment::Experiment;
use harness::files;
use harness::presets::{self, PRESETS};

/// Which experiment, at which scale.
#[derive(Debug, clap::Args)]
pub struct ExperimentArgs {
    /// An experiment file, or a preset's name; - is standard input
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// At the scale of the file's `quick` table: the same matrix, shorter
    #[arg(long)]
    quick: bool,
    /// Have the kernel count the servers' system calls too, of runtimes as well; each call becomes dearer, so compare times
    /// without it. Shown by --explain
    #[arg(long)]
    count_syscalls: bool,
}

impl ExperimentArgs {
    /// Reads it.
    ///
    /// # Errors
    /// When it is not there, or anything in it is wrong.
    pub fn read(&self) -> anyhow::Result<Experiment> {
        let names = || PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
        let Some(file) = &self.file else { bail!("name an experiment file, or a preset: {}", names()) };
        let mut experiment = match presets::find(file) {
            Some(preset) => preset.experiment(),
            None if file == "-" => {
                let text = std::io::read_to_string(std::io::stdin()).context("standard input")?;
                Experiment::parse(&text, "standard input")?
            }
            None => {
                let text = files::read(Path::new(file)).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => anyhow!("{file}: no such file, nor a preset; presets: {}", names()),
                    ErrorKind::InvalidInput => {
                        anyhow!("{file}: not a regular file; name `-` and pipe it to standard input")
                    }
                    _ => anyhow!("{file}: {error}"),
                })?;
                Experiment::parse(&String::from_utf8(text).with_context(|| format!("{file}: not a text"))?, file)?
            }
        };
        experiment.server.count_syscalls |= self.count_syscalls;
        if self.quick && experiment.quick.is_none() {
            bail!("{file}: has no [quick] table; add one with ramp, hold, measure, drain or repeats");
        }
        Ok(if self.quick { experiment.quick() } else { experiment })
    }
}
