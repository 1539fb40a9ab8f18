//! Writes figures and other files, and reads the send times of stored runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use harness::record::{Run, Trial};
use harness::{files, store};
use load::Sample;
use papers::PaperComparison;
use report::format;
use report::plot::chart::Chart;
use report::plot::svg;
use rustix::fs::{Access, access};
use traffic::samples;

use crate::output;

/// Writes figures, given by name, title and chart, as SVG and, with the feature `png`, also as PNG. Fails without any.
pub fn write_figures<'a, T: AsRef<str>>(
    figures: impl Iterator<Item = (T, T, &'a Chart)>,
    architectures: &[String],
    folder: &Path,
) -> anyhow::Result<()> {
    let mut figures = figures.peekable();
    if figures.peek().is_none() {
        bail!("cannot write figures to {}: no figure has data; try without --figures", folder.display());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let mut names = Vec::new();
    for (name, title, chart) in figures {
        let name = name.as_ref();
        let svg = svg::svg(title.as_ref(), chart, architectures);
        write(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
        #[cfg(feature = "png")]
        write(&folder.join(format!("{name}.png")), &report::plot::png::png(&svg)?)?;
        names.push(name.to_owned());
    }
    let formats = if cfg!(feature = "png") { "SVG and PNG" } else { "SVG" };
    output::note(format_args!("figures in {} as {formats}: {}", folder.display(), names.join(", ")));
    Ok(())
}

/// Fails if [`write`] cannot write a file at a path.
pub fn check_path(file: &Path) -> anyhow::Result<()> {
    check(file, files::parent(file))
}

/// Fails if a file at a path can neither be created nor written in place.
pub fn check_in_place(file: &Path) -> anyhow::Result<()> {
    check(file, if file.exists() { file } else { files::parent(file) })
}

/// Fails if a folder, which may not exist yet, cannot have new files.
pub fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder.ancestors().find(|it| it.exists()).unwrap_or(Path::new("."));
    if !existing.is_dir() {
        bail!("cannot make the folder {}: {} is a file; name another folder", folder.display(), existing.display());
    }
    access(existing, Access::WRITE_OK)
        .with_context(|| format!("cannot write to {}; name another folder", folder.display()))
}

/// Fails if `written`, a file or its folder, cannot be written.
fn check(file: &Path, written: &Path) -> anyhow::Result<()> {
    let (folder, shown) = (files::parent(file), file.display());
    if !folder.is_dir() || file.is_dir() {
        bail!("cannot write {shown}: its folder does not exist, or the path is a folder; name another file");
    }
    // Devices, pipes and the targets of links are written in place.
    let is_special = file.exists() && fs::symlink_metadata(file).is_ok_and(|it| !it.is_file());
    let written = if is_special { file } else { written };
    access(written, Access::WRITE_OK).with_context(|| format!("cannot write {shown}; name another file"))
}

/// Fails if two flags, given with their values, name the same file.
pub fn check_distinct([a, b]: [(&str, &Option<PathBuf>); 2]) -> anyhow::Result<()> {
    let place = |file: &PathBuf| {
        let in_folder = || Some(files::parent(file).canonicalize().ok()?.join(file.file_name()?));
        file.canonicalize().ok().or_else(in_folder)
    };
    match (a.1, b.1) {
        (Some(first), Some(second)) if place(first).is_some() && place(first) == place(second) => {
            bail!("{} and {}: both are {}; choose another file for one of them", a.0, b.0, first.display())
        }
        _ => Ok(()),
    }
}

/// Formats a path as a word of a shell.
pub fn in_shell(path: &Path) -> String {
    format::command(&[path.display().to_string()])
}

pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::replace(path, bytes).with_context(|| format!("cannot write {}; check its folder", path.display()))
}

pub fn write_paper_figures(comparison: &PaperComparison, folder: &Path) -> anyhow::Result<()> {
    let figures = comparison.figures.iter().map(|(figure, chart)| {
        let name = format!("{}-figure-{}", comparison.paper.name, figure.number.replace('.', "-"));
        let title = format!("{}, {}: {}", comparison.paper.name, comparison.paper.figure_name(figure), figure.title);
        (name, title, chart)
    });
    write_figures(figures, &comparison.series, folder)
}

/// Returns the send times of each client process in a trial of a run. Refuses samples of another trial.
pub fn send_times(folder: &Path, run: &Run, trial: u32) -> anyhow::Result<Vec<Vec<i64>>> {
    let path = store::samples_path(folder, trial);
    let stored = run.records.iter().map(|record| &record.trial).find(|it| it.index == trial);
    let written = samples::parameters(&path)?.remove("trial").map(|text| serde_json::from_str::<Trial>(&text).ok());
    if written.is_some_and(|written| written.as_ref() != stored) {
        bail!("cannot use {}: these are the samples of another trial; restore the file from a copy", path.display());
    }
    let mut clients: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for sample in samples::read(&path)? {
        let sent_ns = clients.entry(sample.client).or_default();
        sent_ns.extend((sample.sent_ns != Sample::NEVER).then_some(sample.sent_ns));
    }
    Ok(clients.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_without_any_figure_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let plots = folder.path().join("plots");
        let why = write_figures(std::iter::empty::<(&str, &str, &Chart)>(), &[], &plots).unwrap_err().to_string();
        assert!(why.contains("no figure has data; try without --figures"), "{why}");
        assert!(!plots.exists());
    }

    #[test]
    fn samples_of_another_trial_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = testkit::run();
        let trial = run.records[0].trial.clone();
        let path = store::samples_path(folder.path(), trial.index);
        fs::create_dir(files::parent(&path)).unwrap();
        let sample = Sample { sent_ns: 7, ..Sample::UNKNOWN };
        let parameters = harness::samples::parameters(&trial.load(), Some(&trial)).unwrap();
        harness::samples::write(&path, &[sample], &parameters).unwrap();
        assert_eq!(send_times(folder.path(), &run, trial.index).unwrap(), [[7]]);
        run.records[0].trial.workload.connections += 1;
        let why = send_times(folder.path(), &run, trial.index).unwrap_err().to_string();
        assert!(why.contains("the samples of another trial"), "{why}");
    }
}
