//! Python wheels: a zip archive of the program and the Python module, with the wheel's own files (PEP 427).

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

use super::{About, Entry, Processor};

/// The Python module, and the text of its page in the package index.
const MODULE: &str = include_str!("../../../python/muxbench/__init__.py");
const README: &str = include_str!("../../../python/README.md");

/// 1980-01-01, the first day of zip archives: 7 bits for the year, 4 for the month, 5 for the day.
const FIRST_DAY: u16 = (1 << 5) | 1;

/// Returns the name of the wheel's file. A static program runs with every C library, so it belongs to both kinds of Linux.
pub fn file_name(about: &About, processor: Processor) -> String {
    format!("muxbench-{}-{}.whl", about.version, tags(processor).join("-"))
}

/// Returns the tags of Python, its binary interface, and the platform.
fn tags(processor: Processor) -> [String; 3] {
    let platforms = ["manylinux_2_17", "musllinux_1_1"].map(|system| format!("{system}_{}", processor.name));
    ["py3".to_owned(), "none".to_owned(), platforms.join(".")]
}

/// Returns a wheel with a program.
pub fn wheel(about: &About, processor: Processor, program: &[u8]) -> Vec<u8> {
    let About { version, summary } = about;
    let info = format!("muxbench-{version}.dist-info");
    let [python, abi, platforms] = tags(processor);
    let tags: String = platforms.split('.').map(|platform| format!("Tag: {python}-{abi}-{platform}\n")).collect();
    let metadata = format!(
        "Metadata-Version: 2.1\nName: muxbench\nVersion: {version}\nSummary: {summary}\nLicense: MIT OR Apache-2.0\n\
         Requires-Python: >=3.9\nProvides-Extra: pandas\nRequires-Dist: pandas; extra == \"pandas\"\n\
         Requires-Dist: pyarrow; extra == \"pandas\"\nProvides-Extra: polars\nRequires-Dist: polars; extra == \"polars\"\n\
         Description-Content-Type: text/markdown\n\n{README}"
    );
    let wheel = format!("Wheel-Version: 1.0\nGenerator: muxbench xtask\nRoot-Is-Purelib: false\n{tags}");
    let mut files = vec![
        Entry::file("muxbench/__init__.py", MODULE.as_bytes()),
        Entry::program(format!("muxbench-{version}.data/scripts/muxbench"), program),
        Entry::file(format!("{info}/METADATA"), metadata.as_bytes()),
        Entry::file(format!("{info}/WHEEL"), wheel.as_bytes()),
    ];
    let digest = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
    let rows =
        files.iter().map(|Entry { path, bytes, .. }| format!("{path},sha256={},{}\n", digest(bytes), bytes.len()));
    let record = rows.collect::<String>() + &format!("{info}/RECORD,,\n");
    files.push(Entry::file(format!("{info}/RECORD"), record.as_bytes()));
    zip(&files)
}

/// Returns a zip archive (APPNOTE.TXT): each file after its header, then the same headers as a directory.
///
/// # Panics
/// When a file or the archive is larger than 4 GiB.
fn zip(files: &[Entry]) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a file of at most 4 GiB").to_le_bytes();
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for Entry { path, mode, bytes } in files {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail");
        // Version 2.0, no flags, deflate, time, day, checksum, sizes, length of the name, no further fields.
        let words = [20, 0, 8, 0, FIRST_DAY].map(u16::to_le_bytes).concat();
        let name = u16::try_from(path.len()).expect("a short path").to_le_bytes();
        let sizes = [crc32fast::hash(bytes).to_le_bytes(), length(&packed), length(bytes)].concat();
        let header = [&words[..], &sizes, &name, &[0; 2]].concat();
        let start = length(&archive);
        // Made by Unix (3), whose permissions of a regular file are in the upper half of the attributes.
        let attributes = ((0o100_000 | mode) << 16).to_le_bytes();
        let made_by: &[u8] = &[20, 3];
        directory.extend([b"PK\x01\x02", made_by, &header, &[0; 6], &attributes, &start, path.as_bytes()].concat());
        archive.extend([b"PK\x03\x04", &header[..], path.as_bytes(), &packed].concat());
    }
    let count = u16::try_from(files.len()).expect("few files").to_le_bytes();
    let end = [b"PK\x05\x06", &[0; 4][..], &count, &count, &length(&directory), &length(&archive), &[0; 2]].concat();
    [archive, directory, end].concat()
}
