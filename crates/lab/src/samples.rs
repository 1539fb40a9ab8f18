//! Raw samples in a columnar file (Parquet), which pandas, polars and DuckDB read.
//!
//! Columns, all of 64-bit integers: `planned_ns`, `sent_ns` (null: never sent), `complete_ns` (null: never answered),
//! in nanoseconds after the measured window began, and `connection`; then what the kernel's timestamps say, null where they
//! do not: `scheduler_ns`, `driver_ns`, `arrived_ns`, of the same zero, and the length `hardware_service_ns`; and `client`,
//! which process's it is, where several divided the load. The file's key-value metadata holds every parameter of the trial.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use load::{LoadConfig, Sample};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::files;
use crate::record::Trial;

const SCHEMA: &str = "message samples {
    required int64 planned_ns; optional int64 sent_ns; optional int64 complete_ns; required int64 connection;
    optional int64 scheduler_ns; optional int64 driver_ns; optional int64 arrived_ns;
    optional int64 hardware_service_ns; required int64 client;
}";

/// A column's value in a row; `None` is null.
type Column = fn(&Sample) -> Option<i64>;

/// In the order of the schema.
const COLUMNS: [Column; 9] = [
    |sample| Some(sample.planned_ns),
    |sample| known(sample.sent_ns),
    |sample| known(sample.complete_ns),
    |sample| Some(i64::from(sample.connection)),
    |sample| known(sample.scheduler_ns),
    |sample| known(sample.driver_ns),
    |sample| known(sample.arrived_ns),
    |sample| known(sample.hardware_service_ns),
    |sample| Some(i64::from(sample.client)),
];

/// Where the values of a column go, in the order of the schema.
const PLACES: [fn(&mut Sample, i64); 9] = [
    |sample, value| sample.planned_ns = value,
    |sample, value| sample.sent_ns = value,
    |sample, value| sample.complete_ns = value,
    |sample, value| sample.connection = value as u32,
    |sample, value| sample.scheduler_ns = value,
    |sample, value| sample.driver_ns = value,
    |sample, value| sample.arrived_ns = value,
    |sample, value| sample.hardware_service_ns = value,
    |sample, value| sample.client = value as u32,
];

fn known(ns: i64) -> Option<i64> {
    (ns != Sample::NEVER).then_some(ns)
}

/// Rows that are held in memory at once.
const ROWS_PER_GROUP: usize = 1 << 20;

/// A load was measured, and its samples cannot be kept: nothing that is measured after it could be either.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

/// That samples cannot be written there.
pub(crate) fn unwritten(path: &Path, error: &dyn fmt::Display) -> Unwritten {
    Unwritten(format!("{}: cannot write samples ({error}); make room there, or name another folder", path.display()))
}

/// What a client says of its failure, as an error.
pub(crate) fn failure(reason: String, is_unwritten: bool) -> anyhow::Error {
    if is_unwritten { Unwritten(reason).into() } else { anyhow::Error::msg(reason) }
}

/// Writes samples, and `parameters` as the file's metadata.
///
/// # Errors
/// What the file system says, as [`Unwritten`].
pub fn write(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    write_all(path, samples, parameters).map_err(|error| unwritten(path, &format_args!("{error:#}")).into())
}

fn write_all(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema parses"));
    let metadata = parameters.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata))
        .build();
    let file = files::create_anywhere(path)?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    for rows in samples.chunks(ROWS_PER_GROUP) {
        let mut group = writer.next_row_group()?;
        for column in COLUMNS {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            let values: Vec<i64> = rows.iter().filter_map(column).collect();
            let is_there: Vec<i16> = rows.iter().map(|row| i16::from(column(row).is_some())).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&is_there), None)?;
            writer.close()?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// What goes with the samples of a load, and of the trial that it is for.
///
/// # Errors
/// None that is known of: both can be written as JSON.
pub fn parameters(config: &LoadConfig, trial: Option<&Trial>) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut parameters =
        vec![("muxbench", env!("CARGO_PKG_VERSION").to_owned()), ("load", serde_json::to_string(config)?)];
    if let Some(trial) = trial {
        parameters.push(("architecture", trial.architecture.to_string()));
        parameters.push(("trial", serde_json::to_string(trial)?));
    }
    Ok(parameters)
}

/// Reads samples back.
///
/// # Errors
/// When the file is missing or not of this kind.
pub fn read(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let place = || format!("reading samples from {}", path.display());
    let others = || format!("{}: not the samples of a trial", path.display());
    let file = File::open(path).with_context(place)?;
    let file_bytes = file.metadata().with_context(place)?.len();
    let reader = SerializedFileReader::new(file).with_context(place)?;
    let schema = parse_message_type(SCHEMA).context("the schema of samples")?;
    let (theirs, all) = (reader.metadata().file_metadata().schema().get_fields(), schema.get_fields());
    // Those of before there could be several processes have no last column.
    let columns = theirs.len();
    anyhow::ensure!(columns + 1 >= all.len() && all.starts_with(theirs), others());
    let mut samples = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).with_context(place)?;
        let rows = usize::try_from(group.metadata().num_rows()).ok().filter(|&rows| rows <= ROWS_PER_GROUP);
        let rows = rows.with_context(others)?;
        let first = samples.len();
        for (number, set) in PLACES.into_iter().enumerate().take(columns) {
            // The reader panics where a place or a length is negative.
            let chunk = group.metadata().column(number);
            let mut places =
                [chunk.data_page_offset(), chunk.compressed_size()].into_iter().chain(chunk.dictionary_page_offset());
            anyhow::ensure!(places.all(|it| u64::try_from(it).is_ok_and(|it| it <= file_bytes)), others());
            let column = group.get_column_reader(number).with_context(place)?;
            let mut column = get_typed_column_reader::<Int64Type>(column);
            // A column without nulls says nothing of which values are there.
            let (mut values, mut is_there) = (Vec::with_capacity(rows), Vec::new());
            let mut read = 0;
            while read < rows {
                let (records, ..) =
                    column.read_records(rows - read, Some(&mut is_there), None, &mut values).with_context(place)?;
                anyhow::ensure!(records > 0, "{}: the file ends too soon", path.display());
                read += records;
            }
            // Only now is it known that there are so many.
            samples.resize(first + rows, Sample::UNKNOWN);
            let there = |row: &usize| is_there.get(*row).is_none_or(|&level| level == 1);
            for (row, value) in (0..rows).filter(there).zip(values) {
                set(&mut samples[first + row], value);
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let samples: Vec<Sample> = (0..1000)
            .map(|at| Sample {
                planned_ns: at * 1000,
                sent_ns: if at % 13 == 0 { Sample::NEVER } else { at * 1000 + 7 },
                complete_ns: if at % 5 == 0 { Sample::NEVER } else { at * 1000 + 50_000 },
                driver_ns: if at % 3 == 0 { Sample::NEVER } else { at * 1000 + 8 },
                connection: (at % 7) as u32,
                client: (at % 2) as u32,
                ..Sample::UNKNOWN
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.parquet");
        write(&path, &samples, &[("architecture", "epoll".into())]).unwrap();
        assert_eq!(read(&path).unwrap(), samples);
        write(&path, &[], &[]).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        assert!(read(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
    }
}
