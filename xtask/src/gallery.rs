//! The gallery: pictures of stored runs in `docs/gallery`, and the page that shows them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use xtask::root;

use crate::command;

/// Draws the gallery from stored runs
///
/// Without its run, a section keeps the pictures that it has, and the command prints how to make the run. The page leaves out
/// sections without pictures, and names them at its end
#[derive(clap::Args, Debug)]
pub struct Gallery {
    /// Folder of the runs
    #[arg(default_value = "results")]
    results: PathBuf,
}

/// The file in a section's folder that describes the host of its runs.
const HOST: &str = "host.txt";

/// A section of the gallery.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Section {
    title: String,
    about: String,
    /// The folder of its pictures in the gallery.
    name: String,
    /// The folder of its runs in the results.
    run: String,
    /// The command that makes the runs.
    command: String,
    /// The names of the figures to show. Without them, a section shows all figures of a paper.
    #[serde(default)]
    figures: Vec<String>,
    /// Whether the run is a decision map, which is shown as tables.
    #[serde(default)]
    is_map: bool,
}

fn sections() -> anyhow::Result<Vec<Section>> {
    let mut tables: BTreeMap<String, Vec<Section>> =
        toml::from_str(include_str!("../gallery.toml")).context("xtask/gallery.toml")?;
    tables.remove("section").context("xtask/gallery.toml has no section")
}

/// Draws the sections whose runs are stored, and writes the page.
pub fn draw(gallery: &Gallery, muxbench: &Path) -> anyhow::Result<()> {
    let folder = root().join("docs/gallery");
    for section in &sections()? {
        let (run, pictures) = (gallery.results.join(&section.run), folder.join(&section.name));
        if !run.exists() {
            println!("{}: no {}; make it with\n  {}", section.title, run.display(), section.command);
            continue;
        }
        xtask::create_empty_folder(&pictures)?;
        section.draw(muxbench, &run, &pictures)?;
        println!("{}: {} files", section.title, shown(&pictures)?.len());
    }
    let page = folder.join("README.md");
    xtask::write(&page, text(&folder)?)
}

impl Section {
    /// Draws the stored run into the folder `pictures`.
    fn draw(&self, muxbench: &Path, run: &Path, pictures: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(muxbench);
        if self.is_map {
            let map = command::output(command.args(["atlas", "--markdown", "--merge"]).arg(run))?;
            // A map describes its hosts itself.
            return xtask::write(&pictures.join("map.markdown"), map);
        }
        if self.figures.is_empty() {
            command.args(["reproduce", &self.name, "--quiet", "--output"]).arg(run);
        } else {
            command.arg("report").arg(run);
        }
        command::run(command.arg("--figures").arg(pictures))?;
        for entry in fs::read_dir(pictures)?.flatten() {
            let path = entry.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_chosen = self.figures.is_empty() || self.figures.iter().any(|it| *it == name);
            if !is_chosen || path.extension() != Some(OsStr::new("svg")) {
                fs::remove_file(&path)?;
            }
        }
        xtask::write(&pictures.join(HOST), host(run)?)
    }
}

/// Returns the CPU and the system in a run's `run.json`. The folder of a paper has the runs of its experiments.
fn host(run: &Path) -> anyhow::Result<String> {
    let folders = fs::read_dir(run)?.flatten().map(|entry| entry.path());
    let mut headers = iter::once(run.to_owned()).chain(folders).map(|folder| folder.join("run.json"));
    let path = headers.find(|path| path.exists()).with_context(|| format!("no run.json in {}", run.display()))?;
    let header: Value = serde_json::from_str(&xtask::read(&path)?).with_context(|| path.display().to_string())?;
    let fact = |name: &str| header["host"][name].as_str().unwrap_or("unknown");
    let kernel = fact("kernel").split_whitespace().next().unwrap_or_default();
    Ok(format!("{}, {} {kernel}", fact("cpu"), fact("system")))
}

/// Returns the files of a section's folder, in the order of the page.
fn shown(pictures: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !pictures.exists() {
        return Ok(Vec::new());
    }
    Ok([xtask::files(pictures, "svg")?, xtask::files(pictures, "markdown")?].concat())
}

/// Returns the page of the pictures in `folder`.
fn text(folder: &Path) -> anyhow::Result<String> {
    let mut page =
        "# Gallery\n\nWhat do results look like? `cargo xtask gallery` draws these figures of stored runs. Compare \
                    shapes and ratios, not times: the\nhosts differ.\n"
            .to_owned();
    let mut missing = Vec::new();
    for section in &sections()? {
        let Section { title, about, command, .. } = section;
        let files = shown(&folder.join(&section.name))?;
        if files.is_empty() {
            missing.push(format!("\"{title}\""));
            continue;
        }
        let _ = write!(page, "\n## {title}\n\n{about}\n\n```console\n$ {command}\n```\n");
        if let Ok(host) = fs::read_to_string(folder.join(&section.name).join(HOST)) {
            let _ = write!(page, "\nHost: {}.\n", host.trim_end());
        }
        for path in files {
            let content = xtask::read(&path)?;
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let _ = if path.extension() == Some(OsStr::new("svg")) {
                let title =
                    content.split_once("</text>").map_or("", |(before, _)| before.rsplit('>').next().unwrap_or(""));
                write!(page, "\n![{title}]({}/{file})\n", section.name)
            } else {
                write!(page, "\n{}\n\n[The whole map]({}/{file})\n", to_first_table(&content), section.name)
            };
        }
    }
    if !missing.is_empty() {
        let _ = write!(page, "\nNo run is stored yet for these sections: {}.\n", missing.join(", "));
    }
    Ok(page)
}

/// Returns the text of a map up to the end of its first table.
fn to_first_table(map: &str) -> &str {
    let end = map.find("\n|").and_then(|table| map[table..].find("\n\n").map(|length| table + length));
    end.map_or(map, |end| &map[..end]).trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_shows_the_pictures_that_exist() {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("io_uring/cpu.svg", "<svg><rect/><text x=\"1\">CPU time</text><text>more</text></svg>"),
            ("io_uring/other.png", ""),
            ("io_uring/host.txt", "A CPU, Linux 6.1"),
            ("atlas/map.markdown", "1 race\n\n| a map |\n| --- |\n\nwork\n\n| a second |\n"),
        ] {
            xtask::write(&folder.path().join(file), content).unwrap();
        }
        let page = text(folder.path()).unwrap();
        for words in [
            "\n```\n\nHost: A CPU, Linux 6.1.\n\n![CPU time](io_uring/cpu.svg)\n",
            "\n\n1 race\n\n| a map |\n| --- |\n\n[The whole map](atlas/map.markdown)\n",
            "$ muxbench atlas --output results/atlas\n",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(!page.contains("other.png") && !page.contains("a second"));
        assert_eq!(page.matches("\n## ").count(), 2, "sections without pictures are left out");
        assert!(
            page.contains("for these sections: \"kawai2008\", ") && page.ends_with(", \"hermes2025\".\n"),
            "{page}"
        );
    }

    #[test]
    fn host_of_a_run_or_of_the_runs_in_a_folder_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(host(folder.path()).unwrap_err().to_string().starts_with("no run.json in "));
        let header = r#"{"host": {"cpu": "A CPU", "kernel": "6.1 #1 SMP", "system": "Linux"}}"#;
        xtask::write(&folder.path().join("part/run.json"), header).unwrap();
        for run in [folder.path().to_owned(), folder.path().join("part")] {
            assert_eq!(host(&run).unwrap(), "A CPU, Linux 6.1");
        }
    }
}
