//! Client side of the services, sans I/O: requests, and the verification of responses. Loops are compiled for each protocol.

mod client;
mod fixed;
mod http;
mod kv;

pub(crate) use client::with_protocol;
pub use client::{ClientProtocol, Reply};
pub use fixed::Fixed;
pub use http::Http;
pub use kv::Kv;
