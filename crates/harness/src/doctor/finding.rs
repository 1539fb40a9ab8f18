//! The data of the doctor: the input of the checks, and their results.

use schemars::JsonSchema;
use serde::Serialize;

use super::noise::Noise;
use crate::exec::leftovers::Leftover;
use crate::host::Host;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diagnosis {
    /// The check's name.
    pub name: String,
    /// The value found on this host, for the reader.
    pub value: String,
    /// The assessment of the value.
    pub severity: Severity,
    /// The effect of a bad value on results.
    pub effect: String,
    /// A command (lower case) or a sentence (capitalised). Empty if there is nothing to do.
    pub remedy: String,
}

/// The assessment of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good, or without effect.
    Good,
    /// Disturbs results, or limits the possible measurements.
    Warning,
    /// Not reported by the host.
    Unknown,
}

/// The input of the checks. Plain data, so that tests can construct it.
#[derive(Clone, Debug)]
pub struct HostSnapshot {
    /// Limits, CPUs, facts.
    pub host: Host,
    /// The load of other programs.
    pub noise: Noise,
    /// Processes and folders left behind by killed runs.
    pub leftovers: Vec<Leftover>,
}

impl HostSnapshot {
    /// Returns a fact, unless it is missing or empty.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.host.facts.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Tests whether this host is a virtual machine. Its hypervisor hides much of the machine.
    pub fn is_virtual(&self) -> bool {
        self.fact("hypervisor") == Some("true")
    }
}
