//! Responses of the service, its memory, and its behaviour over time, with a clock that tests set.

mod recorded;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use proptest::prelude::*;

use super::protocol::{KEYS_BYTES_MAX, LINE_BYTES_MAX, OUTPUT_BYTES_MAX};
use super::store::ITEM_OVERHEAD_BYTES;
use super::*;
use crate::Service;
use crate::buffers::KEPT_BYTES_MAX;
use recorded::RECORDED;

const NOW: u32 = 1_800_000_000;

fn kv(config: KvConfig) -> (Kv, Arc<AtomicU32>) {
    let now = Arc::new(AtomicU32::new(NOW));
    let clock = Arc::clone(&now);
    (Kv::new(config, Box::new(move || clock.load(Relaxed))), now)
}

/// Sends all output, at most `at_most` bytes at a time, and returns it.
fn drain(kv: &Kv, conn: &mut KvConn, at_most: usize) -> Vec<u8> {
    drain_and_count(kv, conn, at_most, &mut 0)
}

/// Sends and returns all output like [`drain`], and adds the completed requests to `requests`.
fn drain_and_count(kv: &Kv, conn: &mut KvConn, at_most: usize, requests: &mut u64) -> Vec<u8> {
    let mut output = Vec::new();
    while !kv.unsent(conn).is_empty() {
        let count = kv.unsent(conn).len().min(at_most);
        output.extend_from_slice(&kv.unsent(conn)[..count]);
        *requests += kv.sent(conn, count);
    }
    output
}

/// Returns the responses to input on a new connection.
fn respond(kv: &Kv, input: &[u8]) -> String {
    let mut conn = KvConn::default();
    kv.receive(&mut conn, input);
    String::from_utf8_lossy(&drain(kv, &mut conn, usize::MAX)).into_owned()
}

/// Returns the size of a connection's buffers.
fn held_bytes(conn: &KvConn) -> usize {
    conn.input.pending().len() + conn.output.unsent().len()
}

#[test]
fn responses_match_recorded_ones_of_memcached() {
    for (input, output) in RECORDED {
        let (kv, _) = kv(KvConfig::default());
        assert_eq!(respond(&kv, input.as_bytes()), *output, "{input}");
    }
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let recorded = (0..RECORDED.len()).prop_map(|at| RECORDED[at].0.as_bytes().to_vec());
    let long_keys = (1usize..40).prop_map(|count| [&b"get a"[..], &b" bcdefghi".repeat(count * 10), b"\r\n"].concat());
    let big = (0usize..200_000)
        .prop_map(|bytes| [format!("set a 0 0 {bytes}\r\n").as_bytes(), &vec![b'\n'; bytes], b"\r\n"].concat());
    let many = (1usize..8).prop_map(|count| [&b"gets"[..], &b" a".repeat(count), b"\r\n"].concat());
    let garbage = prop::collection::vec(any::<u8>(), 0..100);
    let flag = prop::sample::select(vec![
        "b", "c", "C2", "C3", "D2", "E9", "f", "F1", "h", "I", "J1", "k", "l", "MA", "MP", "ME", "MD", "N0", "N60",
        "O1", "q", "R90", "s", "t", "T0", "T-1", "u", "v", "x", "T?",
    ]);
    let flags = prop::collection::vec(flag, 0..7).prop_map(|flags| flags.join(" "));
    let key = prop::sample::select(vec!["a", "b", "YQ=="]);
    let verb = prop::sample::select(vec!["mg", "ms", "md", "ma", "me"]);
    let meta = (verb, key, flags, 0usize..100).prop_map(|(verb, key, flags, bytes)| match verb {
        "ms" => format!("ms {key} {bytes} {flags}\r\n{}\r\n", "1".repeat(bytes)).into_bytes(),
        _ => format!("{verb} {key} {flags}\r\n").into_bytes(),
    });
    let metas = prop::collection::vec(meta, 1..20).prop_map(|lines| lines.concat());
    prop_oneof![8 => recorded, 8 => metas, 1 => long_keys, 2 => big, 2 => many, 1 => garbage]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_of_a_stream_gives_the_same_responses(
        pieces in prop::collection::vec(requests(), 1..6),
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
        let (mut output, mut split_requests, mut rest) = (Vec::new(), 0, &stream[..]);
        for (length, is_sent) in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*length));
            split_requests += split.receive(&mut split_conn, piece);
            if *is_sent {
                output.extend(drain_and_count(&split, &mut split_conn, 777, &mut split_requests));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        output.extend(drain_and_count(&split, &mut split_conn, 777, &mut split_requests));
        prop_assert_eq!(output, expected);
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
fn line_without_an_end_ends_the_connection() {
    // Under Miri a mebibyte in small pieces takes too long.
    let piece = b"k ".repeat(if cfg!(miri) { 10_000 } else { 50 });
    for (line, most) in [(&b"set "[..], LINE_BYTES_MAX), (b"get ", KEYS_BYTES_MAX)] {
        let (kv, _) = kv(KvConfig::default());
        let mut conn = KvConn::default();
        kv.receive(&mut conn, line);
        let mut sent_bytes = line.len();
        while !kv.is_over(&conn) {
            assert!(sent_bytes <= most, "the connection accepts {sent_bytes} bytes of a line");
            kv.receive(&mut conn, &piece);
            sent_bytes += piece.len();
        }
        assert!(sent_bytes > most && held_bytes(&conn) == 0);
    }
}

#[test]
fn quit_sends_earlier_responses_and_ignores_later_input() {
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    assert_eq!(kv.receive(&mut conn, b"get a\r\nquit\r\nget a\r\n"), 2);
    assert!(kv.is_over(&conn));
    assert_eq!(kv.receive(&mut conn, b"get a\r\n"), 0);
    assert_eq!(drain(&kv, &mut conn, 2), b"END\r\n");
}

#[test]
fn short_request_for_large_output_waits_until_it_is_sent() {
    // A hundred megabytes of output, or one under Miri.
    const VALUE_BYTES: usize = if cfg!(miri) { 1_000 } else { 100_000 };
    let (kv, _) = kv(KvConfig::default());
    let value = vec![b'v'; VALUE_BYTES];
    let mut conn = KvConn::default();
    kv.receive(&mut conn, &[format!("set a 0 0 {VALUE_BYTES}\r\n").as_bytes(), &value, b"\r\n"].concat());
    drain(&kv, &mut conn, usize::MAX);

    let many = [&b"get"[..], &b" a".repeat(1000), b"\r\nget a\r\nversion\r\n"].concat();
    let mut requests = kv.receive(&mut conn, &many);
    let mut output_bytes = 0;
    while !kv.unsent(&conn).is_empty() {
        assert!(held_bytes(&conn) < OUTPUT_BYTES_MAX + value.len() + many.len() + 100);
        let count = kv.unsent(&conn).len();
        output_bytes += count;
        requests += kv.sent(&mut conn, count);
    }
    let hit_bytes = format!("VALUE a 0 {VALUE_BYTES}\r\n\r\n").len() + value.len();
    assert_eq!(output_bytes, 1001 * hit_bytes + 2 * "END\r\n".len() + "VERSION 1.6.18-muxbench\r\n".len());
    assert_eq!(requests, 3);
}

#[test]
fn unsent_bytes_do_not_move() {
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
    let output = drain(&kv, &mut conn, usize::MAX);
    assert_eq!(output, [&b"RED\r\n"[..], &b"VALUE a 0 5\r\nhello\r\nEND\r\n".repeat(1001)].concat());
}

#[test]
fn idle_connection_is_small() {
    assert!(size_of::<KvConn>() <= 168, "{}", size_of::<KvConn>());
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    kv.receive(&mut conn, b"set a 0 0 100000\r\n");
    kv.receive(&mut conn, &[&[b'v'; 100_000][..], b"\r\nget a\r\n"].concat());
    drain(&kv, &mut conn, usize::MAX);
    let capacity_bytes = conn.input.capacity() + conn.output.space().capacity();
    assert!(capacity_bytes <= 2 * KEPT_BYTES_MAX, "{capacity_bytes}");
}

#[test]
fn too_large_value_is_discarded_on_arrival() {
    let (kv, _) = kv(KvConfig::default());
    let mut conn = KvConn::default();
    kv.receive(&mut conn, b"set a 0 0 3\r\nold\r\nset a 0 0 5000000\r\n");
    for _ in 0..50 {
        assert!(kv.receive(&mut conn, &[b'\n'; 100_000]) == 0 && conn.input.pending().is_empty());
    }
    kv.receive(&mut conn, b"\r\nget a\r\n");
    // The older value is deleted too, because the client expects it to be replaced.
    let output = drain(&kv, &mut conn, usize::MAX);
    assert_eq!(output, b"STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n");
    // An item that would grow too large stays unchanged.
    let half = [&b"set a 0 0 600000\r\n"[..], &[b'x'; 600_000], b"\r\n"].concat();
    assert_eq!(respond(&kv, &half), "STORED\r\n");
    assert_eq!(respond(&kv, &[&b"append a"[..], &half[5..]].concat()), "NOT_STORED\r\n");
}

#[test]
fn items_expire_at_their_time() {
    let (kv, now) = kv(KvConfig::default());
    let absolute = NOW + 20;
    let input = format!("set a 0 10 1\r\na\r\nset b 0 {absolute} 1\r\nb\r\nset c 0 0 1\r\nc\r\nset d 0 10 1\r\nd\r\n");
    assert_eq!(respond(&kv, input.as_bytes()), "STORED\r\n".repeat(4));
    let hits = || {
        "abcd".chars().filter(|key| respond(&kv, format!("get {key}\r\n").as_bytes()) != "END\r\n").collect::<String>()
    };
    now.store(NOW + 9, Relaxed);
    assert_eq!(hits(), "abcd");
    assert_eq!(respond(&kv, b"touch d 100\r\n"), "TOUCHED\r\n");
    now.store(NOW + 10, Relaxed);
    assert_eq!(hits(), "bcd");
    now.store(absolute, Relaxed);
    assert_eq!(
        respond(&kv, b"append b 0 0 1\r\nx\r\nadd b 0 1 3\r\nnew\r\nget b\r\n"),
        "NOT_STORED\r\nSTORED\r\nVALUE b 0 3\r\nnew\r\nEND\r\n"
    );
    now.store(NOW + 200, Relaxed);
    assert_eq!(hits(), "c");
    // Expired items that a command found are dropped.
    assert_eq!(kv.store.size().0, 1);
}

#[test]
fn meta_commands_show_times_in_seconds() {
    let (kv, now) = kv(KvConfig::default());
    assert_eq!(respond(&kv, b"ms a 1 T10\r\nx\r\nms b 1\r\nx\r\nmg n N20 t\r\n"), "HD\r\nHD\r\nHD t20 W\r\n");
    now.store(NOW + 4, Relaxed);
    assert_eq!(
        respond(&kv, b"mg a t l u\r\nmg b t l u\r\nmg a R6\r\nmg a R7 u\r\n"),
        "HD t6 l4\r\nHD t-1 l4\r\nHD\r\nHD W\r\n"
    );
    // A plain get counts as an access once a client has asked for an access time.
    assert_eq!(respond(&kv, b"get b\r\n"), "VALUE b 0 1\r\nx\r\nEND\r\n");
    now.store(NOW + 7, Relaxed);
    assert_eq!(respond(&kv, b"mg b l u\r\nmg b l\r\nmg b l\r\nma c N5 t\r\n"), "HD l3\r\nHD l3\r\nHD l0\r\nHD t5\r\n");
    assert_eq!(respond(&kv, b"md b I T3\r\nmg b t\r\nma c T9 t\r\n"), "HD\r\nHD t3 X W\r\nHD t9\r\n");
    assert_eq!(respond(&kv, b"ms long 1\r\n9\r\nma long T50\r\nmg long t v\r\n"), "HD\r\nHD\r\nVA 2 t50\r\n10\r\n");
    let debug = respond(&kv, b"me n\r\nme b\r\n");
    assert!(debug.starts_with("ME n exp=13 la=7 cas=3 fetch=yes cls=1 size="), "{debug}");
    now.store(NOW + 10, Relaxed);
    assert_eq!(respond(&kv, b"mg a\r\nmg b\r\nmg n t\r\nma c t v\r\n"), "EN\r\nEN\r\nHD t10 Z\r\nVA 1 t6\r\n2\r\n");
    now.store(NOW + 20, Relaxed);
    assert_eq!(
        respond(&kv, b"mg n\r\nmg n N5\r\nms c 1 MA N5\r\n4\r\nmg c t v\r\n"),
        "EN\r\nHD W\r\nHD\r\nVA 1 t5\r\n4\r\n"
    );
}

/// The replies are those of memcached 1.6.45, except for the CAS values that no client chose.
#[test]
fn flags_of_later_versions_are_understood() {
    for (input, output) in [
        ("ms a 3 E1000 c\r\nabc\r\nmg a c v\r\n", "HD c1000\r\nVA 3 c1000\r\nabc\r\n"),
        ("mg b N0 E5 c\r\nma n N0 E50 c v\r\nma n E60 c v\r\n", "HD c5 W\r\nVA 1 c50\r\n0\r\nVA 1 c60\r\n1\r\n"),
        (
            "ms a 1 E7\r\nx\r\nmd a I E99 k\r\nmg a c\r\nmd a E5 C98\r\nmd a C99 E5\r\nmg a\r\n",
            "HD\r\nHD ka\r\nHD c99 X W\r\nEX\r\nHD\r\nEN\r\n",
        ),
        ("mg a E\r\nmd b x\r\nmd b x q\r\n", "CLIENT_ERROR bad token in command line format\r\nNF\r\nNF\r\n"),
        ("ms a 3 F7 T100 E2\r\nabc\r\nmd a x\r\nmg a v c f t\r\n", "HD\r\nHD\r\nVA 0 c2 f0 t-1\r\n\r\n"),
        (
            "ms a 1\r\nx\r\nmd a x I T50 E9\r\nmg a v c f t\r\nmd a x C8\r\nmd a x C9 E12\r\nmg a v c\r\n",
            "HD\r\nHD\r\nVA 0 c9 f0 t50 X W\r\n\r\nEX\r\nHD\r\nVA 0 c12\r\n\r\n",
        ),
        ("ms a 3 s\r\nabc\r\nms a 2 MA s\r\nde\r\nms a 1 MP s\r\nz\r\n", "HD s3\r\nHD s5\r\nHD s6\r\n"),
        (
            "ms b 1 MA s\r\nx\r\nms b 1 MA N100 s\r\nx\r\nms b 1 MP N0 T5 s\r\ny\r\nmg b v t\r\n",
            "NS s1\r\nHD s1\r\nHD s2\r\nVA 2 t100\r\nyx\r\n",
        ),
        ("ms c 2 MP N0 q\r\nab\r\nmg c v t\r\n", "VA 2 t-1\r\nab\r\n"),
        (
            "ms a 2 E4\r\nab\r\nms a 9 C1 s c\r\n123456789\r\nmg a v C4 c\r\nmg a v C3\r\nmg a C3 k\r\n",
            "HD\r\nEX s9 c0\r\nHD c4\r\nVA 2\r\nab\r\nHD ka\r\n",
        ),
        // A CAS value from a client does not affect flushes.
        (
            "flush_all\r\nms a 1 E1\r\nx\r\nmg a v c\r\nflush_all\r\nmg a\r\n",
            "OK\r\nHD\r\nVA 1 c1\r\nx\r\nOK\r\nEN\r\n",
        ),
    ] {
        let (kv, _) = kv(KvConfig::default());
        assert_eq!(respond(&kv, input.as_bytes()), output, "{input}");
    }
}

#[test]
fn plain_get_reads_no_clock_until_an_access_time_is_read() {
    let reads = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&reads);
    let kv = Kv::new(
        KvConfig::default(),
        Box::new(move || {
            count.fetch_add(1, Relaxed);
            NOW
        }),
    );
    let reads_of = |input: &[u8]| {
        let before = reads.load(Relaxed);
        respond(&kv, input);
        reads.load(Relaxed) - before
    };
    assert_eq!(reads_of(b"set a 0 0 1\r\nx\r\n"), 1);
    assert_eq!(reads_of(b"get a\r\nget a b\r\ngets a\r\nmg a v h k c f s q\r\n"), 0);
    assert!(reads_of(b"mg a l\r\n") > 0);
    assert_eq!(reads_of(b"get a\r\nget a\r\n"), 2);
}

#[test]
fn every_flush_removes_all_items() {
    let (kv, _) = kv(KvConfig::default());
    // One more than the counter of an item can hold.
    for flushes in 1..=(1 << 16) + 1 {
        assert_eq!(respond(&kv, b"set a 0 0 1\r\nx\r\n"), "STORED\r\n");
        kv.store.flush_all(0);
        if flushes > 1 << 15 {
            assert_eq!(respond(&kv, b"get a\r\n"), "END\r\n", "after {flushes}");
        }
    }
    assert_eq!(respond(&kv, b"set old 0 0 1\r\nx\r\n"), "STORED\r\n");
    (0..1 << 16).for_each(|_| kv.store.flush_all(0));
    assert_eq!(respond(&kv, b"get old\r\n"), "END\r\n");
}

#[test]
fn memory_limit_can_be_changed() {
    let (kv, _) = kv(KvConfig { memory_max_bytes: 64 << 20, item_max_bytes: 64 << 10, pid: 0 });
    for number in 0..300 {
        respond(&kv, format!("set key-{number} 0 0 50000\r\n{}\r\n", "v".repeat(50_000)).as_bytes());
    }
    assert_eq!(kv.store.evictions(), 0);
    assert_eq!(respond(&kv, b"cache_memlimit 8\r\n"), "OK\r\n");
    assert!(kv.store.size().1 <= 8 << 20 && kv.store.evictions() > 0);
    assert!(respond(&kv, b"stats\r\n").contains("STAT limit_maxbytes 8388608\r\n"));
    // A limit is refused if the largest items would not fit.
    let (kv, _) = self::kv(KvConfig::default());
    assert_eq!(respond(&kv, b"cache_memlimit 50\r\n"), "OK\r\n");
    assert_eq!(respond(&kv, b"cache_memlimit 8\r\n"), "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n");
    let largest = [&b"set a 0 0 1040000\r\n"[..], &[b'x'; 1_040_000], b"\r\nmg a s\r\n"].concat();
    assert_eq!(respond(&kv, &largest), "STORED\r\nHD s1040000\r\n");
}

#[test]
fn stats_sections_describe_the_stored_items() {
    let (kv, _) = kv(KvConfig::default());
    respond(&kv, b"set b 0 100 2\r\nxx\r\nset a 0 0 1\r\nx\r\nms YyBj 1 b\r\nx\r\nset gone 0 -1 1\r\nx\r\nget a\r\n");
    let dump = format!("ITEM a [1 b; 0 s]\r\nITEM b [2 b; {} s]\r\nEND\r\n", NOW + 100);
    assert_eq!(respond(&kv, b"stats cachedump 1 0\r\n"), dump, "binary keys are not listed");
    assert_eq!(respond(&kv, b"stats cachedump 1 1\r\n"), "ITEM a [1 b; 0 s]\r\nEND\r\n");
    assert!(respond(&kv, b"stats items\r\n").starts_with("STAT items:1:number 4\r\n"));
    let slabs = respond(&kv, b"stats slabs\r\n");
    assert!(slabs.contains("STAT 1:cmd_set 4\r\n") && slabs.contains("STAT active_slabs 1\r\n"), "{slabs}");
    let settings = respond(&kv, b"stats settings\r\n");
    assert!(settings.starts_with("STAT maxbytes 67108864\r\nSTAT item_size_max 1048576\r\n"), "{settings}");
    assert_eq!(respond(&kv, b"stats detail on\r\n"), "SERVER_ERROR detail not supported\r\n");
    for input in ["stats conns", "stats detail dump", "stats cachedump 2 0"] {
        assert_eq!(respond(&kv, format!("{input}\r\n").as_bytes()), "END\r\n", "{input}");
    }
}

#[test]
fn too_large_meta_value_is_discarded() {
    let (kv, _) = kv(KvConfig::default());
    let value = [b'\n'; 1 << 20];
    // The older value is deleted in every mode.
    for mode in ["", " MA", " ME q"] {
        let input = [format!("ms a 1\r\nx\r\nms a 1048576{mode}\r\n").as_bytes(), &value, b"\r\nmg a\r\n"].concat();
        assert_eq!(respond(&kv, &input), "HD\r\nSERVER_ERROR object too large for cache\r\nEN\r\n", "{mode}");
    }
}

#[test]
fn delayed_flush_removes_items_at_its_time() {
    let (kv, now) = kv(KvConfig::default());
    assert_eq!(respond(&kv, b"set a 0 0 1\r\na\r\nflush_all 10\r\nset b 0 0 1\r\nb\r\n"), "STORED\r\nOK\r\nSTORED\r\n");
    now.store(NOW + 9, Relaxed);
    assert_eq!(respond(&kv, b"get a\r\nget b\r\n").matches("VALUE").count(), 2);
    now.store(NOW + 11, Relaxed);
    // `set` is the first command after the time of the flush.
    assert_eq!(respond(&kv, b"set b 0 0 1\r\nc\r\nget a b\r\n"), "STORED\r\nVALUE b 0 1\r\nc\r\nEND\r\n");
}

#[cfg_attr(miri, ignore = "an interpreter takes minutes")]
#[test]
fn eviction_keeps_the_limit_and_used_items() {
    const LIMIT_BYTES: u64 = 4 << 20;
    const ITEM_BYTES: u32 = 64 << 10;
    const ITEMS: u64 = 20_000;
    let (kv, _) = kv(KvConfig { memory_max_bytes: LIMIT_BYTES, item_max_bytes: ITEM_BYTES, pid: 0 });
    assert_eq!(respond(&kv, b"set used 0 0 1\r\nx\r\n"), "STORED\r\n");
    for number in 0..ITEMS {
        let input = format!("set key-{number} 0 0 1000\r\n{}\r\nget used\r\n", "v".repeat(1000));
        assert!(respond(&kv, input.as_bytes()).ends_with("VALUE used 0 1\r\nx\r\nEND\r\n"), "after {number}");
        assert!(kv.store.size().1 <= LIMIT_BYTES);
    }
    let (items, bytes) = kv.store.size();
    assert!(bytes > LIMIT_BYTES / 2, "only {bytes} bytes are used");
    assert_eq!(kv.store.evictions(), ITEMS + 1 - items as u64);

    // Items that grow in place may exceed the limit by twice the size of the largest item.
    for number in 0..ITEMS {
        respond(&kv, format!("append key-{number} 0 0 1000\r\n{}\r\n", "v".repeat(1000)).as_bytes());
        respond(&kv, format!("prepend used 0 0 3\r\n{number:3}\r\n").as_bytes());
        assert!(kv.store.size().1 <= LIMIT_BYTES + 2 * u64::from(ITEM_BYTES));
    }
}

#[cfg_attr(miri, ignore = "an interpreter takes minutes")]
#[test]
fn largest_accepted_item_is_kept() {
    let (kv, _) = kv(KvConfig { memory_max_bytes: 4 << 20, item_max_bytes: 1 << 20, pid: 0 });
    let largest = (1 << 20) - ITEM_OVERHEAD_BYTES - 1;
    for (bytes, answer) in [(largest, "STORED\r\n"), (largest + 1, "SERVER_ERROR object too large for cache\r\n")] {
        let input = [format!("set a 0 0 {bytes}\r\n").as_bytes(), &vec![b'v'; bytes], b"\r\n"].concat();
        assert_eq!(respond(&kv, &input), answer);
        assert_eq!(respond(&kv, b"get a\r\n") != "END\r\n", bytes == largest);
    }
}

#[test]
fn concurrent_changes_of_one_key_are_all_applied() {
    const THREADS: usize = 4;
    const TIMES: usize = if cfg!(miri) { 10 } else { 500 };
    let (kv, _) = kv(KvConfig::default());
    assert_eq!(
        respond(&kv, b"set sum 0 0 1\r\n0\r\nset text 0 0 0\r\n\r\nset cas 0 0 1\r\n0\r\n"),
        "STORED\r\n".repeat(3)
    );
    let added: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut added = 0;
                    for time in 0..TIMES {
                        respond(&kv, b"incr sum 3\r\nappend text 0 0 2\r\nab\r\n");
                        added += usize::from(
                            respond(&kv, format!("add once-{time} 0 0 1\r\nx\r\n").as_bytes()) == "STORED\r\n",
                        );
                        increment_by_cas(&kv);
                    }
                    added
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(respond(&kv, b"incr sum 0\r\n"), format!("{}\r\n", 3 * THREADS * TIMES));
    let text = respond(&kv, b"get text\r\n");
    assert_eq!(text.lines().nth(1), Some("ab".repeat(THREADS * TIMES).as_str()));
    assert_eq!(respond(&kv, b"incr cas 0\r\n"), format!("{}\r\n", THREADS * TIMES));
    assert_eq!(added, TIMES, "each key is added once");
    let stats = respond(&kv, b"stats\r\n");
    for count in
        [format!("STAT incr_hits {}\r\n", THREADS * TIMES + 2), format!("STAT cas_hits {}\r\n", THREADS * TIMES)]
    {
        assert!(stats.contains(&count), "{count} is not in {stats}");
    }
}

fn increment_by_cas(kv: &Kv) {
    loop {
        let found = respond(kv, b"gets cas\r\n");
        let mut words = found.split_whitespace().skip(4);
        let (number, value) = (words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap() + 1);
        let input = format!("cas cas 0 0 {} {number}\r\n{value}\r\n", value.to_string().len());
        match respond(kv, input.as_bytes()).as_str() {
            "STORED\r\n" => return,
            answer => assert_eq!(answer, "EXISTS\r\n"),
        }
    }
}

#[test]
fn stats_count_commands_and_can_be_reset() {
    let (kv, now) = kv(KvConfig { pid: 42, ..KvConfig::default() });
    respond(
        &kv,
        b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\nincr b 1\r\ndelete b\r\ntouch a 0\r\ncas a 0 0 1 99\r\nx\r\n",
    );
    now.store(NOW + 5, Relaxed);
    let stats = respond(&kv, b"stats\r\n");
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
    assert_eq!(respond(&kv, b"stats reset\r\n"), "RESET\r\n");
    assert!(respond(&kv, b"stats\r\n").contains("STAT cmd_get 0\r\n"));
}

#[test]
fn missed_get_and_touch_counts_as_a_touch() {
    let (kv, _) = kv(KvConfig::default());
    assert_eq!(respond(&kv, b"mg absent T30 v\r\nmg absent v\r\n"), "EN\r\nEN\r\n");
    let stats = respond(&kv, b"stats\r\n");
    for line in ["cmd_touch 1", "touch_misses 1", "cmd_get 1", "get_misses 1"] {
        assert!(stats.contains(&format!("STAT {line}\r\n")), "{line}: {stats}");
    }
}
