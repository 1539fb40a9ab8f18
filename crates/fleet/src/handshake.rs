//! Mutual authentication of two workers. The connecting side first proves that it knows the job's secret. A stranger that
//! connects must receive no data derived from the secret. With such data it could guess a weak secret offline.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail};
use harness::deadline_stream::DeadlineStream;

use super::channel::Session;
use super::launcher::Membership;
use super::message::{self, HandshakeMessage, Hello};
use super::secret::{self, Key, Proof, Side, Transcript};
use super::{identity, round_trip};

/// The version of the messages. Increase it when they change.
const PROTOCOL: u32 = 1;
/// The maximum number of characters of a refusal that an error shows. A stranger may have sent the refusal.
const REFUSAL_CHARACTERS_MAX: usize = 200;
const SAME_SECRET: &str = "set MUXBENCH_SECRET to the same text in all workers";

/// A peer that has proven that it knows the secret.
pub(super) struct Authenticated {
    pub(super) hello: Hello,
    /// This side's proof. Send it only to an accepted worker.
    pub(super) proof: Proof,
    pub(super) key: Key,
}

/// Authenticates a peer that connected to the first worker. Until it has verified the peer's proof, it sends no data derived
/// from the secret and does not parse the hello.
pub(super) fn accept(stream: &TcpStream, membership: &Membership, timeout: Duration) -> anyhow::Result<Authenticated> {
    stream.set_nonblocking(false)?;
    let mut stream = DeadlineStream::within(stream, round_trip::handshake_timeout(stream, timeout));
    compare_versions(&mut stream)?;
    let nonce = secret::nonce()?;
    HandshakeMessage::Challenge { nonce }.send(&mut stream)?;
    let HandshakeMessage::Claim { hello, proof } = HandshakeMessage::receive(&mut stream)? else {
        bail!("it does not identify itself")
    };
    let transcript = Transcript::new(&preamble(), &nonce, &hello);
    if !membership.secret.is_valid(Side::Other, &transcript, &proof) {
        let reason = format!("this job has another secret; {SAME_SECRET}");
        HandshakeMessage::Refused { reason }.send(&mut stream)?;
        bail!("it does not know this job's secret");
    }
    let proof = membership.secret.prove(Side::First, &transcript);
    Ok(Authenticated { hello: message::decode(&hello)?, proof, key: membership.secret.session_key(&transcript) })
}

/// Identifies this worker to the first worker, and authenticates the first worker.
pub(super) fn connect(stream: TcpStream, membership: &Membership, timeout: Duration) -> anyhow::Result<Session> {
    let mut timed = DeadlineStream::within(&stream, round_trip::handshake_timeout(&stream, timeout));
    compare_versions(&mut timed)?;
    let HandshakeMessage::Challenge { nonce } = HandshakeMessage::receive(&mut timed)? else {
        bail!("it sends an unexpected message")
    };
    let hello = postcard::to_stdvec(&identity::hello(membership.rank, membership.ranks, secret::nonce()?))?;
    let transcript = Transcript::new(&preamble(), &nonce, &hello);
    let proof = membership.secret.prove(Side::Other, &transcript);
    HandshakeMessage::Claim { hello, proof }.send(&mut timed)?;
    match HandshakeMessage::receive(&mut timed)? {
        HandshakeMessage::Welcome { proof } if membership.secret.is_valid(Side::First, &transcript, &proof) => {
            Ok(Session { stream, key: membership.secret.session_key(&transcript), side: Side::Other })
        }
        HandshakeMessage::Welcome { .. } => bail!("it does not know this job's secret; {SAME_SECRET}"),
        HandshakeMessage::Refused { reason } => {
            let reason: String = reason.chars().take(REFUSAL_CHARACTERS_MAX).flat_map(char::escape_debug).collect();
            bail!("it refuses: {reason}")
        }
        HandshakeMessage::Challenge { .. } | HandshakeMessage::Claim { .. } => bail!("it sends an unexpected message"),
    }
}

/// The line that each side sends first. It states the version, because messages differ between versions.
fn preamble() -> String {
    format!("muxbench {} protocol {PROTOCOL}\n", env!("CARGO_PKG_VERSION"))
}

/// Checks that the peer is muxbench of the same version.
fn compare_versions(stream: &mut (impl Read + Write)) -> anyhow::Result<()> {
    let ours = preamble();
    stream.write_all(ours.as_bytes()).context("cannot send the version")?;
    let mut theirs = Vec::new();
    while theirs.len() < 64 && theirs.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("it sends no version")?;
        theirs.push(byte[0]);
    }
    if theirs == ours.as_bytes() {
        return Ok(());
    }
    let theirs = String::from_utf8_lossy(&theirs);
    match theirs.strip_prefix("muxbench ") {
        Some(_) => bail!("it is {}, and this is {}; use the same version everywhere", theirs.trim(), ours.trim()),
        None => bail!("it is not muxbench: it sends `{}`", theirs.trim().escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use testkit::pair;

    use super::super::secret::{Nonce, Secret};
    use super::super::workers::tests::{LONG, membership};
    use super::*;

    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[test]
    fn worker_with_another_secret_learns_the_reason() {
        let (listener, port) = listener();
        let first = thread::spawn(move || {
            accept(&listener.accept().unwrap().0, &membership(0, port, "open sesame"), LONG).map(drop)
        });
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let why = connect(stream, &membership(1, port, "open"), LONG).err().unwrap().to_string();
        assert!(why.contains("this job has another secret; set MUXBENCH_SECRET"), "{why}");
        let why = first.join().unwrap().unwrap_err().to_string();
        assert!(why.contains("does not know this job's secret"), "{why}");
    }

    /// The bytes that arrive until the first worker closes the connection or is silent for 2 s.
    fn received_by_a_stranger(mut stream: &TcpStream) -> Vec<u8> {
        let mut received = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let _ = Read::read_to_end(&mut stream, &mut received);
        received
    }

    fn hello(nonce: Nonce) -> Vec<u8> {
        postcard::to_stdvec(&identity::hello(1, 3, nonce)).unwrap()
    }

    /// Lets a stranger answer the challenge of a first worker whose secret is "open sesame". Returns what the stranger
    /// receives, and whether the first worker accepts the stranger.
    fn handshake_with_a_stranger(claim: impl FnOnce(Nonce) -> HandshakeMessage) -> (Vec<u8>, bool) {
        let (listener, port) = listener();
        let membership = membership(0, port, "open sesame");
        let first = thread::spawn(move || accept(&listener.accept().unwrap().0, &membership, LONG).map(drop));
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        compare_versions(&mut stream).unwrap();
        let HandshakeMessage::Challenge { nonce } = HandshakeMessage::receive(&mut stream).unwrap() else {
            panic!("no challenge")
        };
        claim(nonce).send(&mut stream).unwrap();
        let received = [&nonce[..], &received_by_a_stranger(&stream)].concat();
        (received, first.join().unwrap().is_ok())
    }

    #[test]
    fn stranger_receives_nothing_derived_from_the_secret() {
        let (mut challenge, hello) = ([0; 32], hello([7; 32]));
        let (received, is_accepted) = handshake_with_a_stranger(|nonce| {
            challenge = nonce;
            HandshakeMessage::Claim { hello: hello.clone(), proof: [7; 32] }
        });
        assert!(!is_accepted && received.len() > challenge.len(), "the stranger receives a refusal");
        let transcript = Transcript::new(&preamble(), &challenge, &hello);
        for side in [Side::First, Side::Other] {
            let made = Secret::new("open sesame").prove(side, &transcript);
            assert!(
                !received.windows(made.len()).any(|it| it == made),
                "the stranger could test guesses of the secret"
            );
        }
    }

    #[test]
    fn claim_is_valid_for_one_challenge_and_one_hello() {
        let claim = |sent: Vec<u8>, nonce, proven: &[u8]| {
            let transcript = Transcript::new(&preamble(), &nonce, proven);
            HandshakeMessage::Claim { hello: sent, proof: Secret::new("open sesame").prove(Side::Other, &transcript) }
        };
        let hello = hello([7; 32]);
        assert!(handshake_with_a_stranger(|nonce| claim(hello.clone(), nonce, &hello)).1);
        assert!(
            !handshake_with_a_stranger(|_| claim(hello.clone(), [7; 32], &hello)).1,
            "a claim from another session is invalid"
        );
        for at in [0, 1, hello.len() / 2, hello.len() - 1] {
            let mut changed = hello.clone();
            changed[at] ^= 1;
            assert!(!handshake_with_a_stranger(|nonce| claim(changed, nonce, &hello)).1, "byte {at}");
        }
    }

    #[test]
    fn worker_rejects_a_first_worker_without_proof() {
        let secret = || Secret::new("open sesame");
        // The impostor returns the worker's own proof, or sends an arbitrary one.
        for is_reflected in [true, false] {
            let (listener, port) = listener();
            let impostor = thread::spawn(move || {
                let mut stream = listener.accept().unwrap().0;
                compare_versions(&mut stream).unwrap();
                HandshakeMessage::Challenge { nonce: [7; 32] }.send(&mut stream).unwrap();
                let HandshakeMessage::Claim { hello, proof } = HandshakeMessage::receive(&mut stream).unwrap() else {
                    panic!("no claim")
                };
                let transcript = Transcript::new(&preamble(), &[7; 32], &hello);
                assert!(secret().is_valid(Side::Other, &transcript, &proof));
                let proof = if is_reflected { proof } else { [7; 32] };
                HandshakeMessage::Welcome { proof }.send(&mut stream).unwrap();
            });
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let why = connect(stream, &membership(1, port, "open sesame"), LONG).err().unwrap().to_string();
            assert!(why.contains("does not know this job's secret; set MUXBENCH_SECRET"), "{why}");
            impostor.join().unwrap();
        }
    }

    #[test]
    fn peer_of_another_version_is_refused() {
        for (theirs, why) in [
            ("muxbench 0.0.1 protocol 1\n", "use the same version"),
            (concat!("muxbench ", env!("CARGO_PKG_VERSION"), " protocol 4\n"), "use the same version"),
            ("SSH-2.0\u{1b}\n", r"is not muxbench: it sends `SSH-2.0\u{1b}`"),
        ] {
            let (mut near, mut far) = pair();
            far.write_all(theirs.as_bytes()).unwrap();
            assert!(compare_versions(&mut near).unwrap_err().to_string().contains(why), "{theirs}");
        }
        let (mut near, mut far) = pair();
        far.write_all(preamble().as_bytes()).unwrap();
        compare_versions(&mut near).unwrap();
        compare_versions(&mut far).unwrap();
    }
}
