//! Flags of TLS.

use std::path::PathBuf;

use harness::spec::tls::Tls;

use super::set;

#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Load")]
pub struct TlsArgs {
    /// Use TLS on all connections, except to http:// targets
    ///
    /// Built-in servers make a certificate when they start, which the client trusts. https:// targets have TLS without this flag.
    /// With --requests-per-connection 1, each request has a handshake
    #[arg(long)]
    pub tls: bool,
    /// Trusted certificates [default: this host's]
    ///
    /// A file in PEM format; implies --tls
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Accept any certificate
    ///
    /// The client then cannot know whether it measures the right server; implies --tls
    #[arg(long, short = 'k')]
    insecure: bool,
    /// Make a full TLS handshake on each connection, instead of resuming sessions; implies --tls
    #[arg(long)]
    full_handshakes: bool,
}

impl TlsArgs {
    pub fn apply(&self, tls: &mut Tls) {
        set(&mut tls.cacert, self.cacert.clone());
        tls.insecure |= self.insecure;
        tls.full_handshakes |= self.full_handshakes;
    }
}
