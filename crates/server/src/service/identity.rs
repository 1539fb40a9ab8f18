//! The certificate and the key of a server with TLS: from files, or made when the server starts.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use wire::Address;

use crate::regular;
use crate::spec::tls::{CertificateFiles, SERVER_NAME, Tls};

/// The names in a certificate that the server makes, besides the address that it listens on.
const NAMES: [&str; 3] = [SERVER_NAME, "127.0.0.1", "::1"];

/// The longest session in a ticket. Sessions without certificates of clients have some hundred bytes.
const TICKET_BYTES_MAX: usize = 4096;

/// The TLS of a server.
pub(crate) struct Identity {
    /// The configuration that all connections share, with the key that encrypts tickets. Threads and children resume each other's
    /// sessions.
    pub(crate) config: Arc<ServerConfig>,
    /// The certificates in PEM format.
    pub(crate) certificates: String,
}

impl Identity {
    /// Reads the files, or makes a key and a self-signed certificate for a server at this address.
    pub(crate) fn new(tls: &Tls, listen: &Address) -> io::Result<Self> {
        let (certificates, key) = match &tls.files {
            Some(CertificateFiles { certificate, key }) => {
                let read = |path: &Path| {
                    let text = regular::open(path).and_then(io::read_to_string);
                    text.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
                };
                (read(certificate)?, read(key)?)
            }
            None => {
                let address = listen.ip().map(|address| address.ip().to_string());
                let names: Vec<String> = NAMES.map(str::to_owned).into_iter().chain(address).collect();
                let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
                (made.cert.pem(), made.signing_key.serialize_pem())
            }
        };
        let config = configure(&certificates, &key).map_err(io::Error::other)?;
        Ok(Self { config: Arc::new(config), certificates })
    }
}

fn configure(certificates: &str, key: &str) -> Result<ServerConfig, Box<dyn Error + Send + Sync>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("invalid certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| format!("invalid key: {error}"))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    // Tickets without state on the server: a connection may resume in another process.
    config.ticketer = ring::Ticketer::new()?;
    // The ticketer accepts no ticket that is longer than those it has made, and a child begins with the tickets made before its fork.
    config.ticketer.encrypt(&[0; TICKET_BYTES_MAX]).ok_or("no random numbers for tickets")?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // Later connections cannot fail.
    UnbufferedServerConnection::new(Arc::new(config.clone()))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_makes_its_own_certificate() {
        let address = ([10, 0, 0, 1], 80).into();
        let [one, other] = [(); 2].map(|()| Identity::new(&Tls::default(), &address).unwrap().certificates);
        assert!(one.starts_with("-----BEGIN CERTIFICATE-----") && !one.contains("PRIVATE") && one != other);
    }

    #[test]
    fn unusable_files_are_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["certificate", "key"].map(|name| folder.path().join(name));
        let tls = Tls { files: Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() }) };
        let error = || Identity::new(&tls, &([127, 0, 0, 1], 0).into()).map(drop).unwrap_err().to_string();
        assert!(error().contains("certificate: No such file"), "{}", error());
        std::fs::write(&certificate, Identity::new(&Tls::default(), &([127, 0, 0, 1], 0).into()).unwrap().certificates)
            .unwrap();
        std::fs::write(&key, "no key").unwrap();
        assert!(error().contains("invalid key"), "{}", error());
        let stranger = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, stranger.serialize_pem()).unwrap();
        assert!(error().contains("KeyMismatch"), "{}", error());
    }
}
