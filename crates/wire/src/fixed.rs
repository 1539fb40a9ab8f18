//! Requests and responses of fixed sizes and arbitrary content (kawai2008 section 3).

use crate::fill::fill;
use crate::service::{OneByOne, Service};

/// The service: its sizes and the content of responses.
#[derive(Debug)]
pub struct Fixed {
    request_bytes: u64,
    response_bytes: u64,
    /// The most requests that are completed at once.
    requests_max: u64,
    /// Content of responses. Longer output takes several writes.
    fill: Vec<u8>,
}

/// State of a connection: 16 bytes.
#[derive(Debug, Default)]
pub struct FixedConn {
    /// Bytes of requests that are not complete yet.
    received_bytes: u64,
    unsent_bytes: u64,
}

const WRITE_BYTES_MAX: usize = 1 << 20;
/// Minimum size of the content, so that one write sends many small pipelined responses.
const WRITE_BYTES_MIN: usize = 4 << 10;

impl Fixed {
    /// Creates a service that answers every `request_bytes` with `response_bytes`. Both sizes are at least 1.
    pub fn new(request_bytes: u32, response_bytes: u32) -> Self {
        assert!(request_bytes > 0 && response_bytes > 0, "a request and a response have at least one byte");
        let length = (response_bytes as usize).clamp(WRITE_BYTES_MIN, WRITE_BYTES_MAX);
        let (request_bytes, response_bytes) = (request_bytes.into(), response_bytes.into());
        Self { request_bytes, response_bytes, requests_max: u64::MAX, fill: fill(length) }
    }

    /// Completes the requests that have arrived; returns their number.
    #[inline]
    fn complete(&self, conn: &mut FixedConn) -> u64 {
        if conn.received_bytes < self.request_bytes {
            return 0;
        }
        // Divide only if several requests may have arrived at once.
        let requests = match conn.received_bytes - self.request_bytes {
            0 => 1,
            _ => (conn.received_bytes / self.request_bytes).min(self.requests_max),
        };
        conn.received_bytes -= requests * self.request_bytes;
        conn.unsent_bytes += requests * self.response_bytes;
        requests
    }
}

impl Service for Fixed {
    type Conn = FixedConn;

    #[inline]
    fn receive(&self, conn: &mut FixedConn, input: &[u8]) -> u64 {
        conn.received_bytes += input.len() as u64;
        self.complete(conn)
    }

    #[inline]
    fn unsent<'a>(&'a self, conn: &'a FixedConn) -> &'a [u8] {
        let count = (self.fill.len() as u64).min(conn.unsent_bytes) as usize;
        &self.fill[..count]
    }

    #[inline]
    fn sent(&self, conn: &mut FixedConn, count: usize) -> u64 {
        debug_assert!(count as u64 <= conn.unsent_bytes, "the count exceeds the unsent bytes");
        conn.unsent_bytes -= count as u64;
        if conn.unsent_bytes == 0 { self.complete(conn) } else { 0 }
    }
}

impl OneByOne for Fixed {
    fn one_by_one(self) -> Self {
        Self { requests_max: 1, ..self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Largest response in tests; under Miri it is small, because a gigabyte would take too long.
    const RESPONSE_MAX: u32 = if cfg!(miri) { 50 } else { 20_000 };

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_the_same_requests(
            request in 1u32..300, response in 1u32..RESPONSE_MAX, pieces in prop::collection::vec(1usize..1000, 0..50),
        ) {
            let service = Fixed::new(request, response);
            let mut conn = FixedConn::default();
            let requests: u64 = pieces.iter().map(|&n| service.receive(&mut conn, &vec![0; n])).sum();
            let total: usize = pieces.iter().sum();
            prop_assert_eq!(requests, total as u64 / u64::from(request));

            let mut sent = 0;
            while !service.unsent(&conn).is_empty() {
                // Short writes of an awkward size.
                let count = service.unsent(&conn).len().min(777);
                service.sent(&mut conn, count);
                sent += count as u64;
            }
            prop_assert_eq!(sent, requests * u64::from(response));
        }
    }

    #[test]
    fn connection_state_has_at_most_16_bytes() {
        assert!(size_of::<FixedConn>() <= 16);
    }
}
