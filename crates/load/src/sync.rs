//! Atomics for the state that the roles share: the standard library's, or with `--cfg loom` those of the model checker loom.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic;
