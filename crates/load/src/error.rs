//! Reasons why a load cannot run. [`crate::result::Errors`] counts failures of single requests.

use std::io;

use crate::config::LoadConfig;
use crate::io::pace::Silence;
use crate::result::Class;

/// The reason why a load cannot run: cause, place, remedy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A connection could not be made, or its first request got no valid response.
    #[error("connection {number} of {total} to {target}: {class} ({error}); {remedy}")]
    Connect {
        /// The number of the connection, from 1.
        number: u32,
        /// The number of connections.
        total: u32,
        /// The server's address.
        target: String,
        /// The class of failure, as in `report::Errors`.
        class: &'static str,
        /// The system's error.
        error: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// The server did not store a record of the data set.
    #[error(
        "cannot store record {number} of {total}: {class}{answer}; raise the server's memory and its item size limit, or use fewer \
         records"
    )]
    Store {
        /// The number of the record, from 1.
        number: u64,
        /// The number of records.
        total: u64,
        /// The class of failure, as in `report::Errors`.
        class: &'static str,
        /// The server's own line in parentheses, after a space; empty if it wrote none.
        answer: String,
    },
    /// The configuration requests the TSC, but it is not invariant.
    #[error("clock: the TSC of this processor is not invariant; use the clock `auto` or `monotonic`")]
    NoTsc,
    /// The client lacks memory to record all requests.
    #[error("cannot reserve memory for {requests} requests of {bytes} bytes each; lower the rate or the duration")]
    Memory {
        /// The number of requests.
        requests: u64,
        /// The size of each record in bytes.
        bytes: usize,
    },
    /// A broken rule of the configuration.
    #[error("{0}")]
    Config(String),
    /// The failure of a system call that normally succeeds.
    #[error("{what}: {error}")]
    System {
        /// The action that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

/// Returns the remedy for a server that answers without TLS. Only URLs of `http` select TLS.
fn remedy_without_tls(config: &LoadConfig) -> &'static str {
    if config.http.is_some() {
        "check that the server uses TLS on this port; otherwise write http://, or remove the TLS settings (--tls)"
    } else {
        "check that the server uses TLS on this port; otherwise remove the TLS settings (--tls)"
    }
}

fn remedy_of_tls(config: &LoadConfig, error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "correct the host in the URL, trust further certificates (--cacert FILE), or accept any (--insecure)"
        }
        Some(rustls::Error::InvalidMessage(_)) => remedy_without_tls(config),
        _ => "check which TLS versions and ciphers the server accepts, and whether it requires a client certificate",
    }
}

impl LoadError {
    /// The failure of a poller's wait.
    pub fn waiting(error: rustix::io::Errno) -> Self {
        Self::System { what: "cannot wait for responses", error: error.into() }
    }

    /// The failure of a connection. `index` counts from 0.
    pub fn connect(config: &LoadConfig, index: u64, error: io::Error) -> Self {
        let class = Class::of(&error);
        let of_silence = error.get_ref().and_then(|it| it.downcast_ref::<Silence>()).and_then(Silence::remedy);
        let remedy = of_silence.unwrap_or_else(|| match class {
            _ if error.kind() == io::ErrorKind::NetworkUnreachable => {
                "check the address, and that its interface is up (loopback: ip link set lo up)"
            }
            _ if error.kind() == io::ErrorKind::HostUnreachable => "check the address, and the route to it",
            // The file of a Unix socket exists only after a server has bound it.
            _ if class == Class::Refused || error.kind() == io::ErrorKind::NotFound => "is the server running there?",
            Class::NoDescriptors => "raise the hard limit of descriptors (ulimit -Hn), or lower the connections",
            Class::NoAddresses => "widen net.ipv4.ip_local_port_range, or lower the connections",
            Class::Closed => {
                "the server closes connections after a response: let it keep them open, or try `muxbench load` or `compare` with \
                 --requests-per-connection 1"
            }
            Class::Wrong if config.http.is_some() => {
                "check the path, the headers and the body, and the expected status and length"
            }
            Class::Wrong if config.client.login.is_some() => "check the user, the password and the database in the URL",
            Class::Wrong if config.kv.is_some() => {
                "check the service, and whether the server needs a password (redis://:PASSWORD@HOST, memcached://USER:PASSWORD@HOST)"
            }
            Class::Tls => remedy_of_tls(config, &error),
            Class::Short if config.client.tls.is_some() && error.get_ref().is_some() => {
                "let the server keep the connection open, announce the length of the response, or end TLS with close_notify"
            }
            Class::Short if config.client.tls.is_some() => remedy_without_tls(config),
            Class::Short if config.http.is_some() => {
                "the server closed the connection before the end of the response; if it uses TLS on this port, write https://, or \
                 add --tls if it has no http:// URL"
            }
            Class::Reset if config.http.is_some() && config.client.tls.is_none() => {
                "if the server uses TLS on this port, write https://, or add --tls if it has no http:// URL; otherwise check its \
                 limit of connections"
            }
            Class::Timeout if config.client.tls.is_some() => {
                "the server sent no complete response: check that it uses TLS on this port, raise the timeout, or lower the \
                 connections"
            }
            Class::Timeout if config.http.is_some() => {
                "the server sent no complete response: check that it speaks HTTP on this port, raise the timeout, or lower the \
                 connections"
            }
            Class::Timeout => {
                "the server sent no complete response: if it speaks another protocol, choose its service, such as `http`; otherwise \
                 raise the timeout, or lower the connections"
            }
            Class::Short => "check the server's service, its sizes, its limit of connections, and whether it uses TLS",
            _ => "check the server's service, its sizes, and its limit of connections",
        });
        let (number, total, target) = (index as u32 + 1, config.connections, config.target.to_string());
        Self::Connect { number, total, target, class: class.name(), error, remedy }
    }
}

#[cfg(test)]
mod tests {
    use wire::Address;

    use super::*;
    use crate::config::{HttpTraffic, TlsConfig};

    #[test]
    fn remedy_names_only_settings_that_the_load_can_have() {
        let remedy = |has_http: bool, has_tls: bool, error: io::Error| {
            let target: Address = "127.0.0.1:80".parse().unwrap();
            let config = LoadConfig::small(target).with(|it| {
                it.http = has_http.then(|| HttpTraffic::new(Vec::new()));
                it.client.tls = has_tls.then(TlsConfig::default);
            });
            LoadError::connect(&config, 0, error).to_string()
        };
        let (short, late) = (io::ErrorKind::UnexpectedEof, io::ErrorKind::TimedOut);
        let of_other = remedy(false, true, short.into());
        assert!(of_other.contains("remove the TLS settings") && !of_other.contains("http"), "{of_other}");
        assert!(remedy(true, true, short.into()).contains("write http://, or remove the TLS settings"));
        let cut_off = remedy(true, true, io::Error::new(short, "TLS ended without close_notify"));
        assert!(cut_off.contains("end TLS with close_notify") && !cut_off.contains("uses TLS"), "{cut_off}");
        assert!(remedy(true, false, short.into()).contains("write https://, or add --tls"));
        assert!(remedy(false, false, short.into()).contains("whether it uses TLS"));
        assert!(
            remedy(true, false, rustix::io::Errno::CONNRESET.into()).contains("if the server uses TLS on this port")
        );
        assert!(remedy(true, true, late.into()).contains("check that it uses TLS on this port, raise the timeout"));
        assert!(remedy(true, false, rustix::io::Errno::NETUNREACH.into()).contains("ip link set lo up"));
        assert!(remedy(true, false, rustix::io::Errno::HOSTUNREACH.into()).contains("the route to it"));
        assert!(
            remedy(true, false, rustix::io::Errno::ADDRNOTAVAIL.into()).contains("widen net.ipv4.ip_local_port_range")
        );
        for (answered, is_accepted, dropped, words) in [
            (0, false, 0, "timeout (nothing answers there); check the address"),
            (
                25,
                false,
                0,
                "(not accepted, while 25 other connections got their responses); the server's listen backlog",
            ),
            (25, false, 7, ", and this host dropped 7 connections because a listen backlog was full); the server's"),
            (25, true, 0, "Raise its workers"),
            (25, true, 7, "or its listen backlog"),
            (0, true, 0, "timeout (timed out); the server sent no complete response"),
        ] {
            let silence = Silence { answered: 0, is_accepted, dropped: 0 };
            let text = remedy(true, false, Silence::explain(io::Error::new(late, silence), answered, dropped));
            assert!(text.contains(words), "{text}");
        }
        for has_http in [true, false] {
            // `idle` has no flag of the timeout, and `calibrate` none of the service.
            let late = remedy(has_http, false, late.into());
            assert!(late.contains("raise the timeout") && !late.contains("--"), "{late}");
        }
    }
}
