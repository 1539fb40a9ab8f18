//! Settings of a trial, apart from its traffic. Figures with different settings belong to different trends, and a comparison of two
//! runs lists the differences.

use std::collections::{BTreeMap, BTreeSet};

use harness::record::{RunHeader, Trial};
use serde::Serialize;
use serde_json::Value;

/// Settings by name, such as `client clock`.
pub(super) type Settings = BTreeMap<String, String>;

/// Server settings that affect results and belong to neither traffic nor architecture.
const SERVE: [&str; 3] = ["cpus", "limits", "stage_cpus"];
/// Client settings that affect results.
const CLIENT: [&str; 6] = ["clients", "clock", "cpus", "pacing", "roles", "timestamps"];

/// The name of the setting with the address of a target.
pub(super) const URL: &str = "server url";

/// Returns the settings of trials in a row: whether any of them was interleaved, and all else from the first one.
pub(super) fn of(header: &RunHeader, trials: &[&Trial]) -> Settings {
    let Some(&trial) = trials.first() else { return Settings::new() };
    let (serve, client) = (&trial.serve, &trial.client);
    let options = match trial.unusual_options().as_slice() {
        [] => "default".to_owned(),
        options => options.join(", "),
    };
    let is_interleaved = trials.iter().any(|it| it.client.slices.is_some());
    let idle = if header.idle_cpus_poll { "poll" } else { "sleep" };
    let others = [
        ("client processes", Some(client.processes.to_string())),
        ("idle CPUs", Some(idle.to_owned())),
        ("interleaved", Some(is_interleaved.to_string())),
        ("server count syscalls", serve.ours().map(|it| it.count_syscalls.to_string())),
        ("server options", Some(options)),
        (URL, serve.target().map(|it| it.url.clone())),
    ];
    let others = others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    named("server", serve, &SERVE).into_iter().chain(named("client", client, &CLIENT)).chain(others).collect()
}

/// Returns the settings of `config` with these names, and prefixes each name with `side`.
fn named(side: &'static str, config: &impl Serialize, names: &'static [&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(all)) = serde_json::to_value(config) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let one = |name: &&str| Some((format!("{side} {}", name.replace('_', " ")), text(all.get(*name)?)));
    names.iter().filter_map(one).collect()
}

/// Returns the names of the settings in which any of `others` differs.
pub(super) fn differing<'a>(settings: &Settings, others: impl Iterator<Item = &'a Settings>) -> BTreeSet<String> {
    others.flat_map(|other| harness::host::differences(settings, other)).map(|(name, ..)| name).collect()
}

/// Lists the settings with these names.
pub(super) fn words(settings: &Settings, names: &BTreeSet<&String>) -> String {
    let value = |name: &&String| settings.get(*name).map_or("not set", String::as_str);
    names.iter().map(|name| format!(", {name}: {}", value(name))).collect()
}
