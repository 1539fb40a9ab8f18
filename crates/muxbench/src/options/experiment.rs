//! The experiment that `run` and `plan` read, and that the flags of other commands change.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use harness::files;
use harness::spec::{Experiment, ExperimentError, presets};
use wire::names;

use super::given::Options;

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
    #[command(flatten)]
    options: Options,
}

/// The experiment that flags change.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BaseArgs {
    /// Experiment or profile that the flags change
    ///
    /// A file such as `observe` writes, a preset, or - for standard input [default: the preset compare]. `compare` also takes its
    /// phases and, unless it has --until or --budget, its repeats. The other commands have their own, and take only its first number of connections (`atlas`: all)
    #[arg(value_name = "FILE", help_heading = "Load")]
    file: Option<String>,
}

impl BaseArgs {
    /// Returns whether the user named an experiment.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub fn read(&self) -> anyhow::Result<Experiment> {
        let file = self.file.as_deref().unwrap_or("compare");
        let experiment = read(file, Experiment::parse_base)?;
        // Flags change what the preset is about.
        let about = if self.has_file() { experiment.about } else { String::new() };
        Ok(Experiment { about, ..experiment })
    }
}

impl ExperimentArgs {
    pub fn read(&self) -> anyhow::Result<Experiment> {
        let Some(file) = &self.file else {
            bail!("FILE is missing; name an experiment file or one of the presets: {}", preset_names().join(", "))
        };
        let mut experiment = read(file, Experiment::parse)?;
        if self.quick && experiment.quick.is_none() {
            bail!(
                "--quick: {file} has no [quick] table; add one with ramp, warm-up, measure, cool-down, repeats, client, \
                 interleave, architectures, connections, ports, active or rate"
            );
        }
        experiment = if self.quick { experiment.quick() } else { Experiment { quick: None, ..experiment } };
        self.options.apply(&mut experiment, "")?;
        Ok(experiment)
    }
}

fn preset_names() -> Vec<&'static str> {
    presets::PRESETS.iter().map(|preset| preset.name).collect()
}

/// Reads a preset, a file, or standard input (`-`). A pipe can be read only once.
fn read(file: &str, parse: fn(&str, &str) -> Result<Experiment, ExperimentError>) -> anyhow::Result<Experiment> {
    if let Some(preset) = presets::find(file) {
        return Ok(preset.experiment());
    }
    if file == "-" {
        let text = io::read_to_string(io::stdin()).context("cannot read standard input")?;
        return Ok(parse(&text, "standard input")?);
    }
    let text = read_file(Path::new(file)).map_err(|error| match error.kind() {
        ErrorKind::NotFound if file.contains("://") => {
            anyhow!("FILE `{file}` is a URL; write --target mine={file}, or try muxbench load {file}")
        }
        ErrorKind::NotFound => {
            let known = || format!("; the presets are {}", preset_names().join(", "));
            let remedy = names::suggestion_or(file, preset_names(), known);
            anyhow!("cannot read {file}: neither a file nor a preset{remedy}")
        }
        ErrorKind::InvalidInput => anyhow!("cannot read {file}: not a regular file; try `-` and a pipe"),
        _ => anyhow!("cannot read {file}: {error}"),
    })?;
    Ok(parse(&String::from_utf8(text).with_context(|| format!("{file}: not UTF-8"))?, file)?)
}

/// Reads a regular file or a named pipe. Rejects devices, because they may never end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if is_pipe(path) {
        return io::read_to_string(File::open(path)?).map(String::into_bytes);
    }
    files::read(path)
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn url_is_no_experiment() {
        let base = BaseArgs { file: Some("http://h/".to_owned()) };
        let error = base.read().unwrap_err().to_string();
        assert!(error.ends_with("is a URL; write --target mine=http://h/, or try muxbench load http://h/"), "{error}");
    }

    #[test]
    fn named_pipe_is_an_experiment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let base = BaseArgs { file: Some(path.display().to_string()) };
        let text = "name = \"piped\"\narchitectures = [\"mt\"]\n[workload]\nrate = 200\n";
        let writer = std::thread::spawn(move || fs::write(path, text));
        assert_eq!(base.read().unwrap().name, "piped");
        writer.join().unwrap().unwrap();
    }
}
