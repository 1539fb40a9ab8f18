//! Raw samples in a columnar file (Parquet), which pandas, polars and DuckDB read.
//!
//! Columns, all of 64-bit integers: `planned_ns`, `sent_ns` (null: never sent), `complete_ns` (null: never answered),
//! in nanoseconds after the measured window began, and `connection`. The file's key-value metadata holds every
//! parameter of the trial.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use load::Sample;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;

const SCHEMA: &str = "message samples {
    required int64 planned_ns; optional int64 sent_ns; optional int64 complete_ns; required int64 connection;
}";

/// Rows that are held in memory at once.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Writes samples, and `parameters` as the file's metadata.
///
/// # Errors
/// What the file system says.
pub fn write(path: &Path, samples: &[Sample], parameters: &[(&str, String)]) -> anyhow::Result<()> {
    let place = || format!("writing samples to {}", path.display());
    let schema = Arc::new(parse_message_type(SCHEMA).expect("the schema parses"));
    let metadata = parameters.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata))
        .build();
    let file = File::create(path).with_context(place)?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).with_context(place)?;
    for rows in samples.chunks(ROWS_PER_GROUP) {
        let mut group = writer.next_row_group().with_context(place)?;
        let columns: [fn(&Sample) -> Option<i64>; 4] = [
            |sample| Some(sample.planned_ns),
            |sample| (sample.sent_ns != Sample::NEVER).then_some(sample.sent_ns),
            |sample| (sample.complete_ns != Sample::NEVER).then_some(sample.complete_ns),
            |sample| Some(i64::from(sample.connection)),
        ];
        for column in columns {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            let values: Vec<i64> = rows.iter().filter_map(column).collect();
            let is_there: Vec<i16> = rows.iter().map(|row| i16::from(column(row).is_some())).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&is_there), None).with_context(place)?;
            writer.close().with_context(place)?;
        }
        group.close().with_context(place)?;
    }
    writer.close().with_context(place)?;
    Ok(())
}

/// Reads samples back.
///
/// # Errors
/// When the file is missing or not of this kind.
pub fn read(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let place = || format!("reading samples from {}", path.display());
    let reader = SerializedFileReader::new(File::open(path).with_context(place)?).with_context(place)?;
    let rows = reader.get_row_iter(None).with_context(place)?;
    rows.map(|row| {
        let row = row.with_context(place)?;
        let optional = |column| if row.is_null(column)? { Ok(Sample::NEVER) } else { row.get_long(column) };
        Ok(Sample {
            planned_ns: row.get_long(0).with_context(place)?,
            sent_ns: optional(1).with_context(place)?,
            complete_ns: optional(2).with_context(place)?,
            connection: row.get_long(3).with_context(place)? as u32,
        })
    })
    .collect()
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
                connection: (at % 7) as u32,
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
