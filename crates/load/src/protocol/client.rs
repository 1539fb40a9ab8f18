//! The interface of a protocol.

use crate::report::Class;

/// The client of a service. A request's number determines the whole request, so that the sender and the receiver need to
/// exchange nothing else. Numbers begin at 0.
pub trait ClientProtocol: Sync {
    /// A short form of a request, from which it can be encoded and its response recognised.
    type Request: Copy + Default + Send;
    /// Progress within the response of one connection.
    type Reader: Default + Send;

    /// The request of this number.
    fn request(&self, number: u64) -> Self::Request;

    /// The request that verifies the connection of this number.
    fn greeting(&self, connection: u64) -> Self::Request;

    /// The number of requests that must be answered between the greetings and all others.
    fn preparations(&self) -> u64 {
        0
    }

    /// The preparation of this number.
    fn preparation(&self, number: u64) -> Self::Request {
        self.greeting(number)
    }

    /// The most bytes that [`ClientProtocol::encode`] writes to `scratch`.
    fn encoded_bytes_max(&self) -> usize {
        0
    }

    /// The bytes of a request. `scratch` may hold them, and keeps its memory.
    fn encode<'a>(&'a self, request: Self::Request, scratch: &'a mut Vec<u8>) -> &'a [u8];

    /// Reads on. Returns how many of `bytes` belong to this response, and its verdict if they end it. The reader is then ready
    /// for the next response.
    fn read(&self, request: Self::Request, reader: &mut Self::Reader, bytes: &[u8]) -> (usize, Option<Reply>);

    /// Handles the end of the connection. Returns the response that ends with it, if the protocol has such a thing.
    fn end(&self, _request: Self::Request, _reader: &mut Self::Reader) -> Option<Reply> {
        None
    }

    /// Describes the last wrong response in words, if it can.
    fn complaint(&self) -> Option<String> {
        None
    }
}

/// The verdict on a whole response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// As expected.
    Good,
    /// Allowed by the protocol, but not as expected.
    Bad(Class),
    /// The server ends the connection with this response, which may also be wrong.
    Last(Option<Class>),
    /// No response of this protocol. The beginning of the next one cannot be found.
    Garbage,
}
