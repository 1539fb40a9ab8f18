//! Settings of a measurement, apart from its traffic. Figures with different settings belong to different trends.

use std::collections::{BTreeMap, BTreeSet};

use harness::model::Trial;
use serde::Serialize;
use serde_json::Value;

/// Settings by name, such as `client clock`.
pub(super) type Settings = BTreeMap<String, String>;

/// Server settings that affect results and belong to neither traffic nor architecture.
const SERVE: [&str; 4] = ["count_syscalls", "cpus", "limits", "stage_cpus"];
/// Client settings that affect results.
const LOAD: [&str; 7] = ["clients", "clock", "cpus", "pacing", "processes", "roles", "timestamps"];

/// Returns the settings of a trial.
pub(super) fn of(trial: &Trial) -> Settings {
    let serve = named("server", trial.serve.ours(), &SERVE);
    serve.into_iter().chain(named("client", Some(&trial.load), &LOAD)).collect()
}

/// Returns the settings of `config` with these names, and prefixes each name with `side`.
fn named(side: &'static str, config: Option<&impl Serialize>, names: &'static [&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(all)) = serde_json::to_value(config) else { return Vec::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let one = |name: &&str| Some((format!("{side} {}", name.replace('_', " ")), text(all.get(*name)?)));
    names.iter().filter_map(one).collect()
}

/// Lists the settings in which any of `others` differs, with their values in `settings`.
pub(super) fn words(settings: &Settings, others: &[&Settings]) -> String {
    let differences = others.iter().flat_map(|other| harness::host::differences(settings, other));
    let names: BTreeSet<String> = differences.map(|(name, ..)| name).collect();
    let value = |name: &String| settings.get(name).map_or("not set", String::as_str);
    names.iter().map(|name| format!(", {name}: {}", value(name))).collect()
}
