//! Reports of skipped tests, shared by the tests of all crates.

use std::io::Write;

/// Reports that this machine cannot run a test, on the real standard error: the test runner hides that of passing tests.
///
/// # Panics
/// Fails the test if MUXBENCH_SKIP is `never`.
pub fn skipped(what: &str) {
    assert!(std::env::var_os("MUXBENCH_SKIP").is_none_or(|skip| skip != "never"), "MUXBENCH_SKIP=never, and {what}");
    // The test runner captures `eprintln`.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}
