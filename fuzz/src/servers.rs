//! Services as they see their clients: what they say is the same however requests are cut into pieces.

use std::sync::LazyLock;

use wire::Service;
use wire::fixed::Fixed;
use wire::http::{Content, Http};
use wire::kv::{Kv, KvConfig};
use wire::stream::{Direction, Stream, Streaming};
use wire::udp::Udp;

use crate::cuts;

/// `Fri, 15 Jan 2027 08:00:00 GMT`.
const NOW: u32 = 1_800_000_000;
/// Responses may be long and are not looked at beyond this: a request for gigabytes is a short one.
const SAID_BYTES_MAX: usize = 1 << 20;

/// What was said, how many requests were completed, and whether the connection is over.
type Outcome = (Vec<u8>, u64, bool);

/// One conversation. After each piece everything is sent, at most `at_most` bytes at a time; `None` if there is too much of it.
fn converse<S: Service>(service: &S, pieces: &[&[u8]], at_most: usize) -> Option<Outcome> {
    let (mut conn, mut said, mut requests) = (S::Conn::default(), Vec::new(), 0);
    for piece in pieces {
        requests += service.receive(&mut conn, piece);
        while !service.unsent(&conn).is_empty() {
            let unsent = service.unsent(&conn);
            let count = unsent.len().min(at_most);
            said.extend_from_slice(&unsent[..count]);
            requests += service.sent(&mut conn, count);
            if said.len() > SAID_BYTES_MAX {
                return None;
            }
        }
    }
    Some((said, requests, service.is_over(&conn)))
}

/// The same conversation in one piece and in several, each with a service of its own; `content` is what counts of what was said.
fn compare<S: Service>(data: &[u8], service: impl Fn() -> S, content: fn(Vec<u8>) -> Vec<u8>) {
    let (whole, lengths) = cuts::pieces(data);
    let of = |pieces: &[&[u8]], at_most| {
        converse(&service(), pieces, at_most).map(|(said, requests, is_over)| (content(said), requests, is_over))
    };
    if let (Some(once), Some(cut)) = (of(&[&whole], usize::MAX), of(&cuts::cut(&whole, &lengths), 777)) {
        assert!(once == cut, "said {:?} of the whole, {:?} of its pieces", shown(&once), shown(&cut));
    }
}

fn shown((said, requests, is_over): &Outcome) -> (String, u64, bool) {
    (String::from_utf8_lossy(said).into_owned(), *requests, *is_over)
}

/// All of it.
fn bytes(said: Vec<u8>) -> Vec<u8> {
    said
}

/// How long it is: its bytes mean nothing.
fn length(said: Vec<u8>) -> Vec<u8> {
    vec![0; said.len()]
}

/// HTTP, of generated content and of two files.
pub fn http(data: &[u8]) {
    static FILES: LazyLock<std::sync::Arc<Content>> = LazyLock::new(|| {
        let files = [("index.html", b"home".to_vec()), ("a/b c.txt", vec![b'x'; 40_000])];
        std::sync::Arc::new(Content::files(files).expect("no two have one name"))
    });
    static GENERATED: LazyLock<std::sync::Arc<Content>> = LazyLock::new(|| Content::generated().into());
    for content in [&*FILES, &*GENERATED] {
        compare(data, || Http::new(content.clone(), Box::new(|| NOW)), bytes);
    }
}

/// The memcached protocol, with a store so small that items are too large for it.
pub fn kv(data: &[u8]) {
    let config = KvConfig { memory_max_bytes: 1 << 20, item_max_bytes: 2_000, pid: 7 };
    compare(data, || Kv::new(config.clone(), Box::new(|| NOW)), bytes);
}

/// Sizes, of which the first two bytes are some.
pub fn fixed(data: &[u8]) {
    if let [request, response, rest @ ..] = data {
        compare(rest, || Fixed::new(u32::from(*request) + 1, u32::from(*response) + 1), length);
    }
}

/// Bursts, of which the first four bytes say the sizes and the direction.
pub fn stream(data: &[u8]) {
    if let [packet, packets, ack, direction, rest @ ..] = data {
        let direction = if direction % 2 == 0 { Direction::In } else { Direction::Out };
        let [packet_bytes, packets, ack_bytes] = [packet, packets, ack].map(|byte| u32::from(*byte) + 1);
        compare(rest, || Streaming::new(Stream { packet_bytes, packets, ack_bytes, direction }), length);
    }
}

/// A datagram: its response has its id.
pub fn udp(data: &[u8]) {
    let udp = Udp::new(16, 32);
    for bytes in [data.len(), 16, usize::MAX] {
        if let Some(id) = udp.request_id(data, bytes) {
            assert_eq!(data.get(..id.len()), Some(&id[..]), "an id is the beginning of what came");
        }
    }
    udp.response_id(data);
}
