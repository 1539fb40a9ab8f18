//! The command line.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    advise, atlas, calibrate, capacity, compare, docs, gate, idle, list, load, observe, overload, plan, reference,
    report, reproduce, run, schema, serve, sweep,
};
#[cfg(target_os = "linux")]
use crate::commands::{doctor, lab, relay};
use crate::foreign_flags::with_remedy;
use crate::options::execution::ExecutionArgs;
use crate::{help, output};

/// Flags of single commands that `--resume` allows, because they extend a search or write files.
const ALLOWED_WITH_RESUME: [(&str, &[&str]); 5] = [
    ("atlas", &["budget", "html"]),
    ("capacity", &["time_max"]),
    ("gate", &["junit", "history", "label"]),
    ("load", &["samples"]),
    ("sweep", &["csv", "tsv"]),
];
/// The flag of [`ExecutionArgs`] that `--resume` rejects.
const NEW_RUN_ONLY: &str = "output";

/// Compare ways of building a network server under your traffic
///
/// muxbench runs one workload against servers that differ only in their architecture (processes, threads, select, poll,
/// epoll, ...). It prints which one is best, by how much, and how certain that is.
#[derive(Debug, Parser)]
#[command(name = "muxbench", version, disable_help_subcommand = true)]
#[command(after_help = "muxbench COMMAND -h has examples and the most used flags, and --help has all")]
#[command(after_long_help = "Examples:
  muxbench compare                          # seven architectures in a minute
  muxbench sweep --rate 10000..45000+5000   # response time up to saturation
  muxbench capacity --p99 1ms               # highest rate within a limit
  muxbench overload --p99 5ms               # beyond the capacity, and back
  muxbench advise --objective cpu --limit p99=2ms  # which architecture is best?
  muxbench atlas                            # which one wins under which traffic?
  muxbench gate './a {port}' './b {port}' --service http --path / --allow-exec  # is b slower than a?
  muxbench run experiments/kawai2008-http.toml --quick
  muxbench report                           # show the newest run again
  muxbench completions bash                 # shell completions
  muxbench man compare                      # a manual page

Values have units: 500us, 10ms, 30s or 2min (or 2m); 128B or 10KiB (or 10K). Rates are in requests per second: 2000, 8k or
2000/s. Reports have 80 columns, those of the terminal, or those of the variable COLUMNS. NO_COLOR=1 removes colours.

Exit codes: 0 done; 1 failed; 2 wrong usage. `muxbench COMMAND --help` has the others")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Declares the commands with their arguments and functions.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty) => $run:expr,)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            pub fn run(&self) -> anyhow::Result<ExitCode> {
                match self {
                    $($(#[$attribute])* Self::$name(args) => $run(args),)*
                }
            }
        }
    };
}

commands! {
    Compare(compare::Args) => compare::run,
    Sweep(sweep::Args) => sweep::run,
    Capacity(capacity::Args) => capacity::run,
    Overload(overload::Args) => overload::run,
    Advise(advise::Args) => advise::run,
    Atlas(atlas::Args) => atlas::run,
    Gate(gate::Args) => gate::run,
    Run(run::Args) => run::run,
    Plan(plan::Args) => |args| succeeded(plan::run(args)),
    Reproduce(reproduce::Args) => reproduce::run,
    Report(report::Args) => |args| succeeded(report::run(args)),
    List(list::Args) => |args| succeeded(list::run(args)),
    Calibrate(calibrate::Args) => calibrate::run,
    #[cfg(target_os = "linux")]
    Doctor(doctor::Args) => doctor::run,
    Serve(serve::Args) => serve::run,
    Load(load::Args) => load::run,
    Observe(observe::Args) => observe::run,
    Idle(idle::Args) => idle::run,
    #[cfg(target_os = "linux")]
    Lab(lab::Args) => lab::run,
    #[cfg(target_os = "linux")]
    Relay(relay::Args) => relay::run,
    Completions(docs::CompletionsArgs) => |args| succeeded(docs::completions(args, command())),
    Man(docs::ManArgs) => |args| succeeded(docs::man(args, command())),
    Schema(schema::Args) => |args| succeeded(schema::run(args)),
    Reference(reference::Args) => |args| succeeded(reference::run(args, help::arranged(Cli::command(), 80))),
}

fn succeeded(result: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}

/// Returns the definition of the command line, with its help arranged for standard output.
pub fn command() -> clap::Command {
    help::arranged(Cli::command(), output::columns())
}

impl Cli {
    /// Parses the command line of this process. Prints an error and exits if it is invalid.
    pub fn from_command_line() -> Self {
        let mut command = command();
        let matches = command
            .try_get_matches_from_mut(env::args_os())
            .unwrap_or_else(|error| with_remedy(error, chosen(&mut command, env::args_os().nth(1))).exit());
        if let Some((name, matches)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand_mut(name)
            && let Some(error) = conflict_with_resume(subcommand, matches)
        {
            subcommand.error(ErrorKind::ArgumentConflict, error).exit()
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// Adds the usage of the command that this process runs to an error.
pub fn with_usage(error: clap::Error) -> clap::Error {
    let mut command = command();
    // Set the full names of all commands.
    command.build();
    error.format(chosen(&mut command, env::args_os().nth(1)))
}

/// Returns the command with this name, or the tool itself.
pub fn chosen(tool: &mut clap::Command, name: Option<OsString>) -> &mut clap::Command {
    match name.filter(|name| tool.find_subcommand(name).is_some()) {
        Some(name) => tool.find_subcommand_mut(name).expect("the command exists"),
        None => tool,
    }
}

/// Returns an error that names the given flags that `--resume` rejects. A stored run contains its experiment.
fn conflict_with_resume(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    if !matches.try_contains_id("resume").unwrap_or(false) {
        return None;
    }
    let shared = ExecutionArgs::augment_args(clap::Command::default());
    let own = ALLOWED_WITH_RESUME.iter().find(|(name, _)| *name == command.get_name()).map_or(&[][..], |(_, own)| own);
    let is_allowed = |arg: &&Arg| {
        let id = arg.get_id();
        own.iter().any(|own| id == own) || id != NEW_RUN_ONLY && shared.get_arguments().any(|arg| arg.get_id() == id)
    };
    let (allowed, mut wrong): (Vec<_>, Vec<_>) = command.get_arguments().partition(is_allowed);
    wrong.retain(|arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine));
    let names = listed(&wrong, "and")?;
    let positional = wrong.iter().any(|arg| arg.is_positional());
    let folder = if positional { " (the folder of a run follows --resume directly)" } else { "" };
    let allowed: Vec<_> = allowed.into_iter().filter(|arg| arg.get_id() != "resume").collect();
    Some(format!(
        "{names} cannot be used with --resume: the experiment and the folder of a run cannot change; start a new run \
         without --resume{folder}. --resume allows {}",
        listed(&allowed, "or").unwrap_or_default()
    ))
}

/// Lists arguments as the user writes them, with `word` before the last; `None` if there are none.
fn listed(args: &[&Arg], word: &str) -> Option<String> {
    let name = |arg: &&Arg| match (arg.get_long(), arg.get_value_names()) {
        (Some(long), _) => format!("--{long}"),
        (None, names) => names.and_then(<[_]>::first).map_or_else(|| arg.get_id().to_string(), ToString::to_string),
    };
    let names: Vec<String> = args.iter().map(name).collect();
    let (last, others) = names.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} {word} {last}", others.join(", ")) })
}

#[cfg(test)]
mod tests {
    use clap::builder::StyledStr;
    use xtask::commands::{self, Shown};

    use super::*;

    /// Parses a command line, and returns its conflict with `--resume`.
    fn conflict(line: &str) -> Option<String> {
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(line.split_whitespace()).unwrap();
        let (name, matches) = matches.subcommand().unwrap();
        conflict_with_resume(command.find_subcommand(name).unwrap(), matches)
    }

    #[test]
    fn resume_rejects_flags_that_change_the_experiment() {
        for (line, names) in [
            ("muxbench run smoke --resume here --quick", "FILE and --quick cannot"),
            ("muxbench run --resume here --count-syscalls", "--count-syscalls cannot"),
            ("muxbench run --resume here --output there", "--output cannot"),
            (
                "muxbench compare --resume --arch epoll --connections 1 --rate 2",
                "--arch, --connections and --rate cannot",
            ),
            ("muxbench compare --resume --print-experiment", "--print-experiment cannot"),
            ("muxbench compare profile.toml --resume here", "FILE cannot"),
            ("muxbench compare --resume --network lab --delay 1ms", "--network and --delay cannot"),
            ("muxbench sweep --resume here --rate 1..2+1 --past 3", "--rate and --past cannot"),
            ("muxbench capacity --resume here --p99 1ms", "--p99 cannot"),
            ("muxbench advise --resume here --budget 9s", "--budget cannot"),
            ("muxbench gate mt poll profile.toml --resume here", "OLD, NEW and FILE cannot"),
            ("muxbench atlas --resume here --rate 1 --merge there", "--merge and --rate cannot"),
        ] {
            let error = conflict(line).unwrap_or_else(|| panic!("{line}"));
            let has_folder = error.contains("without --resume (the folder of a run follows --resume directly)");
            assert!(error.starts_with(names) && has_folder == names.contains("FILE"), "{line}: {error}");
            assert!(error.contains("--json") && !error.contains(", --resume"), "{error}");
            assert!(
                conflict(&line.replace("--resume here", "").replace("--resume", "")).is_none(),
                "{line}: the flags are valid without --resume"
            );
        }
        assert!(conflict("muxbench capacity --resume --p99 1ms").unwrap().contains("--resume allows --time-max, "));
    }

    #[test]
    fn resume_allows_flags_of_execution_and_output() {
        for line in [
            "muxbench run --resume",
            "muxbench run --resume here --allow-exec --strict --distributed --lost-worker continue --explain --json -q",
            "muxbench compare --resume here --markdown",
            "muxbench capacity --resume --time-max 1h",
            "muxbench sweep --resume here --csv a.csv --tsv a.tsv",
            "muxbench atlas --resume --budget 1h --html map.html --json",
            "muxbench list --json",
        ] {
            assert_eq!(conflict(line), None, "{line}");
        }
    }

    #[test]
    fn flags_allowed_with_resume_exist() {
        let command = Cli::command();
        for (name, own) in ALLOWED_WITH_RESUME {
            let command = command.find_subcommand(name).unwrap();
            assert!(own.iter().all(|it| command.get_arguments().any(|arg| arg.get_id() == it)), "{name}");
        }
        assert!(
            ExecutionArgs::augment_args(clap::Command::default()).get_arguments().any(|it| it.get_id() == NEW_RUN_ONLY)
        );
    }

    #[test]
    fn invalid_value_is_rejected_with_valid_ones() {
        for (line, words) in [
            ("compare --request 128", "such as 128B"),
            ("compare --measure 10", "such as 30s"),
            ("compare --rate 0", "above 0, such as 2000"),
            ("compare --connections 0", "--connections"),
            ("compare --active 2", "such as 1/16"),
            ("compare --popularity pareto", "expected uniform, zipf"),
            ("compare --schedule random", "expected one of `slot-random`"),
            ("compare --pacing fast", "expected one of `auto`"),
            ("compare --network wan", "lab:clients=5"),
            ("compare --network lab --bandwidth 1GB", "1Gbit"),
            ("compare --network lab --loss 0.1", "could mean 0.1% or 10%"),
            ("compare --service htp", "did you mean `http`?"),
            ("compare -c 1.5", "such as 400, 10k or 1M"),
            ("sweep --rate 1..5", "such as 10000..45000+5000"),
            ("sweep --rate 100 --past 0", "expected a number above 0, or never"),
            ("capacity --p99 1", "such as 1ms or 30s"),
            ("capacity --p99 0", "expected a time above 0"),
            ("gate epoll mt --budget 0s", "expected a time above 0"),
            ("advise --objective p98", "did you mean"),
            ("advise --limit p99=2", "such as 30s"),
            ("atlas --response 1KiB,2", "such as 128B"),
            ("atlas --simulated-work cpu", "such as cpu=50us"),
            ("observe", "--port <PORT>|--pid <PID>|--pcap <FILE>"),
            ("observe --port 0", "--port"),
            ("observe --port http", "expected a port from 1 to 65535"),
            ("observe --port 80 --pid 1", "cannot be used with"),
            ("serve --service stream --packet 0B", "0B"),
            ("load --target 127.0.0.1", "127.0.0.1"),
            ("load http://127.0.0.1:1/ --header Accept", "invalid header"),
        ] {
            let error = Cli::try_parse_from(format!("muxbench {line}").split(' ')).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn short_flags_and_quantities_of_other_tools_are_read() {
        for (short, long) in [
            ("compare -c 10K -r 2000/s -z 10m", "compare --connections 10000 --rate 2000 --measure 10min"),
            ("sweep -r 1k -c 5", "sweep --rate 1000 --connections 5"),
            ("load unix:s -c 1k -r 8k -z 1m", "load unix:s --connections 1000 --rate 8000 --measure 60s"),
            ("idle unix:s -c 2k", "idle unix:s --connections 2000"),
        ] {
            assert_eq!(parsed(&format!("muxbench {short}")), parsed(&format!("muxbench {long}")), "{short}");
        }
    }

    fn parsed(line: &str) -> String {
        format!("{:?}", Cli::try_parse_from(line.split(' ')).unwrap())
    }

    #[test]
    fn network_conditions_need_a_network_except_in_lab() {
        let error = Cli::try_parse_from("muxbench compare --delay 1ms".split(' ')).unwrap_err();
        assert!(error.to_string().contains("--network <NETWORK>"), "{error}");
        assert_eq!(parsed("muxbench lab --delay 1ms -- sh"), parsed("muxbench lab --network lab --delay 1ms -- sh"));
    }

    #[test]
    fn usage_is_that_of_the_command() {
        let mut tool = Cli::command();
        tool.build();
        for (name, usage) in [("load", "Usage: muxbench load "), ("other", "Usage: muxbench <COMMAND>")] {
            let error = clap::Error::raw(ErrorKind::MissingRequiredArgument, "a reason");
            let error = error.format(chosen(&mut tool, Some(name.into()))).to_string();
            assert!(error.contains(usage), "{error}");
        }
    }

    /// Returns the examples in the help of all commands.
    fn examples() -> Vec<Shown> {
        let all = Cli::command();
        let helps = all.get_subcommands().map(|command| (command.get_name(), command.get_after_help()));
        let with_prompts = |help: &StyledStr| {
            let line = |line: &str| match line.trim() {
                line if line.starts_with("muxbench ") || line.starts_with("sudo ") => format!("$ {line}\n"),
                line => format!("{line}\n"),
            };
            help.to_string().lines().map(line).collect::<String>()
        };
        let helps = helps.chain([("help", all.get_after_long_help())]);
        let found = helps.filter_map(|(name, help)| Some((name, with_prompts(help?))));
        found.flat_map(|(name, lines)| commands::of_text(name, &format!("```console\n{lines}```\n"))).collect()
    }

    #[test]
    fn commands_of_documents_and_help_are_valid() {
        let examples = examples();
        assert!(examples.len() > 50, "only {} examples", examples.len());
        let shown = commands::of_documents().unwrap().into_iter().chain(examples);
        let shown = shown.filter(|shown| shown.program == "muxbench");
        let shown: Vec<_> = shown.filter(|shown| !shown.arguments.is_empty()).collect();
        assert!(shown.len() > 100, "only {} commands are shown", shown.len());
        let mut command = Cli::command();
        for shown in shown {
            let Some(matches) = shown.parse(&mut command).unwrap_or_else(|error| panic!("{error}")) else { continue };
            let (name, matches) = matches.subcommand().unwrap();
            let conflict = conflict_with_resume(command.find_subcommand(name).unwrap(), matches);
            assert_eq!(conflict, None, "{}: {:?}", shown.source, shown.arguments);
        }
    }

    #[test]
    fn old_flag_names_are_aliases_of_the_new_ones() {
        for (old, new) in [
            ("compare --hold 1s --drain 2s", "compare --warm-up 1s --cool-down 2s"),
            ("compare --calls-per-connection 3 --choice zipf", "compare --requests-per-connection 3 --popularity zipf"),
            ("compare --work cpu=1us", "compare --simulated-work cpu=1us"),
            ("serve --work cpu=1us", "serve --simulated-work cpu=1us"),
            ("load --target unix:s --hold 1s --choice zipf", "load --target unix:s --warm-up 1s --popularity zipf"),
            ("run smoke --fleet --lost-rank end", "run smoke --distributed --lost-worker end"),
        ] {
            assert_eq!(parsed(&format!("muxbench {old}")), parsed(&format!("muxbench {new}")), "{old}");
        }
        assert!(Cli::try_parse_from("muxbench run smoke --fleet --lost-rank go-on".split(' ')).is_ok());
    }
}
