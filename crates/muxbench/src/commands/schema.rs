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
    ("doctor", "doctor", of::<Vec<harness::doctor::finding::Diagnosis>>),
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
