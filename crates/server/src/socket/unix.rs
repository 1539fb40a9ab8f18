//! The file of a Unix socket, removed when its server ends. A file left by a killed server is replaced.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix};

use crate::platform;

/// The file of a listener, removed when dropped. Drop it before the socket, so that no other file gets its inode number.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The device and inode numbers, which identify the file.
    identity: (u64, u64),
}

impl SocketFile {
    /// Binds `socket` to a path, and replaces a file that a killed server left. Fails if a server listens there.
    pub fn bind(socket: &OwnedFd, path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        match rustix::net::bind(socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_if_left_behind(path)?;
                rustix::net::bind(socket, &address)?;
            }
            bound => bound?,
        }
        let path = std::path::absolute(path)?;
        let identity = identity(&path)?;
        Ok(Self { path, identity })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

fn remove_if_left_behind(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"));
    }
    if is_listening(path)? {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
    }
    fs::remove_file(path)
}

/// Whether a server listens on the socket at `path`. The check connects to the server and disconnects at once.
pub fn is_listening(path: &Path) -> io::Result<bool> {
    let socket = platform::socket(AddressFamily::UNIX, true)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        // EAGAIN: the backlog is full. FreeBSD and macOS then refuse as if no server listened.
        Ok(()) | Err(Errno::AGAIN) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    fn bind(path: &Path) -> io::Result<(SocketFile, OwnedFd)> {
        let socket = platform::socket(AddressFamily::UNIX, false).unwrap();
        Ok((SocketFile::bind(&socket, path)?, socket))
    }

    #[test]
    fn bind_replaces_only_abandoned_socket_drop_removes_only_own() {
        let folder = std::env::temp_dir().join(format!("muxbench-unix-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("s");

        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed server leaves its file");
        let file = bind(&path).unwrap();
        drop(file);
        assert!(!path.exists());

        let listener = UnixListener::bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("another server listens"));
        assert!(is_listening(&path).unwrap());
        drop(listener);
        assert!(!is_listening(&path).unwrap());

        let file = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"mine", "a file that replaced the socket stays");
        assert!(bind(&path).unwrap_err().to_string().contains("not a socket"));
        fs::remove_file(&path).unwrap();

        let other_kind = UnixDatagram::bind(&path).unwrap();
        assert!(bind(&path).is_err() && path.exists(), "a datagram socket is not replaced");
        drop(other_kind);
        fs::remove_dir_all(&folder).unwrap();
    }
}
