//! Times of TLS handshakes, for one thread.

use rustls::CipherSuite;
use stats::Histogram;

use crate::result::{Measured, TlsResult};
use crate::socket::tls::Handshake;

#[derive(Debug, Default)]
pub struct Handshakes {
    full: Histogram,
    resumed: Histogram,
    cipher: Option<CipherSuite>,
}

impl Handshakes {
    /// Returns the figures of several threads' handshakes; `None` if there were none.
    pub fn report(all: impl IntoIterator<Item = Self>) -> Option<TlsResult> {
        let mut sum = Self::default();
        for Self { full, resumed, cipher } in all {
            sum.full.merge(&full);
            sum.resumed.merge(&resumed);
            sum.cipher = sum.cipher.or(cipher);
        }
        let (full, resumed) = (Measured::without_parts(sum.full), Measured::without_parts(sum.resumed));
        Some(TlsResult { cipher: format!("{:?}", sum.cipher?), full, resumed })
    }
}

impl Extend<Handshake> for Handshakes {
    fn extend<I: IntoIterator<Item = Handshake>>(&mut self, handshakes: I) {
        for Handshake { is_resumed, elapsed_ns, cipher } in handshakes {
            let times = if is_resumed { &mut self.resumed } else { &mut self.full };
            times.record(elapsed_ns);
            self.cipher = Some(cipher);
        }
    }
}
