//! The service as its clients see it, and what they cannot see: memory, and time that passes when told to.

mod recorded;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use proptest::prelude::*;

use super::store::ITEM_OVERHEAD_BYTES;
use super::turn::{KEYS_BYTES_MAX, LINE_BYTES_MAX, OUTPUT_BYTES_MAX};
use super::*;
use crate::outbox::KEPT_BYTES_MAX;
use recorded::RECORDED;

const NOW: u32 = 1_800_000_000;

fn kv(config: KvConfig) -> (Kv, Arc<AtomicU32>) {
    let now = Arc::new(AtomicU32::new(NOW));
    let clock = Arc::clone(&now);
    (Kv::new(config, Box::new(move || clock.load(Relaxed))), now)
}

/// Sends everything that is to be said, at most so many bytes at a time.
fn drain(kv: &Kv, conn: &mut KvConn, at_most: usize) -> Vec<u8> {
    drain_and_count(kv, conn, at_most, &mut 0)
}

/// The same, and counts the requests that this completes.
fn drain_and_count(kv: &Kv, conn: &mut KvConn, at_most: usize, requests: &mut u64) -> Vec<u8> {
    let mut said = Vec::new();
    while !kv.unsent(conn).is_empty() {
        let count = kv.unsent(conn).len().min(at_most);
        said.extend_from_slice(&kv.unsent(conn)[..count]);
        *requests += kv.sent(conn, count);
    }
    said
}

/// One conversation on a connection of its own.
fn talk(kv: &Kv, input: &[u8]) -> String {
    let mut conn = KvConn::default();
    kv.receive(&mut conn, input);
    String::from_utf8_lossy(&drain(kv, &mut conn, usize::MAX)).into_owned()
}

/// What is kept for a connection.
fn held_bytes(conn: &KvConn) -> usize {
    conn.inbox.kept().len() + conn.outbox.unsent().len()
}

#[test]
fn it_says_what_memcached_says() {
    let mut failed = 0;
    for (input, output) in RECORDED {
        let (kv, _) = kv(KvConfig::default());
        let said = talk(&kv, input.as_bytes());
        if said != *output {
            failed += 1;
            let differs = said.lines().zip(output.lines()).position(|(ours, theirs)| ours != theirs);
            println!("=== {input}--- differs at line {differs:?}: ours\n{said}--- theirs\n{output}");
        }
    }
    assert_eq!(failed, 0);
}

fn piece_of_conversation() -> impl Strategy<Value = Vec<u8>> {
    let recorded = (0..RECORDED.len()).prop_map(|at| RECORDED[at].0.as_bytes().to_vec());
    let long_keys = (1usize..40).prop_map(|count| [&b"get a"[..], &b" bcdefghi".repeat(count * 10), b"\r\n"].concat());
    let big = (0usize..200_000)
        .prop_map(|bytes| [format!("set a 0 0 {bytes}\r\n").as_bytes(), &vec![b'\n'; bytes], b"\r\n"].concat());
    let many = (1usize..8).prop_map(|count| [&b"gets"[..], &b" a".repeat(count), b"\r\n"].concat());
    let garbage = prop::collection::vec(any::<u8>(), 0..100);
    prop_oneof![8 => recorded, 1 => long_keys, 2 => big, 2 => many, 1 => garbage]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_of_a_stream_gives_the_same_responses(
        pieces in prop::collection::vec(piece_of_conversation(), 1..6),
        cuts in prop::collection::vec((1usize..3000, any::<bool>()), 1..100),
    ) {
        let stream = pieces.concat();
        // Some values are too large.
        let config = KvConfig { item_max_bytes: 150_000, ..KvConfig::default() };
        let (whole, _) = kv(config.clone());
        let mut conn = KvConn::default();
        let mut requests = whole.receive(&mut conn, &stream);
        let expected = drain_and_count(&whole, &mut conn, usize::MAX, &mut requests);

        let (split, _) = kv(config);
        let mut split_conn = KvConn::default();
        let (mut said, mut split_requests, mut rest) = (Vec::new(), 0, &stream[..]);
        for (length, is_sent) in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*length));
            split_requests += split.receive(&mut split_conn, piece);
            if *is_sent {
                said.extend(drain_and_count(&split, &mut split_conn, 777, &mut split_requests));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        said.extend(drain_and_count(&split, &mut split_conn, 777, &mut split_requests));
        prop_assert_eq!(said, expected);
        prop_assert_eq!(split_requests, requests);
        prop_assert_eq!(split.is_over(&split_conn), whole.is_over(&conn));
    }

    #[cfg_attr(miri, ignore = "an interpreter takes minutes")]
    #[test]
    fn garbage_is_answered_and_not_kept(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2000), 1..50),
    ) {
        let (kv, _) = kv(KvConfig::default());
        let mut conn = KvConn::default();
        for piece in pieces {
            kv.receive(&mut conn, &piece);
            drain(&kv, &mut conn, usize::MAX);
            prop_assert!(held_bytes(&conn) <= LINE_BYTES_MAX + 1);
        }
    }
}

#[test]
fn a_line_without_an_end_ends_the_connection() {
    // A mebibyte in small pieces takes an interpreter long.
    let piece = b"k ".repeat(if cfg!(miri) { 10_000 } else { 50 });
    for (line, most) in [(&b"set "[..], LINE_BYTES_MAX), (b"get ", KEYS_BYTES_MAX)] {
        let (kv, _) = kv(KvConfig::default());
        let mut conn = KvConn::default();
        kv.receive(&mut conn, line);
        let mut sent_bytes = line.len();
        while !kv.is_over(&conn) {
            assert!(sent_bytes <= most, "{sent_bytes} bytes of a line are kept");
            kv.receive(&mut conn, &piece);
            sent_bytes += piece.len();
        }
        assert!(sent_bytes > most && held_bytes(&conn) == 0);
    }
}

#[test]
fn what_is_said_before_quit_is_sent_and_nothing_after_it_taken() {
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    assert_eq!(kv.receive(&mut conn, b"get a\r\nquit\r\nget a\r\n"), 2);
    assert!(kv.is_over(&conn));
    assert_eq!(kv.receive(&mut conn, b"get a\r\n"), 0);
    assert_eq!(drain(&kv, &mut conn, 2), b"END\r\n");
}

#[test]
fn a_short_request_for_much_waits_until_the_first_of_it_is_sent() {
    // A hundred megabytes in all, and for an interpreter one.
    const VALUE_BYTES: usize = if cfg!(miri) { 1_000 } else { 100_000 };
    let (kv, _) = kv(KvConfig::default());
    let value = vec![b'v'; VALUE_BYTES];
    let mut conn = KvConn::default();
    kv.receive(&mut conn, &[format!("set a 0 0 {VALUE_BYTES}\r\n").as_bytes(), &value, b"\r\n"].concat());
    drain(&kv, &mut conn, usize::MAX);

    let many = [&b"get"[..], &b" a".repeat(1000), b"\r\nget a\r\nversion\r\n"].concat();
    let mut requests = kv.receive(&mut conn, &many);
    let mut said_bytes = 0;
    while !kv.unsent(&conn).is_empty() {
        assert!(held_bytes(&conn) < OUTPUT_BYTES_MAX + value.len() + many.len() + 100);
        let count = kv.unsent(&conn).len();
        said_bytes += count;
        requests += kv.sent(&mut conn, count);
    }
    let hit_bytes = format!("VALUE a 0 {VALUE_BYTES}\r\n\r\n").len() + value.len();
    assert_eq!(said_bytes, 1001 * hit_bytes + 2 * "END\r\n".len() + "VERSION 1.6.18-muxbench\r\n".len());
    assert_eq!(requests, 3);
}

#[test]
fn bytes_once_offered_stay_where_they_are() {
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    kv.receive(&mut conn, b"set a 0 0 5\r\nhello\r\n");
    let (before, address) = (kv.unsent(&conn).to_vec(), kv.unsent(&conn).as_ptr());
    for _ in 0..1000 {
        kv.receive(&mut conn, b"get a\r\n");
        assert_eq!((kv.unsent(&conn), kv.unsent(&conn).as_ptr()), (&before[..], address));
    }
    kv.sent(&mut conn, 3);
    kv.receive(&mut conn, b"get a\r\n");
    assert_eq!(kv.unsent(&conn).as_ptr(), address.wrapping_add(3));
    let said = drain(&kv, &mut conn, usize::MAX);
    assert_eq!(said, [&b"RED\r\n"[..], &b"VALUE a 0 5\r\nhello\r\nEND\r\n".repeat(1001)].concat());
}

#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<KvConn>() <= 168, "{}", size_of::<KvConn>());
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    kv.receive(&mut conn, b"set a 0 0 100000\r\n");
    kv.receive(&mut conn, &[&[b'v'; 100_000][..], b"\r\nget a\r\n"].concat());
    drain(&kv, &mut conn, usize::MAX);
    let capacity_bytes = conn.inbox.kept_capacity() + conn.outbox.room().capacity();
    assert!(capacity_bytes <= 2 * KEPT_BYTES_MAX, "{capacity_bytes}");
}

#[test]
fn a_value_that_is_too_large_is_thrown_away_as_it_comes() {
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    kv.receive(&mut conn, b"set a 0 0 3\r\nold\r\nset a 0 0 5000000\r\n");
    for _ in 0..50 {
        assert!(kv.receive(&mut conn, &[b'\n'; 100_000]) == 0 && conn.inbox.kept().is_empty());
    }
    kv.receive(&mut conn, b"\r\nget a\r\n");
    // The older value is gone too: its client believes it replaced.
    let said = drain(&kv, &mut conn, usize::MAX);
    assert_eq!(said, b"STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n");
    // A value that grows too large stays as it was.
    let half = [&b"set a 0 0 600000\r\n"[..], &[b'x'; 600_000], b"\r\n"].concat();
    assert_eq!(talk(&kv, &half), "STORED\r\n");
    assert_eq!(talk(&kv, &[&b"append a"[..], &half[5..]].concat()), "NOT_STORED\r\n");
}

#[test]
fn items_expire_when_they_should() {
    let (kv, now) = kv(KvConfig::default());
    let absolute = NOW + 20;
    let input = format!("set a 0 10 1\r\na\r\nset b 0 {absolute} 1\r\nb\r\nset c 0 0 1\r\nc\r\nset d 0 10 1\r\nd\r\n");
    assert_eq!(talk(&kv, input.as_bytes()), "STORED\r\n".repeat(4));
    let hits =
        || "abcd".chars().filter(|key| talk(&kv, format!("get {key}\r\n").as_bytes()) != "END\r\n").collect::<String>();
    now.store(NOW + 9, Relaxed);
    assert_eq!(hits(), "abcd");
    assert_eq!(talk(&kv, b"touch d 100\r\n"), "TOUCHED\r\n");
    now.store(NOW + 10, Relaxed);
    assert_eq!(hits(), "bcd");
    now.store(absolute, Relaxed);
    assert_eq!(
        talk(&kv, b"append b 0 0 1\r\nx\r\nadd b 0 1 3\r\nnew\r\nget b\r\n"),
        "NOT_STORED\r\nSTORED\r\nVALUE b 0 3\r\nnew\r\nEND\r\n"
    );
    now.store(NOW + 200, Relaxed);
    assert_eq!(hits(), "c");
    // What is met is dropped.
    assert_eq!(kv.store.size().0, 1);
}

#[test]
fn a_delayed_flush_takes_what_is_there_then() {
    let (kv, now) = kv(KvConfig::default());
    assert_eq!(talk(&kv, b"set a 0 0 1\r\na\r\nflush_all 10\r\nset b 0 0 1\r\nb\r\n"), "STORED\r\nOK\r\nSTORED\r\n");
    now.store(NOW + 9, Relaxed);
    assert_eq!(talk(&kv, b"get a\r\nget b\r\n").matches("VALUE").count(), 2);
    now.store(NOW + 11, Relaxed);
    // Stored after the time of the flush, although nobody looked since.
    assert_eq!(talk(&kv, b"set b 0 0 1\r\nc\r\nget a b\r\n"), "STORED\r\nVALUE b 0 1\r\nc\r\nEND\r\n");
}

#[cfg_attr(miri, ignore = "an interpreter takes minutes")]
#[test]
fn eviction_keeps_within_the_limit_and_keeps_what_is_used() {
    const LIMIT_BYTES: u64 = 4 << 20;
    const ITEM_BYTES: u32 = 64 << 10;
    const ITEMS: u64 = 20_000;
    let (kv, _) = kv(KvConfig { memory_max_bytes: LIMIT_BYTES, item_max_bytes: ITEM_BYTES, pid: 0 });
    assert_eq!(talk(&kv, b"set used 0 0 1\r\nx\r\n"), "STORED\r\n");
    for number in 0..ITEMS {
        let input = format!("set key-{number} 0 0 1000\r\n{}\r\nget used\r\n", "v".repeat(1000));
        assert!(talk(&kv, input.as_bytes()).ends_with("VALUE used 0 1\r\nx\r\nEND\r\n"), "after {number}");
        assert!(kv.store.size().1 <= LIMIT_BYTES);
    }
    let (items, bytes) = kv.store.size();
    assert!(bytes > LIMIT_BYTES / 2, "only {bytes} bytes are used");
    assert_eq!(kv.store.evictions(), ITEMS + 1 - items as u64);

    // Items that grow where they are: the last to have grown may be too much, by what one item may have.
    for number in 0..ITEMS {
        talk(&kv, format!("append key-{number} 0 0 1000\r\n{}\r\n", "v".repeat(1000)).as_bytes());
        talk(&kv, format!("prepend used 0 0 3\r\n{number:3}\r\n").as_bytes());
        assert!(kv.store.size().1 <= LIMIT_BYTES + 2 * u64::from(ITEM_BYTES));
    }
}

#[cfg_attr(miri, ignore = "an interpreter takes minutes")]
#[test]
fn the_largest_item_that_is_accepted_is_kept() {
    let (kv, _) = kv(KvConfig { memory_max_bytes: 4 << 20, item_max_bytes: 1 << 20, pid: 0 });
    let largest = (1 << 20) - ITEM_OVERHEAD_BYTES - 1;
    for (bytes, answer) in [(largest, "STORED\r\n"), (largest + 1, "SERVER_ERROR object too large for cache\r\n")] {
        let input = [format!("set a 0 0 {bytes}\r\n").as_bytes(), &vec![b'v'; bytes], b"\r\n"].concat();
        assert_eq!(talk(&kv, &input), answer);
        assert_eq!(talk(&kv, b"get a\r\n") != "END\r\n", bytes == largest);
    }
}

#[test]
fn changes_of_one_key_by_many_threads_are_all_there() {
    const THREADS: usize = 4;
    const TIMES: usize = if cfg!(miri) { 10 } else { 500 };
    let (kv, _) = kv(KvConfig::default());
    assert_eq!(
        talk(&kv, b"set sum 0 0 1\r\n0\r\nset text 0 0 0\r\n\r\nset cas 0 0 1\r\n0\r\n"),
        "STORED\r\n".repeat(3)
    );
    let added: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut added = 0;
                    for time in 0..TIMES {
                        talk(&kv, b"incr sum 3\r\nappend text 0 0 2\r\nab\r\n");
                        added += usize::from(
                            talk(&kv, format!("add once-{time} 0 0 1\r\nx\r\n").as_bytes()) == "STORED\r\n",
                        );
                        increment_by_cas(&kv);
                    }
                    added
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(talk(&kv, b"incr sum 0\r\n"), format!("{}\r\n", 3 * THREADS * TIMES));
    let text = talk(&kv, b"get text\r\n");
    assert_eq!(text.lines().nth(1), Some("ab".repeat(THREADS * TIMES).as_str()));
    assert_eq!(talk(&kv, b"incr cas 0\r\n"), format!("{}\r\n", THREADS * TIMES));
    assert_eq!(added, TIMES, "each key is added once");
    let stats = talk(&kv, b"stats\r\n");
    for count in
        [format!("STAT incr_hits {}\r\n", THREADS * TIMES + 2), format!("STAT cas_hits {}\r\n", THREADS * TIMES)]
    {
        assert!(stats.contains(&count), "{count} {stats}");
    }
}

fn increment_by_cas(kv: &Kv) {
    loop {
        let found = talk(kv, b"gets cas\r\n");
        let mut words = found.split_whitespace().skip(4);
        let (number, value) = (words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap() + 1);
        let input = format!("cas cas 0 0 {} {number}\r\n{value}\r\n", value.to_string().len());
        match talk(kv, input.as_bytes()).as_str() {
            "STORED\r\n" => return,
            answer => assert_eq!(answer, "EXISTS\r\n"),
        }
    }
}

#[test]
fn stats_count_and_can_be_reset() {
    let (kv, now) = kv(KvConfig { pid: 42, ..KvConfig::default() });
    talk(
        &kv,
        b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\nincr b 1\r\ndelete b\r\ntouch a 0\r\ncas a 0 0 1 99\r\nx\r\n",
    );
    now.store(NOW + 5, Relaxed);
    let stats = talk(&kv, b"stats\r\n");
    for line in [
        "pid 42",
        "uptime 5",
        "time 1800000005",
        "cmd_get 2",
        "get_hits 1",
        "get_misses 1",
        "cmd_set 2",
        "incr_hits 1",
        "incr_misses 1",
        "delete_misses 1",
        "touch_hits 1",
        "cas_badval 1",
        "curr_items 1",
        "total_items 1",
        "evictions 0",
        "limit_maxbytes 67108864",
    ] {
        assert!(stats.contains(&format!("STAT {line}\r\n")), "{line}: {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    assert_eq!(talk(&kv, b"stats reset\r\n"), "RESET\r\n");
    assert!(talk(&kv, b"stats\r\n").contains("STAT cmd_get 0\r\n"));
}
