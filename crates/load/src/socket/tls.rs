//! TLS over non-blocking sockets. The caller encrypts a request before t2 and decrypts a response after t3, so that its
//! timestamps stay next to the system calls.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, fs, io};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, Error, HandshakeKind, RootCertStore,
    SignatureScheme,
};

use crate::config::{LoadConfig, TlsConfig};
use crate::error::LoadError;

/// The length of a record's content, and the most bytes that encryption usually adds to it.
const RECORD_BYTES: usize = 16 << 10;
const RECORD_OVERHEAD_BYTES: usize = 64;
const READ_BYTES: usize = 16 << 10;

/// The files with the trusted certificates of Debian, Fedora, openSUSE, and all of Alpine, Arch, FreeBSD and macOS.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS of all connections to one server, which share the tickets that resume sessions.
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// Returns the TLS of a configuration; `None` if its connections have none.
    pub fn of(config: &LoadConfig) -> Result<Option<Self>, LoadError> {
        let Some(tls) = config.tls() else { return Ok(None) };
        Self::new(tls).map(Some).map_err(|reason| LoadError::Config(format!("cannot use TLS: {reason}")))
    }

    fn new(tls: &TlsConfig) -> Result<Self, String> {
        let name = ServerName::try_from(tls.server_name.clone());
        let name = name.map_err(|error| format!("invalid host `{}`: {error}; correct the URL", tls.server_name))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let verifier = Arc::new(CertificateVerifier::new(tls, provider)?);
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if tls.never_resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Self { config: Arc::new(config), name })
    }

    /// Starts a session, which sends nothing yet.
    pub fn session(&self) -> io::Result<Session> {
        let connection = UnbufferedClientConnection::new(self.config.clone(), self.name.clone());
        Ok(Session {
            connection: connection.map_err(failed)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            encrypted_bytes: 0,
            has_ended: false,
            handshake: HandshakeState::Pending(None),
        })
    }
}

/// Returns the trusted certificates, and the same as trust anchors.
fn trusted(tls: &TlsConfig) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), String> {
    let (mut certificates, mut roots) = (Vec::new(), RootCertStore::empty());
    if let Some(pem) = &tls.ca {
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let invalid =
                |error: &dyn fmt::Display| format!("invalid certificate in --cacert: {error}; try another file");
            let certificate: CertificateDer<'static> = certificate.map_err(|error| invalid(&error))?;
            roots.add(certificate.clone()).map_err(|error| invalid(&error))?;
            certificates.push(certificate);
        }
    } else if let Some(pem) = ROOTS.iter().find_map(|file| fs::read(file).ok()) {
        // Old certificates of a host's list that no longer parse are no reason to reject the others.
        certificates.extend(CertificateDer::pem_slice_iter(&pem).flatten());
        roots.add_parsable_certificates(certificates.iter().cloned());
    }
    match (roots.is_empty(), &tls.ca) {
        (false, _) => Ok((certificates, roots)),
        (true, Some(_)) => Err("--cacert has no certificate in PEM format; try another file".to_owned()),
        (true, None) => Err("this host has no list of trusted certificates; add --cacert FILE".to_owned()),
    }
}

/// Verifies the server's certificate, whose key must sign the handshake.
#[derive(Debug)]
struct CertificateVerifier {
    provider: Arc<CryptoProvider>,
    /// The trusted certificates, and the verifier against them; `None` if any certificate is accepted.
    trusted: Option<(Vec<CertificateDer<'static>>, Arc<WebPkiServerVerifier>)>,
}

impl CertificateVerifier {
    fn new(tls: &TlsConfig, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        if tls.is_insecure {
            return Ok(Self { provider, trusted: None });
        }
        let (certificates, roots) = trusted(tls)?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        let verifier = verifier.map_err(|error| error.to_string())?;
        Ok(Self { provider, trusted: Some((certificates, verifier)) })
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((certificates, verifier)) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // OpenSSL marks self-signed certificates as authorities, which webpki rejects as servers after the check of their
            // dates. The user trusts this very certificate, so only its names remain to be checked.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if certificates.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A complete handshake.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// Whether it resumed an earlier session.
    pub is_resumed: bool,
    /// The time from the client's first message to its last, in nanoseconds.
    pub elapsed_ns: u64,
    pub cipher: CipherSuite,
}

/// The condition that continues a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    Nothing,
    Readable,
    Writable,
}

/// The state of a handshake.
enum HandshakeState {
    /// Not complete; with the time of the first message, once it is sent.
    Pending(Option<Instant>),
    Complete(Option<Handshake>),
}

/// The state of a connection after its records are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processed {
    Open,
    /// The handshake needs further bytes.
    Handshaking,
    /// The server announced the end of the connection.
    Ended,
}

/// TLS of one connection.
pub struct Session {
    connection: UnbufferedClientConnection,
    /// The received part of an incomplete record.
    incoming: Vec<u8>,
    /// Encrypted bytes that the socket has not accepted.
    outgoing: Vec<u8>,
    /// The number of plain bytes in `outgoing` that [`Session::write`] has not reported as written.
    encrypted_bytes: usize,
    has_ended: bool,
    handshake: HandshakeState,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// Returns the handshake once it is complete, and then no more.
    pub fn take_handshake(&mut self) -> Option<Handshake> {
        match &mut self.handshake {
            HandshakeState::Pending(_) => None,
            HandshakeState::Complete(handshake) => handshake.take(),
        }
    }

    /// Whether the server has announced the end of the connection.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Continues the handshake without blocking.
    pub fn continue_handshake(&mut self, io: BorrowedFd<'_>) -> io::Result<Awaits> {
        let HandshakeState::Pending(mut begun) = self.handshake else { return Ok(Awaits::Nothing) };
        loop {
            let processed = self.process(&mut Vec::new())?;
            let (now, unsent_bytes) = (Instant::now(), self.outgoing.len());
            let is_sent = self.flush(io)?;
            if self.outgoing.len() < unsent_bytes {
                self.handshake = HandshakeState::Pending(Some(*begun.get_or_insert(now)));
            }
            match processed {
                _ if !is_sent => return Ok(Awaits::Writable),
                Processed::Open => break,
                Processed::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
                Processed::Handshaking => {}
            }
            self.incoming.reserve(READ_BYTES);
            match rustix::io::read(io, spare_capacity(&mut self.incoming)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Awaits::Readable),
                Err(error) => return Err(error.into()),
            }
        }
        let handshake = begun.zip(self.connection.negotiated_cipher_suite()).map(|(begun, suite)| Handshake {
            is_resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            elapsed_ns: begun.elapsed().as_nanos() as u64,
            cipher: suite.suite(),
        });
        self.handshake = HandshakeState::Complete(handshake);
        Ok(Awaits::Nothing)
    }

    /// Replaces received bytes by their decrypted content. Returns whether the server may send more.
    pub fn decrypt(&mut self, inbox: &mut Vec<u8>) -> io::Result<bool> {
        self.incoming.extend_from_slice(inbox);
        inbox.clear();
        self.process(inbox).map(|processed| processed != Processed::Ended)
    }

    /// Processes all complete records of `incoming`. Appends their content to `plain`, and the answers of TLS to `outgoing`.
    fn process(&mut self, plain: &mut Vec<u8>) -> io::Result<Processed> {
        let mut at = 0;
        let processed = loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut self.incoming[at..]);
            let processed = match state.map_err(failed)? {
                ConnectionState::ReadTraffic(mut records) => {
                    while let Some(record) = records.next_record() {
                        let record = record.map_err(failed)?;
                        discard += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    None
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let start = self.outgoing.len();
                    if let Err(EncodeError::InsufficientSize(error)) = data.encode(&mut []) {
                        self.outgoing.resize(start + error.required_size, 0);
                        data.encode(&mut self.outgoing[start..]).map_err(io::Error::other)?;
                    }
                    None
                }
                ConnectionState::TransmitTlsData(data) => {
                    // `outgoing` keeps the bytes until the socket accepts them.
                    data.done();
                    None
                }
                ConnectionState::BlockedHandshake => Some(Processed::Handshaking),
                ConnectionState::PeerClosed | ConnectionState::Closed => Some(Processed::Ended),
                _ => Some(Processed::Open),
            };
            at += discard;
            if let Some(processed) = processed {
                break processed;
            }
        };
        self.incoming.drain(..at);
        self.has_ended |= processed == Processed::Ended;
        Ok(processed)
    }

    /// Encrypts bytes for [`Session::write`], which reports a failure.
    pub fn encrypt(&mut self, bytes: &[u8]) {
        // `incoming` has no complete record, so only a failed connection has another state.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else { return };
        let start = self.outgoing.len();
        let mut room = bytes.len() + (bytes.len() / RECORD_BYTES + 1) * RECORD_OVERHEAD_BYTES;
        let count = loop {
            self.outgoing.resize(start + room, 0);
            match traffic.encrypt(bytes, &mut self.outgoing[start..]) {
                Ok(count) => break count,
                // Messages of TLS precede the bytes.
                Err(EncryptError::InsufficientSize(error)) if error.required_size > room => room = error.required_size,
                Err(_) => break 0,
            }
        };
        self.outgoing.truncate(start + count);
        self.encrypted_bytes = if count == 0 { 0 } else { bytes.len() };
    }

    /// Writes the bytes of the last [`Session::encrypt`], or encrypts these bytes first. Returns their number once the socket has
    /// accepted all. After [`Errno::AGAIN`], a call with the same bytes continues.
    pub fn write(&mut self, io: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        if self.encrypted_bytes == 0 {
            self.encrypt(bytes);
        }
        if self.encrypted_bytes == 0 {
            return Err(Errno::PROTO);
        }
        let is_sent = self.flush(io)?;
        if is_sent { Ok(std::mem::take(&mut self.encrypted_bytes)) } else { Err(Errno::AGAIN) }
    }

    /// Writes `outgoing`. Returns whether the socket has accepted all.
    fn flush(&mut self, io: BorrowedFd<'_>) -> Result<bool, Errno> {
        while !self.outgoing.is_empty() {
            match rustix::io::write(io, &self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error)
}
