//! A private folder for the files that a command shares with its processes.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use wire::Address;

/// The file name of a socket in its folder.
pub const SOCKET: &str = "socket";
/// The maximum bytes of a socket's path after the temporary directory.
pub const NAMES_BYTES_MAX: usize = "/muxbench-4194304-4294967295/".len() + SOCKET.len();

/// The number of folders made by this process, which makes their names unique.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A private folder for the socket and the other files of one server. Dropping it removes the folder.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// Makes a folder in the temporary directory.
    pub fn new() -> io::Result<Self> {
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
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the address of the socket. Fails if the path is too long.
    pub fn address(&self) -> Result<Address, String> {
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
}
