//! The result of a run as the user sees it.

use std::path::Path;
use std::process::ExitCode;

use harness::exec::event::RunEnd;
use harness::record::{Run, RunHeader, Strategy, commands};

use crate::exit::{COULD_NOT_RUN, NO_VALID_TRIAL, of_validity, stopped};
use crate::files::in_shell;
use crate::options::execution::ExecutionArgs;
use crate::output;

/// Prints the result of a run and, if the run was interrupted, the command that finishes it. Returns the exit code.
pub fn show(folder: &Path, run: &Run, ended: RunEnd, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    let folder = in_shell(folder);
    if args.format.json {
        output::print_json(&report::export::json::of(run))?;
    } else {
        let medium = args.format.medium();
        let versus = args.actions.versus(&run.header.trials)?;
        output::print(&report::text::render_versus(run, versus.as_deref(), medium))?;
        if args.has("explain") && !run.header.strategy.is_search() {
            output::print(&format!("\n{}", report::text::cost::render(&report::analysis::Summary::of(run), medium)))?;
        }
        let mut places = format!("Results: {folder} (page: muxbench report {folder} --html; columns: --legend)\n");
        if matches!(run.header.strategy, Strategy::Capacity(_)) {
            // The probes of a search differ in rate, so no page can show them.
            places = format!("Results: {folder} (columns: muxbench report {folder} --legend)\n");
        }
        if let Some(paper) = papers::of_experiment(&run.header.experiment) {
            places += &format!("Beside the paper: muxbench report {folder} --paper {}\n", paper.name);
        }
        print_places(&places, args.format.markdown)?;
    }
    if let Some(code) = code(&folder, run, ended, &args.display_flags()) {
        return Ok(code);
    }
    let is_believable = report::analysis::is_believable(run, args.has("strict"));
    let absent = report::analysis::absent(run);
    if !is_believable || absent.is_empty() {
        return Ok(of_validity(is_believable));
    }
    output::warn(format_args!("{} ran in no trial; the results are those of the other servers", absent.join(", ")));
    Ok(ExitCode::from(COULD_NOT_RUN))
}

/// Returns the command that finishes a run, with the flags that choose how it is shown. `folder` is a word of a shell.
pub fn resume_command(header: &RunHeader, folder: &str, display_flags: &[String]) -> String {
    let distributed = if header.is_distributed { " --distributed" } else { "" };
    let allow_exec = if commands(&header.trials).is_empty() { "" } else { " --allow-exec" };
    let resume = format!("muxbench {}{distributed} --resume {folder}{allow_exec}", header.strategy.command());
    if display_flags.is_empty() { resume } else { format!("{resume} {}", report::format::command(display_flags)) }
}

/// Returns the exit code of a run that has not finished, and prints the command that finishes it. `None` for a finished run.
/// `folder` is a word of a shell.
pub fn code(folder: &str, run: &Run, ended: RunEnd, display_flags: &[String]) -> Option<ExitCode> {
    let resume = resume_command(&run.header, folder, display_flags);
    match ended {
        RunEnd::Stopped => Some(stopped(&resume)),
        RunEnd::WorkerLost => {
            output::note(format_args!(
                "the run has ended because a worker was lost; finished trials are saved. Finish the run with as many workers \
                 as before: {resume}. With --lost-worker continue, a run continues with the other workers"
            ));
            Some(ExitCode::from(NO_VALID_TRIAL))
        }
        RunEnd::Complete => None,
    }
}

/// Prints the locations of results; with `markdown` on standard error, because the user pastes standard output.
pub fn print_places(places: &str, markdown: bool) -> anyhow::Result<()> {
    if !markdown {
        return output::print(places);
    }
    output::tell(places.trim());
    Ok(())
}
