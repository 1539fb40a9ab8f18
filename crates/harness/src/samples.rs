//! Raw samples in a columnar file (Parquet), which pandas, polars and DuckDB read.
//!
//! All columns are 64-bit integers. `planned_ns`, `sent_ns` (null: never sent) and `complete_ns` (null: never answered) count
//! nanoseconds from the start of the window. `connection` and `client` are numbers of a connection and of a client process.
//! Kernel timestamps may be null: `scheduler_ns`, `driver_ns` and `arrived_ns` count from the start of the window too;
//! `hardware_service_ns` is a duration. The file's key-value metadata holds all parameters of the trial.
//!
//! The crate `parquet` only writes the files, because its reader panics or runs almost endlessly on hostile files.

mod column;
#[cfg(test)]
mod tests;
mod thrift;

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use load::{LoadConfig, Sample};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use server::regular;

use self::thrift::Structure;
use crate::files;
use crate::model::Trial;

const SCHEMA: &str = "message samples {
    required int64 planned_ns; optional int64 sent_ns; optional int64 complete_ns; required int64 connection;
    optional int64 scheduler_ns; optional int64 driver_ns; optional int64 arrived_ns;
    optional int64 hardware_service_ns; required int64 client;
}";

/// The functions that get and set a column's value in a row; `None` is null.
type Column = (fn(&Sample) -> Option<i64>, fn(&mut Sample, i64));

/// The columns in the order of the schema.
const COLUMNS: [Column; 9] = [
    (|row| Some(row.planned_ns), |row, value| row.planned_ns = value),
    (|row| known(row.sent_ns), |row, value| row.sent_ns = value),
    (|row| known(row.complete_ns), |row, value| row.complete_ns = value),
    (|row| Some(row.connection.into()), |row, value| row.connection = value as u32),
    (|row| known(row.scheduler_ns), |row, value| row.scheduler_ns = value),
    (|row| known(row.driver_ns), |row, value| row.driver_ns = value),
    (|row| known(row.arrived_ns), |row, value| row.arrived_ns = value),
    (|row| known(row.hardware_service_ns), |row, value| row.hardware_service_ns = value),
    (|row| Some(row.client.into()), |row, value| row.client = value as u32),
];

fn known(ns: i64) -> Option<i64> {
    (ns != Sample::NEVER).then_some(ns)
}

/// The limit of rows in a group, which is encoded in memory.
const ROWS_PER_GROUP: usize = 1 << 20;

/// The error of samples that cannot be written. It ends the run, because writing later samples would fail too.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

pub(crate) fn unwritten(path: &Path, error: &dyn fmt::Display) -> Unwritten {
    Unwritten(format!("{}: cannot write samples ({error}); free some space, or choose another folder", path.display()))
}

/// The error of a failed client.
pub(crate) fn failure(reason: String, is_unwritten: bool) -> anyhow::Error {
    if is_unwritten { Unwritten(reason).into() } else { anyhow::Error::msg(reason) }
}

/// Writes samples, and `parameters` as the file's metadata. All errors are [`Unwritten`].
pub fn write(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    write_all(path, samples, parameters).map_err(|error| unwritten(path, &format_args!("{error:#}")).into())
}

fn write_all(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema parses"));
    let metadata = parameters.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // Readers rely on a minimum of bytes per row, but repeated connection numbers would compress to almost nothing.
        .set_column_compression("connection".into(), Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(metadata))
        .build();
    let file = files::create_anywhere(path)?;
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

/// The metadata of samples: the load and its trial.
pub fn parameters(config: &LoadConfig, trial: Option<&Trial>) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut parameters =
        vec![("muxbench", env!("CARGO_PKG_VERSION").to_owned()), ("load", serde_json::to_string(config)?)];
    if let Some(trial) = trial {
        parameters.push(("architecture", trial.architecture.to_string()));
        parameters.push(("trial", serde_json::to_string(trial)?));
    }
    Ok(parameters)
}

/// Reads samples from a file of any user.
pub fn read(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let place = || format!("cannot read samples from {}", path.display());
    read_from(&mut regular::open(path).with_context(place)?).with_context(place)
}

const FOREIGN: &str = "not the samples of a trial";
/// The limit of a footer, in bytes. A valid footer has about 2 KiB for each group of rows, and the metadata.
const FOOTER_BYTES_MAX: usize = 8 << 20;
/// The maximum rows for each byte of a file, besides the rows of one group. Rows differ in a time or in the connection, and so
/// each takes at least a quarter of a byte.
const ROWS_PER_BYTE_MAX: u64 = 4;
/// The size of the end of a file: the length of its footer, and a magic number.
const TAIL_BYTES: usize = 8;

/// Reads samples that any user wrote. The file's size bounds time and memory: all columns together have no more bytes than the
/// file, and all groups together have at most `ROWS_PER_BYTE_MAX` rows for each byte of the file, plus one group.
pub fn read_from(file: &mut (impl Read + Seek)) -> anyhow::Result<Vec<Sample>> {
    let file_bytes = file.seek(SeekFrom::End(0))?;
    let tail_at = file_bytes.checked_sub(TAIL_BYTES as u64).context(FOREIGN)?;
    let tail = part(file, tail_at, TAIL_BYTES)?;
    let (footer_bytes, magic) = tail.split_first_chunk().context(FOREIGN)?;
    let footer_bytes = u32::from_le_bytes(*footer_bytes);
    ensure!(magic == b"PAR1" && footer_bytes as usize <= FOOTER_BYTES_MAX, FOREIGN);
    let footer_at = tail_at.checked_sub(footer_bytes.into()).context(FOREIGN)?;
    let footer = part(file, footer_at, footer_bytes as usize)?;
    let footer = Structure::read(&mut &footer[..]).context(FOREIGN)?;
    let are_optional = columns(&footer).context(FOREIGN)?;
    let mut groups = footer.structures(4).context(FOREIGN)?;
    let rows = groups.try_fold(0, |rows: u64, group| rows.checked_add(group.count(3)? as u64)).context(FOREIGN)?;
    ensure!(rows <= file_bytes.saturating_mul(ROWS_PER_BYTE_MAX).saturating_add(ROWS_PER_GROUP as u64), FOREIGN);
    let (mut samples, mut bytes_left) = (Vec::new(), file_bytes);
    for group in footer.structures(4).context(FOREIGN)? {
        let rows = group.count(3).filter(|&rows| rows <= ROWS_PER_GROUP).context(FOREIGN)?;
        let mut chunks = group.structures(1).context(FOREIGN)?;
        let first = samples.len();
        for ((_, set), is_optional) in COLUMNS.into_iter().zip(&are_optional) {
            let (at, bytes, compression) = chunks.next().and_then(|chunk| place(&chunk)).context(FOREIGN)?;
            bytes_left = bytes_left.checked_sub(bytes as u64).context(FOREIGN)?;
            ensure!(bytes <= column::bytes_max(rows), FOREIGN);
            let pages = part(file, at, bytes)?;
            let values = column::read(&pages, rows, compression, *is_optional).context(FOREIGN)?;
            // Allocate after reading, which has shown that the rows exist.
            samples.resize(first + rows, Sample::UNKNOWN);
            for (sample, value) in samples[first..].iter_mut().zip(values) {
                value.into_iter().for_each(|value| set(sample, value));
            }
        }
    }
    Ok(samples)
}

fn part(file: &mut (impl Read + Seek), at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut part)?;
    Ok(part)
}

/// Whether each column of a file is optional; `None` for foreign columns.
fn columns(footer: &Structure<'_>) -> Option<Vec<bool>> {
    const INT64: i64 = 2;
    let schema = parse_message_type(SCHEMA).ok()?;
    let mut theirs = footer.structures(2)?;
    let columns = theirs.next()?.count(5)?;
    let ours = schema.get_fields();
    // Files of earlier versions lack the last column.
    if columns != ours.len() && columns + 1 != ours.len() {
        return None;
    }
    let are_optional = ours[..columns].iter().map(|ours| {
        let theirs = theirs.next()?;
        let is_optional = ours.is_optional();
        let is_ours = theirs.bytes(4)? == ours.name().as_bytes()
            && theirs.number(1)? == INT64
            && theirs.number(3)? == i64::from(is_optional);
        is_ours.then_some(is_optional)
    });
    let are_optional = are_optional.collect::<Option<_>>()?;
    theirs.next().is_none().then_some(are_optional)
}

/// The position, length and compression of a column of a group.
fn place(chunk: &Structure<'_>) -> Option<(u64, usize, column::Compression)> {
    let metadata = chunk.structure(3)?;
    // A dictionary precedes the data.
    let at = metadata.count(11).or(metadata.count(9))? as u64;
    Some((at, metadata.count(7)?, column::Compression::of(metadata.number(4)?)?))
}
