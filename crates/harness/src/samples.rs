//! Raw samples in a columnar file (Parquet), which pandas, polars and DuckDB read.
//!
//! All columns are 64-bit integers. `planned_ns`, `sent_ns` (null: never sent) and `complete_ns` (null: never answered) count
//! nanoseconds from the start of the window. `connection` and `client` are numbers of a connection and of a client process. The
//! kernel's timestamps, null if missing, are `scheduler_ns`, `driver_ns` and `arrived_ns`, from the same start, and the duration
//! `hardware_service_ns`. The file's key-value metadata holds all parameters of the trial.
//!
//! The crate `parquet` writes the files but does not read them: a hostile file makes it panic, or count to 2^31 again and again.
//!
//! # Layout
//! - here: the columns, and where they are in a file
//! - `column`: reads one column, page by page; `thrift`: reads the encoding of a file's structure

mod column;
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

/// The value of a column in a row; `None` is null.
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

/// Stores the value of a column in a row, in the order of the schema.
const SETTERS: [fn(&mut Sample, i64); 9] = [
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

/// Rows held in memory at once.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Samples cannot be written. The run ends, because later samples could not be written either.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritten(String);

/// The error of samples that cannot be written.
pub(crate) fn unwritten(path: &Path, error: &dyn fmt::Display) -> Unwritten {
    Unwritten(format!("{}: cannot write samples ({error}); free some space, or choose another folder", path.display()))
}

/// The error of a failed client.
pub(crate) fn failure(reason: String, is_unwritten: bool) -> anyhow::Error {
    if is_unwritten { Unwritten(reason).into() } else { anyhow::Error::msg(reason) }
}

/// Writes samples, and `parameters` as the file's metadata.
///
/// # Errors
/// Those of the file system, as [`Unwritten`].
pub fn write(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    write_all(path, samples, parameters).map_err(|error| unwritten(path, &format_args!("{error:#}")).into())
}

fn write_all(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema parses"));
    let metadata = parameters.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        // Repeating connections would compress to nothing; readers rely on a minimum of bytes a row.
        .set_column_compression("connection".into(), Compression::UNCOMPRESSED)
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

/// The metadata of samples: the load and its trial.
///
/// # Errors
/// When they cannot be written as JSON.
pub fn parameters(config: &LoadConfig, trial: Option<&Trial>) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut parameters =
        vec![("muxbench", env!("CARGO_PKG_VERSION").to_owned()), ("load", serde_json::to_string(config)?)];
    if let Some(trial) = trial {
        parameters.push(("architecture", trial.architecture.to_string()));
        parameters.push(("trial", serde_json::to_string(trial)?));
    }
    Ok(parameters)
}

/// Reads samples back, as [`read_from`] does.
///
/// # Errors
/// When the file is missing or is not a samples file.
pub fn read(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let place = || format!("reading samples from {}", path.display());
    read_from(&mut regular::open(path).with_context(place)?).with_context(place)
}

/// The error of a foreign file.
const FOREIGN: &str = "not the samples of a trial";
/// Most bytes of a footer. Ours have 2 KiB a group of rows, and the metadata.
const FOOTER_BYTES_MAX: usize = 8 << 20;
/// Most rows for each byte of a file beyond one group of rows: either times or connections differ, which takes a quarter of a byte.
const ROWS_PER_BYTE_MAX: u64 = 4;
/// The end of a file: the length of its footer, and a magic number.
const TAIL_BYTES: usize = 8;

/// Reads samples of a file that may be anybody's. Time and memory are bounded by its size: no byte counts twice, and beyond one group
/// each byte stands for at most `ROWS_PER_BYTE_MAX` rows.
///
/// # Errors
/// When it cannot be read, or is not a samples file.
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
        for (set, is_optional) in SETTERS.into_iter().zip(&are_optional) {
            let chunk = chunks.next().and_then(|chunk| Chunk::of(&chunk)).context(FOREIGN)?;
            bytes_left = bytes_left.checked_sub(chunk.bytes as u64).context(FOREIGN)?;
            ensure!(chunk.bytes <= column::bytes_max(rows), FOREIGN);
            let pages = part(file, chunk.at, chunk.bytes)?;
            let values = column::read(&pages, rows, chunk.compression, *is_optional).context(FOREIGN)?;
            // Allocate only now that the rows are known to exist.
            samples.resize(first + rows, Sample::UNKNOWN);
            for (sample, value) in samples[first..].iter_mut().zip(values) {
                value.into_iter().for_each(|value| set(sample, value));
            }
        }
    }
    Ok(samples)
}

/// A part of a file, which must be complete.
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

/// The place of a column of a group.
struct Chunk {
    at: u64,
    bytes: usize,
    compression: column::Compression,
}

impl Chunk {
    fn of(chunk: &Structure<'_>) -> Option<Self> {
        let about = chunk.structure(3)?;
        // A dictionary precedes the data.
        let at = about.count(11).or(about.count(9))? as u64;
        Some(Self { at, bytes: about.count(7)?, compression: column::Compression::of(about.number(4)?)? })
    }
}

#[cfg(test)]
mod tests {
    use super::column::tests::{dictionary, page};
    use super::thrift::tests::{Field, written};
    use super::*;

    /// A group of a footer: its rows, and the offset and length of each column.
    type Group = (i64, [(i64, i64); 9]);

    /// An uncompressed file with these bytes and groups.
    fn file_of(bytes: &[u8], groups: &[Group]) -> Vec<u8> {
        let schema = parse_message_type(SCHEMA).unwrap();
        let names = [
            "planned_ns",
            "sent_ns",
            "complete_ns",
            "connection",
            "scheduler_ns",
            "driver_ns",
            "arrived_ns",
            "hardware_service_ns",
            "client",
        ];
        let columns = names.iter().zip(schema.get_fields()).map(|(name, ours)| {
            let is_optional = i64::from(ours.is_optional());
            vec![(1, Field::Number(2)), (3, Field::Number(is_optional)), (4, Field::Bytes(name.as_bytes()))]
        });
        let root = vec![(4, Field::Bytes(b"samples")), (5, Field::Number(9))];
        let chunk = |&(at, bytes): &(i64, i64)| {
            let about = vec![(4, Field::Number(0)), (7, Field::Number(bytes)), (9, Field::Number(at))];
            vec![(3, Field::Structure(about))]
        };
        let group = |(rows, chunks): &Group| {
            vec![(1, Field::List(chunks.iter().map(chunk).collect())), (3, Field::Number(*rows))]
        };
        let footer = written(&[
            (2, Field::List(std::iter::once(root).chain(columns).collect())),
            (4, Field::List(groups.iter().map(group).collect())),
        ]);
        with_footer(&[b"PAR1", bytes].concat(), &footer)
    }

    /// A file with any footer.
    fn with_footer(bytes: &[u8], footer: &[u8]) -> Vec<u8> {
        [bytes, footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
    }

    fn read_bytes(bytes: &[u8]) -> Result<Vec<Sample>, String> {
        read_from(&mut io::Cursor::new(bytes)).map_err(|error| error.to_string())
    }

    /// The bytes of a group with zeros only, at an offset, and the group.
    fn zeros(rows: i64, at: i64) -> (Vec<u8>, Group) {
        let run = thrift::tests::varint_of(rows as u64 * 2);
        let levels = [&(run.len() as u32 + 1).to_le_bytes()[..], &run, &[1]].concat();
        let numbers = [&[0][..], &run].concat();
        let of = |is_optional: bool| {
            let page =
                page(rows, 8, &if is_optional { [levels.clone(), numbers.clone()].concat() } else { numbers.clone() });
            [dictionary(1, &[0; 8]), page].concat()
        };
        let (mut bytes, mut chunks) = (Vec::new(), [(0, 0); 9]);
        for (chunk, ours) in chunks.iter_mut().zip(parse_message_type(SCHEMA).unwrap().get_fields()) {
            let column = of(ours.is_optional());
            *chunk = (at + bytes.len() as i64, column.len() as i64);
            bytes.extend(column);
        }
        (bytes, (rows, chunks))
    }

    #[test]
    fn uncompressed_file_is_read() {
        let (bytes, group) = zeros(1_000, 4);
        let samples = read_bytes(&file_of(&bytes, &[group])).unwrap();
        assert_eq!(samples.len(), 1_000);
        assert_eq!((samples[999].planned_ns, samples[999].complete_ns, samples[999].client), (0, 0, 0));
        assert_eq!(read_bytes(&file_of(b"", &[])).unwrap(), []);
        assert_eq!(read_bytes(&file_of(&bytes[1..], &[group])).unwrap_err(), FOREIGN);
    }

    #[test]
    fn endless_lists_of_booleans_are_refused() {
        // Field 9: a list of 2^31 - 1 booleans, for which the crate `parquet` reads no byte.
        let booleans = [0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
        let footer = [&booleans.repeat(500)[..], &[0]].concat();
        assert_eq!(read_bytes(&with_footer(b"PAR1", &footer)).unwrap_err(), FOREIGN);
        let (bytes, mut group) = zeros(1_000, 4);
        group.1[0] = (4, booleans.len() as i64);
        assert_eq!(read_bytes(&file_of(&[&booleans[..], &bytes].concat(), &[group])).unwrap_err(), FOREIGN);
    }

    #[test]
    fn groups_may_not_share_bytes() {
        let (bytes, group) = zeros(100, 4);
        let file = file_of(&bytes, &[group; 20]);
        let groups = file.len() / bytes.len();
        assert!(groups < 20, "the footer is small");
        assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
        let (other, beside) = zeros(100, 4 + bytes.len() as i64);
        assert_eq!(read_bytes(&file_of(&[bytes, other].concat(), &[group, beside])).unwrap().len(), 200);
    }

    #[test]
    fn small_file_with_many_rows_is_refused() {
        let (bytes, group) = zeros(1_000_000, 4);
        let (other, beside) = zeros(1_000_000, 4 + bytes.len() as i64);
        let file = file_of(&[bytes, other].concat(), &[group, beside]);
        assert!(file.len() < 2_000, "{}", file.len());
        assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
        let (bytes, group) = zeros(ROWS_PER_GROUP as i64 + 1, 4);
        assert_eq!(read_bytes(&file_of(&bytes, &[group])).unwrap_err(), FOREIGN);
    }

    #[test]
    fn offsets_beyond_the_file_are_refused() {
        let (bytes, group) = zeros(10, 4);
        for (at, length) in [(-1, 10), (4, -1), (4, i64::MAX), (i64::MAX, 10), (1 << 20, 10)] {
            let mut group = group;
            group.1[3] = (at, length);
            assert!(read_bytes(&file_of(&bytes, &[group])).is_err(), "{at} {length}");
        }
        let mut file = file_of(&bytes, &[group]);
        let at = file.len() - TAIL_BYTES;
        file[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
        assert_eq!(read_bytes(b"PAR1").unwrap_err(), FOREIGN);
    }

    #[test]
    fn foreign_columns_are_refused() {
        let element = |name: &'static [u8], fields: Vec<(i64, Field)>| {
            fields.into_iter().chain([(4, Field::Bytes(name))]).collect::<Vec<_>>()
        };
        // A schema of one group in another, each with two billion children.
        let nested = || element(b"planned_ns", vec![(3, Field::Number(0)), (5, Field::Number(i64::from(i32::MAX)))]);
        let footer = written(&[(2, Field::List((0..1_000).map(|_| nested()).collect())), (4, Field::List(vec![]))]);
        assert_eq!(read_bytes(&with_footer(b"PAR1", &footer)).unwrap_err(), FOREIGN);
    }

    #[test]
    fn many_rows_of_every_kind_read_back() {
        // More values than fit a dictionary, and several pages.
        let sample = |at: i64| Sample {
            planned_ns: at * 12_345 - 7,
            sent_ns: if at % 4_001 == 0 { Sample::NEVER } else { at * 12_345 + at % 977 },
            complete_ns: if at / 30_000 % 2 == 0 { Sample::NEVER } else { at * 12_345 + 30_000 + at * at % 10_007 },
            connection: (at % 300) as u32,
            client: u32::MAX,
            ..Sample::UNKNOWN
        };
        let samples: Vec<Sample> = (0..200_000).map(sample).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.parquet");
        write(&path, &samples, &[]).unwrap();
        assert!(read(&path).unwrap() == samples);
    }

    #[test]
    fn our_files_have_more_than_two_bytes_for_three_rows() {
        // The smallest content: a constant schedule of which nothing was sent.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.parquet");
        for period_ns in [1, 1_000, 1 << 16, 1_000_000] {
            let sample = |at: i64| Sample { planned_ns: at * period_ns, ..Sample::UNKNOWN };
            let samples: Vec<Sample> = (0..200_000).map(sample).collect();
            write(&path, &samples, &[]).unwrap();
            let bytes = std::fs::metadata(&path).unwrap().len();
            assert!(bytes > samples.len() as u64, "{bytes} bytes, every {period_ns} ns");
        }
        // Or many connections at once.
        for together in [2, 16, 64, 400, 10_000] {
            let sample = |at: i64| Sample {
                planned_ns: at / together * 1_000_000,
                connection: (at % together) as u32,
                ..Sample::UNKNOWN
            };
            let samples: Vec<Sample> = (0..200_000).map(sample).collect();
            write(&path, &samples, &[]).unwrap();
            let bytes = std::fs::metadata(&path).unwrap().len();
            assert!(bytes * 3 > samples.len() as u64 * 2, "{bytes} bytes, {together} at once");
        }
    }

    #[test]
    fn samples_read_back_as_written() {
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
