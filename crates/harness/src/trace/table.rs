//! Arrivals in Parquet files.

use std::io::{Read, Seek};

use anyhow::{Context, ensure};

use super::column::{Columns, NO_TIME, Row};
use crate::columnar::{Kind, ROWS_PER_GROUP, Table};

const FOREIGN: &str = "not a flat Parquet file; write columns without lists and structures, or a CSV file";
const UNREADABLE: &str = "cannot decode its columns; write integers or floats, plain or with a dictionary, \
                          uncompressed or with Snappy or Zstandard, or a CSV file";

/// The values of a column, with `None` for null.
type Values = std::vec::IntoIter<Option<i64>>;

/// The rows of a file, of which one group at a time is in memory.
pub(super) struct TableRows<F> {
    table: Table<F>,
    columns: Columns,
    group: usize,
    times: Values,
    connections: Values,
    responses: Values,
    returned: u64,
}

impl<F: Read + Seek> TableRows<F> {
    pub(super) fn new(file: F) -> anyhow::Result<Self> {
        let table = Table::open(file)?.context(FOREIGN)?;
        let names = table.columns.iter().map(|column| column.name.as_str());
        let columns = Columns::find(names, |at| table.columns[at].unit_ns).context(NO_TIME)?;
        let nothing = || Vec::new().into_iter();
        let (times, connections, responses) = (nothing(), nothing(), nothing());
        Ok(Self { table, columns, group: 0, times, connections, responses, returned: 0 })
    }

    pub(super) fn has_connections(&self) -> bool {
        self.columns.connection.is_some()
    }

    /// Decodes the next group.
    fn advance(&mut self) -> anyhow::Result<()> {
        let rows = self.table.groups[self.group].rows;
        ensure!(rows <= ROWS_PER_GROUP, "a group has {rows} rows; write groups of at most {ROWS_PER_GROUP} rows");
        let mut read = |column: Option<usize>| -> anyhow::Result<Values> {
            let Some(column) = column else { return Ok(Vec::new().into_iter()) };
            Ok(self.table.read(self.group, column)?.context(UNREADABLE)?.into_iter())
        };
        self.times = read(Some(self.columns.time))?;
        self.connections = read(self.columns.connection)?;
        self.responses = read(self.columns.response)?;
        self.group += 1;
        Ok(())
    }

    /// Converts a value to nanoseconds.
    fn time_ns(&self, value: i64) -> Option<i64> {
        let unit_ns = self.columns.unit_ns;
        match self.table.columns[self.columns.time].kind? {
            Kind::Int32 | Kind::Int64 => value.checked_mul(i64::try_from(unit_ns).ok()?),
            Kind::Double => {
                let ns = f64::from_bits(value as u64) * unit_ns as f64;
                (ns.abs() < i64::MAX as f64).then_some(ns as i64)
            }
        }
    }

    fn row(&mut self, time: Option<i64>) -> anyhow::Result<Row> {
        self.returned += 1;
        let number = self.returned;
        let time_ns =
            time.and_then(|time| self.time_ns(time)).with_context(|| format!("row {number} has no valid time"))?;
        let whole = |column: Option<usize>, values: &mut Values, what: &str| -> anyhow::Result<Option<u64>> {
            if column.is_none() {
                return Ok(None);
            }
            let value = values.next().flatten().and_then(|value| u64::try_from(value).ok());
            value.with_context(|| format!("row {number} has no valid {what}")).map(Some)
        };
        let connection = whole(self.columns.connection, &mut self.connections, "connection")?;
        let response_bytes = whole(self.columns.response, &mut self.responses, "size")?;
        Ok(Row { time_ns, connection, response_bytes })
    }
}

impl<F: Read + Seek> Iterator for TableRows<F> {
    type Item = anyhow::Result<Row>;

    fn next(&mut self) -> Option<anyhow::Result<Row>> {
        loop {
            if let Some(time) = self.times.next() {
                return Some(self.row(time));
            }
            if self.group == self.table.groups.len() {
                return None;
            }
            if let Err(error) = self.advance() {
                // The rest is not readable either.
                self.group = self.table.groups.len();
                return Some(Err(error));
            }
        }
    }
}
