//! Exit codes besides those of success, failure and wrong usage.

use std::process::ExitCode;

use crate::output;

/// A run has no valid trial or lost a worker, a result fails `--strict`, the trial of `load` is not valid, or `idle` lost a
/// connection.
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
