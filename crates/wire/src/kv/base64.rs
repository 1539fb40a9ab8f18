//! Keys in base64 (RFC 4648). As in memcached, the decoder skips bytes outside the alphabet and stops at padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for block in bytes.chunks(3) {
        let bits = block.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - block.len()));
        for at in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= block.len() { digit } else { b'=' });
        }
    }
}

/// Decodes a text; `None` if the digits are no multiple of four, a block has more than two `=`, or the result is empty.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|&byte| byte == b'=' || value(byte).is_some()).collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for block in digits.chunks(4) {
        let bits = block.iter().fold(0, |bits, &digit| bits << 6 | value(digit).unwrap_or(0));
        let padding = block.iter().filter(|&&digit| digit == b'=').count();
        if padding > 2 {
            return None;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
        if padding > 0 {
            break;
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    Some(
        match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_rfc() {
        for (bytes, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\0\u{7f}?~", "AH8/fg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            encode(bytes.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        encode(&all, &mut text);
        assert_eq!(decode(&text), Some(all));
    }

    #[test]
    fn decoder_accepts_the_same_text_as_memcached() {
        for (text, bytes) in [
            ("Z-m9.v", Some("foo")),
            ("Zm8=Zm9v", Some("fo")),
            ("Zm9", None),
            ("", None),
            ("....", None),
            ("====", None),
            ("Z===", None),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), bytes.map(str::as_bytes), "{text}");
        }
    }
}
