//! Reads numbers from flat Parquet files of any origin, a column of a group at a time.
//!
//! The crate `parquet` only writes such files, because its reader panics or runs almost endlessly on hostile files. This reader
//! decodes columns of integers and floats: plain or with a dictionary, uncompressed or with Snappy or Zstandard.

pub(crate) mod column;
pub(crate) mod thrift;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

pub use self::column::Kind;
use self::thrift::Structure;

/// The limit of rows in a group, which is decoded in memory.
pub const ROWS_PER_GROUP: usize = 1 << 20;
/// The maximum rows for each byte of a file, besides the rows of one group. Rows differ in a number, and so each takes at least a
/// quarter of a byte.
const ROWS_PER_BYTE_MAX: u64 = 4;
/// The limit of a footer, in bytes. A valid footer has about 2 KiB for each group of rows, and the metadata.
const FOOTER_BYTES_MAX: usize = 8 << 20;
/// The size of the end of a file: the length of its footer, and a magic number.
pub(crate) const TAIL_BYTES: usize = 8;
/// The magic number at the start and at the end of a file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// An open file.
#[derive(Debug)]
pub struct Table<F> {
    file: F,
    /// The columns in the order of the schema.
    pub columns: Vec<SchemaColumn>,
    /// The groups of rows.
    pub groups: Vec<Group>,
    /// The key-value metadata, without entries that are no text.
    pub metadata: BTreeMap<String, String>,
}

/// A column of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaColumn {
    /// The name.
    pub name: String,
    /// The type of the values; `None` if muxbench cannot decode them.
    pub kind: Option<Kind>,
    /// Whether values may be null.
    pub is_optional: bool,
    /// The unit of a timestamp in nanoseconds; `None` for other columns.
    pub unit_ns: Option<u64>,
}

/// A group of rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// The number of rows.
    pub rows: usize,
    chunks: Vec<Chunk>,
}

/// The place of a column's pages within a group. The compression is `None` if muxbench cannot decompress it.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: u64,
    bytes: usize,
    compression: Option<column::Compression>,
}

impl<F: Read + Seek> Table<F> {
    /// Reads the footer of a file; `None` if it is no flat Parquet file. The file's size bounds the time to read it: all groups
    /// together have no more bytes than the file, and at most `ROWS_PER_BYTE_MAX` rows for each byte of the file, plus one group.
    pub fn open(mut file: F) -> io::Result<Option<Self>> {
        let file_bytes = file.seek(SeekFrom::End(0))?;
        let Some(tail_at) = file_bytes.checked_sub(TAIL_BYTES as u64) else { return Ok(None) };
        let tail = part(&mut file, tail_at, TAIL_BYTES)?;
        let Some((footer_bytes, magic)) = tail.split_first_chunk() else { return Ok(None) };
        let footer_bytes = u32::from_le_bytes(*footer_bytes);
        if magic != MAGIC || footer_bytes as usize > FOOTER_BYTES_MAX {
            return Ok(None);
        }
        let Some(footer_at) = tail_at.checked_sub(footer_bytes.into()) else { return Ok(None) };
        let footer = part(&mut file, footer_at, footer_bytes as usize)?;
        let read = || {
            let footer = Structure::read(&mut &footer[..])?;
            let columns = columns(&footer)?;
            let groups = groups(&footer, columns.len(), file_bytes)?;
            Some((columns, groups, metadata(&footer)))
        };
        Ok(read().map(|(columns, groups, metadata)| Self { file, columns, groups, metadata }))
    }

    /// Returns the values of a column in a group, with `None` for null. Returns `None` for pages that muxbench cannot decode.
    pub fn read(&mut self, group: usize, column: usize) -> io::Result<Option<Vec<Option<i64>>>> {
        let (Some(Group { rows, chunks }), Some(about)) = (self.groups.get(group), self.columns.get(column)) else {
            return Ok(None);
        };
        let (rows, Chunk { at, bytes, compression }) = (*rows, chunks[column]);
        let (Some(compression), Some(kind)) = (compression, about.kind) else { return Ok(None) };
        if rows > ROWS_PER_GROUP || bytes > column::bytes_max(rows) {
            return Ok(None);
        }
        let pages = part(&mut self.file, at, bytes)?;
        Ok(column::read(&pages, rows, compression, about.is_optional, kind))
    }
}

fn part(file: &mut (impl Read + Seek), at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut part = vec![0; bytes];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut part)?;
    Ok(part)
}

/// Returns the columns of a footer's schema; `None` if columns are nested or repeated.
fn columns(footer: &Structure<'_>) -> Option<Vec<SchemaColumn>> {
    let mut schema = footer.structures(2)?;
    let count = schema.next()?.count(5)?;
    let columns = schema.map(|element| {
        let is_leaf = element.count(5).is_none_or(|children| children == 0);
        let is_optional = match element.number(3)? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let kind = element.number(1)?;
        is_leaf.then_some(())?;
        Some(SchemaColumn {
            name: String::from_utf8_lossy(element.bytes(4)?).into_owned(),
            kind: Kind::of(kind),
            is_optional,
            unit_ns: unit_ns(&element),
        })
    });
    let columns: Vec<SchemaColumn> = columns.collect::<Option<_>>()?;
    (columns.len() == count).then_some(columns)
}

/// Returns the unit of a timestamp, from its logical type or the converted type of older files.
fn unit_ns(element: &Structure<'_>) -> Option<u64> {
    const TIMESTAMP: i64 = 8;
    let logical = element.structure(10).and_then(|logical| logical.structure(TIMESTAMP)?.structure(2));
    if let Some(unit) = logical {
        let units = [(1, 1_000_000), (2, 1_000), (3, 1)];
        return units.into_iter().find(|(number, _)| unit.structure(*number).is_some()).map(|(_, ns)| ns);
    }
    match element.number(6)? {
        9 => Some(1_000_000),
        10 => Some(1_000),
        _ => None,
    }
}

fn metadata(footer: &Structure<'_>) -> BTreeMap<String, String> {
    let text = |entry: &Structure<'_>, field: i64| Some(str::from_utf8(entry.bytes(field)?).ok()?.to_owned());
    let entries = footer.structures(5).into_iter().flatten();
    entries.filter_map(|entry| Some((text(&entry, 1)?, text(&entry, 2)?))).collect()
}

/// Returns the groups of a footer; `None` if they have other columns, or more bytes or rows than the file has room for.
fn groups(footer: &Structure<'_>, columns: usize, file_bytes: u64) -> Option<Vec<Group>> {
    let mut bytes_left = file_bytes;
    let mut rows_left = file_bytes.saturating_mul(ROWS_PER_BYTE_MAX).saturating_add(ROWS_PER_GROUP as u64);
    let groups = footer.structures(4)?.map(|group| {
        let chunks: Vec<Chunk> = group.structures(1)?.map(|chunk| place(&chunk)).collect::<Option<_>>()?;
        for chunk in &chunks {
            bytes_left = bytes_left.checked_sub(chunk.bytes as u64)?;
        }
        let rows = group.count(3)?;
        rows_left = rows_left.checked_sub(rows as u64)?;
        (chunks.len() >= columns).then_some(Group { rows, chunks })
    });
    groups.collect()
}

/// Returns the position, length and compression of a column of a group.
fn place(chunk: &Structure<'_>) -> Option<Chunk> {
    let metadata = chunk.structure(3)?;
    // A dictionary precedes the data.
    let at = metadata.count(11).or(metadata.count(9))? as u64;
    let compression = column::Compression::of(metadata.number(4)?);
    Some(Chunk { at, bytes: metadata.count(7)?, compression })
}
