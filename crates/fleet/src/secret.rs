//! Mutual authentication of workers. All workers of a job share a secret and never send it. Each side proves that it knows the
//! secret, the connecting side first. A session key, derived from the secret and both nonces, authenticates all later messages.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Random bytes of one side of one session.
pub(super) type Nonce = [u8; 32];
/// Proves that a side knows the secret.
pub(super) type Proof = [u8; 32];
/// The size of a tag in bytes. A tag proves that a message is the next one from the other side of this session.
pub(super) const TAG_BYTES: usize = 32;

/// The minimum length of a strong secret, in bytes. An impostor that a worker contacts can test guesses on the worker's proof.
const BYTES_MIN: usize = 16;

/// The secret that all workers of a job share.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The side of a session that makes a proof or a tag. The HMAC includes the side, so a reflected proof is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    First,
    Other,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Other,
            Self::Other => Self::First,
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            Self::First => b"muxbench fleet: the first rank",
            Self::Other => b"muxbench fleet: another rank",
        }
    }
}

/// All data that the sides exchange before the first proof: the version, the first worker's nonce, and the other worker's hello
/// with its nonce.
pub(super) struct Transcript(Vec<u8>);

impl Transcript {
    /// Different inputs give different bytes: the version ends with a newline, and the nonce has a fixed size.
    pub(super) fn new(version: &str, nonce_of_first: &Nonce, hello: &[u8]) -> Self {
        Self([version.as_bytes(), nonce_of_first, hello].concat())
    }
}

impl Secret {
    /// The secret with this text.
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    pub(super) fn is_short(&self) -> bool {
        self.0.len() < BYTES_MIN
    }

    pub(super) fn prove(&self, side: Side, transcript: &Transcript) -> Proof {
        self.proof(side, transcript).finalize().into_bytes().into()
    }

    /// Verifies a proof in constant time.
    pub(super) fn is_valid(&self, side: Side, transcript: &Transcript, proof: &Proof) -> bool {
        self.proof(side, transcript).verify_slice(proof).is_ok()
    }

    fn proof(&self, side: Side, transcript: &Transcript) -> Hmac<Sha256> {
        hmac(&self.0, &[b"proof of ", side.name(), &transcript.0])
    }

    /// The session key: HKDF (RFC 5869) of the secret, with the transcript as the salt.
    pub(super) fn session_key(&self, transcript: &Transcript) -> Key {
        let extracted = hmac(&transcript.0, &[&self.0]).finalize().into_bytes();
        Key(hmac(&extracted, &[b"muxbench fleet: frames of a session", &[1]]).finalize().into_bytes().into())
    }
}

#[derive(Clone)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn tag(&self, side: Side, number: u64, message: &[u8]) -> [u8; TAG_BYTES] {
        self.mac(side, number, message).finalize().into_bytes().into()
    }

    pub(super) fn is_valid(&self, side: Side, number: u64, message: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.mac(side, number, message).verify_slice(tag).is_ok()
    }

    fn mac(&self, side: Side, number: u64, message: &[u8]) -> Hmac<Sha256> {
        hmac(&self.0, &[&[side as u8], &number.to_le_bytes(), message])
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// New random bytes.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    // All supported systems have /dev/urandom, but some lack getrandom(2).
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_apart_by_version_and_nonce() {
        let secret = Secret::new("open sesame");
        let nonces = [nonce().unwrap(), nonce().unwrap()];
        assert_ne!(nonces[0], nonces[1]);
        let [one, another] = nonces.each_ref().map(|nonce| Transcript::new("version 5\n", nonce, b"rank 3"));
        let proof = secret.prove(Side::Other, &one);
        assert!(secret.is_valid(Side::Other, &one, &proof));
        let older = Transcript::new("version 4\n", &nonces[0], b"rank 3");
        assert!(!secret.is_valid(Side::Other, &older, &proof));
        let tag = secret.session_key(&one).tag(Side::First, 7, b"begin");
        assert!(secret.session_key(&one).is_valid(Side::First, 7, b"begin", &tag), "both sides derive the same key");
        assert!(!secret.session_key(&another).is_valid(Side::First, 7, b"begin", &tag));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
