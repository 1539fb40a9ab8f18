//! Parsing of command lines without copying, as lenient as memcached 1.6, which parses numbers like C's `strtol`.

use super::protocol::KEY_BYTES_MAX;

/// The reply to an unsupported command or a wrong number of words.
pub(super) const ERROR: &str = "ERROR";
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const OK: &str = "OK";

/// A command, whose words are borrowed from its line.
#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    // `get`, `gets`, `gat`, `gats`: the keys are the rest of the line.
    Get { keys: &'a [u8], get: Get },
    Store(StoreRequest<'a>),
    Delete { key: &'a [u8] },
    // `incr`, or `decr` if not `up`.
    Add { key: &'a [u8], delta: u64, up: bool },
    Touch { key: &'a [u8], exptime: i32 },
    FlushAll { exptime: i32 },
    Stats { section: &'a [u8], arguments: [&'a [u8]; 2] },
    MemoryLimit { mebibytes: u32 },
    // `ms`: the rest of the line, which a value follows.
    MetaSet(&'a [u8]),
    // `mg`, `md`, `ma`, `me`: the letter and the rest of the line.
    Meta(u8, &'a [u8]),
    Version,
    Quit,
    // No effect except this reply.
    Reply(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Get {
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

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

/// Reads a line, without its end; returns the command, and whether its client wants no reply.
#[inline]
pub(super) fn parse(line: &[u8]) -> (Command<'_>, bool) {
    let mut words = Words(line);
    let verb = words.next().unwrap_or_default();
    match verb {
        // Match the most frequent commands first, without counting words.
        b"get" | b"bget" => loud(keys(words, Get { cas: false, touch: None })),
        b"gets" => loud(keys(words, Get { cas: true, touch: None })),
        b"gat" => loud(get_and_touch(words, false)),
        b"gats" => loud(get_and_touch(words, true)),
        b"ms" => loud(Ok(Command::MetaSet(words.0))),
        [b'm', letter @ (b'g' | b'd' | b'a' | b'e')] => loud(Ok(Command::Meta(*letter, words.0))),
        b"mn" => loud(Ok(Command::Reply("MN"))),
        _ => parse_rest(verb, words),
    }
}

fn loud<'a>(command: Result<Command<'a>, &'static str>) -> (Command<'a>, bool) {
    (command.unwrap_or_else(Command::Reply), false)
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

/// Parses a command with a limited number of words. Like memcached, it considers the first seven words after the verb:
/// `noreply` must be the last of these. A line with a wrong number of words gets an error even with `noreply`.
fn parse_rest<'a>(verb: &'a [u8], rest: Words<'a>) -> (Command<'a>, bool) {
    const WORDS_MAX: usize = 7;
    let mut words = [&b""[..]; WORDS_MAX];
    let count = words.iter_mut().zip(rest).map(|(place, word)| *place = word).count();
    let words = &words[..count];
    let last_is_noreply = words.last() == Some(&&b"noreply"[..]);
    let command = parse_words(verb, words, last_is_noreply, rest);
    let always_replies = match verb {
        b"lru_crawler" | b"stats" | b"version" | b"shutdown" => true,
        b"slabs" => words.first() == Some(&&b"reassign"[..]),
        b"delete" => count == 1,
        _ => false,
    };
    let quiet = last_is_noreply && !always_replies && command != Err(ERROR);
    (command.unwrap_or_else(Command::Reply), quiet)
}

fn parse_words<'a>(
    verb: &'a [u8],
    words: &[&'a [u8]],
    last_is_noreply: bool,
    rest: Words<'a>,
) -> Result<Command<'a>, &'static str> {
    Ok(match (verb, words) {
        (b"set", _) => put(StoreMode::Set, words, 0)?,
        (b"add", _) => put(StoreMode::Add, words, 0)?,
        (b"replace", _) => put(StoreMode::Replace, words, 0)?,
        (b"append", _) => put(StoreMode::Append, words, 0)?,
        (b"prepend", _) => put(StoreMode::Prepend, words, 0)?,
        (b"cas", [words @ .., cas] | [words @ .., cas, _]) if words.len() == 4 => {
            put(StoreMode::Cas, words, unsigned(cas).ok_or(BAD_FORMAT)?)?
        }
        (b"incr" | b"decr", [first, delta] | [first, delta, _]) => {
            let (key, delta) = (key(first)?, unsigned(delta));
            let delta = delta.ok_or("CLIENT_ERROR invalid numeric delta argument")?;
            Command::Add { key, delta, up: verb == b"incr" }
        }
        (b"touch", [first, exptime] | [first, exptime, _]) => {
            Command::Touch { key: key(first)?, exptime: signed(exptime).ok_or(BAD_EXPTIME)? }
        }
        // In older versions of the protocol a time follows the key; it must be 0.
        (b"delete", [first] | [first, b"0" | b"noreply"]) => Command::Delete { key: key(first)? },
        (b"delete", [first, b"0", _]) if last_is_noreply => Command::Delete { key: key(first)? },
        (b"delete", [_, _] | [_, _, _]) => {
            return Err("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
        }
        (b"flush_all", []) => Command::FlushAll { exptime: 0 },
        (b"flush_all", [_]) if last_is_noreply => Command::FlushAll { exptime: 0 },
        (b"flush_all", [exptime] | [exptime, _]) => Command::FlushAll { exptime: signed(exptime).ok_or(BAD_EXPTIME)? },
        // No effect, because the service logs nothing.
        (b"verbosity", [level] | [level, _]) => {
            unsigned(level).ok_or(BAD_FORMAT)?;
            Command::Reply(OK)
        }
        (b"cache_memlimit", [mebibytes] | [mebibytes, _]) => match unsigned(mebibytes) {
            Some(mebibytes) => Command::MemoryLimit { mebibytes: mebibytes as u32 },
            // Unlike `Err(ERROR)`, this reply obeys `noreply`.
            None => Command::Reply(ERROR),
        },
        (b"slabs", _) => Command::Reply(slabs(words)?),
        (b"lru", [_, ..]) => Command::Reply(lru(words)),
        (b"lru_crawler", _) => Command::Reply(lru_crawler(words)?),
        (b"stats", _) => {
            let word = |at| words.get(at).copied().unwrap_or_default();
            Command::Stats { section: word(0), arguments: [word(1), word(2)] }
        }
        (b"version", _) => Command::Version,
        (b"quit", _) => Command::Quit,
        (b"watch", _) => return Err("CLIENT_ERROR watch commands not allowed"),
        (b"shutdown", _) => return Err("ERROR: shutdown not enabled"),
        (b"verbosity" | b"flush_all" | b"lru", _) => return Err(ERROR),
        _ if is_http(verb, rest) => Command::Quit,
        _ => return Err(ERROR),
    })
}

/// Whether a line is an HTTP request, which ends the connection. Like memcached, checks whether the last of at most 23 words
/// begins with `HTTP/`, but only if the verb does not resemble memcached's commands.
fn is_http(verb: &[u8], rest: Words<'_>) -> bool {
    !b"gsacidt".contains(verb.first().unwrap_or(&b'g'))
        && !matches!(verb, [_] | [b'm', _])
        && rest.take(22).last().unwrap_or(verb).starts_with(b"HTTP/")
}

fn key(word: &[u8]) -> Result<&[u8], &'static str> {
    if word.len() > KEY_BYTES_MAX { Err(BAD_FORMAT) } else { Ok(word) }
}

fn put<'a>(mode: StoreMode, words: &[&'a [u8]], cas: u64) -> Result<Command<'a>, &'static str> {
    let ([first, flags, exptime, bytes] | [first, flags, exptime, bytes, _]) = words else {
        return Err(ERROR);
    };
    let key = key(first)?;
    let flags = unsigned(flags).ok_or(BAD_FORMAT)? as u32;
    let exptime = signed(exptime).ok_or(BAD_FORMAT)?;
    let value_bytes = value_bytes(bytes).ok_or(BAD_FORMAT)?;
    Ok(Command::Store(StoreRequest { mode, cas, key, flags, exptime, value_bytes }))
}

/// Answers like a memcached that does not move slab pages, because there are none.
fn slabs(words: &[&[u8]]) -> Result<&'static str, &'static str> {
    match words {
        [b"reassign", _, _] => Err("CLIENT_ERROR slab reassignment disabled"),
        [b"automove", b"ratio", ratio, ..] if float(ratio).is_some() => Ok(OK),
        [b"automove", b"ratio", ..] => Ok(ERROR),
        [b"automove", level, ..] => Ok(match unsigned(level) {
            Some(0..=2) => OK,
            Some(_) => ERROR,
            None => BAD_FORMAT,
        }),
        _ => Err(ERROR),
    }
}

/// Answers like a memcached without an LRU maintainer thread, because there is one eviction order.
fn lru(words: &[&[u8]]) -> &'static str {
    let [b"tune", hot, warm, hot_factor, factor, ..] = words else { return ERROR };
    match (unsigned(hot), unsigned(warm), float(hot_factor), float(factor)) {
        (Some(hot), Some(warm), ..) if hot.saturating_add(warm) > 80 => "ERROR hot and warm pcts must not exceed 80",
        (Some(_), Some(_), Some(hot_factor), Some(factor)) if hot_factor > 0.0 && factor > 0.0 => OK,
        (Some(_), Some(_), Some(_), Some(_)) => "ERROR hot/warm age factors must be greater than 0",
        _ => ERROR,
    }
}

/// Answers like a memcached without a crawler: expired items are dropped when a command finds them.
fn lru_crawler(words: &[&[u8]]) -> Result<&'static str, &'static str> {
    let number = |word| unsigned(word).ok_or(BAD_FORMAT);
    match words {
        [b"crawl" | b"metadump", _] => Err("CLIENT_ERROR lru crawler disabled"),
        [b"tocrawl", count] => number(count).map(|_| OK),
        [b"sleep", microseconds] if number(microseconds)? > 1_000_000 => {
            Err("CLIENT_ERROR sleep must be one second or less")
        }
        [b"sleep", _] | [b"disable"] => Ok(OK),
        [b"enable"] => Err("ERROR failed to start lru crawler thread"),
        _ => Err(ERROR),
    }
}

pub(super) fn value_bytes(word: &[u8]) -> Option<usize> {
    signed(word).filter(|bytes| (0..=i32::MAX - 2).contains(bytes)).map(|bytes| bytes as usize)
}

fn float(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses like `strtoull`, up to the end or a space. Refuses a negative number that does not wrap to a value below 2^63.
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
