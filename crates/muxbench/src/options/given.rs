//! The options that the user gave, and their effect on an experiment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::command::groups_of;
use super::row::{NONE, Row, path_of};
use super::table::ROWS;

/// The given options of a command, each with its values: those with a key, or with `IS_ACTION` the others.
#[derive(Clone, Debug, Default)]
pub struct Options<const IS_ACTION: bool = false>(BTreeMap<&'static str, Vec<Value>>);

/// The given options of how an experiment runs.
pub type Actions = Options<true>;

impl<const IS_ACTION: bool> Options<IS_ACTION> {
    fn rows(command: &str) -> impl Iterator<Item = &'static Row> + use<IS_ACTION> {
        let groups = groups_of(command);
        ROWS.iter().filter(move |row| row.group & groups != 0 && row.key().is_empty() == IS_ACTION)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns all values of an option.
    pub fn list<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let values = self.0.get(name).into_iter().flatten();
        values.filter_map(|value| value.clone().try_into().ok()).collect()
    }

    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.list(name).pop()
    }

    /// Returns the value of an option that is a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(path_of)
    }

    /// Returns the value of an option that has a default in this command.
    pub fn get_or_default<T: DeserializeOwned>(&self, name: &str, command: &str) -> T {
        self.get(name).or_else(|| Options::defaults(command).get(name)).expect("the command has a default")
    }
}

impl<const IS_ACTION: bool> clap::Args for Options<IS_ACTION> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let name = command.get_name().to_owned();
        command.args(Self::rows(&name).map(|row| row.arg(&name)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const IS_ACTION: bool> FromArgMatches for Options<IS_ACTION> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // A command may have an argument of its own with the name of a row, whose value has another type.
        let given = |row: &Row| {
            let is_own = row.key().is_empty() == IS_ACTION;
            let values = matches.try_get_many::<Value>(row.name).ok().flatten().filter(|_| is_own)?;
            let is_given = matches.value_source(row.name) == Some(ValueSource::CommandLine);
            is_given.then(|| (row.name, values.fold(Vec::new(), |all, value| with(all, row.value(value)))))
        };
        Ok(Self(ROWS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Options {
    /// Adds a value, as if the user had given it.
    pub fn add(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let row = ROWS.iter().find(|row| row.name == name).expect("the option exists");
        let value = (row.parse)(text).map_err(anyhow::Error::msg)?;
        self.0.entry(row.name).or_default().push(value);
        Ok(())
    }

    /// The options that a command has by default.
    pub fn defaults(command: &str) -> Self {
        // The text of a default that depends on others is no value.
        let values = |row: &Row| {
            let texts = row.default_of(command)?.split(',');
            texts.map(|text| (row.parse)(text).ok()).collect::<Option<Vec<Value>>>()
        };
        Self(ROWS.iter().filter_map(|row| Some((row.name, values(row)?))).collect())
    }

    /// Overwrites the settings of a table of the experiment whose options are given. `table` ends with a dot, or is empty for all.
    pub fn apply<T: Serialize + DeserializeOwned>(&self, settings: &mut T, table: &str) -> anyhow::Result<()> {
        let mut changed = Table::try_from(&*settings)?;
        for row in ROWS {
            let (Some(values), Some(key)) = (self.0.get(row.name), row.key().strip_prefix(table)) else { continue };
            let value = match values.first() {
                Some(Value::Table(_)) => {
                    values.iter().for_each(|value| set(&mut changed, key, value.clone()));
                    continue;
                }
                Some(one) if row.is_grid || !row.is_list && !row.is_repeated => one.clone(),
                _ => {
                    // Options may share a key.
                    let same = ROWS.iter().filter(|other| other.key() == row.key());
                    same.filter_map(|other| self.0.get(other.name)).flatten().cloned().collect::<Vec<_>>().into()
                }
            };
            set(&mut changed, key, value);
        }
        *settings = changed.try_into().map_err(|error: toml::de::Error| {
            let text = error.to_string();
            let (message, key) = text.trim().trim_end_matches('`').rsplit_once("\nin `").unwrap_or((&text, ""));
            anyhow!("{table}{key}: {message}")
        })?;
        Ok(())
    }

    /// Returns the settings of a table of the experiment, by default unchanged.
    pub fn read<T: Default + Serialize + DeserializeOwned>(&self, table: &str) -> anyhow::Result<T> {
        let mut settings = T::default();
        self.apply(&mut settings, table)?;
        Ok(settings)
    }

    /// Appends the option of the key with which a message begins, unless the message names it or the key comes from a file.
    pub fn with_flag(&self, message: String, has_file: bool) -> String {
        let key = message.split([':', ' ']).next().unwrap_or_default();
        // A message about a table names an option that sets a key of it.
        let is_within =
            |row: &&Row| self.has(row.name) && row.key().strip_prefix(key).is_some_and(|it| it.starts_with('.'));
        let row = ROWS.iter().find(|row| !key.is_empty() && (row.key() == key || is_within(row)));
        let name = match row {
            Some(row) if !has_file || self.has(row.name) => row.name,
            _ => return message,
        };
        let flag = format!("--{name}");
        if message.contains(&flag) { message } else { format!("{message} (flag {flag})") }
    }
}

/// Adds a value of an option. A list stands for those of its values that are not there.
fn with(mut all: Vec<Value>, value: Value) -> Vec<Value> {
    match value {
        Value::Array(several) => {
            let new: Vec<Value> = several.into_iter().filter(|it| !all.contains(it)).collect();
            all.extend(new);
        }
        one => all.push(one),
    }
    all
}

/// Sets the value of a key in nested tables.
fn set(table: &mut Table, key: &str, value: Value) {
    let Some((first, rest)) = key.split_once('.') else { return set_own(table, key, value) };
    if let Value::Table(inner) = table.entry(first).or_insert_with(|| Table::new().into()) {
        set(inner, rest, value);
    }
}

/// Sets the value of a key. A table adds its keys to one that is there.
fn set_own(table: &mut Table, key: &str, value: Value) {
    match (table.get_mut(key), value) {
        (Some(Value::Table(old)), Value::Table(new)) => {
            new.into_iter().for_each(|(key, value)| set_own(old, &key, value));
        }
        (_, Value::String(text)) if text == NONE => {
            table.remove(key);
        }
        (_, value) => {
            table.insert(key.to_owned(), value);
        }
    }
}
