//! Text on standard output and standard error.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use report::format::visible;
use report::text::{Medium, Terminal, style};
use schemars::JsonSchema;
use serde::Serialize;

/// The number of columns without a terminal.
const COLUMNS: usize = 80;

/// Returns the number of columns of standard output, for help and reports: the variable COLUMNS, the terminal's width, or 80.
pub fn columns() -> usize {
    let variable = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    let is_positive = |columns: &usize| *columns > 0;
    variable.filter(is_positive).or_else(|| terminal().filter(is_positive)).unwrap_or(COLUMNS)
}

/// Returns the medium of tables and prose on standard output. With `is_wide`, tables have all their columns, and with `has_legend` their
/// meaning.
pub fn medium(is_wide: bool, has_legend: bool) -> Medium {
    Medium::Terminal(Terminal { columns: columns(), is_wide, has_legend, is_coloured: is_coloured() })
}

/// Tests whether standard output has colours: on a terminal, unless NO_COLOR is set.
fn is_coloured() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Prints a report. Escapes control characters, which a terminal would obey, and then adds the report's colours. Ignores a
/// closed pipe.
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = visible(text);
    print_raw(if is_coloured() { style::painted(&text) } else { text })
}

/// Prints text unescaped. Ignores a closed pipe.
pub fn print_raw(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write standard output"),
    }
}

/// Writes a line to standard error. Ignores write errors, so that the work continues.
pub fn tell(line: impl Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes a line to standard error that begins with `muxbench:`.
pub fn note(line: impl Display) {
    tell(format_args!("muxbench: {line}"));
}

/// Does the same as [`note`], unless this process has written the line before: the runs of a grid have many lines in common.
pub fn note_once(line: impl Display) {
    static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = line.to_string();
    if WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
        note(line);
    }
}

pub fn warn(line: impl Display) {
    note_once(format_args!("warning: {line}"));
}

/// Writes text without a line end to standard error. Ignores write errors.
pub fn tell_in_line(text: impl Display) {
    let mut output = anstream::stderr();
    let _ = write!(output, "{text}").and_then(|()| output.flush());
}

/// Prints JSON, whose schema `muxbench schema` prints.
pub fn print_json(value: &(impl Serialize + JsonSchema)) -> anyhow::Result<()> {
    print_raw(visible(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Prints a value as one line of JSON and flushes it.
pub fn print_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(value)?)?;
    Ok(output.flush()?)
}
