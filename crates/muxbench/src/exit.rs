//! Exit codes besides those of success, failure and wrong usage.

use std::process::ExitCode;

use crate::output;

/// No trial is valid, a worker was lost, or the result does not meet the requirements of `--strict`, `load` or `idle`.
pub const NO_VALID_TRIAL: u8 = 3;
/// A signal stopped the command; shells report this code for SIGINT.
pub const STOPPED: u8 = 130;

/// Prints the command that finishes an interrupted run, and returns the exit code.
pub fn stopped(command: &str) -> ExitCode {
    output::note(format_args!("stopped; finished trials are saved. Finish the run with: {command}"));
    ExitCode::from(STOPPED)
}

pub fn of_validity(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) }
}
