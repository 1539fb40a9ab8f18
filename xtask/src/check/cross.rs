//! Links the program for FreeBSD and macOS, and type-checks server and client for musl, and the server for illumos; builds static
//! programs for packages.
//! `cargo zigbuild` uses zig as C compiler and linker; the tests' Python environment has both.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::root;

use crate::command;

struct Target {
    /// The name in rustc.
    name: &'static str,
    /// The crates with system calls that are checked.
    crates: &'static [&'static str],
    /// Whether to link the program too.
    links: bool,
    /// Returns whether a file is a program for this target.
    is_program: fn(&[u8]) -> bool,
}

const SERVER: &[&str] = &["--package", "muxbench-server"];
const BOTH: &[&str] = &["--package", "muxbench-server", "--package", "muxbench-load"];

const TARGETS: [Target; 5] = [
    // The programs in packages.
    Target { name: "x86_64-unknown-linux-musl", crates: BOTH, links: false, is_program: |_| false },
    Target { name: "x86_64-unknown-freebsd", crates: BOTH, links: true, is_program: is_freebsd },
    Target {
        name: "aarch64-apple-darwin",
        crates: BOTH,
        links: true,
        is_program: |file| is_macos(file, CPU_TYPE_ARM64),
    },
    Target {
        name: "x86_64-apple-darwin",
        crates: BOTH,
        links: false,
        is_program: |file| is_macos(file, CPU_TYPE_X86_64),
    },
    // Has the mechanisms of maharjan2012 and welsh2001: event ports and /dev/poll.
    Target { name: "x86_64-unknown-illumos", crates: SERVER, links: false, is_program: |_| false },
];

/// Checks the crates with system calls for every target, and links the program for some, with a Python environment's tools.
pub fn link(interpreter: &Path) -> anyhow::Result<()> {
    let tools = interpreter.parent().context("the interpreter is in a folder")?;
    for target in &TARGETS {
        add(target.name)?;
        let mut arguments = vec!["check", "--tests", "--locked", "--target", target.name];
        arguments.extend(target.crates);
        // TLS contains C code, except in the server for illumos: zig has no compiler for it.
        let cargo = if target.crates == BOTH { zigbuild(tools) } else { command::cargo() };
        step(cargo, tools, &arguments)?;
        if target.links {
            link_one(target, interpreter)?;
        }
    }
    Ok(())
}

/// Builds the program for a target with a profile and more features, comma-separated, and returns its path.
pub fn build(target: &str, profile: &str, features: &str, interpreter: &Path) -> anyhow::Result<PathBuf> {
    let tools = interpreter.parent().context("the interpreter is in a folder")?;
    add(target)?;
    let mut arguments = vec!["zigbuild", "--locked", "--profile", profile, "--target", target, "--package", "muxbench"];
    arguments.extend(["--features", features]);
    step(zigbuild(tools), tools, &arguments)?;
    Ok(program(target, profile))
}

/// Returns the path of the program that [`build`] builds.
pub fn program(target: &str, profile: &str) -> PathBuf {
    // The folder of cargo's profile `dev` is `debug`.
    folder().join(target).join(if profile == "dev" { "debug" } else { profile }).join("muxbench")
}

/// Adds the standard library for a target. `rustup` downloads nothing if it is installed.
fn add(target: &str) -> anyhow::Result<()> {
    let mut rustup = Command::new("rustup");
    command::run(rustup.args(["target", "add", target]).current_dir(root()))
        .with_context(|| format!("install the standard library for {target}: `rustup target add {target}`"))
}

fn link_one(target: &Target, interpreter: &Path) -> anyhow::Result<()> {
    let program = build(target.name, "dev", "", interpreter)?;
    let bytes = fs::read(&program).with_context(|| program.display().to_string())?;
    ensure!(
        (target.is_program)(&bytes),
        "{} begins with {:02x?} and is not a program for {}; check the linker of `cargo zigbuild`",
        program.display(),
        &bytes[..bytes.len().min(16)],
        target.name
    );
    println!("{}: {} bytes, for {}", program.display(), bytes.len(), target.name);
    Ok(())
}

fn zigbuild(tools: &Path) -> Command {
    Command::new(tools.join("cargo-zigbuild"))
}

/// Runs cargo with a separate build folder, because in `target` these flags would rebuild every crate.
fn step(mut command: Command, tools: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    command
        .args(arguments)
        .current_dir(root())
        .env("PATH", before_path(tools)?)
        .env("CARGO_TARGET_DIR", folder())
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // `xtask/macos` replaces the frameworks of Apple's SDK.
        .env("CARGO_ENCODED_RUSTFLAGS", format!("-Dwarnings\x1f-Lframework={}", root().join("xtask/macos").display()));
    let remedy = "; to run it by hand, set CARGO_TARGET_DIR=target/cross, RUSTFLAGS=\"-L framework=$PWD/xtask/macos\" and \
                  PATH=$PWD/target/python/bin:$PATH";
    command::step(&format!("cargo {}", arguments.join(" ")), &mut command, remedy)
}

fn folder() -> PathBuf {
    root().join("target/cross")
}

/// Returns the search path with `tools` first.
fn before_path(tools: &Path) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [tools.to_owned()].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).context("cannot extend PATH")
}

/// Returns whether a file is a 64-bit ELF file with FreeBSD's version note (`.note.tag`: two lengths, type 1, the
/// name). The header alone may claim System V.
fn is_freebsd(file: &[u8]) -> bool {
    const NOTE: &[u8] = b"\x08\0\0\0\x04\0\0\0\x01\0\0\0FreeBSD\0";
    file.starts_with(b"\x7fELF\x02") && file.windows(NOTE.len()).any(|bytes| bytes == NOTE)
}

/// Processor numbers in Mach-O files (mach/machine.h).
const CPU_TYPE_X86_64: u32 = 0x0100_0007;
const CPU_TYPE_ARM64: u32 = 0x0100_000c;

/// Returns whether a file is a 64-bit Mach-O program for a processor. The header has a magic number, the processor,
/// its variant and the file type (mach-o/loader.h).
fn is_macos(file: &[u8], processor: u32) -> bool {
    const MH_MAGIC_64: u32 = 0xfeed_facf;
    const MH_EXECUTE: u32 = 2;
    let word = |at: usize| Some(u32::from_le_bytes(file.get(4 * at..4 * at + 4)?.try_into().ok()?));
    [word(0), word(1), word(3)] == [Some(MH_MAGIC_64), Some(processor), Some(MH_EXECUTE)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_program_is_not_for_another_target() {
        let ours = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(ours.starts_with(b"\x7fELF"));
        // Check only the head, because this program contains the note as a constant.
        let head = &ours[..4096];
        assert!(TARGETS.iter().all(|target| !(target.is_program)(head)));
    }

    #[test]
    fn programs_are_recognised_by_their_headers() {
        let elf = [b"\x7fELF\x02\x01\x01\0".as_slice(), &[0; 56], b"\x08\0\0\0\x04\0\0\0\x01\0\0\0FreeBSD\0"].concat();
        assert!(is_freebsd(&elf) && !is_freebsd(&elf[..64]));
        let macho = [0xfeed_facf_u32, CPU_TYPE_ARM64, 0, 2].map(u32::to_le_bytes).concat();
        assert!(is_macos(&macho, CPU_TYPE_ARM64) && !is_macos(&macho, CPU_TYPE_X86_64));
        assert!(!is_macos(&macho[..12], CPU_TYPE_ARM64));
    }
}
