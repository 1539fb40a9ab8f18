//! Text on standard output and standard error.

use std::fmt::Display;
use std::io::{self, Write};

use report::format::visible;
use report::text::Medium;
use serde::Serialize;

/// Returns the medium of tables and prose. Files and pipes get 160 columns.
pub fn medium(markdown: bool) -> Medium {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        _ if markdown => Medium::Markdown,
        Ok(size) if size.ws_col > 0 => Medium::Terminal(size.ws_col.into()),
        _ => Medium::Terminal(160),
    }
}

/// Prints text. Escapes control characters, which a terminal would obey. Ignores a closed pipe.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_raw(&visible(text))
}

/// Prints text unescaped. Ignores a closed pipe.
pub fn print_raw(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
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

pub fn warn(line: impl Display) {
    note(format_args!("warning: {line}"));
}

/// Writes text without a line end to standard error. Ignores write errors.
pub fn tell_in_line(text: impl Display) {
    let mut output = anstream::stderr();
    let _ = write!(output, "{text}").and_then(|()| output.flush());
}

pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints a value as one line of JSON and flushes it.
pub fn print_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(value)?)?;
    Ok(output.flush()?)
}
