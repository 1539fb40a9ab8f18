//! The samples of a trial, as a file of its run.

use std::fmt;
use std::path::Path;

use load::{LoadConfig, Sample};

use crate::files;
use crate::record::Trial;

/// The error of samples that cannot be written. It ends the run, because writing later samples would fail too.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

/// The error of samples that cannot be written to `path`.
pub fn unwritten(path: &Path, error: &dyn fmt::Display) -> Unwritten {
    Unwritten(format!("{}: cannot write samples ({error}); free some space, or choose another folder", path.display()))
}

/// The error of a failed client.
pub fn failure(reason: String, is_unwritten: bool) -> anyhow::Error {
    if is_unwritten { Unwritten(reason).into() } else { anyhow::Error::msg(reason) }
}

/// Writes samples, and `parameters` as the file's metadata. All errors are [`Unwritten`].
pub fn write(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let write = || traffic::samples::write(files::create_anywhere(path)?, samples, parameters);
    write().map_err(|error| unwritten(path, &format_args!("{error:#}")).into())
}

/// Replaces the samples of a file, and keeps its metadata. All errors of writing are [`Unwritten`].
pub(crate) fn rewrite(path: &Path, samples: &[Sample]) -> anyhow::Result<()> {
    let parameters = traffic::samples::parameters(path)?;
    let parameters: Vec<(&str, String)> = parameters.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    write(path, samples, &parameters)
}

/// The metadata of samples: the load and its trial.
pub fn parameters(config: &LoadConfig, trial: Option<&Trial>) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut parameters =
        vec![("muxbench", env!("CARGO_PKG_VERSION").to_owned()), ("load", serde_json::to_string(config)?)];
    if let Some(trial) = trial {
        parameters.push(("architecture", trial.architecture.to_string()));
        parameters.push(("trial", serde_json::to_string(trial)?));
    }
    Ok(parameters)
}
