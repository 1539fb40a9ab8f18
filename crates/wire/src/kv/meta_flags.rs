//! Parsing of meta commands. The order of the checks is that of memcached 1.6.18, because its error replies depend on it.

use std::borrow::Cow;

use super::base64;
use super::command::{BAD_FORMAT, ERROR, StoreMode, StoreRequest, Words, signed, unsigned, value_bytes};
use super::protocol::KEY_BYTES_MAX;

const WORDS_MAX: usize = 19;
pub(super) const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
pub(super) const LONG_OPAQUE: &str = "CLIENT_ERROR opaque token too long";
const MANY_FLAGS: &str = "CLIENT_ERROR options flags too long";

pub(super) type Error = &'static str;

pub(super) struct Meta<'a> {
    pub key: Cow<'a, [u8]>,
    pub flags: Words<'a>,
    pub options: Options,
}

/// Flags whose meaning does not depend on their position.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub is_binary: bool,
    pub is_quiet: bool,
    pub value: bool,
    pub no_update: bool,
    pub hit_before: bool,
    pub last_access: bool,
    pub stale: bool,
    pub remove_value: bool,
    pub exptime: Option<i32>,
    pub vivify: Option<i32>,
    pub recache: Option<i32>,
    pub client_flags: u32,
    pub cas: Option<u64>,
    pub new_cas: Option<u64>,
    pub mode: Option<u8>,
    pub initial: Option<u64>,
    pub delta: Option<u64>,
}

impl<'a> Meta<'a> {
    pub fn parse_get(words: Words<'a>) -> Result<Self, Error> {
        Self::parse(words, 0, "CLIENT_ERROR options flags are too long")
    }

    /// Parses the words after `md` or `ma`. For these commands, memcached has one error for all invalid flags.
    pub fn parse_other(words: Words<'a>) -> Result<Self, Error> {
        Self::parse(words, 0, MANY_FLAGS).map_err(|error| match error {
            ERROR | MANY_FLAGS => error,
            _ if { words }.next().is_some_and(|key| key.len() > KEY_BYTES_MAX) => error,
            _ => "CLIENT_ERROR invalid or duplicate flag",
        })
    }

    /// Parses the words after a command; `skipped` words stand between key and flags.
    fn parse(mut words: Words<'a>, skipped: usize, many_flags: Error) -> Result<Self, Error> {
        let all = words;
        let key = words.next().ok_or(ERROR)?;
        if key.len() > KEY_BYTES_MAX {
            return Err(BAD_FORMAT);
        }
        if all.take(WORDS_MAX).count() == WORDS_MAX {
            return Err(many_flags);
        }
        let mut flags = words;
        flags.by_ref().take(skipped).for_each(drop);
        let (mut key, mut options) = (Cow::Borrowed(key), Options::default());
        // The error is that of the first duplicate or unknown flag; without one, that of the last invalid token.
        let (mut seen, mut result) = (0u128, Ok(()));
        for flag in flags {
            let (letter, token) = (flag[0], &flag[1..]);
            if letter >= 127 || seen & (1 << letter) != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << letter;
            let parsed = match letter {
                b'b' => base64::decode(&key).ok_or("CLIENT_ERROR error decoding key").map(|decoded| {
                    key = Cow::Owned(decoded);
                    options.is_binary = true;
                }),
                b'N' => set(&mut options.vivify, signed(token), BAD_TOKEN),
                b'T' => set(&mut options.exptime, signed(token), BAD_TOKEN),
                b'R' => set(&mut options.recache, signed(token), BAD_TOKEN),
                b'C' => set(&mut options.cas, unsigned(token), BAD_TOKEN),
                b'E' => set(&mut options.new_cas, unsigned(token), BAD_TOKEN),
                b'D' => set(&mut options.delta, unsigned(token), "CLIENT_ERROR invalid numeric delta value"),
                b'J' => set(&mut options.initial, unsigned(token), "CLIENT_ERROR invalid numeric initial value"),
                // For an invalid `F`, memcached repeats the previous error.
                b'F' => {
                    let error = result.err().unwrap_or(BAD_FORMAT);
                    unsigned(token).map(|flags| options.client_flags = flags as u32).ok_or(error)
                }
                b'M' => {
                    let mode = token.first().copied().filter(|_| token.len() == 1);
                    set(&mut options.mode, mode, "CLIENT_ERROR incorrect length for M token")
                }
                // Flags that are evaluated while the reply is written, and hints for a proxy.
                b'O' | b'k' | b's' | b't' | b'c' | b'f' | b'P' | b'L' => Ok(()),
                _ => {
                    *match letter {
                        b'q' => &mut options.is_quiet,
                        b'v' => &mut options.value,
                        b'u' => &mut options.no_update,
                        b'h' => &mut options.hit_before,
                        b'l' => &mut options.last_access,
                        b'I' => &mut options.stale,
                        b'x' => &mut options.remove_value,
                        _ => return Err("CLIENT_ERROR invalid flag"),
                    } = true;
                    Ok(())
                }
            };
            if parsed.is_err() {
                result = parsed;
            }
        }
        result.map(|()| Self { key, flags, options })
    }
}

fn set<T>(option: &mut Option<T>, token: Option<T>, error: Error) -> Result<(), Error> {
    *option = Some(token.ok_or(error)?);
    Ok(())
}

pub(super) struct MetaSet<'a> {
    pub meta: Meta<'a>,
    mode: StoreMode,
    pub value_bytes: usize,
}

impl<'a> MetaSet<'a> {
    /// Parses the words after `ms`. An error has the size of the value to discard, if one follows.
    pub fn parse(words: &'a [u8]) -> Result<Self, (Error, Option<usize>)> {
        let words = Words(words);
        let refuse = |reason| (reason, None);
        let mut first = words;
        let key = first.next().ok_or(refuse(ERROR))?;
        let length = first.next().filter(|_| key.len() <= KEY_BYTES_MAX).ok_or(refuse(BAD_FORMAT))?;
        if words.take(WORDS_MAX).count() == WORDS_MAX {
            return Err(refuse(MANY_FLAGS));
        }
        let value_bytes = value_bytes(length).ok_or(refuse(BAD_FORMAT))?;
        // From here on, the end of the value is known, even if another part of the line is wrong.
        let refuse = |reason| (reason, Some(value_bytes));
        let meta = Meta::parse(words, 1, MANY_FLAGS).map_err(refuse)?;
        let mode = match (meta.options.mode, meta.options.cas) {
            (None | Some(b'S' | b'R'), Some(_)) => StoreMode::Cas,
            (None | Some(b'S'), None) => StoreMode::Set,
            (Some(b'R'), None) => StoreMode::Replace,
            (Some(b'E'), _) => StoreMode::Add,
            (Some(b'A'), _) => StoreMode::Append,
            (Some(b'P'), _) => StoreMode::Prepend,
            (Some(_), _) => return Err(refuse("CLIENT_ERROR invalid mode for ms M token")),
        };
        let is_long = |flag: &[u8]| flag[0] == b'O' && flag.len() > OPAQUE_BYTES_MAX;
        if { meta.flags }.any(is_long) {
            return Err(refuse(LONG_OPAQUE));
        }
        Ok(Self { meta, mode, value_bytes })
    }

    pub fn request(&self) -> StoreRequest<'_> {
        let Options { exptime, vivify, client_flags, cas, .. } = self.meta.options;
        let is_join = matches!(self.mode, StoreMode::Append | StoreMode::Prepend);
        StoreRequest {
            mode: self.mode,
            cas: cas.unwrap_or(0),
            key: &self.meta.key,
            flags: client_flags,
            // Joining keeps the time to live of an existing item. A new item gets the time to live of flag `N`.
            exptime: if is_join { vivify } else { exptime }.unwrap_or(0),
            value_bytes: self.value_bytes,
        }
    }
}
