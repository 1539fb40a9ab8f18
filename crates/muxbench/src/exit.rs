//! Exit codes other than those of success, failure and wrong usage.

use std::process::ExitCode;

use crate::output;

/// The run has ended, but no trial is valid.
pub const NO_VALID_TRIAL: u8 = 3;
/// A signal stopped the command; shells use the same code.
pub const STOPPED: u8 = 130;

/// Tells how to finish a run that a signal stopped.
pub fn stopped(command: &str) -> ExitCode {
    output::note(format_args!("stopped; finished trials are saved. Finish the run with: {command}"));
    ExitCode::from(STOPPED)
}

/// The code of a command whose result is valid, or not.
pub fn of_validity(is_valid: bool) -> ExitCode {
    if is_valid { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) }
}
