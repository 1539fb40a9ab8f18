//! Exit codes.

use std::process::ExitCode;

use crate::output;

/// A run has no valid trial or lost a worker, a result fails `--strict`, the trial of `load` is not valid, or `idle` lost a
/// connection.
pub const NO_VALID_TRIAL: u8 = 3;
/// The new build is slower, or worse by another figure (`gate`).
pub const SLOWER: u8 = 1;
/// A gate is undecided.
pub const UNDECIDED: u8 = 4;
/// A gate could not run (1 is the code of a slower build), or a server ran in no trial.
pub const COULD_NOT_RUN: u8 = 5;
/// A signal stopped the command; shells report this code for SIGINT.
pub const STOPPED: u8 = 130;

/// An exit code and its meaning.
pub type Meaning = (u8, &'static str);

/// The codes of all commands.
pub const EVERY: [Meaning; 3] = [(0, "done"), (1, "failed"), (2, "wrong usage")];

/// Prints the command that finishes an interrupted run, and returns the exit code.
pub fn stopped(command: &str) -> ExitCode {
    output::note(format_args!("stopped; finished trials are saved. Finish the run with: {command}"));
    ExitCode::from(STOPPED)
}

pub fn of_validity(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) }
}
