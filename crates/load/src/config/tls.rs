//! TLS of the client's connections as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS of the client's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsConfig {
    /// The name in the server's certificate: a host name or an IP address.
    pub server_name: String,
    /// Whether the client accepts any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_insecure: bool,
    /// The trusted certificates in PEM format; by default, those of the client's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The certificate that the client shows if the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Whether every connection makes a full handshake, although the server offers to resume sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_resumes: bool,
}

/// A certificate of the client, with its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identity {
    /// The certificate in PEM format, with those that lead to an authority that the server trusts.
    pub certificates: String,
    /// The key in PEM format, as its digest, which [`wire::secret::conceal`] returns.
    pub key: String,
}
