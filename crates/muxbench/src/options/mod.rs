//! Groups of flags that several commands share.

pub mod command;
pub mod execution;
pub mod experiment;
pub mod format;
pub mod given;
pub mod objective;
mod row;
pub mod search;
pub mod servers;
pub mod setup;
pub mod table;
pub mod target;

use clap::ArgMatches;
use clap::parser::ValueSource;
use harness::spec::OneOrMany;
use wire::names;

/// Whether the user gave an argument of a command.
pub fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Parses a name as experiment files spell it. The error lists the valid names, and suggests one.
pub fn named<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error: serde_json::Error| names::with_suggestion(&error.to_string()))
}

/// Parses the words after the name of a command.
#[cfg(test)]
pub fn parsed<A: clap::Args>(command: &'static str, line: &str) -> A {
    let command = A::augment_args(clap::Command::new(command).no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace());
    matches.and_then(|matches| A::from_arg_matches(&matches)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Overwrites a setting if the user gave its flag.
pub fn set<P: From<T>, T>(setting: &mut P, flag: Option<T>) {
    if let Some(value) = flag {
        *setting = value.into();
    }
}

/// Returns the first value that equals an earlier one.
pub fn repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)).map(|(_, value)| value)
}

/// Overwrites a list if the user gave values for its flag.
pub fn set_list<T: Clone>(setting: &mut OneOrMany<T>, values: &[T]) {
    if !values.is_empty() {
        setting.0 = values.to_vec();
    }
}
