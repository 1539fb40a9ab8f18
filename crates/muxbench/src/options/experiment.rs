//! The experiment that `run` and `plan` read.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use harness::files;
use harness::spec::interleave::Interleave;
use harness::spec::{Experiment, presets};
use wire::names;

use super::{named, set};

#[derive(Debug, clap::Args)]
pub struct ExperimentArgs {
    /// Experiment file, preset, or - for standard input
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Make the changes of the file's `quick` table
    ///
    /// Such as shorter phases
    #[arg(long)]
    quick: bool,
    /// Load all servers of a workload in turns: auto (those that can share a window), always, never [default: as in the file]
    #[arg(long, value_name = "WHEN", value_parser = named::<Interleave>)]
    interleave: Option<Interleave>,
    /// Have the kernel count the servers' system calls; makes each call more expensive. --explain shows the counts
    #[arg(long)]
    count_syscalls: bool,
}

impl ExperimentArgs {
    pub fn read(&self) -> anyhow::Result<Experiment> {
        let known = || presets::PRESETS.iter().map(|preset| preset.name);
        let presets = || known().collect::<Vec<_>>().join(", ");
        let Some(file) = &self.file else {
            bail!("FILE is missing; name an experiment file or one of the presets: {}", presets())
        };
        let mut experiment = if let Some(preset) = presets::find(file) {
            preset.experiment()
        } else if file == "-" {
            let text = io::read_to_string(io::stdin()).context("cannot read standard input")?;
            Experiment::parse(&text, "standard input")?
        } else {
            let text = read_file(Path::new(file)).map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    let suggestion = names::suggestion(file, known());
                    anyhow!(
                        "cannot read {file}: neither a file nor a preset; the presets are {}{suggestion}",
                        presets()
                    )
                }
                ErrorKind::InvalidInput => anyhow!("cannot read {file}: not a regular file; try `-` and a pipe"),
                _ => anyhow!("cannot read {file}: {error}"),
            })?;
            Experiment::parse(&String::from_utf8(text).with_context(|| format!("{file}: not UTF-8"))?, file)?
        };
        if self.quick && experiment.quick.is_none() {
            bail!(
                "--quick: {file} has no [quick] table; add one with ramp, warm-up, measure, cool-down, repeats, client, \
                 interleave, architectures, connections or ports"
            );
        }
        if self.quick {
            experiment = experiment.quick();
        }
        set(&mut experiment.interleave, self.interleave);
        experiment.server.count_syscalls |= self.count_syscalls;
        Ok(experiment)
    }
}

/// Reads a regular file or a named pipe. Rejects devices, because they may never end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        return io::read_to_string(File::open(path)?).map(String::into_bytes);
    }
    files::read(path)
}
