//! `muxbench reference`: pages of the book, generated from the code.

use std::fmt::Write;

use clap::{Command, ValueEnum};
use harness::spec::Experiment;
use harness::store;
use serde_json::Value;
use traffic::samples;

use crate::commands::schema;
use crate::exit::{EVERY, Meaning};
use crate::options::command::{COMMANDS, Command as CommandRow};
use crate::output;

/// Print a page of the reference as Markdown
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Examples:
  muxbench reference experiments   # all keys of experiment files"
)]
pub struct Args {
    /// Name of the page
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    /// The commands with all their flags
    Commands,
    /// The keys of experiment files
    Experiments,
    /// The columns of stored results
    Results,
    /// The exit codes
    ExitCodes,
}

/// The columns of `samples/NNNN.parquet`.
const SAMPLES: [(&str, &str); 10] = [
    ("planned_ns", "the planned send (t1)"),
    ("sent_ns", "the actual send (t2); null: never sent"),
    ("complete_ns", "the last byte of the response (t3); null: never answered"),
    ("connection", "the number of the connection"),
    ("scheduler_ns", "kernel timestamp: the request enters the packet scheduler"),
    ("driver_ns", "kernel timestamp: the request enters the driver"),
    ("arrived_ns", "kernel timestamp: the response arrives"),
    ("hardware_service_ns", "the service time by the clock of the network interface"),
    ("client", "the number of the client process"),
    ("counted", "1 if figures count the request; 0 in a guard, or in a round that was left out"),
];

/// The columns of the table `trials` in `muxbench.db`.
const TRIALS: [(&str, &str); 12] = [
    ("trial", "the number of the trial in the plan"),
    ("architecture", "the architecture, `exec:NAME` or `target:NAME`"),
    ("connections", "the number of connections"),
    ("rate_per_s", "the requested rate; null in a closed loop"),
    ("repeat", "the number of the repeat, from 0"),
    ("verdict", "`valid`, `saturated`, `client-limited`, `unsteady` or `failed`"),
    ("reason", "the reason of the verdict"),
    ("service_p50_ns", "the median service time"),
    ("service_p99_ns", "the 99th percentile of the service time"),
    ("send_delay_p99_ns", "the 99th percentile of the send delay"),
    ("rate_achieved_per_s", "responses per second"),
    ("record", "the whole record of the trial, as JSON"),
];

pub fn run(args: &Args, all: Command) -> anyhow::Result<()> {
    output::print_raw(match args.page {
        Page::Commands => commands(all),
        Page::Experiments => experiments(&Experiment::schema()),
        Page::Results => results(),
        Page::ExitCodes => format!("# Exit codes\n\n{}", table_of_exit_codes()),
    })
}

/// Returns all exit codes as a table in Markdown.
fn table_of_exit_codes() -> String {
    let row = |command: &str, (code, meaning): &Meaning| format!("| {command} | {code} | {meaning} |\n");
    let every = EVERY.iter().map(|meaning| row("all, unless listed below", meaning));
    let of_command = |it: &'static CommandRow| it.exits.iter().map(move |code| row(&format!("`{}`", it.name), code));
    let lab = "| `lab` | other | the code of the command in the lab |\n";
    let rows = every.chain(COMMANDS.iter().flat_map(of_command));
    format!("| command | code | meaning |\n|---|---|---|\n{}{lab}", rows.collect::<String>())
}

fn commands(mut all: Command) -> String {
    all.build();
    let mut page =
        "# Commands\n\nEach section is the output of `--help`. `-h` shows only the most used flags.\n".to_owned();
    for command in all.get_subcommands_mut().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## muxbench {}\n\n```text\n{}\n```\n", command.get_name(), lines.join("\n"));
    }
    page
}

/// Returns the page of all keys, with a section for each table.
fn experiments(schema: &Value) -> String {
    let mut page = "# Experiment files\n\nAn experiment file is TOML. It needs `architectures`, or a table `[exec.NAME]` or \
                    `[target.NAME]`, unless flags name the servers. `[exec.NAME]` needs `command`, `[target.NAME]` needs `url`, \
                    and `[workload.trace]` needs `file`. All other keys are optional. Some defaults differ from the values of the \
                    preset `compare`. \
                    `muxbench plan --schema` prints this page's source, a JSON Schema.\n\n\
                    ## Kinds of text\n\nThese values have quotes, as in `measure = \"2s\"`.\n\n\
                    | value | examples |\n|---|---|\n"
        .to_owned();
    for (_, kind, examples) in TEXTS {
        let _ = writeln!(page, "| {kind} | {examples} |");
    }
    let mut tables = vec![(String::new(), false, schema)];
    while let Some((path, is_list, table)) = tables.pop() {
        let title = match (&*path, is_list) {
            ("", _) => "Top level".to_owned(),
            (path, true) => format!("`[[{path}]]`"),
            (path, false) => format!("`[{path}]`"),
        };
        let about = if path.is_empty() { String::new() } else { format!("{}\n\n", description(table)) };
        let _ = write!(page, "\n## {title}\n\n{about}| key | value | meaning |\n|---|---|---|\n");
        let mut inner = Vec::new();
        for (key, node) in table["properties"].as_object().into_iter().flatten() {
            let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let value = value(schema, node);
            let default = match node.get("default") {
                Some(Value::String(text)) if !text.is_empty() => format!(" Default: `{text}`."),
                Some(scalar @ (Value::Number(_) | Value::Bool(_))) => format!(" Default: `{scalar}`."),
                _ => String::new(),
            };
            let _ = writeln!(page, "| `{key}` | {} | {}{default} |", value.name, description(node));
            inner.extend(value.table.map(|(end, is_list, table)| (place + end, is_list, table)));
        }
        tables.extend(inner.into_iter().rev());
    }
    page
}

/// Returns the description of a node on one line, with `;` between the items of a list.
fn description(node: &Value) -> String {
    let text = node["description"].as_str().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    text.replace(": - ", ": ").replace(". - ", "; ")
}

/// A kind of value.
struct Kind<'a> {
    name: String,
    /// For a table: the end of its path, whether it is a list of tables, and its schema.
    table: Option<(&'static str, bool, &'a Value)>,
}

/// Returns the kind of value that a node of the schema allows.
fn value<'a>(schema: &'a Value, node: &'a Value) -> Kind<'a> {
    let kind = |name: &str| Kind { name: name.into(), table: None };
    if let Some(reference) = node["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let found = value(schema, &schema["$defs"][name]);
        let named = TEXTS.iter().find(|(of_type, ..)| *of_type == name);
        return Kind { name: named.map_or(found.name, |(_, kind, _)| (*kind).to_owned()), ..found };
    }
    if let Some(choices) = ["anyOf", "oneOf"].iter().find_map(|key| node[*key].as_array()) {
        let mut kinds = choices.iter().filter(|choice| choice["type"] != "null").map(|choice| value(schema, choice));
        let Some(first) = kinds.next() else { return kind("") };
        let names = kinds.fold(first.name, |names, next| {
            if next.name == format!("list of {names}") {
                format!("{names}, or a list")
            } else {
                format!("{names}, {}", next.name)
            }
        });
        return Kind { name: names, table: first.table };
    }
    let quoted = |value: &Value| format!("`{}`", value.as_str().unwrap_or_default());
    if let Some(choices) = node["enum"].as_array() {
        return kind(&choices.iter().map(quoted).collect::<Vec<_>>().join(", "));
    }
    if node["const"].is_string() {
        return kind(&quoted(&node["const"]));
    }
    let is = |name: &str| {
        node["type"] == name || node["type"].as_array().is_some_and(|all| all.iter().any(|each| each == name))
    };
    if is("object") {
        let each = &node["additionalProperties"];
        let (end, table) = if each.is_object() {
            (".NAME", value(schema, each).table.map(|(.., table)| table))
        } else {
            ("", Some(node))
        };
        return Kind { name: "table".into(), table: table.map(|table| (end, false, table)) };
    }
    if is("array") {
        let each = value(schema, &node["items"]);
        let table = each.table.map(|(end, _, table)| (end, true, table));
        return Kind { name: format!("list of {}", each.name), table };
    }
    kind(match () {
        () if is("boolean") => "`true` or `false`",
        () if is("integer") || is("number") => "number",
        () => TEXT,
    })
}

/// The kind of a string whose key describes it.
const TEXT: &str = "text";

/// The kinds of strings that several keys have: the type in the schema, its name on the page, and examples.
const TEXTS: [(&str, &str, &str); 6] = [
    ("Bandwidth", "bandwidth", "`1Gbit`, `100Mbit`"),
    ("Cpus", "CPUs", "`0-1,3`"),
    ("Loss", "loss", "`0.1%`, `1/1000`"),
    ("Share", "share", "`1/16`, `6.25%`, `0.0625`"),
    ("Size", "size", "`128B`, `10KiB`"),
    ("Time", "time", "`50us`, `10ms`, `2s`, `1min`"),
];

fn results() -> String {
    let rows = |columns: &[(&str, &str)]| -> String {
        let rows: Vec<String> = columns.iter().map(|(name, about)| format!("| `{name}` | {about} |\n")).collect();
        format!("| column | content |\n|---|---|\n{}", rows.concat())
    };
    let link = |name: &str, about: &str| format!("| [{name}](../../schemas/{name}.json) | {about} |\n");
    let schemas: String = schema::SCHEMAS.iter().map(|(name, commands, _)| link(name, commands)).collect();
    format!(
        "# Stored results\n\n[Results and reports](../results.md) lists the files of a run.\n\n## Samples\n\n\
         `samples/NNNN.parquet` has a row for each request of the window. All columns are 64-bit integers. Times are nanoseconds \
         from the start of the window. In interleaved trials the file also has the requests of the guards (the first part of each \
         slice), which results leave out. There, times go on during the slices of other servers. In a closed loop the file has \
         the transactions that fit into the client's memory. The file's key-value metadata has all parameters of the trial.\n\n{}\n\
         ```text\n{}\n```\n\n## Database\n\n`muxbench.db` has a row of `trials` for each finished trial. Times are nanoseconds. \
         `checksums` has a checksum of each record, and `header` a copy of `run.json`.\n\n{}\n```sql\n{}\n```\n\n\
         ## JSON Schemas\n\n`muxbench schema` prints them.\n\n| schema | what has this form |\n|---|---|\n{schemas}{}",
        rows(&SAMPLES),
        samples::SCHEMA.replace("\n    ", "\n  "),
        rows(&TRIALS),
        store::SCHEMA.map(|table| format!("{};", table.replace("\n    ", "\n  "))).join("\n"),
        link("experiment", "an experiment file, as `plan --schema` prints"),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use serde_json::Map;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_key_of_the_schema_is_on_the_page() {
        let schema = Experiment::schema();
        let page = experiments(&schema);
        let tables = schema["$defs"].as_object().unwrap().values().chain([&schema]);
        let mut count = 0;
        for key in tables.filter_map(|table| table["properties"].as_object()).flat_map(Map::keys) {
            assert!(page.contains(&format!("\n| `{key}` | ")), "{key}");
            count += 1;
        }
        assert!(count > 80, "{count} keys");
        for row in [
            "| `repeats` | number | The number of repeats of each trial,",
            "| `rate` | number, or a list | The rate in requests per second",
            "| `service` | `fixed`, `kv`, ",
            "| `measure` | time | ",
            "\n## `[[workload.http.requests]]`\n",
            "| `admission` | text | ",
            "with these placeholders: `{port}`: ",
            "\n## `[exec.NAME]`\n",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
    }

    #[test]
    fn every_column_is_described() {
        for (schema, columns) in [(samples::SCHEMA, &SAMPLES[..]), (store::SCHEMA[0], &TRIALS)] {
            let inner = schema.split_once(['{', '(']).unwrap().1;
            let ends = [';', ',', '}', ')'];
            let declared = inner.split(ends).map(str::trim).filter(|it| !it.is_empty());
            // SQLite writes the name first, Parquet last.
            let names: Vec<&str> = declared
                .filter_map(|it| {
                    if it.starts_with(|c: char| c.is_lowercase()) && it.contains("int64") {
                        it.split(' ').nth(2)
                    } else {
                        it.split(' ').next()
                    }
                })
                .collect();
            let described: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, described);
        }
    }

    #[test]
    fn every_command_and_exit_code_has_a_section() {
        let page = commands(crate::help::arranged(Cli::command(), 80));
        for command in Cli::command().get_subcommands() {
            let title = format!("\n## muxbench {}\n\n```text\n", command.get_name());
            assert_eq!(page.contains(&title), !command.is_hide_set(), "{title}");
        }
        let codes = table_of_exit_codes();
        assert!(codes.contains("| `gate` | 1 | the new build is slower, or worse by another figure |"), "{codes}");
    }
}
