//! The service of datagrams (maharjan2012): a request is one datagram that begins with an id, its response another that
//! begins with the same. What is behind the ids means nothing.

use crate::fill::fill;

/// Bytes of an id, with which each datagram begins.
pub const ID_BYTES: usize = 8;
/// What one datagram holds: 65 535 bytes less the headers of IP and UDP.
pub const DATAGRAM_BYTES_MAX: u32 = 65_507;

/// Sizes of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    request_bytes: usize,
    response_bytes: usize,
}

impl Udp {
    /// A service whose datagrams have those sizes, from [`ID_BYTES`] to [`DATAGRAM_BYTES_MAX`].
    pub fn new(request_bytes: u32, response_bytes: u32) -> Self {
        let sizes = [request_bytes, response_bytes];
        assert!(sizes.iter().all(|&bytes| is_size(bytes)), "a datagram has room for its id, and fits");
        Self { request_bytes: request_bytes as usize, response_bytes: response_bytes as usize }
    }

    /// The id of a request of so many bytes of which at least the beginning is known; `None` if it is no request.
    #[inline]
    pub fn request_id(&self, datagram: &[u8], bytes: usize) -> Option<[u8; ID_BYTES]> {
        if bytes == self.request_bytes { datagram.first_chunk().copied() } else { None }
    }

    /// The id of a response; `None` if it is none.
    #[inline]
    pub fn response_id(&self, datagram: &[u8]) -> Option<u64> {
        if datagram.len() != self.response_bytes {
            return None;
        }
        datagram.first_chunk().copied().map(u64::from_le_bytes)
    }

    /// A request without its id.
    pub fn request(&self) -> Vec<u8> {
        fill(self.request_bytes)
    }

    /// A response without its id.
    pub fn response(&self) -> Vec<u8> {
        fill(self.response_bytes)
    }
}

/// Whether a datagram of the service can have so many bytes.
pub fn is_size(bytes: u32) -> bool {
    (ID_BYTES as u32..=DATAGRAM_BYTES_MAX).contains(&bytes)
}

/// Writes an id where a datagram begins.
#[inline]
pub fn put_id(datagram: &mut [u8], id: u64) {
    datagram[..ID_BYTES].copy_from_slice(&id.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_bears_the_id_of_its_request() {
        let udp = Udp::new(16, 100);
        let (mut request, mut response) = (udp.request(), udp.response());
        put_id(&mut request, 0x0123_4567_89ab_cdef);
        let id = udp.request_id(&request, request.len()).unwrap();
        response[..ID_BYTES].copy_from_slice(&id);
        assert_eq!(udp.response_id(&response), Some(0x0123_4567_89ab_cdef));
    }

    #[test]
    fn what_has_another_size_is_neither() {
        let udp = Udp::new(16, 100);
        let datagram = [0; 101];
        for bytes in [0, 7, 8, 15, 17, 100] {
            assert_eq!(udp.request_id(&datagram[..bytes], bytes), None, "{bytes}");
        }
        assert!(udp.request_id(&datagram[..8], 16).is_some(), "the beginning is enough");
        for bytes in [0, 7, 8, 16, 99, 101] {
            assert_eq!(udp.response_id(&datagram[..bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn a_datagram_has_room_for_an_id_and_fits() {
        assert!([8, 65_507].into_iter().all(is_size));
        assert!(![0, 7, 65_508].into_iter().any(is_size));
    }
}
