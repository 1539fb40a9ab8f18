//! `[workload.trace]`: recorded arrivals to replay.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::trace::{self, Column};

use super::units::{Time, units};

/// The start of the replayed part: a time after the first arrival of the file, or `peak` for the part with the most arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStart(pub Option<Time>);

units! {
    TraceStart, "start", "a time such as 20h, or peak", r"^(peak|0|[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|min|h))$";
}

impl TraceStart {
    fn read(text: &str) -> Option<Self> {
        if text == "peak" { Some(Self(None)) } else { text.parse().ok().map(|time| Self(Some(time))) }
    }
}

impl fmt::Display for TraceStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => time.fmt(f),
            None => f.write_str("peak"),
        }
    }
}

/// Recorded arrivals, which the window replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trace {
    /// The file: CSV or Parquet, such as the samples of a run.
    pub file: PathBuf,
    /// The speed of the replay relative to the recording.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub speed: f64,
    /// The start of the replayed part, after the first arrival of the file, or `peak` for the part with the most arrivals.
    pub from: Option<TraceStart>,
    /// The length of the replayed part in the recording. By default, it reaches to the last arrival.
    pub length: Option<Time>,
    /// The columns of the file that the replay does not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<Column>,
}

fn one() -> f64 {
    1.0
}

fn is_one(speed: &f64) -> bool {
    *speed == 1.0
}

impl Trace {
    /// The replay of a whole file at its own speed.
    pub fn of(file: PathBuf) -> Self {
        Self { file, speed: one(), from: None, length: None, ignore: Vec::new() }
    }

    /// Checks the values. An error begins with the key, as `speed: ...`.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.length {
            Some(Time(0)) => Err("length: must be longer than 0".to_owned()),
            None if self.from == Some(TraceStart(None)) => {
                Err("from: `peak` needs a length; add the length of the part, such as 10min".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Reads the file to count the arrivals and to collect their sizes. `refusal` returns why a column cannot be replayed. An error
    /// begins with the key.
    pub(super) fn scan(&self, refusal: impl Fn(Column) -> Option<&'static str>) -> Result<load::config::Trace, String> {
        let length_ns = self.length.map(|length| length.0);
        let from_ns = match (self.from, length_ns) {
            (Some(TraceStart(None)), Some(length_ns)) => trace::peak_ns(&self.file, length_ns),
            (from, _) => Ok(from.and_then(|from| from.0).map_or(0, |from| from.0)),
        };
        let scanned = from_ns
            .and_then(|from_ns| trace::scan(&self.file, (from_ns, length_ns), self.speed, &self.ignore, &refusal));
        scanned.map_err(|error| format!("file: {error:#}"))
    }

    /// A replay with one arrival, for checks that do not read the file.
    pub(super) fn unread(&self) -> load::config::Trace {
        load::config::Trace {
            file: self.file.clone(),
            from_ns: 0,
            length_ns: self.length.map_or(1_000_000_000, |length| length.0),
            speed: self.speed,
            requests: 1,
            has_connections: false,
            sizes: Vec::new(),
        }
    }
}
