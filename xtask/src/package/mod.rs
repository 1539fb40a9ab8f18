//! Formats of packages. `tar`, `gzip` and `dpkg-deb` write them; maturin makes the wheels.

pub mod oci;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::{command, read, root, write};

/// A processor that packages are for.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// The name in rustc, and in the platform of a wheel.
    pub name: &'static str,
    /// The name in Debian, and in container images.
    pub debian: &'static str,
}

/// All processors.
pub const PROCESSORS: [Processor; 2] =
    [Processor { name: "x86_64", debian: "amd64" }, Processor { name: "aarch64", debian: "arm64" }];

/// The description of muxbench in packages.
#[derive(Clone, Debug)]
pub struct About {
    /// The version.
    pub version: String,
    /// The description, on one line.
    pub summary: String,
}

/// Fills the folder that users of the portable archive unpack: the program, its licences, the manual pages and the completions.
/// `native` is a muxbench for this host, which prints the pages.
pub fn portable(program: &Path, native: &Path, folder: &Path) -> anyhow::Result<()> {
    copy(program, &folder.join("muxbench"))?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root().join(name), &folder.join(name))?;
    }
    command::run(Command::new(native).args(["man", "--output"]).arg(folder.join("man")))?;
    for (shell, name) in [("bash", "muxbench.bash"), ("fish", "muxbench.fish"), ("zsh", "_muxbench")] {
        let text = command::output(Command::new(native).args(["completions", shell]))?;
        write(&folder.join("completions").join(name), text)?;
    }
    Ok(())
}

/// Writes a compressed archive of a folder.
pub fn archive(folder: &Path, file: &Path) -> anyhow::Result<()> {
    let name = folder.file_name().context("the folder has a name")?.to_string_lossy();
    tar(folder.parent().unwrap_or(folder), &["--use-compress-program=gzip -9 --no-name", &name], file)
}

/// Writes a Debian package of the files of [`portable`].
pub fn deb(about: &About, processor: Processor, portable: &Path, file: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a folder for the package")?;
    let (tree, share) = (folder.path().join("tree"), folder.path().join("tree/usr/share"));
    for (from, to) in [
        ("muxbench", "usr/bin/muxbench"),
        ("completions/muxbench.bash", "usr/share/bash-completion/completions/muxbench"),
        ("completions/muxbench.fish", "usr/share/fish/vendor_completions.d/muxbench.fish"),
        ("completions/_muxbench", "usr/share/zsh/vendor-completions/_muxbench"),
    ] {
        copy(&portable.join(from), &tree.join(to))?;
    }
    let licences = [read(&portable.join("LICENSE-APACHE"))?, read(&portable.join("LICENSE-MIT"))?];
    write(&share.join("doc/muxbench/copyright"), licences.join("\n"))?;
    let mut pages = Vec::new();
    for page in crate::files(&portable.join("man"), "1")? {
        let copied = share.join("man/man1").join(page.file_name().context("a page has a name")?);
        copy(&page, &copied)?;
        pages.push(copied);
    }
    command::run(Command::new("gzip").args(["-9", "--no-name"]).args(pages))?;
    let sizes = command::output(Command::new("du").args(["--summarize", "--block-size=1024"]).arg(&tree))?;
    let (version, summary, size_kib) = (&about.version, &about.summary, sizes.split_whitespace().next().unwrap_or("0"));
    let control = format!(
        "Package: muxbench\nVersion: {version}\nArchitecture: {}\nMaintainer: The muxbench authors\n\
         Installed-Size: {size_kib}\nSection: net\nPriority: optional\nDescription: {summary}\n",
        processor.debian
    );
    write(&tree.join("DEBIAN/control"), control)?;
    let mut dpkg = Command::new("dpkg-deb");
    // All files get this time, so that the same files give the same package. Older systems cannot read Ubuntu's default, zstd.
    dpkg.env("SOURCE_DATE_EPOCH", "0").args(["--root-owner-group", "-Zxz", "--build"]);
    command::run(dpkg.arg(&tree).arg(file)).context("Debian packages need dpkg-deb, from Debian's package dpkg")
}

/// Runs `tar` in a folder, so that the same files give the same archive.
fn tar(folder: &Path, arguments: &[&str], file: &Path) -> anyhow::Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--format=gnu", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    command::run(tar.arg("--file").arg(file).arg("--directory").arg(folder).args(arguments))
}

/// Copies a file into a folder, which it creates.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))
        .and_then(|()| fs::copy(from, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
        .map(drop)
}

/// Returns the SHA-256 of a file as hexadecimal digits.
pub fn sha256(file: &Path) -> anyhow::Result<String> {
    let text = command::output(Command::new("sha256sum").arg(file))?;
    Ok(text.split_whitespace().next().unwrap_or_default().trim_start_matches('\\').to_owned())
}
