//! The transport of requests to the server: TCP over IPv4 or IPv6, or a Unix socket in its own folder.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Address;
use wire::address::PATH_BYTES_MAX;

/// The file name of a socket in its folder.
const SOCKET: &str = "socket";
/// The maximum bytes of a socket's path after the temporary directory.
const NAMES_BYTES_MAX: usize = "/muxbench-4194304-4294967295/".len() + SOCKET.len();

/// The number of folders made by this process, which makes their names unique.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

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

/// A private folder for the socket and the other files of one server. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Makes a folder in the temporary directory.
    pub(crate) fn new() -> io::Result<Self> {
        loop {
            let number = FOLDERS.fetch_add(1, Relaxed);
            let folder = std::env::temp_dir().join(format!("muxbench-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                // A killed process with the same process ID left this folder behind.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
            }
        }
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the address of the socket. Fails if the path is too long.
    pub(crate) fn address(&self) -> Result<Address, String> {
        Address::unix(self.0.join(SOCKET))
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Also remove a socket that a killed or external server left in the folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_is_private_and_removed_with_its_files() {
        let (one, other) = (PrivateFolder::new().unwrap(), PrivateFolder::new().unwrap());
        assert_ne!(one.address(), other.address());
        assert_eq!(fs::metadata(&one.0).unwrap().permissions().mode() & 0o777, 0o700);
        let path = one.0.clone();
        fs::write(path.join(SOCKET), "").unwrap();
        drop(one);
        assert!(!path.exists() && other.0.exists());
    }

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
