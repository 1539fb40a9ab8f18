//! Debian packages (deb(5)): an `ar` archive of a version, a description and the files.

use std::io;

use super::{About, Contents, Entry, Processor, gzip, tar};

/// Returns a package with the program, its manual pages, and completions for shells.
///
/// # Errors
/// When a path is too long.
pub fn package(about: &About, processor: Processor, contents: &Contents) -> io::Result<Vec<u8>> {
    let files = files(contents);
    let installed_kib: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let control = format!(
        "Package: muxbench\nVersion: {}\nArchitecture: {}\nMaintainer: The muxbench authors\nInstalled-Size: {installed_kib}\n\
         Section: net\nPriority: optional\nDescription: {}\n",
        about.version, processor.debian, about.summary
    );
    let control = tar(&[Entry::file("control", control.as_bytes())])?;
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control)),
        ("data.tar.gz", gzip(&tar(&files)?)),
    ];
    Ok(ar(&members))
}

fn files(contents: &Contents) -> Vec<Entry> {
    let Contents { program, manual, completions: [bash, fish, zsh], licences } = contents;
    let licences: Vec<&[u8]> = licences.iter().map(|(_, text)| &**text).collect();
    let mut files = vec![
        Entry::program("usr/bin/muxbench", program),
        Entry::file("usr/share/bash-completion/completions/muxbench", bash),
        Entry::file("usr/share/fish/vendor_completions.d/muxbench.fish", fish),
        Entry::file("usr/share/zsh/vendor-completions/_muxbench", zsh),
        Entry::file("usr/share/doc/muxbench/copyright", &licences.join(&b'\n')),
    ];
    files.extend(manual.iter().map(|(name, page)| Entry::file(format!("usr/share/man/man1/{name}.gz"), &gzip(page))));
    files
}

/// Returns an archive in the common format of `ar`. Members have even lengths.
fn ar(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        // Name, time, user, group, permissions, size.
        archive.extend(format!("{name:<16}{0:<12}{0:<6}{0:<6}{1:<8}{2:<10}`\n", 0, "100644", bytes.len()).bytes());
        archive.extend(bytes);
        archive.extend((bytes.len() % 2 == 1).then_some(b'\n'));
    }
    archive
}
