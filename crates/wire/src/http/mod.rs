//! HTTP/1.1 (RFC 9112) for content in memory: GET and HEAD, persistent connections, pipelined requests.
//!
//! The parser is `httparse`; this module is stricter. A line ends with CR LF. A request has one `Host`, optional in HTTP/1.0,
//! and at most one body length. A malformed request ends the connection, because the start of the next one is unknown.
//!
//! The service omits these features and answers as the RFC requires:
//! - ranges and conditions: ignored
//! - other methods: 405, or 501 if unknown
//! - other major versions: 505; a higher minor version is answered as 1.1
//! - transfer codings except `chunked`: 501
//!
//! Besides the current input, a connection keeps at most one head of 32 KiB; a longer head gets 431 or 414. Request bodies are
//! discarded on arrival; a body above 1 MiB gets 413. The server's limits end slow connections.

mod chunked;
pub mod client;
mod connection;
mod content;
mod date;
mod head;
mod response;
mod status;
mod target;
#[cfg(test)]
mod tests;

pub use connection::HttpConn;
pub use content::{Content, ContentError, GENERATED_BYTES_MAX};
pub use response::Http;
pub use target::decoded;
