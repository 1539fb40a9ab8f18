//! A picture of a run: the report of its first workload, as a terminal of 80 columns shows it, as SVG.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::root;

use crate::command;

const COLUMNS: usize = 80;
/// The size of a letter's cell, and the distance of the text from the edge, in pixels.
const CELL: (f64, f64) = (8.4, 19.0);
const EDGE: f64 = 16.0;
/// The colours of a terminal with its own background, which is legible on light and on dark pages: background, border, text.
const SCREEN: [&str; 3] = ["#161b22", "#444c56", "#e6edf3"];

/// Draws a run as a terminal shows it
#[derive(clap::Args, Debug)]
pub struct Picture {
    /// Folder of the run
    run: PathBuf,
    /// SVG file
    #[arg(long, value_name = "FILE", default_value = "docs/compare.svg")]
    output: PathBuf,
}

/// Draws the report that `muxbench` prints for the run.
pub fn draw(picture: &Picture, muxbench: &Path) -> anyhow::Result<()> {
    let run = picture.run.canonicalize().with_context(|| picture.run.display().to_string())?;
    let header = fs::read_to_string(run.join("run.json")).context("RUN is the folder of a run")?;
    let header: serde_json::Value = serde_json::from_str(&header).context("run.json")?;
    let mut words: Vec<&str> =
        header["command"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
    if let Some(program) = words.first_mut() {
        // Readers have the program in another folder.
        *program = "muxbench";
    }
    let mut report = Command::new(muxbench);
    report
        .arg("report")
        .arg(&run)
        .env("COLUMNS", COLUMNS.to_string())
        .env("CLICOLOR_FORCE", "1")
        .env_remove("NO_COLOR");
    let text = command::output(&mut report)?;
    let first = text.split("\n\n").next().unwrap_or_default();
    let path = root().join(&picture.output);
    fs::write(&path, svg(&words.join(" "), first)).with_context(|| path.display().to_string())
}

/// Returns the picture of a command and its output, which may have a terminal's control sequences for colours.
fn svg(command: &str, output: &str) -> String {
    let lines: Vec<String> = [format!("$ {command}")].into_iter().chain(output.lines().map(str::to_owned)).collect();
    let [width, height] = [COLUMNS as f64 * CELL.0, lines.len() as f64 * CELL.1].map(|size| size + 2.0 * EDGE);
    let [background, border, ink] = SCREEN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>Output of {}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{background}\" stroke=\"{border}\"/>\n",
        escaped(command),
        width - 1.0,
        height - 1.0,
    );
    for (at, line) in lines.iter().enumerate() {
        let y = EDGE + (at as f64 + 0.75) * CELL.1;
        for Piece { column, text, sequence } in pieces(line) {
            let (x, length) = (EDGE + column as f64 * CELL.0, text.chars().count() as f64 * CELL.0);
            let look = match sequence {
                "1" => "fill=\"#ffffff\" font-weight=\"bold\"",
                "32" => "fill=\"#7ee787\"",
                "33" => "fill=\"#e3b341\"",
                "31" => "fill=\"#ff7b72\"",
                _ => &format!("fill=\"{ink}\""),
            };
            // Letters of any font fill exactly their cells.
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" {look}>{}</text>",
                escaped(text)
            );
        }
    }
    svg + "</svg>\n"
}

/// Words of one look, with their column.
#[derive(Debug, PartialEq, Eq)]
struct Piece<'a> {
    column: usize,
    text: &'a str,
    /// The parameter of the control sequence for the colour.
    sequence: &'a str,
}

/// Splits a line at changes of the colour and at spaces in a row, which a picture leaves out.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut column) = (Vec::new(), 0);
    for (at, part) in line.split("\u{1b}[").enumerate() {
        let (sequence, text) = if at == 0 { ("", part) } else { part.split_once('m').unwrap_or(("", part)) };
        let mut rest = text;
        while !rest.is_empty() {
            let spaces = rest.chars().take_while(|letter| *letter == ' ').count();
            let words = &rest[spaces..];
            let end = words.find("  ").unwrap_or(words.len());
            column += spaces;
            if end > 0 {
                pieces.push(Piece { column, text: &words[..end], sequence });
            }
            column += words[..end].chars().count();
            rest = &words[end..];
        }
    }
    pieces
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_columns_and_colours() {
        let line = "\u{1b}[1mepoll    1.00\u{1b}[0m  ──●  \u{1b}[32mvalid 3/3\u{1b}[0m";
        let found: Vec<_> = pieces(line).into_iter().map(|it| (it.column, it.text, it.sequence)).collect();
        assert_eq!(found, [(0, "epoll", "1"), (9, "1.00", "1"), (15, "──●", "0"), (20, "valid 3/3", "32")]);
    }

    #[test]
    fn picture_has_the_command_and_escapes_text() {
        let svg = svg("muxbench compare", "a <b> & c\n\n  d");
        assert!(svg.contains(">$ muxbench compare</text>") && svg.contains(">a &lt;b> &amp; c</text>"), "{svg}");
        assert!(svg.contains("width=\"704\" height=\"108\"") && svg.contains("<text x=\"32.8\" y=\"87.2\""), "{svg}");
    }
}
