//! The servers under comparison: built-in architectures, and external servers and targets with a name from the experiment.

use std::fmt;
use std::str::FromStr;

use server::Architecture;

/// The kinds of servers that a table of the experiment defines. Each is the table and the prefix of the server's name.
const EXEC: &str = "exec";
const TARGET: &str = "target";

/// The name of a target without one, as in `muxbench load URL`. Only its address tells it from others.
pub const UNNAMED_TARGET: &str = "server";

/// A server under comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A built-in architecture.
    Ours(Architecture),
    /// `exec:NAME`: the command of the table `[exec.NAME]`.
    Exec(String),
    /// `target:NAME`: the running server of the table `[target.NAME]`.
    Target(String),
}

impl Candidate {
    /// Whether the server is a target without a name of its own.
    pub fn is_unnamed(&self) -> bool {
        matches!(self, Self::Target(name) if name == UNNAMED_TARGET)
    }

    /// Returns the architecture of a built-in server.
    pub fn ours(&self) -> Option<Architecture> {
        match self {
            Self::Ours(architecture) => Some(*architecture),
            Self::Exec(_) | Self::Target(_) => None,
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
            Self::Exec(name) => f.pad(&format!("{EXEC}:{name}")),
            Self::Target(name) => f.pad(&format!("{TARGET}:{name}")),
        }
    }
}

impl FromStr for Candidate {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.split_once(':').unwrap_or((name, "")) {
            (kind @ (EXEC | TARGET), "") if kind == name => {
                Err(format!("`{kind}` does not name a server; write {kind}:NAME, and add a table [{kind}.NAME]"))
            }
            (EXEC, exec) => check_name(exec).map(|()| Self::Exec(exec.to_owned())),
            (TARGET, target) => check_name(target).map(|()| Self::Target(target.to_owned())),
            _ => name.parse::<Architecture>().map(Self::Ours).map_err(|error| error.to_string()),
        }
    }
}

/// Checks the name of an external server or of a target.
pub fn check_name(name: &str) -> Result<(), String> {
    if is_word(name) {
        return Ok(());
    }
    Err(format!("invalid name `{name}`: expected letters, digits, `-`, `_` and `.`, as in nginx-1.26"))
}

/// Tests whether a name has only letters, digits, `-`, `_` and `.`.
pub(super) fn is_word(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

wire::serde_as_text!(Candidate);
wire::schema_as!(Candidate, "Candidate", String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_read_back_and_invalid_ones_fail() {
        for name in ["epoll", "mt-pool:64", "exec:go", "exec:java-nio", "target:nginx-1.26"] {
            assert_eq!(name.parse::<Candidate>().unwrap().to_string(), name);
        }
        for (name, word) in [
            ("exec", "exec:NAME"),
            ("exec:", "letters"),
            ("exec:a/b", "letters"),
            ("target", "[target.NAME]"),
            ("target:a b", "letters"),
            ("epol", "did you mean `epoll`?"),
            ("nginx", "known: "),
        ] {
            let error = name.parse::<Candidate>().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
