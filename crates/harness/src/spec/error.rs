//! Errors of an experiment file, with file, line, key, value and remedy.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use wire::{names, secret};

/// An error in an experiment file. Below the message, it shows the line, after the key unless the message names the key.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {message}{shown}")]
pub struct ExperimentError {
    file: String,
    line: usize,
    message: String,
    /// The key with a colon; empty if the message names it.
    key: String,
    shown: String,
}

/// The phrases of serde's messages, and their replacements for an experiment file.
const EXPECTED: &[(&str, &str)] = &[
    ("expected a nonzero u32", "write a whole number from 1 to 4294967295"),
    ("expected u64", "write a whole number, 0 or above"),
    ("expected u32", "write a whole number from 0 to 4294967295"),
    ("unit variant, expected string only", "write a name in quotes"),
];

impl ExperimentError {
    /// Returns the message with the key, but without file and line: for an experiment from flags, whose text no user wrote.
    pub fn without_place(self) -> String {
        self.key + &self.message
    }

    /// Converts an error of the parser.
    pub(crate) fn parsing(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let mut message = names::with_suggestion(&error.message().trim().replace('\n', ": "));
        for (words, remedy) in EXPECTED {
            message = message.replace(words, remedy);
        }
        if let Some((found, _name)) = message.split_once("expected struct ") {
            message = format!("{found}write a table of keys");
        }
        let at = error.span();
        let key = at.as_ref().and_then(|at| {
            keys(text).into_iter().find(|(_, place)| place.start <= at.start && at.end <= place.end).map(|(key, _)| key)
        });
        let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
        Self::at(file, text, at.map_or(0, |at| at.start), message, &key)
    }

    /// Converts an error of a check. `message` begins with the key.
    pub(crate) fn checking(file: &str, text: &str, message: String) -> Self {
        let named = message.split(':').next().unwrap_or_default();
        if let Some((_, place)) = keys(text).into_iter().find(|(key, _)| key == named) {
            return Self::at(file, text, place.start, message, "");
        }
        // Show the table of a missing key.
        let table = |name: &str| text.find(&format!("\n[{name}]")).map(|at| at + 1);
        let place =
            table(named).or_else(|| table(named.rsplit_once('.')?.0)).or_else(|| table(named.split_once('.')?.0));
        Self::at(file, text, place.unwrap_or(0), message, "")
    }

    /// Locates byte `at` in the text, and shows `key` and the line of this byte. `key` is empty if the message names the key.
    fn at(file: &str, text: &str, at: usize, message: String, key: &str) -> Self {
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let shown = text.lines().nth(line - 1).map(|shown| secret::redact(shown.trim()));
        let shown = shown.map(|shown| format!("\n  {key}{shown}")).unwrap_or_default();
        Self { file: file.to_owned(), line, message, key: key.to_owned(), shown }
    }
}

/// Returns the path of each key that has a value, such as `workload.rate`, and the byte range from the key through its value.
fn keys(text: &str) -> Vec<(String, Range<usize>)> {
    fn collect(table: &DeTable<'_>, prefix: &str, found: &mut Vec<(String, Range<usize>)>) {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => collect(inner, &format!("{name}."), found),
                _ => found.push((name, key.span().start..value.span().end)),
            }
        }
    }
    let mut found = Vec::new();
    // A text with a syntax error yields no keys. The parser's message is enough.
    if let Ok(table) = DeTable::parse(text) {
        collect(table.get_ref(), "", &mut found);
    }
    found
}
