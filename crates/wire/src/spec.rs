//! Services as plain data: the service that a server offers, and its parameters.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stream::Stream;

/// A service and its parameters, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum ServiceSpec {
    /// Requests and responses of fixed sizes (kawai2008 section 3).
    Fixed {
        /// Size of a request in bytes, at least 1.
        request_bytes: u32,
        /// Size of a response in bytes, at least 1.
        response_bytes: u32,
    },
    /// A key-value store that speaks the memcached text protocol.
    Kv {
        /// Memory for items; the store evicts items beyond it.
        memory_max_bytes: u64,
        /// Largest item.
        item_max_bytes: u32,
    },
    /// A key-value store that speaks RESP2, the protocol of Redis.
    Redis {
        /// Memory for items; the store evicts items beyond it.
        memory_max_bytes: u64,
        /// Largest item.
        item_max_bytes: u32,
    },
    /// HTTP/1.1 for content in memory.
    Http {
        /// The folder with the content; without one, `/bytes/N` has N bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<PathBuf>,
        /// The size in bytes of the content at each path besides `/bytes/N`; without it, `/` has a small page, and no other path has
        /// content. Not beside a folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_bytes: Option<u32>,
    },
    /// Datagrams with ids, to many ports (maharjan2012).
    Udp {
        /// Ports that the server listens on, at least 1.
        ports: u32,
        /// Size of a request in bytes, from 8 to 65 507.
        request_bytes: u32,
        /// Size of a response in bytes, with the same limits.
        response_bytes: u32,
    },
    /// Bursts of packets, with an acknowledgement for each burst (welsh2001).
    Stream(Stream),
}

impl ServiceSpec {
    /// HTTP with generated content.
    pub const HTTP: Self = Self::Http { folder: None, response_bytes: None };

    /// Returns the service's name, as in [`SERVICES`].
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Kv { .. } => "kv",
            Self::Redis { .. } => "redis",
            Self::Http { .. } => "http",
            Self::Udp { .. } => "udp",
            Self::Stream(_) => "stream",
        }
    }

    /// Returns the sizes of a request and of a response in bytes, if they are fixed.
    pub fn fixed(&self) -> Option<(u32, u32)> {
        let (Self::Fixed { request_bytes, response_bytes } | Self::Udp { request_bytes, response_bytes, .. }) = self
        else {
            return None;
        };
        Some((*request_bytes, *response_bytes))
    }

    /// Returns the sizes of bursts, if the service has them.
    pub fn stream(&self) -> Option<Stream> {
        if let Self::Stream(stream) = *self { Some(stream) } else { None }
    }

    /// Returns the number of ports of the service `udp`; `None` for a service with connections.
    pub fn ports(&self) -> Option<u32> {
        if let Self::Udp { ports, .. } = *self { Some(ports) } else { None }
    }

    /// Whether responses on one connection depend on requests on other connections.
    pub fn is_shared(&self) -> bool {
        self.has_records()
    }

    /// Whether the service is a key-value store.
    pub fn has_records(&self) -> bool {
        matches!(self, Self::Kv { .. } | Self::Redis { .. })
    }
}

/// A row of [`SERVICES`].
#[derive(Debug)]
pub struct ServiceRow {
    /// Name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
}

/// All services.
pub const SERVICES: &[ServiceRow] = &[
    ServiceRow { name: "fixed", about: "requests and responses of fixed sizes, verified by size (kawai2008)" },
    ServiceRow { name: "kv", about: "an in-memory key-value store, in the memcached text protocol (voras2009)" },
    ServiceRow { name: "redis", about: "the key-value store in RESP2, the protocol of Redis" },
    ServiceRow {
        name: "http",
        about: "HTTP/1.1 for content in memory: /bytes/N, one size at each path, or the files of a folder (maharjan2012)",
    },
    ServiceRow { name: "udp", about: "datagrams of fixed sizes to many ports, matched by id (maharjan2012)" },
    ServiceRow { name: "stream", about: "bandwidth: bursts of packets, one acknowledgement per burst (welsh2001)" },
];
