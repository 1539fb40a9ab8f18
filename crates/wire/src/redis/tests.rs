//! Responses of the service, its limits, and its behaviour over pieces of input.

use proptest::prelude::*;

use super::connection::OUTPUT_BYTES_MAX;
use super::frame::{LINE_BYTES_MAX, integer};
use super::*;
use crate::Service;
use crate::kv::KvConfig;

/// Requests one after the other on one connection each, and the replies of Redis 7.0.15.
const RECORDED: &[(&str, &str)] = &[
    ("PING\r\nPING a\nPING a b\r\n", "+PONG\r\n$1\r\na\r\n-ERR wrong number of arguments for 'ping' command\r\n"),
    ("\r\n  ping   x  \r\n\n*0\r\n*-1\r\nPING\r\n", "$1\r\nx\r\n+PONG\r\n"),
    ("*1\r\n$4\r\nPINGxxPING\r\n", "+PONG\r\n+PONG\r\n"),
    ("*1\rx$4\rxPINGxx", "+PONG\r\n"),
    ("ECHO a\r\nEcho\r\n", "$1\r\na\r\n-ERR wrong number of arguments for 'echo' command\r\n"),
    ("GET a\r\nSET a 1\r\nGET a\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "$-1\r\n+OK\r\n$1\r\n1\r\n$-1\r\n"),
    ("SET a\r\nSET a 1 foo\r\n", "-ERR wrong number of arguments for 'set' command\r\n-ERR syntax error\r\n"),
    ("INCR a\r\nINCR a\r\nGET a\r\nSET a -1\r\nINCR a\r\n", ":1\r\n:2\r\n$1\r\n2\r\n+OK\r\n:0\r\n"),
    ("SET a x\r\nINCR a\r\n", "+OK\r\n-ERR value is not an integer or out of range\r\n"),
    ("SET a 9223372036854775807\r\nINCR a\r\n", "+OK\r\n-ERR increment or decrement would overflow\r\n"),
    ("SET a 1\r\nMGET a b a\r\n", "+OK\r\n*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n"),
    (
        "MSET a 1 b 2\r\nMSET a 3 b\r\nGET a\r\n",
        "+OK\r\n-ERR wrong number of arguments for 'mset' command\r\n$1\r\n1\r\n",
    ),
    ("MSET a 1 b 2\r\nEXISTS a b c a\r\nDEL a b b\r\nEXISTS a\r\n", "+OK\r\n:3\r\n:2\r\n:0\r\n"),
    (
        "CONFIG GET save\r\nCONFIG GET appendonly\r\nCONFIG GET zzz\r\n",
        "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n*0\r\n",
    ),
    ("CONFIG GET save appendonly\r\n", "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n\r\n"),
    (
        "CONFIG\r\nCONFIG GET\r\nCONFIG FOO\r\n",
        "-ERR wrong number of arguments for 'config' command\r\n\
        -ERR wrong number of arguments for 'config|get' command\r\n-ERR unknown subcommand 'FOO'. Try CONFIG HELP.\r\n",
    ),
    (
        "FOO a b\r\nfoo\r\n",
        "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' \r\n\
        -ERR unknown command 'foo', with args beginning with: \r\n",
    ),
    ("*2\r\n$5\r\nfo\r\no\r\n$3\r\na\nb\r\n", "-ERR unknown command 'fo  o', with args beginning with: 'a b' \r\n"),
    ("*2\r\n$3\r\nFOO\r\n$3\r\na\0b\r\n", "-ERR unknown command 'FOO', with args beginning with: 'a' \r\n"),
    ("QUIT a\r\nPING\r\n", "+OK\r\n"),
    ("PING\r\nGET / HTTP/1.1\r\nHost: x\r\nPING\r\n", "+PONG\r\n-ERR wrong number of arguments for 'get' command\r\n"),
    ("POST / HTTP/1.1\r\nPING\r\n", ""),
    ("*x\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ("*1\n$4\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ("*01\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ("*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
    ("*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\n"),
    ("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
    ("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
    ("*1\r\n$600000000\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
];

fn redis(config: &KvConfig) -> Redis {
    Redis::new(config, Box::new(|| 1_800_000_000))
}

/// Sends all output, at most `at_most` bytes at a time. Returns it, and adds the completed requests to `requests`.
fn drain(redis: &Redis, conn: &mut RedisConn, at_most: usize, requests: &mut u64) -> Vec<u8> {
    let mut output = Vec::new();
    while !redis.unsent(conn).is_empty() {
        assert!(redis.unsent(conn).len() <= OUTPUT_BYTES_MAX + (2 << 20), "a batch has an end");
        let count = redis.unsent(conn).len().min(at_most);
        output.extend_from_slice(&redis.unsent(conn)[..count]);
        *requests += redis.sent(conn, count);
    }
    output
}

/// Returns the responses to input on a new connection.
fn respond(redis: &Redis, input: &[u8]) -> String {
    let mut conn = RedisConn::default();
    redis.receive(&mut conn, input);
    String::from_utf8_lossy(&drain(redis, &mut conn, usize::MAX, &mut 0)).into_owned()
}

fn array(arguments: &[&[u8]]) -> Vec<u8> {
    let strings = arguments.iter().map(|it| [format!("${}\r\n", it.len()).as_bytes(), it, b"\r\n"].concat());
    [format!("*{}\r\n", arguments.len()).into_bytes(), strings.collect::<Vec<_>>().concat()].concat()
}

#[test]
fn responses_match_recorded_ones_of_redis() {
    for (input, output) in RECORDED {
        assert_eq!(respond(&redis(&KvConfig::default()), input.as_bytes()), *output, "{input}");
    }
}

#[test]
fn long_names_and_arguments_are_repeated_in_part() {
    let answer = |arguments: &[&[u8]]| respond(&redis(&KvConfig::default()), &array(arguments));
    let (x, y) = ([b'x'; 300], [b'y'; 60]);
    let cut = "x".repeat(128);
    let whole = "y".repeat(60);
    assert_eq!(answer(&[&x, &x]), format!("-ERR unknown command '{cut}', with args beginning with: '{cut}' \r\n"));
    // The limit of 128 counts quotes and spaces too.
    let expected = format!("-ERR unknown command 'FOO', with args beginning with: '{whole}' '{whole}' 'yy' \r\n");
    assert_eq!(answer(&[b"FOO", &y, &y, &y, &y]), expected);
}

#[test]
fn integers_are_those_of_redis() {
    for (text, number) in
        [("0", 0), ("7", 7), ("-5", -5), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
    {
        assert_eq!(integer(text.as_bytes()), Some(number));
    }
    for text in ["", "-", "+5", "05", "-0", "00", "5 ", " 5", "1x", "9223372036854775808", "-9223372036854775809"] {
        assert_eq!(integer(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn info_has_version_and_number_of_keys() {
    let redis = redis(&KvConfig { pid: 7, ..KvConfig::default() });
    let info = respond(&redis, b"MSET a 1 b 2\r\nINFO\r\n");
    for line in
        ["redis_version:7.0.15-muxbench", "process_id:7", "maxmemory:67108864", "db0:keys=2,expires=0,avg_ttl=0"]
    {
        assert!(info.lines().any(|it| it == line), "{line} in {info}");
    }
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let recorded = (0..RECORDED.len()).prop_map(|at| RECORDED[at].0.as_bytes().to_vec());
    let key = prop::sample::select(vec!["a", "b", "big"]);
    let verb = prop::sample::select(vec!["GET", "INCR", "DEL", "MGET", "EXISTS", "ECHO"]);
    let simple = (verb, prop::collection::vec(key, 1..4)).prop_map(|(verb, keys)| {
        array(&[vec![verb.as_bytes()], keys.iter().map(|key| key.as_bytes()).collect()].concat())
    });
    // Some values exceed the largest item.
    let big = (0usize..200_000).prop_map(|bytes| array(&[b"SET", b"big", &vec![b'\n'; bytes]]));
    let many = (1usize..8).prop_map(|count| [&b"mget"[..], &b" big".repeat(count), b"\r\n"].concat());
    let garbage = prop::collection::vec(any::<u8>(), 0..100);
    prop_oneof![4 => recorded, 8 => simple, 2 => big, 2 => many, 1 => garbage]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_of_a_stream_gives_the_same_responses(
        pieces in prop::collection::vec(requests(), 1..8),
        cuts in prop::collection::vec((1usize..3000, any::<bool>()), 1..100),
    ) {
        let stream = pieces.concat();
        let config = KvConfig { item_max_bytes: 150_000, ..KvConfig::default() };
        let whole = redis(&config);
        let mut conn = RedisConn::default();
        let mut requests = whole.receive(&mut conn, &stream);
        let expected = drain(&whole, &mut conn, usize::MAX, &mut requests);

        let split = redis(&config);
        let mut split_conn = RedisConn::default();
        let (mut output, mut split_requests, mut rest) = (Vec::new(), 0, &stream[..]);
        for (length, is_sent) in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*length));
            split_requests += split.receive(&mut split_conn, piece);
            if *is_sent {
                output.extend(drain(&split, &mut split_conn, 777, &mut split_requests));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        output.extend(drain(&split, &mut split_conn, 777, &mut split_requests));
        prop_assert_eq!(output, expected);
        prop_assert_eq!(split_requests, requests);
        prop_assert_eq!(split.is_over(&split_conn), whole.is_over(&conn));
    }
}

#[test]
fn keys_beyond_one_batch_are_looked_up_later() {
    const KEYS: usize = 30;
    let value = vec![b'v'; 100_000];
    let reply = [b"$100000\r\n", &value[..], b"\r\n"].concat();
    let keys: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain([&b"big"[..]; KEYS]).collect();
    let line = [&b"mget"[..], &b" big".repeat(KEYS), b"  \r\n"].concat();
    for request in [array(&keys), line] {
        let redis = redis(&KvConfig::default());
        let mut conn = RedisConn::default();
        let stored = redis.receive(&mut conn, &array(&[b"SET", b"big", &value]));
        assert_eq!((stored, &drain(&redis, &mut conn, usize::MAX, &mut 0)[..]), (1, &b"+OK\r\n"[..]));
        let mut requests = redis.receive(&mut conn, &[&request[..], b"PING\r\n"].concat());
        assert!(redis.unsent(&conn).len() < OUTPUT_BYTES_MAX + reply.len(), "the rest waits");
        let output = drain(&redis, &mut conn, 5_000, &mut requests);
        let expected = [format!("*{KEYS}\r\n").as_bytes(), &reply.repeat(KEYS), b"+PONG\r\n"].concat();
        assert!(output == expected && requests == 2, "{requests} requests");
    }
}

#[test]
fn sizes_beyond_limits_end_the_connection() {
    let config = KvConfig { item_max_bytes: 10_000, ..KvConfig::default() };
    let argument = [&b"$100\r\n"[..], &[b'k'; 102]].concat();
    let many = [&b"*3000\r\n"[..], &argument.repeat(1_000)].concat();
    let inputs: [(&[u8], &str); 5] = [
        (&[b'x'; LINE_BYTES_MAX + 1], "too big inline request"),
        (&many, "too big request"),
        (b"*2\r\n$3\r\nGET\r\n$10001\r\n", "invalid bulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (&[&b"*"[..], &[b'1'; 40]].concat(), "invalid multibulk length"),
    ];
    for (input, reason) in inputs {
        for piece_bytes in [input.len(), 1_000, 7] {
            let redis = redis(&config);
            let mut conn = RedisConn::default();
            let mut received_bytes = 0;
            for piece in input.chunks(piece_bytes).take_while(|_| !redis.is_over(&conn)).collect::<Vec<_>>() {
                redis.receive(&mut conn, piece);
                received_bytes = conn.input.pending().len().max(received_bytes);
            }
            let answer = drain(&redis, &mut conn, usize::MAX, &mut 0);
            assert_eq!(String::from_utf8_lossy(&answer), format!("-ERR Protocol error: {reason}\r\n"));
            assert!(redis.is_over(&conn) && conn.input.pending().is_empty());
            assert!(received_bytes <= 10_000 + (64 << 10) + 1, "{received_bytes} bytes are held");
        }
    }
}

#[test]
fn item_that_does_not_fit_is_not_stored() {
    let redis = redis(&KvConfig { item_max_bytes: 1_000, ..KvConfig::default() });
    let large = [b'x'; 900];
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(respond(&redis, &array(&[b"SET", b"a", b"1"])), "+OK\r\n");
    assert_eq!(respond(&redis, &array(&[b"SET", b"a", &large])), oom);
    assert_eq!(respond(&redis, &array(&[b"MSET", b"b", b"2", b"a", &large])), oom);
    assert_eq!(respond(&redis, &array(&[b"INCR", &large])), oom);
    assert_eq!(respond(&redis, b"MGET a b\r\n"), "*2\r\n$1\r\n1\r\n$-1\r\n");
}
