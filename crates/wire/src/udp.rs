//! The datagram service (maharjan2012). A request begins with an id, and its response begins with the same id.

use crate::fill::fill;

/// Size of the id at the beginning of each datagram.
pub const ID_BYTES: usize = 8;
/// Largest content of a datagram: 65 535 bytes minus the headers of IP and UDP.
pub const DATAGRAM_BYTES_MAX: u32 = 65_507;

/// Sizes of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    request_bytes: usize,
    response_bytes: usize,
}

impl Udp {
    /// Creates a service with these sizes, from [`ID_BYTES`] to [`DATAGRAM_BYTES_MAX`].
    pub fn new(request_bytes: u32, response_bytes: u32) -> Self {
        let sizes = [request_bytes, response_bytes];
        assert!(sizes.iter().all(|&bytes| is_size(bytes)), "a size must be from 8 to 65 507 bytes");
        Self { request_bytes: request_bytes as usize, response_bytes: response_bytes as usize }
    }

    /// Returns the size of a request.
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Returns the id of a datagram of `bytes` bytes; `None` if it is not a request. `datagram` may contain only its beginning.
    #[inline]
    pub fn request_id(&self, datagram: &[u8], bytes: usize) -> Option<[u8; ID_BYTES]> {
        if bytes == self.request_bytes { datagram.first_chunk().copied() } else { None }
    }

    /// Returns the id of a datagram; `None` if it is not a response.
    #[inline]
    pub fn response_id(&self, datagram: &[u8]) -> Option<u64> {
        if datagram.len() != self.response_bytes {
            return None;
        }
        datagram.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// Returns a request without an id.
    pub fn request(&self) -> Vec<u8> {
        fill(self.request_bytes)
    }

    /// Returns a response without an id.
    pub fn response(&self) -> Vec<u8> {
        fill(self.response_bytes)
    }
}

/// Whether a datagram of the service can have this size.
pub fn is_size(bytes: u32) -> bool {
    (ID_BYTES as u32..=DATAGRAM_BYTES_MAX).contains(&bytes)
}

/// Writes an id to the beginning of a datagram.
#[inline]
pub fn put_id(datagram: &mut [u8], id: u64) {
    datagram[..ID_BYTES].copy_from_slice(&id.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_the_id_of_its_request() {
        let udp = Udp::new(16, 100);
        let (mut request, mut response) = (udp.request(), udp.response());
        put_id(&mut request, 0x0123_4567_89ab_cdef);
        let id = udp.request_id(&request, request.len()).unwrap();
        response[..ID_BYTES].copy_from_slice(&id);
        assert_eq!(udp.response_id(&response), Some(0x0123_4567_89ab_cdef));
    }

    #[test]
    fn datagram_of_another_size_has_no_id() {
        let udp = Udp::new(16, 100);
        let datagram = [0; 101];
        for bytes in [0, 7, 8, 15, 17, 100] {
            assert_eq!(udp.request_id(&datagram[..bytes], bytes), None, "{bytes}");
        }
        assert!(udp.request_id(&datagram[..8], 16).is_some(), "the first 8 bytes contain the id");
        for bytes in [0, 7, 8, 16, 99, 101] {
            assert_eq!(udp.response_id(&datagram[..bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn sizes_below_an_id_or_above_a_datagram_are_refused() {
        assert!([8, 65_507].into_iter().all(is_size));
        assert!(![0, 7, 65_508].into_iter().any(is_size));
    }
}
