//! Exit codes.

use std::process::ExitCode;

use crate::options::table::{COMMANDS, Command};
use crate::output;

/// A run has no valid trial or lost a worker, a result fails `--strict`, the trial of `load` is not valid, or `idle` lost a
/// connection.
pub const NO_VALID_TRIAL: u8 = 3;
/// The new build is slower, or worse by another figure (`gate`).
pub const SLOWER: u8 = 1;
/// A gate is undecided.
pub const UNDECIDED: u8 = 4;
/// A gate could not run. 1 is the code of a slower build.
pub const GATE_FAILED: u8 = 5;
/// A signal stopped the command; shells report this code for SIGINT.
pub const STOPPED: u8 = 130;

/// An exit code and its meaning.
pub type Meaning = (u8, &'static str);

/// The codes of all commands.
const EVERY: [Meaning; 3] = [(0, "done"), (1, "failed"), (2, "wrong usage")];

/// Lists the exit codes of a command for its help.
pub fn described(command: &str) -> String {
    let own = Command::named(command).map_or(&[][..], |row| row.exits);
    let is_common = |(code, _): &&Meaning| own.iter().all(|(other, _)| other != code);
    let mut all: Vec<&Meaning> = EVERY.iter().filter(is_common).chain(own).collect();
    all.sort_by_key(|(code, _)| *code);
    let codes = all.into_iter().map(|(code, meaning)| format!("\n  {code:3}  {meaning}"));
    let of_child = if command == "lab" { "\n       otherwise the code of the command in the lab" } else { "" };
    format!("Exit codes:{}{of_child}", codes.collect::<String>())
}

/// Returns all exit codes as a table in Markdown.
pub fn table() -> String {
    let row = |command: &str, (code, meaning): &Meaning| format!("| {command} | {code} | {meaning} |\n");
    let every = EVERY.iter().map(|meaning| row("all, unless listed below", meaning));
    let of_command = |it: &'static Command| it.exits.iter().map(move |code| row(&format!("`{}`", it.name), code));
    let lab = "| `lab` | other | the code of the command in the lab |\n";
    let rows = every.chain(COMMANDS.iter().flat_map(of_command));
    format!("| command | code | meaning |\n|---|---|---|\n{}{lab}", rows.collect::<String>())
}

/// Prints the command that finishes an interrupted run, and returns the exit code.
pub fn stopped(command: &str) -> ExitCode {
    output::note(format_args!("stopped; finished trials are saved. Finish the run with: {command}"));
    ExitCode::from(STOPPED)
}

pub fn of_validity(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) }
}
