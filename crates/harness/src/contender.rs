//! What is compared: architectures of ours, and commands of somebody else's by the names that an experiment gives them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use server::{Architecture, ExternalConfig, ServerSpec};

use crate::record::Trial;

/// What a name of somebody else's server begins with.
const PREFIX: &str = "exec:";

/// A server that is compared, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// One of ours.
    Ours(Architecture),
    /// `exec:NAME`: the command of the table `[exec.NAME]`.
    Exec(String),
}

impl Contender {
    /// It, if it is ours.
    pub fn ours(&self) -> Option<Architecture> {
        match self {
            Self::Ours(architecture) => Some(*architecture),
            Self::Exec(_) => None,
        }
    }
}

impl From<Architecture> for Contender {
    fn from(architecture: Architecture) -> Self {
        Self::Ours(architecture)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(architecture) => architecture.fmt(f),
            Self::Exec(name) => f.pad(&format!("{PREFIX}{name}")),
        }
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.strip_prefix(PREFIX) {
            None if name == "exec" => {
                Err("`exec` alone names no command; write exec:NAME and a table [exec.NAME]".into())
            }
            None => name
                .parse()
                .map(Self::Ours)
                .map_err(|error: server::architecture::UnknownArchitecture| error.to_string()),
            Some(exec) => check_name(exec).map(|()| Self::Exec(exec.to_owned())),
        }
    }
}

/// Whether a command can be called so.
///
/// # Errors
/// Why not, and what can be.
pub fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(good) {
        return Err(format!("`{PREFIX}{name}` is no name of a command; use letters, digits and `-`, as in exec:go"));
    }
    Ok(())
}

impl Serialize for Contender {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Contender {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The commands that trials start, each once, as `exec:NAME: COMMAND`, with its folder and what is put into its environment.
pub fn commands<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for trial in trials {
        let ServerSpec::External(exec) = &trial.serve else { continue };
        let line = format!("{}: {}", trial.architecture, line(exec));
        if !commands.contains(&line) {
            commands.push(line);
        }
    }
    commands.sort();
    commands
}

/// As one would write it in a shell, though none is asked.
fn line(exec: &ExternalConfig) -> String {
    let mut words: Vec<String> =
        exec.environment.iter().map(|(name, value)| quoted(&format!("{name}={value}"))).collect();
    words.extend(exec.command.iter().map(|argument| quoted(argument)));
    let line = words.join(" ");
    match &exec.directory {
        Some(directory) => format!("{line} (in {})", quoted(&directory.to_string_lossy())),
        None => line,
    }
}

/// In quotes, if it has anything in it that would not show, or not stay together. Escapes keep a terminal from obeying it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("{word:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_bad_ones_say_why() {
        for name in ["epoll", "mt-pool:64", "exec:go", "exec:java-nio"] {
            assert_eq!(name.parse::<Contender>().unwrap().to_string(), name);
        }
        for (name, word) in [("exec", "exec:NAME"), ("exec:", "letters"), ("exec:a/b", "letters"), ("epol", "known: ")]
        {
            let error = name.parse::<Contender>().unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_command_is_shown_so_that_nothing_hides() {
        let exec = ExternalConfig {
            command: ["serve it", "{port}", "a\u{1b}[2Jb", ""].map(Into::into).into(),
            directory: Some("/srv".into()),
            environment: [("A".to_owned(), "1".to_owned())].into(),
            listen: ([127, 0, 0, 1], 0).into(),
            request_bytes: Some(1),
            response_bytes: Some(1),
            cpus: Vec::new(),
            start_timeout_ns: 1,
        };
        assert_eq!(line(&exec), r#"A=1 "serve it" {port} "a\u{1b}[2Jb" "" (in /srv)"#);
        let hidden = ExternalConfig { directory: Some("/srv\u{1b}[8m".into()), ..exec };
        assert!(line(&hidden).ends_with(r#"(in "/srv\u{1b}[8m")"#), "{}", line(&hidden));
    }

    #[test]
    fn what_is_planned_of_either_reads_back_and_ours_as_it_ever_was() {
        let text = "name = \"x\"\narchitectures = [\"epoll\", \"exec:it\"]\n\
                    [exec.it]\ncommand = [\"sh\", \"{port}\"]\nenvironment = { PORT = \"{port}\" }\n\
                    [workload]\nconnections = 1\nrate = 1\nrequest = \"1B\"\nresponse = \"2B\"\n\
                    [phases]\nramp = \"0\"\nhold = \"0\"\nmeasure = \"1s\"\n";
        let experiment = crate::experiment::Experiment::parse(text, "x.toml").unwrap();
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(crate::experiment::Experiment::parse(&again, "again").unwrap(), experiment);
        let plan = crate::plan::plan(&experiment, &crate::host::Host::this()).unwrap();
        assert_eq!(commands(&plan.trials), ["exec:it: PORT={port} sh {port}"]);
        for trial in &plan.trials {
            let stored = serde_json::to_value(trial).unwrap();
            assert_eq!(serde_json::from_value::<Trial>(stored.clone()).unwrap(), *trial);
            // Before there were other transports.
            let mut old = stored.clone();
            old["load"]["transport"] = "tcp".into();
            assert_eq!(old["load"]["target"], "127.0.0.1:0");
            old["workload"].as_object_mut().unwrap().remove("transport").unwrap();
            if trial.serve.ours().is_none() {
                old["serve"].as_object_mut().unwrap().remove("listen").unwrap();
            }
            assert_eq!(serde_json::from_value::<Trial>(old).unwrap(), *trial);
            if let ServerSpec::Ours(config) = &trial.serve {
                // Runs of before there were others have this and no more.
                assert_eq!(stored["serve"], serde_json::to_value(config).unwrap());
            }
        }
    }
}
