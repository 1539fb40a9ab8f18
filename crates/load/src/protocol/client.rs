//! The interface of a protocol's client side.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use wire::secret;

use crate::result::Class;

/// Returns the random numbers of one request.
#[inline]
pub fn random_of(seed: u64, number: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The client side of a service. A request's number determines the whole request, so sender and receiver share only numbers.
pub trait ClientProtocol: Sync {
    /// A compact form of a request, sufficient to encode it and to verify its response.
    type Request: Copy + Default + Send;
    /// The progress within a response on one connection.
    type Reader: Default + Send;

    fn request(&self, number: u64) -> Self::Request;

    /// Returns the request that verifies the connection with this number.
    fn greeting(&self, connection: u64) -> Self::Request;

    /// The number of requests to complete after the greetings and before the load.
    fn preparations(&self) -> u64 {
        0
    }

    /// Returns the preparation with this number.
    fn preparation(&self, number: u64) -> Self::Request {
        self.greeting(number)
    }

    /// The most bytes that [`ClientProtocol::encode`] writes to `scratch`.
    fn encoded_bytes_max(&self) -> usize {
        0
    }

    /// Returns the bytes of a request. May encode them into `scratch`, a buffer to reuse.
    fn encode<'a>(&'a self, request: Self::Request, scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// Reads further bytes of a response. Returns how many belong to it, and the verdict if it is complete.
    fn read(&self, request: Self::Request, reader: &mut Self::Reader, bytes: &[u8]) -> (usize, Option<Reply>);

    /// Handles the end of the connection. Returns the response that it completes, if the protocol allows this.
    fn end(&self, _request: Self::Request, _reader: &mut Self::Reader) -> Option<Reply> {
        None
    }

    /// Returns the status of the response that [`ClientProtocol::read`] or [`ClientProtocol::end`] completed last, if the
    /// protocol has statuses.
    fn status(&self, _reader: &Self::Reader) -> Option<u16> {
        None
    }

    /// Describes the last wrong response of any connection, if it was one of the protocol.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Returns what was wrong with the bytes that [`ClientProtocol::read`] found to be no response, as in "chunks that are malformed".
    fn fault(&self, _reader: &Self::Reader) -> Option<&'static str> {
        None
    }
}

/// The verdict on a whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Good,
    /// The response is valid but not as expected.
    Bad(Class),
    /// The server ends the connection after this response, which may also be wrong.
    Last(Option<Class>),
    /// The bytes are not a valid response, so the start of the next one is unknown.
    Garbage,
}

/// Quotes the first line of a response; `None` if it is no text. Servers write there why they refuse a request.
pub fn own_line(bytes: &[u8]) -> Option<String> {
    const SHOWN_BYTES: usize = 200;
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    // A server may repeat a secret of the request.
    let line = secret::redact(str::from_utf8(line).ok()?);
    let line = &line[..line.floor_char_boundary(SHOWN_BYTES)];
    let is_text = !line.is_empty() && line.chars().all(|char| !char.is_control());
    is_text.then(|| format!("the server answered `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_line_of_a_server_shows_no_secret() {
        let digest = secret::conceal("poppy seed");
        let long = "x".repeat(195);
        assert_eq!(own_line(b"no key poppy seed\r\nmore").unwrap(), format!("the server answered `no key {digest}`"));
        let cut = own_line(format!("{long}poppy seed").as_bytes()).unwrap();
        assert_eq!(cut, format!("the server answered `{long}{}`", &digest[..5]));
        assert_eq!([own_line(b""), own_line(b"\x01"), own_line(b"\xff")], [None, None, None]);
    }
}
