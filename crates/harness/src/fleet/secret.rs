//! How ranks know each other: by a secret of their job, which is never sent. Each side proves that it knows the secret, the
//! connecting side first; a key of the session, made of the secret and of both sides' nonces, seals every frame after that.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Random bytes of one side of one session.
pub(super) type Nonce = [u8; 32];
/// Shows that a side knows the secret.
pub(super) type Proof = [u8; 32];
/// Shows that a frame is of the other side, of this session, and the next one.
pub(super) type Tag = [u8; TAG_BYTES];
pub(super) const TAG_BYTES: usize = 32;

/// A secret with fewer characters can be found by trying, even if they are random: one who gets a rank to connect has a proof
/// to try them on.
const CHARACTERS_MIN: usize = 16;

/// What all ranks of a job know, and nobody else should.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The side that proves or says something: words of one side are none of the other's.
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

/// Everything that both sides have said before the first proof: both versions, which are the same, the first rank's nonce, and
/// the other's hello with its nonce.
pub(super) struct Transcript(Vec<u8>);

impl Transcript {
    /// The version ends with its line, and the nonce has a fixed size, so no two transcripts have the same bytes.
    pub(super) fn new(version: &str, nonce_of_first: &Nonce, hello: &[u8]) -> Self {
        Self([version.as_bytes(), nonce_of_first, hello].concat())
    }
}

impl Secret {
    /// Made of a text.
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// Whether somebody may find it by trying.
    pub(super) fn is_short(&self) -> bool {
        self.0.len() < CHARACTERS_MIN
    }

    /// A side's proof that it knows the secret.
    pub(super) fn prove(&self, side: Side, transcript: &Transcript) -> Proof {
        self.proof(side, transcript).finalize().into_bytes().into()
    }

    /// Whether a proof is right, in a time that does not depend on how much of it is.
    pub(super) fn is_proven(&self, side: Side, transcript: &Transcript, proof: &Proof) -> bool {
        self.proof(side, transcript).verify_slice(proof).is_ok()
    }

    fn proof(&self, side: Side, transcript: &Transcript) -> Hmac<Sha256> {
        hmac(&self.0, &[b"proof of ", side.name(), &transcript.0])
    }

    /// The session's key: HKDF (RFC 5869) of the secret, with the transcript as the salt.
    pub(super) fn session(&self, transcript: &Transcript) -> Key {
        let extracted = hmac(&transcript.0, &[&self.0]).finalize().into_bytes();
        Key(hmac(&extracted, &[b"muxbench fleet: frames of a session", &[1]]).finalize().into_bytes().into())
    }
}

/// A session's key.
#[derive(Clone)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// The tag of the frame that a side says as its `number`th.
    pub(super) fn seal(&self, side: Side, number: u64, frame: &[u8]) -> Tag {
        self.tag(side, number, frame).finalize().into_bytes().into()
    }

    /// Whether a frame is the one that this side has said as its `number`th.
    pub(super) fn is_sealed(&self, side: Side, number: u64, frame: &[u8], tag: &Tag) -> bool {
        self.tag(side, number, frame).verify_slice(tag).is_ok()
    }

    fn tag(&self, side: Side, number: u64, frame: &[u8]) -> Hmac<Sha256> {
        hmac(&self.0, &[&[side as u8], &number.to_le_bytes(), frame])
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Random bytes that nobody has seen before.
///
/// # Errors
/// When the system gives no random numbers.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    // Every system has it, which is not so of getrandom(2).
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_is_right_for_its_secret_side_and_transcript_alone() {
        let (secret, other) = (Secret::new("open sesame"), Secret::new("open"));
        let (here, there) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(here, there);
        let said = |version: &str, nonce, hello: &[u8]| Transcript::new(version, nonce, hello);
        let transcript = said("version 5\n", &here, b"rank 3");
        let proof = secret.prove(Side::Other, &transcript);
        let is_proven = |secret: &Secret, side, transcript: &Transcript| secret.is_proven(side, transcript, &proof);
        assert!(is_proven(&secret, Side::Other, &transcript));
        assert!(!is_proven(&other, Side::Other, &transcript));
        assert!(!is_proven(&secret, Side::First, &transcript), "a proof sent back to the side that made it");
        for changed in [
            said("version 4\n", &here, b"rank 3"),
            said("version 5\n", &there, b"rank 3"),
            said("version 5\n", &here, b"rank 4"),
        ] {
            assert!(!is_proven(&secret, Side::Other, &changed));
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn tag_is_right_for_its_session_side_number_and_frame_alone() {
        let secret = Secret::new("open sesame");
        let (one, another) = ([1; 32], [2; 32]);
        let session = |nonce| secret.session(&Transcript::new("version 5\n", nonce, b"rank 3"));
        let key = session(&one);
        let tag = key.seal(Side::First, 7, b"begin");
        assert!(key.is_sealed(Side::First, 7, b"begin", &tag));
        assert!(session(&one).is_sealed(Side::First, 7, b"begin", &tag), "both sides make the same key");
        assert!(!session(&another).is_sealed(Side::First, 7, b"begin", &tag));
        assert!(!key.is_sealed(Side::Other, 7, b"begin", &tag));
        assert!(!key.is_sealed(Side::First, 8, b"begin", &tag));
        assert!(!key.is_sealed(Side::First, 7, b"begi", &tag));
    }
}
