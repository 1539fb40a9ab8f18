//! The hosts of several runs: their names in reports, and how they differ.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::run_diff::Difference;

/// The facts of a host, as a run stores them.
pub(crate) type Facts = BTreeMap<String, String>;

/// A host. The same machine with another kernel counts as another host.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NamedHost {
    /// The name of the host in reports: a letter, or a number after `Z`.
    pub(crate) letter: String,
    pub(crate) facts: Facts,
    /// Facts that differ from those of the first host.
    pub(crate) differences: Vec<Difference>,
}

/// Returns the index of a host among those that are known, and adds it if it is new.
pub(crate) fn place(known: &mut Vec<Facts>, facts: &Facts) -> usize {
    let is_same = |host: &Facts| harness::host::differences(host, facts).is_empty();
    known.iter().position(is_same).unwrap_or_else(|| {
        known.push(facts.clone());
        known.len() - 1
    })
}

/// Names hosts in this order. The first is `A`.
pub(crate) fn named(hosts: Vec<Facts>) -> Vec<NamedHost> {
    let first = hosts.first().cloned().unwrap_or_default();
    let host = |(at, facts)| NamedHost { letter: letter(at), differences: Difference::all(&first, &facts), facts };
    hosts.into_iter().enumerate().map(host).collect()
}

/// Returns `A` to `Z`, then numbers.
fn letter(at: usize) -> String {
    u8::try_from(at).ok().filter(|at| *at < 26).map_or_else(|| at.to_string(), |at| char::from(b'A' + at).to_string())
}

/// Returns a line for each host: its CPU and its system. Hosts after the first add their differences from the first.
pub(crate) fn about(hosts: &[NamedHost]) -> Vec<String> {
    let about = |(at, host): (usize, &NamedHost)| {
        let differences: Vec<String> =
            host.differences.iter().map(|it| format!("{} {} (A: {})", it.fact, it.b, it.a)).collect();
        let differ = if at == 0 { String::new() } else { format!(". Differs from A in: {}", differences.join("; ")) };
        let system = harness::host::system(&host.facts).unwrap_or_else(|| "unknown system".into());
        let cpu = host.facts.get("cpu").map_or("unknown", String::as_str);
        format!("Host {}: {cpu}, {system}{differ}.", host.letter)
    };
    hosts.iter().enumerate().map(about).collect()
}
