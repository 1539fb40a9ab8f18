//! TLS of a server's connections as plain data.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ServiceSpec;

/// A name in each certificate that a server makes, which clients expect whatever the server's address is.
pub const SERVER_NAME: &str = "localhost";

/// TLS of a server's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tls {
    /// The files with the certificate and its key. By default, the server makes both when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<CertificateFiles>,
}

/// The files with a server's certificate and its key, in PEM format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateFiles {
    /// The server's certificate first, then those of the authorities.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Tls {
    /// Checks that a service may have TLS.
    pub fn check(service: &ServiceSpec) -> Result<(), String> {
        match service {
            ServiceSpec::Udp { .. } | ServiceSpec::Stream(_) => {
                let name = service.name();
                Err(format!("the service `{name}` has no TLS; omit --tls, or choose fixed, http, kv or redis"))
            }
            _ => Ok(()),
        }
    }
}
