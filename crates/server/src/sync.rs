//! Locks and atomics: the standard library's, or loom's in its models (`--cfg loom`), which try every order of threads and every
//! value that a load may see.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
