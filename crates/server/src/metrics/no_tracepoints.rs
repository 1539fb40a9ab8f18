//! Systems without tracepoints: counters that cannot be made.

use std::collections::BTreeMap;
use std::convert::Infallible;

/// Counters that do not exist.
#[derive(Debug)]
pub struct Tracepoints(Infallible);

impl Tracepoints {
    /// # Errors
    /// Always.
    pub fn open() -> Result<Self, String> {
        Err("tracepoints need Linux".into())
    }

    /// Never called.
    pub fn read(&self) -> BTreeMap<String, u64> {
        match self.0 {}
    }
}

/// Checks whether the kernel can count system calls.
pub fn can_count() -> Result<(), String> {
    Tracepoints::open().map(drop)
}
