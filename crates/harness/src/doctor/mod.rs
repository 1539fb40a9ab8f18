//! What of this host disturbs results, how, and what mends it.
//!
//! Most of it are the facts that are stored with every run ([`crate::host`]); what others do at the moment takes a second
//! to hear ([`noise`]), too long for planning, and is of the moment.
//!
//! # Layout
//! - [`checks`]: the table; a new check is a row there
//! - [`noise`]: load of others, pauses, steal
//! - [`leftovers`]: what runs that were killed have left

pub mod checks;
pub mod leftovers;
pub mod noise;

use std::time::Duration;

use serde::Serialize;

use crate::host::{self, Host};
use checks::CHECKS;
use leftovers::Leftover;
use noise::Noise;

/// How long the kernel may take to begin to stamp packets, on a busy host.
const STAMPS_PATIENCE: Duration = Duration::from_millis(300);

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: String,
    /// What it is here, for the reader.
    pub value: String,
    /// What to make of it.
    pub state: State,
    /// What it does to results.
    pub effect: String,
    /// The command that mends it, or else a sentence that says what to do, which alone begins with a capital; empty when
    /// there is nothing to do.
    pub remedy: String,
}

/// What to make of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be, or without effect.
    Good,
    /// It disturbs results or limits what can be measured.
    Beware,
    /// The host does not say.
    Unknown,
}

/// All that checks look at. Plain data, so that tests can make one up.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Limits, CPUs, facts.
    pub host: Host,
    /// What was heard.
    pub noise: Noise,
    /// What runs that were killed have left.
    pub left: Vec<Leftover>,
}

impl Sight {
    /// Of this host; takes somewhat more than a second.
    pub fn this() -> Self {
        let mut host = Host::this();
        host.facts.insert("kernel timestamps".into(), host::kernel_timestamps(STAMPS_PATIENCE));
        let counts =
            server::tracepoints::can_count().map_or_else(|reason| format!("refused: {reason}"), |()| "allowed".into());
        host.facts.insert("system calls from outside".into(), counts);
        let noise = noise::listen(&host.cores.concat());
        Self { host, noise, left: leftovers::find() }
    }

    /// A fact, unless it is missing or empty.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.host.facts.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a hypervisor is below us, which hides much of the machine.
    pub fn is_virtual(&self) -> bool {
        self.fact("hypervisor") == Some("true")
    }
}

/// Examines this host; takes somewhat more than a second, during which it is better left alone.
pub fn examine() -> Vec<Finding> {
    findings(&Sight::this())
}

/// What the checks make of `sight`, in the order of the table.
pub fn findings(sight: &Sight) -> Vec<Finding> {
    CHECKS.iter().map(|row| row.finding(sight)).collect()
}
