//! Clients as they see a server: what they make of responses is the same however these are cut into pieces.

use wire::{http, kv};

use crate::cuts;

/// Reads all of it, piece by piece, with a reader that says how much it took and what it then had.
fn read<R: PartialEq>(
    pieces: &[&[u8]],
    mut reader: impl FnMut(&[u8]) -> (usize, Option<R>),
    is_last: fn(&R) -> bool,
) -> Vec<R> {
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let (taken, response) = reader(rest);
            assert!(taken <= rest.len(), "took {taken} bytes of {}", rest.len());
            assert!(taken > 0 || response.is_some(), "took nothing, and found nothing");
            rest = &rest[taken..];
            let Some(response) = response else { continue };
            let ends = is_last(&response);
            found.push(response);
            if ends {
                return found;
            }
        }
    }
    found
}

/// Responses of HTTP, to GET and to HEAD.
pub fn http(data: &[u8]) {
    let (whole, lengths) = cuts::pieces(data);
    for is_head in [false, true] {
        let of = |pieces: &[&[u8]]| {
            let mut reader = http::client::Reader::default();
            // What was wrong may be said in other words, for a part of it may be seen first.
            let mut found = read(
                pieces,
                |bytes| {
                    let (taken, found) = reader.read(bytes, is_head);
                    (taken, found.map(|found| found.map_err(|_| ())))
                },
                Result::is_err,
            );
            if !found.last().is_some_and(Result::is_err) {
                found.extend(reader.end().map(|found| found.map_err(|_| ())));
            }
            found
        };
        assert_eq!(of(&[&whole]), of(&cuts::cut(&whole, &lengths)), "HEAD: {is_head}");
    }
}

/// Responses of memcached.
pub fn kv(data: &[u8]) {
    let (whole, lengths) = cuts::pieces(data);
    let of = |pieces: &[&[u8]]| {
        let mut reader = kv::client::Reader::default();
        read(pieces, |bytes| reader.read(bytes, b"key", b"a value"), |reply| *reply == kv::client::Reply::Garbage)
    };
    assert_eq!(of(&[&whole]), of(&cuts::cut(&whole, &lengths)));
}
