//! Container images with nothing but the program, in an archive of the OCI image layout. Tools that write an image for two processors
//! need a daemon or privileges.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use super::{About, Processor, copy, sha256, tar};
use crate::{command, write};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Writes an image for several processors, whose programs are static.
pub fn image(about: &About, programs: &[(Processor, PathBuf)], file: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot create a folder for the image")?;
    let layout = Layout(folder.path());
    let mut manifests = Vec::new();
    for (processor, program) in programs {
        let mut manifest = layout.add_image(about, *processor, program)?;
        manifest["platform"] = json!({ "architecture": processor.debian, "os": "linux" });
        manifests.push(manifest);
    }
    // The layout's index names an index, from which tools select the image for their processor.
    let mut of_all =
        layout.add_json(INDEX, &json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }))?;
    of_all["annotations"] = json!({ "org.opencontainers.image.ref.name": about.version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [of_all] });
    write(&folder.path().join("index.json"), index.to_string())?;
    write(&folder.path().join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    tar(folder.path(), &["blobs", "index.json", "oci-layout"], file)
}

/// A folder with files that have their digests as names.
struct Layout<'a>(&'a Path);

impl Layout<'_> {
    /// Adds a file and returns its descriptor.
    fn add(&self, media_type: &str, file: &Path) -> anyhow::Result<Value> {
        let digest = sha256(file)?;
        copy(file, &self.0.join("blobs/sha256").join(&digest))?;
        let size = file.metadata()?.len();
        Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size }))
    }

    fn add_json(&self, media_type: &str, value: &Value) -> anyhow::Result<Value> {
        let file = tempfile::NamedTempFile::new()?;
        write(file.path(), value.to_string())?;
        self.add(media_type, file.path())
    }

    /// Adds the image for a processor and returns the descriptor of its manifest.
    fn add_image(&self, about: &About, processor: Processor, program: &Path) -> anyhow::Result<Value> {
        let folder = tempfile::tempdir()?;
        let layer = folder.path().join("layer");
        copy(program, &folder.path().join("muxbench"))?;
        // The program starts in `data`, and servers on Unix sockets need a folder for temporary files.
        for name in ["data", "tmp"] {
            fs::create_dir(folder.path().join(name))?;
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o1777))?;
        }
        tar(folder.path(), &["data", "muxbench", "tmp"], &layer)?;
        let digest = sha256(&layer)?;
        command::run(Command::new("gzip").args(["-9", "--no-name"]).arg(&layer))?;
        let config = json!({
            "architecture": processor.debian,
            "os": "linux",
            "config": {
                "Entrypoint": ["/muxbench"],
                "WorkingDir": "/data",
                "Labels": {
                    "org.opencontainers.image.title": "muxbench",
                    "org.opencontainers.image.description": about.summary,
                    "org.opencontainers.image.version": about.version,
                    "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_json(CONFIG, &config)?,
            "layers": [self.add(LAYER, &layer.with_extension("gz"))?],
        });
        self.add_json(MANIFEST, &manifest)
    }
}
