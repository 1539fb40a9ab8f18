//! The client side of the services, without I/O: encodes requests and verifies responses. Loops are compiled for each protocol.

mod client;
mod fixed;
mod http;
mod kv;

pub use client::{ClientProtocol, Reply, own_line, random_of};
pub use fixed::Fixed;
pub use http::Http;
pub use kv::Kv;

/// Creates the protocol of a configuration's service, and evaluates an expression that is compiled for each protocol.
macro_rules! with_protocol {
    ($config:expr, |$protocol:ident| $body:expr) => {
        match (&$config.service, &$config.kv, &$config.http) {
            (wire::ServiceSpec::Kv { .. }, Some(traffic), _) => {
                let $protocol = $crate::protocol::Kv::<wire::kv::client::Memcached>::new(traffic, $config.client.seed);
                $body
            }
            (wire::ServiceSpec::Redis { .. }, Some(traffic), _) => {
                let $protocol = $crate::protocol::Kv::<wire::redis::client::Resp>::new(traffic, $config.client.seed);
                $body
            }
            (wire::ServiceSpec::Http { .. }, _, Some(traffic)) => {
                let $protocol = $crate::protocol::Http::new(traffic, &$config.client, &$config.target)?;
                $body
            }
            (&wire::ServiceSpec::Stream(stream), ..) => {
                let $protocol = $crate::protocol::Fixed::greeting_of(stream);
                $body
            }
            _ => {
                let (request_bytes, response_bytes) = $config.fixed();
                let $protocol = $crate::protocol::Fixed::new(request_bytes, response_bytes);
                $body
            }
        }
    };
}

pub(crate) use with_protocol;
