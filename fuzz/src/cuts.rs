//! The split of an input into pieces. The first bytes of the input determine the split.

/// Decodes an input: the number of cuts (modulo 16), the length of each piece except the last, and the bytes to split. Returns
/// the bytes and the lengths.
pub fn pieces(data: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let Some((&count, rest)) = data.split_first() else { return (Vec::new(), Vec::new()) };
    let (cuts, whole) = rest.split_at(rest.len().min(usize::from(count % 16)));
    // Most lengths are short, because short pieces reach more states; 255 means 4 000.
    let lengths = cuts.iter().map(|&cut| if cut == u8::MAX { 4_000 } else { usize::from(cut) });
    (whole.to_vec(), lengths.collect())
}

/// Splits bytes into pieces of these lengths; the last piece has the remaining bytes.
pub fn cut<'a>(whole: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = whole;
    let mut pieces: Vec<&[u8]> = lengths
        .iter()
        .map(|&length| {
            let (piece, later) = rest.split_at(rest.len().min(length));
            rest = later;
            piece
        })
        .collect();
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_whole_input() {
        let (whole, lengths) = pieces(b"\x12\x01\x02abcdef");
        assert_eq!((&whole[..], &lengths[..]), (&b"abcdef"[..], &[1, 2][..]));
        assert_eq!(cut(&whole, &lengths), [&b"a"[..], b"bc", b"def"]);
        assert_eq!(cut(b"a", &[4_000, 7]), [&b"a"[..], b"", b""]);
        assert_eq!(pieces(b""), (Vec::new(), Vec::new()));
    }
}
