//! The commands that documents show: in blocks of `console`, and in the text.

use std::{fs, io, iter};

use clap::ArgMatches;
use clap::error::ErrorKind;

use crate::root;

/// A line before a block of commands that tests run.
const RUN: &str = "<!-- run -->";
/// Programs that start another program, whose command line follows their flags.
const LAUNCHERS: [&str; 4] = ["sudo", "srun", "mpirun", "nsenter"];

/// Where a document shows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the text. Arguments may be missing, or placeholders in capital letters.
    Text,
    /// In a block.
    Block,
    /// In a block that tests run.
    Run,
}

/// A command of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The document and its line, as `docs/gate.md:4`.
    pub source: String,
    /// The place in the document.
    pub place: Place,
    /// The program. For `cargo xtask` it is `xtask`, for `cargo run` and launchers `muxbench`.
    pub program: String,
    /// The arguments of the program, without redirections.
    pub arguments: Vec<String>,
    /// The file that receives the output, if the command line redirects it.
    pub output: Option<String>,
}

impl Shown {
    /// Parses the arguments. Returns nothing for a command that prints help, or in the text for an incomplete one.
    pub fn parse(&self, command: &mut clap::Command) -> Result<Option<ArgMatches>, String> {
        let line = iter::once(&self.program).chain(&self.arguments);
        let error = match command.try_get_matches_from_mut(line) {
            Ok(matches) => return Ok(Some(matches)),
            Err(error) => error,
        };
        let is_incomplete = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Ok(None),
            ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
            _ => self.arguments.iter().any(|word| is_placeholder(word)),
        };
        if self.place == Place::Text && is_incomplete {
            return Ok(None);
        }
        Err(format!("{}: {} {}: {error}", self.source, self.program, self.arguments.join(" ")))
    }
}

/// Returns the commands of all documents except the changelog, whose commands may belong to earlier versions.
pub fn of_documents() -> io::Result<Vec<Shown>> {
    let mut found = Vec::new();
    for path in crate::documents()?.iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        found.extend(of_text(&name, &fs::read_to_string(path)?));
    }
    Ok(found)
}

/// Returns the commands of a document in Markdown.
pub fn of_text(name: &str, text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut add = |line: usize, place: Place, command: &str| {
        for (program, arguments, output) in commands(command) {
            found.push(Shown { source: format!("{name}:{line}"), place, program, arguments, output });
        }
    };
    // The kind of the present block; `None` in the text.
    let mut block: Option<Option<Place>> = None;
    let mut pending = String::new();
    let mut before = "";
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if let Some(language) = content.strip_prefix("```") {
            let kind = if before == RUN { Place::Run } else { Place::Block };
            spans(&std::mem::take(&mut pending), |span| add(line, Place::Text, span));
            block = block.is_none().then(|| (language == "console").then_some(kind));
        } else if let Some(kind) = block {
            let is_command = !pending.is_empty() || content.starts_with("$ ");
            let Some(kind) = kind.filter(|_| is_command) else { continue };
            pending += content.strip_prefix("$ ").unwrap_or(content).trim_end_matches('\\');
            if !content.ends_with('\\') {
                add(line, kind, &std::mem::take(&mut pending));
            }
        } else if content.is_empty() {
            spans(&std::mem::take(&mut pending), |span| add(line, Place::Text, span));
        } else {
            pending = pending + content + " ";
        }
        if !content.is_empty() {
            before = content;
        }
    }
    spans(&pending, |span| add(text.lines().count(), Place::Text, span));
    found
}

/// Calls `use_span` with each code span of a paragraph that is a command with arguments.
fn spans(paragraph: &str, mut use_span: impl FnMut(&str)) {
    for span in paragraph.split('`').skip(1).step_by(2) {
        let is_pattern = ["COMMAND", "...", "["].iter().any(|word| span.contains(word));
        if ["muxbench ", "cargo xtask ", "cargo run "].iter().any(|start| span.starts_with(start)) && !is_pattern {
            use_span(span);
        }
    }
}

/// Returns the programs of a shell's command line, with their arguments and output files.
fn commands(line: &str) -> Vec<(String, Vec<String>, Option<String>)> {
    let words = shlex::split(line).unwrap_or_default();
    words.split(|word| ["|", "&&", "&", ";"].contains(&&**word)).filter_map(command).collect()
}

fn command(words: &[String]) -> Option<(String, Vec<String>, Option<String>)> {
    let end = words.iter().position(|word| word.starts_with('>') || word.starts_with('<')).unwrap_or(words.len());
    let output = words.get(end + 1).filter(|_| words[end] == ">");
    let words = &words[..end];
    let start = words.iter().position(|word| !word.contains('='))?;
    let after = |last: &str| words.iter().position(|word| word == last).map(|at| ("muxbench", at + 1));
    let is_example = words.iter().any(|word| word == "-p");
    let ours = match (&*words[start], words.get(start + 1).map(String::as_str)) {
        ("cargo", Some("xtask")) => Some(("xtask", start + 2)),
        ("cargo", Some("run")) if !is_example => after("--"),
        (launcher, _) if LAUNCHERS.contains(&launcher) => after("muxbench"),
        _ => None,
    };
    let (program, first) = ours.unwrap_or((&*words[start], start + 1));
    Some((program.to_owned(), words[first..].to_vec(), output.cloned()))
}

/// Returns whether a word may be a placeholder, such as `ADDRESS` or `FILE`.
pub fn is_placeholder(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && !word.contains(|letter: char| letter.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_blocks_and_text_are_found() {
        let text = "See `muxbench list` and `muxbench report RUN\n--html`, not `muxbench COMMAND -h` or `list`.\n\n\
            ```console\n$ A=1 sudo muxbench lab -- true    # a lab\n$ tcpdump -i any | muxbench plan - \\\n    --json > out\n\
            printed\n```\n\n<!-- run -->\n\n```console\n$ cargo run --release -- compare && cargo xtask test --fast\n\
            $ cargo run -p muxbench-stats --example x\n```\n\n```text\n$ muxbench text\n```\n";
        let shown = of_text("a.md", text);
        assert_eq!(shown[4].output.as_deref(), Some("out"));
        let found: Vec<_> = shown
            .into_iter()
            .map(|it| (it.source, it.place, format!("{} {}", it.program, it.arguments.join(" "))))
            .collect();
        let expected = [
            ("a.md:3", Place::Text, "muxbench list"),
            ("a.md:3", Place::Text, "muxbench report RUN --html"),
            ("a.md:5", Place::Block, "muxbench lab -- true"),
            ("a.md:7", Place::Block, "tcpdump -i any"),
            ("a.md:7", Place::Block, "muxbench plan - --json"),
            ("a.md:14", Place::Run, "muxbench compare"),
            ("a.md:14", Place::Run, "xtask test --fast"),
            ("a.md:15", Place::Run, "cargo run -p muxbench-stats --example x"),
        ];
        assert_eq!(found, expected.map(|(source, place, line)| (source.to_owned(), place, line.to_owned())));
    }

    #[test]
    fn only_commands_in_the_text_may_be_incomplete() {
        let mut command = clap::Command::new("xtask")
            .arg(clap::arg!(--rate <N>).value_parser(clap::value_parser!(u32)))
            .arg(clap::arg!(<FILE>));
        let mut parse = |place, line: &str| {
            let arguments = line.split_whitespace().map(str::to_owned).collect();
            let program = "xtask".into();
            Shown { source: "a.md:1".into(), place, program, arguments, output: None }.parse(&mut command)
        };
        assert!(parse(Place::Block, "a.toml --rate 7").unwrap().is_some());
        for line in ["--rate 7", "a.toml --rate RATE"] {
            assert!(parse(Place::Text, line).unwrap().is_none(), "{line}");
            assert!(parse(Place::Block, line).unwrap_err().starts_with("a.md:1: xtask "), "{line}");
        }
        for line in ["a.toml --rate x", "a.toml --speed"] {
            assert!(parse(Place::Text, line).is_err(), "{line}");
        }
        assert!(parse(Place::Block, "--help").unwrap().is_none());
    }

    #[test]
    fn placeholders_have_no_small_letters() {
        assert!(is_placeholder("ADDRESS") && is_placeholder("HOST:7007"));
        for word in ["2000", "1B", "results/TIME-advise", "--json"] {
            assert!(!is_placeholder(word), "{word}");
        }
    }
}
