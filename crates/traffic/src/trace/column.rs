//! The columns of a file: their names, the units of times, and the values of a row.

use anyhow::bail;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The names of a column of times, which may end with a unit. muxbench's samples have `planned_ns`.
const TIMES: [&str; 6] = ["planned", "time", "timestamp", "arrival", "start", "ts"];
const UNITS: [(&str, u64); 4] = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];

/// The reason why a file cannot be replayed.
const NO_TIME: &str = "no column of times; name one time_s, time_ms, time_us, time_ns or timestamp";

/// A second, the unit of numbers without another one.
const SECOND_NS: u64 = 1_000_000_000;

/// A column besides times, which a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// The number of the connection.
    Connection,
    /// The bytes of the request's body.
    RequestBytes,
    /// The bytes of the response's content.
    ResponseBytes,
}

impl Column {
    /// All columns, in the order of the values of a [`Row`].
    pub const ALL: [Self; 3] = [Self::Connection, Self::RequestBytes, Self::ResponseBytes];

    /// The name, as in a file.
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// All names that a file may use.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Connection => &["connection"],
            Self::RequestBytes => &["request_bytes"],
            Self::ResponseBytes => &["response_bytes", "bytes", "body_bytes_sent"],
        }
    }
}

/// A row of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The time in nanoseconds, from any origin.
    pub time_ns: i64,
    /// The values of the other columns, as far as the file has them.
    pub values: [Option<u64>; Column::ALL.len()],
}

impl Row {
    /// Returns the value of a column, if the file has it.
    pub fn value(&self, column: Column) -> Option<u64> {
        self.values[column as usize]
    }
}

/// The columns of a file, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Columns {
    pub(super) time: usize,
    /// The unit of times, in nanoseconds.
    pub(super) unit_ns: u64,
    pub(super) others: [Option<usize>; Column::ALL.len()],
}

impl Columns {
    /// Finds the columns by their names. `unit_ns` returns the unit of a column whose name has none.
    /// Fails unless exactly one column has times.
    pub(super) fn find<'a>(
        names: impl Iterator<Item = &'a str> + Clone,
        unit_ns: impl Fn(usize) -> Option<u64>,
    ) -> anyhow::Result<Self> {
        let times = names.clone().enumerate().filter_map(|(at, name)| Some((at, name.trim(), unit_of(name)?)));
        let times: Vec<(usize, &str, Option<u64>)> = times.collect();
        let (time, unit) = match times.as_slice() {
            [] => bail!(NO_TIME),
            &[(time, _, unit)] => (time, unit),
            several => {
                let names: Vec<&str> = several.iter().map(|&(_, name, _)| name).collect();
                bail!("the file has several columns of times ({}); remove all but one", names.join(", "));
            }
        };
        let is_named =
            |name: &str, column: Column| column.names().iter().any(|it| name.trim().eq_ignore_ascii_case(it));
        let others = Column::ALL.map(|column| names.clone().position(|name| is_named(name, column)));
        Ok(Self { time, unit_ns: unit.or_else(|| unit_ns(time)).unwrap_or(SECOND_NS), others })
    }

    /// The only column of a file without names: times in seconds.
    pub(super) fn first() -> Self {
        Self { time: 0, unit_ns: SECOND_NS, others: [None; Column::ALL.len()] }
    }

    /// Whether the file has a column.
    pub(super) fn has(&self, column: Column) -> bool {
        self.others[column as usize].is_some()
    }

    /// Removes columns, which are then not read.
    pub(super) fn ignore(&mut self, columns: &[Column]) {
        columns.iter().for_each(|column| self.others[*column as usize] = None);
    }
}

/// Returns the unit of a column of times, or `Some(None)` if its name has none; `None` for other columns.
fn unit_of(name: &str) -> Option<Option<u64>> {
    let name = name.trim().to_ascii_lowercase();
    let with_unit = UNITS.into_iter().find_map(|(end, ns)| Some((name.strip_suffix(end)?, Some(ns))));
    let (base, unit) = with_unit.unwrap_or((&name, None));
    TIMES.contains(&base).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_places_and_spelled_names() {
        for (at, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!(column as usize, at);
            assert_eq!(serde_json::to_value(column).unwrap(), column.name());
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let find = |names: &str| Columns::find(names.split(','), |_| None).ok();
        let columns = |time, unit_ns, connection| Some(Columns { time, unit_ns, others: [connection, None, None] });
        assert_eq!(find("planned_ns,sent_ns,complete_ns,connection,client"), columns(0, 1, Some(3)));
        assert_eq!(find("path, Timestamp ,size"), columns(1, SECOND_NS, None));
        assert_eq!(find("Connection,time_ms"), columns(1, 1_000_000, Some(0)));
        let mut sized = find("bytes,time,Response_Bytes,request_bytes").unwrap();
        assert_eq!(sized.others, [None, Some(3), Some(0)]);
        sized.ignore(&[Column::ResponseBytes]);
        assert!(sized.has(Column::RequestBytes) && !sized.has(Column::ResponseBytes));
        assert_eq!(find("sent_ns,connection"), None);
        assert_eq!(Columns::find(["time"].into_iter(), |_| Some(1_000)).ok(), columns(0, 1_000, None));
    }
}
