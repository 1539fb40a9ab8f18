//! File access that never writes through links of other users. Files of a run are in a folder of this user, and are replaced
//! atomically even if the power fails.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use server::regular;

/// The maximum bytes of a file that [`read`] accepts, because any user may have written it.
const READ_BYTES_MAX: u64 = 64 << 20;
/// The highest compression ratio of text that a file system may reach.
const COMPRESSION_MAX: u64 = 64;

/// Reads a file that may belong to any user.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = regular::open(path)?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        let why = format!("more than {} MiB, the limit for files of muxbench", READ_BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Returns an upper bound for the bytes of content in a file, from its blocks: a sparse file may claim any length.
pub(crate) fn content_bytes_max(file: &Metadata) -> u64 {
    match file.blocks() {
        // Not every file system counts blocks.
        0 => file.len(),
        blocks => file.len().min(blocks.saturating_mul(512 * COMPRESSION_MAX)),
    }
}

/// Checks that a folder is no link, belongs to this user and is not world-writable. A world-writable ancestor must be sticky.
pub(crate) fn check_ours(folder: &Path) -> anyhow::Result<()> {
    let place = || format!("cannot inspect {}", folder.display());
    // Drop a trailing slash, with which `symlink_metadata` would follow a link.
    let named = folder.components().as_path();
    let (it, whole) = (fs::symlink_metadata(named).with_context(place)?, named.canonicalize().with_context(place)?);
    let folder = folder.display();
    if !it.is_dir() {
        bail!("{folder}: is a link or not a folder; choose the folder itself");
    }
    let owner = it.uid();
    if owner != geteuid().as_raw() {
        bail!(
            "{folder}: belongs to another user (uid {owner}), who could replace results; choose a folder of your own, or run \
             muxbench as its owner"
        );
    }
    if it.mode() & 0o002 != 0 {
        bail!("{folder}: is writable by others, who could replace results; choose a folder that only you can write");
    }
    // In a sticky parent, such as /tmp, other users cannot rename this user's folder.
    let is_open = |it: &&Path| fs::metadata(it).is_ok_and(|it| it.mode() & 0o1002 == 0o002);
    if let Some(open) = whole.ancestors().skip(1).find(is_open).map(Path::display) {
        bail!("{folder}: {open} above it is writable by others, who could replace {folder}; choose a folder elsewhere");
    }
    Ok(())
}

/// Opens or creates a regular file, but does not follow a link.
fn open_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    regular::open_with(options.write(true), OFlags::NOFOLLOW, path)
}

/// Creates or truncates a file.
pub fn create(path: &Path) -> io::Result<File> {
    open_no_link(OpenOptions::new().create(true).truncate(true), path)
}

/// Creates or truncates a file in any folder. Follows a link that belongs to root or to this user, such as /dev/fd/3.
pub(crate) fn create_anywhere(path: &Path) -> io::Result<File> {
    let is_trusted = fs::symlink_metadata(path).is_ok_and(|it| is_owner_trusted(&it));
    if is_trusted { File::create(path) } else { create(path) }
}

fn is_owner_trusted(it: &Metadata) -> bool {
    it.uid() == 0 || it.uid() == geteuid().as_raw()
}

pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open_no_link(OpenOptions::new().create_new(true), path)
}

/// Creates a file, or opens an existing one with its content.
pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    open_no_link(OpenOptions::new().create(true).truncate(false), path)
}

/// Writes `bytes` to the file `draft`, then renames it to `path`.
pub(crate) fn write(draft: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(draft)?.write_all(bytes)?;
    keep(draft, path)
}

/// Returns the folder of a path; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."))
}

/// Renames a draft after its content is on the disk.
pub(crate) fn keep(draft: &Path, path: &Path) -> io::Result<()> {
    regular::open(draft)?.sync_all()?;
    fs::rename(draft, path)?;
    sync_folder(parent(path))
}

/// Waits until a folder's entries are on the disk, where the file system supports it.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let cannot = |error: &io::Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported);
    File::open(folder)?.sync_all().or_else(|error| if cannot(&error) { Ok(()) } else { Err(error) })
}

/// Replaces a file, such as an HTML page. If `path` is a link, a character device or a FIFO of root or this user, writes to it.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = fs::symlink_metadata(path).ok();
    let is_written_to = there.as_ref().is_some_and(|it| {
        let kind = it.file_type();
        (kind.is_char_device() || kind.is_fifo() || kind.is_symlink()) && is_owner_trusted(it)
    });
    if is_written_to {
        return fs::write(path, bytes);
    }
    let folder = parent(path);
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?.to_string_lossy();
    // `tempfile_in` applies the umask to this mode, as open(2) does.
    let mode = there.filter(|it| it.is_file()).map_or(0o666, |it| it.mode() & 0o777);
    let mut draft = tempfile::Builder::new()
        .prefix(&format!(".{name}."))
        .suffix(".part")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.persist(path)?;
    Ok(())
}

/// Appends to a file in any folder, or creates it. Follows a link that belongs to root or to this user.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let is_trusted = fs::symlink_metadata(path).is_ok_and(|it| is_owner_trusted(&it));
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    let mut file = if is_trusted { options.open(path)? } else { open_no_link(&mut options, path)? };
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use server::skipped::skipped;

    use super::*;

    #[test]
    fn create_and_write_never_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::write(of("victim"), "precious").unwrap();
        symlink(of("victim"), of("link")).unwrap();
        for error in [create(&of("link")), create_new(&of("link")), create_or_open(&of("link"))].map(Result::unwrap_err)
        {
            assert!(error.kind() != ErrorKind::NotFound, "{error}");
        }
        assert!(write(&of("link"), &of("whole"), b"x").is_err());
        // `write` replaces the link, not its target.
        write(&of("draft"), &of("link"), b"mine").unwrap();
        assert_eq!(fs::read_to_string(of("victim")).unwrap(), "precious");
        assert_eq!((fs::read_to_string(of("link")).unwrap(), of("draft").exists()), ("mine".into(), false));
        assert_eq!(
            fs::read_to_string({
                drop(create_or_open(&of("victim")));
                of("victim")
            })
            .unwrap(),
            "precious"
        );
    }

    #[test]
    fn fifo_of_another_user_is_replaced() {
        if !geteuid().is_root() {
            return skipped("another user's FIFO: only root can make one");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
        std::os::unix::fs::lchown(&path, Some(12_345), None).unwrap();
        let (sender, written) = std::sync::mpsc::channel();
        let to = path.clone();
        std::thread::spawn(move || sender.send(replace(&to, b"one")));
        written.recv_timeout(std::time::Duration::from_secs(60)).expect("replace must not wait").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "one");
    }

    #[test]
    fn replace_follows_only_trusted_links() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        replace(&of("page.html"), b"one").unwrap();
        replace(&of("page.html"), b"two").unwrap();
        assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft remains");
        replace(Path::new("/dev/null"), b"x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        // `replace` follows a link of this user.
        symlink(of("page.html"), of("ours")).unwrap();
        replace(&of("ours"), b"three").unwrap();
        assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "three");
        if geteuid().is_root() {
            std::os::unix::fs::lchown(of("ours"), Some(12_345), None).unwrap();
            replace(&of("ours"), b"four").unwrap();
            assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "three", "a foreign link is not followed");
            assert_eq!(fs::read_to_string(of("ours")).unwrap(), "four");
            symlink(of("page.html"), of("theirs")).unwrap();
            std::os::unix::fs::lchown(of("theirs"), Some(12_345), None).unwrap();
            assert!(create_anywhere(&of("theirs")).is_err());
        } else {
            skipped("another user's link: only root can make one");
        }
        assert!(replace(&of("nowhere/page.html"), b"x").is_err());
        // The path of a descriptor is a link too.
        let file = create_anywhere(&of("samples")).unwrap();
        let descriptor = format!("/dev/fd/{}", file.as_raw_fd());
        create_anywhere(Path::new(&descriptor)).unwrap().write_all(b"samples").unwrap();
        assert_eq!(fs::read_to_string(of("samples")).unwrap(), "samples");
    }

    #[test]
    fn folder_writable_by_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::create_dir(of("it")).unwrap();
        symlink(of("it"), of("link")).unwrap();
        check_ours(&of("it")).unwrap();
        for link in ["link", "link/"] {
            assert!(check_ours(&of(link)).unwrap_err().to_string().contains("a link"), "{link}");
        }
        fs::set_permissions(of("it"), Permissions::from_mode(0o777)).unwrap();
        assert!(check_ours(&of("it")).unwrap_err().to_string().contains("is writable by others"));
        // Other users could replace a folder in `it`, unless `it` is sticky.
        fs::create_dir_all(of("it/in/it")).unwrap();
        assert!(check_ours(&of("it/in/it")).unwrap_err().to_string().contains("is writable by others"));
        fs::set_permissions(of("it"), Permissions::from_mode(0o1777)).unwrap();
        check_ours(&of("it/in/it")).unwrap();
        fs::set_permissions(of("it"), Permissions::from_mode(0o755)).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(of("it"), Some(12_345), None).unwrap();
            assert!(check_ours(&of("it")).unwrap_err().to_string().contains("another user (uid 12345)"));
        } else {
            skipped("another user's folder: only root can make one");
        }
    }
}
