//! The columns of a file: their names, the units of times, and the values of a row.

/// The names of a column of times, which may end with a unit. muxbench's samples have `planned_ns`.
const TIMES: [&str; 6] = ["planned", "time", "timestamp", "arrival", "start", "ts"];
const UNITS: [(&str, u64); 4] = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];
/// The names of the columns of connections and of the sizes of responses.
const CONNECTIONS: [&str; 1] = ["connection"];
const RESPONSES: [&str; 2] = ["response_bytes", "bytes"];

/// The reason why a file cannot be replayed.
pub(super) const NO_TIME: &str = "no column of times; name one time_s, time_ms, time_us, time_ns or timestamp";

/// A second, the unit of numbers without another one.
const SECOND_NS: u64 = 1_000_000_000;

/// A row of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The time in nanoseconds, from any origin.
    pub time_ns: i64,
    /// The number of the connection, if the file has such a column.
    pub connection: Option<u64>,
    /// The size of the response in bytes, if the file has such a column.
    pub response_bytes: Option<u64>,
}

/// The columns of a file, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Columns {
    pub(super) time: usize,
    /// The unit of times, in nanoseconds.
    pub(super) unit_ns: u64,
    pub(super) connection: Option<usize>,
    /// The sizes of responses in bytes.
    pub(super) response: Option<usize>,
}

impl Columns {
    /// Finds the columns by their names. `unit_ns` returns the unit of a column whose name has none.
    pub(super) fn find<'a>(
        names: impl Iterator<Item = &'a str> + Clone,
        unit_ns: impl Fn(usize) -> Option<u64>,
    ) -> Option<Self> {
        let (time, unit) = names.clone().enumerate().find_map(|(at, name)| Some((at, unit_of(name)?)))?;
        let of =
            |known: &[&str]| names.clone().position(|name| known.iter().any(|it| name.trim().eq_ignore_ascii_case(it)));
        let unit_ns = unit.or_else(|| unit_ns(time)).unwrap_or(SECOND_NS);
        Some(Self { time, unit_ns, connection: of(&CONNECTIONS), response: of(&RESPONSES) })
    }

    /// The only column of a file without names: times in seconds.
    pub(super) fn first() -> Self {
        Self { time: 0, unit_ns: SECOND_NS, connection: None, response: None }
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
    fn columns_are_found_by_name() {
        let find = |names: &str| Columns::find(names.split(','), |_| None);
        let columns = |time, unit_ns, connection| Some(Columns { time, unit_ns, connection, response: None });
        assert_eq!(find("planned_ns,sent_ns,complete_ns,connection,client"), columns(0, 1, Some(3)));
        assert_eq!(find("path, Timestamp ,size"), columns(1, SECOND_NS, None));
        assert_eq!(find("Connection,time_ms"), columns(1, 1_000_000, Some(0)));
        assert_eq!(find("bytes,time,Response_Bytes").unwrap().response, Some(0));
        assert_eq!(find("sent_ns,connection"), None);
        assert_eq!(Columns::find(["time"].into_iter(), |_| Some(1_000)), columns(0, 1_000, None));
    }
}
