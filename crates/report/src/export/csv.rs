//! Rows as CSV. A column is a path of the JSON, such as `load.service.distribution.p50_ns`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

/// Writes a heading, then a record for each row with the fields of its JSON. Lists of texts are joined, and other lists and histograms
/// are left out. Without rows, writes nothing.
pub fn of_rows(rows: impl IntoIterator<Item = impl Serialize>) -> String {
    let fields = |row| {
        let mut fields = BTreeMap::new();
        flatten(&mut fields, String::new(), serde_json::to_value(row).unwrap_or_default());
        fields
    };
    let rows: Vec<BTreeMap<String, String>> = rows.into_iter().map(fields).collect();
    let headings: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    let cells = |row: &BTreeMap<String, String>| {
        headings.iter().map(|name| row.get(*name).cloned().unwrap_or_default()).collect::<Vec<_>>()
    };
    let names = headings.iter().map(|name| (*name).clone()).collect();
    if rows.is_empty() { String::new() } else { of_records([names].into_iter().chain(rows.iter().map(cells))) }
}

fn flatten(fields: &mut BTreeMap<String, String>, path: String, value: Value) {
    let text = match value {
        Value::Object(object) => {
            for (name, value) in object.into_iter().filter(|(name, _)| name != "histogram") {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(fields, path, value);
            }
            return;
        }
        Value::Array(items) => match items.iter().map(Value::as_str).collect::<Option<Vec<_>>>() {
            Some(texts) if !texts.is_empty() => texts.join("; "),
            _ => return,
        },
        Value::Null => return,
        Value::String(text) => text,
        other => other.to_string(),
    };
    fields.insert(path, text);
}

/// Writes records, including the heading. Prefixes text with an apostrophe if a spreadsheet would parse it as a formula.
pub fn of_records<F: AsRef<str>>(records: impl IntoIterator<Item = impl IntoIterator<Item = F>>) -> String {
    let inert = |field: F| match field.as_ref() {
        formula if is_formula(formula) => format!("'{formula}"),
        text => text.to_owned(),
    };
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for record in records {
        writer.write_record(record.into_iter().map(inert)).expect("writing to memory cannot fail");
    }
    let written = writer.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(written).expect("every field is text")
}

fn is_formula(field: &str) -> bool {
    field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_columns_of_all_and_no_formulas() {
        let formula = "=HYPERLINK(\"http://127.0.0.1/\",\"see\")";
        let row = serde_json::json!({"b": {"c": -1.5, "d": null}, "a": ["x", "y"], "parts": [1, 2], "histogram": "H"});
        let text = of_rows([row, serde_json::json!({"b": {"e": formula}})]);
        let expected = "a,b.c,b.e\nx; y,-1.5,\n,,\"'=HYPERLINK(\"\"http://127.0.0.1/\"\",\"\"see\"\")\"\n";
        assert_eq!(text, expected, "a negative number stays a number");
        assert_eq!(of_rows([(); 0]), "");
    }

    #[test]
    fn csv_has_a_row_for_each_trial() {
        let run = testkit::run();
        let text = of_rows(&run.records);
        assert_eq!(text.lines().count(), run.records.len() + 1);
        insta::assert_snapshot!(text.lines().take(2).collect::<Vec<_>>().join("\n"));
    }
}
