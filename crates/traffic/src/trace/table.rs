//! Arrivals in Parquet files.

use std::io::{Read, Seek};

use anyhow::{Context, ensure};

use super::column::{Column, Columns, Row};
use crate::columnar::{Kind, ROWS_PER_GROUP, Table};

const FOREIGN: &str = "not a flat Parquet file; write columns without lists and structures, or a CSV file";
const UNREADABLE: &str = "cannot decode its columns; write integers or floats, plain or with a dictionary, \
                          uncompressed or with Snappy or Zstandard, or a CSV file";

/// The values of a column, with `None` for null.
type Values = std::vec::IntoIter<Option<i64>>;

/// The rows of a file, of which one group at a time is in memory.
pub(super) struct TableRows<F> {
    table: Table<F>,
    pub(super) columns: Columns,
    group: usize,
    times: Values,
    others: [Values; Column::ALL.len()],
    returned: u64,
}

impl<F: Read + Seek> TableRows<F> {
    pub(super) fn new(file: F) -> anyhow::Result<Self> {
        let table = Table::open(file)?.context(FOREIGN)?;
        let names = table.columns.iter().map(|column| column.name.as_str());
        let columns = Columns::find(names, |at| table.columns[at].unit_ns)?;
        Ok(Self { table, columns, group: 0, times: Values::default(), others: Default::default(), returned: 0 })
    }

    /// Decodes the next group.
    fn advance(&mut self) -> anyhow::Result<()> {
        let rows = self.table.groups[self.group].rows;
        ensure!(rows <= ROWS_PER_GROUP, "a group has {rows} rows; write groups of at most {ROWS_PER_GROUP} rows");
        let mut read = |column: usize| -> anyhow::Result<Values> {
            Ok(self.table.read(self.group, column)?.context(UNREADABLE)?.into_iter())
        };
        self.times = read(self.columns.time)?;
        for (column, values) in self.columns.others.into_iter().zip(&mut self.others) {
            *values = column.map(&mut read).transpose()?.unwrap_or_default();
        }
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

    /// Converts a value to a whole number.
    fn whole(&self, column: Column, value: i64) -> Option<u64> {
        match self.table.columns[self.columns.others[column as usize]?].kind? {
            Kind::Int32 | Kind::Int64 => u64::try_from(value).ok(),
            Kind::Double => {
                Some(f64::from_bits(value as u64)).filter(|it| *it >= 0.0 && it.fract() == 0.0).map(|it| it as u64)
            }
        }
    }

    fn row(&mut self, time: Option<i64>) -> anyhow::Result<Row> {
        self.returned += 1;
        let number = self.returned;
        let time_ns =
            time.and_then(|time| self.time_ns(time)).with_context(|| format!("row {number} has no valid time"))?;
        let mut row = Row { time_ns, values: [None; Column::ALL.len()] };
        for column in Column::ALL.into_iter().filter(|column| self.columns.has(*column)) {
            let value = self.others[column as usize].next().flatten().and_then(|value| self.whole(column, value));
            let name = column.name();
            ensure!(value.is_some(), "row {number} has no valid {name}; ignore it with --trace-ignore {name}");
            row.values[column as usize] = value;
        }
        Ok(row)
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
