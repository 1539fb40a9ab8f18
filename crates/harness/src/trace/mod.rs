//! Recorded arrivals, from CSV and Parquet files of any origin.
//!
//! A file is read as a stream: a line or a group of rows at a time. So its size needs no memory.

mod column;
mod csv;
mod table;

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use load::Arrivals;
use load::config::{Arrival, Trace};
use server::regular;

use crate::columnar::MAGIC;
pub use column::Row;
use csv::CsvRows;
use table::TableRows;

/// The maximum number of different sizes of responses. Each is a prepared request, and part of the stored plan.
const SIZES_MAX: usize = 10_000;

/// The rows of a file.
pub struct Rows {
    has_connections: bool,
    rows: Box<dyn Iterator<Item = anyhow::Result<Row>>>,
}

impl Rows {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let place = || format!("cannot read {}", path.display());
        Self::read(regular::open(path).with_context(place)?).with_context(place)
    }

    /// Reads a file of either format.
    pub fn read(mut file: impl Read + Seek + 'static) -> anyhow::Result<Self> {
        let mut start = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut start)?;
        file.rewind()?;
        if start == MAGIC {
            let rows = TableRows::new(file)?;
            return Ok(Self { has_connections: rows.has_connections(), rows: Box::new(rows) });
        }
        let rows = CsvRows::new(BufReader::with_capacity(1 << 20, file))?;
        Ok(Self { has_connections: rows.has_connections(), rows: Box::new(rows) })
    }
}

impl Iterator for Rows {
    type Item = anyhow::Result<Row>;

    fn next(&mut self) -> Option<anyhow::Result<Row>> {
        self.rows.next()
    }
}

/// Returns the times after the start of a part of a recording, and the rows. Without `length_ns`, the part reaches to the end.
fn part(
    rows: impl Iterator<Item = anyhow::Result<Row>>,
    from_ns: u64,
    length_ns: Option<u64>,
) -> impl Iterator<Item = anyhow::Result<(u64, Row)>> {
    let mut previous: Option<i64> = None;
    let mut first_ns = 0;
    let offsets = rows.enumerate().map(move |(at, row)| -> anyhow::Result<(u64, Row)> {
        let row = row?;
        let time_ns = row.time_ns;
        first_ns = if previous.is_none() { time_ns } else { first_ns };
        if previous.is_some_and(|previous| time_ns < previous) {
            bail!("row {} is earlier than the row before; sort the file by time", at + 1);
        }
        previous = Some(time_ns);
        Ok((time_ns.abs_diff(first_ns), row))
    });
    let is_before = move |row: &anyhow::Result<(u64, _)>| row.as_ref().is_ok_and(|(at_ns, _)| *at_ns < from_ns);
    let end_ns = length_ns.map_or(u64::MAX, |length_ns| from_ns.saturating_add(length_ns));
    let is_within = move |row: &anyhow::Result<(u64, _)>| row.as_ref().map_or(true, |(at_ns, _)| *at_ns < end_ns);
    offsets.skip_while(is_before).take_while(is_within).map(move |row| row.map(|(at_ns, it)| (at_ns - from_ns, it)))
}

/// Counts the arrivals of a part of a file, and collects the sizes of responses if `with_sizes`. Without `length_ns`, the part ends a
/// mean interval after the last arrival.
pub fn scan(
    file: &Path,
    (from_ns, length_ns): (u64, Option<u64>),
    speed: f64,
    with_sizes: bool,
) -> anyhow::Result<Trace> {
    let file = std::path::absolute(file)?;
    let place = || file.display().to_string();
    let rows = Rows::open(&file)?;
    let has_connections = rows.has_connections;
    let (mut requests, mut last_ns) = (0, 0);
    let mut sizes = BTreeSet::new();
    for row in part(rows, from_ns, length_ns) {
        let (at_ns, row) = row.with_context(place)?;
        last_ns = at_ns;
        requests += 1;
        sizes.extend(row.response_bytes.filter(|_| with_sizes));
        ensure!(
            sizes.len() <= SIZES_MAX,
            "{} has more than {SIZES_MAX} sizes of responses; round them",
            file.display()
        );
    }
    ensure!(requests > 0, "{} has no arrival in this part; change its start or its length", file.display());
    let length_ns = match length_ns {
        Some(length_ns) => length_ns,
        None if last_ns == 0 => bail!("{} has only one time in this part; set the length of the part", file.display()),
        None => last_ns + (last_ns / requests).max(1),
    };
    let response_bytes = sizes.into_iter().collect();
    Ok(Trace { from_ns, length_ns, speed, requests, has_connections, response_bytes, file })
}

/// Opens the file of a trace for its replay.
pub fn replay(trace: &Trace) -> Result<Arrivals, String> {
    let rows = Rows::open(&trace.file).map_err(|error| format!("workload.trace: {error:#}"))?;
    let (speed, file) = (trace.speed, trace.file.clone());
    let arrivals = part(rows, trace.from_ns, Some(trace.length_ns)).map(move |row| match row {
        Ok((at_ns, Row { connection, response_bytes, .. })) => {
            Ok(Arrival { at_ns: at_ns as f64 / speed, connection, response_bytes })
        }
        Err(error) => Err(format!("workload.trace: {}: {error:#}", file.display())),
    });
    Ok(Box::new(arrivals))
}

#[cfg(test)]
mod tests;
