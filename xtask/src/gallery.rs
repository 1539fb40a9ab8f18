//! The gallery: pictures of stored runs in `docs/gallery`, and the page that shows them.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

use anyhow::Context;
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
struct Section {
    title: &'static str,
    about: &'static str,
    /// The folder of its pictures in the gallery.
    name: &'static str,
    /// The folder of its runs in the results.
    run: &'static str,
    /// The command that makes the runs.
    command: &'static str,
    source: Source,
}

enum Source {
    /// A run, and the names of its figures to show.
    Run(&'static [&'static str]),
    /// A decision map, shown as tables.
    Map,
    /// All figures of a paper.
    Paper,
}

const SECTIONS: &[Section] = &[
    Section {
        title: "epoll or io_uring?",
        about: "One loop each, with few and with many connections.",
        name: "io_uring",
        run: "io_uring",
        command: "muxbench compare --arch epoll,epoll-et,io_uring,io_uring-plain,io_uring-coop,io_uring-poll \\\n    \
                  -c 100,1k -r 8k --response 1KiB --output results/io_uring",
        source: Source::Run(&["ranking", "service-time", "cpu", "syscalls"]),
    },
    Section {
        title: "A decision map",
        about: "Which architecture wins under which traffic? Several names are a [tie](../atlas.md#how-to-read-the-page); \
                P(best), p50 and CPU\ntime are those of the first name.",
        name: "atlas",
        run: "atlas",
        command: "muxbench atlas --output results/atlas",
        source: Source::Map,
    },
    Section {
        title: "kawai2008",
        about: "Processes, threads, select, poll and epoll, from 400 to 10 000 connections.",
        name: "kawai2008",
        run: "reproduce-kawai2008-quick",
        command: "muxbench reproduce kawai2008",
        source: Source::Paper,
    },
    Section {
        title: "kawai2006",
        about: "Requests on all connections, or only on some of them. The send deviation is the time by which a request was \
                sent later\n(above 0) or earlier than evenly spaced sends.",
        name: "kawai2006",
        run: "reproduce-kawai2006-quick",
        command: "muxbench reproduce kawai2006",
        source: Source::Paper,
    },
    Section {
        title: "maharjan2012",
        about: "Idle connections and many UDP ports.",
        name: "maharjan2012",
        run: "reproduce-maharjan2012-quick",
        command: "muxbench reproduce maharjan2012",
        source: Source::Paper,
    },
    Section {
        title: "voras2009",
        about: "Models with several threads, on a memory cache.",
        name: "voras2009",
        run: "reproduce-voras2009-quick",
        command: "muxbench reproduce voras2009",
        source: Source::Paper,
    },
    Section {
        title: "welsh2001",
        about: "Bandwidth over many connections, without and with idle ones.",
        name: "welsh2001",
        run: "reproduce-welsh2001-quick",
        command: "muxbench reproduce welsh2001",
        source: Source::Paper,
    },
    Section {
        title: "hermes2025",
        about: "Which network thread gets a new connection: one that waits, one by a hash, or one that a BPF program chooses?",
        name: "hermes2025",
        run: "reproduce-hermes2025-quick",
        command: "muxbench reproduce hermes2025",
        source: Source::Paper,
    },
];

/// Draws the sections whose runs are stored, and writes the page.
pub fn draw(gallery: &Gallery, muxbench: &Path) -> anyhow::Result<()> {
    let folder = root().join("docs/gallery");
    for section in SECTIONS {
        let (run, pictures) = (gallery.results.join(section.run), folder.join(section.name));
        if !run.exists() {
            println!("{}: no {}; make it with\n  {}", section.title, run.display(), section.command);
            continue;
        }
        xtask::create_empty_folder(&pictures)?;
        section.draw(muxbench, &run, &pictures)?;
        println!("{}: {} files", section.title, shown(&pictures)?.len());
    }
    let page = folder.join("README.md");
    fs::write(&page, text(&folder)?).with_context(|| page.display().to_string())
}

impl Section {
    /// Draws the stored run into the folder `pictures`.
    fn draw(&self, muxbench: &Path, run: &Path, pictures: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(muxbench);
        match self.source {
            Source::Run(_) => command.arg("report").arg(run).arg("--figures").arg(pictures),
            Source::Map => command.args(["atlas", "--markdown", "--merge"]).arg(run),
            Source::Paper => {
                command.args(["reproduce", self.name, "--quiet", "--output"]).arg(run).arg("--figures").arg(pictures)
            }
        };
        let output = command::output(&mut command)?;
        match self.source {
            Source::Run(kept) => retain(pictures, |name| kept.iter().any(|it| *it == name))?,
            Source::Map => fs::write(pictures.join("map.markdown"), output)?,
            Source::Paper => retain(pictures, |_| true)?,
        }
        // A map describes its hosts itself.
        if !matches!(self.source, Source::Map) {
            fs::write(pictures.join(HOST), host(run)?)?;
        }
        Ok(())
    }
}

/// Returns the CPU and the system in a run's `run.json`. The folder of a paper has the runs of its experiments.
fn host(run: &Path) -> anyhow::Result<String> {
    let folders = fs::read_dir(run)?.flatten().map(|entry| entry.path());
    let mut headers = iter::once(run.to_owned()).chain(folders).map(|folder| folder.join("run.json"));
    let path = headers.find(|path| path.exists()).with_context(|| format!("no run.json in {}", run.display()))?;
    let header: Value = serde_json::from_slice(&fs::read(&path)?).with_context(|| path.display().to_string())?;
    let fact = |name: &str| header["host"][name].as_str().unwrap_or("unknown");
    let kernel = fact("kernel").split_whitespace().next().unwrap_or_default();
    Ok(format!("{}, {} {kernel}", fact("cpu"), fact("system")))
}

/// Removes the files of a folder, except the SVG files whose names are kept.
fn retain(folder: &Path, is_kept: impl Fn(&OsStr) -> bool) -> anyhow::Result<()> {
    let paths: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    let is_shown = |path: &Path| path.extension() == Some(OsStr::new("svg")) && path.file_stem().is_some_and(&is_kept);
    paths.iter().filter(|path| !is_shown(path)).try_for_each(fs::remove_file)?;
    Ok(())
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
    for section in SECTIONS {
        let Section { title, about, command, .. } = section;
        let files = shown(&folder.join(section.name))?;
        if files.is_empty() {
            missing.push(format!("\"{title}\""));
            continue;
        }
        let _ = write!(page, "\n## {title}\n\n{about}\n\n```console\n$ {command}\n```\n");
        if let Ok(host) = fs::read_to_string(folder.join(section.name).join(HOST)) {
            let _ = write!(page, "\nHost: {}.\n", host.trim_end());
        }
        for path in files {
            let content = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
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
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
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
        fs::create_dir(folder.path().join("part")).unwrap();
        let header = r#"{"host": {"cpu": "A CPU", "kernel": "6.1 #1 SMP", "system": "Linux"}}"#;
        fs::write(folder.path().join("part/run.json"), header).unwrap();
        for run in [folder.path().to_owned(), folder.path().join("part")] {
            assert_eq!(host(&run).unwrap(), "A CPU, Linux 6.1");
        }
    }
}
