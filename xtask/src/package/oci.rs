//! Container images with nothing but the program, in an archive of the OCI image layout.

use std::io;

use serde_json::{Value, json};

use super::{About, Entry, Processor, gzip, sha256, tar};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The folder for results, in which the program starts.
const DATA: &str = "data";

/// Returns an image for several processors, whose programs are static.
///
/// # Errors
/// When a path is too long.
pub fn image(about: &About, programs: &[(Processor, &[u8])]) -> io::Result<Vec<u8>> {
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for (processor, program) in programs {
        let mut manifest = blobs.add_image(about, *processor, program)?;
        manifest["platform"] = json!({ "architecture": processor.debian, "os": "linux" });
        manifests.push(manifest);
    }
    // The layout's index names an index, from which tools select the image for their processor.
    let mut of_all = blobs.add_json(INDEX, &json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests }));
    of_all["annotations"] = json!({ "org.opencontainers.image.ref.name": about.version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [of_all] });
    blobs.0.push(Entry::file("index.json", index.to_string().as_bytes()));
    blobs.0.push(Entry::file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes()));
    tar(&blobs.0)
}

/// Files that have their digests as names.
#[derive(Default)]
struct Blobs(Vec<Entry>);

impl Blobs {
    /// Adds a file and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = sha256(bytes);
        self.0.push(Entry::file(format!("blobs/sha256/{digest}"), bytes));
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() })
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().as_bytes())
    }

    /// Adds the image for a processor and returns the descriptor of its manifest.
    fn add_image(&mut self, about: &About, processor: Processor, program: &[u8]) -> io::Result<Value> {
        // Servers on Unix sockets need a folder for temporary files.
        let files = [Entry::program("muxbench", program), Entry::folder("tmp", 0o1777), Entry::folder(DATA, 0o1777)];
        let layer = tar(&files)?;
        let config = json!({
            "architecture": processor.debian,
            "os": "linux",
            "config": {
                "Entrypoint": ["/muxbench"],
                "WorkingDir": format!("/{DATA}"),
                "Labels": {
                    "org.opencontainers.image.title": "muxbench",
                    "org.opencontainers.image.description": about.summary,
                    "org.opencontainers.image.version": about.version,
                    "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                },
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.add_json(CONFIG, &config),
            "layers": [self.add(LAYER, &gzip(&layer))],
        });
        Ok(self.add_json(MANIFEST, &manifest))
    }
}
