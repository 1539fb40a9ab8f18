//! Parsing of command lines without copying.
//!
//! Numbers, the limit on words and `noreply` follow memcached 1.6, whose parser (C's `strtol`) is more lenient than the
//! protocol's text.

use super::limits::KEY_BYTES_MAX;

/// Replies to malformed lines and unsupported commands.
pub(super) const ERROR: &str = "ERROR";
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const BAD_DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const NO_SHUTDOWN: &str = "ERROR: shutdown not enabled";
const NO_WATCH: &str = "CLIENT_ERROR watch commands not allowed";
const NO_REASSIGN: &str = "CLIENT_ERROR slab reassignment disabled";
const NO_CRAWLER: &str = "CLIENT_ERROR lru crawler disabled";
const NO_CRAWLER_THREAD: &str = "ERROR failed to start lru crawler thread";
const LONG_SLEEP: &str = "CLIENT_ERROR sleep must be one second or less";
const LARGE_SHARES: &str = "ERROR hot and warm pcts must not exceed 80";
const SMALL_FACTORS: &str = "ERROR hot/warm age factors must be greater than 0";
const OK: &str = "OK";

/// A parsed command line.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub command: Command<'a>,
    /// Whether the client wants no reply.
    pub quiet: bool,
}

/// A command, whose words are borrowed from its line.
#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`: the keys are the rest of the line.
    Get {
        keys: &'a [u8],
        get: Get,
    },
    Store(StoreRequest<'a>),
    Delete {
        key: &'a [u8],
    },
    /// `incr`, or `decr` if not `up`.
    Add {
        key: &'a [u8],
        delta: u64,
        up: bool,
    },
    Touch {
        key: &'a [u8],
        exptime: i32,
    },
    FlushAll {
        exptime: i32,
    },
    Stats {
        section: &'a [u8],
        arguments: [&'a [u8]; 2],
    },
    /// `cache_memlimit`.
    MemoryLimit {
        mebibytes: u32,
    },
    /// `ms`: the rest of the line, which a value follows.
    MetaSet(&'a [u8]),
    /// The other meta commands, with the rest of the line.
    Meta(MetaVerb, &'a [u8]),
    Version,
    Quit,
    /// No effect except this reply.
    Reply(&'static str),
}

/// A meta command that no value follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetaVerb {
    Get,
    Delete,
    Arithmetic,
    Debug,
}

/// Parameters of a look-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Get {
    /// Whether the reply has the CAS value of each item.
    pub cas: bool,
    /// New time to live of the items, for `gat`.
    pub touch: Option<i32>,
}

/// A command whose line is followed by a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StoreRequest<'a> {
    pub mode: StoreMode,
    /// CAS value that the present item must have; for `append` and `prepend` 0 means any.
    pub cas: u64,
    pub key: &'a [u8],
    pub flags: u32,
    pub exptime: i32,
    pub value_bytes: usize,
}

/// Condition and manner of storing a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// Words separated by spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(pub &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|&byte| byte != b' ')?;
        let rest = &self.0[start..];
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

/// Reads a line, without its end.
#[inline]
pub(super) fn parse(line: &[u8]) -> Request<'_> {
    let mut words = Words(line);
    let verb = words.next().unwrap_or_default();
    match verb {
        // These commands come first and without a count of words, because they are the most frequent.
        b"get" | b"bget" => loud(keys(words, Get { cas: false, touch: None })),
        b"gets" => loud(keys(words, Get { cas: true, touch: None })),
        b"gat" => loud(get_and_touch(words, false)),
        b"gats" => loud(get_and_touch(words, true)),
        b"ms" => loud(Ok(Command::MetaSet(words.0))),
        b"mg" => loud(Ok(Command::Meta(MetaVerb::Get, words.0))),
        b"md" => loud(Ok(Command::Meta(MetaVerb::Delete, words.0))),
        b"ma" => loud(Ok(Command::Meta(MetaVerb::Arithmetic, words.0))),
        b"me" => loud(Ok(Command::Meta(MetaVerb::Debug, words.0))),
        b"mn" => loud(Ok(Command::Reply("MN"))),
        _ => parse_rest(verb, words),
    }
}

fn loud<'a>(command: Result<Command<'a>, &'static str>) -> Request<'a> {
    Request { command: command.unwrap_or_else(Command::Reply), quiet: false }
}

/// Checks the length of all keys before the first look-up. A short line has only short keys.
#[inline]
fn keys<'a>(words: Words<'a>, get: Get) -> Result<Command<'a>, &'static str> {
    if words.0.len() > KEY_BYTES_MAX && words.clone().any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(BAD_FORMAT);
    }
    match words.clone().next() {
        None if get.touch.is_none() => Err(ERROR),
        _ => Ok(Command::Get { keys: words.0, get }),
    }
}

fn get_and_touch<'a>(mut words: Words<'a>, cas: bool) -> Result<Command<'a>, &'static str> {
    let exptime = signed(words.next().ok_or(ERROR)?).ok_or(BAD_EXPTIME)?;
    keys(words, Get { cas, touch: Some(exptime) })
}

/// Parses the commands with a fixed number of words.
fn parse_rest<'a>(verb: &'a [u8], mut rest: Words<'a>) -> Request<'a> {
    const WORDS_MAX: usize = 7;
    let all = rest;
    let mut words = [&b""[..]; WORDS_MAX];
    let mut count = 0;
    for word in rest.by_ref() {
        words[count] = word;
        count += 1;
        if count == WORDS_MAX {
            break;
        }
    }
    let words = &words[..count];
    let last_is_noreply = words.last() == Some(&&b"noreply"[..]);

    // memcached takes `noreply` from the last word, even if there are too many words.
    let (command, may_be_quiet) = match verb {
        b"set" => (put(StoreMode::Set, words).map(Command::Store), true),
        b"add" => (put(StoreMode::Add, words).map(Command::Store), true),
        b"replace" => (put(StoreMode::Replace, words).map(Command::Store), true),
        b"append" => (put(StoreMode::Append, words).map(Command::Store), true),
        b"prepend" => (put(StoreMode::Prepend, words).map(Command::Store), true),
        b"cas" => (compare_and_store(words), true),
        b"incr" => (add(words, true), true),
        b"decr" => (add(words, false), true),
        b"touch" => (touch(words), true),
        b"delete" => (delete(words, last_is_noreply), words.len() > 1),
        b"flush_all" => (flush_all(words, last_is_noreply), true),
        b"verbosity" => (verbosity(words), true),
        b"cache_memlimit" => (memory_limit(words), true),
        b"slabs" => slabs(words),
        b"lru" => (lru(words), true),
        b"lru_crawler" => (lru_crawler(words), false),
        b"watch" => (Err(NO_WATCH), true),
        b"stats" => {
            let word = |at| words.get(at).copied().unwrap_or_default();
            (Ok(Command::Stats { section: word(0), arguments: [word(1), word(2)] }), false)
        }
        b"version" => (Ok(Command::Version), false),
        b"quit" => (Ok(Command::Quit), false),
        b"shutdown" => (Err(NO_SHUTDOWN), false),
        _ if is_http(verb, all) => (Ok(Command::Quit), false),
        _ => (Err(ERROR), false),
    };
    // memcached ignores `noreply` on a line with too few or too many words.
    let quiet = may_be_quiet && last_is_noreply && command != Err(ERROR);
    Request { command: command.unwrap_or_else(Command::Reply), quiet }
}

/// Whether a line is an HTTP request, after which memcached ends the connection. memcached checks only the first 23 words, and
/// only if the verb does not begin like one of its own.
fn is_http(verb: &[u8], rest: Words<'_>) -> bool {
    !b"gsacidt".contains(verb.first().unwrap_or(&b'g'))
        && !matches!(verb, [_] | [b'm', _])
        && rest.take(22).last().unwrap_or(verb).starts_with(b"HTTP/")
}

fn key(word: &[u8]) -> Result<&[u8], &'static str> {
    if word.len() > KEY_BYTES_MAX { Err(BAD_FORMAT) } else { Ok(word) }
}

fn put<'a>(mode: StoreMode, words: &[&'a [u8]]) -> Result<StoreRequest<'a>, &'static str> {
    let ([first, flags, exptime, bytes] | [first, flags, exptime, bytes, _]) = words else {
        return Err(ERROR);
    };
    let key = key(first)?;
    let flags = unsigned(flags).ok_or(BAD_FORMAT)? as u32;
    let exptime = signed(exptime).ok_or(BAD_FORMAT)?;
    let value_bytes = signed(bytes).filter(|bytes| (0..=i32::MAX - 2).contains(bytes)).ok_or(BAD_FORMAT)? as usize;
    Ok(StoreRequest { mode, cas: 0, key, flags, exptime, value_bytes })
}

fn compare_and_store<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let (put_words, cas) = match words {
        [put_words @ .., cas] if put_words.len() == 4 => (put_words, cas),
        [put_words @ .., cas, _] if put_words.len() == 4 => (put_words, cas),
        _ => return Err(ERROR),
    };
    let cas = unsigned(cas).ok_or(BAD_FORMAT)?;
    Ok(Command::Store(StoreRequest { cas, ..put(StoreMode::Cas, put_words)? }))
}

fn add<'a>(words: &[&'a [u8]], up: bool) -> Result<Command<'a>, &'static str> {
    let ([first, delta] | [first, delta, _]) = words else { return Err(ERROR) };
    Ok(Command::Add { key: key(first)?, delta: unsigned(delta).ok_or(BAD_DELTA)?, up })
}

fn touch<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([first, exptime] | [first, exptime, _]) = words else { return Err(ERROR) };
    Ok(Command::Touch { key: key(first)?, exptime: signed(exptime).ok_or(BAD_EXPTIME)? })
}

/// Accepts a time of 0 from older versions of the protocol.
fn delete<'a>(words: &[&'a [u8]], last_is_noreply: bool) -> Result<Command<'a>, &'static str> {
    match words {
        [first] => Ok(Command::Delete { key: key(first)? }),
        [first, b"0"] | [first, b"0", _] if words.len() == 2 || last_is_noreply => {
            Ok(Command::Delete { key: key(first)? })
        }
        [first, b"noreply"] => Ok(Command::Delete { key: key(first)? }),
        [_, _] | [_, _, _] => Err(BAD_DELETE),
        _ => Err(ERROR),
    }
}

fn flush_all<'a>(words: &[&'a [u8]], last_is_noreply: bool) -> Result<Command<'a>, &'static str> {
    let exptime = match words {
        [] => 0,
        [_] if last_is_noreply => 0,
        [exptime] | [exptime, _] => signed(exptime).ok_or(BAD_EXPTIME)?,
        _ => return Err(ERROR),
    };
    Ok(Command::FlushAll { exptime })
}

/// Has no effect: the service logs nothing.
fn verbosity<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([level] | [level, _]) = words else { return Err(ERROR) };
    unsigned(level).ok_or(BAD_FORMAT)?;
    Ok(Command::Reply(OK))
}

fn memory_limit<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([mebibytes] | [mebibytes, _]) = words else { return Err(ERROR) };
    match unsigned(mebibytes) {
        Some(mebibytes) => Ok(Command::MemoryLimit { mebibytes: mebibytes as u32 }),
        // Unlike the errors above, this one obeys `noreply`.
        None => Ok(Command::Reply(ERROR)),
    }
}

/// Answers like a memcached that does not move slab pages, because there are none.
fn slabs<'a>(words: &[&'a [u8]]) -> (Result<Command<'a>, &'static str>, bool) {
    let answer = match words {
        [b"reassign", _, _] => return (Err(NO_REASSIGN), false),
        [b"automove", b"ratio", ratio] | [b"automove", b"ratio", ratio, ..] if float(ratio).is_some() => OK,
        [b"automove", b"ratio", ..] => ERROR,
        [b"automove", level, ..] => match unsigned(level) {
            Some(0..=2) => OK,
            Some(_) => ERROR,
            None => BAD_FORMAT,
        },
        _ => return (Err(ERROR), false),
    };
    (Ok(Command::Reply(answer)), true)
}

/// Answers like a memcached without an LRU maintainer thread, because there is one eviction order.
fn lru<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let answer = match words {
        [] => return Err(ERROR),
        [b"tune", hot, warm, hot_factor, factor, ..] => {
            match (unsigned(hot), unsigned(warm), float(hot_factor), float(factor)) {
                (Some(hot), Some(warm), ..) if hot.saturating_add(warm) > 80 => LARGE_SHARES,
                (Some(_), Some(_), Some(hot_factor), Some(factor)) if hot_factor > 0.0 && factor > 0.0 => OK,
                (Some(_), Some(_), Some(_), Some(_)) => SMALL_FACTORS,
                _ => ERROR,
            }
        }
        _ => ERROR,
    };
    Ok(Command::Reply(answer))
}

/// Answers like a memcached without a crawler: expired items are dropped when a command finds them.
fn lru_crawler<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let number = |word| unsigned(word).ok_or(BAD_FORMAT);
    match words {
        [b"crawl" | b"metadump", _] => Err(NO_CRAWLER),
        [b"tocrawl", count] => number(count).map(|_| Command::Reply(OK)),
        [b"sleep", microseconds] if number(microseconds)? > 1_000_000 => Err(LONG_SLEEP),
        [b"sleep", _] | [b"disable"] => Ok(Command::Reply(OK)),
        [b"enable"] => Err(NO_CRAWLER_THREAD),
        _ => Err(ERROR),
    }
}

/// Parses decimal numbers like `strtod`.
fn float(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses like `strtoull`: optional space and sign, digits, then the end or a space and any text. Refuses negative numbers.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, magnitude) = number(word)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    (!negative || value as i64 >= 0).then_some(value)
}

/// Parses like `strtol` and keeps the lower 32 bits.
pub(super) fn signed(word: &[u8]) -> Option<i32> {
    let (negative, magnitude) = number(word)?;
    let value = i128::from(magnitude) * if negative { -1 } else { 1 };
    i64::try_from(value).ok().map(|value| value as i32)
}

fn number(word: &[u8]) -> Option<(bool, u64)> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = word.iter().position(|&byte| !is_space(byte))?;
    let (negative, digits) = match word[start] {
        b'-' => (true, &word[start + 1..]),
        b'+' => (false, &word[start + 1..]),
        _ => (false, &word[start..]),
    };
    let mut value = 0u64;
    for (at, &byte) in digits.iter().enumerate() {
        if !byte.is_ascii_digit() {
            return (at > 0 && is_space(byte)).then_some((negative, value));
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
    }
    (!digits.is_empty()).then_some((negative, value))
}
