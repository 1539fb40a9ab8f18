//! Secrets: passwords, tokens and keys. Everything that is stored or shown has a digest in their place.
//!
//! [`conceal`] replaces a value by its digest, a text such as `{secret:0f3a...}`, as soon as the value is read. This process remembers
//! the value, so that [`reveal`] restores it in the bytes that are sent. A child process gets the values with its order, as [`Known`].

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

const START: &str = "{secret:";
const END: &str = "}";
const DIGITS: usize = 16;

/// Words before the secret of a header, in lower case, as in `Authorization: Bearer ${TOKEN}`. They are no secrets.
const SCHEMES: [&str; 5] = ["apikey", "basic", "bearer", "digest", "token"];

/// The bytes of a value from which on it is recognised within words. A shorter one, such as `1`, is often there by chance.
const WITHIN_WORDS_BYTES: usize = 6;

/// Parts of the names of headers with secrets, in lower case: `Authorization`, `Set-Cookie`, `X-Api-Key` and the like.
const SECRET_NAMES: [&str; 8] = ["auth", "cookie", "token", "secret", "passw", "api-key", "apikey", "signature"];

/// The values of this process by their digests.
static VALUES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn values() -> MutexGuard<'static, BTreeMap<String, String>> {
    VALUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a header with this name has a secret value.
pub fn is_in_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Returns the digest of a value. Returns as it is an empty value, a digest, also after a scheme as in `Bearer {secret:...}`, and a
/// text with the digest of an unknown value, which is never sent.
pub fn conceal(value: &str) -> String {
    let is_scheme = |word: &str| SCHEMES.contains(&word.to_ascii_lowercase().as_str());
    let own = value.split_once(' ').filter(|(word, _)| is_scheme(word)).map_or(value, |(_, own)| own);
    if value.is_empty() || digests(own).next().is_some_and(|digest| digest == own) {
        return value.to_owned();
    }
    let Ok(value) = reveal(value) else { return value.to_owned() };
    let hash = Sha256::new().chain_update("muxbench secret\n").chain_update(&*value).finalize();
    let mut digest = START.to_owned();
    digest.extend(hash.iter().map(|byte| format!("{byte:02x}")));
    digest.truncate(START.len() + DIGITS);
    digest += END;
    values().insert(digest.clone(), value.into_owned());
    digest
}

/// Returns the digests in a text.
fn digests(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(START).filter_map(|(at, _)| {
        let digest = text[at..].get(..START.len() + DIGITS + END.len())?;
        let digits = digest[START.len()..].strip_suffix(END)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(digest)
    })
}

/// The digest of a secret whose value this process does not know, as in a run that it resumes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of {0} is not stored; add it with --secret VALUE, --secret '${{VARIABLE}}' or --secret @FILE")]
pub struct Unknown(String);

/// Whether a text has a digest.
pub fn is_in(text: &str) -> bool {
    digests(text).next().is_some()
}

/// Replaces the digests in a text by the values.
pub fn reveal(text: &str) -> Result<Cow<'_, str>, Unknown> {
    let mut revealed = Cow::Borrowed(text);
    for digest in digests(text) {
        let value = values().get(digest).cloned().ok_or_else(|| Unknown(digest.to_owned()))?;
        revealed = revealed.replace(digest, &value).into();
    }
    Ok(revealed)
}

/// Replaces values that this process knows by their digests; short ones only where they are words of their own.
pub fn redact(text: &str) -> String {
    let values = values();
    // A value may be the beginning of another.
    let mut longest_first: Vec<(&String, &String)> = values.iter().collect();
    longest_first.sort_by_key(|(_, value)| Reverse(value.len()));
    let (mut redacted, mut at) = (String::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let is_at = |value: &str| {
            let is_of_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
            let is_within =
                |after: &str| is_of_word(text[..at].chars().next_back()) || is_of_word(after.chars().next());
            let after = text[at..].strip_prefix(value);
            after.is_some_and(|after| value.len() >= WITHIN_WORDS_BYTES || !is_within(after))
        };
        let known = longest_first.iter().find(|(_, value)| is_at(value));
        redacted.push_str(known.map_or(&text[at..][..first.len_utf8()], |(digest, _)| digest));
        at += known.map_or(first.len_utf8(), |(_, value)| value.len());
    }
    redacted
}

/// Replaces each `${NAME}` in a text by the digest of the environment variable NAME.
pub fn expand(text: &str) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        expanded += before;
        let is_name = |name: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            name.bytes().next().is_some_and(is_letter) && name.bytes().all(|it| is_letter(it) || it.is_ascii_digit())
        };
        rest = match after.split_once('}').filter(|(name, _)| is_name(name)) {
            Some((name, after)) => {
                let value =
                    std::env::var(name).map_err(|_| format!("the environment has no variable {name}; set it"))?;
                expanded += &conceal(value.trim());
                after
            }
            None => {
                expanded += "${";
                after
            }
        };
    }
    Ok(expanded + rest)
}

/// All secrets of this process, to be sent to another one. Reading them makes them known there.
#[derive(Clone, Copy, Default)]
pub struct Known;

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known(..)")
    }
}

impl Serialize for Known {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        values().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let received = BTreeMap::deserialize(deserializer)?;
        values().extend(received);
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concealed_value_is_revealed_and_nothing_else_is() {
        let digest = conceal("open sesame");
        assert!(digest.starts_with("{secret:") && !digest.contains("sesame"), "{digest}");
        assert_eq!((conceal("open sesame"), conceal(&digest)), (digest.clone(), digest.clone()));
        assert_ne!(conceal("open barley"), digest);
        let text = format!("Bearer {digest}");
        assert_eq!(reveal(&text).unwrap(), "Bearer open sesame");
        for plain in ["", "{secret:}", "{secret:0123456789abcdef", "{secret:0123456789abcdeg}", "${HOME}", "{secret:ü"]
        {
            assert_eq!(reveal(plain).as_deref(), Ok(plain));
        }
        let unknown = reveal("{secret:0123456789abcdef}").unwrap_err().to_string();
        assert!(unknown.starts_with("the value of {secret:0123456789abcdef} is not stored; add it"), "{unknown}");
        let longer = conceal("open sesame!");
        assert_eq!(redact("-H 'Token: open sesame' open sesame!"), format!("-H 'Token: {digest}' {longer}"));
    }

    #[test]
    fn plain_part_beside_a_digest_is_concealed_too() {
        let token = conceal("open barley");
        let both = conceal(&format!("session=oats; csrf={token}"));
        assert_eq!((conceal(&both), digests(&both).next()), (both.clone(), Some(both.as_str())));
        assert_eq!(reveal(&both).unwrap(), "session=oats; csrf=open barley");
        let bearer = format!("Bearer {token}");
        assert_eq!(conceal(&bearer), bearer);
        for plain in [format!("oats {token}"), format!("{token}{token}"), format!("Bearer oats {token}")] {
            assert!(digests(&conceal(&plain)).eq([conceal(&plain).as_str()]), "{plain}");
        }
        let unknown = "a {secret:0123456789abcdee}";
        assert_eq!(conceal(unknown), unknown);
    }

    #[test]
    fn short_value_is_redacted_only_as_a_word() {
        let digest = conceal("7z");
        assert_eq!(
            redact("X-Auth-Version: 7z -c 17z 7z0 \u{e9}7z"),
            format!("X-Auth-Version: {digest} -c 17z 7z0 \u{e9}7z")
        );
        assert_eq!(redact("7z,7z"), format!("{digest},{digest}"));
    }

    #[test]
    fn headers_with_secrets_are_recognised_by_name() {
        let secret = "Authorization proxy-authorization Cookie Set-Cookie X-Api-Key apikey X-Auth-Token X-CSRF-TOKEN Private-Token \
                      X-Amz-Security-Token X-Hub-Signature-256 X-Client-Secret Password";
        assert!(secret.split(' ').all(is_in_header));
        let plain = "Accept Content-Type Host User-Agent Idempotency-Key Sec-WebSocket-Key Range X-Trace";
        assert!(!plain.split(' ').any(is_in_header));
    }

    #[test]
    fn variables_are_replaced_by_digests_of_their_values() {
        let home = std::env::var("HOME").expect("a test has a home");
        let expanded = expand("a ${HOME} b ${HOME}").unwrap();
        assert!(!expanded.contains(&home) && expanded.starts_with("a {secret:"), "{expanded}");
        assert_eq!(reveal(&expanded).unwrap(), format!("a {home} b {home}"));
        for literal in ["", "$HOME", "${", "${}", "${jndi:x}", "${1A}", "x${HOME"] {
            assert_eq!(expand(literal).as_deref(), Ok(literal));
        }
        assert!(expand("${MUXBENCH_NO_SUCH}").unwrap_err().contains("has no variable MUXBENCH_NO_SUCH; set it"));
    }
}
