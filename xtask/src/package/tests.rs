use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::*;

fn about() -> About {
    About { version: "1.2.3".into(), summary: "A test".into() }
}

/// Returns the owner, the permissions and the time of each file of an archive, as `tar` lists them.
fn listed(file: &Path) -> String {
    command::output(Command::new("tar").args(["--list", "--verbose", "--numeric-owner", "--utc", "--file"]).arg(file))
        .unwrap()
}

#[test]
fn same_files_give_the_same_archive_without_an_owner() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| {
        let packed = folder.path().join(name).join("muxbench-1.2.3");
        for file in ["man/b.1", "man/a.1", "muxbench"] {
            write(&packed.join(file), file).unwrap();
        }
        let file = folder.path().join(name).join("packed.tar.gz");
        archive(&packed, &file).unwrap();
        file
    });
    assert_eq!(fs::read(&first).unwrap(), fs::read(second).unwrap());
    let listed = listed(&first);
    let names: Vec<&str> = listed.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    let expected = ["", "man/", "man/a.1", "man/b.1", "muxbench"].map(|name| format!("muxbench-1.2.3/{name}"));
    assert_eq!(names, expected);
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") && line.contains(" 1970-01-01 00:00 ")), "{listed}");
}

#[test]
fn image_leads_from_its_index_to_the_program_of_each_processor() {
    let folder = tempfile::tempdir().unwrap();
    let programs = PROCESSORS.map(|processor| {
        let program = folder.path().join(processor.name);
        write(&program, processor.name).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        (processor, program)
    });
    let file = folder.path().join("image.tar");
    oci::image(&about(), &programs, &file).unwrap();
    let unpacked = folder.path().join("image");
    let unpack = |file: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        command::run(Command::new("tar").arg("--extract").arg("--file").arg(file).arg("--directory").arg(to)).unwrap();
    };
    unpack(&file, &unpacked);
    // Follows a descriptor, and checks the size and the digest of its blob.
    let follow = |descriptor: &Value| {
        let (_, digest) = descriptor["digest"].as_str().unwrap().split_once(':').unwrap();
        let blob = unpacked.join("blobs/sha256").join(digest);
        assert_eq!(sha256(&blob).unwrap(), digest);
        assert_eq!(blob.metadata().unwrap().len(), descriptor["size"].as_u64().unwrap());
        blob
    };
    let json = |file: &Path| serde_json::from_str::<Value>(&read(file).unwrap()).unwrap();
    assert_eq!(json(&unpacked.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&unpacked.join("index.json"));
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
    let images = json(&follow(&index["manifests"][0]));
    let images = images["manifests"].as_array().unwrap();
    assert_eq!(images.len(), PROCESSORS.len());
    for (image, processor) in images.iter().zip(PROCESSORS) {
        assert_eq!(image["platform"]["architecture"], processor.debian);
        let manifest = json(&follow(image));
        let config = json(&follow(&manifest["config"]));
        assert_eq!((&config["architecture"], &config["os"]), (&image["platform"]["architecture"], &"linux".into()));
        let layer = folder.path().join("layer");
        fs::copy(follow(&manifest["layers"][0]), layer.with_extension("gz")).unwrap();
        command::run(Command::new("gzip").arg("--decompress").arg("--force").arg(layer.with_extension("gz"))).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer).unwrap()));
        let listed = listed(&layer);
        assert!(listed.contains("drwxrwxrwt 0/0") && listed.contains("-rwxr-xr-x 0/0"), "{listed}");
        unpack(&layer, &folder.path().join("root"));
        assert_eq!(read(&folder.path().join("root/muxbench")).unwrap(), processor.name);
        assert_eq!(config["config"]["Entrypoint"][0], "/muxbench");
    }
}
