//! Counts and times of one thread besides those of requests.

use std::collections::BTreeMap;

use rustls::CipherSuite;
use stats::Histogram;

use crate::result::{Measured, TlsResult};
use crate::socket::tls::Handshake;

/// Times of TLS handshakes.
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

/// One more than the largest status.
const STATUSES: usize = 1_000;

/// Responses by status. Counting neither allocates nor locks.
#[derive(Debug)]
pub struct Statuses(Box<[u64; STATUSES]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([0; STATUSES]))
    }
}

impl Statuses {
    /// Counts a response. Protocols without statuses have `None`.
    #[inline]
    pub fn count(&mut self, status: Option<u16>) {
        if let Some(count) = status.and_then(|status| self.0.get_mut(usize::from(status))) {
            *count += 1;
        }
    }

    /// Returns the sum of several threads' counts.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> BTreeMap<u16, u64> {
        let mut sum = BTreeMap::new();
        for statuses in all {
            for (status, &count) in (0..).zip(statuses.0.iter()).filter(|(_, count)| **count > 0) {
                *sum.entry(status).or_default() += count;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_all_threads_are_summed() {
        let mut threads = [Statuses::default(), Statuses::default()];
        for (thread, status) in [(0, Some(200)), (1, Some(200)), (1, Some(999)), (0, None), (0, Some(1_000))] {
            threads[thread].count(status);
        }
        assert_eq!(Statuses::sum(&threads), BTreeMap::from([(200, 2), (999, 1)]));
    }
}
