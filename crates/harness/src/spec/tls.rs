//! `[workload.tls]`: the TLS of an experiment.

use std::path::PathBuf;

use load::check_trusted;
use load::config::TlsConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use server::spec::tls::SERVER_NAME;

use super::requests::read_text;

/// TLS of all connections, except those to `http://` targets. An empty table is enough. Built-in servers make a certificate when they
/// start, which the client trusts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tls {
    /// The file with the trusted certificates of targets and external servers, in PEM format. By default, those of the client's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
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
        TlsConfig { server_name, is_insecure: self.insecure, ca: None, never_resumes: self.full_handshakes }
    }

    /// Returns the client's TLS for a server with a certificate for this name. Reads and checks the trusted certificates; an error
    /// begins with the key, as `cacert: ...`.
    pub(crate) fn client_of(&self, server_name: &str) -> Result<TlsConfig, String> {
        let mut tls = TlsConfig { server_name: server_name.to_owned(), ..self.client() };
        if let Some(file) = &self.cacert {
            let pem = read_text(file).map_err(|reason| format!("cacert: {reason}; name a file in PEM format"))?;
            tls.ca = Some(pem);
            check_trusted(&tls).map_err(|reason| format!("cacert: cannot trust {}: {reason}", file.display()))?;
        }
        Ok(tls)
    }

    /// Returns a phrase for titles.
    pub fn words(&self) -> &'static str {
        if self.full_handshakes { "over TLS with full handshakes" } else { "over TLS" }
    }
}
