//! The layout of help: `-h` fits a screen, and `--help` has everything.

use clap::{Arg, ArgAction, Command};

use crate::exit::{EVERY, Meaning};
use crate::options::command::Command as CommandRow;

/// The lowest and the highest number of columns.
const COLUMNS: (usize, usize) = (40, 100);
/// Lines of examples in `-h`.
const EXAMPLES: usize = 2;
/// The heading of the flag for help, if the command has it.
const RESULTS: &str = "Results";

/// Arranges the help of all commands within a number of columns.
pub fn arranged(command: Command, columns: usize) -> Command {
    let columns = columns.clamp(COLUMNS.0, COLUMNS.1);
    command.term_width(columns).mut_subcommands(|command| of_command(command).term_width(columns))
}

fn of_command(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_result = |arg: &Arg| arg.get_help_heading() == Some(RESULTS);
    let heading = command.get_arguments().any(is_result).then_some(RESULTS);
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help).help_heading(heading);
    let everything = format!("{examples}\n\n{}", exit_codes(&name));
    command
        .disable_help_flag(true)
        .arg(help.help("Print this summary, or everything with --help"))
        .after_help(summary(&name, &examples))
        .after_long_help(everything.trim_start().to_owned())
}

/// Lists the exit codes of a command for its help.
fn exit_codes(command: &str) -> String {
    let own = CommandRow::named(command).map_or(&[][..], |row| row.exits);
    let is_common = |(code, _): &&Meaning| own.iter().all(|(other, _)| other != code);
    let mut all: Vec<&Meaning> = EVERY.iter().filter(is_common).chain(own).collect();
    all.sort_by_key(|(code, _)| *code);
    let codes = all.into_iter().map(|(code, meaning)| format!("\n  {code:3}  {meaning}"));
    let of_child = if command == "lab" { "\n       otherwise the code of the command in the lab" } else { "" };
    format!("Exit codes:{}{of_child}", codes.collect::<String>())
}

/// Returns the first examples, and where the others are.
fn summary(name: &str, examples: &str) -> String {
    let examples = examples.find("Examples:").map_or("", |at| &examples[at..]);
    let lines = examples.lines().take(1 + EXAMPLES).map(|line| format!("{line}\n"));
    format!("{}All flags, examples and exit codes: muxbench {name} --help", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use harness::spec::{Phases, presets};

    use super::*;
    use crate::cli::Cli;
    use crate::options::given::Options;
    use crate::options::setup::GRID_CONNECTIONS;

    fn built(columns: usize) -> Command {
        let mut command = arranged(Cli::command(), columns);
        command.build();
        command
    }

    fn visible(command: &mut Command) -> impl Iterator<Item = &mut Command> {
        command.get_subcommands_mut().filter(|command| !command.is_hide_set())
    }

    #[test]
    fn short_help_fits_a_screen() {
        let mut command = built(80);
        command.clone().debug_assert();
        let mut texts = vec![command.render_help().to_string()];
        texts.extend(visible(&mut command).map(|command| command.render_help().to_string()));
        for text in texts {
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(text.trim_end().lines().count() <= 30 && widest <= Some(80), "{text}");
        }
    }

    #[test]
    fn long_help_has_every_flag_and_the_exit_codes() {
        for command in visible(&mut built(80)) {
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            let flags = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
            for flag in flags {
                assert!(long.contains(&format!("--{flag}")), "{flag}: {long}");
            }
            assert!(long.contains("Exit codes:\n    0  ") && short.contains("exit codes: muxbench "), "{long}");
        }
    }

    #[test]
    fn examples_have_at_most_80_columns() {
        let mut command = built(COLUMNS.1);
        let texts: Vec<String> = visible(&mut command).map(|command| command.render_long_help().to_string()).collect();
        for text in texts.iter().chain([&command.render_long_help().to_string()]) {
            let examples = text.lines().skip_while(|line| *line != "Examples:").take_while(|line| !line.is_empty());
            let wide: Vec<&str> = examples.filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{wide:#?}");
        }
    }

    #[test]
    fn flags_are_under_the_heading_of_their_topic() {
        let command = built(80);
        for (name, flag, heading) in [
            ("compare", "arch", "Servers"),
            ("compare", "accept", "Server settings"),
            ("compare", "active", "Load"),
            ("compare", "measure", "Load"),
            ("compare", "rate-profile", "Load"),
            ("compare", "folder", "HTTP"),
            ("compare", "pipeline", "Load"),
            ("load", "insecure", "Load"),
            ("compare", "until", "Trials"),
            ("compare", "seed", "Trials"),
            ("compare", "print_experiment", "Results"),
            ("sweep", "past", "Trials"),
            ("capacity", "p95", "Search"),
            ("load", "samples", "Results"),
            ("idle", "time", "Load"),
            ("report", "csv", "Results"),
        ] {
            let command = command.find_subcommand(name).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == flag).unwrap();
            assert_eq!(arg.get_help_heading(), Some(heading), "{name} --{flag}");
        }
        let without = |arg: &&Arg| arg.get_help_heading().is_none() && !arg.is_hide_set() && !arg.is_positional();
        for name in ["compare", "sweep", "capacity", "advise", "atlas", "overload", "gate", "load", "idle"] {
            let flags: Vec<_> = command.find_subcommand(name).unwrap().get_arguments().filter(without).collect();
            assert!(flags.is_empty(), "{name}: {flags:?}");
        }
    }

    #[test]
    fn shown_defaults_of_compare_are_those_of_its_preset() {
        let preset = presets::find("compare").unwrap().experiment();
        let Phases { ramp, warm_up, measure, cool_down, .. } = Options::defaults("compare").read("phases.").unwrap();
        let Phases { sessions, .. } = preset.phases;
        assert_eq!(Phases { ramp, warm_up, measure, sessions, cool_down }, preset.phases);
        let connections: Vec<u32> = Options::defaults("compare").list("connections");
        assert!(preset.workload.connections.0.iter().map(|it| it.get()).eq(connections));
        assert_eq!(Options::defaults("atlas").list::<u32>("connections"), GRID_CONNECTIONS);
    }
}
