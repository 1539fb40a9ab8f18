//! How results are written: into folders that are ours, through nobody's link, and so that a loss of power leaves them whole, or
//! not there.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use server::regular;

/// Most bytes of a file that is read as a whole, whoever wrote it.
const READ_BYTES_MAX: u64 = 64 << 20;
/// What a file system that compresses may make of a text, at most.
const COMPRESSION_MAX: u64 = 64;

/// Reads a file that may be anybody's.
///
/// # Errors
/// When it is not there, no regular file, or has more than anything of ours.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = regular::open(path)?;
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_BYTES_MAX {
        let why = format!("more than {} MiB, which none of ours has", READ_BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Most bytes that what is in a file can have: it may be as long as anybody likes, and hold nothing.
pub(crate) fn said_bytes_max(file: &Metadata) -> u64 {
    match file.blocks() {
        // Not every file system counts them.
        0 => file.len(),
        blocks => file.len().min(blocks.saturating_mul(512 * COMPRESSION_MAX)),
    }
}

/// That a folder is ours, and nobody else may put anything in a result's place.
///
/// # Errors
/// When it is a link, another user's, or may be written by others; or one that it is in may be, and they may put another in its
/// place.
pub(crate) fn ours(folder: &Path) -> anyhow::Result<()> {
    let place = || format!("{}: cannot be looked at", folder.display());
    // With a slash at its end a link would be what it leads to.
    let named = folder.components().as_path();
    let (it, whole) = (fs::symlink_metadata(named).with_context(place)?, named.canonicalize().with_context(place)?);
    let folder = folder.display();
    if !it.is_dir() {
        bail!("{folder}: a link, or no folder; name the folder itself");
    }
    if it.uid() != geteuid().as_raw() {
        bail!(
            "{folder}: another user's (uid {}), who may put anything in a result's place; name a folder of your own, or do it \
             as its owner",
            it.uid()
        );
    }
    if it.mode() & 0o002 != 0 {
        bail!(
            "{folder}: others may write there, and so put anything in a result's place; name a folder in it, or another"
        );
    }
    // Where names are sticky, as in /tmp, nobody else moves it.
    let is_open = |it: &&Path| fs::metadata(it).is_ok_and(|it| it.mode() & 0o1002 == 0o002);
    if let Some(open) = whole.ancestors().skip(1).find(is_open) {
        bail!(
            "{folder}: others may write in {}, and so put another folder in its place; name a folder elsewhere",
            open.display()
        );
    }
    Ok(())
}

/// Opens a regular file, or makes it: not through a link.
fn through_no_link(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    regular::open_with(options.write(true), OFlags::NOFOLLOW, path)
}

/// Makes a file, or empties it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    through_no_link(OpenOptions::new().create(true).truncate(true), path)
}

/// Makes a file, or empties it, where somebody wants it: through a link only if that is ours, as of a descriptor, or the system's.
pub(crate) fn create_anywhere(path: &Path) -> io::Result<File> {
    let is_ours = fs::symlink_metadata(path).is_ok_and(|it| is_trusted(&it));
    if is_ours { File::create(path) } else { create(path) }
}

/// Whether nobody else has made it.
fn is_trusted(it: &Metadata) -> bool {
    it.uid() == 0 || it.uid() == geteuid().as_raw()
}

/// Makes a file that is not there.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    through_no_link(OpenOptions::new().create_new(true), path)
}

/// Makes a file, or takes the one that is there, with what is in it.
pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    through_no_link(OpenOptions::new().create(true).truncate(false), path)
}

/// Writes a file under another name, which is `draft`, and keeps it.
pub(crate) fn write(draft: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(draft)?.write_all(bytes)?;
    keep(draft, path)
}

/// Gives a draft its name, once it is on the disk.
pub(crate) fn keep(draft: &Path, path: &Path) -> io::Result<()> {
    regular::open(draft)?.sync_all()?;
    fs::rename(draft, path)?;
    sync_folder(path.parent().unwrap_or(path))
}

/// Waits until a folder's names are on the disk. Not every file system can.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let cannot = |error: &io::Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported);
    File::open(folder)?.sync_all().or_else(|error| if cannot(&error) { Ok(()) } else { Err(error) })
}

/// Writes a page, or another file that is made anew each time and may be anywhere. A link, a device or a pipe is written to if it is
/// ours or the system's, and replaced otherwise.
///
/// # Errors
/// When it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = fs::symlink_metadata(path).ok();
    let is_written_to = there.as_ref().is_some_and(|it| {
        let kind = it.file_type();
        (kind.is_char_device() || kind.is_fifo() || kind.is_symlink()) && is_trusted(it)
    });
    if is_written_to {
        return fs::write(path, bytes);
    }
    let folder = path.parent().filter(|it| *it != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?.to_string_lossy();
    // As open(2) makes it: the umask takes from that.
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use server::skipped::skipped;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::write(of("victim"), "precious").unwrap();
        symlink(of("victim"), of("link")).unwrap();
        for error in [create(&of("link")), create_new(&of("link")), create_or_open(&of("link"))].map(Result::unwrap_err)
        {
            assert!(error.kind() != ErrorKind::NotFound, "{error}");
        }
        assert!(write(&of("link"), &of("whole"), b"x").is_err());
        // What has that name is replaced, and not what it leads to.
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
    fn fifo_of_another_user_is_replaced_and_not_written_to() {
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
        written.recv_timeout(std::time::Duration::from_secs(60)).expect("it does not wait").unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "one");
    }

    #[test]
    fn a_page_goes_where_it_was_told_to_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        replace(&of("page.html"), b"one").unwrap();
        replace(&of("page.html"), b"two").unwrap();
        assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        replace(Path::new("/dev/null"), b"x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        // Our own link leads where we want it to.
        symlink(of("page.html"), of("ours")).unwrap();
        replace(&of("ours"), b"three").unwrap();
        assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "three");
        if geteuid().is_root() {
            std::os::unix::fs::lchown(of("ours"), Some(12_345), None).unwrap();
            replace(&of("ours"), b"four").unwrap();
            assert_eq!(fs::read_to_string(of("page.html")).unwrap(), "three", "another's does not");
            assert_eq!(fs::read_to_string(of("ours")).unwrap(), "four");
            symlink(of("page.html"), of("theirs")).unwrap();
            std::os::unix::fs::lchown(of("theirs"), Some(12_345), None).unwrap();
            assert!(create_anywhere(&of("theirs")).is_err());
        } else {
            skipped("another user's link: only root can make one");
        }
        assert!(replace(&of("nowhere/page.html"), b"x").is_err());
        // A descriptor is a link, too.
        let file = create_anywhere(&of("samples")).unwrap();
        let descriptor = format!("/dev/fd/{}", file.as_raw_fd());
        create_anywhere(Path::new(&descriptor)).unwrap().write_all(b"samples").unwrap();
        assert_eq!(fs::read_to_string(of("samples")).unwrap(), "samples");
    }

    #[test]
    fn a_folder_is_ours_if_nobody_else_writes_there() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        fs::create_dir(of("it")).unwrap();
        symlink(of("it"), of("link")).unwrap();
        ours(&of("it")).unwrap();
        for link in ["link", "link/"] {
            assert!(ours(&of(link)).unwrap_err().to_string().contains("a link"), "{link}");
        }
        fs::set_permissions(of("it"), Permissions::from_mode(0o777)).unwrap();
        assert!(ours(&of("it")).unwrap_err().to_string().contains("others may write there"));
        // In it, too, somebody may put another in its place, unless names are sticky.
        fs::create_dir_all(of("it/in/it")).unwrap();
        assert!(ours(&of("it/in/it")).unwrap_err().to_string().contains("others may write in "));
        fs::set_permissions(of("it"), Permissions::from_mode(0o1777)).unwrap();
        ours(&of("it/in/it")).unwrap();
        fs::set_permissions(of("it"), Permissions::from_mode(0o755)).unwrap();
        if geteuid().is_root() {
            std::os::unix::fs::chown(of("it"), Some(12_345), None).unwrap();
            assert!(ours(&of("it")).unwrap_err().to_string().contains("another user's (uid 12345)"));
        } else {
            skipped("another user's folder: only root can make one");
        }
    }
}
