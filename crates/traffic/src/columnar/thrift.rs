//! Reads Thrift's compact protocol, which encodes the structure of a Parquet file. No stated length is trusted: a list has at
//! most one element for each remaining byte, and memory is allocated only for existing bytes.

/// Type numbers. The type of a boolean field is its value.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// The limit of nested structures and lists. The footers of muxbench's own files have seven levels.
const DEPTH_MAX: u32 = 16;

/// The first `count` bytes.
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A number with seven bits in each byte, the lowest bits first.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = *take(bytes, 1)? else { return None };
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn skip(bytes: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    match kind {
        BYTE => _ = take(bytes, 1)?,
        I16..=I64 => _ = varint(bytes)?,
        DOUBLE => _ = take(bytes, 8)?,
        BINARY => {
            let length = varint(bytes)?;
            take(bytes, usize::try_from(length).ok()?)?;
        }
        LIST | SET => {
            let (kind, count) = list(bytes)?;
            // A boolean in a list takes a byte.
            let kind = if matches!(kind, TRUE | FALSE) { BYTE } else { kind };
            (0..count).try_for_each(|_| skip(bytes, kind, depth.checked_sub(1)?))?;
        }
        STRUCT => {
            let mut last = 0;
            while let Some((kind, _)) = field(bytes, &mut last)? {
                skip(bytes, kind, depth.checked_sub(1)?)?;
            }
        }
        TRUE | FALSE => {}
        // Parquet has no maps.
        _ => return None,
    }
    Some(())
}

/// The element type and the length of a list.
fn list(bytes: &mut &[u8]) -> Option<(u8, usize)> {
    let [head] = *take(bytes, 1)? else { return None };
    let count = match head >> 4 {
        15 => usize::try_from(varint(bytes)?).ok()?,
        count => usize::from(count),
    };
    // Each element takes at least a byte.
    (count <= bytes.len()).then_some((head & 0xf, count))
}

/// The type and number of a field after field `last`; `Some(None)` at the end of a structure.
fn field(bytes: &mut &[u8], last: &mut i64) -> Option<Option<(u8, i64)>> {
    let [head] = *take(bytes, 1)? else { return None };
    if head == 0 {
        return Some(None);
    }
    *last = match head >> 4 {
        0 => zigzag(varint(bytes)?),
        delta => last.checked_add(i64::from(delta))?,
    };
    Some(Some((head & 0xf, *last)))
}

/// Decodes a signed number, whose lowest bit is the sign.
fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The number, type and bytes of each field of a structure.
pub(super) struct Structure<'a>(Vec<(i64, u8, &'a [u8])>);

impl<'a> Structure<'a> {
    /// Reads a structure from the start of `bytes`, and removes it; `None` if it is invalid.
    pub(super) fn read(bytes: &mut &'a [u8]) -> Option<Self> {
        let (mut fields, mut last) = (Vec::new(), 0);
        while let Some((kind, number)) = field(bytes, &mut last)? {
            let before = *bytes;
            skip(bytes, kind, DEPTH_MAX)?;
            fields.push((number, kind, &before[..before.len() - bytes.len()]));
        }
        Some(Self(fields))
    }

    fn field(&self, number: i64, kinds: &[u8]) -> Option<&'a [u8]> {
        self.0.iter().find(|(it, kind, _)| *it == number && kinds.contains(kind)).map(|(.., bytes)| *bytes)
    }

    pub(super) fn number(&self, number: i64) -> Option<i64> {
        varint(&mut self.field(number, &[I16, I16 + 1, I64])?).map(zigzag)
    }

    /// A number field that is a count.
    pub(super) fn count(&self, number: i64) -> Option<usize> {
        usize::try_from(self.number(number)?).ok()
    }

    pub(super) fn bytes(&self, number: i64) -> Option<&'a [u8]> {
        let mut bytes = self.field(number, &[BINARY])?;
        varint(&mut bytes)?;
        Some(bytes)
    }

    pub(super) fn structure(&self, number: i64) -> Option<Structure<'a>> {
        Structure::read(&mut self.field(number, &[STRUCT])?)
    }

    pub(super) fn structures(&self, number: i64) -> Option<impl Iterator<Item = Structure<'a>> + use<'a>> {
        let mut bytes = self.field(number, &[LIST])?;
        let (kind, count) = list(&mut bytes)?;
        // `Structure::read` has already checked each element.
        (kind == STRUCT || count == 0).then(|| (0..count).map_while(move |_| Structure::read(&mut bytes)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A field to be written.
    pub(crate) enum Field {
        Number(i64),
        Bytes(&'static [u8]),
        Structure(Vec<(i64, Field)>),
        /// A list of structures.
        List(Vec<Vec<(i64, Field)>>),
    }

    /// Encodes a structure with these numbered fields.
    pub(crate) fn written(fields: &[(i64, Field)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, field) in fields {
            let (kind, value) = match field {
                Field::Number(number) => (I64, varint_of((number << 1 ^ number >> 63) as u64)),
                Field::Bytes(value) => (BINARY, [&varint_of(value.len() as u64), *value].concat()),
                Field::Structure(fields) => (STRUCT, written(fields)),
                Field::List(elements) => {
                    let head = [&[0xf0 | STRUCT][..], &varint_of(elements.len() as u64)].concat();
                    (LIST, elements.iter().fold(head, |list, element| [list, written(element)].concat()))
                }
            };
            bytes.push(kind);
            bytes.extend(varint_of((number << 1) as u64));
            bytes.extend(value);
        }
        bytes.push(0);
        bytes
    }

    pub(crate) fn varint_of(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// A structure with one field.
    fn one(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[0x10 | kind], value, &[0]].concat()
    }

    #[test]
    fn fields_are_found_by_number_and_type() {
        // 1: 150; 3: "ab"; 4: { 1: -1 }; 5: [{}, { 2: 7 }]; 20: true
        let bytes = [
            0x15, 0xac, 0x02, 0x28, 2, b'a', b'b', 0x1c, 0x16, 0x01, 0, 0x19, 0x2c, 0, 0x25, 0x0e, 0, 0x01, 0x28, 0, 9,
        ];
        let mut rest = &bytes[..];
        let it = Structure::read(&mut rest).unwrap();
        assert_eq!(rest, [9], "the bytes after the structure remain");
        assert_eq!((it.number(1), it.count(1), it.bytes(3)), (Some(150), Some(150), Some(&b"ab"[..])));
        let inner = it.structure(4).unwrap();
        assert_eq!((inner.number(1), inner.count(1)), (Some(-1), None));
        let elements: Vec<_> = it.structures(5).unwrap().map(|element| element.number(2)).collect();
        assert_eq!(elements, [None, Some(7)]);
        assert!(it.number(3).is_none() && it.bytes(1).is_none() && it.structure(5).is_none() && it.number(2).is_none());
    }

    #[test]
    fn truncated_structure_is_none() {
        let bytes = [0x15, 0xac, 0x02, 0x28, 2, b'a', b'b', 0x1c, 0x16, 0x01, 0, 0x19, 0x2c, 0, 0x25, 0x0e, 0, 0];
        assert!(Structure::read(&mut &bytes[..]).is_some());
        for length in 0..bytes.len() {
            assert!(Structure::read(&mut &bytes[..length]).is_none(), "the first {length} bytes");
        }
    }

    #[test]
    fn list_has_at_most_one_element_per_byte() {
        let claimed = |kind| one(LIST, &[0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 0x07]);
        for kind in [TRUE, FALSE, BYTE, STRUCT] {
            assert!(Structure::read(&mut &claimed(kind)[..]).is_none(), "type {kind}");
        }
        let booleans = one(LIST, &[0x22, 1, 2]);
        assert!(Structure::read(&mut &booleans[..]).is_some());
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        assert!(Structure::read(&mut &nested(16)[..]).is_some());
        assert!(Structure::read(&mut &nested(1_000_000)[..]).is_none());
        let lists = one(LIST, &[0x19; 1_000_000]);
        assert!(Structure::read(&mut &lists[..]).is_none());
    }

    #[test]
    fn number_has_at_most_ten_bytes() {
        assert_eq!(varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..]), Some(u64::MAX));
        assert_eq!(varint(&mut &[0x80; 11][..]), None);
        assert_eq!([0, 1, 2, u64::MAX].map(zigzag), [0, -1, 1, i64::MIN]);
    }
}
