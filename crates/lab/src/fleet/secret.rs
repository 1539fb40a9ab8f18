//! How ranks know each other: by a secret of their job, which is never sent. Each side answers a challenge of the other's.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A challenge.
pub(super) type Nonce = [u8; 32];
/// An answer to one.
pub(super) type Proof = [u8; 32];

/// What all ranks of a job know, and nobody else should.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Who proves that it knows the secret: an answer of one side is none of the other's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    First,
    Other,
}

impl Secret {
    /// Made of a text.
    pub fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// What a side that knows it answers to a challenge, for a rank.
    pub(super) fn prove(&self, side: Side, nonce: &Nonce, rank: u32) -> Proof {
        self.mac(side, nonce, rank).finalize().into_bytes().into()
    }

    /// Whether an answer is right; how much of it is takes no time to tell.
    pub(super) fn is_proven(&self, side: Side, nonce: &Nonce, rank: u32, proof: &Proof) -> bool {
        self.mac(side, nonce, rank).verify_slice(proof).is_ok()
    }

    fn mac(&self, side: Side, nonce: &Nonce, rank: u32) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.update(match side {
            Side::First => b"muxbench fleet: the first rank",
            Side::Other => b"muxbench fleet: another rank",
        });
        mac.update(nonce);
        mac.update(&rank.to_le_bytes());
        mac
    }
}

/// A challenge that nobody has seen before.
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
    fn only_who_knows_the_secret_answers_right() {
        let (secret, other) = (Secret::new("open sesame"), Secret::new("open"));
        let (here, there) = (nonce().unwrap(), nonce().unwrap());
        assert_ne!(here, there);
        let proof = secret.prove(Side::Other, &here, 3);
        let is_proven = |secret: &Secret, side, nonce, rank| secret.is_proven(side, nonce, rank, &proof);
        assert!(is_proven(&secret, Side::Other, &here, 3));
        assert!(!is_proven(&other, Side::Other, &here, 3));
        assert!(!is_proven(&secret, Side::First, &here, 3), "the challenger's own answer sent back to it");
        assert!(!is_proven(&secret, Side::Other, &there, 3));
        assert!(!is_proven(&secret, Side::Other, &here, 4));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
