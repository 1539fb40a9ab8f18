//! Services: responses must not depend on how requests are split.

use std::sync::LazyLock;

use wire::Service;
use wire::fixed::Fixed;
use wire::http::{Content, Http};
use wire::kv::{Kv, KvConfig};
use wire::redis::Redis;
use wire::stream::{Direction, Stream, Streaming};
use wire::udp::Udp;

use crate::cuts;

/// `Fri, 15 Jan 2027 08:00:00 GMT`.
const NOW: u32 = 1_800_000_000;
/// Limit of the output to compare, because a short request may ask for gigabytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Output, number of completed requests, and whether the connection is over.
type Outcome = (Vec<u8>, u64, bool);

/// Serves one connection and sends all output after each piece, at most `at_most` bytes at a time. `None` if the output
/// exceeds `OUTPUT_BYTES_MAX`.
fn converse<S: Service>(service: &S, pieces: &[&[u8]], at_most: usize) -> Option<Outcome> {
    let (mut conn, mut output, mut requests) = (S::Conn::default(), Vec::new(), 0);
    for piece in pieces {
        requests += service.receive(&mut conn, piece);
        while !service.unsent(&conn).is_empty() {
            let unsent = service.unsent(&conn);
            let count = unsent.len().min(at_most);
            output.extend_from_slice(&unsent[..count]);
            requests += service.sent(&mut conn, count);
            if output.len() > OUTPUT_BYTES_MAX {
                return None;
            }
        }
    }
    Some((output, requests, service.is_over(&conn)))
}

/// Compares the outcome for the whole input with that for its pieces; `content` reduces the output to the relevant part.
fn compare<S: Service>(data: &[u8], service: impl Fn() -> S, content: fn(Vec<u8>) -> Vec<u8>) {
    let (whole, lengths) = cuts::pieces(data);
    let outcome = |pieces: &[&[u8]], at_most| {
        let outcome = converse(&service(), pieces, at_most);
        outcome.map(|(output, requests, is_over)| (content(output), requests, is_over))
    };
    if let (Some(once), Some(cut)) = (outcome(&[&whole], usize::MAX), outcome(&cuts::cut(&whole, &lengths), 777)) {
        assert!(once == cut, "{:?} for the whole, {:?} for its pieces", text(&once), text(&cut));
    }
}

fn text((output, requests, is_over): &Outcome) -> (String, u64, bool) {
    (String::from_utf8_lossy(output).into_owned(), *requests, *is_over)
}

/// Keeps only the length of the output, for services with arbitrary content.
fn length(output: Vec<u8>) -> Vec<u8> {
    vec![0; output.len()]
}

/// HTTP with generated content and with two files.
pub fn http(data: &[u8]) {
    static FILES: LazyLock<std::sync::Arc<Content>> = LazyLock::new(|| {
        let files = [("index.html", b"home".to_vec()), ("a/b c.txt", vec![b'x'; 40_000])];
        std::sync::Arc::new(Content::files(files).expect("the names are valid and distinct"))
    });
    static GENERATED: LazyLock<std::sync::Arc<Content>> = LazyLock::new(|| Content::generated().into());
    for content in [&*FILES, &*GENERATED] {
        compare(data, || Http::new(content.clone(), Box::new(|| NOW)), |output| output);
    }
}

/// The memcached protocol, with a store that is too small for some items.
pub fn kv(data: &[u8]) {
    let config = KvConfig { memory_max_bytes: 1 << 20, item_max_bytes: 2_000, pid: 7 };
    compare(data, || Kv::new(config.clone(), Box::new(|| NOW)), |output| output);
}

/// RESP2, with a store that is too small for some items.
pub fn redis(data: &[u8]) {
    let config = KvConfig { memory_max_bytes: 1 << 20, item_max_bytes: 2_000, pid: 7 };
    compare(data, || Redis::new(&config, Box::new(|| NOW)), |output| output);
}

/// The service `fixed`; the first two bytes give the sizes.
pub fn fixed(data: &[u8]) {
    if let [request, response, rest @ ..] = data {
        compare(rest, || Fixed::new(u32::from(*request) + 1, u32::from(*response) + 1), length);
    }
}

/// The service `stream`; the first four bytes give the sizes and the direction.
pub fn stream(data: &[u8]) {
    if let [packet, packets, ack, direction, rest @ ..] = data {
        let direction = if direction % 2 == 0 { Direction::In } else { Direction::Out };
        let [packet_bytes, packets, ack_bytes] = [packet, packets, ack].map(|byte| u32::from(*byte) + 1);
        compare(
            rest,
            || Streaming::new(Stream { packet_bytes, packets, ack_bytes, direction, ..Stream::default() }),
            length,
        );
    }
}

/// The service `udp`.
pub fn udp(data: &[u8]) {
    let udp = Udp::new(16, 32);
    for bytes in [data.len(), 16, usize::MAX] {
        if let Some(id) = udp.request_id(data, bytes) {
            assert_eq!(data.get(..id.len()), Some(&id[..]), "the datagram does not begin with its id");
        }
    }
    udp.response_id(data);
}
