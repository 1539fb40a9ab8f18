//! What a test says that this machine cannot do: one way for the tests of all crates from here on.

use std::io::Write;

/// Says where everybody sees it (what a test prints is kept back if it passes) that this machine cannot do what was to be tested.
///
/// # Panics
/// Where MUXBENCH_SKIP is `never`: that fails the test.
pub fn skipped(what: &str) {
    assert!(std::env::var_os("MUXBENCH_SKIP").is_none_or(|skip| skip != "never"), "MUXBENCH_SKIP=never, and {what}");
    // `eprintln` would be kept back, too.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}
