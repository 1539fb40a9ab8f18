//! What threads share state by: the standard library's, or loom's where its models run (`--cfg loom`), which try every order
//! in which threads may come and every value that a load may see.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
