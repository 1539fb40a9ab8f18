//! A row of the table of options: what it means to the parser and to help.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::read_to_string as read;
use std::iter;
use std::num::NonZeroU32;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Arg, ArgAction};
use harness::spec::Candidate;
use harness::spec::candidate::check_name;
use harness::spec::network::Network;
use harness::spec::target::TargetUrl;
use harness::spec::units::{Share, Time, Work, count, time_above_0};
use serde::de::DeserializeOwned;
use server::Architecture;
use toml::{Table, Value};
use wire::secret;

use super::named;

/// The length of a bin of goodput.
const BIN_NS: u64 = 100_000_000;

/// An option.
pub struct Row {
    pub name: &'static str,
    pub group: u64,
    pub heading: &'static str,
    /// The key of its name in the table of its group.
    pub key_of_name: &'static str,
    /// Another key of an experiment file; empty for an option of how an experiment runs.
    pub key: Option<&'static str>,
    pub value: &'static str,
    pub parse: fn(&str) -> Result<Value, String>,
    pub help: &'static [&'static str],
    pub short: Option<char>,
    /// Whether values are separated by commas.
    pub is_list: bool,
    /// Whether the option may be repeated.
    pub is_repeated: bool,
    /// Whether several values make a grid, although the key has one.
    pub is_grid: bool,
    /// Whether the value is a path, which may have any bytes: [`path_of`] returns it.
    pub is_path: bool,
    /// Whether the value may be left out.
    pub is_optional: bool,
    /// The commands whose `-h` shows the option; `*` for all.
    pub basic: &'static str,
    /// The default of each command that has its own.
    pub defaults: &'static [(&'static str, &'static str)],
    pub conflicts: Option<&'static str>,
    /// The flags that users of wrk, oha, hyperfine, fio or curl type instead.
    pub foreign: &'static str,
}

impl Row {
    /// A row without properties.
    pub const EMPTY: Self = Self {
        name: "",
        group: 0,
        heading: "",
        key_of_name: "",
        key: None,
        value: "",
        parse: text,
        help: &[],
        short: None,
        is_list: false,
        is_repeated: false,
        is_grid: false,
        is_path: false,
        is_optional: false,
        basic: "",
        defaults: &[],
        conflicts: None,
        foreign: "",
    };

    /// The key of an experiment file; empty for an option of how an experiment runs.
    pub fn key(&self) -> &'static str {
        self.key.unwrap_or(self.key_of_name)
    }

    fn is_switch(&self) -> bool {
        self.value.is_empty()
    }

    /// Returns the value of the key, given that of the argument.
    pub fn value(&self, given: &Value) -> Value {
        if self.is_switch() { (self.parse)("").unwrap_or_else(|_| given.clone()) } else { given.clone() }
    }

    /// The default of a command, as text.
    pub fn default_of(&self, command: &str) -> Option<&'static str> {
        let is_of = |commands: &str| commands.split(' ').any(|it| it == command);
        self.defaults.iter().find(|(commands, _)| is_of(commands)).map(|(_, text)| *text)
    }

    /// Returns the flag with its meaning, as a tip for users of other tools.
    pub fn tip(&self) -> String {
        let flag = self.short.map_or_else(|| format!("--{}", self.name), |short| format!("-{short}"));
        format!("{flag} {}: {}", self.value, self.help[0].trim())
    }

    pub fn arg(&self, command: &str) -> Arg {
        let lines: Vec<&str> = self.help.iter().map(|line| line.trim()).collect();
        let paragraphs: Vec<String> = lines.split(|line| line.is_empty()).map(|lines| lines.join(" ")).collect();
        let default = self.default_of(command).map(|text| format!(" [default: {text}]")).unwrap_or_default();
        let summary = format!("{}{default}", paragraphs[0]);
        let is_basic = self.basic == "*" || self.basic.split(' ').any(|it| it == command);
        let mut arg = Arg::new(self.name).long(self.name).help_heading(self.heading).hide_short_help(!is_basic);
        arg = arg.short(self.short).help(summary.clone());
        if let [_, rest @ ..] = &paragraphs[..]
            && !rest.is_empty()
        {
            arg = arg.long_help(format!("{summary}\n\n{}", rest.join("\n\n")));
        }
        if let Some(other) = self.conflicts {
            arg = arg.conflicts_with(other);
        }
        if self.is_switch() {
            return arg.action(ArgAction::SetTrue).value_parser(text as fn(&str) -> _);
        }
        let arg = arg.value_name(self.value);
        let arg = if self.is_path {
            arg.value_parser(OsStringValueParser::new().map(|path| path_value(&path)))
        } else {
            arg.value_parser(self.parse)
        };
        if self.is_optional {
            return arg.num_args(0..=1);
        }
        if self.value == BOOL {
            return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        // Only a map has grids.
        match (self.is_list || self.is_grid, self.is_repeated) {
            _ if self.is_grid && command != "atlas" => arg,
            (_, true) => arg.action(ArgAction::Append),
            (true, false) => arg.action(ArgAction::Append).value_delimiter(','),
            (false, false) => arg,
        }
    }
}

/// Marks the value of a path that is no text; a path cannot have it.
const BYTES: char = '\0';

/// Returns a path as a value. One that is not UTF-8 has a character for each byte.
fn path_value(path: &OsStr) -> Value {
    let bytes = || iter::once(BYTES).chain(path.as_bytes().iter().map(|&byte| byte.into())).collect();
    Value::String(path.to_str().map_or_else(bytes, str::to_owned))
}

/// Returns the path of a value.
pub fn path_of(value: String) -> PathBuf {
    match value.strip_prefix(BYTES) {
        Some(bytes) => OsString::from_vec(bytes.chars().map(|byte| byte as u8).collect()).into(),
        None => value.into(),
    }
}

/// Parses a text that is the value of a key.
pub fn value<T: FromStr<Err: Display> + Display>(text: &str) -> Result<Value, String> {
    text.parse::<T>().map(|value| value.to_string().into()).map_err(|error| error.to_string())
}

/// Parses a name as experiment files spell it.
pub fn name<T: DeserializeOwned>(text: &str) -> Result<Value, String> {
    named::<T>(text).map(|_| text.into())
}

/// Parses a whole number, which may end with `k`, `M` or `G`.
pub fn whole<T: FromStr>(text: &str) -> Result<Value, String> {
    count::<T>(text)
        .and_then(|_| count::<u64>(text))
        .map(|it| Value::Integer(it.cast_signed()))
        .map_err(|error| error.to_string())
}

pub fn above_0(text: &str) -> Result<Value, String> {
    time_above_0(text).map(|time| time.to_string().into()).map_err(|error| error.to_string())
}

/// Parses a time of whole bins of goodput, none of which contains an edge of a pulse.
pub fn bins(text: &str) -> Result<Value, String> {
    match text.parse::<Time>().map_err(|error| error.to_string())?.0 {
        0 => Err("too short; try 5s".into()),
        ns if ns.is_multiple_of(BIN_NS) => value::<Time>(text),
        ns => Err(format!("expected a multiple of 100ms; try {}", Time(ns.next_multiple_of(BIN_NS)))),
    }
}

/// Parses a multiple of the capacity.
pub fn factor(text: &str) -> Result<Value, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    let error = || format!("invalid factor `{text}`: expected a number above 0, such as 1.5");
    number.filter(|number| number.is_finite() && *number > 0.0).map(Value::Float).ok_or_else(error)
}

/// Parses the precision of a search.
pub fn precision(text: &str) -> Result<Value, String> {
    match text.parse::<Share>().map_err(|error| error.to_string())? {
        Share(share) if (0.005..=0.5).contains(&share) => value::<Share>(text),
        _ => Err("expected a share from 0.5% to 50%; try 5%".into()),
    }
}

pub fn on_off(text: &str) -> Result<Value, String> {
    match text {
        "on" | "off" => Ok((text == "on").into()),
        _ => Err("expected on or off".into()),
    }
}

pub fn number(text: &str) -> Result<Value, String> {
    text.parse::<f64>().map(Value::Float).map_err(|_| format!("invalid number `{text}`: expected a number such as 2"))
}

pub fn text(text: &str) -> Result<Value, String> {
    Ok(text.into())
}

/// The value of an option that turns its key on.
pub fn switch(_: &str) -> Result<Value, String> {
    Ok(true.into())
}

/// The name of a value that may be left out, which is `true`.
const BOOL: &str = "BOOL";

pub fn boolean(text: &str) -> Result<Value, String> {
    text.parse::<bool>().map(Value::Boolean).map_err(|_| "expected true or false".into())
}

/// The value of an option whose key is a table that may be empty.
pub fn empty_table(_: &str) -> Result<Value, String> {
    Ok(Table::new().into())
}

/// Parses a body. Rejects a duration, because `-d` is the duration in other tools.
pub fn body(text: &str) -> Result<Value, String> {
    match time_above_0(text) {
        Ok(_) => Err(format!(
            "-d is the body of each request; for the duration, write `-z {text}` (`idle`: `--time {text}`); for this body, write \
             @FILE"
        )),
        Err(_) => Ok(text.into()),
    }
}

pub fn body_file(file: &str) -> Result<Value, String> {
    Ok(format!("@{file}").into())
}

/// Parses simulated work, or `none`.
pub fn work(text: &str) -> Result<Value, String> {
    if text == NONE { Ok(text.into()) } else { value::<Work>(text) }
}

pub fn network(text: &str) -> Result<Value, String> {
    Value::try_from(text.parse::<Network>()?).map_err(|error| error.to_string())
}

pub fn lost_worker(text: &str) -> Result<Value, String> {
    match text {
        "end" | "continue" => Ok(text.into()),
        _ => Err("expected end or continue".into()),
    }
}

/// Makes a secret known, and returns its digest.
pub fn secret_value(text: &str) -> Result<Value, String> {
    let value = match text.strip_prefix('@') {
        None => secret::reveal(&secret::expand(text)?).map_err(|error| error.to_string())?.into_owned(),
        Some(file) => read(Path::new(file)).map_err(|error| format!("cannot read {file}: {error}"))?,
    };
    // A header's value has no line end, and a body may have one.
    secret::conceal(&value);
    Ok(secret::conceal(value.trim()).into())
}

/// The value that removes a key.
pub const NONE: &str = "none";

/// Returns a value of the table `key` from `NAME=VALUE`, as a table with the server's name.
fn of_server(text: &str, key: &str, value: impl Fn(&str) -> Result<Value, String>) -> Result<Value, String> {
    let named = text.split_once('=').filter(|(name, _)| check_name(name).is_ok());
    let (name, text) = named.ok_or_else(|| {
        // A command or a URL may contain `=`.
        let is_value = text.split_once('=').is_none_or(|(name, _)| name.contains(['/', ':']));
        let example = if is_value { format!(", as in mine={text}") } else { String::new() };
        format!("`{text}` does not begin with NAME=; write a name of letters, digits, `-`, `_` and `.` first{example}")
    })?;
    let settings = Table::from_iter([(key.to_owned(), value(text)?)]);
    Ok(Table::from_iter([(name.to_owned(), settings.into())]).into())
}

pub fn target(text: &str) -> Result<Value, String> {
    of_server(text, "url", value::<TargetUrl>)
}

pub fn target_pid(text: &str) -> Result<Value, String> {
    of_server(text, "pid", |text| {
        let pid = text.parse::<NonZeroU32>().map(|pid| i64::from(pid.get()).into());
        pid.map_err(|_| format!("invalid process ID `{text}`: expected a number above 0, such as 1234"))
    })
}

/// Parses a command, whose words are split as a shell splits them.
pub fn exec(text: &str) -> Result<Value, String> {
    let words = |text: &str| shlex::split(text).map(Value::from);
    of_server(text, "command", |text| {
        words(text).ok_or_else(|| format!("invalid command `{text}`: a quotation mark has no partner"))
    })
}

pub fn exec_config(text: &str) -> Result<Value, String> {
    of_server(text, "config", self::text)
}

/// Parses the name of an architecture, or of a group, which stands for its members.
pub fn architecture(text: &str) -> Result<Value, String> {
    match Architecture::group(text) {
        Some(group) => Ok(group.iter().map(ToString::to_string).collect::<Vec<_>>().into()),
        None => value::<Candidate>(text),
    }
}
