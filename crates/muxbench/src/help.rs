//! The layout of help: `-h` fits a screen, and `--help` has everything.

use clap::{Arg, ArgAction, Command};

use crate::{exit, refused_flags};

/// The lowest and the highest number of columns.
const COLUMNS: (usize, usize) = (40, 100);
/// Lines of examples in `-h`.
const EXAMPLES: usize = 2;
/// The heading of the flag for help, if the command has it.
const RESULTS: &str = "Results";

/// The flags in `-h` of the commands with many flags. Other commands show all flags.
const SHORT: &[(&str, &[&str])] = &[
    (
        "compare",
        &[
            "arch",
            "target",
            "rate",
            "connections",
            "service",
            "request",
            "response",
            "measure",
            "until",
            "json",
            "explain",
            "resume",
        ],
    ),
    (
        "sweep",
        &[
            "arch",
            "target",
            "rate",
            "connections",
            "service",
            "request",
            "response",
            "measure",
            "past",
            "csv",
            "json",
            "resume",
        ],
    ),
    (
        "capacity",
        &[
            "p50",
            "p99",
            "p999",
            "time_max",
            "arch",
            "target",
            "connections",
            "service",
            "request",
            "response",
            "json",
            "resume",
        ],
    ),
    (
        "overload",
        &["capacity", "pulse", "p99", "arch", "target", "connections", "request_timeout", "retries", "json", "resume"],
    ),
    (
        "advise",
        &[
            "objective",
            "limit",
            "budget",
            "rate",
            "connections",
            "arch",
            "target",
            "exec",
            "allow_exec",
            "json",
            "resume",
        ],
    ),
    ("atlas", &["objective", "budget", "merge", "rate", "connections", "response", "arch", "json", "resume"]),
    ("gate", &["limit", "budget", "rate", "connections", "exec", "allow_exec", "history", "json"]),
    (
        "load",
        &[
            "rate",
            "profile",
            "trace",
            "connections",
            "measure",
            "method",
            "header",
            "body",
            "cacert",
            "insecure",
            "samples",
            "json",
        ],
    ),
    ("run", &["quick", "output", "resume", "allow_exec", "strict", "explain", "json", "quiet", "distributed"]),
    ("plan", &["quick", "hosts", "from", "json", "schema"]),
    ("serve", &["arch", "service", "ports", "request", "response", "folder", "listen", "cpus", "json"]),
    ("idle", &["connections", "service", "time", "json"]),
    ("observe", &["port", "pid", "pcap", "duration", "output", "json"]),
    ("calibrate", &["hold", "law", "rounds", "transport", "connections", "rate", "measure", "strict", "json"]),
    ("lab", &["network", "delay", "jitter", "loss", "bandwidth"]),
];

/// Defaults that differ between commands with the same flag.
const DEFAULTS: &[(&str, &[(&str, &str)])] = &[
    (
        "compare",
        &[
            ("connections", "400"),
            ("ramp", "100ms"),
            ("warm_up", "100ms"),
            ("measure", "300ms"),
            ("cool_down", "100ms"),
        ],
    ),
    (
        "sweep",
        &[("connections", "400"), ("ramp", "200ms"), ("warm_up", "300ms"), ("measure", "2s"), ("cool_down", "1s")],
    ),
    (
        "capacity",
        &[("connections", "400"), ("ramp", "200ms"), ("warm_up", "300ms"), ("measure", "1s"), ("cool_down", "1s")],
    ),
    (
        "advise",
        &[
            ("connections", "400"),
            ("ramp", "50ms"),
            ("warm_up", "100ms"),
            ("measure", "from --budget"),
            ("cool_down", "1s"),
        ],
    ),
    (
        "atlas",
        &[
            ("connections", "50,400,2000"),
            ("ramp", "50ms"),
            ("warm_up", "100ms"),
            ("measure", "from --budget"),
            ("cool_down", "1s"),
        ],
    ),
    (
        "overload",
        &[("connections", "400"), ("ramp", "200ms"), ("warm_up", "300ms"), ("measure", "1s"), ("cool_down", "1s")],
    ),
    (
        "gate",
        &[("connections", "400"), ("ramp", "100ms"), ("warm_up", "200ms"), ("measure", "1500ms"), ("cool_down", "1s")],
    ),
    ("load", &[("connections", "400"), ("ramp", "1s"), ("warm_up", "1s"), ("measure", "5s"), ("cool_down", "2s")]),
];

/// Arranges the help of all commands within a number of columns.
pub fn arranged(command: Command, columns: usize) -> Command {
    let columns = columns.clamp(COLUMNS.0, COLUMNS.1);
    command.term_width(columns).mut_subcommands(|command| of_command(command).term_width(columns))
}

fn of_command(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let short = SHORT.iter().find(|(command, _)| *command == name).map(|(_, flags)| *flags);
    let defaults = DEFAULTS.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, defaults)| *defaults);
    let is_refused = |arg: &Arg| refused_flags::of(&name).any(|(id, _)| arg.get_id() == id);
    let is_result = |arg: &Arg| arg.get_help_heading() == Some(RESULTS);
    let heading = command.get_arguments().any(is_result).then_some(RESULTS);
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help).help_heading(heading);
    let everything = format!("{examples}\n\n{}", exit::described(&name));
    command
        .mut_args(|arg| {
            let is_hidden = arg.is_hide_set() || is_refused(&arg);
            of_arg(arg, short, defaults).hide(is_hidden)
        })
        .disable_help_flag(true)
        .arg(help.help("Print this summary, or everything with --help"))
        .after_help(summary(&name, &examples))
        .after_long_help(everything.trim_start().to_owned())
}

fn of_arg(arg: Arg, short: Option<&[&str]>, defaults: &[(&str, &str)]) -> Arg {
    let id = arg.get_id().to_string();
    let is_short = arg.is_positional() || short.is_none_or(|short| short.contains(&&*id));
    let arg = arg.hide_short_help(!is_short);
    let Some((_, default)) = defaults.iter().find(|(flag, _)| *flag == id) else { return arg };
    let text = |of: Option<&clap::builder::StyledStr>| of.map(ToString::to_string).unwrap_or_default();
    let (short, long) = (text(arg.get_help()), text(arg.get_long_help()));
    let rest = long.strip_prefix(&short).unwrap_or_default();
    let short = format!("{short} [default: {default}]");
    let long = format!("{short}{rest}");
    arg.help(short).long_help(long)
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
    use harness::spec::presets;

    use super::*;
    use crate::cli::Cli;
    use crate::commands::{capacity, load, overload, sweep};
    use crate::options::setup::{GRID_CONNECTIONS, PHASES_OF_BUILDS, PHASES_OF_RACE, phases_of_rates};

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
            ("compare", "profile", "Load"),
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
    fn lists_name_existing_flags() {
        let command = built(80);
        let defaults =
            DEFAULTS.iter().map(|(name, flags)| (name, flags.iter().map(|(flag, _)| *flag).collect::<Vec<_>>()));
        for (name, flags) in SHORT.iter().map(|(name, flags)| (name, flags.to_vec())).chain(defaults) {
            let command = command.find_subcommand(name).unwrap();
            let has = |flag: &&str| command.get_arguments().any(|arg| arg.get_id() == flag);
            assert!(flags.iter().all(has), "{name}: {flags:?}");
        }
    }

    #[test]
    fn shown_defaults_are_those_of_the_commands() {
        let compare = presets::find("compare").unwrap().experiment();
        let connections: Vec<String> = compare.workload.connections.0.iter().map(ToString::to_string).collect();
        let phases = [
            ("compare", compare.phases),
            ("sweep", phases_of_rates(sweep::MEASURE)),
            ("capacity", phases_of_rates(capacity::MEASURE)),
            ("advise", PHASES_OF_RACE),
            ("atlas", PHASES_OF_RACE),
            ("overload", phases_of_rates(overload::MEASURE)),
            ("gate", PHASES_OF_BUILDS),
            ("load", load::PHASES),
        ];
        for ((command, flags), (of, phases)) in DEFAULTS.iter().zip(phases) {
            assert_eq!(*command, of);
            let connections = match of {
                "compare" => connections.join(","),
                "atlas" => GRID_CONNECTIONS.map(|it| it.to_string()).join(","),
                _ => connections[0].clone(),
            };
            let measure = match of {
                "advise" | "atlas" => "from --budget".to_owned(),
                _ => phases.measure.to_string(),
            };
            let expected = [
                ("connections", connections),
                ("ramp", phases.ramp.to_string()),
                ("warm_up", phases.warm_up.to_string()),
                ("measure", measure),
                ("cool_down", phases.cool_down.to_string()),
            ];
            let shown: Vec<_> = flags.iter().map(|(flag, default)| (*flag, (*default).to_owned())).collect();
            assert_eq!(shown, expected, "{command}");
        }
    }
}
