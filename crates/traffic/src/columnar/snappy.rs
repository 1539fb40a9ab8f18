//! Decompresses Snappy, the default compression of other programs' Parquet files.

use super::thrift::{take, varint};

/// Decompresses bytes to a content of this length; `None` if they are invalid.
pub(super) fn decompress(mut bytes: &[u8], content_bytes: usize) -> Option<Vec<u8>> {
    if usize::try_from(varint(&mut bytes)?).ok()? != content_bytes {
        return None;
    }
    let mut content = Vec::with_capacity(content_bytes);
    while !bytes.is_empty() {
        let [tag] = *take(&mut bytes, 1)? else { return None };
        let upper = usize::from(tag >> 2);
        // The low bits select a literal, or a copy with an offset of 11, 16 or 32 bits.
        let (length, offset) = match tag & 3 {
            0 => {
                let length = if upper < 60 { upper } else { number(&mut bytes, upper - 59)? };
                content.extend_from_slice(take(&mut bytes, length.checked_add(1)?)?);
                continue;
            }
            1 => (4 + (upper & 7), (usize::from(tag >> 5) << 8) | number(&mut bytes, 1)?),
            2 => (1 + upper, number(&mut bytes, 2)?),
            _ => (1 + upper, number(&mut bytes, 4)?),
        };
        let start = content.len().checked_sub(offset)?;
        if offset == 0 || content.len() + length > content_bytes {
            return None;
        }
        // A copy may overlap its own output.
        (start..start + length).for_each(|at| content.push(content[at]));
    }
    Some(content)
}

/// Reads a little-endian number of one to four bytes.
fn number(bytes: &mut &[u8], count: usize) -> Option<usize> {
    Some(take(bytes, count)?.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies_are_decompressed() {
        // "abcd", a copy of 6 bytes from 4 back, one of 3 bytes from 10 back, and one of 2 bytes from 1 back.
        let bytes = [15, 3 << 2, b'a', b'b', b'c', b'd', 1 | 2 << 2, 4, 2 | 2 << 2, 10, 0, 3 | 1 << 2, 1, 0, 0, 0];
        assert_eq!(decompress(&bytes, 15).unwrap(), b"abcdabcdababccc");
        for length in 0..bytes.len() {
            assert!(decompress(&bytes[..length], 15).is_none_or(|content| content.len() < 15), "{length} bytes");
        }
        let long = [&[0xac, 0x02, 61 << 2, 43, 1][..], &[7; 300]].concat();
        assert_eq!(decompress(&long, 300).unwrap(), [7; 300]);
    }

    #[test]
    fn invalid_bytes_are_refused() {
        for (bytes, content_bytes, why) in [
            (&[2, 0, b'a'][..], 1, "another length"),
            (&[5, 0, b'a', 1, 2], 5, "an offset before the start"),
            (&[5, 0, b'a', 1, 0], 5, "an offset of 0"),
            (&[3, 0, b'a', 1, 1], 3, "a copy beyond the content"),
            (&[9, 63 << 2, 255, 255, 255, 255], 9, "an endless literal"),
            (&[], 0, "no length"),
        ] {
            assert_eq!(decompress(bytes, content_bytes), None, "{why}");
        }
    }
}
