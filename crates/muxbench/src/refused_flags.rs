//! Flags of a shared group that have no meaning for one of its commands. Help does not show them.

use clap::ArgMatches;
use clap::parser::ValueSource;

const COMPARABLE: &str =
    "compares trials under one load, and these trials differ in load; try `muxbench compare --explain`";
const RACE: &str = "a race tells noise from differences without it; omit it";
const NO_LIMIT: &str = "a calibration waits for all responses; omit it";

/// The refused flags of commands, each with the reason and the remedy.
const REFUSED_FLAGS: &[(&str, &[(&str, &str)])] = &[
    ("capacity", &[("explain", COMPARABLE)]),
    ("overload", &[("explain", COMPARABLE)]),
    (
        "advise",
        &[
            ("placebo", RACE),
            ("distributed", "a race runs on this host; omit it, or try `muxbench compare --distributed`"),
            ("lost_worker", "a race runs on this host; omit it"),
        ],
    ),
    ("atlas", &[("placebo", RACE)]),
    (
        "gate",
        &[
            ("placebo", "a gate has two builds; to see the noise, give the same build twice"),
            ("arch", "a gate compares OLD with NEW; omit it"),
        ],
    ),
    (
        "calibrate",
        &[
            ("request_timeout", NO_LIMIT),
            ("retries", NO_LIMIT),
            ("retry_budget", NO_LIMIT),
            ("shared", "the calibration server polls all the time, so each side needs CPUs of its own; omit it"),
        ],
    ),
];

/// The refused flags of a command, each with the reason and the remedy.
pub fn of(command: &str) -> &'static [(&'static str, &'static str)] {
    REFUSED_FLAGS.iter().find(|(name, _)| *name == command).map_or(&[], |(_, flags)| flags)
}

/// Returns an error for the first refused flag of a command that the user gave.
pub fn error(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let (id, reason) = of(command.get_name()).iter().find(|(id, _)| is_given(id))?;
    let flag = command.get_arguments().find(|arg| arg.get_id() == id)?.get_long()?;
    Some(format!("--{flag}: {reason}"))
}
