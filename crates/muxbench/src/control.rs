//! The protocol between a runner and its child processes: an order on standard input, events on standard output.

use std::io;
use std::process::{self, ExitCode};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output;

/// Reads one line from standard input. The line is empty at the end of input.
pub fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line)
}

/// Returns the lines that follow on standard input, as they arrive.
pub fn lines() -> io::Result<Receiver<String>> {
    let (sender, lines) = mpsc::channel();
    let read = move || while read_line().is_ok_and(|line| !line.is_empty() && sender.send(line).is_ok()) {};
    thread::Builder::new().name("input".into()).spawn(read)?;
    Ok(lines)
}

pub fn read_order<T: DeserializeOwned>() -> anyhow::Result<T> {
    serde_json::from_str(&read_line()?).context("cannot read the order on standard input")
}

/// Sends an event to the runner. Exits if the runner has died.
pub fn send(event: &impl Serialize) {
    output::print_line(event).unwrap_or_else(|_| process::exit(1));
}

/// Returns the exit code for a result. If it is an error, first sends the event that `failed` makes from it.
pub fn exit_code<E: Serialize>(result: anyhow::Result<()>, failed: impl FnOnce(anyhow::Error) -> E) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    send(&failed(error));
    ExitCode::FAILURE
}
