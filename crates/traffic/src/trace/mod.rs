//! Recorded arrivals, from CSV and Parquet files of any origin.
//!
//! A file is read as a stream: a line or a group of rows at a time. So memory does not grow with its size.

mod column;
mod csv;
mod table;

use std::collections::{BTreeSet, VecDeque};
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use load::Arrivals;
use load::config::{Arrival, Sizes, Trace};
use server::regular;

use crate::columnar::MAGIC;
use column::Columns;
pub use column::{Column, Row};
use csv::CsvRows;
use table::TableRows;

/// The maximum number of different sizes of messages. Each is a prepared request, and part of the stored plan.
const SIZES_MAX: usize = 10_000;

/// The steps of a part at which the search for the peak compares it.
const PEAK_STEPS: u64 = 100;

/// The rows of a file.
pub struct Rows {
    /// The columns that the rows have.
    columns: Vec<Column>,
    rows: Box<dyn Iterator<Item = anyhow::Result<Row>>>,
}

impl Rows {
    fn open(path: &Path, ignored: &[Column]) -> anyhow::Result<Self> {
        let place = || format!("cannot read {}", path.display());
        Self::read(regular::open(path).with_context(place)?, ignored).with_context(place)
    }

    /// Reads a file of either format, without some of its columns.
    pub fn read(mut file: impl Read + Seek + 'static, ignored: &[Column]) -> anyhow::Result<Self> {
        let found = |columns: &mut Columns| {
            columns.ignore(ignored);
            Column::ALL.into_iter().filter(|column| columns.has(*column)).collect()
        };
        let mut start = Vec::new();
        (&mut file).take(MAGIC.len() as u64).read_to_end(&mut start)?;
        file.rewind()?;
        if start == MAGIC {
            let mut rows = TableRows::new(file)?;
            return Ok(Self { columns: found(&mut rows.columns), rows: Box::new(rows) });
        }
        let mut rows = CsvRows::new(BufReader::with_capacity(1 << 20, file))?;
        Ok(Self { columns: found(&mut rows.columns), rows: Box::new(rows) })
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

/// Returns the start of the part with the most arrivals among those of this length, in steps of a hundredth of the length.
pub fn peak_ns(file: &Path, length_ns: u64) -> anyhow::Result<u64> {
    let step_ns = (length_ns / PEAK_STEPS).max(1);
    // The steps of the current part that have arrivals, with their numbers.
    let mut steps: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut count, mut most, mut peak) = (0, 0, 0);
    for row in part(Rows::open(file, &Column::ALL)?, 0, None) {
        let step = row.with_context(|| file.display().to_string())?.0 / step_ns;
        while let Some((_, left)) = steps.pop_front_if(|(first, _)| *first + PEAK_STEPS <= step) {
            count -= left;
        }
        match steps.back_mut() {
            Some((last, arrivals)) if *last == step => *arrivals += 1,
            _ => steps.push_back((step, 1)),
        }
        count += 1;
        if count > most {
            (most, peak) = (count, (step + 1).saturating_sub(PEAK_STEPS));
        }
    }
    Ok(peak * step_ns)
}

/// Counts the arrivals of a part of a file, and collects their sizes. Without `length_ns`, the part ends a mean interval after the last
/// arrival. `refusal` returns why a column cannot be replayed.
pub fn scan(
    file: &Path,
    (from_ns, length_ns): (u64, Option<u64>),
    speed: f64,
    ignored: &[Column],
    refusal: &dyn Fn(Column) -> Option<&'static str>,
) -> anyhow::Result<Trace> {
    let file = std::path::absolute(file)?;
    let place = || file.display().to_string();
    let rows = Rows::open(&file, ignored)?;
    if let Some((column, reason)) = rows.columns.iter().find_map(|column| Some((column.name(), refusal(*column)?))) {
        bail!("cannot replay the column {column} of {}: {reason}; or ignore it with --trace-ignore {column}", place());
    }
    let (has_connections, has_sizes) =
        (rows.columns.contains(&Column::Connection), rows.columns.iter().any(|it| *it != Column::Connection));
    let (mut requests, mut first_ns, mut last_ns) = (0, None, 0);
    let mut sizes = BTreeSet::new();
    for row in part(rows, from_ns, length_ns) {
        let (at_ns, row) = row.with_context(place)?;
        first_ns = first_ns.or(Some(at_ns));
        last_ns = at_ns;
        requests += 1;
        sizes.extend(has_sizes.then(|| sizes_of(&row)));
        ensure!(
            sizes.len() <= SIZES_MAX,
            "{} has more than {SIZES_MAX} pairs of sizes of requests and responses; round them",
            file.display()
        );
    }
    ensure!(requests > 0, "{} has no arrival in this part; change its start or its length", file.display());
    let between_ns = last_ns - first_ns.unwrap_or(last_ns);
    let length_ns = match length_ns {
        Some(length_ns) => length_ns,
        None if between_ns == 0 => {
            bail!("{} has only one time in this part; set the length of the part", file.display())
        }
        // One interval fewer than arrivals lies between the first and the last.
        None => last_ns + (between_ns / (requests - 1)).max(1),
    };
    let sizes = sizes.into_iter().collect();
    Ok(Trace { from_ns, length_ns, speed, requests, has_connections, sizes, file })
}

fn sizes_of(row: &Row) -> Sizes {
    Sizes { request_bytes: row.value(Column::RequestBytes), response_bytes: row.value(Column::ResponseBytes) }
}

/// Whether a trace uses a column.
fn uses(trace: &Trace, column: Column) -> bool {
    let first = trace.sizes.first();
    match column {
        Column::Connection => trace.has_connections,
        Column::RequestBytes => first.is_some_and(|sizes| sizes.request_bytes.is_some()),
        Column::ResponseBytes => first.is_some_and(|sizes| sizes.response_bytes.is_some()),
    }
}

/// The columns that a trace does not use.
fn ignored(trace: &Trace) -> Vec<Column> {
    Column::ALL.into_iter().filter(|column| !uses(trace, *column)).collect()
}

/// Checks that the file of a trace still has as many arrivals as were counted, of the same sizes.
pub fn check(trace: &Trace) -> anyhow::Result<()> {
    let found = scan(&trace.file, (trace.from_ns, Some(trace.length_ns)), trace.speed, &ignored(trace), &|_| None)?;
    ensure!(found == *trace, "{} has changed", trace.file.display());
    Ok(())
}

/// Opens the file of a trace for its replay.
pub fn replay(trace: &Trace) -> Result<Arrivals, String> {
    let rows = Rows::open(&trace.file, &ignored(trace)).map_err(|error| format!("workload.trace: {error:#}"))?;
    let (speed, file) = (trace.speed, trace.file.clone());
    let arrivals = part(rows, trace.from_ns, Some(trace.length_ns)).map(move |row| match row {
        Ok((at_ns, row)) => {
            let connection = row.value(Column::Connection);
            Ok(Arrival { at_ns: at_ns as f64 / speed, connection, sizes: sizes_of(&row) })
        }
        Err(error) => Err(format!("workload.trace: {}: {error:#}", file.display())),
    });
    Ok(Box::new(arrivals))
}

#[cfg(test)]
mod tests;
