//! The transport of requests to the server: TCP over IPv4 or IPv6, or a Unix socket in its own folder.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::path::Path;

use process::folder::{NAMES_BYTES_MAX, PrivateFolder, SOCKET};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Address;
use wire::address::PATH_BYTES_MAX;

/// The transport of requests to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP over IPv4.
    #[default]
    Tcp,
    /// TCP over IPv6.
    Tcp6,
    /// A Unix stream socket.
    Unix,
}

impl Transport {
    /// Returns an address to listen on. The kernel later chooses the port, or the runner makes the socket's folder.
    pub fn any_address(self) -> Address {
        match self {
            Self::Tcp => (Ipv4Addr::LOCALHOST, 0).into(),
            Self::Tcp6 => (Ipv6Addr::LOCALHOST, 0).into(),
            Self::Unix => Address::Unix(SOCKET.into()),
        }
    }

    /// Returns the placeholder in a command for the place to listen on.
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Tcp | Self::Tcp6 => "{port}",
            Self::Unix => "{socket}",
        }
    }

    /// Returns a phrase for titles, or `None` for the default transport.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Tcp => None,
            Self::Tcp6 => Some("over IPv6"),
            Self::Unix => Some("over Unix sockets"),
        }
    }

    /// Checks that this host supports the transport. `has_server` tells whether a server of muxbench listens on it here, outside of
    /// labs.
    pub fn check(self, has_server: bool) -> Result<(), String> {
        match self {
            Self::Tcp if has_server => reach_loopback().map_err(|error| {
                format!("cannot reach 127.0.0.1: {error}; enable it (ip link set lo up), or choose unix")
            }),
            Self::Tcp => Ok(()),
            Self::Tcp6 => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).map(drop).map_err(|error| {
                format!("cannot listen on ::1: {error}; enable IPv6 on loopback, or choose tcp or unix")
            }),
            Self::Unix => {
                check_folder(&std::env::temp_dir())?;
                let made = if has_server { PrivateFolder::new().map(drop) } else { Ok(()) };
                made.map_err(|error| {
                    format!("cannot make a folder for the socket: {error}; set TMPDIR to a writable folder")
                })
            }
        }
    }
}

/// Fails without a route to loopback. Sends nothing.
fn reach_loopback() -> io::Result<()> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.connect((Ipv4Addr::LOCALHOST, 9))
}

/// Checks that the path of a socket in `folder`, the temporary directory, is short enough.
fn check_folder(folder: &Path) -> Result<(), String> {
    let bytes = folder.as_os_str().len() + NAMES_BYTES_MAX;
    if bytes <= PATH_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "a socket path in `{}` of {bytes} bytes exceeds the limit of {PATH_BYTES_MAX}; set TMPDIR to a shorter path",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_path_is_rejected() {
        let long = "x".repeat(PATH_BYTES_MAX - NAMES_BYTES_MAX - 1);
        assert_eq!(check_folder(Path::new(&format!("/{long}"))), Ok(()));
        let longest = Path::new(&format!("/{long}")).join("muxbench-4194304-4294967295").join(SOCKET);
        assert!(Address::unix(longest).is_ok());
        let error = check_folder(Path::new(&format!("/x{long}"))).unwrap_err();
        assert!(error.contains("108 bytes") || !cfg!(target_os = "linux"), "{error}");
        assert!(error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn address_to_listen_on_matches_the_transport() {
        for transport in [Transport::Tcp, Transport::Tcp6, Transport::Unix] {
            let address = transport.any_address();
            assert_eq!(address.path().is_some(), transport == Transport::Unix);
            assert_eq!(address.to_string().parse(), Ok(address), "the address reads back from a stored plan");
        }
    }
}
