//! `muxbench schema`: JSON Schemas (draft 2020-12) of what `--json` prints, generated from the printed types.

use std::collections::BTreeMap;

use clap::builder::PossibleValuesParser;
use harness::calibration::Calibration;
use harness::plan::Plan;
use harness::plan::needs::Needs;
use load::tools::idle::IdleResult;
use papers::PaperExport;
use report::analysis::deviation::Deviations;
use report::analysis::gate_history::GateHistory;
use report::analysis::history::History;
use report::export::json::RunExport;
use report::{AdviceReport, Atlas, GateReport, RunDiff};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use server::metrics::counters::Totals;

use crate::commands::{list, load as load_command, observe};
use crate::output;

/// Each schema: its name, the commands that print such JSON, and its generator.
pub const SCHEMAS: &[(&str, &str, fn() -> Schema)] = &[
    ("run", "compare, sweep, capacity, overload, run, report RUN, load of several workloads", of::<RunExport<'static>>),
    ("advice", "advise", of::<AdviceReport>),
    ("atlas", "atlas", of::<Atlas>),
    ("calibration", "calibrate", of::<Calibration>),
    #[cfg(target_os = "linux")]
    ("doctor", "doctor", of::<Vec<harness::doctor::checks::Diagnosis>>),
    ("gate", "gate", of::<GateReport>),
    ("gate-history", "report FILE of gates", of::<GateHistory>),
    ("history", "report FOLDER of runs", of::<History>),
    ("idle", "idle", of::<IdleResult>),
    ("list", "list", of::<BTreeMap<String, Vec<list::Row>>>),
    ("load", "load of one workload", of::<load_command::Loaded<'static>>),
    ("needs", "plan --hosts", of::<Needs>),
    ("observation", "observe", of::<observe::Observed<'static>>),
    ("paper", "reproduce, report RUN --paper", of::<PaperExport<'static>>),
    ("plan", "plan", of::<Plan>),
    ("run-diff", "report RUN RUN", of::<RunDiff>),
    ("send-deviation", "report RUN --send-deviation", of::<Deviations>),
    ("serve", "serve: each line", of::<server::control::ServerEvent>),
    ("totals", "serve without --json, as it ends", of::<Totals>),
];

/// Print the JSON Schema of what a command prints with --json
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  muxbench schema                 # the names, and the commands that print such JSON
  muxbench schema run > run.schema.json"
)]
pub struct Args {
    /// Name of the schema
    #[arg(value_parser = PossibleValuesParser::new(SCHEMAS.iter().map(|row| row.0)), hide_possible_values = true)]
    name: Option<String>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    match SCHEMAS.iter().find(|row| args.name.as_deref() == Some(row.0)) {
        Some((_, _, generate)) => output::print_json(&generate().to_value()),
        None => output::print(&SCHEMAS.iter().map(|row| format!("{:16}{}\n", row.0, row.1)).collect::<String>()),
    }
}

/// Generates the schema of a type as it is written: fields that may be left out are not required.
fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::BTreeSet;

    use harness::record::Run;
    use harness::spec::Experiment;
    use harness::store;
    use report::analysis::FORMAT;
    use serde_json::Value;
    use traffic::samples;

    use super::*;

    /// Adds the names that JSON of this schema may have: keys, with `?` if they may be absent, and words.
    fn add_names(schema: &Value, names: &mut BTreeSet<String>) {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (key, value) in schema.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("$defs" | "default" | "examples", _) => {}
                ("properties", Value::Object(properties)) => {
                    let mark = |key: &String| if required.contains(&key.as_str().into()) { "" } else { "?" };
                    names.extend(properties.keys().map(|key| format!("{key}{}", mark(key))));
                    properties.values().for_each(|value| add_names(value, names));
                }
                ("enum", Value::Array(words)) => {
                    names.extend(words.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                ("const", Value::String(word)) => drop(names.insert(word.clone())),
                (_, Value::Array(parts)) => parts.iter().for_each(|part| add_names(part, names)),
                (_, Value::Object(_)) => add_names(value, names),
                _ => {}
            }
        }
    }

    /// All names of stored and printed data. Who changes one raises the version of its format.
    #[test]
    fn names_of_formats_match_their_snapshot() {
        let mut schemas: Vec<(&str, Value)> =
            SCHEMAS.iter().map(|(name, _, generate)| (*name, generate().to_value())).collect();
        schemas.push(("run.json and records", of::<Run>().to_value()));
        schemas.push(("experiment", Experiment::schema()));
        let mut lines = BTreeSet::new();
        for (name, schema) in &schemas {
            let types = schema["$defs"].as_object().into_iter().flatten();
            for (name, schema) in types.chain([(&format!("({name})"), schema)]) {
                let mut names = BTreeSet::new();
                add_names(schema, &mut names);
                let names: Vec<String> = names.into_iter().collect();
                lines.extend((!names.is_empty()).then(|| format!("{name}: {}", names.join(", "))));
            }
        }
        let lines: Vec<String> = lines.into_iter().collect();
        let names = format!(
            "JSON {FORMAT}, TOML\n{}\n\nSQLite {}\n{}\n\nParquet\n{}",
            lines.join("\n"),
            store::SCHEMA_VERSION,
            store::SCHEMA.join("\n"),
            samples::SCHEMA
        );
        insta::assert_snapshot!(names);
    }
}
