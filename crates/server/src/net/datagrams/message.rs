//! The handling of one datagram, which all ways of receiving share.

use rustix::io::Errno;
use wire::udp::{ID_BYTES, Udp};

use crate::metrics::workers::Counters;
use crate::service::work::WithWork;

pub(super) const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// The result of a receive.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) datagrams: u32,
    /// Whether the socket was empty at the end.
    pub(super) is_last: bool,
}

impl Taken {
    /// Nothing, after a receive that failed. An interrupted receive may have left datagrams.
    pub(super) fn failed(error: Errno) -> Self {
        Self { datagrams: 0, is_last: error != Errno::INTR }
    }
}

/// Counts a datagram of `bytes` bytes. For a request, does the simulated work and returns the id.
#[inline]
pub(super) fn take(
    service: &WithWork<Udp>,
    datagram: &[u8],
    bytes: usize,
    counters: &Counters,
) -> Option<[u8; ID_BYTES]> {
    counters.bytes_in.add(bytes as u64);
    let id = service.request_id(datagram, bytes);
    let counter = if id.is_some() { &counters.requests } else { &counters.ignored };
    counter.add(1);
    id
}

/// Counts a response, which was sent whole or not at all.
#[inline]
pub(super) fn sent(result: Result<usize, Errno>, counters: &Counters) {
    match result {
        Ok(count) => counters.bytes_out.add(count as u64),
        Err(_) => counters.unsent.add(1),
    }
}
