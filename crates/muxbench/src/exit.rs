//! Exit codes other than those of success, failure and wrong usage.

use std::process::ExitCode;

use crate::output;

/// No trial is valid: the run is done, and its figures are not to be believed.
pub const NO_VALID_TRIAL: u8 = 3;
/// Stopped by a signal, as shells have it.
pub const STOPPED: u8 = 130;

/// What a command that a signal stopped says and ends with.
pub fn stopped(how_to_finish: &str) -> ExitCode {
    output::tell(format_args!("muxbench: stopped; what is finished is kept. Finish it with: {how_to_finish}"));
    ExitCode::from(STOPPED)
}
