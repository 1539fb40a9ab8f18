//! `muxbench list`: all names that experiments and flags accept.

use std::collections::BTreeMap;

use harness::host::{self, Host};
use harness::plan::{self, Limit};
use harness::spec::presets::PRESETS;
use report::text::medium::hanging;
use report::text::{Medium, table};
use schemars::JsonSchema;
use serde::Serialize;
use server::architecture::GROUPS;
use server::registry::{BUFFERED, MECHANISMS, MODELS, MechanismRow};
use server::{Accept, Architecture};
use wire::SERVICES;

use crate::options::format::FormatArgs;
use crate::output;

/// List architectures, models, mechanisms, services and presets
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    format: FormatArgs,
}

/// A name, with its description.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Row {
    name: String,
    about: String,
    /// Required kernel features, beyond those of every supported Linux.
    #[serde(skip_serializing_if = "String::is_empty")]
    needs: String,
    /// The reason why this host does not support the architecture, model or mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_here: Option<String>,
    /// The most connections on this host, and the resource that limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
}

impl Row {
    fn new(name: impl ToString, about: impl Into<String>, needs: &str, can_run: Result<(), String>) -> Self {
        Self { name: name.to_string(), about: about.into(), needs: needs.into(), not_here: can_run.err(), limit: None }
    }

    fn of_architecture(architecture: Architecture, host: &Host) -> Self {
        let row = Self::new(architecture, architecture.about(), &architecture.needs(), architecture.can_run());
        Self { limit: Some(plan::limit(architecture, host)), ..row }
    }

    /// Formats the row as text.
    fn words(&self) -> String {
        let needs = Some(&self.needs).filter(|needs| !needs.is_empty()).map(|needs| format!(" (needs {needs})"));
        let limit = self.limit.as_ref().map(|Limit { connections, by }| format!(" [{connections} connections: {by}]"));
        let not_here = self.not_here.as_ref().map(|reason| format!(" [not here: {reason}]"));
        [Some(self.about.clone()), needs, limit, not_here].into_iter().flatten().collect()
    }
}

fn of_mechanism(row: &MechanismRow) -> Row {
    Row::new(row.name, row.about, row.needs, (row.can_run)())
}

/// Returns whether any architecture uses this accept strategy.
fn is_used(accept: Accept) -> bool {
    Architecture::every().into_iter().any(|architecture| accept.check(architecture).is_ok())
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let host = host::detect();
    let architectures = Architecture::all().into_iter().map(|row| Row::of_architecture(row, &host));
    let always = |name: &str, about: &str| Row::new(name, about, "", Ok(()));
    let accept = Accept::ALL.iter().filter(|row| is_used(row.0));
    let sections: [(&str, Vec<Row>); 8] = [
        ("architectures", architectures.collect()),
        ("groups", GROUPS.iter().map(|group| always(group.name, group.about)).collect()),
        ("models", MODELS.iter().map(|row| Row::new(row.name, row.about, row.needs, (row.can_run)())).collect()),
        ("mechanisms", MECHANISMS.iter().map(of_mechanism).collect()),
        ("buffered mechanisms", BUFFERED.iter().map(of_mechanism).collect()),
        ("accept", accept.map(|row| always(row.1, row.2)).collect()),
        ("services", SERVICES.iter().map(|row| always(row.name, row.about)).collect()),
        ("presets", PRESETS.iter().map(|preset| always(preset.name, &preset.experiment().about)).collect()),
    ];
    if args.format.json {
        return output::print_json(&BTreeMap::from(sections));
    }
    let mut text = String::new();
    for (name, rows) in sections {
        if args.format.markdown {
            let rows = rows.into_iter().map(|row| vec![row.name.clone(), row.words()]);
            text += &(table::of_parts(1, [name, "about"], rows, Medium::Markdown) + "\n");
        } else {
            let columns = args.format.medium().width();
            let rows = rows.iter().map(|row| hanging(&format!("  {:20} ", row.name), &row.words(), columns));
            text += &format!("{name}\n{}", rows.collect::<String>());
        }
    }
    output::print(&text)
}
