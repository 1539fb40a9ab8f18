//! The result of a run, as the user sees it.

use std::path::Path;
use std::process::ExitCode;

use harness::exec::event::RunEnd;
use harness::model::{Run, TrialRecord, VerdictKind};
use harness::model::{Strategy, TrialOutcome};
use harness::strategy;
use harness::strategy::search::{CapacityBound, RateSearch};

use crate::exit::{NO_VALID_TRIAL, stopped};
use crate::options::execution::ExecutionArgs;
use crate::output;

pub fn show(folder: &Path, run: &Run, ended: RunEnd, args: &ExecutionArgs) -> anyhow::Result<ExitCode> {
    if args.format.json {
        output::print_json(&report::export::json::of(run))?;
    } else {
        let medium = args.format.medium();
        output::print(&report::text::render(run, medium))?;
        if args.explain {
            output::print(&format!("\n{}", report::text::cost::render(&report::model::Summary::of(run), medium)))?;
        }
        let place = folder.display();
        let page = match run.header.strategy {
            // A page is of trials at given rates.
            Strategy::Capacity(_) => String::new(),
            Strategy::Whole | Strategy::Sweep { .. } => {
                format!(" (as a page with figures: muxbench report {place} --html)")
            }
        };
        // What is not to be pasted is said beside it.
        let say = |text: &str| match args.format.markdown {
            true => {
                output::tell(text.trim_end());
                Ok(())
            }
            false => output::print(text),
        };
        say(&format!("Results: {place}{page}\n"))?;
        if let Some(paper) = papers::of_experiment(&run.header.experiment) {
            let (folder, name) = (folder.display(), paper.name);
            say(&format!("Beside the paper: muxbench report {folder} --paper {name}\n"))?;
        }
    }
    if ended == RunEnd::Stopped {
        let fleet = if run.header.is_fleet_s { " --fleet" } else { "" };
        return Ok(stopped(&format!("muxbench run{fleet} --resume {}", folder.display())));
    }
    if ended == RunEnd::WorkerLost {
        let folder = folder.display();
        output::tell(format_args!(
            "muxbench: a rank is lost, and the run ends; what is finished is kept. Finish it, with as many ranks as there \
             were: muxbench run --fleet --resume {folder}; with --lost-worker continue a run goes on without"
        ));
        return Ok(ExitCode::from(NO_VALID_TRIAL));
    }
    Ok(if is_believable(run, args.strict) { ExitCode::SUCCESS } else { ExitCode::from(NO_VALID_TRIAL) })
}

/// Whether there is a figure to be believed; with `strict`, whether all are. That a sweep's last steps are past saturation is
/// what it looks for. A capacity is one only if the server bounds it.
fn is_believable(run: &Run, strict: bool) -> bool {
    let valid = |record: &&TrialRecord| record.verdict.kind == VerdictKind::Valid;
    let outcomes =
        || run.records.iter().map(|record| TrialOutcome::new(record, &run.header.strategy)).collect::<Vec<_>>();
    let count = run.records.iter().filter(valid).count();
    match &run.header.strategy {
        Strategy::Whole => count >= if strict { run.header.trials.len() } else { 1 },
        Strategy::Sweep { .. } if strict => {
            let past = run.records.iter().filter(|record| record.verdict.kind == VerdictKind::Saturated).count();
            count > 0 && count + past + strategy::pruned(&run.header, &outcomes()).len() == run.header.trials.len()
        }
        Strategy::Sweep { .. } => count >= 1,
        Strategy::Capacity(question) => {
            let searches = harness::strategy::search::searches(&run.header, question, &outcomes());
            let is_found = |it: &RateSearch<'_>| matches!(it.answer(), Some(CapacityBound::Server { .. }));
            let is_precise =
                |it: &RateSearch<'_>| is_found(it) && it.ended == Some(harness::strategy::search::SearchEnd::Precise);
            if strict { searches.iter().all(is_precise) } else { searches.iter().any(|it| it.answer().is_some()) }
        }
    }
}
