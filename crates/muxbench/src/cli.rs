//! The command line.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use wire::secret;

use crate::commands::{
    advise, atlas, calibrate, capacity, compare, docs, gate, idle, list, load, observe, overload, plan, reference,
    report, reproduce, run, schema, serve, sweep,
};
#[cfg(target_os = "linux")]
use crate::commands::{doctor, lab, relay};
use crate::options::command::Command as CommandRow;
use crate::options::format::FormatArgs;
use crate::options::{is_given, table};
use crate::{help, output};

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
  muxbench atlas                            # which one wins where?
  muxbench gate './a {port}' './b {port}' --service http --path / --allow-exec
  muxbench run experiments/kawai2008-http.toml --quick
  muxbench report                           # show the newest run again
  muxbench completions bash                 # shell completions
  muxbench man compare                      # a manual page

Values have units: 500us, 10ms, 30s or 2min (or 2m); 128B or 10KiB (or 10K). Rates are in requests per second: 2000, 8k or \
2000/s. A report has as many columns as the terminal, or 80 if its output is no terminal. The variable COLUMNS replaces this \
number. NO_COLOR=1 removes colours.

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
        let matches = command.try_get_matches_from_mut(env::args_os()).unwrap_or_else(|error| {
            with_remedy(without_secrets(error), chosen(&mut command, env::args_os().nth(1))).exit()
        });
        if let Some((name, matches)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand_mut(name)
            && let Some(error) = conflict(subcommand, matches)
        {
            subcommand.error(ErrorKind::ArgumentConflict, error).exit()
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

/// Conceals the secrets in the value that an error shows.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
        let redacted = secret::redact(value);
        error.insert(ContextKind::InvalidValue, ContextValue::String(redacted));
    }
    error
}

/// Replaces clap's tip, the flag with the most similar name, for a flag of another tool.
fn with_remedy(mut error: clap::Error, command: &mut clap::Command) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let has = |name| command.get_arguments().any(|arg| arg.get_id() == name);
    let is_meant = |row: &&table::Row| row.foreign.split(' ').any(|foreign| foreign == flag) && has(row.name);
    if let Some(row) = table::ROWS.iter().find(is_meant).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let usage = command.render_usage();
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![row.tip().into()]));
        // Clap's usage contains the suggested flag.
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
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
fn conflict(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    if !matches.try_contains_id("resume").unwrap_or(false) {
        return None;
    }
    let row = CommandRow::named(command.get_name());
    let format = FormatArgs::augment_args(clap::Command::default());
    let is_allowed = |arg: &&Arg| {
        let id = arg.get_id();
        row.is_some_and(|row| row.can_resume_with(id.as_str())) || format.get_arguments().any(|arg| arg.get_id() == id)
    };
    let (allowed, mut wrong): (Vec<_>, Vec<_>) = command.get_arguments().partition(is_allowed);
    wrong.retain(|arg| is_given(matches, arg.get_id().as_str()));
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
mod tests;
