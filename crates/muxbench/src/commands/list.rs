//! `muxbench list`: the tables.

use std::fmt::Write;
use std::process::ExitCode;

use lab::presets::PRESETS;
use report::{Medium, table};
use serde_json::{Value, json};
use server::mechanism::{BUFFERED, MECHANISMS};
use server::model::MODELS;
use server::{Accept, Architecture};
use wire::SERVICES;

use crate::output;

/// List architectures, models, mechanisms, accept strategies, services and presets
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print tables as Markdown, to paste into an issue
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// What an architecture is, what it needs, and whether it can run here.
fn about(architecture: &Architecture) -> String {
    let needs = Some(architecture.needs()).filter(|needs| !needs.is_empty()).map(|needs| format!(" (needs {needs})"));
    let not_here = architecture.can_run().err().map(|reason| format!(" [not here: {reason}]"));
    architecture.about() + &needs.unwrap_or_default() + &not_here.unwrap_or_default()
}

/// Whether any model accepts like that.
fn is_used(accept: Accept) -> bool {
    MODELS.iter().any(|model| accept.check(model).is_ok())
}

/// Prints them.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let sections: [(&str, Vec<(String, String)>); 7] = [
        ("architectures", Architecture::all().iter().map(|row| (row.to_string(), about(row))).collect()),
        ("models", MODELS.iter().map(|row| (row.name.into(), row.about.into())).collect()),
        ("mechanisms", MECHANISMS.iter().map(|row| (row.name.into(), row.about.into())).collect()),
        ("buffered mechanisms", BUFFERED.iter().map(|row| (row.name.into(), row.about.into())).collect()),
        ("accept", Accept::ALL.iter().filter(|row| is_used(row.0)).map(|row| (row.1.into(), row.2.into())).collect()),
        ("services", SERVICES.iter().map(|row| (row.name.into(), row.about.into())).collect()),
        ("presets", PRESETS.iter().map(|preset| (preset.name.into(), preset.experiment().about)).collect()),
    ];
    if args.json {
        let rows = |rows: &[(String, String)]| -> Vec<Value> {
            rows.iter().map(|(name, about)| json!({"name": name, "about": about})).collect()
        };
        let all: serde_json::Map<String, Value> =
            sections.iter().map(|(name, section)| ((*name).to_owned(), rows(section).into())).collect();
        output::print_json(&all)?;
    } else if args.markdown {
        for (name, rows) in sections {
            let rows = rows.into_iter().map(|(name, about)| vec![name, about]);
            output::print(&(table::of_text(&[name, "about"], rows, Medium::Markdown) + "\n"))?;
        }
    } else {
        let mut text = String::new();
        for (name, rows) in sections {
            writeln!(text, "{name}")?;
            for (name, about) in rows {
                writeln!(text, "  {name:20} {about}")?;
            }
        }
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
