//! Reads a column of a Parquet file: pages of numbers, plain or dictionary-encoded.

use super::thrift::{Structure, take, varint};

/// Parquet's numbers of the page types and encodings.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RUNS: i64 = 3;
const RUNS_OF_DICTIONARY: i64 = 8;

/// The largest size of a value, in bytes.
const VALUE_BYTES_MAX: usize = 8;
/// The limit of page headers and of statistics in them, besides a limit for values.
const HEADERS_BYTES_MAX: usize = 4 << 10;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Int32,
    Int64,
    /// Values are the bits of an `f64`.
    Double,
}

impl Kind {
    /// The type with this number in Parquet.
    pub(super) fn of(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Int32),
            2 => Some(Self::Int64),
            5 => Some(Self::Double),
            _ => None,
        }
    }

    fn value_bytes(self) -> usize {
        if self == Self::Int32 { 4 } else { 8 }
    }

    /// Decodes the first `count` values.
    fn plain(self, bytes: &[u8], count: usize) -> Option<Vec<i64>> {
        Some(match self {
            Self::Int32 => {
                let values = bytes.as_chunks().0.get(..count)?;
                values.iter().map(|value| i32::from_le_bytes(*value).into()).collect()
            }
            Self::Int64 | Self::Double => {
                let values = bytes.as_chunks().0.get(..count)?;
                values.iter().map(|value| i64::from_le_bytes(*value)).collect()
            }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Compression {
    None,
    Snappy,
    Zstd,
}

impl Compression {
    /// The compression with this number in Parquet.
    pub(super) fn of(codec: i64) -> Option<Self> {
        match codec {
            0 => Some(Self::None),
            1 => Some(Self::Snappy),
            6 => Some(Self::Zstd),
            _ => None,
        }
    }

    fn decompress(self, bytes: &[u8], content_bytes: usize) -> Option<Vec<u8>> {
        let content = match self {
            Self::None => bytes.to_vec(),
            // The length in the bytes would choose the memory.
            Self::Snappy if snap::raw::decompress_len(bytes) != Ok(content_bytes) => return None,
            Self::Snappy => snap::raw::Decoder::new().decompress_vec(bytes).ok()?,
            Self::Zstd => zstd::bulk::decompress(bytes, content_bytes).ok()?,
        };
        (content.len() == content_bytes).then_some(content)
    }
}

/// The limit of a decompressed page, in bytes. A valid page has at most about half of it.
fn page_bytes_max(values: usize) -> usize {
    64 + 2 * VALUE_BYTES_MAX * values
}

/// The limit of a column's pages and dictionary, in bytes.
pub(super) fn bytes_max(rows: usize) -> usize {
    4 * page_bytes_max(rows) + HEADERS_BYTES_MAX
}

/// Decodes the values of a column, with `None` for null. Returns `None` for invalid and foreign pages.
pub(super) fn read(
    mut pages: &[u8],
    rows: usize,
    compression: Compression,
    is_optional: bool,
    kind: Kind,
) -> Option<Vec<Option<i64>>> {
    let (mut column, mut dictionary) = (Vec::new(), None);
    while column.len() < rows {
        let head = Structure::read(&mut pages)?;
        let (content_bytes, bytes) = (head.count(2)?, head.count(3)?);
        let page = take(&mut pages, bytes)?;
        match head.number(1)? {
            DICTIONARY if dictionary.is_none() => {
                let header = head.structure(7)?;
                let values = header.count(1)?;
                let is_known = [PLAIN, PLAIN_DICTIONARY].contains(&header.number(2)?);
                // A dictionary has at most as many values as the column has rows.
                if !is_known || values > rows || content_bytes != values * kind.value_bytes() {
                    return None;
                }
                dictionary = Some(kind.plain(&compression.decompress(page, content_bytes)?, values)?);
            }
            DATA => {
                let header = head.structure(5)?;
                let values = header.count(1)?;
                if values == 0 || values > rows - column.len() || content_bytes > page_bytes_max(values) {
                    return None;
                }
                let page = compression.decompress(page, content_bytes)?;
                let mut page = &page[..];
                let are_present =
                    if is_optional { levels(&mut page, header.number(3)?, values)? } else { vec![true; values] };
                let count = are_present.iter().filter(|is_present| **is_present).count();
                let found = match header.number(2)? {
                    PLAIN => kind.plain(page, count)?,
                    PLAIN_DICTIONARY | RUNS_OF_DICTIONARY => {
                        let dictionary: &Vec<i64> = dictionary.as_ref()?;
                        let width = *take(&mut page, 1)?.first()?;
                        let value = |number: u32| dictionary.get(number as usize).copied();
                        runs(page, u32::from(width), count)?.into_iter().map(value).collect::<Option<_>>()?
                    }
                    _ => return None,
                };
                let mut found = found.into_iter();
                column.extend(are_present.into_iter().map(|is_present| if is_present { found.next() } else { None }));
            }
            _ => return None,
        }
    }
    Some(column)
}

/// Whether each value of a page is present, from the levels that precede the values.
fn levels(page: &mut &[u8], encoding: i64, values: usize) -> Option<Vec<bool>> {
    let bytes = u32::from_le_bytes(take(page, 4)?.try_into().ok()?);
    let levels = runs(take(page, bytes as usize)?, 1, values)?;
    (encoding == RUNS).then(|| levels.into_iter().map(|level| level == 1).collect())
}

/// The first `count` numbers of `width` bits. A run is a repeated number or packed groups of eight numbers.
fn runs(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > u32::BITS {
        return None;
    }
    let mut numbers = Vec::with_capacity(count);
    while numbers.len() < count {
        let (head, left) = (varint(&mut bytes)?, count - numbers.len());
        let length = usize::try_from(head >> 1).ok()?;
        if head % 2 == 0 {
            let mut number = [0; 8];
            let value = take(&mut bytes, width.div_ceil(8) as usize)?;
            number[..value.len()].copy_from_slice(value);
            let number = u32::try_from(u64::from_le_bytes(number)).ok()?;
            numbers.extend(std::iter::repeat_n(number, length.min(left)));
        } else {
            let packed = take(&mut bytes, length.checked_mul(width as usize)?)?;
            let (mut bits, mut known, mut rest) = (0_u64, 0, packed.iter());
            for _ in 0..length.saturating_mul(8).min(left) {
                while known < width {
                    bits |= u64::from(*rest.next()?) << known;
                    known += 8;
                }
                numbers.push((bits & ((1 << width) - 1)) as u32);
                bits >>= width;
                known -= width;
            }
        }
    }
    Some(numbers)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::columnar::thrift::tests::{Field, written};

    /// An uncompressed data page.
    pub(crate) fn page(values: i64, encoding: i64, bytes: &[u8]) -> Vec<u8> {
        let about = Field::Structure(vec![
            (1, Field::Number(values)),
            (2, Field::Number(encoding)),
            (3, Field::Number(RUNS)),
            (4, Field::Number(RUNS)),
        ]);
        headed(DATA, bytes.len() as i64, (5, about), bytes)
    }

    /// A dictionary that claims this number of values.
    pub(crate) fn dictionary(values: i64, bytes: &[u8]) -> Vec<u8> {
        let about = Field::Structure(vec![(1, Field::Number(values)), (2, Field::Number(PLAIN))]);
        headed(DICTIONARY, bytes.len() as i64, (7, about), bytes)
    }

    fn headed(kind: i64, content_bytes: i64, about: (i64, Field), bytes: &[u8]) -> Vec<u8> {
        let sizes = [kind, content_bytes, bytes.len() as i64].map(Field::Number);
        let mut fields: Vec<(i64, Field)> = (1..).zip(sizes).collect();
        fields.push(about);
        [&written(&fields)[..], bytes].concat()
    }

    /// A run that repeats a one-byte number.
    fn run(length: u64, number: u8) -> Vec<u8> {
        let mut bytes = crate::columnar::thrift::tests::varint_of(length << 1);
        bytes.push(number);
        bytes
    }

    #[test]
    fn pages_are_plain_or_dictionary_encoded() {
        let values = [7_i64, -1].map(i64::to_le_bytes).concat();
        let of_dictionary = [&[1][..], &run(3, 1), &[3, 0b10], &run(4, 0)].concat();
        let pages =
            [dictionary(2, &values), page(9, RUNS_OF_DICTIONARY, &of_dictionary), page(2, PLAIN, &values)].concat();
        // The first data page needs six of the eight packed values, and none of the last run.
        let all = [-1, -1, -1, 7, -1, 7, 7, 7, 7, 7, -1].map(Some);
        assert_eq!(read(&pages, 11, Compression::None, false, Kind::Int64).unwrap(), all);
        assert_eq!(read(&pages, 12, Compression::None, false, Kind::Int64), None, "the pages have only 11 rows");
        assert_eq!(read(&pages, 8, Compression::None, false, Kind::Int64), None, "the first data page has 9 rows");
    }

    #[test]
    fn values_have_the_type_of_their_column() {
        let numbers = [7_i32, -1].map(i32::to_le_bytes).concat();
        let read = |bytes: &[u8], kind| read(&page(2, PLAIN, bytes), 2, Compression::None, false, kind);
        assert_eq!(read(&numbers, Kind::Int32).unwrap(), [Some(7), Some(-1)]);
        assert_eq!(read(&numbers, Kind::Int64), None);
        let floats = [1.5_f64, -0.25].map(f64::to_le_bytes).concat();
        let values = read(&floats, Kind::Double).unwrap();
        assert_eq!(
            values.into_iter().flatten().map(|bits| f64::from_bits(bits as u64)).collect::<Vec<_>>(),
            [1.5, -0.25]
        );
    }

    #[test]
    fn rows_may_be_null() {
        let levels = |levels: &[u8]| [&(levels.len() as u32).to_le_bytes()[..], levels].concat();
        let bytes = [levels(&[3, 0b101]), 9_i64.to_le_bytes().to_vec(), 8_i64.to_le_bytes().to_vec()].concat();
        let column = read(&page(4, PLAIN, &bytes), 4, Compression::None, true, Kind::Int64);
        assert_eq!(column.unwrap(), [Some(9), None, Some(8), None]);
        assert_eq!(read(&page(4, PLAIN, &bytes[..20]), 4, Compression::None, true, Kind::Int64), None);
        assert_eq!(
            read(&page(3, PLAIN, &levels(&run(3, 0))), 3, Compression::None, true, Kind::Int64).unwrap(),
            [None; 3]
        );
    }

    #[test]
    fn impossible_pages_are_refused() {
        let seven = 7_i64.to_le_bytes();
        let read = |pages: &[Vec<u8>]| read(&pages.concat(), 100, Compression::None, false, Kind::Int64);
        let with_dictionary = |bytes: &[u8]| read(&[dictionary(1, &seven), page(100, RUNS_OF_DICTIONARY, bytes)]);
        assert!(with_dictionary(&[&[0][..], &crate::columnar::thrift::tests::varint_of(200)].concat()).is_some());
        assert_eq!(with_dictionary(&[&[1][..], &run(100, 1)].concat()), None, "a number beyond the dictionary");
        assert_eq!(with_dictionary(&[&[33][..], &run(100, 0), &[0; 8]].concat()), None, "numbers of 33 bits");
        assert_eq!(with_dictionary(&[&[1][..], &[0x81; 11]].concat()), None, "an endless length");
        assert_eq!(with_dictionary(&[1, 0, 0, 0, 0, 0, 0]), None, "empty runs");
        assert_eq!(with_dictionary(&[1, 0xff, 0xff, 0xff, 0xff, 0x0f]), None, "missing packed numbers");
        assert_eq!(with_dictionary(&[]), None);
        assert_eq!(read(&[page(100, RUNS_OF_DICTIONARY, &[&[0][..], &run(100, 0)].concat())]), None, "no dictionary");
        assert_eq!(
            read(&[dictionary(1, &seven), dictionary(1, &seven), page(1, PLAIN, &seven)]),
            None,
            "two dictionaries"
        );
        assert_eq!(read(&[page(100, 5, &[0; 800])]), None, "an unknown encoding");
        assert_eq!(read(&[page(0, PLAIN, &[])]), None, "an empty page");
    }

    #[test]
    fn decompression_is_limited_by_the_number_of_values() {
        let about =
            |number, values| (number, Field::Structure(vec![(1, Field::Number(values)), (2, Field::Number(PLAIN))]));
        let content_bytes = 8 << 20;
        let snappy = |content: &[u8]| snap::raw::Encoder::new().compress_vec(content).unwrap();
        let zstd = |content: &[u8]| zstd::bulk::compress(content, 1).unwrap();
        let zeros = vec![0; content_bytes];
        for (compression, bomb, honest) in
            [(Compression::Snappy, snappy(&zeros), snappy(&[0; 80])), (Compression::Zstd, zstd(&zeros), zstd(&[0; 80]))]
        {
            let read = |pages: &[u8]| read(pages, 10, compression, false, Kind::Int64);
            assert_eq!(read(&headed(DATA, content_bytes as i64, about(5, 10), &bomb)), None);
            let of_dictionary = headed(DICTIONARY, content_bytes as i64, about(7, 1 << 20), &bomb);
            assert_eq!(read(&of_dictionary), None, "a dictionary with more values than rows");
            assert_eq!(read(&headed(DATA, 80, about(5, 10), &bomb)), None, "an understated content");
            assert_eq!(read(&headed(DATA, 80, about(5, 10), &honest)).unwrap(), [Some(0); 10]);
        }
    }
}
