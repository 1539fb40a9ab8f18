use std::borrow::Cow;

/// Returns the encoded path of a target in origin or absolute form, without its query; `None` for another form.
#[inline]
pub(super) fn path(target: &str) -> Option<&[u8]> {
    let bytes = target.as_bytes();
    let path = if bytes.starts_with(b"/") { bytes } else { absolute(bytes)? };
    match memchr::memchr2(b'?', b'#', path) {
        None => Some(path),
        // A fragment is for the client only, so it is invalid here.
        Some(_) if memchr::memchr(b'#', path).is_some() => None,
        Some(0) => Some(b"/"),
        Some(end) => Some(&path[..end]),
    }
}

/// Returns the path and query of an `http` or `https` URL; `/` if nothing follows the host.
fn absolute(target: &[u8]) -> Option<&[u8]> {
    let scheme_bytes = target.windows(3).position(|three| three == b"://")?;
    let (scheme, rest) = target.split_at(scheme_bytes);
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return None;
    }
    let rest = &rest[3..];
    let host_bytes = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    match (host_bytes, &rest[host_bytes..]) {
        (0, _) => None,
        (_, []) => Some(b"/"),
        (_, path) => Some(path),
    }
}

/// Whether a path has nothing to decode and no `.` or `..` to remove.
#[inline]
pub(super) fn is_plain(path: &[u8]) -> bool {
    memchr::memchr(b'%', path).is_none() && !path.windows(2).any(|two| two == b"/.")
}

/// Decodes a path and removes `.`, `..` and empty segments; `None` if it is invalid or leads out of the root.
pub(super) fn normal(path: &[u8]) -> Option<Vec<u8>> {
    // Decode first, so that encoded slashes and dots count too.
    resolve(&decode(path)?)
}

fn resolve(decoded: &[u8]) -> Option<Vec<u8>> {
    if decoded.first() != Some(&b'/') || decoded.contains(&0) {
        return None;
    }
    let mut normal = Vec::with_capacity(decoded.len());
    let mut is_folder = false;
    for segment in decoded[1..].split(|&byte| byte == b'/') {
        is_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => normal.truncate(normal.iter().rposition(|&byte| byte == b'/')?),
            name => {
                normal.push(b'/');
                normal.extend_from_slice(name);
            }
        }
    }
    if is_folder {
        normal.push(b'/');
    }
    Some(normal)
}

/// Whether a decoded path is the same after normalisation.
pub(super) fn is_normal(path: &[u8]) -> bool {
    resolve(path).is_some_and(|resolved| resolved == path)
}

/// Replaces the `%XX` of a text by the bytes; `None` if they are invalid or no UTF-8.
pub fn decoded(text: &str) -> Option<String> {
    String::from_utf8(decode(text.as_bytes())?.into_owned()).ok()
}

fn decode(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    if memchr::memchr(b'%', path).is_none() {
        return Some(Cow::Borrowed(path));
    }
    let (mut decoded, mut rest) = (Vec::with_capacity(path.len()), path);
    let digit = |byte: u8| (byte as char).to_digit(16);
    while let [byte, after @ ..] = rest {
        let (byte, after) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => ((digit(*high)? * 16 + digit(*low)?) as u8, after),
            (b'%', _) => return None,
            _ => (*byte, after),
        };
        decoded.push(byte);
        rest = after;
    }
    Some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn target_yields_its_path() {
        for (target, expected) in [
            ("/", Some("/")),
            ("/a/b?c=/d", Some("/a/b")),
            ("/a?b#c", None),
            ("/a#c", None),
            ("http://host", Some("/")),
            ("HTTP://host:80/a?b", Some("/a")),
            ("https://host?b", Some("/")),
            ("http:///a", None),
            ("ftp://host/a", None),
            ("*", None),
            ("host:80", None),
            ("a/b", None),
        ] {
            assert_eq!(path(target), expected.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn paths_stay_within_the_root() {
        for (path, expected) in [
            ("/", Some("/")),
            ("//a///b", Some("/a/b")),
            ("/a/", Some("/a/")),
            ("/a/.", Some("/a/")),
            ("/./a", Some("/a")),
            ("/a/..", Some("/")),
            ("/a/b/../c", Some("/a/c")),
            ("/..", None),
            ("/../etc/passwd", None),
            ("/a/../../etc/passwd", None),
            ("/a/%2e%2e/%2E./etc/passwd", None),
            ("/%2e%2e%2fetc/passwd", None),
            ("/..%2fetc/passwd", None),
            ("/a//../..", None),
            ("/...", Some("/...")),
            ("/..\\a", Some("/..\\a")),
            ("/%41%7a", Some("/Az")),
            // A path is decoded only once.
            ("/%252e%252e/a", Some("/%2e%2e/a")),
            ("/a%00b", None),
            ("/%", None),
            ("/%4", None),
            ("/%+4", None),
            ("/%zz", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(normal(path.as_bytes()).as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }

    proptest! {
        #[test]
        fn normal_path_has_nothing_to_resolve(path in r"/([./\\a]|%2e|%2f|%5c|%25){0,20}") {
            if let Some(normal) = normal(path.as_bytes()) {
                prop_assert_eq!(normal[0], b'/');
                let mut segments = normal[1..].split(|&byte| byte == b'/').peekable();
                while let Some(segment) = segments.next() {
                    prop_assert!(segment != b"." && segment != b"..", "{:?}", normal);
                    prop_assert!(!segment.is_empty() || segments.peek().is_none(), "{:?}", normal);
                }
            }
        }
    }
}
