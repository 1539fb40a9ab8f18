//! Locks and atomics of the standard library or, with `--cfg loom`, of loom. Loom's models try every order of threads with few
//! preemptions, and every value that a load may return.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
