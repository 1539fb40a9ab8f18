//! Readers of responses: the result must not depend on how the input is split.

use wire::{http, kv, redis};

use crate::cuts;

/// Reads pieces with `reader`, which returns the number of bytes taken and a complete response, if any. Stops after a response
/// that `is_last` accepts.
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
            assert!(taken > 0 || response.is_some(), "took no bytes and found no response");
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

/// Reads HTTP responses to GET and to HEAD.
pub fn http(data: &[u8]) {
    let (whole, lengths) = cuts::pieces(data);
    for is_head in [false, true] {
        let responses = |pieces: &[&[u8]]| {
            let mut reader = http::client::ResponseReader::default();
            // Ignore the reasons of errors, because the reader may find another error first if the cuts differ.
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
        assert_eq!(responses(&[&whole]), responses(&cuts::cut(&whole, &lengths)), "HEAD: {is_head}");
    }
}

/// Reads responses of memcached.
pub fn kv(data: &[u8]) {
    key_value::<kv::client::Memcached>(data);
}

/// Reads responses of Redis.
pub fn redis(data: &[u8]) {
    key_value::<redis::client::Resp>(data);
}

fn key_value<D: kv::client::Dialect + Default>(data: &[u8]) {
    let (whole, lengths) = cuts::pieces(data);
    let responses = |pieces: &[&[u8]]| {
        let mut reader = kv::client::ReplyReader::<D>::default();
        read(pieces, |bytes| reader.read(bytes, b"key", b"a value"), |reply| *reply == kv::client::KvReply::Garbage)
    };
    assert_eq!(responses(&[&whole]), responses(&cuts::cut(&whole, &lengths)));
}
