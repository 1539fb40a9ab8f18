//! Raw samples in a columnar file (Parquet), which pandas, polars and DuckDB read.
//!
//! All columns are 64-bit integers. `planned_ns`, `sent_ns` (null: never sent) and `complete_ns` (null: never answered) count
//! nanoseconds from the start of the window. `connection` and `client` are numbers of a connection and of a client process.
//! Kernel timestamps may be null: `scheduler_ns`, `driver_ns` and `arrived_ns` count from the start of the window too;
//! `hardware_service_ns` is a duration. `counted` is 1 if figures count the request, 0 if it was sent in a guard or in a round that was
//! left out. The file's key-value metadata holds all parameters of the trial.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use load::Sample;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use server::regular;

use crate::columnar::{Kind, ROWS_PER_GROUP, SchemaColumn, Table};

/// The schema of a file, in Parquet's notation.
pub const SCHEMA: &str = "message samples {
    required int64 planned_ns; optional int64 sent_ns; optional int64 complete_ns; required int64 connection;
    optional int64 scheduler_ns; optional int64 driver_ns; optional int64 arrived_ns;
    optional int64 hardware_service_ns; required int64 client; required int64 counted;
}";

/// The limit of a sample's times, in nanoseconds (104 days). The sum of 1,000 such times fits in 64 bits with a sign.
pub const TIME_NS_MAX: u64 = 1 << 53;

/// The functions that get and set a column's value in a row; `None` is null.
type Accessors = (fn(&Sample) -> Option<i64>, fn(&mut Sample, i64));

/// The columns in the order of the schema.
const COLUMNS: [Accessors; 10] = [
    (|row| Some(row.planned_ns), |row, value| row.planned_ns = value),
    (|row| known(row.sent_ns), |row, value| row.sent_ns = value),
    (|row| known(row.complete_ns), |row, value| row.complete_ns = value),
    (|row| Some(row.connection.into()), |row, value| row.connection = value as u32),
    (|row| known(row.scheduler_ns), |row, value| row.scheduler_ns = value),
    (|row| known(row.driver_ns), |row, value| row.driver_ns = value),
    (|row| known(row.arrived_ns), |row, value| row.arrived_ns = value),
    (|row| known(row.hardware_service_ns), |row, value| row.hardware_service_ns = value),
    (|row| Some(row.client.into()), |row, value| row.client = value as u32),
    (|row| Some(row.is_counted.into()), |row, value| row.is_counted = value != 0),
];

fn known(ns: i64) -> Option<i64> {
    (ns != Sample::NEVER).then_some(ns)
}

/// Writes samples, and `parameters` as the file's metadata.
pub fn write(file: File, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema parses"));
    let metadata = parameters.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // Readers rely on a minimum of bytes per row, but repeated connection numbers would compress to almost nothing.
        .set_column_compression("connection".into(), Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    for rows in samples.chunks(ROWS_PER_GROUP) {
        let mut group = writer.next_row_group()?;
        for (value, _) in COLUMNS {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            let values: Vec<i64> = rows.iter().filter_map(value).collect();
            let levels: Vec<i16> = rows.iter().map(|row| i16::from(value(row).is_some())).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            writer.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// Reads samples from a file of any user.
pub fn read(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let place = || format!("cannot read samples from {}", path.display());
    read_from(&mut regular::open(path).with_context(place)?).with_context(place)
}

/// Reads the parameters in the metadata of a file of any user.
pub fn parameters(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let place = || format!("cannot read samples from {}", path.display());
    let table = Table::open(regular::open(path).with_context(place)?).with_context(place)?;
    Ok(table.context(FOREIGN).with_context(place)?.metadata)
}

const FOREIGN: &str = "not the samples of a trial";

/// Reads samples that any user wrote. The file's size bounds time and memory.
pub fn read_from(file: &mut (impl Read + Seek)) -> anyhow::Result<Vec<Sample>> {
    let mut table = Table::open(file)?.context(FOREIGN)?;
    ensure!(is_ours(&table.columns), FOREIGN);
    let mut samples = Vec::new();
    for group in 0..table.groups.len() {
        let first = samples.len();
        for (column, (_, set)) in COLUMNS.into_iter().take(table.columns.len()).enumerate() {
            let values = table.read(group, column)?.context(FOREIGN)?;
            // Allocate after reading, which has shown that the rows exist.
            samples.resize(first + values.len(), Sample::UNKNOWN);
            for (sample, value) in samples[first..].iter_mut().zip(values) {
                value.into_iter().for_each(|value| set(sample, value));
            }
        }
    }
    Ok(samples)
}

/// Checks the samples of a client on an untrusted host, which has this number of connections. An error names the first impossible
/// figure.
pub fn check(samples: &[Sample], connections: u32) -> Result<(), String> {
    for sample in samples {
        if sample.connection >= connections {
            let number = sample.connection;
            return Err(format!("a sample has connection {number}, but the client has only {connections} connections"));
        }
        let times = [
            sample.planned_ns,
            sample.sent_ns,
            sample.complete_ns,
            sample.scheduler_ns,
            sample.driver_ns,
            sample.arrived_ns,
            sample.hardware_service_ns,
        ];
        if let Some(ns) = times.into_iter().find(|&ns| ns != Sample::NEVER && ns.unsigned_abs() > TIME_NS_MAX) {
            return Err(format!("a sample has a time of {ns} ns"));
        }
    }
    Ok(())
}

/// Whether a file has the columns of samples.
fn is_ours(theirs: &[SchemaColumn]) -> bool {
    let schema = parse_message_type(SCHEMA).expect("the schema parses");
    let ours = schema.get_fields();
    let is_same = |(ours, theirs): (&TypePtr, &SchemaColumn)| {
        let is_named = theirs.name == ours.name() && theirs.kind == Some(Kind::Int64);
        is_named && theirs.is_optional == ours.is_optional()
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
}
