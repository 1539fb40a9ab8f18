//! Files that a user names: figures, pages and the samples of stored runs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use harness::{files, samples, store};
use load::Sample;
use papers::PaperComparison;
use report::plot::chart::Chart;
use report::plot::svg;

use crate::output;

/// Writes each figure, of its name, its title and what it shows, and says where they are.
///
/// # Errors
/// When the folder cannot be made, or a file cannot be written.
pub fn pictures<'a, T: AsRef<str>>(
    figures: impl Iterator<Item = (T, T, &'a Chart)>,
    architectures: &[String],
    folder: &Path,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot make the folder for figures", folder.display()))?;
    let mut names = Vec::new();
    for (name, title, chart) in figures {
        let name = name.as_ref();
        let svg = svg::svg(title.as_ref(), chart, architectures)?;
        write(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
        write(&folder.join(format!("{name}.png")), &svg::png(&svg)?)?;
        names.push(name.to_owned());
    }
    output::tell(format_args!("muxbench: {}, as SVG and PNG: {}", folder.display(), names.join(", ")));
    Ok(())
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// When it cannot.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    files::replace(path, bytes).with_context(|| format!("{}: cannot write it; is its folder there?", path.display()))
}

/// Writes each figure of a paper that runs have something of, and says where they are.
///
/// # Errors
/// When the folder cannot be made, or a file cannot be written.
pub fn pictures_of_paper(beside: &PaperComparison, folder: &Path) -> anyhow::Result<()> {
    let figures = beside.figures.iter().map(|(figure, chart)| {
        let name = format!("{}-figure-{}", beside.paper.name, figure.number.replace('.', "-"));
        let title = format!("{}, {}: {}", beside.paper.name, beside.paper.figure_name(figure), figure.title);
        (name, title, chart)
    });
    pictures(figures, &beside.paper.series.iter().map(ToString::to_string).collect::<Vec<_>>(), folder)
}

/// When a trial's requests were sent, those that were.
pub fn sends(folder: &Path, trial: u32) -> anyhow::Result<Vec<i64>> {
    let samples = samples::read(&store::samples_path(folder, trial))?;
    Ok(samples.iter().map(|sample| sample.sent_ns).filter(|&sent_ns| sent_ns != Sample::NEVER).collect())
}
