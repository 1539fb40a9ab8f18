//! Parts of `cargo xtask` that tests of the tree use too.

pub mod cycles;

use std::path::Path;

/// The workspace's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
