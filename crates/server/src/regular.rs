//! Opens files at paths where another user may have placed a FIFO, which would block, or an endless device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading, without ever blocking.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), OFlags::empty(), path)
}

/// Opens a regular file with options and further flags of open(2), without ever blocking.
pub fn open_with(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits() as i32).open(path).map_err(named)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other_kind()) }
}

/// The error for a file that is not regular.
pub fn other_kind() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; remove it, or name another")
}

/// Replaces the error "No such device or address" of a socket, or of a FIFO without a reader.
fn named(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ENXIO) { other_kind() } else { error }
}

#[cfg(all(test, not(target_vendor = "apple")))]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn irregular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "it").unwrap();
        let mut text = String::new();
        open(&path("file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "it");

        rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
        std::os::unix::fs::symlink(path("fifo"), path("link")).unwrap();
        for name in ["fifo", "socket", "device", "link", ""] {
            let why = open(&path(name)).unwrap_err().to_string();
            assert!(why.contains("not a regular file"), "{name}: {why}");
            let why = open_with(OpenOptions::new().write(true), OFlags::empty(), &path(name)).unwrap_err().to_string();
            assert!(why.contains("not a regular file") || name.is_empty(), "{name}: {why}");
        }
        assert_eq!(open(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
