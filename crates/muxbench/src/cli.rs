//! What the user can say.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands;
use crate::options::execution::ExecutionArgs;

/// What may be said beside `--resume` that is a command's own, and not of every run: what a search may have more of, and where
/// rows are written.
const OWN_BESIDE_RESUME: [(&str, &[&str]); 2] = [("capacity", &["time_max"]), ("sweep", &["csv", "tsv"])];
/// Where results are kept, of which a run that is finished has a folder.
const OF_A_NEW_RUN: &str = "output";

/// Compare ways of building a network server under your traffic
///
/// muxbench runs one workload against servers that differ only in how they are built (processes, threads, select,
/// poll, epoll), and says which is best, by how much, and how sure it is.
#[derive(Debug, Parser)]
#[command(name = "muxbench", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  muxbench compare                                  # five architectures, a minute
  muxbench compare --connections 1000,5000 --rate 8000 --request 1B --response 1B
  muxbench sweep --rate 10000..45000+5000           # response time against rate, up to saturation
  muxbench capacity --p99 1ms                       # the highest rate within a limit
  muxbench run experiments/kawai2008-http.toml --quick
  muxbench report                                   # the newest run again

Exit codes: 0 done; 1 failed; 2 usage; 3 no valid trial, or with --strict not every one; 130 stopped, finish it with --resume")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum Command {
    Compare(commands::compare::Args),
    Sweep(commands::sweep::Args),
    Capacity(commands::capacity::Args),
    Run(commands::run::Args),
    Plan(commands::plan::Args),
    Reproduce(commands::reproduce::Args),
    Report(commands::report::Args),
    List(commands::list::Args),
    Calibrate(commands::calibrate::Args),
    #[cfg(target_os = "linux")]
    Doctor(commands::doctor::Args),
    Serve(commands::serve::Args),
    Load(commands::load::Args),
    Idle(commands::idle::Args),
    #[cfg(target_os = "linux")]
    Lab(commands::lab::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Relay(commands::relay::Args),
    Completions(commands::docs::CompletionsArgs),
    Man(commands::docs::ManArgs),
}

impl Cli {
    /// What was said on this process's command line; a mistake in it is told, and ends the process.
    pub fn said() -> Self {
        let mut command = Self::command();
        let matches = command.get_matches_mut();
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        if let (Some(of_it), Some(said)) = (command.find_subcommand_mut(&name), matches.subcommand_matches(&name))
            && let Some(what) = unfit_to_resume(of_it, said)
        {
            of_it.error(ErrorKind::ArgumentConflict, what).exit()
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// Why a run cannot be finished with what else was said, if so: what it is of was settled when it began, and nothing that is said
/// is ignored without a word.
fn unfit_to_resume(command: &clap::Command, said: &ArgMatches) -> Option<String> {
    if !said.try_contains_id("resume").unwrap_or(false) {
        return None;
    }
    let fit = fit_to_resume(command.get_name());
    let is_said = |arg: &&Arg| said.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let is_fit = |arg: &Arg| fit.iter().any(|it| it == arg.get_id().as_str());
    let unfit: Vec<&Arg> = command.get_arguments().filter(is_said).filter(|arg| !is_fit(arg)).collect();
    let names = listed(&unfit, "and")?;
    let positional = unfit.iter().any(|arg| arg.is_positional());
    let folder = if positional { " (a run's folder goes right behind it)" } else { "" };
    let may_be = command.get_arguments().filter(|arg| is_fit(arg) && arg.get_id() != "resume").collect::<Vec<_>>();
    let may_be = listed(&may_be, "or").unwrap_or_default();
    Some(format!(
        "{names} cannot be used with --resume: what a run is of, and where it is kept, was settled when it began; leave that \
         out, or begin a new run without --resume{folder}. PaperComparison it there may be {may_be}"
    ))
}

/// The names of what may be said beside `--resume` of a command, and its own.
fn fit_to_resume(command: &str) -> Vec<String> {
    let of_runs = ExecutionArgs::augment_args(clap::Command::default());
    let of_runs = of_runs.get_arguments().map(|arg| arg.get_id().to_string()).filter(|it| it != OF_A_NEW_RUN);
    let own = OWN_BESIDE_RESUME.iter().filter(|(name, _)| *name == command).flat_map(|(_, own)| own.iter());
    of_runs.chain(own.map(ToString::to_string)).collect()
}

/// Arguments as they are written, the last one behind a word; `None` where there are none.
fn listed(args: &[&Arg], word: &str) -> Option<String> {
    let name = |arg: &&Arg| match (arg.get_long(), arg.get_value_names()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some([name, ..])) => name.to_string(),
        (None, _) => arg.get_id().to_string(),
    };
    let names: Vec<String> = args.iter().map(name).collect();
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} {word} {last}", others.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why that is no command line, of one that can be parsed.
    fn unfit(line: &str) -> Option<String> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(line.split_whitespace()).unwrap();
        let (name, said) = matches.subcommand().unwrap();
        unfit_to_resume(command.find_subcommand(name).unwrap(), said)
    }

    #[test]
    fn what_a_run_is_of_cannot_be_said_when_it_is_resumed() {
        for (line, names) in [
            ("muxbench run smoke --resume here --quick", "FILE and --quick cannot"),
            ("muxbench run --resume here --count-syscalls", "--count-syscalls cannot"),
            ("muxbench run --resume here --output there", "--output cannot"),
            (
                "muxbench compare --resume --arch epoll --connections 1 --rate 2",
                "--arch, --connections and --rate cannot",
            ),
            ("muxbench compare --resume --print-experiment", "--print-experiment cannot"),
            ("muxbench compare --resume --network lab --delay 1ms", "--network and --delay cannot"),
            ("muxbench sweep --resume here --rate 1..2+1 --past 3", "--rate and --past cannot"),
            ("muxbench capacity --resume here --p99 1ms", "--p99 cannot"),
        ] {
            let told = unfit(line).unwrap_or_else(|| panic!("{line}"));
            let has_folder = told.contains("without --resume (a run's folder goes right behind it)");
            assert!(told.starts_with(names) && has_folder == names.contains("FILE"), "{line}: {told}");
            assert!(told.contains("--json") && !told.contains(", --resume"), "{told}");
            assert!(unfit(&line.replace("--resume here", "").replace("--resume", "")).is_none(), "{line}: a new run");
        }
        assert!(unfit("muxbench capacity --resume --p99 1ms").unwrap().contains("there may be --time-max, "));
    }

    #[test]
    fn how_a_run_is_finished_and_shown_can_be_said() {
        for line in [
            "muxbench run --resume",
            "muxbench run --resume here --allow-exec --strict --fleet --lost-rank go-on --explain --json -q",
            "muxbench compare --resume here --markdown",
            "muxbench capacity --resume --time-max 1h",
            "muxbench sweep --resume here --csv a.csv --tsv a.tsv",
            "muxbench list --json",
        ] {
            assert_eq!(unfit(line), None, "{line}");
        }
    }

    #[test]
    fn what_may_be_said_is_there_to_be_said() {
        let command = Cli::command();
        for (name, own) in OWN_BESIDE_RESUME {
            let command = command.find_subcommand(name).unwrap();
            assert!(own.iter().all(|it| command.get_arguments().any(|arg| arg.get_id() == it)), "{name}");
        }
        assert!(
            ExecutionArgs::augment_args(clap::Command::default()).get_arguments().any(|it| it.get_id() == OF_A_NEW_RUN)
        );
    }
}
