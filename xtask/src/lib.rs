//! Parts of `cargo xtask` that the tidy test uses too.

pub mod cycles;

use std::path::Path;

/// Returns the workspace folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
