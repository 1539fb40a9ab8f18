//! Atomics for the state that the roles share: the standard library's, or loom's with `--cfg loom`. Loom's models try every
//! order of the threads and every value that a load may return.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
