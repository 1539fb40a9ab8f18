//! The servers under comparison: built-in architectures, and external servers with a name from the experiment.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use server::Architecture;

/// The prefix of the name of an external server.
const PREFIX: &str = "exec:";

/// A server under comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A built-in architecture.
    Ours(Architecture),
    /// `exec:NAME`: the command of the table `[exec.NAME]`.
    Exec(String),
}

impl Candidate {
    /// Returns the architecture of a built-in server.
    pub fn ours(&self) -> Option<Architecture> {
        match self {
            Self::Ours(architecture) => Some(*architecture),
            Self::Exec(_) => None,
        }
    }
}

impl From<Architecture> for Candidate {
    fn from(architecture: Architecture) -> Self {
        Self::Ours(architecture)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(architecture) => architecture.fmt(f),
            Self::Exec(name) => f.pad(&format!("{PREFIX}{name}")),
        }
    }
}

impl FromStr for Candidate {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.strip_prefix(PREFIX) {
            None if name == "exec" => {
                Err("`exec` does not name a command; write exec:NAME, and add a table [exec.NAME]".into())
            }
            None => name.parse::<Architecture>().map(Self::Ours).map_err(|error| error.to_string()),
            Some(exec) => check_name(exec).map(|()| Self::Exec(exec.to_owned())),
        }
    }
}

/// Checks the name of an external server.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_word(name) {
        return Ok(());
    }
    Err(format!("invalid name `{PREFIX}{name}`: expected letters, digits, `-`, `_` and `.`, as in exec:go"))
}

/// Tests whether a name has only letters, digits, `-`, `_` and `.`.
pub(super) fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

impl Serialize for Candidate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Candidate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_read_back_and_invalid_ones_fail() {
        for name in ["epoll", "mt-pool:64", "exec:go", "exec:java-nio"] {
            assert_eq!(name.parse::<Candidate>().unwrap().to_string(), name);
        }
        for (name, word) in [("exec", "exec:NAME"), ("exec:", "letters"), ("exec:a/b", "letters"), ("epol", "known: ")]
        {
            let error = name.parse::<Candidate>().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
