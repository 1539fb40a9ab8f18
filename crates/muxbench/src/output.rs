//! Standard output, and what is told beside it.

use std::fmt::Display;
use std::io::{self, Write};

use papers::PaperComparison;
use report::format::visible;
use report::text::Medium;
use serde::Serialize;

/// Columns of the terminal; of a file or a pipe, enough for a whole table.
pub fn width() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 160,
    }
}

/// How tables and prose are written there.
pub fn medium(markdown: bool) -> Medium {
    if markdown { Medium::Markdown } else { Medium::Terminal(width()) }
}

/// Prints text that is complete with its line ends, and nothing that a terminal obeys. Whoever closes the pipe has read
/// enough.
///
/// # Errors
/// Any other error of writing.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&visible(text))
}

/// Prints text that is a file's.
///
/// # Errors
/// As [`print()`].
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Tells something on standard error, with a line end. Where that is full or gone nobody is told, and what is done goes on.
pub fn tell(what: impl Display) {
    let _ = writeln!(anstream::stderr(), "{what}");
}

/// As [`tell`], in a line that goes on, or is told anew.
pub fn tell_in_line(what: impl Display) {
    let mut output = anstream::stderr();
    let _ = write!(output, "{what}").and_then(|()| output.flush());
}

/// Prints a value as indented JSON.
///
/// # Errors
/// Errors of writing.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints a value as one line of JSON, at once.
///
/// # Errors
/// When nobody reads any more.
pub fn print_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(value)?)?;
    Ok(output.flush()?)
}

/// Prints runs beside a paper: as JSON, as CSV or as text.
///
/// # Errors
/// Errors of writing.
pub fn show_beside(beside: &PaperComparison, json: bool, csv: bool, medium: Medium) -> anyhow::Result<()> {
    if json {
        print_json(&beside.json())
    } else if csv {
        print(&beside.csv()?)
    } else {
        print(&beside.render(medium))
    }
}
