//! Locks and atomics of the standard library or, with `--cfg loom`, of loom. Loom tries every order of threads with few
//! preemptions, and every value that a load may return.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};

use std::sync::PoisonError;
use std::time::Duration;

/// Waits for a notification, at most for `longest`. Returns the guard of `mutex` again, and whether the time has passed.
#[cfg(not(loom))]
pub(crate) fn wait_timeout<'a, T>(
    condition: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    longest: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = condition.wait_timeout(guard, longest).unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}

/// A wait whose time always passes first. Loom's own wait has no timeout.
#[cfg(loom)]
pub(crate) fn wait_timeout<'a, T>(
    _condition: &Condvar,
    mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _longest: Duration,
) -> (MutexGuard<'a, T>, bool) {
    drop(guard);
    loom::thread::yield_now();
    (mutex.lock().unwrap_or_else(PoisonError::into_inner), true)
}
