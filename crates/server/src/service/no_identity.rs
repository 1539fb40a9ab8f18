//! No TLS: cryptography is not built for this system.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use wire::Address;

use crate::spec::tls::Tls;

pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificates: String,
}

impl Identity {
    pub(crate) fn new(_tls: &Tls, _listen: &Address) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
