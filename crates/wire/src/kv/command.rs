//! Requests as the memcached text protocol writes them, read without copying.
//!
//! What is taken for a number, for too many words or for silence is what memcached 1.6 takes for it: its parser is
//! C's `strtol`, which is more lenient than the protocol's text.

/// Longest key, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 250;

/// What is said of lines that cannot be taken for a command.
pub(super) const ERROR: &str = "ERROR";
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
const BAD_DELETE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
const NO_SHUTDOWN: &str = "ERROR: shutdown not enabled";

/// A command line, and whether its client wants no answer.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub command: Command<'a>,
    pub quiet: bool,
}

/// What a line asks for. Its words are borrowed from the line.
#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`: the keys are the rest of the line.
    Get {
        keys: &'a [u8],
        get: Get,
    },
    Store(Put<'a>),
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
        what: &'a [u8],
    },
    Version,
    Verbosity,
    Quit,
    /// Nothing: this is the answer.
    Wrong(&'static str),
}

/// How keys are looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Get {
    /// Whether the answer has each item's number.
    pub cas: bool,
    /// The new time to live of what is found, for `gat`.
    pub touch: Option<i32>,
}

/// A command whose line is followed by a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Put<'a> {
    pub how: How,
    pub key: &'a [u8],
    pub flags: u32,
    pub exptime: i32,
    pub value_bytes: usize,
}

/// When and how a value is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// If the item's number is this.
    Cas(u64),
}

/// Words between spaces, and nothing but spaces.
#[derive(Clone, Copy)]
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
        // First, and without more words being counted than the keys that are looked up.
        b"get" | b"bget" => loud(keys(words, Get { cas: false, touch: None })),
        b"gets" => loud(keys(words, Get { cas: true, touch: None })),
        b"gat" => loud(get_and_touch(words, false)),
        b"gats" => loud(get_and_touch(words, true)),
        _ => parse_rest(verb, words),
    }
}

fn loud<'a>(command: Result<Command<'a>, &'static str>) -> Request<'a> {
    Request { command: command.unwrap_or_else(Command::Wrong), quiet: false }
}

/// All keys must be short enough before the first is looked up. They are, where the line is.
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

/// The commands with a fixed number of words.
fn parse_rest<'a>(verb: &'a [u8], mut rest: Words<'a>) -> Request<'a> {
    const WORDS_MAX: usize = 7;
    let mut words = [&b""[..]; WORDS_MAX];
    let mut count = 0;
    for word in rest.by_ref() {
        // One too many is too many.
        words[count] = word;
        count += 1;
        if count == WORDS_MAX {
            break;
        }
    }
    let words = &words[..count];
    let last_is_noreply = words.last() == Some(&&b"noreply"[..]);

    // The last of the words is asked for `noreply`, whether there is one too many or not.
    let (command, may_be_quiet) = match verb {
        b"set" => (put(How::Set, words), true),
        b"add" => (put(How::Add, words), true),
        b"replace" => (put(How::Replace, words), true),
        b"append" => (put(How::Append, words), true),
        b"prepend" => (put(How::Prepend, words), true),
        b"cas" => (compare_and_store(words), true),
        b"incr" => (add(words, true), true),
        b"decr" => (add(words, false), true),
        b"touch" => (touch(words), true),
        b"delete" => (delete(words, last_is_noreply), words.len() > 1),
        b"flush_all" => (flush_all(words, last_is_noreply), true),
        b"verbosity" => (verbosity(words), true),
        b"stats" => (Ok(Command::Stats { what: words.first().copied().unwrap_or_default() }), false),
        b"version" => (Ok(Command::Version), false),
        b"quit" => (Ok(Command::Quit), false),
        b"shutdown" => (Err(NO_SHUTDOWN), false),
        _ => (Err(ERROR), false),
    };
    // A line with too few or too many words is not looked at further.
    let quiet = may_be_quiet && last_is_noreply && command != Err(ERROR);
    Request { command: command.unwrap_or_else(Command::Wrong), quiet }
}

fn key(word: &[u8]) -> Result<&[u8], &'static str> {
    if word.len() > KEY_BYTES_MAX { Err(BAD_FORMAT) } else { Ok(word) }
}

fn put<'a>(how: How, words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([first, flags, exptime, bytes] | [first, flags, exptime, bytes, _]) = words else {
        return Err(ERROR);
    };
    let key = key(first)?;
    let flags = unsigned(flags).ok_or(BAD_FORMAT)? as u32;
    let exptime = signed(exptime).ok_or(BAD_FORMAT)?;
    let value_bytes = signed(bytes).filter(|bytes| (0..=i32::MAX - 2).contains(bytes)).ok_or(BAD_FORMAT)? as usize;
    Ok(Command::Store(Put { how, key, flags, exptime, value_bytes }))
}

fn compare_and_store<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let (put_words, cas) = match words {
        [put_words @ .., cas] if put_words.len() == 4 => (put_words, cas),
        [put_words @ .., cas, _] if put_words.len() == 4 => (put_words, cas),
        _ => return Err(ERROR),
    };
    put(How::Cas(unsigned(cas).ok_or(BAD_FORMAT)?), put_words)
}

fn add<'a>(words: &[&'a [u8]], up: bool) -> Result<Command<'a>, &'static str> {
    let ([first, delta] | [first, delta, _]) = words else { return Err(ERROR) };
    Ok(Command::Add { key: key(first)?, delta: unsigned(delta).ok_or(BAD_DELTA)?, up })
}

fn touch<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([first, exptime] | [first, exptime, _]) = words else { return Err(ERROR) };
    Ok(Command::Touch { key: key(first)?, exptime: signed(exptime).ok_or(BAD_EXPTIME)? })
}

/// A time of 0 was once allowed, and still is.
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

/// There is nothing to be more or less verbose about.
fn verbosity<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, &'static str> {
    let ([level] | [level, _]) = words else { return Err(ERROR) };
    unsigned(level).ok_or(BAD_FORMAT)?;
    Ok(Command::Verbosity)
}

/// As `strtoull`: space before, a sign, digits, then the end or a space and whatever. What is negative is none.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let (negative, magnitude) = number(word)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    (!negative || value as i64 >= 0).then_some(value)
}

/// As `strtol` into 32 bits, whose higher bits are lost.
fn signed(word: &[u8]) -> Option<i32> {
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
