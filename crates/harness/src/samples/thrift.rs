//! Thrift's compact protocol, in which a Parquet file says what is in it, one structure at a time. What is claimed is never
//! believed: a list has at most as many elements as there are bytes left, and nothing is taken memory for before it is there.

/// Types on the wire. A boolean field is in its type.
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

/// How deep structures and lists may be in each other: a file's footer has six.
const DEPTH_MAX: u32 = 16;

/// The first `count` bytes.
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// A number of seven bits a byte, the lowest first.
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

/// Goes past a value.
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
            for _ in 0..count {
                match kind {
                    // Within a list it has a byte of its own.
                    TRUE | FALSE => _ = take(bytes, 1)?,
                    kind => skip(bytes, kind, depth.checked_sub(1)?)?,
                }
            }
        }
        STRUCT => {
            let mut last = 0;
            while let (Some(kind), _) = field(bytes, &mut last)? {
                skip(bytes, kind, depth.checked_sub(1)?)?;
            }
        }
        TRUE | FALSE => {}
        // Parquet has no maps.
        _ => return None,
    }
    Some(())
}

/// A list's type of elements, and how many there are.
fn list(bytes: &mut &[u8]) -> Option<(u8, usize)> {
    let [head] = *take(bytes, 1)? else { return None };
    let count = match head >> 4 {
        15 => usize::try_from(varint(bytes)?).ok()?,
        count => usize::from(count),
    };
    // Each takes at least one.
    (count <= bytes.len()).then_some((head & 0xf, count))
}

/// A field's type, `None` at a structure's end, and its number, which is counted from the last one's.
fn field(bytes: &mut &[u8], last: &mut i64) -> Option<(Option<u8>, i64)> {
    let [head] = *take(bytes, 1)? else { return None };
    if head == 0 {
        return Some((None, 0));
    }
    *last = match head >> 4 {
        0 => zigzag(varint(bytes)?),
        delta => last.checked_add(i64::from(delta))?,
    };
    Some((Some(head & 0xf), *last))
}

/// A number with a sign, which is its lowest bit.
fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// A structure: the number, the type and the bytes of each field.
pub(super) struct Structure<'a>(Vec<(i64, u8, &'a [u8])>);

impl<'a> Structure<'a> {
    /// The structure that `bytes` begin with, which are then what follows it; `None` if there is none.
    pub(super) fn read(bytes: &mut &'a [u8]) -> Option<Self> {
        let (mut fields, mut last) = (Vec::new(), 0);
        while let (Some(kind), number) = field(bytes, &mut last)? {
            let before = *bytes;
            skip(bytes, kind, DEPTH_MAX)?;
            fields.push((number, kind, &before[..before.len() - bytes.len()]));
        }
        Some(Self(fields))
    }

    fn field(&self, number: i64, kinds: &[u8]) -> Option<&'a [u8]> {
        self.0.iter().find(|(it, kind, _)| *it == number && kinds.contains(kind)).map(|(.., bytes)| *bytes)
    }

    /// A field that is a number.
    pub(super) fn number(&self, number: i64) -> Option<i64> {
        varint(&mut self.field(number, &[I16, I16 + 1, I64])?).map(zigzag)
    }

    /// A field that is a number of something.
    pub(super) fn count(&self, number: i64) -> Option<usize> {
        usize::try_from(self.number(number)?).ok()
    }

    /// A field that is bytes, or a text.
    pub(super) fn bytes(&self, number: i64) -> Option<&'a [u8]> {
        let mut bytes = self.field(number, &[BINARY])?;
        varint(&mut bytes)?;
        Some(bytes)
    }

    /// A field that is a structure.
    pub(super) fn structure(&self, number: i64) -> Option<Structure<'a>> {
        Structure::read(&mut self.field(number, &[STRUCT])?)
    }

    /// A field that is a list of structures, one by one.
    pub(super) fn structures(&self, number: i64) -> Option<impl Iterator<Item = Structure<'a>> + use<'a>> {
        let mut bytes = self.field(number, &[LIST])?;
        let (kind, count) = list(&mut bytes)?;
        // That each is one has been seen when the field was gone past.
        (kind == STRUCT || count == 0).then(|| (0..count).map_while(move |_| Structure::read(&mut bytes)))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A field to be written.
    pub(in crate::samples) enum Field {
        Number(i64),
        Bytes(&'static [u8]),
        Structure(Vec<(i64, Field)>),
        /// Of structures.
        List(Vec<Vec<(i64, Field)>>),
    }

    /// A structure of fields, by their numbers.
    pub(in crate::samples) fn written(fields: &[(i64, Field)]) -> Vec<u8> {
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

    pub(in crate::samples) fn varint_of(mut number: u64) -> Vec<u8> {
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
        assert_eq!(rest, [9], "what follows is left");
        assert_eq!((it.number(1), it.count(1), it.bytes(3)), (Some(150), Some(150), Some(&b"ab"[..])));
        let inner = it.structure(4).unwrap();
        assert_eq!((inner.number(1), inner.count(1)), (Some(-1), None));
        let elements: Vec<_> = it.structures(5).unwrap().map(|element| element.number(2)).collect();
        assert_eq!(elements, [None, Some(7)]);
        assert!(it.number(3).is_none() && it.bytes(1).is_none() && it.structure(5).is_none() && it.number(2).is_none());
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let bytes = [0x15, 0xac, 0x02, 0x28, 2, b'a', b'b', 0x1c, 0x16, 0x01, 0, 0x19, 0x2c, 0, 0x25, 0x0e, 0, 0];
        assert!(Structure::read(&mut &bytes[..]).is_some());
        for length in 0..bytes.len() {
            assert!(Structure::read(&mut &bytes[..length]).is_none(), "of {length} bytes");
        }
    }

    #[test]
    fn a_list_has_no_more_elements_than_bytes() {
        let claimed = |kind| one(LIST, &[0xf0 | kind, 0xff, 0xff, 0xff, 0xff, 0x07]);
        for kind in [TRUE, FALSE, BYTE, STRUCT] {
            assert!(Structure::read(&mut &claimed(kind)[..]).is_none(), "type {kind}");
        }
        let booleans = one(LIST, &[0x22, 1, 2]);
        assert!(Structure::read(&mut &booleans[..]).is_some());
    }

    #[test]
    fn depth_has_a_bound() {
        let nested = |depth: usize| [vec![0x1c; depth], vec![0; depth + 1]].concat();
        assert!(Structure::read(&mut &nested(16)[..]).is_some());
        assert!(Structure::read(&mut &nested(1_000_000)[..]).is_none());
        let lists = one(LIST, &[0x19; 1_000_000]);
        assert!(Structure::read(&mut &lists[..]).is_none());
    }

    #[test]
    fn a_number_has_at_most_ten_bytes() {
        assert_eq!(varint(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..]), Some(u64::MAX));
        assert_eq!(varint(&mut &[0x80; 11][..]), None);
        assert_eq!([0, 1, 2, u64::MAX].map(zigzag), [0, -1, 1, i64::MIN]);
    }
}
