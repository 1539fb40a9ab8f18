//! `[workload.tls]`: the TLS of an experiment.

use std::path::{Path, PathBuf};

use load::config::{Identity, TlsConfig};
use load::{check_identity, check_trusted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::spec::tls::SERVER_NAME;
use wire::secret;

use super::requests::read_text;

/// TLS of all connections, except those to `http://` targets. An empty table is enough. Built-in servers make a certificate when they
/// start, which the client trusts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tls {
    /// The file with the trusted certificates of targets and external servers, in PEM format. By default, those of the client's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// The file with the certificate that the client shows, in PEM format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The file with the key of that certificate, in PEM format. By default, the key is in the file of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether the client accepts any certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Whether each connection makes a full handshake instead of resuming a session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full_handshakes: bool,
}

impl Tls {
    /// Returns the client's TLS for a server that makes its certificate.
    pub(super) fn client(&self) -> TlsConfig {
        let server_name = SERVER_NAME.to_owned();
        TlsConfig {
            server_name,
            is_insecure: self.insecure,
            never_resumes: self.full_handshakes,
            ..TlsConfig::default()
        }
    }

    /// Returns the client's TLS for a server with a certificate for this name. Reads and checks the files; an error begins with the key,
    /// as `cacert: ...`.
    pub(crate) fn client_of(&self, server_name: &str) -> Result<TlsConfig, String> {
        let mut tls = TlsConfig { server_name: server_name.to_owned(), ..self.client() };
        if let Some(file) = &self.cacert {
            let pem = read_text(file).map_err(|reason| format!("cacert: {reason}; name a file in PEM format"))?;
            tls.ca = Some(pem);
            check_trusted(&tls).map_err(|reason| format!("cacert: cannot trust {}: {reason}", file.display()))?;
        }
        tls.identity = self.identity()?;
        Ok(tls)
    }

    /// Reads the client's certificate and its key, which is a secret from here on. An error begins with the key, as `cert: ...`.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, String> {
        let Some(cert) = &self.cert else {
            return match self.key {
                Some(_) => Err("key: it belongs to a certificate; add cert (--cert)".to_owned()),
                None => Ok(None),
            };
        };
        let read = |key: &str, file: &Path| {
            read_text(file).map_err(|reason| format!("{key}: {reason}; name a file in PEM format"))
        };
        let certificates = read("cert", cert)?;
        let key = match &self.key {
            Some(file) => read("key", file)?,
            None => certificates.clone(),
        };
        // Without the key that the same file may have.
        let end = "-----END CERTIFICATE-----";
        let parts = certificates.match_indices("-----BEGIN CERTIFICATE-----");
        let parts = parts.filter_map(|(at, _)| Some(&certificates[at..at + certificates[at..].find(end)? + end.len()]));
        let certificates: String = parts.flat_map(|part| [part, "\n"]).collect();
        let identity = Identity { certificates, key: secret::conceal(&key) };
        check_identity(&identity).map_err(|reason| format!("cert: {}: {reason}", cert.display()))?;
        Ok(Some(identity))
    }

    /// Returns a phrase for titles.
    pub fn words(&self) -> &'static str {
        if self.full_handshakes { "over TLS with full handshakes" } else { "over TLS" }
    }
}
