//! Links the whole program for the systems that nothing here can run: FreeBSD and macOS. `cargo zigbuild` has zig as C
//! compiler and linker; both are in the Python environment of the tests.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use xtask::root;

/// A system and processor.
struct Target {
    /// What rustc calls it.
    name: &'static str,
    /// Whether the program is linked. Else only what differs between systems is checked, which takes seconds: there is a
    /// neighbour of the same system that is linked.
    links: bool,
    /// Whether a file is a program for it.
    is_made_for_it: fn(&[u8]) -> bool,
}

const TARGETS: [Target; 3] = [
    Target { name: "x86_64-unknown-freebsd", links: true, is_made_for_it: is_freebsd_s },
    Target { name: "aarch64-apple-darwin", links: true, is_made_for_it: |file| is_macos_s(file, CPU_TYPE_ARM64) },
    Target { name: "x86_64-apple-darwin", links: false, is_made_for_it: |file| is_macos_s(file, CPU_TYPE_X86_64) },
];

/// The crates with system calls in them. Their tests need no C.
const SYSTEM_CRATES: [&str; 4] = ["--package", "muxbench-server", "--package", "muxbench-load"];

/// Checks and links for every target. `interpreter` is that of the Python environment.
///
/// # Errors
/// Which target failed, and how to do it by hand; a file that is not what it should be.
pub fn link(interpreter: &Path) -> anyhow::Result<()> {
    let tools = interpreter.parent().context("the interpreter is in a folder")?;
    for target in &TARGETS {
        add_target(target.name)?;
        let mut arguments = vec!["check", "--tests", "--locked", "--target", target.name];
        arguments.extend(SYSTEM_CRATES);
        step(Command::new(env!("CARGO")), tools, &arguments)?;
        if target.links {
            link_one(target, tools)?;
        }
    }
    Ok(())
}

fn link_one(target: &Target, tools: &Path) -> anyhow::Result<()> {
    let zigbuild = Command::new(tools.join("cargo-zigbuild"));
    step(zigbuild, tools, &["zigbuild", "--locked", "--target", target.name, "--package", "muxbench"])?;
    let program = folder().join(target.name).join("debug/muxbench");
    let bytes = fs::read(&program).with_context(|| program.display().to_string())?;
    ensure!(
        (target.is_made_for_it)(&bytes),
        "{}: it begins with {:02x?}, which is no program for {}; see what `cargo zigbuild` linked it with",
        program.display(),
        &bytes[..bytes.len().min(16)],
        target.name
    );
    println!("{}: {} bytes, for {}", program.display(), bytes.len(), target.name);
    Ok(())
}

/// One command of cargo's, in a build folder of its own: its flags would have everything else built anew.
fn step(mut command: Command, tools: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let step = format!("cargo {}", arguments.join(" "));
    println!("== {step}");
    let status = command
        .args(arguments)
        .current_dir(root())
        .env("PATH", before_path(tools)?)
        .env("CARGO_TARGET_DIR", folder())
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // Where macOS's frameworks would be if there were an SDK. Warnings are errors here too.
        .env("CARGO_ENCODED_RUSTFLAGS", format!("-Dwarnings\x1f-Lframework={}", root().join("xtask/macos").display()))
        .status()
        .with_context(|| format!("cannot run `{step}`"))?;
    if !status.success() {
        bail!(
            "`{step}` failed ({status}); by hand it needs CARGO_TARGET_DIR=target/cross, RUSTFLAGS=\"-L \
             framework=$PWD/xtask/macos\" and PATH=$PWD/target/python/bin:$PATH"
        );
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("target/cross")
}

/// The search path with `tools` first.
fn before_path(tools: &Path) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [tools.to_owned()].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).context("PATH")
}

/// Has rustup fetch the target's standard library, if it is not there.
fn add_target(name: &str) -> anyhow::Result<()> {
    let remedy = || format!("install the standard library for {name}: `rustup target add {name}`");
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output().with_context(remedy)?;
    if installed.status.success() && String::from_utf8_lossy(&installed.stdout).lines().any(|line| line == name) {
        return Ok(());
    }
    let status = Command::new("rustup").args(["target", "add", name]).current_dir(root()).status();
    let status = status.with_context(remedy)?;
    ensure!(status.success(), "{} ({status}); is the toolchain's server reachable?", remedy());
    Ok(())
}

/// An ELF file of 64 bits with the note that names FreeBSD and its version (`.note.tag`: two lengths, type 1, the name).
/// Its header alone may say System V.
fn is_freebsd_s(file: &[u8]) -> bool {
    const NOTE: &[u8] = b"\x08\0\0\0\x04\0\0\0\x01\0\0\0FreeBSD\0";
    file.starts_with(b"\x7fELF\x02") && file.windows(NOTE.len()).any(|bytes| bytes == NOTE)
}

/// Processors in a Mach-O file (mach/machine.h).
const CPU_TYPE_X86_64: u32 = 0x0100_0007;
const CPU_TYPE_ARM64: u32 = 0x0100_000c;

/// A Mach-O program of 64 bits for that processor: magic number, processor, variant, file type (mach-o/loader.h).
fn is_macos_s(file: &[u8], processor: u32) -> bool {
    const MH_MAGIC_64: u32 = 0xfeed_facf;
    const MH_EXECUTE: u32 = 2;
    let word = |at: usize| Some(u32::from_le_bytes(file.get(4 * at..4 * at + 4)?.try_into().ok()?));
    [word(0), word(1), word(3)] == [Some(MH_MAGIC_64), Some(processor), Some(MH_EXECUTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_linux_is_nobody_else_s() {
        let ours = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(ours.starts_with(b"\x7fELF"));
        // This file has the note in it, as a constant: what the header says must do.
        let head = &ours[..4096];
        assert!(TARGETS.iter().all(|target| !(target.is_made_for_it)(head)));
    }

    #[test]
    fn each_system_s_mark_is_known() {
        let elf = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 56], b"\x08\0\0\0\x04\0\0\0\x01\0\0\0FreeBSD\0"].concat();
        assert!(is_freebsd_s(&elf) && !is_freebsd_s(&elf[..64]));
        let macho = [0xfeed_facf_u32, CPU_TYPE_ARM64, 0, 2].map(u32::to_le_bytes).concat();
        assert!(is_macos_s(&macho, CPU_TYPE_ARM64) && !is_macos_s(&macho, CPU_TYPE_X86_64));
        assert!(!is_macos_s(&macho[..12], CPU_TYPE_ARM64));
    }
}
