//! TLS over non-blocking sockets. The caller encrypts a request before t2 and decrypts a response after t3, so that its
//! timestamps stay next to the system calls.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fmt, fs, io};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, Error, HandshakeKind, RootCertStore,
    SignatureScheme,
};
use wire::secret;
use wire::tls::{RecordLayer, TlsState};

use crate::config::{Identity, LoadConfig, TlsConfig};
use crate::error::LoadError;

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
        let Some(tls) = &config.client.tls else { return Ok(None) };
        // Only HTTP has a name for the negotiation of protocols.
        let protocols = config.http.iter().map(|_| b"http/1.1".to_vec()).collect();
        Self::new(tls, protocols).map(Some).map_err(|reason| LoadError::Config(format!("cannot use TLS: {reason}")))
    }

    fn new(tls: &TlsConfig, protocols: Vec<Vec<u8>>) -> Result<Self, String> {
        let name = ServerName::try_from(tls.server_name.clone());
        let name = name.map_err(|error| format!("invalid host `{}`: {error}; correct the URL", tls.server_name))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let verifier = Arc::new(CertificateVerifier::new(tls, provider)?);
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &tls.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = certified_key(identity, &ring::default_provider())?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
        };
        config.alpn_protocols = protocols;
        if tls.never_resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Self { config: Arc::new(config), name })
    }

    /// Starts a session, which sends nothing yet.
    pub fn session(&self) -> io::Result<Session> {
        let connection = UnbufferedClientConnection::new(self.config.clone(), self.name.clone());
        Ok(Session {
            records: RecordLayer::new(connection.map_err(failed)?),
            encrypted_bytes: 0,
            has_ended: false,
            handshake: HandshakeState::Pending(None),
        })
    }
}

/// Checks the trusted certificates of a configuration that lists them. The error has a remedy.
pub fn check_trusted(tls: &TlsConfig) -> Result<(), String> {
    if tls.ca.is_some() { trusted(tls).map(drop) } else { Ok(()) }
}

/// Checks a certificate of the client and its key. The error has a remedy.
pub fn check_identity(identity: &Identity) -> Result<(), String> {
    certified_key(identity, &ring::default_provider()).map(drop)
}

fn certified_key(identity: &Identity, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let certificates = CertificateDer::pem_slice_iter(identity.certificates.as_bytes()).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("invalid certificate: {error}; try another file"))?;
    if certificates.is_empty() {
        return Err("no certificate in PEM format; try another file".to_owned());
    }
    let key = secret::reveal(&identity.key).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| match key.contains("ENCRYPTED") {
        true => "the key is encrypted; decrypt it (openssl pkey -in KEY -out PLAIN)".to_owned(),
        false => format!("no key in PEM format: {error}; name its file with --key"),
    })?;
    CertifiedKey::from_der(certificates, key, provider)
        .map_err(|error| format!("cannot use the key: {error}; name the key of this certificate with --key"))
}

/// Returns the certificates that the host trusts. The variable `SSL_CERT_FILE`, if it is set, names another list of them.
fn host_list(variable: Option<OsString>) -> Result<Option<Vec<u8>>, String> {
    match variable.filter(|file| !file.is_empty()) {
        Some(file) => fs::read(&file).map(Some).map_err(|error| {
            format!("SSL_CERT_FILE: cannot read {}: {error}; correct or unset the variable", file.display())
        }),
        None => Ok(ROOTS.iter().find_map(|file| fs::read(file).ok())),
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
    } else if let Some(pem) = host_list(env::var_os("SSL_CERT_FILE"))? {
        // Old certificates of a host's list that no longer parse are no reason to reject the others.
        certificates.extend(CertificateDer::pem_slice_iter(&pem).flatten());
        roots.add_parsable_certificates(certificates.iter().cloned());
    }
    match (roots.is_empty(), &tls.ca) {
        (false, _) => Ok((certificates, roots)),
        (true, Some(_)) => Err("--cacert has no certificate in PEM format; try another file".to_owned()),
        (true, None) => {
            Err("no list of this host has trusted certificates; add --cacert FILE, or set SSL_CERT_FILE".to_owned())
        }
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

/// TLS of one connection.
pub struct Session {
    records: RecordLayer<UnbufferedClientConnection>,
    /// The number of plain bytes in the outgoing records that [`Session::write`] has not reported as written.
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
        let mut received = Vec::new();
        loop {
            // A server sends no content before the first request.
            let progress = self.process(&mut Vec::new());
            let (now, unsent_bytes) = (Instant::now(), self.records.outgoing.len());
            // After an error, this sends an alert.
            let sent = self.flush(io);
            let (progress, is_sent) = (progress?, sent?);
            if self.records.outgoing.len() < unsent_bytes {
                self.handshake = HandshakeState::Pending(Some(*begun.get_or_insert(now)));
            }
            match progress {
                _ if !is_sent => return Ok(Awaits::Writable),
                TlsState::Open => break,
                TlsState::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
                TlsState::Handshaking => {}
            }
            received.clear();
            received.reserve(READ_BYTES);
            match rustix::net::recv(io, spare_capacity(&mut received), RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.records.feed(&received),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Awaits::Readable),
                Err(error) => return Err(error.into()),
            }
        }
        let connection = self.records.connection();
        let handshake = begun.zip(connection.negotiated_cipher_suite()).map(|(begun, suite)| Handshake {
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            elapsed_ns: begun.elapsed().as_nanos() as u64,
            cipher: suite.suite(),
        });
        self.handshake = HandshakeState::Complete(handshake);
        Ok(Awaits::Nothing)
    }

    /// Replaces received bytes by their decrypted content. Returns whether the server may send more.
    pub fn decrypt(&mut self, inbox: &mut Vec<u8>) -> io::Result<bool> {
        self.records.feed(inbox);
        inbox.clear();
        self.process(inbox).map(|progress| progress != TlsState::Ended)
    }

    /// Processes all complete records, and appends their content to `plain`.
    fn process(&mut self, plain: &mut Vec<u8>) -> io::Result<TlsState> {
        let progress = self.records.process(|content| plain.extend_from_slice(content)).map_err(failed)?;
        self.has_ended |= progress == TlsState::Ended;
        Ok(progress)
    }

    /// Encrypts bytes for [`Session::write`], which reports a failure.
    pub fn encrypt(&mut self, bytes: &[u8]) {
        self.encrypted_bytes = if self.records.encrypt(bytes) { bytes.len() } else { 0 };
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

    /// Writes the outgoing records. Returns whether the socket has accepted all.
    fn flush(&mut self, io: BorrowedFd<'_>) -> Result<bool, Errno> {
        let outgoing = &mut self.records.outgoing;
        while !outgoing.is_empty() {
            match rustix::net::send(io, &outgoing[..], SendFlags::empty()) {
                Ok(count) => drop(outgoing.drain(..count)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_replaces_the_list_of_the_host() {
        let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/other.pem");
        assert_eq!(host_list(Some(list.into())), Ok(fs::read(list).ok()));
        assert_eq!(host_list(Some(OsString::new())), host_list(None), "an empty variable is not set");
        let error = host_list(Some("/nonexistent".into())).unwrap_err();
        assert!(error.starts_with("SSL_CERT_FILE: cannot read /nonexistent: "), "{error}");
    }
}
