use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;
use tar::Archive;

use super::*;

fn about() -> About {
    About { version: "1.2.3".into(), summary: "A test".into() }
}

/// Returns the files of an archive, with their permissions.
fn read(archive: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for file in Archive::new(archive).entries().unwrap() {
        let mut file = file.unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let header = file.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 0));
        files.insert(file.path().unwrap().display().to_string(), (header.mode().unwrap(), bytes));
    }
    files
}

#[test]
fn archive_has_each_folder_once_before_its_files() {
    let files = [Entry::file("a/b/c", b"text"), Entry::program("a/d", b"!"), Entry::folder("a/b", 0o700)];
    let bytes = tar(&files).unwrap();
    let paths: Vec<String> =
        Archive::new(&*bytes).entries().unwrap().map(|it| it.unwrap().path().unwrap().display().to_string()).collect();
    assert_eq!(paths, ["a/", "a/b/", "a/b/c", "a/d"]);
    let read = read(&bytes);
    assert_eq!((read["a/b/"].0, &read["a/b/c"]), (0o700, &(0o644, b"text".to_vec())));
    assert_eq!((read["a/"].0, read["a/d"].0), (0o755, 0o755));
    assert_eq!(gzip(&bytes), gzip(&tar(&files).unwrap()), "the same files give the same bytes");
}

#[test]
fn image_leads_from_its_index_to_the_program_of_each_processor() {
    let programs = PROCESSORS.map(|processor| (processor, processor.name.as_bytes()));
    let files = read(&oci::image(&about(), &programs).unwrap());
    // Follows a descriptor, and checks the size and the digest of its blob.
    let follow = |descriptor: &Value| {
        let (algorithm, digest) = descriptor["digest"].as_str().unwrap().split_once(':').unwrap();
        let (_, bytes) = &files[&format!("blobs/{algorithm}/{digest}")];
        assert_eq!((sha256(bytes), bytes.len() as u64), (digest.to_owned(), descriptor["size"].as_u64().unwrap()));
        bytes.clone()
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(json(&files["oci-layout"].1)["imageLayoutVersion"], "1.0.0");
    let index = json(&files["index.json"].1);
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
    let images = json(&follow(&index["manifests"][0]));
    let images = images["manifests"].as_array().unwrap();
    assert_eq!(images.len(), PROCESSORS.len());
    for (image, processor) in images.iter().zip(PROCESSORS) {
        assert_eq!(image["platform"]["architecture"], processor.debian);
        let manifest = json(&follow(image));
        let config = json(&follow(&manifest["config"]));
        assert_eq!((&config["architecture"], &config["os"]), (&image["platform"]["architecture"], &"linux".into()));
        let mut layer = Vec::new();
        GzDecoder::new(&*follow(&manifest["layers"][0])).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
        let layer = read(&layer);
        assert_eq!(layer["muxbench"], (0o755, processor.name.as_bytes().to_vec()));
        assert_eq!(layer["tmp/"].0, 0o1777, "everybody may write temporary files");
        assert_eq!(config["config"]["Entrypoint"][0], "/muxbench");
    }
}

#[test]
fn portable_archive_has_one_folder() {
    let named = |name: &str| (name.to_owned(), name.as_bytes().to_vec());
    let contents = Contents {
        program: b"program".to_vec(),
        manual: vec![named("muxbench.1")],
        completions: ["bash", "fish", "zsh"].map(|shell| shell.as_bytes().to_vec()),
        licences: vec![named("LICENSE-MIT")],
    };
    let files = read(&tar(&contents.portable("muxbench-1.2.3")).unwrap());
    assert!(files.keys().all(|path| path.starts_with("muxbench-1.2.3/")), "{:?}", files.keys());
    assert_eq!(files["muxbench-1.2.3/completions/_muxbench"].1, b"zsh");
    assert_eq!(files["muxbench-1.2.3/man/muxbench.1"].1, b"muxbench.1");
}
