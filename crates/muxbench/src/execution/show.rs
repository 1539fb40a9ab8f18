//! The result of a run as the user sees it.

use std::path::Path;
use std::process::ExitCode;

use harness::exec::event::RunEnd;
use harness::record::{Run, RunHeader, Strategy, VerdictKind, commands};
use harness::strategy::search::{CapacityBound, RateSearch};
use harness::strategy::{self, search};

use crate::exit::{NO_VALID_TRIAL, of_validity, stopped};
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
        output::print(&report::text::render(run, medium))?;
        if args.explain {
            output::print(&format!("\n{}", report::text::cost::render(&report::analysis::Summary::of(run), medium)))?;
        }
        let mut places = format!("Results: {folder} (as a page with figures: muxbench report {folder} --html)\n");
        if matches!(run.header.strategy, Strategy::Capacity(_)) {
            // The probes of a search differ in rate, so no page can show them.
            places = format!("Results: {folder}\n");
        }
        if let Some(paper) = papers::of_experiment(&run.header.experiment) {
            places += &format!("Beside the paper: muxbench report {folder} --paper {}\n", paper.name);
        }
        print_places(&places, args.format.markdown)?;
    }
    Ok(code(&folder, run, ended, &args.display_flags()).unwrap_or_else(|| of_validity(is_believable(run, args.strict))))
}

/// Returns the command that finishes a run, with the flags that choose how it is shown. `folder` is a word of a shell.
pub fn resume_command(header: &RunHeader, folder: &str, display_flags: &[String]) -> String {
    let command = match header.strategy {
        Strategy::Gate(_) => "gate",
        Strategy::Advise(_) => "advise",
        _ => "run",
    };
    let distributed = if header.is_distributed { " --distributed" } else { "" };
    let allow_exec = if commands(&header.trials).is_empty() { "" } else { " --allow-exec" };
    let resume = format!("muxbench {command}{distributed} --resume {folder}{allow_exec}");
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

/// Returns whether any result is valid or, with `strict`, all are. A strict sweep also accepts trials past
/// saturation. A strict search needs a precise capacity of each server: the client must not be the limit. A strict overload needs
/// the recovery of each server, without doubts.
fn is_believable(run: &Run, strict: bool) -> bool {
    let outcomes = strategy::outcomes(run);
    let count = |kind| run.records.iter().filter(|record| record.verdict.kind == kind).count();
    let (valid, planned) = (count(VerdictKind::Valid), run.header.trials.len());
    match &run.header.strategy {
        Strategy::Capacity(goal) => {
            let searches = search::searches(&run.header, goal, &outcomes);
            let is_found = |it: &RateSearch<'_>| matches!(it.answer(), Some(CapacityBound::Server { .. }));
            let is_precise = |it: &RateSearch<'_>| is_found(it) && it.ended == Some(search::SearchEnd::Precise);
            if strict { searches.iter().all(is_precise) } else { searches.iter().any(|it| it.answer().is_some()) }
        }
        Strategy::Overload(_) => report::Overloads::of(run).is_some_and(|it| it.is_found(strict)),
        Strategy::Advise(_) if strict => valid == run.records.len(),
        Strategy::Whole if strict => valid == planned,
        Strategy::Sweep { .. } | Strategy::Until { .. } | Strategy::Gate(_) if strict => {
            let past = count(VerdictKind::Saturated) + strategy::pruned(&run.header, &outcomes).len();
            valid > 0 && valid + past == planned
        }
        Strategy::Whole | Strategy::Sweep { .. } | Strategy::Until { .. } | Strategy::Gate(_) | Strategy::Advise(_) => {
            valid > 0
        }
    }
}
