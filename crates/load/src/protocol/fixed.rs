//! Requests and responses of fixed sizes, verified by size alone.

use wire::stream::{GREETING, Stream};

use super::{ClientProtocol, Reply};

pub struct Fixed {
    request: Vec<u8>,
    response_bytes: u64,
}

impl Fixed {
    pub fn new(request_bytes: u32, response_bytes: u32) -> Self {
        Self { request: vec![0x5a; request_bytes as usize], response_bytes: response_bytes.into() }
    }

    pub fn greeting_of(stream: Stream) -> Self {
        let (request_bytes, response_bytes) = stream.sizes(true);
        Self { request: vec![GREETING; request_bytes as usize], response_bytes }
    }
}

impl ClientProtocol for Fixed {
    type Request = ();
    type Reader = u64;

    #[inline]
    fn request(&self, _number: u64) {}

    fn greeting(&self, _connection: u64) {}

    #[inline]
    fn encode<'a>(&'a self, _request: (), _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        &self.request
    }

    #[inline]
    fn read(&self, _request: (), received_bytes: &mut u64, bytes: &[u8]) -> (usize, Option<Reply>) {
        let missing_bytes = self.response_bytes - *received_bytes;
        if (bytes.len() as u64) < missing_bytes {
            *received_bytes += bytes.len() as u64;
            return (bytes.len(), None);
        }
        *received_bytes = 0;
        (missing_bytes as usize, Some(Reply::Good))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fixed_responses_in_any_pieces_are_all_counted(
            response_bytes in 1u32..300, cuts in prop::collection::vec(1usize..1000, 0..50),
        ) {
            let fixed = Fixed::new(1, response_bytes);
            let (mut received_bytes, mut responses) = (0, 0);
            for &length in &cuts {
                let piece = vec![0; length];
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let (taken, reply) = fixed.read((), &mut received_bytes, rest);
                    responses += u64::from(reply == Some(Reply::Good));
                    rest = &rest[taken..];
                }
            }
            let total = cuts.iter().sum::<usize>() as u64;
            let expected = (total / u64::from(response_bytes), total % u64::from(response_bytes));
            prop_assert_eq!((responses, received_bytes), expected);
        }
    }

    #[test]
    fn fixed_response_ends_at_its_size_in_any_pieces() {
        let fixed = Fixed::new(3, 5);
        assert_eq!(fixed.encode((), &mut Vec::new()).len(), 3);
        let mut received_bytes = 0;
        assert_eq!(fixed.read((), &mut received_bytes, &[0; 4]), (4, None));
        let rest = fixed.read((), &mut received_bytes, &[0; 4]);
        assert_eq!(rest, (1, Some(Reply::Good)), "the other bytes belong to the next response");
        assert_eq!(fixed.read((), &mut received_bytes, &[0; 5]), (5, Some(Reply::Good)));
    }
}
