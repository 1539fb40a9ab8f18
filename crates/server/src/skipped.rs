//! Reports of skipped tests, shared by the tests of all crates.

use std::io::Write;

/// Reports that this machine cannot run a test.
///
/// # Panics
/// Fails the test if MUXBENCH_SKIP is `never`.
pub fn skipped(what: &str) {
    assert!(std::env::var_os("MUXBENCH_SKIP").is_none_or(|skip| skip != "never"), "MUXBENCH_SKIP=never, but no {what}");
    // Write to the descriptor: the test runner captures `eprintln`, and hides the output of passing tests.
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}
